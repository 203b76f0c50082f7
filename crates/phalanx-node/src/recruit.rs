//! The interface for recruiting interpreters, wherever they are.

use bytes::Bytes;
use phalanx_core::event::{Cause, Lack};
use phalanx_core::hub::Needs;
use phalanx_core::ids::InterpreterId;
use phalanx_core::level::{Agreed, Conflict};
use phalanx_core::wire::Given;
use phalanx_core::wire::hub::Facts;
use phalanx_core::wire::machines::Kind;
use phalanx_net::identity::{IdentityError, Scope};
use phalanx_net::link::{Link, Reader};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Time for which a delegation is good. While the program runs, it is renewed after a third of this time.
pub const LASTS: Duration = Duration::from_secs(3600);

/// How to start an interpreter.
#[derive(Debug, Clone)]
pub struct Start {
    /// The Python executable and its arguments.
    pub command: Vec<String>,
    /// The folders of the user's modules.
    pub path: Vec<String>,
    /// Python's version, like `3.11`.
    pub python: String,
    /// The bytes of memory that each interpreter may use, with what it starts, here and at executors. `None`: no limit but that of its
    /// machine.
    pub memory: Option<u64>,
}

/// Why no interpreter can be recruited.
#[derive(Debug, Error)]
pub enum RecruitError {
    /// The machines offer fewer interpreters than the contract asks for.
    #[error("{asked} interpreters were asked for, but the machines offer {offered}: {offers}")]
    Contract {
        /// The number that the contract asks for.
        asked: u32,
        /// The number that the machines offer together.
        offered: u32,
        /// What each machine offers, for people.
        offers: String,
    },
    /// A machine cannot be reached, or refuses.
    #[error("{0}")]
    Unreachable(String),
    /// Owners have closed machines for a while, and no other machine has an interpreter.
    #[error("{0}")]
    Closed(String),
    /// No level is left for a link.
    #[error(transparent)]
    Level(#[from] Conflict),
    /// The user's certificate is missing or wrong.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Another member answers than the one that is expected.
    #[error("{0}")]
    Unexpected(String),
    /// The operating system cannot start a process.
    #[error("an interpreter cannot be started: {0}")]
    Start(#[from] io::Error),
}

/// A recruited interpreter: its link, and the hold that keeps it alive.
pub struct Recruit {
    /// The sending half of its link.
    pub link: Arc<Link>,
    /// The receiving half of its link.
    pub reader: Reader,
    /// The name of the interpreter.
    pub name: String,
    /// The machine that it runs on.
    pub machine: String,
    /// The link's levels, and what decided them.
    pub agreed: Agreed,
    /// Ends the interpreter when it is dropped.
    pub hold: Box<dyn Hold>,
    /// What the interpreter has.
    pub has: Has,
}

/// What an interpreter has, and what its machine has.
#[derive(Debug, Clone, Default)]
pub struct Has {
    /// The interpreter: of the graphics processors, only those that are its own.
    pub own: Arc<Facts>,
    /// The machine.
    pub machine: Arc<Facts>,
}

impl Has {
    /// What an interpreter has that has so many graphics processors of its own.
    pub fn new(machine: Facts, gpus: u32) -> Has {
        let mut own = machine.clone();
        own.insert(GPUS.to_owned(), gpus.to_string());
        Has { own: Arc::new(own), machine: Arc::new(machine) }
    }
}

/// The fact that says how many graphics processors there are.
pub const GPUS: &str = "gpus";

/// Why no interpreter that has what is needed can be recruited: for how long, and in words.
pub type Missing = (Lack, String);

/// Keeps an interpreter alive. Dropping it ends the interpreter.
pub trait Hold: Send {
    /// Ends the interpreter if it has not ended.
    fn end(&mut self);
    /// Ends the interpreter too, and returns how it ended. This may take a moment.
    fn cause(&mut self) -> Cause;
    /// Whether the interpreter is known to have ended by itself.
    fn has_ended(&self) -> bool {
        false
    }
    /// The output that an ended interpreter printed and did not send.
    fn last_words(&mut self) -> Vec<(Kind, Bytes)> {
        Vec::new()
    }
    /// What the user gives to the interpreter: with a delegation, unless the scope is empty. `None`: it is the user's own process
    /// and needs nothing.
    ///
    /// # Errors
    /// The user's key cannot sign it.
    fn delegate(&self, _scope: &Scope) -> Result<Option<Given>, IdentityError> {
        Ok(None)
    }
    /// Whether its process is known to be alive and not stopped. Then it is silent only because its machine is busy.
    fn is_alive(&self) -> bool;
}

/// A place that interpreters are recruited from.
pub trait Source: Send + Sync {
    /// How many interpreters to recruit if the user gives no number.
    fn offered(&self) -> u32;
    /// Recruits one more interpreter. Blocks until it has started, or until it is clear that none can be had.
    fn recruit(&self, id: InterpreterId) -> Result<Recruit, RecruitError>;
    /// Recruits one more interpreter that has what is needed. Blocks as [`Source::recruit`] does.
    ///
    /// # Errors
    /// There is none.
    fn recruit_for(&self, _id: InterpreterId, needs: &Needs) -> Result<Recruit, Missing> {
        Err((Lack::Never, format!("no interpreter here has {}", needs.words().join(", "))))
    }
    /// Finds out on which machines processes find these programs. Returns what is known now of the interpreters there. It may take
    /// a moment.
    fn learn(&self, _programs: &[String]) -> Vec<(InterpreterId, Has)> {
        Vec::new()
    }
    /// For each executor that has asked for interpreters: those that run there, and how many of them may stay.
    fn shares(&self) -> Vec<(Vec<InterpreterId>, u32)> {
        Vec::new()
    }
    /// What requests for interpreters wait for, for people. `None`: none waits.
    fn waits(&self) -> Option<String> {
        None
    }
    /// Releases the machines. Nothing is recruited afterwards.
    fn close(&self) {}
}
