//! The user's end of questions about files: at an executor, or on this machine.

use super::desk::{Desk, Places};
use super::line::{FilesError, GoesOn, Line, Outcome, Way};
use super::room::Room;
use super::serve::protecting;
use crate::control::Pulse;
use crate::dial::{DIAL_PATIENCE, agree, check_version, printable, unreachable};
use crate::dialler::{Dialler, is_unexpected};
use bytes::Bytes;
use phalanx_core::level::{Level, LevelSet, Levels, Policy};
use phalanx_core::wire::decode;
use phalanx_core::wire::files::{Answer, Ask, MOST_BODY, Why};
use phalanx_net::address::Address;
use phalanx_net::dial::{Expected, Failure, dial};
use phalanx_net::frames::Frame;
use phalanx_net::identity::Role;
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(100);
/// For an executor's first word.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whose files are asked for.
pub struct Reach {
    /// The address of the executor.
    pub address: Address,
    /// The user's identity, and whom it expects.
    pub dialler: Dialler,
    /// The user's policy for links.
    pub policy: Policy,
    /// None: as the policy says.
    pub level: Option<Level>,
}

impl Reach {
    /// The level of the link to the executor at `address`, which takes `theirs`, and what decided it.
    fn decide(&self, address: IpAddr, theirs: LevelSet) -> Result<(Level, String), String> {
        let asked = self.level.map(|level| level.max(Level::Safe));
        let (level, why) = agree(&self.policy, asked, address, protecting(theirs))?;
        match self.level {
            Some(asked) if asked < level => Ok((level, "what is asked of files is at least safe".to_owned())),
            _ => Ok((level, why)),
        }
    }
}

/// Where questions go. Dropping it ends what is open.
pub struct Session {
    pub(super) line: Arc<Line>,
    next: AtomicU32,
    /// The level of the link.
    pub level: Level,
    /// What decided the level, for people.
    pub why: String,
    /// The name in the executor's certificate. `None`: the files are this machine's own.
    pub peer: Option<String>,
    thread: Option<JoinHandle<()>>,
}

impl Session {
    /// With this machine's own files.
    pub fn own() -> io::Result<Session> {
        let (asks, questions) = channel();
        let way = Way::Own { asks: Some(asks).into(), is_over: AtomicBool::new(false) };
        let line = Line::new(way, "this machine".to_owned());
        let answering = {
            let line = line.clone();
            move || answer(&line, &questions)
        };
        let thread = Some(thread::Builder::new().name("phalanx-files".into()).spawn(answering)?);
        let (next, why) = (AtomicU32::new(0), "this machine".to_owned());
        Ok(Session { line, next, level: Level::Clear, why, peer: None, thread })
    }

    /// With the files of an executor. Given up, what was begun ends by itself: within 16 s, if nobody answers there.
    pub fn open(to: Reach, go_on: &mut GoesOn<'_>) -> Result<Session, FilesError> {
        let name = to.address.to_string();
        let (sender, opened) = channel();
        let opening = move || drop(sender.send(Session::reach(&to)));
        let thread = thread::Builder::new().name("phalanx-files".into()).spawn(opening);
        thread.map_err(|error| FilesError::Unreachable(error.to_string()))?;
        loop {
            match opened.recv_timeout(PAUSE) {
                Ok(session) => return session,
                Err(RecvTimeoutError::Timeout) if go_on() => {}
                Err(RecvTimeoutError::Timeout) => return Err(FilesError::Interrupted),
                Err(RecvTimeoutError::Disconnected) => return Err(FilesError::Lost(name)),
            }
        }
    }

    fn reach(to: &Reach) -> Result<Session, FilesError> {
        let client = to.dialler.member().client_at(Role::Executor, &to.address.to_string());
        let client = client.map_err(|error| FilesError::Identity(error.to_string()))?;
        let away = |error: io::Error| FilesError::Unreachable(unreachable(&to.address, &error));
        let dialled = dial(&(&to.address).into(), DIAL_PATIENCE).map_err(away)?;
        let address = dialled.address.ok_or_else(|| away(io::ErrorKind::NotConnected.into()))?;
        let decide = |theirs: [_; 3]| to.decide(address.ip(), theirs[0]).map(|(level, why)| (Levels::all(level), why));
        let expected = to.dialler.at(&to.address);
        let agreed = dialled.agree(Preamble::Files, Expected::Judged(&client, &expected), decide, DIAL_PATIENCE);
        let (introduced, why) = agreed.map_err(|failure| match failure {
            Failure::Disagreed(why) => FilesError::Level(format!("{}: {why}", to.address)),
            Failure::Failed(error) if is_unexpected(&error) => FilesError::Identity(unreachable(&to.address, &error)),
            Failure::Failed(error) => away(error),
        })?;
        let peer = introduced.name().map_err(|error| FilesError::Identity(error.to_string()))?;
        let (link, reader) = introduced.link(MOST_BODY).map_err(away)?;
        let level = link.levels().base;
        let line = Line::new(Way::There(link.clone()), to.address.to_string());
        let first = line.await_first();
        let reading = {
            let line = line.clone();
            move || read(reader, &link, &line)
        };
        let thread = thread::Builder::new().name("phalanx-files".into()).spawn(reading).map_err(away)?;
        let (next, thread) = (AtomicU32::new(0), Some(thread));
        let session = Session { line, next, level, why, peer: Some(peer), thread };
        let until = Instant::now() + PATIENCE;
        session.greeted(first.wait(&mut || Instant::now() < until))?;
        Ok(session)
    }

    /// What an executor says first.
    fn greeted(&self, first: Outcome) -> Result<(), FilesError> {
        let name = &self.line.name;
        match first {
            Ok((Answer::Offer { phalanx }, _)) => {
                check_version(name, &phalanx).map_err(|what| FilesError::Failed(Why::Other, what))
            }
            Err(FilesError::Lost(_)) => Err(FilesError::Unreachable(format!(
                "{name}: the executor refused this user (its own output says why)"
            ))),
            Err(FilesError::Failed(why, reason)) => Err(FilesError::Failed(why, format!("{name}: {reason}"))),
            Err(FilesError::Interrupted) => Err(FilesError::Unreachable(format!("{name}: no answer in time"))),
            Err(error) => Err(error),
            Ok(_) => Err(FilesError::Nonsense),
        }
    }

    /// Asks, and waits for the answer.
    pub fn ask(&self, ask: &Ask, go_on: &mut GoesOn<'_>) -> Result<Answer, FilesError> {
        Ok(self.line.ask(ask, Bytes::new(), go_on)?.wait(go_on)?.0)
    }

    /// The same, where there is nothing to be answered.
    pub fn tell(&self, ask: &Ask, go_on: &mut GoesOn<'_>) -> Result<(), FilesError> {
        done(self.ask(ask, go_on)?)
    }

    /// For what is to be open; none that was there before.
    pub(super) fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Ends it; who waits is told so.
    pub fn close(&self) {
        self.line.close();
    }

    /// Whether no answer can come any more.
    pub fn is_closed(&self) -> bool {
        self.line.is_closed()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
        match self.thread.take() {
            Some(thread) if self.line.is_copy() => std::mem::forget(thread), // it is that of another process
            thread => drop(thread.map(JoinHandle::join)),
        }
    }
}

/// Nothing was to be said.
pub(super) fn done(answer: Answer) -> Result<(), FilesError> {
    if answer == Answer::Done { Ok(()) } else { Err(FilesError::Nonsense) }
}

/// Who waits hears when no more answers come, for whatever reason.
struct Ending<'a>(&'a Line);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.close();
        self.0.end();
    }
}

/// Hands answers to those who wait, until the link ends.
fn read(reader: Reader, link: &Link, line: &Line) {
    let _ending = Ending(line);
    let mut pulse = Pulse::new();
    let is_nonsense = || {
        link.close();
        line.end(); // at once: what came in the same read answers nothing that is asked from now on
    };
    let on_frame = |frame: Frame| match decode(&frame.header) {
        Ok(Answer::Beat) => {}
        Ok(answer) => match line.next() {
            Some(sender) => drop(sender.send(outcome(answer, frame.body))),
            None => is_nonsense(), // nobody has asked
        },
        Err(_) => is_nonsense(),
    };
    reader.run(PAUSE, on_frame, |link| pulse.pause(link, &Ask::Beat));
}

/// Answers what is asked of this machine's own files, until nobody asks any more.
fn answer(line: &Line, questions: &Receiver<(Ask, Bytes)>) {
    let _ending = Ending(line);
    let mut desk = Desk::new(Places::Own, false, Room::endless());
    let is_over = || line.is_over(); // this thread is of the process that made the line
    while let Ok((ask, body)) = questions.recv() {
        if is_over() {
            return;
        }
        let (answer, body) = desk.answer(ask, &body, &is_over);
        match line.next() {
            Some(sender) => drop(sender.send(outcome(answer, body.into()))),
            None => return,
        }
    }
}

fn outcome(answer: Answer, body: Bytes) -> Outcome {
    match answer {
        Answer::Failed { why, reason } => Err(FilesError::Failed(why, printable(&reason))),
        Answer::Data { digest: Some(digest) } if *blake3::hash(&body).as_bytes() != digest => {
            Err(FilesError::Failed(Why::Other, "what came is not what was sent".to_owned()))
        }
        answer => Ok((answer, body)),
    }
}
