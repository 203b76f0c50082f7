//! Message passing between the processes of one program (paper 001): which receive gets which message, and which machine
//! is slow.

mod matching;
mod pace;
mod unexpected;

pub use matching::{ContextHasher, Envelope, Matching, Pattern};
pub use pace::{Limit, Pace, Slow};
