//! The tools interface (MPI 5.0, chapter 15): it can be used, and there are no variables, events or categories in it.
//!
//! Its functions return the codes of the interface itself, and call no error handler.

use super::argument::Out;
use crate::abi;
use phalanx_mpi::constants::*;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often it was initialized and not yet finalized.
static USERS: AtomicUsize = AtomicUsize::new(0);

fn code(canonical: i32) -> c_int {
    abi::ERROR.to_c(canonical)
}

/// The code of a call that can only find nothing.
fn nothing(canonical: i32) -> c_int {
    code(if USERS.load(Ordering::Acquire) == 0 { MPI_T_ERR_NOT_INITIALIZED } else { canonical })
}

/// Tells a number that is 0.
fn none(number: *mut c_int) -> c_int {
    match Out::of(number, "number") {
        _ if USERS.load(Ordering::Acquire) == 0 => code(MPI_T_ERR_NOT_INITIALIZED),
        Ok(number) => {
            number.put(0);
            MPI_SUCCESS
        }
        Err(_) => code(MPI_T_ERR_INVALID),
    }
}

mpi_value! {
    fn MPI_T_init_thread(_required: c_int, provided: *mut c_int) -> c_int {
        let Ok(provided) = Out::of(provided, "provided") else { return code(MPI_T_ERR_INVALID) };
        USERS.fetch_add(1, Ordering::AcqRel);
        provided.put(abi::THREAD.to_c(MPI_THREAD_MULTIPLE));
        MPI_SUCCESS
    }

    fn MPI_T_finalize() -> c_int {
        let less = USERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |users| users.checked_sub(1));
        if less.is_ok() { MPI_SUCCESS } else { code(MPI_T_ERR_NOT_INITIALIZED) }
    }

    fn MPI_T_cvar_get_num(num_cvar: *mut c_int) -> c_int {
        none(num_cvar)
    }

    fn MPI_T_pvar_get_num(num_pvar: *mut c_int) -> c_int {
        none(num_pvar)
    }

    fn MPI_T_category_get_num(num_cat: *mut c_int) -> c_int {
        none(num_cat)
    }

    fn MPI_T_category_changed(update_number: *mut c_int) -> c_int {
        none(update_number)
    }

    fn MPI_T_event_get_num(num_events: *mut c_int) -> c_int {
        none(num_events)
    }

    fn MPI_T_source_get_num(num_sources: *mut c_int) -> c_int {
        none(num_sources)
    }

    /// A handle, of which nobody can have any for a variable.
    fn MPI_T_pvar_session_create(session: *mut *const c_void) -> c_int {
        let Ok(session) = Out::of(session, "session") else { return code(MPI_T_ERR_INVALID) };
        session.put((&raw const USERS).cast());
        nothing(MPI_SUCCESS)
    }

    fn MPI_T_pvar_session_free(session: *mut *const c_void) -> c_int {
        let Ok(session) = Out::of(session, "session") else { return code(MPI_T_ERR_INVALID) };
        if !std::ptr::eq(session.get(), (&raw const USERS).cast()) {
            return nothing(MPI_T_ERR_INVALID_SESSION);
        }
        session.put(std::ptr::null());
        nothing(MPI_SUCCESS)
    }
}

/// Calls for something of which there is none, whatever they are called with.
macro_rules! nothing {
    ($($code:ident: $($name:ident)*;)*) => {
        $(mpi_value! { $(
            fn $name() -> c_int {
                nothing($code)
            }
        )* })*
    };
}

nothing! {
    MPI_T_ERR_INVALID_INDEX:
        MPI_T_category_get_categories MPI_T_category_get_cvars MPI_T_category_get_events MPI_T_category_get_info
        MPI_T_category_get_num_events MPI_T_category_get_pvars MPI_T_cvar_get_info MPI_T_cvar_handle_alloc
        MPI_T_enum_get_info MPI_T_enum_get_item MPI_T_event_get_info MPI_T_event_handle_alloc MPI_T_pvar_get_info
        MPI_T_pvar_handle_alloc MPI_T_source_get_info MPI_T_source_get_timestamp;
    MPI_T_ERR_INVALID_NAME:
        MPI_T_category_get_index MPI_T_cvar_get_index MPI_T_event_get_index MPI_T_pvar_get_index;
    MPI_T_ERR_INVALID_HANDLE:
        MPI_T_cvar_handle_free MPI_T_cvar_read MPI_T_cvar_write MPI_T_event_callback_get_info
        MPI_T_event_callback_set_info MPI_T_event_copy MPI_T_event_get_source MPI_T_event_get_timestamp
        MPI_T_event_handle_free MPI_T_event_handle_get_info MPI_T_event_handle_set_info MPI_T_event_read
        MPI_T_event_register_callback MPI_T_event_set_dropped_handler MPI_T_pvar_handle_free MPI_T_pvar_read
        MPI_T_pvar_readreset MPI_T_pvar_reset MPI_T_pvar_start MPI_T_pvar_stop MPI_T_pvar_write;
}
