//! Whether a program is started again that has lost processes: one that makes checkpoints is, as long as it gets further; and
//! one that is to leave a machine.

use std::mem;

/// What there is to go on from, and how often that was tried.
#[derive(Debug)]
pub struct Restart {
    /// Tries without a new checkpoint.
    most: u32,
    tried: u32,
    /// The superstep of the latest checkpoint; 0: the beginning; none: of a program that makes none.
    saved: Option<u32>,
    /// A process was lost, by no fault of its program that can be told.
    lost: bool,
    /// Machines that are gone.
    gone: Vec<usize>,
    /// The machine that is to be left.
    left: Option<usize>,
    /// Why it is started again: for a loss, and not for that alone.
    by_loss: bool,
    /// All has ended, and nothing is started yet.
    rests: bool,
    /// It is not to go on.
    over: bool,
}

/// How it is started again: without machines that are gone, and elsewhere than on one that is to be left.
#[derive(Debug, PartialEq, Eq)]
pub struct Again {
    pub without: Vec<usize>,
    pub leave: Option<usize>,
}

impl Restart {
    pub fn new(most: u32) -> Restart {
        let (gone, left) = (Vec::new(), None);
        Restart { most, tried: 0, saved: None, lost: false, gone, left, by_loss: false, rests: false, over: false }
    }

    /// A checkpoint was made, or the program has begun that will make them.
    pub fn save(&mut self, superstep: u32) {
        if self.saved.is_some_and(|saved| superstep > saved) {
            self.tried = 0;
        }
        self.saved = self.saved.max(Some(superstep));
    }

    pub fn lose(&mut self) {
        self.lost = true;
    }

    pub fn lose_machine(&mut self, machine: usize) {
        self.gone.push(machine);
    }

    /// Its processes are to leave a machine.
    pub fn leave(&mut self, machine: usize) {
        self.left = Some(machine);
    }

    /// They are not.
    pub fn stay(&mut self) {
        self.left = None;
    }

    /// The latest checkpoint.
    pub fn superstep(&self) -> u32 {
        self.saved.unwrap_or(0)
    }

    /// Whether the program is to be started again once all has ended.
    pub fn is_wanted(&self) -> bool {
        let may = self.left.is_some() || self.lost && self.tried < self.most;
        may && !self.over && self.saved.is_some()
    }

    /// For the user.
    pub fn plan(&self) -> String {
        let from = match self.saved {
            Some(superstep @ 1..) => format!("superstep {superstep}"),
            _ => "the beginning".to_owned(),
        };
        match self.by_loss {
            true => format!("the program goes on from {from} (try {} of {})", self.tried, self.most),
            false => format!("the program goes on from {from}"),
        }
    }

    /// Why a loss ends the program although it makes checkpoints.
    pub fn excuse(&self) -> String {
        match self.lost && !self.over && self.saved.is_some() && self.tried >= self.most {
            true => format!(", and is not started again: there is no new checkpoint after {} tries", self.tried),
            false => String::new(),
        }
    }

    /// All has ended: how the program is to be started again now, if it is.
    pub fn begin(&mut self) -> Option<Again> {
        if !self.is_wanted() {
            return None;
        }
        self.by_loss = mem::take(&mut self.lost);
        self.tried += u32::from(self.by_loss);
        self.rests = true;
        Some(Again { without: mem::take(&mut self.gone), leave: self.left.take() })
    }

    /// It was started.
    pub fn done(&mut self) {
        self.rests = false;
        self.gone.clear(); // these were known by other numbers
    }

    /// It is not to be started again; whether that was under way, so that nothing is left to be ended.
    pub fn give_up(&mut self) -> bool {
        self.over = true;
        mem::take(&mut self.rests)
    }
}
