//! Whether a program that has lost processes is restarted. A program that makes checkpoints is, as long as it makes
//! progress. So is one that leaves a machine.

use std::mem;

/// The latest checkpoint, and the attempts to continue from it.
#[derive(Debug)]
pub struct Restart {
    /// Limit on the attempts without a new checkpoint.
    most: u32,
    tried: u32,
    /// The superstep of the latest checkpoint. 0: the beginning. `None`: the program makes no checkpoints.
    saved: Option<u64>,
    /// The user's word for a superstep.
    word: &'static str,
    /// A process was lost, and the program is not known to be at fault.
    lost: bool,
    /// Machines that are gone.
    gone: Vec<usize>,
    /// The machine to leave.
    left: Option<usize>,
    /// Whether a loss is the reason of the restart.
    by_loss: bool,
    /// All processes have ended, and none is started yet.
    rests: bool,
    /// The program must not be restarted.
    over: bool,
}

/// How to restart: without the machines that are gone, and not on the one to leave.
#[derive(Debug, PartialEq, Eq)]
pub struct Again {
    pub without: Vec<usize>,
    pub leave: Option<usize>,
}

impl Restart {
    pub fn new(most: u32) -> Restart {
        let (gone, left) = (Vec::new(), None);
        Restart {
            most,
            tried: 0,
            saved: None,
            word: "superstep",
            lost: false,
            gone,
            left,
            by_loss: false,
            rests: false,
            over: false,
        }
    }

    /// The program saves files of its own, and begins from this step of them.
    pub fn begin_from(&mut self, step: u64) {
        (self.saved, self.word) = (Some(step), "step");
    }

    /// A checkpoint was made, or a program that makes checkpoints has begun.
    pub fn save(&mut self, superstep: u64) {
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

    /// The processes of this machine must leave it.
    pub fn leave(&mut self, machine: usize) {
        self.left = Some(machine);
    }

    /// The processes stay after all.
    pub fn stay(&mut self) {
        self.left = None;
    }

    /// The superstep of the latest checkpoint.
    pub fn superstep(&self) -> u64 {
        self.saved.unwrap_or(0)
    }

    /// Whether to restart the program once all processes have ended.
    pub fn is_wanted(&self) -> bool {
        let may = self.left.is_some() || self.lost && self.tried < self.most;
        may && !self.over && self.saved.is_some()
    }

    /// Describes the restart for the user.
    pub fn plan(&self) -> String {
        let from = match self.saved {
            Some(superstep @ 1..) => format!("{} {superstep}", self.word),
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

    /// All processes have ended. Returns how to restart the program, if it is to be restarted.
    pub fn begin(&mut self) -> Option<Again> {
        if !self.is_wanted() {
            return None;
        }
        self.by_loss = mem::take(&mut self.lost);
        self.tried += u32::from(self.by_loss);
        self.rests = true;
        Some(Again { without: mem::take(&mut self.gone), leave: self.left.take() })
    }

    /// The program was restarted.
    pub fn done(&mut self) {
        self.rests = false;
        self.gone.clear(); // the restarted program numbers its machines anew
    }

    /// Gives the restart up. Returns whether it was under way, in which case no process is left to end.
    pub fn give_up(&mut self) -> bool {
        self.over = true;
        mem::take(&mut self.rests)
    }
}
