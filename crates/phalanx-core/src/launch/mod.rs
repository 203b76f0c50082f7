//! The launcher of a message passing program (paper 001, section 4.2): what its processes do, and when the program ends.
//!
//! The driver tells what happened and carries out the [`Command`]s, in their order.

mod ending;
#[cfg(test)]
mod tests;
use crate::level::Levels;
use crate::wire::machines::Exit;
use crate::wire::ranks::{Entry, FromRank, Listens, MOST_CERTIFICATE, MOST_TEXT, ToRank};
use ending::Ending;
use std::time::Duration;

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Send a message to ranks of one machine; nothing to those that have ended.
    Tell { ranks: Vec<u32>, message: ToRank },
    /// Send a signal to every process that lives, and to what it has started.
    Signal { number: i32 },
    /// Tell the user.
    Say(String),
    /// All processes have ended; this is the program's exit code.
    Finish { code: i32 },
}

/// What holds for the whole program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Names for people.
    pub machines: Vec<String>,
    /// For each rank, its machine's number. Ranks of one machine follow each other.
    pub machine_of: Vec<usize>,
    /// How the links of machines are protected: `levels[one][other]`.
    pub levels: Vec<Vec<Levels>>,
    /// A rank that fails does not end the others.
    pub keep_going: bool,
}

/// A running program.
#[derive(Debug)]
pub struct Launch {
    now: Duration,
    options: Options,
    ranks: Vec<Rank>,
    /// The first failure's code.
    failed: Option<i32>,
    /// The same of a rank that was lost while the others were ready to go on without it.
    lost: Option<i32>,
    ending: Option<Ending>,
    /// What those who join later are to hear.
    losses: Vec<ToRank>,
    commands: Vec<Command>,
}

#[derive(Debug, Default)]
struct Rank {
    phase: Phase,
    end: Option<End>,
    listens: Option<Listens>,
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
    /// It waits for others, and others for it.
    fn passes_messages(&self) -> bool {
        self.phase == Phase::Joined && self.end.is_none()
    }
}

impl Launch {
    /// A program whose processes are about to be started.
    pub fn new(options: Options) -> Launch {
        let ranks = options.machine_of.iter().map(|_| Rank::default()).collect();
        let (now, commands) = (Duration::ZERO, Vec::new());
        Launch { now, options, ranks, failed: None, lost: None, ending: None, losses: Vec::new(), commands }
    }

    /// A process said something.
    pub fn on_message(&mut self, now: Duration, rank: u32, message: FromRank) {
        self.now = now;
        match message {
            FromRank::Joined { listens } => self.join(rank, listens),
            FromRank::Finalized => self.advance(rank, Phase::Finalized),
            FromRank::Abort { code, text } => self.abort(rank, code, &text),
        }
    }

    /// What a process said cannot be understood.
    pub fn on_nonsense(&mut self, now: Duration, rank: u32) {
        let name = self.name(rank);
        self.on_trouble(now, format!("{name} does not speak the launcher's language: another version of phalanx?"), 1);
    }

    /// A machine is gone, and why: nobody sees any more what its ranks do.
    pub fn on_machine_gone(&mut self, now: Duration, machine: usize, why: &str) {
        let its = (0..).zip(&self.options.machine_of).filter(|(_, its)| **its == machine);
        for rank in its.map(|(rank, _)| rank).collect::<Vec<u32>>() {
            self.on_end(now, rank, &Exit::Unseen(why.to_owned()));
        }
    }

    /// A process ended.
    pub fn on_end(&mut self, now: Duration, rank: u32, exit: &Exit) {
        self.now = now;
        let Rank { phase, end: None, .. } = self.ranks[rank as usize] else { return };
        let fault = fault(phase, exit);
        self.ranks[rank as usize].end = Some(if fault.is_some() { End::Badly } else { End::Well });
        match fault {
            Some((what, code)) if self.ending.is_none() => self.lose(rank, &what, code),
            _ => self.check_absent(),
        }
        if self.ranks.iter().all(|it| it.end.is_some()) {
            self.finish();
        }
    }

    /// The user or the system wants the program to end, by this signal; a second time: at once.
    pub fn on_interrupt(&mut self, now: Duration, number: i32) {
        self.failed.get_or_insert(128 + number);
        match &mut self.ending {
            Some(ending) => ending.hurry(now),
            None => self.ending = Some(Ending::terminate(now)),
        }
        self.on_time(now);
    }

    /// The program cannot go on: why, and its exit code.
    pub fn on_trouble(&mut self, now: Duration, what: String, code: i32) {
        self.now = now;
        self.fail(what, code);
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Duration) {
        self.now = now;
        let due = self.ending.as_mut().and_then(|ending| ending.due(now));
        self.commands.extend(due.map(|number| Command::Signal { number }));
    }

    /// When [`Launch::on_time`] is to be called at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        self.ending.as_ref().map(Ending::next)
    }

    /// What is to be done since the last call.
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
        self.check_absent();
        let all = self.ranks.iter().all(|it| it.phase >= Phase::Joined);
        if all && self.options.machines.len() > 1 && self.ending.is_none() {
            self.tell_table();
        }
    }

    fn advance(&mut self, rank: u32, phase: Phase) {
        let its = &mut self.ranks[rank as usize].phase;
        *its = phase.max(*its);
    }

    fn tell_table(&mut self) {
        let Some(all) = self.ranks.iter().map(|it| it.listens.clone()).collect::<Option<Vec<_>>>() else {
            return self.fail("a rank did not say where those of other machines reach it".to_owned(), 1);
        };
        for (machine, levels) in self.options.levels.iter().enumerate() {
            let entry = |(listens, its): (&Listens, &usize)| Entry {
                machine: *its as u32,
                listens: listens.clone(),
                levels: levels[*its],
            };
            let entries = all.iter().zip(&self.options.machine_of).map(entry).collect();
            let ranks = self.listening(machine);
            self.commands.push(Command::Tell { ranks, message: ToRank::Table { entries } });
        }
    }

    fn abort(&mut self, rank: u32, code: i32, text: &str) {
        let text: String = text.chars().filter(|c| !c.is_control()).take(MOST_TEXT).collect();
        let separator = if text.is_empty() { "" } else { ": " };
        let what = format!("{} aborted with code {code}{separator}{text}", self.name(rank));
        if self.ending.is_none() {
            self.tell_others(rank, &ToRank::Abort { rank, code, text });
        }
        // An exit code has 8 bits, and is not to say that all went well.
        self.fail(what, if code & 0xff == 0 { 1 } else { code & 0xff });
    }

    /// A rank ended as it should not: the others hear of it, and are ended where they are not to go on.
    fn lose(&mut self, rank: u32, what: &str, code: i32) {
        let text = format!("{} {what}", self.name(rank));
        let loss = ToRank::Lost { rank, text: text.clone() };
        self.tell_others(rank, &loss);
        self.losses.push(loss);
        if !self.options.keep_going {
            return self.fail(text, code);
        }
        self.commands.push(Command::Say(format!("{text}; the others go on")));
        // Those that pass messages know how to go on without it, or fail themselves.
        let known = self.ranks[rank as usize].phase == Phase::Joined;
        (if known { &mut self.lost } else { &mut self.failed }).get_or_insert(code);
        self.check_absent();
    }

    /// Who passes messages waits for every rank, and one that ended without having joined never comes.
    fn check_absent(&mut self) {
        let absent = |it: &Rank| it.end.is_some() && it.phase == Phase::Started;
        let Some(rank) = self.ranks.iter().position(absent) else { return };
        if self.ranks.iter().any(Rank::passes_messages) {
            let name = self.name(rank as u32);
            self.fail(format!("{name} ended without MPI_Init, and others wait for it"), 1);
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
        let all_lost = self.ranks.iter().all(|it| it.end == Some(End::Badly));
        let code = self.failed.or(self.lost.filter(|_| all_lost)).unwrap_or(0);
        self.commands.push(Command::Finish { code });
    }

    fn tell_others(&mut self, rank: u32, message: &ToRank) {
        for machine in 0..self.options.machines.len() {
            let ranks: Vec<u32> = self.listening(machine).into_iter().filter(|other| *other != rank).collect();
            if !ranks.is_empty() {
                self.commands.push(Command::Tell { ranks, message: message.clone() });
            }
        }
    }

    /// The machine's ranks that pass messages.
    fn listening(&self, machine: usize) -> Vec<u32> {
        let all = (0..).zip(self.ranks.iter().zip(&self.options.machine_of));
        all.filter(|(_, (it, its))| **its == machine && it.passes_messages()).map(|(rank, _)| rank).collect()
    }

    fn name(&self, rank: u32) -> String {
        format!("rank {rank} on {}", self.options.machines[self.options.machine_of[rank as usize]])
    }
}

/// Why a process is at fault that ended so, and the code of that; none where it ended as it should.
fn fault(phase: Phase, exit: &Exit) -> Option<(String, i32)> {
    match exit {
        Exit::Signal(number) => Some((format!("was killed by signal {}", signal_name(*number)), 128 + number)),
        Exit::Unstarted(why) => Some((format!("cannot be started: {why}"), 127)),
        Exit::Unseen(why) => Some((format!("is lost: {why}"), 1)),
        Exit::Code(0) if phase == Phase::Joined => Some(("ended without MPI_Finalize".to_owned(), 1)),
        Exit::Code(0) => None,
        Exit::Code(code) => Some((format!("exited with status {code}"), *code)),
    }
}

/// A signal for people, like `9 (SIGKILL)`.
fn signal_name(number: i32) -> String {
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
