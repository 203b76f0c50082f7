//! The executor's side: runs the ranks of one program on this machine, for a launcher on another machine.

use super::delegated_file::DelegatedFile;
use super::machine::{Event, Machine};
use super::saving::{self, Order, Saving};
use super::streams::{self, Taker};
use crate::activity::Activity;
use crate::cage::Cage;
use crate::control::{Pulse, tell};
use crate::credit::Credit;
use crate::metering::{Meter, Metered};
use crate::places::{Holder, Model, Places, Share, Wanted};
use crate::scratch::Folder;
use bytes::Bytes;
use phalanx_core::level::{LevelSet, Mark, Policy};
use phalanx_core::wire::hub::What;
use phalanx_core::wire::machines::{Exit, FromMachine, MOST_PIECE, Part, Source, ToMachine, WINDOW};
use phalanx_core::wire::ranks::{CHECKPOINTS, Entry, MOST_RANKS, ToRank, frame};
use phalanx_core::wire::{Given, Version, decode, encode};
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Member, Role};
use phalanx_net::link::{Link, LinkError, Reader};
use phalanx_net::sync::lock;
use rustix::io::Errno;
use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(100);
/// How long a launcher may hold places, or have them kept, without starting its ranks, or sending more of their files.
const HOLD: Duration = Duration::from_secs(120);

/// What the machine's owner grants to programs.
pub struct Terms<'a> {
    /// The number of ranks that this machine can have.
    pub capacity: u32,
    /// The version of phalanx that this machine tells.
    pub phalanx: &'a Version,
    /// The user whose launcher this is.
    pub user: &'a str,
    /// The user's name in what all grids share: the places, and the folders of programs.
    pub known: &'a str,
    /// Where the launcher is. `None`: it did not come over the network.
    pub from: Option<IpAddr>,
    /// The user's certificate, in DER.
    pub certificate: &'a [u8],
    /// This machine.
    pub member: &'a Member,
    /// The places of this machine, from which the ranks' places are taken.
    pub places: &'a Arc<Places>,
    /// The levels that links of ranks may have.
    pub policy: &'a Policy,
    /// The program that the words `python` and `python3` stand for here.
    pub python: &'a str,
    /// Environment variables for each process, beside those of the cage.
    pub environment: &'a [(String, String)],
    /// What the processes may touch.
    pub cage: &'a Cage,
    /// The folders of the running programs.
    pub folders: &'a Folders,
    /// Takes places that managers did not give back in time.
    pub take_overdue: &'a dyn Fn(),
    /// Set when the executor ends.
    pub closed: &'a AtomicBool,
    /// What the executor's hub is told.
    pub activity: &'a Arc<Activity>,
    /// Counts what the processes use.
    pub meter: &'a Arc<Meter>,
}

/// The folders of programs that have a link, by the user and the program's token.
pub type Folders = Mutex<HashMap<(String, [u8; 16]), Weak<Folder>>>;

/// Serves a launcher until it is gone. By then everything that it started has ended.
pub fn serve(link: &Arc<Link>, reader: Reader, terms: &Terms<'_>) {
    let mut serving = Serving {
        link,
        terms,
        share: None,
        running: None,
        delegated: None,
        folder: None,
        part: None,
        machine: 0,
        is_killed: false,
        offered: Vec::new(),
        wanted: None,
        places: None,
        files: 0,
        survives: false,
        storing: Arc::new(Credit::new(WINDOW)),
    };
    let mut pulse = Pulse::new();
    let (held, waits, holds) = (Cell::new(Held::default()), Cell::new(false), Cell::new(false));
    let on_frame = |frame: Frame| {
        let received = serving.files;
        if let Err(error) = serving.on_frame(frame) {
            tell(link, &FromMachine::Refused { reason: error.to_string() });
        }
        let is_holding = serving.places.is_some() || serving.wanted.is_some();
        held.set(held.get().after(is_holding, serving.files > received, Instant::now()));
        holds.set(serving.part.is_some());
        waits.set(serving.wanted.is_some());
    };
    reader.run(PAUSE, on_frame, |link| {
        pulse.pause(link, &FromMachine::Beat);
        // Places are taken for those that wait, and each link does it for its own user's requests.
        if waits.get() {
            (terms.take_overdue)();
        }
        if held.get().is_too_long(Instant::now()) {
            let reason = format!("the places were held for {} s, and no rank was started", HOLD.as_secs());
            tell(link, &FromMachine::Refused { reason });
            link.close();
        }
        if terms.closed.load(Ordering::Acquire) {
            link.close();
        }
        if let Some(why) = terms.places.closed().filter(|_| holds.get()) {
            tell(link, &FromMachine::Closed { why });
            link.close();
        }
    });
}

/// Notices places that are held and not used, which others wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Held {
    /// Since when. `None`: no places are held, or their ranks are running.
    since: Option<Instant>,
}

impl Held {
    /// After a message. `holds`: places are held. `is_filling`: the message brought a part of a file.
    fn after(self, holds: bool, is_filling: bool, now: Instant) -> Held {
        Held { since: holds.then(|| self.since.filter(|_| !is_filling).unwrap_or(now)) }
    }

    fn is_too_long(self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.duration_since(since) >= HOLD)
    }
}

/// The state of one launcher here. Fields are dropped in their order, so that no process runs in a folder that is gone.
struct Serving<'a> {
    link: &'a Arc<Link>,
    terms: &'a Terms<'a>,
    /// The program's share of the places, once the program is known.
    share: Option<Share>,
    running: Option<Running>,
    /// What the user delegates to the ranks here.
    delegated: Option<DelegatedFile>,
    folder: Option<Arc<Folder>>,
    part: Option<Part>,
    /// This machine's number in the program.
    machine: u32,
    /// Whether the program must not be started any more.
    is_killed: bool,
    /// The levels accepted for links with each of the program's machines.
    offered: Vec<(IpAddr, [LevelSet; 3])>,
    /// The places that the launcher waits for.
    wanted: Option<Wanted>,
    /// The places taken, until the ranks are started. From then on the ranks' thread holds them.
    places: Option<Box<dyn Any + Send>>,
    /// Bytes of files received.
    files: u64,
    /// Whether the ranks save files, from which the program is restarted.
    survives: bool,
    /// Credit for these files.
    storing: Arc<Credit>,
}

struct Running {
    /// Looks at the processes once more before they are ended.
    _metered: Metered,
    /// Dropped first of those that follow, so that no thread waits for credit for output that is not written any more.
    credit: Closing,
    machine: Machine,
    /// Ends after the ranks.
    saving: Option<Saving>,
    input: Option<Sender<Bytes>>,
    /// Bytes of input that wait for rank 0.
    waiting: Arc<AtomicUsize>,
}

/// Closes the credit when it is dropped.
struct Closing(Arc<Credit>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Serving<'_> {
    fn on_frame(&mut self, frame: Frame) -> io::Result<()> {
        match decode(&frame.header) {
            Ok(ToMachine::Ask { program, wants }) => {
                self.offer(program, wants);
                Ok(())
            }
            Ok(ToMachine::Begin { part, machine, machines, program }) => self.begin(part, machine, machines, program),
            Ok(ToMachine::Delegation { given }) => self.take_delegation(given),
            Ok(ToMachine::File { name, executable }) => self.folder()?.begin(&name, executable),
            Ok(ToMachine::Piece) => {
                self.folder()?.write(&frame.body)?;
                self.files += frame.body.len() as u64;
                tell(self.link, &FromMachine::Taken { bytes: frame.body.len() as u32 });
                Ok(())
            }
            Ok(ToMachine::Start) => self.start(),
            Ok(ToMachine::Tell { ranks, message }) => self.tell_ranks(ranks, &message),
            Ok(ToMachine::Signal { number }) => {
                self.is_killed |= number == libc::SIGKILL;
                self.running.iter().for_each(|running| running.machine.signal(number));
                Ok(())
            }
            Ok(ToMachine::Input) => self.take_input(frame.body),
            Ok(ToMachine::Taken { bytes }) => {
                self.running.iter().for_each(|running| running.credit.0.give(bytes));
                Ok(())
            }
            Ok(ToMachine::Beat) => Ok(()),
            Ok(ToMachine::Survive { restarts, step }) => self.survive(restarts, step),
            Ok(ToMachine::Fetch { step }) => self.order(Order::Fetch(step)),
            Ok(ToMachine::Release { step }) => self.order(Order::Release(step)),
            Ok(ToMachine::Stored { bytes }) => {
                self.storing.give(bytes);
                Ok(())
            }
            Err(_) => {
                self.link.close();
                Ok(())
            }
        }
    }

    fn offer(&mut self, program: [u8; 16], wants: u32) {
        let holder = Holder { user: self.terms.known.to_owned(), program };
        let share = self.share.insert(self.terms.places.share(holder, Model::Ranks));
        let earlier = self.wanted.take();
        self.wanted = (self.part.is_none() && wants > 0).then(|| share.want(wants, earlier));
        let (capacity, free, fair) = (self.terms.capacity, share.free(), share.fair());
        let (usage, closed, phalanx) = (share.usage(), self.terms.places.closed(), self.terms.phalanx.0.clone());
        tell(self.link, &FromMachine::Offer { capacity, free, fair, usage, phalanx, closed });
    }

    fn begin(&mut self, mut part: Part, machine: u32, machines: Vec<IpAddr>, program: [u8; 16]) -> io::Result<()> {
        let end = part.base.checked_add(part.size).filter(|end| *end <= MOST_RANKS && part.first >= part.base);
        let last = part.first.checked_add(part.count()).filter(|last| end.is_some_and(|end| *last <= end));
        let senseless = || io::Error::other("that makes no sense");
        if self.part.is_some() || last.is_none() || part.count() == 0 || machines.len() > MOST_RANKS as usize {
            return Err(senseless());
        }
        self.places = Some(self.share.as_ref().ok_or_else(senseless)?.keep(part.count())?);
        self.wanted = None;
        let folder = self.folder_of(program)?;
        let checkpoints = folder.checkpoints(0)?.into_os_string().into_vec();
        let path = folder.path().to_owned();
        self.folder = Some(folder.clone());
        let (delegated, certificate) = DelegatedFile::new(folder, self.terms.certificate, self.terms.member)?;
        let variable = self.delegated.insert(delegated).variable();
        for (_, program) in &mut part.programs {
            program.environment.extend([(CHECKPOINTS.into(), checkpoints.clone()), variable.clone()]);
            // A folder that a program names is relative to the program's own folder, unless it is an absolute path.
            let below = |named: &Vec<u8>| path.join(OsStr::from_bytes(named)).into_os_string().into_vec();
            program.folder = program.folder.as_ref().map(below);
            let own = self.terms.environment.iter();
            let own = own.map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()));
            program.environment.splice(0..0, own);
            if let Some(word) = program.command.first_mut().filter(|word| matches!(&word[..], b"python" | b"python3")) {
                *word = self.terms.python.as_bytes().to_vec();
            }
        }
        (self.part, self.machine) = (Some(part), machine);
        self.offered = machines.into_iter().map(|peer| (peer, self.levels_for(peer))).collect();
        let levels = self.offered.iter().map(|(_, levels)| *levels).collect();
        tell(self.link, &FromMachine::Begun { levels, certificate });
        Ok(())
    }

    /// Takes what the user delegates to the ranks here. If it cannot be written while they run, they go on with what they have.
    fn take_delegation(&mut self, given: Given) -> io::Result<()> {
        let delegated = self.delegated.as_mut().ok_or_else(|| io::Error::other("no part was begun"))?;
        let written = delegated.give(given);
        if self.running.is_some() { Ok(()) } else { written }
    }

    /// The levels that this machine's owner allows for links between a user's ranks here and those on the other machine.
    fn levels_for(&self, peer: IpAddr) -> [LevelSet; 3] {
        let place = self.terms.policy.place(Some(peer), Role::User.name());
        Mark::ALL.map(|mark| self.terms.policy.offered(&place, mark))
    }

    /// The program's folder: that of an earlier start, or a new one.
    fn folder_of(&self, program: [u8; 16]) -> io::Result<Arc<Folder>> {
        let mut folders = lock(self.terms.folders);
        folders.retain(|_, folder| folder.strong_count() > 0);
        let key = (self.terms.known.to_owned(), program);
        if let Some(folder) = folders.get(&key).and_then(Weak::upgrade) {
            folder.open_again();
            return Ok(folder);
        }
        let folder = Arc::new(Folder::of(self.terms.cage.account_of(self.terms.user)?)?);
        folders.insert(key, Arc::downgrade(&folder));
        Ok(folder)
    }

    /// The folder, while files may be received: between `Begin` and `Start`.
    fn folder(&self) -> io::Result<&Arc<Folder>> {
        let folder = self.folder.as_ref().filter(|_| self.running.is_none());
        folder.ok_or_else(|| io::Error::other("there is no place for files now"))
    }

    fn start(&mut self) -> io::Result<()> {
        if self.is_killed {
            return Err(io::Error::other("the program was ended before it was started"));
        }
        self.folder()?.finish();
        let account = self.folder()?.account().cloned();
        let folder = self.folder()?.path().to_owned();
        let memory = self.folder()?.memory().map(Path::to_owned);
        let machines: Vec<IpAddr> = self.offered.iter().map(|(ip, _)| *ip).collect();
        let machines = self.terms.cage.machines_of_grid(&machines, self.terms.from);
        let bars = self.terms.cage.around(Some(&folder), account.as_ref(), memory.as_deref(), &machines)?;
        let part = self.part.clone().ok_or_else(|| io::Error::other("nothing was begun"))?;
        let (events, mut places, mut living) = (self.link.clone(), self.places.take(), part.count());
        let address = self.offered.get(self.machine as usize).map(|(ip, _)| *ip).filter(|_| bars.may_listen());
        let (activity, user) = (self.terms.activity.clone(), self.terms.user.to_owned());
        let on_event = move |event| {
            let message = match event {
                Event::Said { rank, message } => FromMachine::Said { rank, message },
                Event::Nonsense { rank } => FromMachine::Nonsense { rank },
                Event::Ended { rank, exit } => {
                    if let Exit::Signal(signal) = exit {
                        activity.note_signal(&user, signal);
                    }
                    living -= 1;
                    // freed before the last end is reported, so that its reader sees the places as free
                    drop(places.take_if(|_| living == 0));
                    FromMachine::Ended { rank, exit }
                }
            };
            let _ = events.send(Mark::None, encode(&message, 0), Vec::new());
        };
        let (machine, streams) = Machine::start(part, Some(folder), Some(bars), address, on_event)?;
        let processes = streams.processes;
        let credit = Arc::new(Credit::new(WINDOW));
        let writer = Writer { link: self.link.clone(), credit: credit.clone() };
        let link = self.link.clone();
        thread::Builder::new().name("phalanx-output".into()).spawn(move || {
            let _ = streams::pump(streams.outputs, writer);
            tell(&link, &FromMachine::Drained);
        })?;
        let saving = self.survives.then(|| self.save()).transpose()?;
        let (waiting, link) = (Arc::new(AtomicUsize::new(0)), self.link.clone());
        let input = streams.input.map(|to| feed(to, link, waiting.clone())).transpose()?;
        let metered = self.terms.meter.begin(self.terms.known, What::Ranks, processes);
        self.running = Some(Running { _metered: metered, credit: Closing(credit), machine, saving, input, waiting });
        tell(self.link, &FromMachine::Started);
        Ok(())
    }

    /// Gives the ranks the folders for their files. Those to go on from follow as files of the program.
    fn survive(&mut self, restarts: u32, step: Option<u64>) -> io::Result<()> {
        let folder = self.folder()?.clone();
        let part = self.part.as_mut().ok_or_else(|| io::Error::other("no part was begun"))?;
        folder.begin_saving(part.first..part.first + part.count())?;
        saving::tell_ranks(part, &folder, restarts, step);
        self.survives = true;
        Ok(())
    }

    /// Starts the thread that looks after what the ranks save.
    fn save(&self) -> io::Result<Saving> {
        let (Some(folder), Some(part)) = (&self.folder, &self.part) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let (link, credit) = (self.link.clone(), self.storing.clone());
        let carry = move |message: FromMachine, bytes: &[u8]| {
            let body = if bytes.is_empty() { Vec::new() } else { vec![Bytes::copy_from_slice(bytes)] };
            credit.take(bytes.len()) && link.send(Mark::None, encode(&message, bytes.len() as u64), body).is_ok()
        };
        let ranks = part.first..part.first + part.count();
        Saving::start(folder.clone(), ranks, self.storing.clone(), Box::new(carry))
    }

    fn order(&self, order: Order) -> io::Result<()> {
        self.running.iter().filter_map(|running| running.saving.as_ref()).for_each(|saving| saving.order(order));
        Ok(())
    }

    fn tell_ranks(&self, ranks: Vec<u32>, message: &ToRank) -> io::Result<()> {
        let Some(running) = &self.running else { return Ok(()) };
        if let ToRank::Table { entries } | ToRank::Connect { entries, .. } = message {
            entries.iter().try_for_each(|entry| self.check(entry))?;
        }
        running.machine.tell(ranks, frame(message));
        Ok(())
    }

    /// Rejects levels that this machine does not accept, even if the launcher asks for them.
    fn check(&self, entry: &Entry) -> io::Result<()> {
        let ip = entry.listens.address.ip();
        let offered = self.offered.get(entry.machine as usize).filter(|(peer, _)| *peer == ip);
        let (_, taken) = offered.ok_or_else(|| io::Error::other(format!("the program has no machine at {ip}")))?;
        let too_weak = |mark: &Mark| !taken[*mark as usize].contains(entry.levels.of(*mark));
        match Mark::ALL.into_iter().find(too_weak).filter(|_| entry.machine != self.machine) {
            None => Ok(()),
            Some(mark) => Err(io::Error::other(format!(
                "links with {ip} are to be {}, but this machine takes {}",
                entry.levels.of(mark),
                taken[mark as usize]
            ))),
        }
    }

    fn take_input(&mut self, bytes: Bytes) -> io::Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        if bytes.is_empty() {
            running.input = None;
            return Ok(());
        }
        let waiting = running.waiting.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        if waiting > WINDOW {
            self.link.close(); // the launcher sends without waiting for credit
        }
        let Some(input) = &running.input else { return Ok(()) };
        let _ = input.send(bytes);
        Ok(())
    }
}

/// Starts a thread that writes input to rank 0, and acknowledges it.
fn feed(to: OwnedFd, link: Arc<Link>, waiting: Arc<AtomicUsize>) -> io::Result<Sender<Bytes>> {
    let (sender, received): (Sender<Bytes>, Receiver<Bytes>) = channel();
    let work = move || {
        let mut reads = true;
        for bytes in received {
            reads = reads && write_all(&to, &bytes);
            waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
            tell(&link, &FromMachine::Taken { bytes: bytes.len() as u32 });
        }
    };
    thread::Builder::new().name("phalanx-input".into()).spawn(work)?;
    Ok(sender)
}

/// Writes all the bytes. Returns false if the reader is gone.
pub fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Sends output to the launcher, no faster than the launcher writes it.
struct Writer {
    link: Arc<Link>,
    credit: Arc<Credit>,
}

impl Writer {
    fn send(&self, source: Source, bytes: &[u8]) -> Result<(), LinkError> {
        let start = encode(&FromMachine::Output { source }, bytes.len() as u64);
        let body = if bytes.is_empty() { Vec::new() } else { vec![Bytes::copy_from_slice(bytes)] };
        self.link.send(Mark::None, start, body)
    }
}

impl Taker for Writer {
    fn take(&mut self, source: Source, bytes: &[u8]) {
        for piece in bytes.chunks(MOST_PIECE) {
            if self.credit.take(piece.len()) {
                let _ = self.send(source, piece);
            }
        }
    }

    fn end(&mut self, source: Source) {
        let _ = self.send(source, &[]);
    }

    fn pause(&mut self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{HOLD, Held};
    use std::time::{Duration, Instant};

    #[test]
    fn places_are_held_until_the_ranks_start_and_no_longer_than_files_arrive() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let held = Held::default().after(true, false, begun);
        let asked = held.after(true, false, begun + HOLD - second);
        assert!(
            !asked.is_too_long(begun + HOLD - second) && asked.is_too_long(begun + HOLD),
            "questions do not prolong it"
        );
        let filling = held.after(true, true, begun + HOLD - second);
        assert!(!filling.is_too_long(begun + HOLD) && filling.is_too_long(begun + HOLD * 2));
        assert_eq!(held.after(false, false, begun), Held::default(), "the ranks have started");
    }
}
