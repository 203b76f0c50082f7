//! This server's membership in a replicated space. While it leads, it serves the space; otherwise it names the leader.

use super::hosted::{Asks, Hosted};
use super::keeping::fill_from;
use super::log::replicated::{Kept, Leader, Links, MEMBERS, MemberFile, Replicated, Timing};
use super::log::{Log as Changes, LogError};
use crate::log::Log;
use phalanx_core::error::SpaceError;
use phalanx_core::space::{Options, Replica, Seat};
use phalanx_net::address::Address;
use phalanx_net::identity::Member;
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Members that join later have random numbers from here on, so that no number is ever given twice.
pub const FIRST_JOINING: u64 = 1 << 32;
/// Longest name of a member, and longest address, in bytes.
const MOST_WORD: usize = 256;
/// Longest wait for another leader between two checks whether to end.
const PAUSE: Duration = Duration::from_millis(500);
const LEAST: Duration = Duration::from_millis(5);
/// Pause before the next attempt to serve the space.
const RETRY: Duration = Duration::from_millis(100);

/// A membership in a space, for as long as its server runs.
pub struct Taking {
    pub kept: Arc<Kept>,
    /// The space's name together with its members. Other members ask by it, so members with another list belong to another
    /// group.
    pub group: String,
    options: Options,
    leading: Mutex<Option<Arc<Hosted>>>,
    closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Whether this member joined later, instead of founding the space.
    joined: bool,
    name: String,
    asks: Asks,
    log: Log,
}

impl Taking {
    /// Resumes the membership in the space whose file is at `path`; with a seat, begins it.
    pub fn open(
        path: &Path,
        name: &str,
        own: &Arc<Member>,
        new: Option<Seat>,
        asks: Asks,
        log: Log,
    ) -> Result<Arc<Taking>, SpaceError> {
        let file = MemberFile::open(path, new).map_err(not_kept)?;
        let file = file.ok_or_else(|| SpaceError::NoSpace("there is none of this name".into()))?;
        let Seat { number, group, options } = file.seat.clone();
        let members: BTreeMap<u64, Replica> = (1..).zip(options.replicas.clone()).collect();
        let names: Vec<String> = options.replicas.iter().map(|member| member.name.clone()).collect();
        let links = Arc::new(Links::new(own.clone(), &group));
        let replicated = file.start(Timing::default(), links).map_err(not_kept)?;
        // This does nothing if members are already known. The other members wait for member 1 to tell them.
        if number == 1 {
            replicated.found(&members).map_err(not_kept)?;
        }
        let joined = number >= FIRST_JOINING;
        let kept = Arc::new(Kept::new(replicated, names));
        let name = name.to_owned();
        let (leading, closed, thread) = (Mutex::default(), AtomicBool::new(false), Mutex::default());
        let taking = Arc::new(Taking { kept, group, options, leading, closed, thread, joined, name, asks, log });
        let running = taking.clone();
        let started = thread::Builder::new().name("phalanx-member".into()).spawn(move || running.run());
        *lock(&taking.thread) = Some(started.map_err(not_kept)?);
        Ok(taking)
    }

    /// The space, if this member leads it. Otherwise the error names the leader.
    pub fn space(&self) -> Result<Arc<Hosted>, SpaceError> {
        if self.replicated().is_dismissed() {
            return Err(SpaceError::NoSpace("this server does not keep it, or not any more".into()));
        }
        let leading = lock(&self.leading).clone().filter(|space| !space.has_ended());
        leading.ok_or_else(|| SpaceError::Elsewhere { leader: self.leader() })
    }

    /// The options that the space was created with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Checks that the options ask for the same members.
    pub fn check(&self, asked: &Options) -> Result<(), SpaceError> {
        let mut named: Vec<String> = addresses(asked).collect();
        named.sort();
        let members = self.members();
        match named == members {
            true => Ok(()),
            false => Err(SpaceError::Options(format!("it is there already, kept by {}", members.join(", ")))),
        }
    }

    /// The addresses of all members, as far as this one knows them.
    fn members(&self) -> Vec<String> {
        let known = self.replicated().members();
        let mut members: Vec<String> = known.into_values().map(|member| member.address).collect();
        if members.is_empty() {
            members.extend(addresses(&self.options));
        }
        members.sort();
        members
    }

    /// Whether, as far as this member knows, the others keep the space without it. It may then join again as another member.
    pub fn is_former(&self) -> bool {
        let was_told = !self.replicated().members().is_empty();
        self.replicated().is_dismissed() || self.joined && !was_told
    }

    /// Ends the membership.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.kept.stop();
        let _ = lock(&self.thread).take().map(JoinHandle::join);
    }

    fn replicated(&self) -> &Arc<Replicated> {
        &self.kept.replicated
    }

    fn leader(&self) -> Option<String> {
        match self.replicated().leader() {
            Leader::At(address) => Some(address),
            Leader::Here | Leader::Unknown => None,
        }
    }

    fn wait_while(&self, leader: &Leader) {
        self.replicated().wait_for_leader(leader, PAUSE);
        thread::sleep(LEAST); // after a failure the wait above returns at once, so this bounds the rate of the loop
    }

    fn is_over(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn run(&self) {
        let mut said = None;
        while !self.is_over() {
            let leader = self.replicated().leader();
            if leader != Leader::Here {
                self.wait_while(&leader);
                continue;
            }
            let create = Some(self.options.clone());
            let fill = |take: &mut dyn FnMut(_) -> Result<(), LogError>| {
                self.replicated().lead(take).map(|log| Arc::new(log) as Arc<dyn Changes>)
            };
            match fill_from(create, fill) {
                Ok(space) => self.serve(&space),
                Err(error) => {
                    let line = format!("the space {} cannot be led here: {error}", self.name);
                    if said.as_ref() != Some(&line) && !self.is_over() {
                        self.log.warning(&line);
                    }
                    said = Some(line);
                    thread::sleep(RETRY);
                }
            }
        }
    }

    /// Serves the space until another member leads, or until most members are out of reach.
    fn serve(&self, space: &Arc<Hosted>) {
        space.ask_by(&self.asks);
        *lock(&self.leading) = Some(space.clone());
        self.log.info(format!("leads the space {}", self.name));
        while !self.is_over() && !space.has_ended() && self.replicated().leader() == Leader::Here {
            self.wait_while(&Leader::Here);
        }
        lock(&self.leading).take();
        space.move_to(self.leader());
        self.log.info(format!("does not lead the space {} any more", self.name));
    }
}

fn not_kept(why: impl ToString) -> SpaceError {
    SpaceError::NotKept(why.to_string())
}

fn addresses(options: &Options) -> impl Iterator<Item = String> {
    options.replicas.iter().map(|member| member.address.clone())
}

fn group(name: &str, members: &[Replica]) -> String {
    let members: Vec<String> = members.iter().map(|member| format!("{} at {}", member.name, member.address)).collect();
    format!("{name} of {}", members.join(", "))
}

/// This server's seat among the founding members. Every server numbers the members alike, whatever order they were named in.
pub fn founding(name: &str, mut options: Options, own: &str) -> Result<Seat, SpaceError> {
    options.replicas.sort_by(|one, other| one.address.cmp(&other.address));
    let at = check(&options.replicas, own)?;
    let group = group(name, &options.replicas);
    Ok(Seat { number: at as u64 + 1, group, options: Options { durable: true, ..options } })
}

/// Checks a list of members, and returns this server's position in it.
pub fn check(members: &[Replica], own: &str) -> Result<usize, SpaceError> {
    let wrong = |what: String| Err(SpaceError::Options(what));
    if !MEMBERS.contains(&members.len()) {
        return wrong(format!("a space is kept by {} to {} members", MEMBERS.start(), MEMBERS.end()));
    }
    for member in members {
        let short = member.name.len() <= MOST_WORD && member.address.len() <= MOST_WORD;
        if !short || member.name.is_empty() || member.address.parse::<Address>().is_err() {
            return wrong("a member has a name in its certificate, and an address HOST:PORT".into());
        }
    }
    let twice = |one: &str, find: fn(&Replica) -> &str| {
        members.iter().filter(|member| find(member).eq_ignore_ascii_case(one)).count() > 1
    };
    if let Some(it) = members.iter().find(|it| twice(&it.name, |it| &it.name) || twice(&it.address, |it| &it.address)) {
        return wrong(format!(
            "two of its members are {} at {}; each needs an identity of its own",
            it.name, it.address
        ));
    }
    let at = members.iter().position(|member| member.name.eq_ignore_ascii_case(own));
    at.ok_or_else(|| SpaceError::Options(format!("{own} is none of its members")))
}
