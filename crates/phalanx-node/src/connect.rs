//! Turns a place that the user names into links to interpreters there. New ways to reach machines are added to the function in
//! this module.

use crate::dialler::Dialler;
use crate::local::ThisMachine;
use crate::recruit::{RecruitError, Source, Start};
use crate::remote::{Asks, Executors};
use phalanx_core::hub::Needs;
use phalanx_core::level::Policy;
use phalanx_net::address::Address;

/// The place where interpreters are to be recruited.
#[derive(Debug, Clone)]
pub enum Place {
    /// Child processes on this machine.
    ThisMachine,
    /// The executors at these addresses. `program` is the token by which they recognise the user's program.
    Executors {
        /// The addresses of the executors.
        addresses: Vec<Address>,
        /// The grid whose executors these are, and what is needed of them; those that come later and have it are recruited, too. `None`:
        /// only these.
        grid: Option<(String, Needs)>,
        /// The user's identity, and whom it expects.
        dialler: Box<Dialler>,
        /// The token by which the executors recognise the user's program.
        program: [u8; 16],
    },
}

/// Reaches the place. `asked` is the contract, which the machines must be able to meet.
pub fn connect(
    place: Place,
    policy: Policy,
    start: Start,
    asked: Option<u32>,
) -> Result<Box<dyn Source>, RecruitError> {
    match place {
        Place::ThisMachine => Ok(Box::new(ThisMachine::new(&policy, start)?)),
        Place::Executors { addresses, grid, dialler, program } => {
            let asks = Asks { program, memory: start.memory, gpus: 0 };
            Ok(Box::new(Executors::connect((addresses, grid), (&dialler, asks), policy, start.python, asked)?))
        }
    }
}
