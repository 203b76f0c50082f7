//! Memory that others may write and read: the same sequence of registrations in all processes, each with its own
//! address and length.

use super::Keeper;
use crate::collective::Span;
use crate::error::{Class, Error, Result, fail};

#[derive(Default)]
pub(super) struct Areas {
    areas: Vec<Area>,
    /// Changes that are made at the next sync.
    changes: Vec<Change>,
    /// The addresses as they are after that.
    planned: Vec<usize>,
}

struct Area {
    address: usize,
    memory: Span,
    /// Bytes at each process.
    sizes: Vec<u64>,
    _keeper: Keeper,
}

// SAFETY: the memory is lent for as long as it is registered, to whichever thread works on it.
unsafe impl Send for Area {}

enum Change {
    Push(usize, Span, Keeper),
    /// The place in the sequence.
    Pop(usize),
}

// SAFETY: as above.
unsafe impl Send for Change {}

/// Bytes of a change as others are told of it: what it is, and the length or the place.
const TOLD: usize = 9;

impl Areas {
    pub fn push(&mut self, address: usize, memory: Span, keeper: Keeper) {
        self.planned.push(address);
        self.changes.push(Change::Push(address, memory, keeper));
    }

    pub fn pop(&mut self, address: usize) -> Result<()> {
        match self.planned.iter().rposition(|planned| *planned == address) {
            None => fail(Class::Arg, "the area is not registered"),
            Some(slot) => {
                self.planned.remove(slot);
                self.changes.push(Change::Pop(slot));
                Ok(())
            }
        }
    }

    /// The place in the sequence of the latest area with this address, and its length at a process.
    pub fn find(&self, address: usize, pid: usize) -> Result<(u32, u64)> {
        match self.areas.iter().rposition(|area| area.address == address) {
            Some(slot) => Ok((slot as u32, self.areas[slot].sizes[pid])),
            None if self.planned.contains(&address) => {
                fail(Class::Arg, "the area is registered from the next superstep on only: sync first")
            }
            None => fail(Class::Arg, "the area is not registered"),
        }
    }

    /// Memory of this process that another one names.
    pub fn memory(&self, slot: u32, offset: u64, length: u64) -> Result<Span> {
        let memory = self.areas.get(slot as usize).map_or(Span::EMPTY, |area| area.memory);
        match offset.checked_add(length) {
            Some(end) if end <= memory.length() as u64 => Ok(memory.part(offset as usize, length as usize)),
            _ => fail(Class::RmaRange, "another process names memory that is not registered"),
        }
    }

    /// What is registered now, in order.
    pub fn memories(&self) -> impl Iterator<Item = Span> + '_ {
        self.areas.iter().map(|area| area.memory)
    }

    pub fn have_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The changes as the others are told of them.
    pub fn tell(&self) -> Vec<u8> {
        let told = self.changes.iter().flat_map(|change| {
            let (kind, number) = match change {
                Change::Push(_, memory, _) => (0, memory.length()),
                Change::Pop(slot) => (1, *slot),
            };
            [kind].into_iter().chain((number as u64).to_le_bytes())
        });
        told.collect()
    }

    /// Makes the changes, when everybody has told of theirs.
    pub fn change(&mut self, told: &[&[u8]]) -> Result<()> {
        let changes = std::mem::take(&mut self.changes);
        for (pid, told) in told.iter().enumerate() {
            self.check(&changes, told).map_err(|text| Error::new(Class::NotSame, format!("pid {pid} {text}")))?;
        }
        for (at, change) in changes.into_iter().enumerate() {
            match change {
                Change::Push(address, memory, _keeper) => {
                    let sizes = told.iter().map(|told| number(&told[at * TOLD..])).collect();
                    self.areas.push(Area { address, memory, sizes, _keeper });
                }
                Change::Pop(slot) => drop(self.areas.remove(slot)),
            }
        }
        Ok(())
    }

    /// Whether what another process told of is the same but for lengths.
    fn check(&self, changes: &[Change], told: &[u8]) -> std::result::Result<(), String> {
        if told.len() != changes.len() * TOLD {
            let (theirs, own) = (told.len() / TOLD, changes.len());
            return Err(format!("changed {theirs} registrations in this superstep, and this process {own}"));
        }
        for (at, (change, told)) in changes.iter().zip(told.chunks_exact(TOLD)).enumerate() {
            let same = match change {
                Change::Push(..) => told[0] == 0,
                Change::Pop(slot) => told[0] == 1 && number(told) == *slot as u64,
            };
            if !same {
                return Err(format!("changed its registrations in another order than this process: number {at}"));
            }
        }
        Ok(())
    }
}

fn number(told: &[u8]) -> u64 {
    u64::from_le_bytes(told[1..TOLD].try_into().expect("eight bytes"))
}
