//! Message passing between the processes of one program (paper 001): which receive gets which message, and which machine
//! is slow.

mod envelope;
mod matching;
mod pace;
mod unexpected;

pub use envelope::{ContextHasher, Envelope, Pattern};
pub use matching::Matching;
pub use pace::{Limit, Pace, Slow};
