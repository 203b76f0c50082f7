//! The binary interface itself (MPI 5.0, chapter 20), and memory (9.2).

use super::argument::{MPI_Aint, Number, Out, is_in_place};
use super::failure::fail;
use crate::abi;
use crate::abi::MPI_Info;
use phalanx_mpi::constants::MPI_INFO_NULL;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::info::{self, Info};
use phalanx_mpi::objects::memory;
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::sync::Mutex;

/// The sizes of Fortran's types, once somebody has told.
static FORTRAN: Mutex<Option<Vec<(String, String)>>> = Mutex::new(None);
/// What Fortran's `.true.` and `.false.` are, and how large a logical is, once somebody has told.
static BOOLEANS: Mutex<Option<[Vec<u8>; 2]>> = Mutex::new(None);

fn pairs(pairs: &[(&str, usize)]) -> Info {
    Info::of(pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())))
}

mpi! {
    early_fn MPI_Abi_get_version(abi_major: Out<c_int>, abi_minor: Out<c_int>) {
        abi_major.put(abi::VERSION.0);
        abi_minor.put(abi::VERSION.1);
    }

    early_fn MPI_Abi_get_info(info: Out<MPI_Info>) {
        let sizes = [("mpi_aint_size", size_of::<isize>()), ("mpi_count_size", 8), ("mpi_offset_size", 8)];
        info.put(MPI_Info::of(info::put(pairs(&sizes))?));
    }

    /// MPI_INFO_NULL until somebody who knows the Fortran compiler has told.
    early_fn MPI_Abi_get_fortran_info(info: Out<MPI_Info>) {
        let known = FORTRAN.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let own = known.map_or(Ok(MPI_INFO_NULL), |pairs| info::put(Info::of(pairs)))?;
        info.put(MPI_Info::of(own));
    }

    early_fn MPI_Abi_set_fortran_info(info: MPI_Info) {
        let told = info::find(info.id())?.pairs();
        let mut known = FORTRAN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if known.is_some() {
            return fail(Class::Abi, "the sizes of Fortran's types are set already");
        }
        *known = Some(told);
    }

    early_fn MPI_Abi_get_fortran_booleans(
        logical_size: c_int, logical_true: *mut c_void, logical_false: *mut c_void, is_set: Out<c_int>,
    ) {
        let known = BOOLEANS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        is_set.put_flag(known.is_some());
        for (value, target) in known.into_iter().flatten().zip([logical_true, logical_false]) {
            if logical_size.natural(Class::Arg, "logical_size")? != value.len() {
                return fail(Class::Arg, format!("logical_size is {logical_size}, not {}", value.len()));
            }
            for (place, byte) in value.into_iter().enumerate() {
                // Within the size that the caller told.
                Out::of(target.cast::<u8>().wrapping_add(place), "a logical")?.put(byte);
            }
        }
    }

    early_fn MPI_Abi_set_fortran_booleans(logical_size: c_int, logical_true: *mut c_void, logical_false: *mut c_void) {
        let size = logical_size.natural(Class::Arg, "logical_size")?;
        if !matches!(size, 1 | 2 | 4 | 8 | 16) {
            return fail(Class::Arg, format!("logical_size is {logical_size}, no size of a logical"));
        }
        let read = |from: *mut c_void| {
            let byte = |place| Ok(Out::of(from.cast::<u8>().wrapping_add(place), "a logical")?.get());
            (0..size).map(byte).collect::<super::failure::Result<Vec<u8>>>()
        };
        let values = [read(logical_true)?, read(logical_false)?];
        let mut booleans = BOOLEANS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if booleans.is_some() {
            return fail(Class::Abi, "Fortran's logicals are set already");
        }
        *booleans = Some(values);
    }

    fn MPI_Alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: *mut c_void) {
        info::hints(info.id())?;
        let memory = memory::allocate(size.natural(Class::Arg, "size")?)?;
        // In C it is declared as the address of anything; it is that of a pointer.
        Out::of(baseptr.cast::<*mut u8>(), "baseptr")?.put(memory);
    }

    fn MPI_Free_mem(base: *mut c_void) {
        if is_in_place(base) {
            return fail(Class::Base, "base is MPI_IN_PLACE");
        }
        memory::free(base.addr())?;
    }

    early_fn MPI_Get_address(location: *const c_void, address: Out<MPI_Aint>) {
        address.put(location.addr() as MPI_Aint);
    }
}
