//! From a place that the user names to links to interpreters there: the one function that new ways to reach
//! machines are added to.

use crate::local::ThisMachine;
use crate::recruit::{RecruitError, Source, Start};
use crate::remote::Executors;
use phalanx_core::level::Policy;
use phalanx_net::address::Address;
use phalanx_net::identity::Member;

/// Where interpreters are to be recruited.
#[derive(Debug, Clone)]
pub enum Place {
    /// Processes of this machine.
    ThisMachine,
    /// The executors at these addresses, which know the user's program by this token.
    Executors { addresses: Vec<Address>, member: Box<Member>, program: [u8; 16] },
}

/// Reaches the place. `asked`: the contract, which the machines must be able to meet.
pub fn connect(
    place: Place,
    policy: Policy,
    start: Start,
    asked: Option<u32>,
) -> Result<Box<dyn Source>, RecruitError> {
    match place {
        Place::ThisMachine => Ok(Box::new(ThisMachine::new(&policy, start)?)),
        Place::Executors { addresses, member, program } => {
            Ok(Box::new(Executors::connect(addresses, (&member, program), policy, start.python, asked)?))
        }
    }
}
