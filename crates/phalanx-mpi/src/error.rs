//! What MPI functions return when they fail: a class of the standard, and words for a person.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call. The words name the argument and say what is wrong with it; the C interface puts the call's name
/// before them.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct Error {
    /// The error class.
    pub class: Class,
    /// What happened, for people.
    pub text: String,
    /// The code that a function of this program returned, which its own calls return in turn.
    #[serde(skip)]
    pub code: Option<i32>,
}

impl Error {
    /// An error of a class.
    pub fn new(class: Class, text: impl Into<String>) -> Error {
        Error { class, text: text.into(), code: None }
    }
}

/// For `Err(…)` in one line: `return fail(Class::Rank, format!("rank {rank} is not in 0..{size}"))`.
pub fn fail<T>(class: Class, text: impl Into<String>) -> Result<T> {
    Err(Error::new(class, text))
}

macro_rules! classes {
    ($($name:ident = $number:literal, $constant:literal, $words:literal;)*) => {
        /// The error classes, with the numbers of the standard interface (MPI 5.0, 9.4); those of ULFM with MPICH's.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[repr(i32)]
        pub enum Class { $(#[doc = $words] $name = $number,)* }

        impl Class {
            /// All of them.
            pub const ALL: &[Class] = &[$(Class::$name),*];

            /// As C programs spell it.
            pub fn constant(self) -> &'static str {
                match self { $(Class::$name => $constant,)* }
            }

            /// What `MPI_Error_string` says of the class itself.
            pub fn words(self) -> &'static str {
                match self { $(Class::$name => $words,)* }
            }
        }
    };
}

classes! {
    Buffer = 1, "MPI_ERR_BUFFER", "invalid buffer pointer";
    Count = 2, "MPI_ERR_COUNT", "invalid count";
    Type = 3, "MPI_ERR_TYPE", "invalid datatype";
    Tag = 4, "MPI_ERR_TAG", "invalid tag";
    Comm = 5, "MPI_ERR_COMM", "invalid communicator";
    Rank = 6, "MPI_ERR_RANK", "invalid rank";
    Request = 7, "MPI_ERR_REQUEST", "invalid request";
    Root = 8, "MPI_ERR_ROOT", "invalid root";
    Group = 9, "MPI_ERR_GROUP", "invalid group";
    Op = 10, "MPI_ERR_OP", "invalid reduction operation";
    Topology = 11, "MPI_ERR_TOPOLOGY", "invalid topology";
    Dims = 12, "MPI_ERR_DIMS", "invalid dimensions";
    Arg = 13, "MPI_ERR_ARG", "invalid argument";
    Unknown = 14, "MPI_ERR_UNKNOWN", "unknown error";
    Truncate = 15, "MPI_ERR_TRUNCATE", "message longer than the receive buffer";
    Other = 16, "MPI_ERR_OTHER", "known error not in this list";
    Intern = 17, "MPI_ERR_INTERN", "internal error";
    Pending = 18, "MPI_ERR_PENDING", "request still pending";
    InStatus = 19, "MPI_ERR_IN_STATUS", "error codes are in the statuses";
    Access = 20, "MPI_ERR_ACCESS", "permission denied";
    Amode = 21, "MPI_ERR_AMODE", "invalid access mode";
    Assert = 22, "MPI_ERR_ASSERT", "invalid assertion";
    BadFile = 23, "MPI_ERR_BAD_FILE", "invalid file name";
    Base = 24, "MPI_ERR_BASE", "invalid base address";
    Conversion = 25, "MPI_ERR_CONVERSION", "error in a data conversion function";
    Disp = 26, "MPI_ERR_DISP", "invalid displacement";
    DupDatarep = 27, "MPI_ERR_DUP_DATAREP", "data representation already defined";
    FileExists = 28, "MPI_ERR_FILE_EXISTS", "file exists";
    FileInUse = 29, "MPI_ERR_FILE_IN_USE", "file in use";
    File = 30, "MPI_ERR_FILE", "invalid file handle";
    InfoKey = 31, "MPI_ERR_INFO_KEY", "invalid info key";
    InfoNokey = 32, "MPI_ERR_INFO_NOKEY", "no such info key";
    InfoValue = 33, "MPI_ERR_INFO_VALUE", "invalid info value";
    Info = 34, "MPI_ERR_INFO", "invalid info object";
    Io = 35, "MPI_ERR_IO", "input or output error";
    Keyval = 36, "MPI_ERR_KEYVAL", "invalid attribute key";
    Locktype = 37, "MPI_ERR_LOCKTYPE", "invalid lock type";
    Name = 38, "MPI_ERR_NAME", "invalid service name";
    NoMem = 39, "MPI_ERR_NO_MEM", "out of memory";
    NotSame = 40, "MPI_ERR_NOT_SAME", "collective argument not the same in all processes";
    NoSpace = 41, "MPI_ERR_NO_SPACE", "no space left";
    NoSuchFile = 42, "MPI_ERR_NO_SUCH_FILE", "no such file";
    Port = 43, "MPI_ERR_PORT", "invalid port name";
    Quota = 44, "MPI_ERR_QUOTA", "quota exceeded";
    ReadOnly = 45, "MPI_ERR_READ_ONLY", "read-only file or file system";
    RmaAttach = 46, "MPI_ERR_RMA_ATTACH", "memory cannot be attached";
    RmaConflict = 47, "MPI_ERR_RMA_CONFLICT", "conflicting accesses to a window";
    RmaRange = 48, "MPI_ERR_RMA_RANGE", "target memory is not part of the window";
    RmaShared = 49, "MPI_ERR_RMA_SHARED", "memory cannot be shared";
    RmaSync = 50, "MPI_ERR_RMA_SYNC", "wrong synchronization of window calls";
    Service = 51, "MPI_ERR_SERVICE", "service name is not published";
    Size = 52, "MPI_ERR_SIZE", "invalid size";
    Spawn = 53, "MPI_ERR_SPAWN", "processes cannot be spawned";
    UnsupportedDatarep = 54, "MPI_ERR_UNSUPPORTED_DATAREP", "unsupported data representation";
    UnsupportedOperation = 55, "MPI_ERR_UNSUPPORTED_OPERATION", "unsupported operation";
    Win = 56, "MPI_ERR_WIN", "invalid window";
    RmaFlavor = 57, "MPI_ERR_RMA_FLAVOR", "wrong window flavor";
    ProcAborted = 58, "MPI_ERR_PROC_ABORTED", "a process was aborted";
    ValueTooLarge = 59, "MPI_ERR_VALUE_TOO_LARGE", "value is too large to be stored";
    Session = 60, "MPI_ERR_SESSION", "invalid session";
    Errhandler = 61, "MPI_ERR_ERRHANDLER", "invalid error handler";
    Abi = 62, "MPI_ERR_ABI", "wrong use of the binary interface";
    ProcFailed = 101, "MPIX_ERR_PROC_FAILED", "a process was lost";
    ProcFailedPending = 102, "MPIX_ERR_PROC_FAILED_PENDING", "the receive goes on, but a process was lost";
    Revoked = 103, "MPIX_ERR_REVOKED", "the communicator was revoked";
}
