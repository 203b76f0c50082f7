//! MPICH's binary interface, which Intel MPI, MVAPICH and others have too: its numbers against those of `phalanx_mpi`.

mod handles;
mod numbers;
mod status;

pub use handles::*;
pub use numbers::*;
pub use status::MPI_Status;
use std::ffi::{c_int, c_void};

/// MPI_Get_library_version's word for it.
pub const INTERFACE: &str = "MPICH ABI";
/// MPI_Abi_get_version: none of the standard interface.
pub const VERSION: (std::ffi::c_int, std::ffi::c_int) = (-1, -1);

pub const KEYVAL_INVALID: i32 = 0x2400_0000;
pub const LASTCODE: i32 = 0x3fff_ffff;
pub const DISPLACEMENT_CURRENT: i64 = -54_278_278;

/// Longest strings, with the zero at their end (but for keys, which may have 255 characters).
pub mod longest {
    pub const DATAREP: usize = 128;
    pub const ERROR: usize = 512;
    pub const INFO_KEY: usize = 256;
    pub const LIBRARY_VERSION: usize = 8192;
    pub const OBJECT_NAME: usize = 128;
    pub const PORT: usize = 256;
    pub const PROCESSOR: usize = 128;
    pub const PSET: usize = 256;
}

/// Addresses that stand for something else.
pub mod address {
    use std::ffi::{c_int, c_void};
    use std::ptr::without_provenance;

    pub const IN_PLACE: *const c_void = without_provenance(usize::MAX);
    pub const BUFFER_AUTOMATIC: *const c_void = without_provenance(usize::MAX - 1);
    pub const STATUS_IGNORE: *const super::MPI_Status = without_provenance(1);
    /// The copy function that copies is a function, see [`super::MPIR_Dup_fn`].
    pub const DUP_FN: *const c_void = std::ptr::null();
    pub const T_ALL_HANDLES: *const c_void = without_provenance(usize::MAX);

    /// The address of a variable that programs see.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    pub struct Address<T>(*const T);

    // SAFETY: the address is never followed.
    unsafe impl<T> Sync for Address<T> {}

    static NEITHER: [c_int; 2] = [0; 2];

    #[unsafe(no_mangle)]
    pub static MPI_UNWEIGHTED: Address<c_int> = Address(&raw const NEITHER[0]);
    #[unsafe(no_mangle)]
    pub static MPI_WEIGHTS_EMPTY: Address<c_int> = Address(&raw const NEITHER[1]);
    #[unsafe(no_mangle)]
    pub static MPI_T_PVAR_ALL_HANDLES: Address<c_void> = Address(T_ALL_HANDLES);
    #[unsafe(no_mangle)]
    pub static MPI_F_STATUS_IGNORE: Address<c_int> = Address(without_provenance(1));
    #[unsafe(no_mangle)]
    pub static MPI_F_STATUSES_IGNORE: Address<c_int> = Address(without_provenance(1));

    pub fn unweighted() -> *const c_int {
        MPI_UNWEIGHTED.0
    }

    pub fn weights_empty() -> *const c_int {
        MPI_WEIGHTS_EMPTY.0
    }
}

/// MPI_COMM_DUP_FN, MPI_TYPE_DUP_FN, MPI_WIN_DUP_FN: the duplicate has the same value.
///
/// # Safety
/// As for every function that copies an attribute: `copied` takes a pointer, `flag` a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
    _keyval: c_int,
    _extra: *mut c_void,
    value: *mut c_void,
    copied: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller promises it.
    unsafe {
        copied.cast::<*mut c_void>().write(value);
        flag.write(1);
    }
    0
}
