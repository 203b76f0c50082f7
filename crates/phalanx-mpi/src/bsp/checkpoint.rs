//! Checkpoints: every so many supersteps each process's [snapshot](super::snapshot) goes into the folder of its machine, and
//! into that of another machine, if there is one. So the loss of one machine loses nothing.
//!
//! A checkpoint counts when there is a file of every process: those of one checkpoint are of one superstep. Only after
//! that are older ones removed. A program that was started again looks for the newest that counts.

use super::snapshot::Snapshot;
use super::store::{Held, Store};
use super::{Bsp, Inbox, together};
use crate::error::{Class, Result, fail};
use crate::operations::collective::{Call, Span, everyone, zeroed};
use phalanx_core::wire::ranks::FromRank;
use phalanx_net::copy::copy;
use std::path::Path;

pub(super) struct Saving {
    store: Store,
    /// Supersteps from one checkpoint to the next.
    pub(super) every: u32,
    /// The superstep of the latest, and its number.
    last: u32,
    version: u64,
    /// Whether this process knows what an earlier one of its program has saved.
    looked: bool,
}

/// How a program goes on where it can be taken up again.
#[derive(Debug, PartialEq, Eq)]
pub enum Point {
    /// The program goes on.
    GoOn,
    /// It is time for a checkpoint: [`Bsp::save`] is to be called with what the program declares.
    Save,
    /// Memory and messages are as they were when this was declared.
    TakenUp(Vec<u8>),
}

impl Saving {
    /// In a folder that all processes of this machine have.
    pub fn new(folder: &Path, every: u32) -> Saving {
        Saving { store: Store::new(folder), every, last: 0, version: 0, looked: false }
    }
}

impl Bsp {
    /// Ends the superstep, at a place from which the program can go on when it is started again: called the first time
    /// then, it brings back what was saved last.
    pub fn checkpoint(&mut self) -> Result<Point> {
        self.moving.asks = self.saving.is_some() && self.pid() == 0 && self.world.take_checkpoint_wanted();
        let met = self.sync();
        self.moving.asks = false;
        met?;
        let Some(saving) = &mut self.saving else { return Ok(Point::GoOn) };
        let state = if std::mem::replace(&mut saving.looked, true) { None } else { self.take_up()? };
        if let Some(state) = state {
            return Ok(Point::TakenUp(state));
        }
        self.look_for_slow();
        let due = self.saving.as_ref().is_some_and(|saving| self.supersteps - saving.last >= saving.every);
        let due = due || self.moving.saves;
        Ok(if due { Point::Save } else { Point::GoOn })
    }

    /// Makes a checkpoint, with what the program declares; all processes together. It is no superstep.
    pub fn save(&mut self, state: &[u8]) -> Result<()> {
        let Some(saving) = &self.saving else { return Ok(()) };
        let (snapshot, version) = (self.snapshot(state), saving.version + 1);
        let call = Call::new(self.world, self.comm.clone());
        together(self.world, self.spread(&call, &saving.store, version, &snapshot))?;
        let superstep = self.supersteps;
        if is_first(&self.machines(), self.pid()) {
            saving.store.remove_older(version);
        }
        if let Some(saving) = &mut self.saving {
            (saving.version, saving.last) = (version, superstep);
        }
        self.tell_saved();
        Ok(())
    }

    /// Lets the launcher know that the program can be started again, and from where it will go on.
    pub(super) fn tell_saved(&self) {
        if let (0, Some(saving), Some(control)) = (self.pid(), &self.saving, &self.world.control) {
            let _ = control.tell(&FromRank::Saved { superstep: saving.last }); // who is gone will not start it again
        }
    }

    fn snapshot(&self, state: &[u8]) -> Vec<u8> {
        // SAFETY: the program lends its areas, and waits for this.
        let areas = self.areas.memories().map(|memory| unsafe { memory.bytes() }).collect();
        let letters = self.inbox.letters().collect();
        Snapshot { superstep: self.supersteps, tagsize: self.tagsize, areas, letters, state }.encode()
    }

    /// Writes the snapshots of this process and of those whose keeper it is, and waits for the others to have done so.
    async fn spread(&self, call: &Call, store: &Store, version: u64, own: &[u8]) -> Result<()> {
        let (me, keepers) = (self.pid(), keepers(&self.machines()));
        let lengths: Vec<u64> = everyone(call, &(own.len() as u64)).await?;
        let kept = (0..keepers.len()).filter(|pid| keepers[*pid] == Some(me));
        let kept = kept.map(|pid| Ok((pid, zeroed(lengths[pid])?)));
        let mut kept: Vec<(usize, Vec<u8>)> = kept.collect::<Result<_>>()?;
        // SAFETY: it outlives the transfer; a send only reads.
        let sends = keepers[me].map(|keeper| (keeper, unsafe { Span::new(own.as_ptr().cast_mut(), own.len()) }));
        call.transfer(sends, kept.iter_mut().map(|(pid, bytes)| (*pid, Span::of(bytes)))).await;
        call.outcome()?;
        let mine = std::iter::once((me, own)).chain(kept.iter().map(|(pid, bytes)| (*pid, &bytes[..])));
        let written = mine.into_iter().try_for_each(|(pid, bytes)| store.write(version, pid as u32, bytes));
        let said = everyone(call, &written.map_err(|error| error.to_string())).await?;
        match said.into_iter().enumerate().find_map(|(pid, written)| Some((pid, written.err()?))) {
            None => Ok(()),
            Some((pid, why)) => fail(Class::Io, format!("pid {pid} cannot save the checkpoint: {why}")),
        }
    }

    /// Brings this process back to the newest checkpoint that counts, if there is one: what the program had declared.
    fn take_up(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(saving) = &mut self.saving else { return Ok(None) };
        let call = Call::new(self.world, self.comm.clone());
        let machines = machines_of(&self.world.machines, call.size());
        let held = if is_first(&machines, call.rank()) { saving.store.list() } else { Ok(Vec::new()) };
        let held = held.or_else(|error| fail(Class::Io, format!("the checkpoints cannot be read: {error}")))?;
        let all: Vec<Vec<Held>> = together(self.world, everyone(&call, &held))?;
        let by = |(at, files): (usize, Vec<Held>)| files.into_iter().map(move |file| (at, file));
        let held: Vec<(usize, Held)> = all.into_iter().enumerate().flat_map(by).collect();
        // A number that was begun is not used again: there may be files of it that are of another superstep.
        saving.version = held.iter().map(|(_, file)| file.version).max().unwrap_or(0);
        let Some(version) = newest(&held, call.size()) else { return Ok(None) };
        let bytes = together(self.world, fetch(&call, &saving.store, &machines, &held, version))?;
        let state = self.become_as(&Snapshot::decode(&bytes)?)?;
        self.save(&state)?; // again on two machines, if there are two
        Ok(Some(state))
    }

    /// What a process was with this number, it is again.
    fn become_as(&mut self, was: &Snapshot<'_>) -> Result<Vec<u8>> {
        let (now, then): (Vec<usize>, Vec<usize>) = (
            self.areas.memories().map(|memory| memory.length()).collect(),
            was.areas.iter().map(|it| it.len()).collect(),
        );
        if now != then {
            let text = format!(
                "at the checkpoint areas of {then:?} bytes were registered, and now {now:?}: a program that is started \
                 again registers the same before its first checkpoint"
            );
            return fail(Class::NotSame, text);
        }
        for (memory, bytes) in self.areas.memories().zip(&was.areas) {
            // SAFETY: the program lends its areas, and waits for this.
            unsafe { copy(bytes.as_ptr(), memory.start(), bytes.len()) };
        }
        self.inbox = Inbox::of(&was.letters);
        (self.supersteps, self.tagsize) = (was.superstep, was.tagsize);
        Ok(was.state.to_vec())
    }

    /// For each process the number of its machine.
    fn machines(&self) -> Vec<u32> {
        machines_of(&self.world.machines, self.nprocs())
    }
}

/// Whether a process is the first one of its machine.
fn is_first(machines: &[u32], pid: usize) -> bool {
    !machines[..pid].contains(&machines[pid])
}

/// All are on one machine where nothing else is known.
pub(super) fn machines_of(known: &[u32], size: usize) -> Vec<u32> {
    (0..size).map(|pid| known.get(pid).copied().unwrap_or(0)).collect()
}

/// For each process another one, on the next machine, that keeps what it is; none where there is one machine.
fn keepers(machines: &[u32]) -> Vec<Option<usize>> {
    let mut order = machines.to_vec();
    order.sort_unstable();
    order.dedup();
    let of = |machine: u32| (0..machines.len()).filter(move |pid| machines[*pid] == machine);
    let keeper = |pid: usize| {
        let at = order.binary_search(&machines[pid]).ok()?;
        let next = order[(at + 1) % order.len()];
        let place = of(machines[pid]).take_while(|other| *other < pid).count();
        (order.len() > 1).then(|| of(next).nth(place % of(next).count())).flatten()
    };
    (0..machines.len()).map(keeper).collect()
}

/// The newest checkpoint of which there is a file of each process.
fn newest(held: &[(usize, Held)], size: usize) -> Option<u64> {
    let mut files: Vec<(u64, u32)> = held.iter().map(|(_, file)| (file.version, file.pid)).collect();
    files.retain(|(_, pid)| (*pid as usize) < size);
    files.sort_unstable();
    files.dedup();
    files.chunk_by(|one, other| one.0 == other.0).rev().find(|same| same.len() == size).map(|same| same[0].0)
}

/// This process's file, from whoever has it: this machine if it can be.
async fn fetch(call: &Call, store: &Store, machines: &[u32], held: &[(usize, Held)], version: u64) -> Result<Vec<u8>> {
    let holder = |pid: usize| {
        let mut having = held.iter().filter(|(_, file)| (file.version, file.pid) == (version, pid as u32));
        let here = having.clone().find(|(at, _)| machines[*at] == machines[pid]);
        here.map(|(_, file)| (pid, file.length)).or_else(|| having.next().map(|(at, file)| (*at, file.length)))
    };
    let (me, mut sent, mut own) = (call.rank(), Vec::new(), Vec::new());
    let read = |pid: usize| {
        let bytes = store.read(version, pid as u32);
        bytes.or_else(|error| fail(Class::Io, format!("a checkpoint cannot be read: {error}")))
    };
    for pid in 0..machines.len() {
        match holder(pid) {
            Some((at, _)) if at == me && pid == me => own = read(pid)?,
            Some((at, length)) if at == me => sent.push((pid, read(pid)?, length as usize)),
            Some((_, length)) if pid == me => own = zeroed(length)?,
            _ => {}
        }
    }
    // SAFETY: they outlive the transfer; a send only reads.
    let sends = sent
        .iter()
        .map(|(to, bytes, length)| (*to, unsafe { Span::new(bytes.as_ptr().cast_mut(), bytes.len().min(*length)) }));
    let sends: Vec<_> = sends.collect();
    let receives = holder(me).filter(|(at, _)| *at != me).map(|(at, _)| (at, Span::of(&mut own)));
    call.transfer(sends, receives).await;
    call.outcome().map(|()| own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_is_on_another_machine() {
        assert_eq!(keepers(&[0, 0, 0]), [None; 3]);
        assert_eq!(keepers(&[4, 4, 7]), [Some(2), Some(2), Some(0)]);
        assert_eq!(keepers(&[0, 0, 1, 1, 2]), [Some(2), Some(3), Some(4), Some(4), Some(0)]);
    }

    #[test]
    fn a_checkpoint_counts_that_has_all_processes_wherever_they_are() {
        let file = |version, pid| Held { version, pid, length: 1 };
        let held = [(0, file(1, 0)), (0, file(1, 1)), (2, file(1, 0)), (0, file(2, 0)), (2, file(2, 5))];
        assert_eq!(newest(&held, 2), Some(1));
        assert_eq!(newest(&held, 3), None);
        assert_eq!(newest(&[&held[..], &[(2, file(2, 1))]].concat(), 2), Some(2));
        assert_eq!(newest(&[], 1), None);
    }
}
