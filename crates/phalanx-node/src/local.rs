//! Interpreters on this machine: children of the user's own process.

use crate::interpreter::{Begin, Process, Secrets};
#[cfg(target_os = "linux")]
use crate::limits::Own;
use crate::recruit::{Hold, Recruit, RecruitError, Source, Start};
use bytes::Bytes;
use phalanx_core::event::Cause;
use phalanx_core::ids::InterpreterId;
use phalanx_core::level::{Agreed, LevelSet, Policy};
use phalanx_core::wire::MAX_BODY;
use phalanx_core::wire::machines::Kind;
use phalanx_net::identity::{KeyedCertificate, Role};
use phalanx_net::link::Link;
use phalanx_net::socket::Socket;
use phalanx_net::tls::choose_ahead;
#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The machine name that users see for these interpreters.
const MACHINE: &str = "this-machine";
/// Timeout for starting Python on a busy machine, and for the handshake.
const START_PATIENCE: Duration = Duration::from_secs(30);

pub struct ThisMachine {
    /// The watch over the memory of the interpreters. `None`: nothing limits it.
    #[cfg(target_os = "linux")]
    memory: Option<Arc<Own>>,
    agreed: Agreed,
    start: Start,
    /// The manager's certificate, for links with a handshake.
    own: KeyedCertificate,
}

impl ThisMachine {
    pub fn new(policy: &Policy, start: Start) -> Result<ThisMachine, RecruitError> {
        let place = policy.place(None, Role::Executor.name());
        let agreed = policy.agree(&place, [LevelSet::EVERY; 3])?;
        #[cfg(not(target_os = "linux"))]
        if start.memory.is_some() {
            let why = "this system does not tell how much memory an interpreter uses: leave memory= out, or use Linux";
            return Err(RecruitError::Unreachable(why.to_owned()));
        }
        #[cfg(target_os = "linux")]
        let memory = start.memory.map(Own::begin).transpose()?;
        Ok(ThisMachine {
            #[cfg(target_os = "linux")]
            memory,
            agreed,
            start,
            own: KeyedCertificate::ephemeral()?,
        })
    }
}

#[cfg(target_os = "linux")]
impl ThisMachine {
    fn watched(&self, mut process: Process) -> Process {
        self.memory.iter().for_each(|memory| process.watch(memory));
        process
    }
}

impl Hold for Process {
    fn end(&mut self) {
        Process::end(self);
    }

    fn cause(&mut self) -> Cause {
        Process::end(self)
    }

    fn has_ended(&self) -> bool {
        Process::has_ended(self)
    }

    fn last_words(&mut self) -> Vec<(Kind, Bytes)> {
        Process::last_words(self)
    }

    fn is_alive(&self) -> bool {
        Process::is_alive(self)
    }
}

impl Source for ThisMachine {
    fn offered(&self) -> u32 {
        std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
    }

    fn recruit(&self, id: InterpreterId) -> Result<Recruit, RecruitError> {
        let levels = self.agreed.levels;
        let theirs = levels.need_handshake().then(KeyedCertificate::ephemeral).transpose()?;
        let secrets = theirs.as_ref().map(|theirs| Secrets::new(theirs, &self.own.certificate));
        let (machine, path, said) = (MACHINE.to_owned(), self.start.path.clone(), Vec::new());
        let begin = Begin { machine, path, opened: None, account: None, levels, said, secrets, papers: None };
        let process = Process::start(&self.start.command, &begin, None)?;
        #[cfg(target_os = "linux")]
        let process = self.watched(process);
        let (mut data, child_end) = Socket::pair()?;
        process.give(&child_end)?;
        drop(child_end);
        let (link, reader) = match theirs {
            None => Link::sharing(data, MAX_BODY)?,
            Some(theirs) => {
                let connection = self.own.client_of(&theirs.certificate)?;
                let until = Instant::now() + START_PATIENCE;
                let shaken = choose_ahead(connection, levels, &[], &mut data.until(until))?;
                Link::new(data, Some(shaken), MAX_BODY)?
            }
        };
        let name = format!("{MACHINE}/{}", id.0);
        Ok(Recruit {
            link,
            reader,
            name,
            machine: MACHINE.to_owned(),
            agreed: self.agreed.clone(),
            hold: Box::new(process),
        })
    }
}
