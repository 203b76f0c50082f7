//! Which checkpoints of a program that survives losses are brought to the launcher. A checkpoint counts when the launcher has the
//! files of every rank.
//!
//! One checkpoint is brought at a time. The next one is the newest that every rank has completed by then. So ranks that save
//! faster than the launcher can receive lose checkpoints in between, and never all of them.

use super::{Command, Launch};
use std::collections::BTreeSet;
use std::time::Duration;

/// Most steps of a rank that the launcher remembers. Ranks of one program are rarely more than one step apart.
const MOST_STEPS: usize = 64;

/// What the ranks have saved since their start, and what is on its way.
#[derive(Debug, Default)]
pub struct Gathering {
    /// For each rank, the completed steps that are newer than the last one that counts.
    pub(super) saved: Vec<BTreeSet<u64>>,
    /// The step on its way, and the machines that have not sent all of it.
    fetched: Option<(u64, BTreeSet<usize>)>,
    /// The user knows that the latest checkpoints could not be brought.
    has_complained: bool,
}

impl Gathering {
    /// For so many ranks, which have just been started.
    pub fn new(ranks: usize) -> Gathering {
        Gathering { saved: vec![BTreeSet::new(); ranks], ..Gathering::default() }
    }

    fn save(&mut self, rank: u32, step: u64) {
        let Some(steps) = self.saved.get_mut(rank as usize) else { return };
        steps.insert(step);
        if steps.len() > MOST_STEPS {
            steps.pop_first();
        }
    }

    /// Forgets a step, and all older ones if `older`.
    fn forget(&mut self, step: u64, older: bool) {
        self.saved.iter_mut().for_each(|steps| steps.retain(|its| *its > step || (!older && *its < step)));
    }

    /// The newest step that every rank has completed.
    fn newest(&self) -> Option<u64> {
        let first = self.saved.first()?;
        first.iter().rev().copied().find(|step| self.saved.iter().all(|steps| steps.contains(step)))
    }
}

impl Launch {
    /// A rank has completed its files of a step on its machine.
    pub fn on_completed(&mut self, now: Duration, rank: u32, step: u64) {
        self.now = now;
        if self.restart.superstep() < step {
            self.gathering.save(rank, step);
            self.fetch_next();
            self.release_between();
        }
    }

    /// A machine has sent the files of its ranks; or the reason why not.
    pub fn on_fetched(&mut self, now: Duration, machine: usize, step: u64, outcome: Result<(), String>) {
        self.now = now;
        let Some((_, waits)) = self.gathering.fetched.as_mut().filter(|(its, _)| *its == step) else { return };
        waits.remove(&machine);
        let is_whole = waits.is_empty();
        match outcome {
            Err(why) => self.give_checkpoint_up(step, &why),
            Ok(()) if is_whole => self.commands.push(Command::Keep { step }),
            Ok(()) => {}
        }
    }

    /// The launcher has, or has not, made a checkpoint of the files that it has received of all ranks.
    pub fn on_kept(&mut self, now: Duration, step: u64, outcome: Result<(), String>) {
        self.now = now;
        if let Err(why) = outcome {
            return self.give_checkpoint_up(step, &why);
        }
        self.gathering.has_complained = false;
        self.gathering.fetched = None;
        self.gathering.forget(step, true);
        self.restart.save(step);
        self.commands.push(Command::Release { step });
        self.fetch_next();
    }

    /// The program goes on without this checkpoint. The user is told once in a row.
    fn give_checkpoint_up(&mut self, step: u64, why: &str) {
        self.gathering.fetched = None;
        self.gathering.forget(step, false);
        if !std::mem::replace(&mut self.gathering.has_complained, true) {
            let newest = match self.restart.superstep() {
                0 => "there is none yet".to_owned(),
                newest => format!("the newest is that of step {newest}"),
            };
            self.commands.push(Command::Say(format!("the checkpoint of step {step} does not count: {why}; {newest}")));
        }
        self.fetch_next();
    }

    /// While a step is on its way, machines may remove those between it and the newest that all ranks have. So a machine has room for
    /// few steps, however fast its ranks save.
    fn release_between(&mut self) {
        let newest = self.gathering.newest();
        let Some((fetched, step)) = self.gathering.fetched.as_ref().map(|(step, _)| *step).zip(newest) else { return };
        let is_between = |its: &u64| *its < step && *its != fetched;
        if self.gathering.saved.iter().flatten().any(is_between) {
            self.gathering.saved.iter_mut().for_each(|steps| steps.retain(|its| !is_between(its)));
            self.commands.push(Command::Release { step });
        }
    }

    fn fetch_next(&mut self) {
        if self.gathering.fetched.is_some() || self.ending.is_some() {
            return;
        }
        if let Some(step) = self.gathering.newest() {
            self.gathering.fetched = Some((step, self.machines_of(0)));
            self.commands.push(Command::Fetch { step });
        }
    }
}
