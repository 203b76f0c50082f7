//! A disk in memory that records every write, so that a test can cut the power at any of them.

use redb::StorageBackend;
use std::io;
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Write {
        offset: u64,
        bytes: Vec<u8>,
    },
    Length(u64),
    /// Everything before this step is on the disk.
    Sync,
}

#[derive(Debug, Default)]
struct State {
    now: Vec<u8>,
    steps: Vec<Step>,
    /// The step from which on all steps fail.
    fails_at: Option<usize>,
}

#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    pub fn of(bytes: Vec<u8>) -> Disk {
        let steps = vec![Step::Write { offset: 0, bytes: bytes.clone() }, Step::Sync];
        Disk(Arc::new(Mutex::new(State { now: bytes, steps, fails_at: None })))
    }

    /// Makes every step from this one on fail.
    pub fn fail_at(&self, step: usize) {
        self.0.lock().unwrap().fails_at = Some(step);
    }

    /// Cuts the power: returns the steps so far. Later ones have no effect.
    pub fn cut(&self) -> Vec<Step> {
        let mut state = self.0.lock().unwrap();
        state.fails_at = Some(state.steps.len());
        state.steps.clone()
    }

    pub fn steps(&self) -> Vec<Step> {
        self.0.lock().unwrap().steps.clone()
    }

    pub fn count(&self) -> usize {
        self.0.lock().unwrap().steps.len()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().now.clone()
    }

    fn step(&self, step: Step) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.fails_at.is_some_and(|at| state.steps.len() >= at) {
            return Err(io::Error::other("no space left on device"));
        }
        apply(&mut state.now, &step);
        state.steps.push(step);
        Ok(())
    }
}

/// The contents of the disk when the power is cut after `cut` steps. Everything synced is there. For each write that was not
/// synced, `keep` decides whether it is there whole, by half or not at all.
pub fn after_cut(steps: &[Step], cut: usize, mut keep: impl FnMut() -> Kept) -> Vec<u8> {
    let synced = steps[..cut].iter().rposition(|step| *step == Step::Sync).unwrap_or(0);
    let mut disk = Vec::new();
    for (at, step) in steps[..cut].iter().enumerate() {
        match if at < synced { Kept::Whole } else { keep() } {
            Kept::Whole => apply(&mut disk, step),
            Kept::Half => apply(&mut disk, &half(step)),
            Kept::Not => {}
        }
    }
    disk
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Whole,
    Half,
    Not,
}

fn half(step: &Step) -> Step {
    match step {
        Step::Write { offset, bytes } => Step::Write { offset: *offset, bytes: bytes[..bytes.len() / 2].to_vec() },
        other => other.clone(),
    }
}

fn apply(disk: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Write { offset, bytes } => {
            let end = *offset as usize + bytes.len();
            disk.resize(disk.len().max(end), 0);
            disk[*offset as usize..end].copy_from_slice(bytes);
        }
        Step::Length(length) => disk.resize(*length as usize, 0),
        Step::Sync => {}
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let state = self.0.lock().unwrap();
        let bytes = state.now.get(offset as usize..offset as usize + len);
        bytes.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.step(Step::Length(len))
    }

    fn sync_data(&self, _eventual: bool) -> io::Result<()> {
        self.step(Step::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.step(Step::Write { offset, bytes: data.to_vec() })
    }
}
