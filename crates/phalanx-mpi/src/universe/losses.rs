//! Ranks that were lost: the launcher says so, and what they were needed for fails.

use crate::error::{Class, Error};
use crate::objects::comm::Comm;
use crate::process::engine::Ended;
use crate::process::world::{World, world};
use phalanx_core::wire::ranks::{MOST_RANKS, ToRank};
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long the launcher has to say what has become of a process whose connection ended. It notices within 1.3 s that a
/// machine is silent; with the longest sleep, who waits hears of it within 2 s.
const DOUBT: Duration = Duration::from_millis(1500);

/// The same, for who has heard of a loss from another process.
const PATIENCE: Duration = Duration::from_secs(2);

/// A program that calls seldom hears the launcher at least so often: it looks at the clock at one call of so many.
const SELDOM: Duration = Duration::from_millis(100);
const CALLS: u32 = 8;

/// Machines that do not answer are looked for so often.
const LOOK: Duration = Duration::from_millis(500);

const PAUSE: Duration = Duration::from_millis(2);

/// What is known of them.
#[derive(Default)]
pub struct Losses {
    /// In the order in which this process heard of them.
    lost: Mutex<Vec<Lost>>,
    /// Since when the connections have ended of which the launcher has said nothing, by rank.
    unsure: Mutex<BTreeMap<u32, Instant>>,
    /// When the launcher was heard last.
    attended: Mutex<Option<Instant>>,
    /// When machines that do not answer were looked for last.
    looked: Mutex<Option<Instant>>,
    calls: AtomicU32,
}

/// A process that was lost, and why.
struct Lost {
    process: u32,
    text: String,
    /// The launcher has said so, and not only this process found it out of reach.
    told: bool,
}

impl Losses {
    fn note(&self, process: u32, text: String, told: bool) {
        let mut lost = lock(&self.lost);
        match lost.iter_mut().find(|it| it.process == process) {
            Some(known) => known.told |= told,
            None => lost.push(Lost { process, text, told }),
        }
    }

    /// The lost ones for which this is so, in the order in which this process heard of them.
    fn which(&self, is_it: impl Fn(&Lost) -> bool) -> Vec<u32> {
        lock(&self.lost).iter().filter(|it| is_it(it)).map(|it| it.process).collect()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<u32> {
        self.which(|_| true)
    }

    /// Why a process was lost.
    pub(crate) fn text_of(&self, process: u32) -> Option<String> {
        lock(&self.lost).iter().find(|it| it.process == process).map(|it| it.text.clone())
    }

    /// Those that only this process has found out of reach.
    pub(crate) fn out_of_reach(&self) -> Vec<u32> {
        self.which(|it| !it.told)
    }

    /// Whether it is time to attend, for programs that call so seldom that rounds do not count.
    pub(crate) fn is_due(&self) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        self.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
        calls % CALLS == 0 && lock(&self.attended).is_none_or(|last| last.elapsed() > SELDOM)
    }

    /// Whether it is time to look for machines that do not answer.
    pub(crate) fn is_look_due(&self) -> bool {
        lock(&self.looked).is_none_or(|last| last.elapsed() > LOOK)
    }

    /// Those of which the launcher has said nothing for too long.
    fn overdue(&self, ended: Vec<Ended>, now: Instant) -> Vec<Ended> {
        let mut unsure = lock(&self.unsure);
        unsure.retain(|peer, _| ended.iter().any(|it| it.peer == *peer));
        let is_overdue = |it: &Ended| now - *unsure.entry(it.peer).or_insert(now) > DOUBT;
        ended.into_iter().filter(is_overdue).collect()
    }
}

impl World {
    /// Hears what the launcher says; from time to time, and when it has said something.
    #[cold]
    pub fn attend(&self) {
        *lock(&self.losses.attended) = Some(Instant::now());
        let control = self.control.as_ref().filter(|control| !control.is_closed());
        while let Some(heard) = control.and_then(|control| control.hear(false).transpose()) {
            match heard {
                Ok(ToRank::Lost { rank, text }) => self.lose(rank, text),
                Ok(ToRank::Revoked { context }) => self.revoke(context),
                Ok(message) => self.universe.take(self, message), // one that is aborted is ended by the launcher
                Err(_) => {
                    self.note_completion(); // who waits for an answer waits no more
                    break;
                }
            }
        }
        if self.may_be_cut() {
            let now = Instant::now();
            *lock(&self.losses.looked) = Some(now);
            self.engine().look_for_cuts(now);
        }
        self.universe.take_made(self);
        self.judge_ended();
    }

    /// Whether it is time to look for connections with other machines that are cut.
    pub(crate) fn may_be_cut(&self) -> bool {
        (!self.machines.is_empty() || self.address.is_some()) && self.losses.is_look_due()
    }

    /// A connection that has ended while its process lives is the end of what there is between the two. So is a farewell,
    /// for who goes on waiting.
    fn judge_ended(&self) {
        let ended = self.engine().ended().to_vec();
        for Ended { peer, left } in self.losses.overdue(ended, Instant::now()) {
            let text = match left {
                true => format!("{} has left the program (MPI_Finalize)", self.name_of(peer)),
                false => {
                    let (there, here) = (self.machine_of(peer), self.machine_of(self.rank as u32));
                    let (one, other) = (self.name_of(peer), self.place());
                    format!("{one}{there} is lost: no connection between it and rank {other}{here} any more")
                }
            };
            self.lose_by(peer, text, false);
        }
    }

    /// A rank's machine, for people; nothing where all are on this one.
    fn machine_of(&self, process: u32) -> String {
        let address = (process as usize).checked_sub(self.first).and_then(|rank| self.addresses.get(rank));
        address.map_or(String::new(), |address| format!(" at {address}"))
    }

    /// A rank will not be heard of again: the launcher says so.
    pub(crate) fn lose(&self, rank: u32, text: String) {
        self.lose_by(rank, text, true);
    }

    fn lose_by(&self, rank: u32, text: String, told: bool) {
        if rank >= MOST_RANKS || rank as usize == self.rank {
            return;
        }
        self.universe.await_no_more(rank);
        self.universe.meetings().forget(rank);
        let living = Comm::living();
        let has_it = |comm: &Arc<Comm>| comm.peers().rank_of(rank).is_some() || comm.group.rank_of(rank).is_some();
        if self.is_of_world(rank) || living.iter().any(has_it) {
            self.losses.note(rank, text, told); // nobody else is missed
        }
        let mut engine = self.engine();
        engine.know(rank);
        engine.lose(rank);
        drop(engine);
        living.iter().for_each(|comm| self.note_losses_in(comm));
        self.serve(); // its last words
        self.services.lose(rank);
        self.note_completion();
    }

    /// Whether anybody of this world was lost.
    pub fn has_losses(&self) -> bool {
        lock(&self.losses.lost).iter().any(|it| self.is_of_world(it.process))
    }

    /// Receives from lost processes in a communicator fail.
    pub(crate) fn note_losses_in(&self, comm: &Comm) {
        for process in self.losses.all() {
            if let Some(rank) = comm.peers().processes.iter().position(|its| *its == process) {
                self.engine().lose_source(comm.context, rank as i32);
            }
        }
    }

    fn await_losses(&self) -> Option<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.told_losses() {
                None if Instant::now() < deadline && self.control.is_some() => {
                    self.attend();
                    std::thread::sleep(PAUSE);
                }
                told => return told,
            }
        }
    }

    /// Who was lost and why, for people; none was.
    fn told_losses(&self) -> Option<String> {
        let lost = lock(&self.losses.lost);
        let mut all: Vec<(u32, &str)> = lost.iter().map(|it| (it.process, it.text.as_str())).collect();
        all.sort_unstable();
        let texts: Vec<&str> = all.into_iter().map(|(_, text)| text).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// A failure as people are told of it: of a loss, who was lost and why. Another process may have heard of that before this one
/// does, so this may wait a moment; it is for who returns to the program, and not for a task.
pub fn explained(error: Error) -> Error {
    let is_bare = error.class == Class::ProcFailed && error.text == error.class.words();
    let told = || world().ok().filter(|_| is_bare).and_then(World::await_losses);
    told().map(|text| Error::new(error.class, text)).unwrap_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_its_own_time() {
        let (losses, start) = (Losses::default(), Instant::now());
        let [one, other] = [1, 2].map(|peer| Ended { peer, left: false });
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(losses.overdue(vec![one], start), []);
        assert_eq!(losses.overdue(vec![one, other], after(1400)), []);
        assert_eq!(losses.overdue(vec![one, other], after(1600)), [one]);
        assert_eq!(losses.overdue(vec![other], after(2800)), []);
        assert_eq!(losses.overdue(vec![other], after(3000)), [other]);
        assert_eq!(losses.overdue(vec![], after(3100)), []);
        assert_eq!(losses.overdue(vec![one], after(9000)), [], "the doubt begins again");
    }

    #[test]
    fn who_calls_seldom_attends_by_the_clock() {
        let losses = Losses::default();
        let due = |losses: &Losses| (0..CALLS).filter(|_| losses.is_due()).count();
        assert_eq!(due(&losses), 1, "never yet");
        *lock(&losses.attended) = Some(Instant::now() + Duration::from_secs(3600)); // whatever the calls take
        assert_eq!(due(&losses), 0, "not yet again");
        *lock(&losses.attended) = Instant::now().checked_sub(2 * SELDOM);
        assert_eq!(due(&losses), 1);
    }
}
