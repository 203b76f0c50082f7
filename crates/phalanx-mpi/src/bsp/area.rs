//! Memory that others may write and read: the same sequence of registrations in all processes, each with its own
//! address and length.

use super::Keeper;
use crate::error::{Class, Result, fail};
use crate::operations::collective::Span;

#[derive(Default)]
pub(super) struct Areas {
    areas: Vec<Area>,
    /// Changes that are made at the next sync.
    changes: Vec<Change>,
    /// Numbers and addresses as they are after that, but for what is removed as NULL.
    planned: Vec<(u64, usize)>,
    /// How many were ever registered: the number of the next one, the same in all processes.
    registered: u64,
}

struct Area {
    number: u64,
    address: usize,
    memory: Span,
    /// Bytes at each process.
    sizes: Vec<u64>,
    /// It is NULL in all processes.
    is_null: bool,
    _keeper: Keeper,
}

// SAFETY: the memory is lent for as long as it is registered, to whichever thread works on it.
unsafe impl Send for Area {}

enum Change {
    Push(u64, usize, Span, Keeper),
    /// The area of this number.
    Pop(u64),
    /// Whichever the others name; if all say so, the latest that is NULL in all.
    PopNull,
}

// SAFETY: as above.
unsafe impl Send for Change {}

/// A change as the others are told of it, in nine bytes: what it is, and the length or the number.
#[derive(Clone, Copy)]
enum Told {
    Push { is_null: bool, length: u64 },
    Pop { number: Option<u64> },
}

const TOLD: usize = 9;

impl Told {
    fn bytes(self) -> [u8; TOLD] {
        let (kind, number) = match self {
            Told::Push { is_null, length } => (u8::from(is_null), length),
            Told::Pop { number: Some(number) } => (2, number),
            Told::Pop { number: None } => (3, 0),
        };
        let mut bytes = [kind; TOLD];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8]) -> Told {
        let number = u64::from_le_bytes(bytes[1..TOLD].try_into().expect("eight bytes"));
        match bytes[0] {
            kind @ (0 | 1) => Told::Push { is_null: kind == 1, length: number },
            2 => Told::Pop { number: Some(number) },
            _ => Told::Pop { number: None },
        }
    }
}

impl Areas {
    pub fn push(&mut self, address: usize, memory: Span, keeper: Keeper) {
        let number = self.registered;
        self.registered += 1;
        self.planned.push((number, address));
        self.changes.push(Change::Push(number, address, memory, keeper));
    }

    pub fn pop(&mut self, address: usize) -> Result<()> {
        let Some(place) = self.planned.iter().rposition(|(_, planned)| *planned == address) else {
            return fail(Class::Arg, "the area is not registered");
        };
        self.changes.push(match address {
            0 => Change::PopNull,
            _ => Change::Pop(self.planned.remove(place).0),
        });
        Ok(())
    }

    /// The place in the sequence of the latest area with this address, and its length at a process.
    pub fn find(&self, address: usize, pid: usize) -> Result<(u32, u64)> {
        match self.areas.iter().rposition(|area| area.address == address) {
            Some(slot) => Ok((slot as u32, self.areas[slot].sizes[pid])),
            None if self.planned.iter().any(|(_, planned)| *planned == address) => {
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
            let told = match change {
                Change::Push(_, address, memory, _) => {
                    Told::Push { is_null: *address == 0, length: memory.length() as u64 }
                }
                Change::Pop(number) => Told::Pop { number: Some(*number) },
                Change::PopNull => Told::Pop { number: None },
            };
            told.bytes()
        });
        told.collect()
    }

    /// Makes the changes, when everybody has told of theirs.
    pub fn change(&mut self, told: &[&[u8]]) -> Result<()> {
        let changes = std::mem::take(&mut self.changes);
        for (pid, told) in told.iter().enumerate() {
            if told.len() != changes.len() * TOLD {
                let (theirs, own) = (told.len() / TOLD, changes.len());
                let text =
                    format!("pid {pid} changed {theirs} registrations in this superstep, and this process {own}");
                return fail(Class::NotSame, text);
            }
        }
        for (at, change) in changes.into_iter().enumerate() {
            let told: Vec<Told> = told.iter().map(|told| Told::of(&told[at * TOLD..])).collect();
            match change {
                Change::Push(number, address, memory, keeper) => {
                    self.add(at, &told, number, address, memory, keeper)?
                }
                Change::Pop(number) => self.remove(at, &told, Some(number))?,
                Change::PopNull => self.remove(at, &told, None)?,
            }
        }
        self.planned = self.areas.iter().map(|area| (area.number, area.address)).collect();
        Ok(())
    }

    fn add(
        &mut self,
        at: usize,
        told: &[Told],
        number: u64,
        address: usize,
        memory: Span,
        _keeper: Keeper,
    ) -> Result<()> {
        let (mut sizes, mut all_null) = (Vec::with_capacity(told.len()), true);
        for (pid, told) in told.iter().enumerate() {
            let Told::Push { is_null, length } = *told else { return another_order(at, pid) };
            sizes.push(length);
            all_null &= is_null;
        }
        self.areas.push(Area { number, address, memory, sizes, is_null: all_null, _keeper });
        Ok(())
    }

    /// `own`: what this process names; none: NULL.
    fn remove(&mut self, at: usize, told: &[Told], own: Option<u64>) -> Result<()> {
        let mut named = own;
        for (pid, told) in told.iter().enumerate() {
            match *told {
                Told::Pop { number: Some(number) } if *named.get_or_insert(number) == number => {}
                Told::Pop { number: None } => {}
                _ => return another_order(at, pid),
            }
        }
        let is_it = |area: &Area| named.map_or(area.is_null, |number| area.number == number);
        match self.areas.iter().rposition(is_it) {
            Some(slot) if own.is_some() || self.areas[slot].address == 0 => drop(self.areas.remove(slot)),
            Some(_) => {
                return fail(
                    Class::NotSame,
                    "others removed an area that is not NULL in this process, which removed NULL",
                );
            }
            None => return fail(Class::Arg, "all processes removed NULL, and nothing is registered as NULL by all"),
        }
        Ok(())
    }
}

fn another_order<T>(at: usize, pid: usize) -> Result<T> {
    let text = format!("pid {pid} changed its registrations in another order than this process: number {at}");
    fail(Class::NotSame, text)
}
