//! Interpreters on this machine: children of the user's own process.

use crate::cage::is_program;
use crate::gpus::{Gpus, Taken};
use crate::interpreter::{Begin, Process, Secrets};
#[cfg(target_os = "linux")]
use crate::limits::Own;
use crate::recruit::{GPUS, Has, Hold, Missing, Recruit, RecruitError, Source, Start};
use bytes::Bytes;
use phalanx_core::event::{Cause, Lack};
use phalanx_core::hub::{HAS, Needs, answer};
use phalanx_core::ids::InterpreterId;
use phalanx_core::level::{Agreed, LevelSet, Policy};
use phalanx_core::wire::MAX_BODY;
use phalanx_core::wire::hub::Facts;
use phalanx_core::wire::machines::Kind;
use phalanx_net::identity::{KeyedCertificate, Role};
use phalanx_net::link::Link;
use phalanx_net::socket::Socket;
use phalanx_net::sync::lock;
use phalanx_net::tls::choose_ahead;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Most interpreters on this machine.
const MOST: usize = 1024;

/// The bytes of memory of this machine. 0: the system does not tell.
fn memory_of_machine() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    kilobytes.map_or(0, |kilobytes: u64| kilobytes << 10)
}

/// The machine name that users see for these interpreters.
const MACHINE: &str = "this-machine";
/// Timeout for starting Python on a busy machine, and for the handshake.
const START_PATIENCE: Duration = Duration::from_secs(30);

pub struct ThisMachine {
    /// The watch over the memory of the interpreters. `None`: nothing limits it.
    #[cfg(target_os = "linux")]
    memory: Option<Arc<Own>>,
    gpus: Arc<Gpus>,
    /// The programs that were looked for, as facts, and how many graphics processors each interpreter has.
    known: Mutex<(Facts, Vec<(InterpreterId, u32)>)>,
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
            gpus: Arc::new(Gpus::here()),
            known: Mutex::default(),
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
        self.start(id, None)
    }

    fn recruit_for(&self, id: InterpreterId, needs: &Needs) -> Result<Recruit, Missing> {
        let facts = self.facts();
        if !needs.are_met(&facts) {
            return Err((Lack::Never, needs.unmet_by("no machine of this program", &[(MACHINE, &facts)])));
        }
        let count = needs.gpus.try_into().unwrap_or(u32::MAX);
        let gpus =
            self.gpus.take(count).map_err(|why| (Lack::Busy, format!("{MACHINE} gives no interpreter: {why}")))?;
        self.start(id, gpus).map_err(|error| (Lack::Away, error.to_string()))
    }

    fn learn(&self, programs: &[String]) -> Vec<(InterpreterId, Has)> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |program: &String| std::env::split_paths(&path).any(|it| is_program(&it.join(program)));
        let found = programs.iter().map(|it| (it.clone(), is_there(it)));
        let mut known = lock(&self.known);
        known.0.extend(found.map(|(program, is_found)| (format!("{HAS}{program}"), answer(is_found).to_owned())));
        let numbers: Vec<(InterpreterId, u32)> = known.1.clone();
        drop(known);
        numbers.into_iter().map(|(id, gpus)| (id, Has::new(self.facts(), gpus))).collect()
    }
}

impl ThisMachine {
    /// What this machine has.
    fn facts(&self) -> Facts {
        let mut facts = lock(&self.known).0.clone();
        facts.insert("cores".to_owned(), self.offered().to_string());
        facts.insert("memory".to_owned(), memory_of_machine().to_string());
        facts.insert(GPUS.to_owned(), self.gpus.count().to_string());
        facts
    }

    /// Notes how many graphics processors an interpreter has. Those of old ones are forgotten.
    fn remember(&self, id: InterpreterId, gpus: u32) {
        let known = &mut lock(&self.known).1;
        if known.len() >= 2 * MOST {
            known.drain(..MOST);
        }
        known.push((id, gpus));
    }

    fn start(&self, id: InterpreterId, gpus: Option<Taken>) -> Result<Recruit, RecruitError> {
        let own = gpus.as_ref().map_or(0, |it| it.count());
        let levels = self.agreed.levels;
        let theirs = levels.need_handshake().then(KeyedCertificate::ephemeral).transpose()?;
        let secrets = theirs.as_ref().map(|theirs| Secrets::new(theirs, &self.own.certificate));
        let (machine, path, said) = (MACHINE.to_owned(), self.start.path.clone(), Vec::new());
        let begin = Begin { machine, path, opened: None, account: None, levels, said, secrets, papers: None };
        let process = Process::start(&self.start.command, &begin, None, gpus)?;
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
        self.remember(id, own);
        Ok(Recruit {
            has: Has::new(self.facts(), own),
            link,
            reader,
            name,
            machine: MACHINE.to_owned(),
            agreed: self.agreed.clone(),
            hold: Box::new(process),
        })
    }
}
