//! From a place that the user names to links to interpreters there: the one function that new ways to reach
//! machines are added to.

use crate::interpreter::Process;
use crate::local::ThisMachine;
use crate::remote::{Executors, Requested};
use phalanx_core::ids::InterpreterId;
use phalanx_core::level::Policy;
use phalanx_net::address::Address;
use phalanx_net::identity::{IdentityError, Member};
use phalanx_net::link::{Link, Reader};
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Where interpreters are to be recruited.
#[derive(Debug, Clone)]
pub enum Place {
    /// Processes of this machine.
    ThisMachine,
    /// The executors at these addresses.
    Executors { addresses: Vec<Address>, member: Box<Member> },
}

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
    Identity(#[from] IdentityError),
    #[error("an interpreter cannot be started: {0}")]
    Start(#[from] io::Error),
}

/// An interpreter that was recruited: its link, and what keeps it alive.
#[derive(Debug)]
pub struct Recruit {
    pub link: Arc<Link>,
    pub reader: Reader,
    pub name: String,
    pub machine: String,
    pub hold: Hold,
}

/// Dropping it ends the interpreter.
#[derive(Debug)]
pub enum Hold {
    Process(Process),
    Requested(Requested),
}

impl Hold {
    /// How the interpreter ended; ends it if it has not.
    pub fn end(&mut self) -> String {
        match self {
            Hold::Process(process) => process.end(),
            Hold::Requested(requested) => requested.end(),
        }
    }
}

/// A place that interpreters are recruited from.
pub trait Source: Send + Sync {
    /// How many to recruit when the user does not say.
    fn offered(&self) -> u32;
    /// One more interpreter; takes as long as it takes to start one, or to find that none can be had.
    fn recruit(&self, id: InterpreterId) -> Result<Recruit, RecruitError>;
}

/// Reaches the place. `asked`: the contract, which the machines must be able to meet.
pub fn connect(
    place: Place,
    policy: Policy,
    start: Start,
    asked: Option<u32>,
) -> Result<Box<dyn Source>, RecruitError> {
    match place {
        Place::ThisMachine => Ok(Box::new(ThisMachine::new(policy, start)?)),
        Place::Executors { addresses, member } => {
            Ok(Box::new(Executors::connect(addresses, *member, policy, start.python, asked)?))
        }
    }
}
