//! Message passing between the processes of one program (paper 001): which receive gets which message.

mod matching;

pub use matching::{Envelope, Matching, Pattern};
