//! The launcher's side of an executor: reaches it, asks for places, sends the files, and receives events until all ranks have
//! ended.

use super::delegating::Delegating;
use super::happening::{Happening, Parcel, Teller};
use super::job::{Hosts, Staged};
use super::machine::Event;
use super::output::Output;
use super::streams::Taker;
use crate::control::{Pulse, tell};
use crate::credit::Credit;
use crate::dial::{DIAL_PATIENCE, call, check_version, printable, unreachable};
use crate::dialler::{Dialler, is_unexpected};
use crate::explain::stronger;
use bytes::Bytes;
use phalanx_core::level::{Agreed, Level, LevelSet, Levels, Mark, Policy};
use phalanx_core::wire::machines::{FromMachine, MOST_PIECE, Part, Source, ToMachine, Usage, WINDOW};
use phalanx_core::wire::ranks::{FromRank, ToRank};
use phalanx_core::wire::{decode, encode};
use phalanx_net::address::Address;
use phalanx_net::dial::{Expected, Introduced};
use phalanx_net::frames::Frame;
use phalanx_net::identity::Role;
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use phalanx_net::sync::lock;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

const PAUSE: Duration = Duration::from_millis(100);
/// A machine that has started its ranks counts as lost when it is silent for this long. Together with the time to tell the
/// other machines, everything then ends within two seconds.
const SILENCE: Duration = Duration::from_millis(1300);
/// Timeout for getting places, some of which may be about to become free.
const BEGIN_PATIENCE: Duration = Duration::from_secs(5);
/// Timeout for a machine to start its ranks.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Most answers that may arrive before the launcher asks for them.
const MOST_ANSWERS: usize = 8;

/// An executor that was reached. Dropping it ends what runs there.
pub struct Host {
    pub name: String,
    pub ip: IpAddr,
    pub room: Room,
    pub address: Address,
    shared: Arc<Shared>,
    answers: Mutex<Receiver<FromMachine>>,
}

/// The places of an executor for the program that asks.
#[derive(Debug, Clone, Default)]
pub struct Room {
    pub free: u32,
    /// How many would be free if other users gave back what they have above their shares.
    pub fair: u32,
    /// Who holds the places.
    pub usage: Usage,
    /// Why the executor takes no ranks now.
    pub closed: Option<String>,
}

/// Why an executor does not take part.
#[derive(Debug, Error)]
#[error("{why}")]
pub struct Unreached {
    why: String,
    /// Another member answered than the one that is expected.
    pub is_stranger: bool,
}

impl From<String> for Unreached {
    fn from(why: String) -> Unreached {
        Unreached { why, is_stranger: false }
    }
}

/// State shared by the host's threads.
struct Shared {
    link: Arc<Link>,
    delegating: Delegating,
    /// Credit for the pieces of files and of standard input.
    credit: Credit,
    /// The machine's number in the program, and its ranks, once they are known.
    part: Mutex<Option<(usize, Range<u32>)>>,
    /// Bytes of output that have arrived and are not written yet.
    unwritten: AtomicUsize,
    /// The same of files that ranks have saved.
    unstored: Arc<AtomicUsize>,
    started: AtomicBool,
    /// All output has arrived and no more is wanted, so the link may end.
    drained: AtomicBool,
    forgotten: AtomicBool,
    /// All output was written, or no more will come.
    silent: AtomicBool,
    /// Why the machine has ended the ranks there, if its owner has closed it.
    closed: Mutex<Option<String>>,
    ip: IpAddr,
}

/// A machine's number before places are assigned.
const UNKNOWN: usize = usize::MAX;

impl Host {
    /// Reaches an executor and gets its offer to the user's program that starts the ranks. Events of its ranks arrive as
    /// happenings, and their output goes to `output`.
    pub fn reach(address: &Address, hosts: &Hosts, output: Output, happenings: Teller) -> Result<Host, Unreached> {
        let failed = |error: io::Error| unreachable(address, &error);
        let called = Host::call(address, &hosts.dialler)?;
        let name = called.name().map_err(|error| error.to_string())?;
        let ip = called.address().map_err(failed)?.ip();
        let delegating = Delegating::new(hosts, called.certificate());
        let (link, reader) = called.link(MOST_PIECE as u64).map_err(failed)?;
        let (part, unwritten, unstored) = (Mutex::new(None), AtomicUsize::new(0), Arc::default());
        let [started, drained, forgotten, silent] = [const { AtomicBool::new(false) }; 4];
        let (credit, closed) = (Credit::new(WINDOW), Mutex::default());
        let shared = Arc::new(Shared {
            link,
            delegating,
            credit,
            part,
            unwritten,
            unstored,
            started,
            drained,
            forgotten,
            silent,
            closed,
            ip,
        });
        let (answered, answers) = sync_channel(MOST_ANSWERS);
        let (written, to_write) = channel();
        let reading = Reading { shared: shared.clone(), answered, written, happenings: happenings.clone() };
        thread::Builder::new().name("phalanx-host".into()).spawn(move || reading.run(reader)).map_err(failed)?;
        let writing = shared.clone();
        let write = move || writing.write(&to_write, output, &happenings);
        thread::Builder::new().name("phalanx-output".into()).spawn(write).map_err(failed)?;
        let (room, answers) = (Room::default(), Mutex::new(answers));
        let mut host = Host { name, ip, room, address: address.clone(), shared, answers };
        host.room = host.ask(hosts.program, 0)?;
        Ok(host)
    }

    /// Asks for an offer to the user's program. Until it begins, places for `wants` ranks are kept for it as they become free.
    pub fn ask(&self, program: [u8; 16], wants: u32) -> Result<Room, String> {
        self.tell(&ToMachine::Ask { program, wants });
        match self.answer(DIAL_PATIENCE)? {
            FromMachine::Offer { free, fair, usage, phalanx, closed, .. } => {
                check_version(&self.address, &phalanx)?;
                Ok(Room { free, fair, usage, closed: closed.as_deref().map(printable) })
            }
            _ => Err(format!("{} offers nothing", self.address)),
        }
    }

    fn call(address: &Address, dialler: &Dialler) -> Result<Introduced, Unreached> {
        let client = dialler.member().client_of(Role::Executor).map_err(|error| error.to_string())?;
        let called = call(address, Expected::Judged(&client, &dialler.at(address)), Preamble::Ranks);
        called.map_err(|error| Unreached { why: unreachable(address, &error), is_stranger: is_unexpected(&error) })
    }

    /// Asks for places, and delegates to the ranks there what the user allows. For each machine of the program, the answer names
    /// the levels that links between its ranks and those of this one may have.
    pub fn begin(
        &self,
        part: Part,
        number: usize,
        machines: &[IpAddr],
        program: [u8; 16],
    ) -> Result<Vec<[LevelSet; 3]>, String> {
        let its = if part.base == 0 { number } else { UNKNOWN };
        *lock(&self.shared.part) = Some((its, part.first..part.first + part.count()));
        let machines = machines.to_vec();
        let count = machines.len();
        self.tell(&ToMachine::Begin { part, machine: number as u32, machines, program });
        match self.answer(BEGIN_PATIENCE)? {
            FromMachine::Begun { levels, certificate } if levels.len() == count => {
                let delegation = self.shared.delegating.begin(certificate);
                let delegation = delegation.map_err(|error| format!("{}: {error}", self.address))?;
                self.tell(&delegation);
                Ok(levels)
            }
            _ => Err(format!("{} does not keep to the protocol", self.address)),
        }
    }

    /// Sets the machine's number, which is known only after places are assigned. Returns whether the end of its output is still
    /// going to be reported.
    pub fn set_number(&self, number: usize) -> bool {
        let mut part = lock(&self.shared.part);
        if let Some((its, _)) = &mut *part {
            *its = number;
        }
        part.is_some() && !self.shared.silent.load(Ordering::Relaxed)
    }

    /// The ranks have ended, or were never started. The link ends after their output.
    pub fn forget(&self) {
        self.shared.forgotten.store(true, Ordering::SeqCst);
        if self.shared.drained.load(Ordering::SeqCst) || !self.shared.started.load(Ordering::Acquire) {
            self.shared.link.close();
        }
    }

    /// Sends the files, and lets the ranks start.
    pub fn start(&self, files: &[Staged]) -> Result<(), String> {
        for file in files {
            self.send(file)
                .map_err(|error| format!("{} does not get {}: {error}", self.address, file.path.display()))?;
        }
        self.tell(&ToMachine::Start);
        match self.answer(START_PATIENCE)? {
            FromMachine::Started => Ok(()),
            _ => Err(format!("{} does not keep to the protocol", self.address)),
        }
    }

    fn send(&self, file: &Staged) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let mut opened = File::open(&file.path)?;
        let executable = opened.metadata()?.permissions().mode() & 0o111 != 0;
        self.tell(&ToMachine::File { name: file.name.clone(), executable });
        let mut buffer = vec![0; MOST_PIECE];
        loop {
            let count = opened.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            if !self.shared.credit.take(count) {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            self.shared.tell_with(&ToMachine::Piece, &buffer[..count]);
        }
    }

    /// The next answer of the executor, during the conversation before the start.
    fn answer(&self, patience: Duration) -> Result<FromMachine, String> {
        match lock(&self.answers).recv_timeout(patience) {
            Ok(FromMachine::Refused { reason }) => Err(format!("{}: {}", self.address, printable(&reason))),
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => Err(format!("{} does not answer", self.address)),
            Err(RecvTimeoutError::Disconnected) => Err(format!("the connection to {} ended", self.address)),
        }
    }

    pub fn tell_ranks(&self, ranks: Vec<u32>, message: ToRank) {
        self.tell(&ToMachine::Tell { ranks, message });
    }

    /// Tells the machine that its ranks save files of their own. To be called between `begin` and `start`.
    pub fn survive(&self, restarts: u32, step: Option<u64>) {
        self.tell(&ToMachine::Survive { restarts, step });
    }

    /// Asks for the ranks' files of a step.
    pub fn fetch(&self, step: u64) {
        self.tell(&ToMachine::Fetch { step });
    }

    /// The ranks' files of older steps may be removed.
    pub fn release(&self, step: u64) {
        self.tell(&ToMachine::Release { step });
    }

    pub fn signal(&self, number: i32) {
        self.tell(&ToMachine::Signal { number });
    }

    /// The function that passes standard input on to rank 0 on this machine. It returns false once the machine is gone.
    pub fn input(&self) -> impl FnMut(&[u8]) -> bool + Send + 'static {
        let shared = self.shared.clone();
        move |bytes| {
            let mut pieces = bytes.chunks(MOST_PIECE);
            let sent =
                pieces.all(|piece| shared.credit.take(piece.len()) && shared.tell_with(&ToMachine::Input, piece));
            sent && (!bytes.is_empty() || shared.tell_with(&ToMachine::Input, &[]))
        }
    }

    fn tell(&self, message: &ToMachine) {
        tell(&self.shared.link, message);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.link.close();
        self.shared.credit.close();
    }
}

impl Shared {
    /// Notes that all output has arrived. Returns whether no more is wanted.
    fn drain(&self) -> bool {
        self.drained.store(true, Ordering::SeqCst);
        self.forgotten.load(Ordering::SeqCst)
    }

    fn tell_with(&self, message: &ToMachine, body: &[u8]) -> bool {
        let start = encode(message, body.len() as u64);
        let body = if body.is_empty() { Vec::new() } else { vec![Bytes::copy_from_slice(body)] };
        self.link.send(Mark::None, start, body).is_ok()
    }

    /// Writes output as it arrives, and acknowledges it, until no more comes. An empty piece marks a stream's end.
    fn write(&self, pieces: &Receiver<(Source, Bytes)>, mut output: Output, happenings: &Teller) {
        let mut waits = false;
        loop {
            let piece = match waits {
                true => pieces.recv_timeout(PAUSE),
                false => pieces.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match piece {
                Ok((source, bytes)) if bytes.is_empty() => output.end(source),
                Ok((source, bytes)) => {
                    output.take(source, &bytes);
                    self.unwritten.fetch_sub(bytes.len(), Ordering::Relaxed);
                    tell(&self.link, &ToMachine::Taken { bytes: bytes.len() as u32 });
                    waits = true;
                }
                Err(RecvTimeoutError::Timeout) => waits = output.pause(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let part = lock(&self.part);
        self.silent.store(true, Ordering::Relaxed);
        if part.as_ref().is_some_and(|(its, _)| *its != UNKNOWN) {
            happenings.send(Happening::Drained);
        }
    }
}

/// The state of the thread that reads a host's link.
struct Reading {
    shared: Arc<Shared>,
    answered: SyncSender<FromMachine>,
    written: Sender<(Source, Bytes)>,
    happenings: Teller,
}

impl Reading {
    fn run(self, reader: Reader) {
        let (mut pulse, mut is_patient) = (Pulse::new(), true);
        let Reading { shared, answered, written, happenings } = self;
        let mut written = Some(written); // dropping it ends the writing thread
        let reading = Frames { shared: &shared, answered, happenings: &happenings };
        let error = reader.run(
            PAUSE,
            |frame| {
                if !reading.on_frame(frame, &mut written) {
                    shared.link.close();
                }
            },
            |link| {
                if is_patient && shared.started.load(Ordering::Acquire) {
                    is_patient = false;
                    pulse.set_silence(SILENCE);
                }
                pulse.pause(link, &ToMachine::Beat);
                shared.delegating.renew(Instant::now()).iter().for_each(|message| tell(link, message));
            },
        );
        shared.credit.close();
        if let Some((machine, _)) = lock(&shared.part).clone().filter(|(its, _)| *its != UNKNOWN) {
            let why = match error {
                _ if lock(&shared.closed).is_some() => lock(&shared.closed).take().unwrap_or_default(),
                phalanx_net::link::LinkError::Closed => "its machine does not answer".to_owned(),
                error => format!("its machine is gone: {error}"),
            };
            happenings.send(Happening::Gone { machine, why });
        }
    }
}

struct Frames<'a> {
    shared: &'a Shared,
    answered: SyncSender<FromMachine>,
    happenings: &'a Teller,
}

impl Frames<'_> {
    /// Handles a frame. Returns false if the machine breaks the protocol.
    fn on_frame(&self, frame: Frame, written: &mut Option<Sender<(Source, Bytes)>>) -> bool {
        let Ok(message) = decode(&frame.header) else { return false };
        let event = match message {
            FromMachine::Beat => return true,
            FromMachine::Taken { bytes } => {
                self.shared.credit.give(bytes);
                return true;
            }
            FromMachine::Output { source } => {
                return self.is_here(source.rank) && self.write(source, frame.body, written);
            }
            FromMachine::Drained => {
                *written = None;
                return !self.shared.drain();
            }
            FromMachine::Said { rank, mut message } => {
                if let FromRank::Joined { listens: Some(listens) } | FromRank::Listens { listens, .. } = &mut message {
                    // other machines reach the rank at the address by which the user's machine does
                    listens.address.set_ip(self.shared.ip);
                }
                Event::Said { rank, message }
            }
            FromMachine::Closed { why } => {
                *lock(&self.shared.closed) = Some(format!("its machine was closed: {}", printable(&why)));
                // Before the start, the conversation waits for an answer.
                return self.shared.started.load(Ordering::Acquire)
                    || self
                        .answered
                        .try_send(FromMachine::Refused { reason: format!("it was closed: {why}") })
                        .is_ok();
            }
            FromMachine::Nonsense { rank } => Event::Nonsense { rank },
            FromMachine::Ended { rank, exit } => Event::Ended { rank, exit },
            FromMachine::Completed { rank, step } => {
                return self.is_here(rank) && self.happenings.send(Happening::Completed { rank, step });
            }
            FromMachine::StepFile { .. } | FromMachine::StepPiece | FromMachine::Fetched { .. } => {
                return self.pass_on(message, frame.body);
            }
            FromMachine::Refused { reason } if self.shared.started.load(Ordering::Acquire) => {
                self.happenings.send(Happening::Trouble(printable(&reason)));
                return false; // the machine may have started nothing, so no end of it would ever be reported
            }
            answer => {
                if answer == FromMachine::Started {
                    self.shared.started.store(true, Ordering::Release);
                }
                return self.answered.try_send(answer).is_ok();
            }
        };
        let (Event::Said { rank, .. } | Event::Nonsense { rank } | Event::Ended { rank, .. }) = &event;
        self.is_here(*rank) && self.happenings.send(Happening::Event(event))
    }

    /// Passes files that ranks have saved on to the thread that writes them, which acknowledges them.
    fn pass_on(&self, message: FromMachine, bytes: Bytes) -> bool {
        let Some((machine, ranks)) = lock(&self.shared.part).clone().filter(|(its, _)| *its != UNKNOWN) else {
            return false;
        };
        let Some(parcels) = &self.happenings.parcels else { return false };
        if self.shared.unstored.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len() > WINDOW {
            return false;
        }
        let (link, unstored) = (self.shared.link.clone(), self.shared.unstored.clone());
        let receipt = Arc::new(move |bytes: u32| {
            unstored.fetch_sub(bytes as usize, Ordering::Relaxed);
            tell(&link, &ToMachine::Stored { bytes });
        });
        let happenings = self.happenings.clone();
        parcels.send(Parcel { happenings, machine, ranks, message, bytes, receipt }).is_ok()
    }

    fn is_here(&self, rank: u32) -> bool {
        lock(&self.shared.part).as_ref().is_some_and(|(_, ranks)| ranks.contains(&rank))
    }

    fn write(&self, source: Source, bytes: Bytes, written: &Option<Sender<(Source, Bytes)>>) -> bool {
        let unwritten = self.shared.unwritten.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        let Some(written) = written.as_ref().filter(|_| unwritten <= WINDOW) else { return false };
        written.send((source, bytes)).is_ok()
    }
}

/// The levels of links between each two machines. `offered[one][other]` is what machine `one` accepts for links with `other`.
/// If one of the two has not been asked yet, the link is private. It is not used before that machine was asked.
pub fn levels(
    policy: &Policy,
    ips: &[IpAddr],
    offered: &[Option<Vec<[LevelSet; 3]>>],
) -> Result<Vec<Vec<Levels>>, String> {
    let agree = |to: usize, takes: [LevelSet; 3]| -> Result<Agreed, String> {
        let place = policy.place(Some(ips[to]), Role::Executor.name());
        policy.agree(&place, takes).map_err(|conflict| format!("{}: {conflict}", ips[to]))
    };
    let between = |one: usize, other: usize| {
        if one == other {
            return Ok(Levels::all(Level::Clear));
        }
        let (Some(here), Some(there)) = (&offered[one], &offered[other]) else {
            return Ok(Levels::all(Level::Private));
        };
        let takes = Mark::ALL.map(|mark| here[other][mark as usize].both(there[one][mark as usize]));
        Ok(stronger(agree(one, takes)?, agree(other, takes)?).levels)
    };
    let all = 0..ips.len();
    all.clone().map(|one| all.clone().map(|other| between(one, other)).collect()).collect()
}
