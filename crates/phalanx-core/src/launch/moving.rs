//! Leaving a slow machine. A BSP program makes a checkpoint for this, is ended, and continues from it with the
//! machine's processes elsewhere.
//!
//! A process asks for the move. The driver looks for places, process 0 makes a checkpoint, and the program is
//! restarted. Other events take precedence: a loss in between cancels the move.

use super::{Command, End, Launch, Options};
use crate::wire::ranks::{ToRank, Why};
use std::collections::BTreeSet;
use std::time::Duration;

/// Backoff: no further search for places for this long after one found none, or after a move failed.
const PAUSE: Duration = Duration::from_secs(30);
/// The same pause when a process asks explicitly.
const PAUSE_OF_WHO_ASKS: Duration = Duration::from_secs(5);

/// The moves that were made, and the one under way.
#[derive(Debug, Default)]
pub(super) struct Moving {
    stage: Stage,
    /// Processes that have left a machine because it was slow. If they are slow elsewhere too, the reason is their
    /// work.
    moved: BTreeSet<u32>,
    /// When the last attempt failed.
    failed: Option<Duration>,
    /// Reasons against a move that were already shown to the user.
    said: BTreeSet<String>,
    /// The moves made, described for the user.
    done: Vec<String>,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Rest,
    /// The driver looks for places.
    Seeks(Wish),
    /// Process 0 must make a checkpoint.
    Saves(Wish),
    /// All processes are being ended and restarted.
    Moves(Wish),
}

/// A machine to leave.
#[derive(Debug)]
struct Wish {
    machine: usize,
    processes: Vec<u32>,
    /// The processes and the machine, described for people.
    who: String,
    from: String,
    why: Why,
}

impl Launch {
    /// A process asks that the machine of `process` be left.
    pub(super) fn wish_to_leave(&mut self, says: u32, process: u32, why: Why) {
        let Some(machine) = self.options.machine_of.get(process as usize).copied() else {
            return self.on_nonsense(self.now, says);
        };
        if self.ending.is_some() || !matches!(self.moving.stage, Stage::Rest) {
            return;
        }
        let all = (0..).zip(&self.options.machine_of);
        let processes: Vec<u32> = all.filter(|(_, its)| **its == machine).map(|(process, _)| process).collect();
        let (who, from) = (people(self.options.rank(), &processes), self.options.machines[machine].clone());
        let wish = Wish { machine, processes, who, from, why };
        if let Some(bound) = &self.options.bound {
            let bound = bound.clone();
            return self.refuse(&wish, &bound);
        }
        let is_slow = matches!(why, Why::Slow { .. });
        if is_slow && wish.processes.iter().any(|process| self.moving.moved.contains(process)) {
            return self.refuse(&wish, "it was moved before, so what it computes takes longer, and not its machine");
        }
        let pause = if is_slow { PAUSE } else { PAUSE_OF_WHO_ASKS };
        if self.moving.failed.is_some_and(|failed| self.now < failed + pause) {
            return;
        }
        self.commands.push(Command::Seek { machine, places: wish.processes.len() as u32 });
        self.moving.stage = Stage::Seeks(wish);
    }

    /// The driver has looked for places on other machines. An error says why there are not enough.
    pub fn on_places(&mut self, now: Duration, machine: usize, found: Result<(), String>) {
        self.now = now;
        if self.ending.is_some() || !matches!(&self.moving.stage, Stage::Seeks(wish) if wish.machine == machine) {
            return;
        }
        let Stage::Seeks(wish) = std::mem::take(&mut self.moving.stage) else { return };
        match found {
            Ok(()) => {
                self.commands.push(Command::Tell { ranks: vec![0], message: ToRank::Save });
                self.moving.stage = Stage::Saves(wish);
            }
            Err(why) => {
                self.moving.failed = Some(now);
                self.refuse(&wish, &why);
            }
        }
    }

    /// A checkpoint was made, so a move that waits for it begins now.
    pub(super) fn move_now(&mut self) {
        if self.ending.is_some() || !matches!(self.moving.stage, Stage::Saves(_)) {
            return;
        }
        let Stage::Saves(wish) = std::mem::take(&mut self.moving.stage) else { return };
        self.restart.leave(wish.machine);
        let text = format!("{} will move from {}: {}", wish.who, wish.from, reason(wish.why));
        self.moving.stage = Stage::Moves(wish);
        self.end_for_restart(text);
    }

    /// A program that has ended meanwhile is not restarted.
    pub(super) fn stay_at_the_end(&mut self) {
        if self.ranks.iter().all(|rank| rank.end == Some(End::Well)) {
            self.restart.stay();
        }
    }

    /// The program was restarted on these machines.
    pub(super) fn note_places(&mut self, options: &Options, superstep: u32) {
        let Stage::Moves(wish) = std::mem::take(&mut self.moving.stage) else { return };
        let its: BTreeSet<usize> = wish.processes.iter().map(|process| options.machine_of[*process as usize]).collect();
        let names: Vec<&str> = its.iter().map(|machine| &options.machines[*machine][..]).collect();
        let (who, from, to) = (&wish.who, &wish.from, names.join(" and "));
        if names.contains(&&wish.from[..]) {
            self.moving.failed = Some(self.now);
            let text = format!("{who} cannot move from {from}: places elsewhere were taken; the program goes on there");
            return self.commands.push(Command::Say(text));
        }
        self.commands.push(Command::Say(format!("{who} moved from {from} to {to}")));
        self.moving.done.push(format!("{who} from {from} to {to} at superstep {superstep}: {}", reason(wish.why)));
        if matches!(wish.why, Why::Slow { .. }) {
            self.moving.moved.extend(wish.processes);
        }
    }

    /// The program could not be restarted, with the reason.
    pub fn on_not_restarted(&mut self, now: Duration, why: &str) {
        self.now = now;
        let Stage::Moves(wish) = std::mem::take(&mut self.moving.stage) else {
            return self.on_trouble(now, format!("the program cannot go on: {why}"), 1);
        };
        self.moving.moved.extend(&wish.processes);
        self.moving.failed = Some(now);
        let text = format!("{} cannot move from {}: {why}; the program goes on where it was", wish.who, wish.from);
        self.commands.extend([Command::Say(text), Command::Return]);
    }

    /// Tells the user at the end about the moves.
    pub(super) fn sum_up_moves(&mut self) {
        for text in std::mem::take(&mut self.moving.done) {
            self.commands.push(Command::Say(format!("moved: {text}")));
        }
    }

    /// Tells the user, once for each reason, why a machine is not left.
    fn refuse(&mut self, wish: &Wish, why: &str) {
        let text = format!("{} cannot move from {}: {why}", wish.who, wish.from);
        if self.moving.said.insert(text.clone()) {
            self.commands.push(Command::Say(format!("{text} ({})", reason(wish.why))));
        }
    }
}

impl Moving {
    /// Drops a wish of processes that have ended. A move under way continues.
    pub fn forget_wish(&mut self) {
        if !matches!(self.stage, Stage::Moves(_)) {
            self.stage = Stage::Rest;
        }
    }
}

fn people(rank: &str, processes: &[u32]) -> String {
    match processes {
        [one] => format!("{rank} {one}"),
        [first, .., last] => format!("{rank}s {first} to {last}"),
        [] => String::new(),
    }
}

fn reason(why: Why) -> String {
    match why {
        Why::Asked => "the program asks for it".to_owned(),
        Why::Slow { steps, tenths } => {
            let (times, tenth) = (tenths / 10, tenths % 10);
            format!("its last {steps} steps took {times}.{tenth} times as long as those of other machines")
        }
    }
}
