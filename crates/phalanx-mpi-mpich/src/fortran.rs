//! What MPICH's Fortran library (`libmpifort.so.12`, Debian's `libmpichfort.so.12`) calls beside MPI's functions, so that
//! Fortran programs run: the names and kinds are MPICH's.

use crate::abi::{MPI_Comm, MPI_Datatype, MPI_Request, MPI_Win};
use crate::c::argument::Out;
use crate::c::attribute::{CopyProxy, DeleteProxy, Proxy, find_number, set, set_proxy};
use crate::c::generalized::set_fortran;
use phalanx_mpi::objects::attribute::{MOST, Value};
use std::ffi::{c_int, c_void};

/// Predefined keys have odd numbers in C, and the next ones in Fortran; those of programs are below.
fn of_c(keyval: c_int) -> c_int {
    if keyval > MOST && keyval % 2 == 0 { keyval - 1 } else { keyval }
}

/// Kinds of attributes: a pointer, and an int; other ones are numbers as wide as an address.
const POINTER: c_int = 0;
const INT: c_int = 3;

/// Attributes are numbers in Fortran; how wide they are there, its library sees to when it gets one.
macro_rules! attributes {
    ($($handle:ty: $get:ident $set:ident;)*) => {
        mpi! {
            $(
                fn $get(object: $handle, keyval: c_int, value: Out<isize>, flag: Out<c_int>, _kind: c_int) {
                    let found = find_number(object, of_c(keyval))?;
                    flag.put_flag(found.is_some());
                    found.into_iter().for_each(|found| value.put(found));
                }

                fn $set(object: $handle, keyval: c_int, value: *mut c_void, kind: c_int) {
                    let number = value.expose_provenance();
                    set(object, keyval, match kind {
                        POINTER => Value::Address(number),
                        INT => Value::narrow(number as i32),
                        _ => Value::wide(number as isize),
                    })?;
                }
            )*
        }
    };
}

attributes! {
    MPI_Comm: MPII_Comm_get_attr MPII_Comm_set_attr;
    MPI_Datatype: MPII_Type_get_attr MPII_Type_set_attr;
    MPI_Win: MPII_Win_get_attr MPII_Win_set_attr;
}

/// Functions of a key are Fortran's, and called by these.
#[unsafe(no_mangle)]
extern "C" fn MPII_Keyval_set_proxy(keyval: c_int, copy: CopyProxy, delete: DeleteProxy) {
    set_proxy(keyval, Proxy { copy, delete });
}

/// Functions of a generalized request are Fortran's.
#[unsafe(no_mangle)]
extern "C" fn MPII_Grequest_set_lang_f77(request: MPI_Request) {
    set_fortran(request);
}

/// Nothing here works on the memory of graphics processors.
#[unsafe(no_mangle)]
extern "C" fn MPIX_Query_cuda_support() -> c_int {
    0
}

mpi! {
    fn MPIX_GPU_query_support(_kind: c_int, is_supported: Out<c_int>) {
        is_supported.put_flag(false);
    }
}

/// An object that stands for a status that nobody wants, in Fortran 2008.
#[repr(transparent)]
pub struct Ignored(*const c_int);

// SAFETY: the address is never followed.
unsafe impl Sync for Ignored {}

static NOBODYS: [c_int; 2] = [0; 2];

#[unsafe(no_mangle)]
pub static MPI_F08_STATUS_IGNORE: Ignored = Ignored(&raw const NOBODYS[0]);
#[unsafe(no_mangle)]
pub static MPI_F08_STATUSES_IGNORE: Ignored = Ignored(&raw const NOBODYS[1]);
