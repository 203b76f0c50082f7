//! What recruiting is, wherever the interpreters are.

use bytes::Bytes;
use phalanx_core::event::Cause;
use phalanx_core::ids::InterpreterId;
use phalanx_core::level::{Agreed, Conflict};
use phalanx_core::wire::machines::Kind;
use phalanx_net::identity::IdentityError;
use phalanx_net::link::{Link, Reader};
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// How to start an interpreter on this machine.
#[derive(Debug, Clone)]
pub struct Start {
    /// The Python executable and its arguments.
    pub command: Vec<String>,
    /// Where the user's modules are found.
    pub path: Vec<String>,
    /// Python's version, like `3.11`.
    pub python: String,
}

/// Why no interpreter can be had.
#[derive(Debug, Error)]
pub enum RecruitError {
    #[error("{asked} interpreters were asked for, but the machines offer {offered}: {offers}")]
    Contract { asked: u32, offered: u32, offers: String },
    #[error("{0}")]
    Unreachable(String),
    #[error(transparent)]
    Level(#[from] Conflict),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("an interpreter cannot be started: {0}")]
    Start(#[from] io::Error),
}

/// An interpreter that was recruited: its link, and what keeps it alive.
pub struct Recruit {
    pub link: Arc<Link>,
    pub reader: Reader,
    pub name: String,
    pub machine: String,
    /// How its link is protected, and why.
    pub agreed: Agreed,
    pub hold: Box<dyn Hold>,
}

/// What keeps an interpreter alive; dropping it ends the interpreter.
pub trait Hold: Send {
    /// Ends the interpreter if it has not ended.
    fn end(&mut self);
    /// The same; and how it ended, which may take a moment to learn.
    fn cause(&mut self) -> Cause;
    /// Whether the interpreter is seen to have ended by itself.
    fn has_ended(&self) -> bool {
        false
    }
    /// What the interpreter printed and did not send any more, once it has ended.
    fn last_words(&mut self) -> Vec<(Kind, Bytes)> {
        Vec::new()
    }
    /// Whether its process is seen to live now, and is not stopped: then it is silent only because its machine is busy.
    fn is_alive(&self) -> bool;
}

/// A place that interpreters are recruited from.
pub trait Source: Send + Sync {
    /// How many to recruit when the user does not say.
    fn offered(&self) -> u32;
    /// One more interpreter; takes as long as it takes to start one, or to find that none can be had.
    fn recruit(&self, id: InterpreterId) -> Result<Recruit, RecruitError>;
    /// Lets go of the machines; nothing is recruited any more.
    fn close(&self) {}
}
