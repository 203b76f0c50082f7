//! The standard binary interface (MPI 5.0, chapter 20): its numbers are those of `phalanx_mpi`, so nothing is converted.

use phalanx_mpi::constants::{MPI_ABI_SUBVERSION, MPI_ABI_VERSION, MPI_KEYVAL_INVALID};
use std::ffi::{c_int, c_void};
use std::ptr::without_provenance_mut;

/// MPI_Get_library_version's word for it.
pub const INTERFACE: &str = "standard ABI";
/// MPI_Abi_get_version.
pub const VERSION: (c_int, c_int) = (MPI_ABI_VERSION, MPI_ABI_SUBVERSION);

macro_rules! handles {
    ($($name:ident)*) => { $(
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(*mut c_void);

        impl $name {
            /// The number of the object; 0 for what cannot be one.
            #[inline]
            pub fn id(self) -> u32 {
                u32::try_from(self.0 as usize).unwrap_or(0)
            }

            #[inline]
            pub fn of(id: u32) -> $name {
                $name(without_provenance_mut(id as usize))
            }

            /// For Fortran (MPI_Comm_toint).
            pub fn integer(self) -> c_int {
                c_int::try_from(self.0 as usize).unwrap_or(-1)
            }

            pub fn of_integer(integer: c_int) -> $name {
                $name::of(u32::try_from(integer).unwrap_or(0))
            }
        }
    )* };
}

handles! {
    MPI_Comm MPI_Group MPI_Win MPI_File MPI_Session MPI_Message MPI_Info MPI_Errhandler MPI_Request MPI_Op MPI_Datatype
}

/// See [`crate::c::status`].
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct MPI_Status {
    pub source: c_int,
    pub tag: c_int,
    pub error: c_int,
    internal: [c_int; 5],
}

impl MPI_Status {
    /// Bytes received.
    pub fn bytes(&self) -> u64 {
        self.internal[0] as u32 as u64 | (self.internal[1] as u32 as u64) << 32
    }

    pub fn set_bytes(&mut self, bytes: u64) {
        (self.internal[0], self.internal[1]) = (bytes as c_int, (bytes >> 32) as c_int);
    }

    pub fn cancelled(&self) -> bool {
        self.internal[2] != 0
    }

    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[2] = cancelled as c_int;
    }
}

/// A set of numbers that both sides write alike.
#[derive(Clone, Copy)]
pub struct Numbers;

impl Numbers {
    #[inline]
    pub fn to_c(self, number: i32) -> c_int {
        number
    }

    /// A number of no meaning stays one.
    #[inline]
    pub fn from_c(self, number: c_int) -> i32 {
        number
    }
}

/// What MPI_LB and MPI_UB stand for, which this interface does not have.
pub enum Bound {
    #[allow(dead_code)] // for the other interface
    Lower,
    #[allow(dead_code)]
    Upper,
}

/// Whether the handle is MPI_LB or MPI_UB.
pub fn bound(_datatype: MPI_Datatype) -> Option<Bound> {
    None
}

pub const RANK: Numbers = Numbers;
pub const TAG: Numbers = Numbers;
pub const ERROR: Numbers = Numbers;
pub const THREAD: Numbers = Numbers;
pub const COMBINER: Numbers = Numbers;
pub const TYPECLASS: Numbers = Numbers;
pub const COMPARISON: Numbers = Numbers;
pub const TOPOLOGY: Numbers = Numbers;
pub const SPLIT_TYPE: Numbers = Numbers;
pub const ORDER: Numbers = Numbers;
pub const DISTRIBUTION: Numbers = Numbers;
/// An argument of a distribution, or the default one.
pub const DISTRIBUTION_ARGUMENT: Numbers = Numbers;
pub const LOCK: Numbers = Numbers;
pub const FLAVOR: Numbers = Numbers;
pub const MODEL: Numbers = Numbers;
pub const FILE_MODE: Numbers = Numbers;
pub const WINDOW_ASSERT: Numbers = Numbers;
pub const SEEK: Numbers = Numbers;
pub const KEYVAL: Numbers = Numbers;

pub const KEYVAL_INVALID: c_int = MPI_KEYVAL_INVALID;
pub const DISPLACEMENT_CURRENT: i64 = -1;

/// Longest strings, with the zero at their end.
pub mod longest {
    pub const DATAREP: usize = 128;
    pub const ERROR: usize = 512;
    pub const INFO_KEY: usize = 256;
    pub const LIBRARY_VERSION: usize = 8192;
    pub const OBJECT_NAME: usize = 128;
    pub const PORT: usize = 1024;
    pub const PROCESSOR: usize = 256;
    pub const PSET: usize = 1024;
}

/// Addresses that stand for something else.
pub mod address {
    use std::ffi::{c_int, c_void};
    use std::ptr::without_provenance;

    pub const IN_PLACE: *const c_void = without_provenance(1);
    pub const BUFFER_AUTOMATIC: *const c_void = without_provenance(2);
    pub const STATUS_IGNORE: *const super::MPI_Status = std::ptr::null();
    /// The copy function that copies (MPI_COMM_DUP_FN).
    pub const DUP_FN: *const c_void = without_provenance(1);

    pub fn unweighted() -> *const c_int {
        without_provenance(10)
    }

    pub fn weights_empty() -> *const c_int {
        without_provenance(11)
    }
}
