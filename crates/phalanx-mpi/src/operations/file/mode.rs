//! How a file was opened (MPI 5.0, 14.2.1).

use crate::constants::*;
use crate::error::{Class, Result, fail};

const ALL: i32 = MPI_MODE_APPEND
    | MPI_MODE_CREATE
    | MPI_MODE_DELETE_ON_CLOSE
    | MPI_MODE_EXCL
    | MPI_MODE_RDONLY
    | MPI_MODE_RDWR
    | MPI_MODE_SEQUENTIAL
    | MPI_MODE_UNIQUE_OPEN
    | MPI_MODE_WRONLY;

/// What is to happen where there is no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    Never,
    IfMissing,
    /// And an error where there is one.
    New,
}

/// A valid access mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(i32);

impl Mode {
    pub fn new(amode: i32) -> Result<Mode> {
        let has = |bits| amode & bits != 0;
        if has(!ALL) {
            return fail(Class::Amode, "amode has bits that are no access mode");
        }
        let ways = (amode & (MPI_MODE_RDONLY | MPI_MODE_RDWR | MPI_MODE_WRONLY)).count_ones();
        if ways != 1 {
            return fail(Class::Amode, "amode must have one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY");
        }
        if has(MPI_MODE_RDONLY) && has(MPI_MODE_CREATE | MPI_MODE_EXCL) {
            return fail(Class::Amode, "amode has MPI_MODE_RDONLY with MPI_MODE_CREATE or MPI_MODE_EXCL");
        }
        if has(MPI_MODE_RDWR) && has(MPI_MODE_SEQUENTIAL) {
            return fail(Class::Amode, "amode has MPI_MODE_RDWR with MPI_MODE_SEQUENTIAL");
        }
        Ok(Mode(amode))
    }

    pub fn number(self) -> i32 {
        self.0
    }

    pub fn has(self, bit: i32) -> bool {
        self.0 & bit != 0
    }

    pub fn reads(self) -> bool {
        !self.has(MPI_MODE_WRONLY)
    }

    pub fn writes(self) -> bool {
        !self.has(MPI_MODE_RDONLY)
    }

    /// What the first process does where there is no file.
    pub fn create(self) -> Create {
        match (self.has(MPI_MODE_CREATE), self.has(MPI_MODE_EXCL)) {
            (true, true) => Create::New,
            (true, false) => Create::IfMissing,
            (false, _) => Create::Never,
        }
    }

    pub fn check_reads(self) -> Result<()> {
        if self.reads() { Ok(()) } else { fail(Class::Access, "the file was opened with MPI_MODE_WRONLY") }
    }

    pub fn check_writes(self) -> Result<()> {
        if self.writes() { Ok(()) } else { fail(Class::ReadOnly, "the file was opened with MPI_MODE_RDONLY") }
    }

    /// A file of MPI_MODE_SEQUENTIAL has only its shared pointer.
    pub fn check_random(self) -> Result<()> {
        match self.has(MPI_MODE_SEQUENTIAL) {
            true => fail(Class::UnsupportedOperation, "the file was opened with MPI_MODE_SEQUENTIAL"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_contradict_themselves_are_refused() {
        let refused = [
            0,
            MPI_MODE_RDONLY | MPI_MODE_RDWR,
            MPI_MODE_RDONLY | MPI_MODE_CREATE,
            MPI_MODE_RDONLY | MPI_MODE_EXCL,
            MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL,
            MPI_MODE_RDWR | 1 << 30,
        ];
        for amode in refused {
            assert_eq!(Mode::new(amode).expect_err("refused").class, Class::Amode);
        }
    }

    #[test]
    fn a_mode_says_what_may_be_done() {
        let mode = Mode::new(MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL).expect("valid");
        assert_eq!((mode.create(), mode.reads(), mode.writes()), (Create::IfMissing, false, true));
        assert_eq!(mode.check_reads().expect_err("written only").class, Class::Access);
        assert_eq!(mode.check_random().expect_err("sequential").class, Class::UnsupportedOperation);
        let mode = Mode::new(MPI_MODE_RDONLY).expect("valid");
        assert_eq!(mode.check_writes().expect_err("read only").class, Class::ReadOnly);
    }
}
