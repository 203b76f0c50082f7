//! The launcher of a message passing program (paper 001, section 4.2): the state of its processes, and when the program
//! ends.
//!
//! The driver reports events, and carries out the [`Command`]s in order.

mod agreements;
mod ending;
mod gathering;
mod meeting;
mod moving;
mod ports;
mod restart;
#[cfg(test)]
mod tests;
mod worlds;

pub use meeting::Place;
pub use worlds::MOST_SPAWNED;

use crate::level::Levels;
use crate::text::escaped;
use crate::wire::machines::Exit;
use crate::wire::ranks::{Entry, FromRank, Listens, MOST_CERTIFICATE, MOST_TEXT, ToRank};
use crate::wire::universe::Wanted;
use agreements::Agreements;
use ending::Ending;
use gathering::Gathering;
use meeting::Meetings;
use moving::Moving;
use ports::{Asker, Ports};
use restart::{Again, Restart};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use worlds::{State, World};

/// A command to the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Command {
    /// Send a message to ranks of one machine. Ranks that have ended get nothing.
    Tell { ranks: Vec<u32>, message: ToRank },
    /// Send a signal to every live process and its children.
    Signal { number: i32 },
    /// Start a world's processes, under a machine number of their own in the driver's books. On executors, this number
    /// names the processes that [`Launch::on_placed`] reports.
    Start { machine: usize, ranks: Range<u32>, programs: Vec<Wanted> },
    /// Kill the processes of one machine.
    End { machine: usize },
    /// All processes of a machine number that was added later have ended.
    Forget { machine: usize },
    /// Make a connection, and give one end to each of the two processes.
    Meet { one: u32, other: u32 },
    /// Show the user a message.
    Say(String),
    /// Look for places for this machine's processes on other machines. [`Launch::on_places`] follows.
    Seek { machine: usize, places: u32 },
    /// All processes have ended and must be restarted: without the machines that are gone, and not on the one to leave.
    /// [`Launch::on_restarted`] or [`Launch::on_not_restarted`] follows.
    Restart { without: Vec<usize>, leave: Option<usize> },
    /// The restart elsewhere failed: restart the processes where they were. The same calls follow.
    Return,
    /// Ask all machines for their ranks' files of a step. [`Launch::on_fetched`] follows for each.
    Fetch { step: u64 },
    /// All machines have sent theirs: make a checkpoint of them. [`Launch::on_kept`] follows.
    Keep { step: u64 },
    /// Machines may remove files of older steps, except those that they are sending.
    Release { step: u64 },
    /// All processes have ended. This is the exit code of the program.
    Finish { code: i32 },
}

/// Options for the whole program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Their names, for people.
    pub machines: Vec<String>,
    /// The machine number of each rank. Ranks of one machine are consecutive.
    pub machine_of: Vec<usize>,
    /// The levels of links between hosts: `levels[one][other]`.
    pub levels: Vec<Vec<Levels>>,
    /// The host of each machine. Processes spawned later on a host have a machine number of their own.
    pub host_of: Vec<usize>,
    /// The hosts are executors, so processes of different worlds connect with each other directly.
    pub is_remote: bool,
    /// A rank that fails does not end the others.
    pub keep_going: bool,
    /// How often a program that makes checkpoints is restarted without a new checkpoint in between.
    pub restarts: u32,
    /// The program saves files of its own, and is restarted from them: the step that it begins from, 0 for its beginning.
    pub survives: Option<u64>,
    /// Why the program cannot spawn processes; `None` if it can.
    pub fixed: Option<String>,
    /// Why its processes cannot move to other machines; `None` if they can.
    pub bound: Option<String>,
    /// A BSP program: messages to the user have BSP's words.
    pub is_bsp: bool,
}

impl Options {
    /// The user's word for the number of a process.
    fn rank(&self) -> &'static str {
        if self.is_bsp { "pid" } else { "rank" }
    }

    /// The call that begins message passing.
    fn first_call(&self) -> &'static str {
        if self.is_bsp { "bsp begin" } else { "MPI_Init" }
    }

    /// The call that ends message passing.
    fn last_call(&self) -> &'static str {
        if self.is_bsp { "bsp end" } else { "MPI_Finalize" }
    }
}

/// A running program.
#[derive(Debug)]
pub struct Launch {
    now: Duration,
    options: Options,
    /// All processes of all worlds.
    ranks: Vec<Rank>,
    worlds: Vec<World>,
    /// The number of processes that have not ended.
    living: u32,
    ports: Ports,
    agreements: Agreements,
    /// The exit code of the first failure.
    failed: Option<i32>,
    /// The exit code of a rank that was lost while the others could go on without it.
    lost: Option<i32>,
    ending: Option<Ending>,
    restart: Restart,
    moving: Moving,
    gathering: Gathering,
    /// Losses that processes which join later must hear of.
    losses: Vec<ToRank>,
    meetings: Meetings,
    commands: Vec<Command>,
}

#[derive(Debug, Default)]
struct Rank {
    world: usize,
    phase: Phase,
    end: Option<End>,
    listens: Option<Listens>,
    /// Processes of other worlds, with lower numbers, that it was connected with.
    met: BTreeSet<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Phase {
    #[default]
    Started,
    /// It passes messages.
    Joined,
    Finalized,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Well,
    Badly,
}

impl Rank {
    /// Whether it waits for other processes, and they for it.
    fn passes_messages(&self) -> bool {
        self.phase == Phase::Joined && self.end.is_none()
    }
}

impl Launch {
    /// A program whose processes are about to be started.
    pub fn new(options: Options) -> Launch {
        let mut restart = Restart::new(options.restarts);
        options.survives.into_iter().for_each(|step| restart.begin_from(step));
        let mut launch = Launch {
            now: Duration::ZERO,
            options,
            ranks: Vec::new(),
            worlds: Vec::new(),
            living: 0,
            ports: Ports::default(),
            agreements: Agreements::default(),
            failed: None,
            lost: None,
            ending: None,
            restart,
            moving: Moving::default(),
            gathering: Gathering::default(),
            losses: Vec::new(),
            meetings: Meetings::default(),
            commands: Vec::new(),
        };
        launch.begin();
        launch
    }

    /// Begins the world of the command line.
    fn begin(&mut self) {
        self.ranks = self.options.machine_of.iter().map(|_| Rank::default()).collect();
        self.living = self.ranks.len() as u32;
        self.worlds = vec![World { ranks: 0..self.living, living: self.living, state: State::Begun, revoked: false }];
        self.agreements = Agreements::default();
        self.gathering = Gathering::new(self.ranks.len());
    }

    /// Handles a message of a process.
    pub fn on_message(&mut self, now: Duration, rank: u32, message: FromRank) {
        self.now = now;
        match message {
            FromRank::Joined { listens } => self.join(rank, listens),
            FromRank::Finalized => {
                self.advance(rank, Phase::Finalized);
                self.part_from_all(rank);
                self.leave(rank);
                self.settle_without(rank);
            }
            FromRank::Abort { code, text } => self.abort(rank, code, &text),
            FromRank::Saved { superstep } => {
                self.restart.save(superstep.into());
                self.move_now();
            }
            FromRank::Leave { process, why } => self.wish_to_leave(rank, process, why),
            FromRank::Ask { .. } | FromRank::Meet { .. } | FromRank::Listens { .. } | FromRank::Revoke { .. }
                if self.ranks[rank as usize].phase == Phase::Started =>
            {
                self.on_nonsense(now, rank);
            }
            FromRank::Cut { process } => self.lose_connection(rank, process),
            FromRank::Revoke { context, processes } => self.revoke(rank, context, &processes),
            FromRank::Ask { number, question } => self.answer(Asker { rank, number }, question),
            FromRank::Meet { process } => self.meet(rank, process),
            FromRank::Listens { process, listens } => self.introduce(rank, process, listens),
        }
    }

    /// A process sent bytes that are not a message.
    pub fn on_nonsense(&mut self, now: Duration, rank: u32) {
        let name = self.name(rank);
        self.on_trouble(now, format!("{name} does not speak the launcher's language: another version of phalanx?"), 1);
    }

    /// A machine is gone, with the reason. The state of its ranks is unknown from now on.
    pub fn on_machine_gone(&mut self, now: Duration, machine: usize, why: &str) {
        self.restart.lose_machine(machine);
        let its = (0..).zip(&self.options.machine_of).filter(|(_, its)| **its == machine);
        let its: Vec<u32> = its.map(|(rank, _)| rank).collect();
        its.iter().for_each(|rank| self.agreements.doubt(*rank));
        for rank in its {
            self.on_end(now, rank, &Exit::Unseen(why.to_owned()));
        }
    }

    /// Handles the end of a process.
    pub fn on_end(&mut self, now: Duration, rank: u32, exit: &Exit) {
        self.now = now;
        let Rank { phase, end: None, world, .. } = self.ranks[rank as usize] else { return };
        let fault = self.fault(phase, exit);
        let ours = self.ending.as_ref().is_some_and(Ending::has_signalled);
        if matches!(exit, Exit::Unseen(_)) || (matches!(exit, Exit::Signal(_)) && !ours) {
            self.restart.lose();
        }
        let unborn = self.fail_to_spawn(rank, fault.as_ref().map(|(what, _)| what.as_str()));
        let fault = fault.filter(|_| !unborn);
        self.ranks[rank as usize].end = Some(if fault.is_some() { End::Badly } else { End::Well });
        if fault.is_none() {
            self.part_from_all(rank);
        }
        self.ranks[rank as usize].met.clear();
        self.meetings.leave(rank);
        self.leave(rank);
        match fault {
            Some((what, code)) if self.ending.is_none() => self.lose(rank, &what, code),
            _ => self.check_absent(world),
        }
        self.settle_without(rank); // after all have heard of the loss
        self.count_end(rank);
    }

    fn count_end(&mut self, rank: u32) {
        self.living -= 1;
        let world = self.ranks[rank as usize].world;
        self.worlds[world].living -= 1;
        if self.worlds[world].living == 0 && world > 0 {
            let forget = |machine| Command::Forget { machine };
            self.commands.extend(self.machines_of(world).into_iter().map(forget));
        }
        if self.living == 0 {
            self.finish();
        }
    }

    /// All processes have been restarted, on these machines.
    pub fn on_restarted(&mut self, now: Duration, options: Options) {
        self.now = now;
        self.note_places(&options, u32::try_from(self.restart.superstep()).unwrap_or(u32::MAX));
        self.options = options;
        self.begin();
        self.losses.clear();
        self.restart.done();
    }

    /// The user or the system asks the program to end, by this signal. A second time ends it at once.
    pub fn on_interrupt(&mut self, now: Duration, number: i32) {
        self.failed.get_or_insert(128 + number);
        if self.restart.give_up() {
            return self.finish();
        }
        match &mut self.ending {
            Some(ending) => ending.hurry(now),
            None => self.ending = Some(Ending::terminate(now)),
        }
        self.on_time(now);
    }

    /// The program cannot go on. `code` is its exit code.
    pub fn on_trouble(&mut self, now: Duration, what: String, code: i32) {
        self.now = now;
        let rests = self.restart.give_up();
        self.fail(what, code);
        if rests {
            self.finish();
        }
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Duration) {
        self.now = now;
        let due = self.ending.as_mut().and_then(|ending| ending.due(now));
        self.commands.extend(due.map(|number| Command::Signal { number }));
    }

    /// When [`Launch::on_time`] must be called at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        self.ending.as_ref().map(Ending::next)
    }

    /// The commands since the last call.
    pub fn take(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    fn join(&mut self, rank: u32, listens: Option<Listens>) {
        if listens.as_ref().is_some_and(|it| it.certificate.len() > MOST_CERTIFICATE) {
            return self.on_nonsense(self.now, rank);
        }
        self.ranks[rank as usize].listens = listens;
        self.advance(rank, Phase::Joined);
        let told = self.losses.iter().map(|loss| Command::Tell { ranks: vec![rank], message: loss.clone() });
        self.commands.extend(told);
        let world = self.ranks[rank as usize].world;
        if world > 0 {
            self.end_late(rank);
            self.greet(rank);
        }
        if self.worlds[world].revoked {
            self.commands.push(Command::Tell { ranks: vec![rank], message: ToRank::Revoked { context: 0 } });
        }
        self.check_absent(world);
        if world == 0 && self.machines_of(0).len() > 1 && self.all_joined(0) && self.ending.is_none() {
            self.tell_table(0);
        }
    }

    fn advance(&mut self, rank: u32, phase: Phase) {
        let its = &mut self.ranks[rank as usize].phase;
        *its = phase.max(*its);
    }

    fn all_joined(&self, world: usize) -> bool {
        self.worlds[world].ranks.clone().all(|rank| self.ranks[rank as usize].phase >= Phase::Joined)
    }

    fn machines_of(&self, world: usize) -> BTreeSet<usize> {
        self.worlds[world].ranks.clone().map(|rank| self.options.machine_of[rank as usize]).collect()
    }

    /// Tells all processes of a world on several machines where its processes are reached.
    fn tell_table(&mut self, world: usize) {
        let ranks = self.worlds[world].ranks.clone();
        let listens = ranks.clone().map(|rank| self.ranks[rank as usize].listens.clone());
        let Some(all) = listens.collect::<Option<Vec<_>>>() else {
            return self.fail("a process did not say where those of other machines reach it".to_owned(), 1);
        };
        for machine in self.machines_of(world) {
            let entry = |(rank, listens): (u32, &Listens)| self.entry(rank, listens.clone(), machine);
            let entries = ranks.clone().zip(&all).map(entry).collect();
            let ranks = self.listening(machine);
            self.commands.push(Command::Tell { ranks, message: ToRank::Table { entries } });
        }
    }

    /// The entry of a process, as seen by processes of the machine `from`.
    fn entry(&self, rank: u32, listens: Listens, from: usize) -> Entry {
        let [its, readers] =
            [self.options.machine_of[rank as usize], from].map(|machine| self.options.host_of[machine]);
        Entry { machine: its as u32, listens, levels: self.options.levels[readers][its] }
    }

    fn abort(&mut self, rank: u32, code: i32, text: &str) {
        let text: String = escaped(text.trim_end()).chars().take(MOST_TEXT).collect();
        let separator = if text.is_empty() { "" } else { ": " };
        if !self.restart.is_wanted() {
            self.restart.give_up(); // a rank that aborts because of a loss is ended for the restart already
        }
        let what = format!("{} aborted with code {code}{separator}{text}", self.name(rank));
        if self.ending.is_none() {
            self.tell_others(rank, &ToRank::Abort { rank, code, text });
        }
        // An exit code has 8 bits, and must not be 0, which stands for success.
        self.fail(what, if code & 0xff == 0 { 1 } else { code & 0xff });
    }

    /// A rank has failed or was lost. The others are told, and are ended unless they may go on.
    fn lose(&mut self, rank: u32, what: &str, code: i32) {
        let text = format!("{} {what}{}", self.name(rank), self.restart.excuse());
        if self.restart.is_wanted() {
            return self.end_for_restart(text);
        }
        if !self.agreements.is_excluded(rank) {
            let loss = ToRank::Lost { rank, text: text.clone() };
            self.tell_others(rank, &loss);
            self.losses.push(loss);
        }
        if !self.options.keep_going {
            return self.fail(text, code);
        }
        self.commands.push(Command::Say(format!("{text}; the others go on")));
        // Processes that pass messages can go on without it, or fail by themselves.
        let known = self.ranks[rank as usize].phase == Phase::Joined;
        (if known { &mut self.lost } else { &mut self.failed }).get_or_insert(code);
        self.check_absent(self.ranks[rank as usize].world);
    }

    /// A rank has lost its connection with another one, while the launcher hears of both. A program that survives losses is
    /// restarted; another one decides what follows.
    fn lose_connection(&mut self, rank: u32, process: u32) {
        let known = self.ranks.get(process as usize).is_some_and(|it| it.end.is_none());
        if self.options.survives.is_none() || !known || self.ending.is_some() {
            return;
        }
        self.restart.lose();
        let (one, other) = (self.name(rank), self.name(process));
        let text = format!("{one} has no connection with {other} any more{}", self.restart.excuse());
        if self.restart.is_wanted() { self.end_for_restart(text) } else { self.fail(text, 1) }
    }

    /// A program that will be restarted gets no time for last output.
    fn end_for_restart(&mut self, text: String) {
        self.commands.push(Command::Say(text));
        self.ending = Some(Ending::kill(self.now));
        self.on_time(self.now);
    }

    /// Processes that pass messages wait for every rank of their world. A rank that ended without joining never comes.
    fn check_absent(&mut self, world: usize) {
        let World { ranks, state: State::Begun, .. } = &self.worlds[world] else { return };
        let its = &self.ranks[ranks.start as usize..ranks.end as usize];
        let absent = |it: &Rank| it.end.is_some() && it.phase == Phase::Started;
        let Some(place) = its.iter().position(absent) else { return };
        if its.iter().any(Rank::passes_messages) {
            let name = self.name(ranks.start + place as u32);
            self.fail(format!("{name} ended without {}, and others wait for it", self.options.first_call()), 1);
        }
    }

    fn fail(&mut self, what: String, code: i32) {
        if self.ending.is_some() {
            return;
        }
        self.failed = Some(code);
        self.commands.push(Command::Say(what));
        let told = self.ranks.iter().any(Rank::passes_messages);
        self.ending = Some(if told { Ending::tell(self.now) } else { Ending::terminate(self.now) });
        self.on_time(self.now);
    }

    fn finish(&mut self) {
        self.stay_at_the_end();
        self.moving.forget_wish();
        if let Some(Again { without, leave }) = self.restart.begin() {
            (self.failed, self.lost, self.ending) = (None, None, None);
            self.commands.push(Command::Say(self.restart.plan()));
            return self.commands.push(Command::Restart { without, leave });
        }
        self.sum_up_moves();
        let all_lost = self.ranks[..self.worlds[0].ranks.len()].iter().all(|it| it.end == Some(End::Badly));
        let code = self.failed.or(self.lost.filter(|_| all_lost)).unwrap_or(0);
        self.commands.push(Command::Finish { code });
    }

    fn tell_others(&mut self, rank: u32, message: &ToRank) {
        let mut by_machine: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (other, (it, machine)) in (0..).zip(self.ranks.iter().zip(&self.options.machine_of)) {
            if it.passes_messages() && other != rank {
                by_machine.entry(*machine).or_default().push(other);
            }
        }
        let tell = |ranks| Command::Tell { ranks, message: message.clone() };
        self.commands.extend(by_machine.into_values().map(tell));
    }

    /// The machine's ranks that pass messages.
    fn listening(&self, machine: usize) -> Vec<u32> {
        let all = (0..).zip(self.ranks.iter().zip(&self.options.machine_of));
        all.filter(|(_, (it, its))| **its == machine && it.passes_messages()).map(|(rank, _)| rank).collect()
    }

    /// Why a process that ended this way is at fault, and its exit code. `None`: it ended as it should.
    fn fault(&self, phase: Phase, exit: &Exit) -> Option<(String, i32)> {
        match exit {
            Exit::Signal(number) => Some((format!("was killed by signal {}", signal_name(*number)), 128 + number)),
            Exit::Unstarted(why) => Some((format!("cannot be started: {why}"), 127)),
            Exit::Unseen(why) => Some((format!("is lost: {why}"), 1)),
            Exit::Code(0) if phase == Phase::Joined => Some((format!("ended without {}", self.options.last_call()), 1)),
            Exit::Code(0) => None,
            Exit::Code(code) => Some((format!("exited with status {code}"), *code)),
        }
    }

    fn name(&self, rank: u32) -> String {
        let machine = &self.options.machines[self.options.machine_of[rank as usize]];
        let name = self.spawned_name(rank).unwrap_or_else(|| format!("{} {rank}", self.options.rank()));
        format!("{name} on {machine}")
    }
}

/// A signal for people, like `9 (SIGKILL)`.
pub fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        6 => "ABRT",
        7 => "BUS",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        _ => return number.to_string(),
    };
    format!("{number} (SIG{name})")
}
