//! Where file pointers are (MPI 5.0, 14.4.3 and 14.4.4), in etypes of the view.

use super::File;
use super::pointer::Ask;
use crate::error::{Class, Result, fail};
use crate::process::blocking::block_on;
use phalanx_net::sync::lock;

/// From where an offset counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// From the start of the file (MPI_SEEK_SET).
    Start,
    /// From where the pointer is (MPI_SEEK_CUR).
    Current,
    /// From the end of the file (MPI_SEEK_END).
    End,
}

impl File {
    /// Moves the individual pointer.
    pub fn seek(&self, offset: i64, from: From) -> Result<()> {
        self.mode.check_random()?;
        let mut own = lock(&self.own);
        *own = self.target(offset, from, *own)?;
        Ok(())
    }

    /// Where the individual pointer is.
    pub fn position(&self) -> Result<i64> {
        self.mode.check_random()?;
        Ok(*lock(&self.own))
    }

    /// Moves the shared pointer; collective.
    pub fn seek_shared(&self, offset: i64, from: From) -> Result<()> {
        self.mode.check_random()?;
        let arguments = [offset.to_le_bytes(), (from as u64).to_le_bytes()].concat();
        self.first_does(Ok(arguments), || {
            let to = self.target(offset, from, self.shared_position()?)?;
            block_on(self.world, self.pointer.ask(Ask::Set(to))).map(drop)
        })
    }

    /// Where the shared pointer is.
    pub fn shared_position(&self) -> Result<i64> {
        block_on(self.world, self.pointer.ask(Ask::Get))
    }

    fn target(&self, offset: i64, from: From, current: i64) -> Result<i64> {
        let base = match from {
            From::Start => 0,
            From::Current => current,
            From::End => self.view().etypes_before(self.disk.size()?)?,
        };
        match base.checked_add(offset) {
            Some(target) if target >= 0 => Ok(target),
            _ => fail(Class::Arg, format!("offset is {offset} from {base}, which is before the view's beginning")),
        }
    }
}
