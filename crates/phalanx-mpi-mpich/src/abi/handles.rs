//! Handles. Predefined ones have numbers of MPICH's own; all others are small and mean the same on both sides.

use phalanx_mpi::constants::*;
use phalanx_mpi::objects::handle::FIRST;
use std::ffi::{c_int, c_void};
use std::ptr::without_provenance_mut;

/// MPICH's predefined handles begin here; those that we make stay below.
const PREDEFINED: u32 = 1 << 26;

/// Pairs of our number and MPICH's, to be found by the last byte of either.
struct Pairs {
    ours: [(u32, u32); 256],
    theirs: [(u32, u32); 256],
    all: &'static [(u32, u32)],
}

impl Pairs {
    const fn new(all: &'static [(u32, u32)]) -> Pairs {
        let (mut ours, mut theirs) = ([(0, 0); 256], [(0, 0); 256]);
        let mut at = 0;
        while at < all.len() {
            let (our, their) = all[at];
            ours[our as usize % 256] = all[at];
            theirs[their as usize % 256] = all[at];
            at += 1;
        }
        Pairs { ours, theirs, all }
    }

    #[inline]
    fn ours(&self, their: u32) -> u32 {
        if (FIRST..PREDEFINED).contains(&their) {
            return their;
        }
        let (our, like) = self.theirs[their as usize % 256];
        if like == their { our } else { self.search(their) }
    }

    /// Two of their numbers end alike.
    #[cold]
    fn search(&self, their: u32) -> u32 {
        self.all.iter().find(|pair| pair.1 == their).map_or(0, |pair| pair.0)
    }

    #[inline]
    fn theirs(&self, our: u32) -> u32 {
        if our >= FIRST { our } else { self.ours[our as usize % 256].1 }
    }
}

macro_rules! handles {
    ($($name:ident: $number:ty { $($ours:ident = $theirs:literal,)* })*) => { $(
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name($number);

        impl $name {
            const PAIRS: &Pairs = {
                static PAIRS: Pairs = Pairs::new(&[$(($ours, $theirs)),*]);
                &PAIRS
            };

            /// The number of the object; 0 for what cannot be one.
            #[inline]
            pub fn id(self) -> u32 {
                Self::PAIRS.ours(self.0.raw())
            }

            #[inline]
            pub fn of(id: u32) -> $name {
                $name(<$number>::of_raw(Self::PAIRS.theirs(id)))
            }

            /// For Fortran (MPI_Comm_c2f).
            pub fn integer(self) -> c_int {
                self.0.raw() as c_int
            }

            pub fn of_integer(integer: c_int) -> $name {
                $name(<$number>::of_raw(integer as u32))
            }
        }
    )* };
}

/// What a handle is for C.
trait Raw {
    fn raw(self) -> u32;
    fn of_raw(raw: u32) -> Self;
}

impl Raw for c_int {
    #[inline]
    fn raw(self) -> u32 {
        self as u32
    }

    #[inline]
    fn of_raw(raw: u32) -> c_int {
        raw as c_int
    }
}

/// A file's is a pointer.
impl Raw for *mut c_void {
    fn raw(self) -> u32 {
        u32::try_from(self as usize).unwrap_or(u32::MAX)
    }

    fn of_raw(raw: u32) -> *mut c_void {
        without_provenance_mut(raw as usize)
    }
}

/// C's _Float16, which the standard does not have.
const MPIX_C_FLOAT16: u32 = 0x2cb;

handles! {
    MPI_Comm: c_int {
        MPI_COMM_NULL = 0x04000000,
        MPI_COMM_WORLD = 0x44000000,
        MPI_COMM_SELF = 0x44000001,
    }
    MPI_Group: c_int {
        MPI_GROUP_NULL = 0x08000000,
        MPI_GROUP_EMPTY = 0x48000000,
    }
    MPI_Win: c_int {
        MPI_WIN_NULL = 0x20000000,
    }
    MPI_File: *mut c_void {
        MPI_FILE_NULL = 0x00000000,
    }
    MPI_Session: c_int {
        MPI_SESSION_NULL = 0x38000000,
    }
    MPI_Message: c_int {
        MPI_MESSAGE_NULL = 0x2c000000,
        MPI_MESSAGE_NO_PROC = 0x6c000000,
    }
    MPI_Info: c_int {
        MPI_INFO_NULL = 0x1c000000,
        MPI_INFO_ENV = 0x5c000001,
    }
    MPI_Errhandler: c_int {
        MPI_ERRHANDLER_NULL = 0x14000000,
        MPI_ERRORS_ARE_FATAL = 0x54000000,
        MPI_ERRORS_ABORT = 0x54000003,
        MPI_ERRORS_RETURN = 0x54000001,
    }
    MPI_Request: c_int {
        MPI_REQUEST_NULL = 0x2c000000,
    }
    MPI_Op: c_int {
        MPI_OP_NULL = 0x18000000,
        MPI_SUM = 0x58000003,
        MPI_MIN = 0x58000002,
        MPI_MAX = 0x58000001,
        MPI_PROD = 0x58000004,
        MPI_BAND = 0x58000006,
        MPI_BOR = 0x58000008,
        MPI_BXOR = 0x5800000a,
        MPI_LAND = 0x58000005,
        MPI_LOR = 0x58000007,
        MPI_LXOR = 0x58000009,
        MPI_MINLOC = 0x5800000b,
        MPI_MAXLOC = 0x5800000c,
        MPI_REPLACE = 0x5800000d,
        MPI_NO_OP = 0x5800000e,
    }
    MPI_Datatype: c_int {
        MPI_DATATYPE_NULL = 0x0c000000,
        MPI_AINT = 0x4c000843,
        MPI_COUNT = 0x4c000845,
        MPI_OFFSET = 0x4c000844,
        MPI_PACKED = 0x4c00010f,
        MPI_SHORT = 0x4c000203,
        MPI_INT = 0x4c000405,
        MPI_LONG = 0x4c000807,
        MPI_LONG_LONG = 0x4c000809,
        MPI_UNSIGNED_SHORT = 0x4c000204,
        MPI_UNSIGNED = 0x4c000406,
        MPI_UNSIGNED_LONG = 0x4c000808,
        MPI_UNSIGNED_LONG_LONG = 0x4c000819,
        MPI_FLOAT = 0x4c00040a,
        MPI_C_FLOAT_COMPLEX = 0x4c000840,
        MPI_CXX_FLOAT_COMPLEX = 0x4c000834,
        MPI_DOUBLE = 0x4c00080b,
        MPI_C_DOUBLE_COMPLEX = 0x4c001041,
        MPI_CXX_DOUBLE_COMPLEX = 0x4c001035,
        MPI_LOGICAL = 0x4c00041d,
        MPI_INTEGER = 0x4c00041b,
        MPI_REAL = 0x4c00041c,
        MPI_COMPLEX = 0x4c00081e,
        MPI_DOUBLE_PRECISION = 0x4c00081f,
        MPI_DOUBLE_COMPLEX = 0x4c001022,
        MPI_CHARACTER = 0x4c00011a,
        MPI_LONG_DOUBLE = 0x4c00100c,
        MPI_C_LONG_DOUBLE_COMPLEX = 0x4c002042,
        MPI_CXX_LONG_DOUBLE_COMPLEX = 0x4c002036,
        MPI_FLOAT_INT = 0x8c000000,
        MPI_DOUBLE_INT = 0x8c000001,
        MPI_LONG_INT = 0x8c000002,
        MPI_2INT = 0x4c000816,
        MPI_SHORT_INT = 0x8c000003,
        MPI_LONG_DOUBLE_INT = 0x8c000004,
        MPI_2REAL = 0x4c000821,
        MPI_2DOUBLE_PRECISION = 0x4c001023,
        MPI_2INTEGER = 0x4c000820,
        MPI_C_BOOL = 0x4c00013f,
        MPI_CXX_BOOL = 0x4c000133,
        MPI_WCHAR = 0x4c00040e,
        MPI_INT8_T = 0x4c000137,
        MPI_UINT8_T = 0x4c00013b,
        MPI_CHAR = 0x4c000101,
        MPI_SIGNED_CHAR = 0x4c000118,
        MPI_UNSIGNED_CHAR = 0x4c000102,
        MPI_BYTE = 0x4c00010d,
        MPI_INT16_T = 0x4c000238,
        MPI_UINT16_T = 0x4c00023c,
        MPI_INT32_T = 0x4c000439,
        MPI_UINT32_T = 0x4c00043d,
        MPI_INT64_T = 0x4c00083a,
        MPI_UINT64_T = 0x4c00083e,
        MPI_LOGICAL1 = 0x4c000147,
        MPI_INTEGER1 = 0x4c00012d,
        MPI_LOGICAL2 = 0x4c000248,
        MPI_INTEGER2 = 0x4c00022f,
        MPI_REAL2 = 0x4c000226,
        MPIX_C_FLOAT16 = 0x4c000246,
        MPI_LOGICAL4 = 0x4c000449,
        MPI_INTEGER4 = 0x4c000430,
        MPI_REAL4 = 0x4c000427,
        MPI_COMPLEX4 = 0x4c00042e,
        MPI_LOGICAL8 = 0x4c00084a,
        MPI_INTEGER8 = 0x4c000831,
        MPI_REAL8 = 0x4c000829,
        MPI_COMPLEX8 = 0x4c000828,
        MPI_LOGICAL16 = 0x4c00104b,
        MPI_INTEGER16 = 0x4c001032,
        MPI_REAL16 = 0x4c00102b,
        MPI_COMPLEX16 = 0x4c00102a,
        MPI_COMPLEX32 = 0x4c00202c,
    }
}

/// What MPI_LB and MPI_UB stand for, which are no datatypes any more.
pub enum Bound {
    Lower,
    Upper,
}

/// Whether the handle is MPI_LB or MPI_UB.
pub fn bound(datatype: MPI_Datatype) -> Option<Bound> {
    match datatype.0 {
        0x4c00_0010 => Some(Bound::Lower),
        0x4c00_0011 => Some(Bound::Upper),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_predefined_handle_comes_back() {
        for pairs in [MPI_Comm::PAIRS, MPI_Datatype::PAIRS, MPI_Op::PAIRS, MPI_File::PAIRS, MPI_Errhandler::PAIRS] {
            for (ours, theirs) in pairs.all {
                assert_eq!((pairs.ours(*theirs), pairs.theirs(*ours)), (*ours, *theirs));
            }
        }
    }

    #[test]
    fn numbers_without_a_meaning_are_no_handles() {
        assert_eq!(MPI_Comm(0x101).id(), 0);
        assert_eq!(MPI_Comm(0x4400_0002).id(), 0);
        assert_eq!(MPI_Datatype(0x4c00_0105).id(), 0);
        assert_eq!(MPI_File(without_provenance_mut(usize::MAX)).id(), 0);
        assert_eq!(MPI_Comm(FIRST as c_int).id(), FIRST);
    }
}
