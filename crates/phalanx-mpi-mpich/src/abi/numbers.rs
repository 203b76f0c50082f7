//! Constants that are no handles.

use phalanx_mpi::constants::*;
use phalanx_mpi::error::Class;
use std::ffi::c_int;

/// What a number of no meaning becomes: one that has none for us either.
const NONSENSE: i32 = i32::MIN;

type Table = &'static [(i32, c_int)];

fn theirs(table: Table, our: i32) -> Option<c_int> {
    table.iter().find(|pair| pair.0 == our).map(|pair| pair.1)
}

fn ours(table: Table, their: c_int) -> Option<i32> {
    table.iter().find(|pair| pair.1 == their).map(|pair| pair.0)
}

/// A set of numbers: ours, theirs.
pub struct Numbers(Table);

impl Numbers {
    pub fn to_c(&self, number: i32) -> c_int {
        theirs(self.0, number).unwrap_or(number)
    }

    /// A number of no meaning stays one.
    pub fn from_c(&self, number: c_int) -> i32 {
        ours(self.0, number).unwrap_or(NONSENSE)
    }
}

/// Numbers that mean themselves, but for a few negative ones.
pub struct Special(Table);

impl Special {
    #[inline]
    pub fn to_c(&self, number: i32) -> c_int {
        if number >= 0 { number } else { theirs(self.0, number).unwrap_or(number) }
    }

    #[inline]
    pub fn from_c(&self, number: c_int) -> i32 {
        if number >= 0 { number } else { ours(self.0, number).unwrap_or(NONSENSE) }
    }
}

/// Any number, or one that stands for a default.
pub struct Default(Table);

impl Default {
    pub fn to_c(&self, number: i32) -> c_int {
        theirs(self.0, number).unwrap_or(number)
    }

    pub fn from_c(&self, number: c_int) -> i32 {
        ours(self.0, number).unwrap_or(number)
    }
}

/// Numbers that are added up.
pub struct Bits(Table);

impl Bits {
    pub fn to_c(&self, bits: i32) -> c_int {
        self.0.iter().filter(|pair| bits & pair.0 != 0).map(|pair| pair.1).sum()
    }

    /// Bits of no meaning become one that has none.
    pub fn from_c(&self, bits: c_int) -> i32 {
        let known: c_int = self.0.iter().map(|pair| pair.1).sum();
        let nonsense = if bits & !known == 0 { 0 } else { 1 << 30 };
        self.0.iter().filter(|pair| bits & pair.1 != 0).map(|pair| pair.0).sum::<i32>() | nonsense
    }
}

/// Codes of errors: a class in the lowest seven bits, or a tool's error, or a number that the program added.
pub struct Codes;

impl Codes {
    pub fn to_c(&self, code: i32) -> c_int {
        if code >= MPI_ERR_LASTCODE {
            return code - MPI_ERR_LASTCODE + super::LASTCODE;
        }
        match theirs(CLASSES, code) {
            Some(class) => class,
            None => code & !0x7f | theirs(CLASSES, code & 0x7f).unwrap_or(code & 0x7f),
        }
    }

    pub fn from_c(&self, code: c_int) -> i32 {
        if code >= super::LASTCODE {
            return code - super::LASTCODE + MPI_ERR_LASTCODE;
        }
        match ours(CLASSES, code) {
            Some(class) => class,
            None => code & !0x7f | ours(CLASSES, code & 0x7f).unwrap_or(code & 0x7f),
        }
    }
}

pub static ERROR: Codes = Codes;

static CLASSES: Table = &[
    (Class::Buffer as i32, 1),
    (Class::Count as i32, 2),
    (Class::Type as i32, 3),
    (Class::Tag as i32, 4),
    (Class::Comm as i32, 5),
    (Class::Rank as i32, 6),
    (Class::Request as i32, 19),
    (Class::Root as i32, 7),
    (Class::Group as i32, 8),
    (Class::Op as i32, 9),
    (Class::Topology as i32, 10),
    (Class::Dims as i32, 11),
    (Class::Arg as i32, 12),
    (Class::Unknown as i32, 13),
    (Class::Truncate as i32, 14),
    (Class::Other as i32, 15),
    (Class::Intern as i32, 16),
    (Class::Pending as i32, 18),
    (Class::InStatus as i32, 17),
    (Class::Access as i32, 20),
    (Class::Amode as i32, 21),
    (Class::Assert as i32, 53),
    (Class::BadFile as i32, 22),
    (Class::Base as i32, 46),
    (Class::Conversion as i32, 23),
    (Class::Disp as i32, 52),
    (Class::DupDatarep as i32, 24),
    (Class::FileExists as i32, 25),
    (Class::FileInUse as i32, 26),
    (Class::File as i32, 27),
    (Class::InfoKey as i32, 29),
    (Class::InfoNokey as i32, 31),
    (Class::InfoValue as i32, 30),
    (Class::Info as i32, 28),
    (Class::Io as i32, 32),
    (Class::Keyval as i32, 48),
    (Class::Locktype as i32, 47),
    (Class::Name as i32, 33),
    (Class::NoMem as i32, 34),
    (Class::NotSame as i32, 35),
    (Class::NoSpace as i32, 36),
    (Class::NoSuchFile as i32, 37),
    (Class::Port as i32, 38),
    (Class::Quota as i32, 39),
    (Class::ReadOnly as i32, 40),
    (Class::RmaAttach as i32, 56),
    (Class::RmaConflict as i32, 49),
    (Class::RmaRange as i32, 55),
    (Class::RmaShared as i32, 57),
    (Class::RmaSync as i32, 50),
    (Class::Service as i32, 41),
    (Class::Size as i32, 51),
    (Class::Spawn as i32, 42),
    (Class::UnsupportedDatarep as i32, 43),
    (Class::UnsupportedOperation as i32, 44),
    (Class::Win as i32, 45),
    (Class::RmaFlavor as i32, 58),
    (Class::ProcAborted as i32, 76),
    (Class::ValueTooLarge as i32, 77),
    (Class::Session as i32, 75),
    (Class::Errhandler as i32, 80),
    (Class::Abi as i32, 81),
    (Class::ProcFailed as i32, 101),
    (Class::ProcFailedPending as i32, 102),
    (Class::Revoked as i32, 103),
    (MPI_T_ERR_CANNOT_INIT, 61),
    (MPI_T_ERR_NOT_ACCESSIBLE, 79),
    (MPI_T_ERR_NOT_INITIALIZED, 60),
    (MPI_T_ERR_NOT_SUPPORTED, 78),
    (MPI_T_ERR_MEMORY, 59),
    (MPI_T_ERR_INVALID, 74),
    (MPI_T_ERR_INVALID_INDEX, 62),
    (MPI_T_ERR_INVALID_ITEM, 63),
    (MPI_T_ERR_INVALID_SESSION, 67),
    (MPI_T_ERR_INVALID_HANDLE, 64),
    (MPI_T_ERR_INVALID_NAME, 73),
    (MPI_T_ERR_OUT_OF_HANDLES, 65),
    (MPI_T_ERR_OUT_OF_SESSIONS, 66),
    (MPI_T_ERR_CVAR_SET_NOT_NOW, 68),
    (MPI_T_ERR_CVAR_SET_NEVER, 69),
    (MPI_T_ERR_PVAR_NO_WRITE, 71),
    (MPI_T_ERR_PVAR_NO_STARTSTOP, 70),
    (MPI_T_ERR_PVAR_NO_ATOMIC, 72),
];

pub static RANK: Special =
    Special(&[(MPI_ANY_SOURCE, -2), (MPI_PROC_NULL, -1), (MPI_ROOT, -3), (MPI_UNDEFINED, -32766)]);
pub static TAG: Special = Special(&[(MPI_ANY_TAG, -1), (MPI_UNDEFINED, -32766)]);
pub static THREAD: Numbers =
    Numbers(&[(MPI_THREAD_SINGLE, 0), (MPI_THREAD_FUNNELED, 1), (MPI_THREAD_SERIALIZED, 2), (MPI_THREAD_MULTIPLE, 3)]);
pub static COMBINER: Numbers = Numbers(&[
    (MPI_COMBINER_NAMED, 1),
    (MPI_COMBINER_DUP, 2),
    (MPI_COMBINER_CONTIGUOUS, 3),
    (MPI_COMBINER_VECTOR, 4),
    (MPI_COMBINER_HVECTOR, 6),
    (MPI_COMBINER_INDEXED, 7),
    (MPI_COMBINER_HINDEXED, 9),
    (MPI_COMBINER_INDEXED_BLOCK, 10),
    (MPI_COMBINER_HINDEXED_BLOCK, 19),
    (MPI_COMBINER_STRUCT, 12),
    (MPI_COMBINER_SUBARRAY, 13),
    (MPI_COMBINER_DARRAY, 14),
    (MPI_COMBINER_F90_REAL, 15),
    (MPI_COMBINER_F90_COMPLEX, 16),
    (MPI_COMBINER_F90_INTEGER, 17),
    (MPI_COMBINER_RESIZED, 18),
    (MPI_COMBINER_VALUE_INDEX, 20),
]);
pub static TYPECLASS: Numbers =
    Numbers(&[(MPI_TYPECLASS_INTEGER, 2), (MPI_TYPECLASS_REAL, 1), (MPI_TYPECLASS_COMPLEX, 3)]);
pub static COMPARISON: Numbers = Numbers(&[(MPI_IDENT, 0), (MPI_CONGRUENT, 1), (MPI_SIMILAR, 2), (MPI_UNEQUAL, 3)]);
pub static TOPOLOGY: Numbers = Numbers(&[(MPI_UNDEFINED, -32766), (MPI_CART, 2), (MPI_GRAPH, 1), (MPI_DIST_GRAPH, 3)]);
pub static SPLIT_TYPE: Numbers = Numbers(&[
    (MPI_UNDEFINED, -32766),
    (MPI_COMM_TYPE_SHARED, 1),
    (MPI_COMM_TYPE_HW_UNGUIDED, 3),
    (MPI_COMM_TYPE_HW_GUIDED, 2),
    (MPI_COMM_TYPE_RESOURCE_GUIDED, 4),
]);
pub static ORDER: Numbers = Numbers(&[(MPI_ORDER_C, 56), (MPI_ORDER_FORTRAN, 57)]);
pub static DISTRIBUTION: Numbers =
    Numbers(&[(MPI_DISTRIBUTE_NONE, 123), (MPI_DISTRIBUTE_BLOCK, 121), (MPI_DISTRIBUTE_CYCLIC, 122)]);
/// An argument of a distribution, or the default one.
pub static DISTRIBUTION_ARGUMENT: Default = Default(&[(MPI_DISTRIBUTE_DFLT_DARG, -49767)]);
pub static LOCK: Numbers = Numbers(&[(MPI_LOCK_EXCLUSIVE, 234), (MPI_LOCK_SHARED, 235)]);
pub static FLAVOR: Numbers = Numbers(&[
    (MPI_WIN_FLAVOR_CREATE, 1),
    (MPI_WIN_FLAVOR_ALLOCATE, 2),
    (MPI_WIN_FLAVOR_DYNAMIC, 3),
    (MPI_WIN_FLAVOR_SHARED, 4),
]);
pub static MODEL: Numbers = Numbers(&[(MPI_WIN_UNIFIED, 2), (MPI_WIN_SEPARATE, 1)]);
pub static FILE_MODE: Bits = Bits(&[
    (MPI_MODE_APPEND, 128),
    (MPI_MODE_CREATE, 1),
    (MPI_MODE_DELETE_ON_CLOSE, 16),
    (MPI_MODE_EXCL, 64),
    (MPI_MODE_RDONLY, 2),
    (MPI_MODE_RDWR, 8),
    (MPI_MODE_SEQUENTIAL, 256),
    (MPI_MODE_UNIQUE_OPEN, 32),
    (MPI_MODE_WRONLY, 4),
]);
pub static WINDOW_ASSERT: Bits = Bits(&[
    (MPI_MODE_NOCHECK, 1024),
    (MPI_MODE_NOPRECEDE, 8192),
    (MPI_MODE_NOPUT, 4096),
    (MPI_MODE_NOSTORE, 2048),
    (MPI_MODE_NOSUCCEED, 16384),
]);
pub static SEEK: Numbers = Numbers(&[(MPI_SEEK_CUR, 602), (MPI_SEEK_END, 604), (MPI_SEEK_SET, 600)]);
/// Keys of the program mean themselves.
pub static KEYVAL: Default = Default(&[
    (MPI_KEYVAL_INVALID, 603979776),
    (MPI_TAG_UB, 1681915905),
    (MPI_IO, 1681915909),
    (MPI_HOST, 1681915907),
    (MPI_WTIME_IS_GLOBAL, 1681915911),
    (MPI_APPNUM, 1681915917),
    (MPI_LASTUSEDCODE, 1681915915),
    (MPI_UNIVERSE_SIZE, 1681915913),
    (MPI_WIN_BASE, 1711276033),
    (MPI_WIN_DISP_UNIT, 1711276037),
    (MPI_WIN_SIZE, 1711276035),
    (MPI_WIN_CREATE_FLAVOR, 1711276039),
    (MPI_WIN_MODEL, 1711276041),
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back() {
        for table in [THREAD.0, COMBINER.0, TYPECLASS.0, COMPARISON.0, TOPOLOGY.0, SPLIT_TYPE.0, KEYVAL.0, CLASSES] {
            assert!(table.iter().all(|pair| ours(table, pair.1) == Some(pair.0)));
            assert!(table.iter().all(|pair| theirs(table, pair.0) == Some(pair.1)));
        }
        assert_eq!((RANK.from_c(-2), RANK.from_c(-1), RANK.from_c(7), RANK.from_c(-9)), (-1, -3, 7, NONSENSE));
        assert_eq!((TAG.from_c(-1), TAG.from_c(-2), TAG.to_c(-2)), (-2, NONSENSE, -1));
        assert_eq!(FILE_MODE.from_c(FILE_MODE.to_c(MPI_MODE_RDWR | MPI_MODE_CREATE)), MPI_MODE_RDWR | MPI_MODE_CREATE);
        assert_ne!(FILE_MODE.from_c(1 << 20), 0);
    }

    #[test]
    fn codes_keep_their_message() {
        let truncate = Class::Truncate as i32;
        assert_eq!(ERROR.to_c(truncate | 5 << 7), 14 | 5 << 7);
        assert_eq!(ERROR.from_c(14 | 5 << 7), truncate | 5 << 7);
        assert_eq!(ERROR.from_c(ERROR.to_c(MPI_ERR_LASTCODE + 3)), MPI_ERR_LASTCODE + 3);
        assert_eq!(ERROR.to_c(MPI_T_ERR_INVALID_INDEX), 62);
    }
}
