//! Interpreters on this machine: children of the user's own process.

use crate::interpreter::{Begin, Process, Secrets};
use crate::recruit::{Hold, Recruit, RecruitError, Source, Start};
use phalanx_core::ids::InterpreterId;
use phalanx_core::level::{Level, Policy, Reach, decide};
use phalanx_core::wire::MAX_BODY;
use phalanx_net::identity::KeyedCertificate;
use phalanx_net::link::Link;
use phalanx_net::socket::Socket;
use phalanx_net::tls::handshake;
use std::time::{Duration, Instant};

/// The name users see for where they are.
const MACHINE: &str = "this-machine";
/// Starting Python on a busy machine, and the handshake.
const START_PATIENCE: Duration = Duration::from_secs(30);

pub struct ThisMachine {
    level: Level,
    start: Start,
    /// The manager's end of private links.
    own: KeyedCertificate,
}

impl ThisMachine {
    pub fn new(policy: Policy, start: Start) -> Result<ThisMachine, RecruitError> {
        let own = KeyedCertificate::ephemeral()?;
        Ok(ThisMachine { level: decide(policy, Reach::SameMachine), start, own })
    }
}

impl Hold for Process {
    fn end(&mut self) -> String {
        Process::end(self)
    }

    fn has_ended(&self) -> bool {
        Process::has_ended(self)
    }
}

impl Source for ThisMachine {
    fn offered(&self) -> u32 {
        std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
    }

    fn recruit(&self, id: InterpreterId) -> Result<Recruit, RecruitError> {
        let theirs = match self.level {
            Level::Clear => None,
            Level::Private => Some(KeyedCertificate::ephemeral()?),
        };
        let secrets = theirs.as_ref().map(|theirs| Secrets::new(theirs, &self.own.certificate));
        let begin = Begin { machine: MACHINE.to_owned(), path: self.start.path.clone(), secrets };
        let process = Process::start(&self.start.command, &begin)?;
        let (mut data, child_end) = Socket::pair()?;
        process.give(&child_end)?;
        drop(child_end);
        let shaken = match theirs {
            None => None,
            Some(theirs) => {
                let connection = self.own.client_of(&theirs.certificate)?;
                Some(handshake(connection, self.level, &mut data.until(Instant::now() + START_PATIENCE))?)
            }
        };
        let (link, reader) = Link::new(data, shaken, MAX_BODY)?;
        let name = format!("{MACHINE}/{}", id.0);
        Ok(Recruit { link, reader, name, machine: MACHINE.to_owned(), hold: Box::new(process) })
    }
}
