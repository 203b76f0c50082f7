//! Reading and writing (MPI 5.0, 14.4).

use super::pointer::Ask;
use super::{File, View, converting, moving};
use crate::error::{Class, Result, fail};
use crate::objects::buffer::Buffer;
use crate::objects::request::Active;
use crate::operations::collective::{everyone, tell_all};
use crate::process::blocking::block_on;
use crate::process::engine::{EMPTY, Status};
use crate::process::tasks::Task;
use phalanx_net::sync::lock;
use std::sync::Arc;

/// Whether data is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Data is read.
    Read,
    /// Data is written.
    Write,
}

/// Where in the view, in etypes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At this offset.
    At(i64),
    /// Where the individual pointer is.
    Own,
    /// Where the shared pointer is.
    Shared,
    /// From where the shared pointer is on, in the order of ranks; collective.
    Ordered,
}

/// A split collective operation: which call ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// MPI_File_read_at_all_end, MPI_File_write_at_all_end.
    At(Way),
    /// MPI_File_read_all_end, MPI_File_write_all_end.
    Own(Way),
    /// MPI_File_read_ordered_end, MPI_File_write_ordered_end.
    Ordered(Way),
}

/// One that was begun, with its outcome.
pub struct Begun {
    split: Split,
    status: Status,
}

impl File {
    /// Reads or writes; how many bytes it was.
    pub fn access(self: &Arc<File>, way: Way, place: Place, buffer: &Buffer) -> Result<Status> {
        block_on(self.world, self.clone().work(way, place, buffer.clone()))
    }

    /// The same without waiting for others. What needs nobody else is done when this returns.
    pub fn begin(self: &Arc<File>, way: Way, place: Place, buffer: &Buffer) -> Result<Active> {
        if place != Place::Shared || self.pointer.is_here() {
            return self.access(way, place, buffer).map(Active::Done);
        }
        self.etypes(way, place, buffer, &self.view())?; // what is wrong already is told at once
        let work = self.clone().work(way, place, buffer.clone());
        Ok(Active::Task(Task::begin_with_status(self.world, work)))
    }

    /// Begins a split collective operation, of which each file has one at a time.
    pub fn begin_split(self: &Arc<File>, way: Way, place: Place, buffer: &Buffer) -> Result<()> {
        let split = match place {
            Place::At(_) => Split::At(way),
            Place::Own => Split::Own(way),
            Place::Ordered | Place::Shared => Split::Ordered(way),
        };
        if let Some(begun) = &*lock(&self.split) {
            return fail(Class::Other, format!("{:?} was begun and not ended", begun.split));
        }
        let status = self.access(way, place, buffer)?;
        *lock(&self.split) = Some(Begun { split, status });
        Ok(())
    }

    /// Ends the split collective operation that was begun.
    pub fn end_split(&self, split: Split) -> Result<Status> {
        let mut begun = lock(&self.split);
        match &*begun {
            Some(of) if of.split == split => Ok(begun.take().map_or(EMPTY, |begun| begun.status)),
            Some(of) => fail(Class::Other, format!("{:?} was begun, not {split:?}", of.split)),
            None => fail(Class::Other, format!("{split:?} was not begun")),
        }
    }

    pub(super) async fn work(self: Arc<File>, way: Way, place: Place, buffer: Buffer) -> Result<Status> {
        let view = self.view();
        let etypes = self.etypes(way, place, &buffer, &view);
        let offset = match place {
            Place::At(offset) => offset,
            Place::Own => self.move_own(etypes.clone()?, &view, view.bytes(&buffer)?)?,
            Place::Shared => self.pointer.ask(Ask::Move(etypes.clone()?)).await?,
            Place::Ordered => self.in_order(&etypes).await?, // with all others, whatever is wrong here
        };
        etypes?;
        let position = view.position(offset, view.bytes(&buffer)?)?;
        let bytes = self.transfer(way, &view, position, &buffer)?;
        Ok(Status { bytes: bytes as u64, ..EMPTY })
    }

    /// How many etypes it is, if it may be done at all.
    fn etypes(&self, way: Way, place: Place, buffer: &Buffer, view: &View) -> Result<i64> {
        self.comm.check_revoked()?;
        match way {
            Way::Read => self.mode.check_reads()?,
            Way::Write => self.mode.check_writes()?,
        }
        if let Place::At(_) | Place::Own = place {
            self.mode.check_random()?;
        }
        view.etypes(view.bytes(buffer)?)
    }

    fn move_own(&self, etypes: i64, view: &View, bytes: usize) -> Result<i64> {
        let mut own = lock(&self.own);
        let offset = *own;
        view.position(offset, bytes)?; // so there is an offset behind it
        *own = offset + etypes;
        Ok(offset)
    }

    /// Moves the shared pointer over what all ranks do; where this one's part begins.
    async fn in_order(&self, etypes: &Result<i64>) -> Result<i64> {
        let call = self.call();
        let parts = everyone(&call, &etypes.as_ref().map_or(0, |etypes| *etypes)).await?;
        let before = |rank: usize| parts.iter().take(rank).try_fold(0i64, |sum, part| sum.checked_add(*part));
        let mut start = None;
        if let (0, Some(total)) = (self.comm.rank, before(parts.len())) {
            start = self.pointer.ask(Ask::Move(total)).await.ok();
        }
        match tell_all(&call, 0, Some(&start))
            .await?
            .zip(before(self.comm.rank))
            .and_then(|(start, before)| start.checked_add(before))
        {
            Some(offset) => Ok(offset),
            None => fail(Class::Arg, "the shared file pointer would be beyond the largest offset"),
        }
    }

    fn transfer(&self, way: Way, view: &View, position: usize, buffer: &Buffer) -> Result<usize> {
        let _turn = self.is_atomic().then(|| lock(&self.turn));
        let _locked = match self.is_atomic() {
            true => Some(self.disk.lock(way == Way::Write)?),
            false => None,
        };
        match way {
            Way::Read if view.converts() => converting::read(&self.disk, view, position, buffer),
            Way::Read => moving::read(&self.disk, view, position, buffer),
            Way::Write if view.converts() => {
                converting::write(&self.disk, view, position, buffer).map(|()| buffer.bytes())
            }
            Way::Write => moving::write(&self.disk, view, position, buffer).map(|()| buffer.bytes()),
        }
    }
}
