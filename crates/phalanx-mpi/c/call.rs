//! How a C function is declared, and what happens when it fails.

use super::failure::{Failure, Owner, Result, nobody};
use crate::abi;
use phalanx_mpi::constants::MPI_SUCCESS;
use phalanx_mpi::error::{Class, Error};
use phalanx_mpi::objects::codes;
use phalanx_mpi::objects::comm::Comm;
use phalanx_mpi::objects::errhandler::{Errhandler, Kind};
use phalanx_mpi::operations::window::Window;
use phalanx_mpi::universe::{leaving, losing, session};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Declares functions, with their twins for profiling tools (`PMPI_…`).
///
/// ```text
/// mpi! {
///     fn MPI_Comm_rank(comm: MPI_Comm, rank: Out<c_int>) on comm { rank.put(…) }
/// }
/// ```
///
/// The body has no value; it may use `?` and `return fail(…)`, and what it fails with goes to the error handler of what
/// is named after `on`. Arguments are checked first as their types say ([`argument`](super::argument)).
///
/// - `fn`: MPI must be initialized
/// - `early_fn`: may be called at any time
/// - `large_fn`: has a twin `MPI_…_c`, for which `Count` is MPI_Count instead of int, `Displacement` is MPI_Aint instead
///   of int, and `Address` is MPI_Count instead of MPI_Aint
macro_rules! mpi {
    ($($(#[$about:meta])* $kind:ident $name:ident ($($argument:ident: $type:ty),* $(,)?) $(on $owner:ident)? $body:block)*) => {
        $(mpi_one! { $kind $name [$($argument: $type),*] [$($owner)?] $body })*
    };
}

macro_rules! mpi_one {
    (fn $name:ident $arguments:tt $owner:tt $body:block) => {
        mpi_define! { $name "" [std::ffi::c_int, std::ffi::c_int, isize] [check] $arguments $owner $body }
    };
    (early_fn $name:ident $arguments:tt $owner:tt $body:block) => {
        mpi_define! { $name "" [std::ffi::c_int, std::ffi::c_int, isize] [] $arguments $owner $body }
    };
    (large_fn $name:ident $arguments:tt $owner:tt $body:block) => {
        mpi_define! { $name "" [std::ffi::c_int, std::ffi::c_int, isize] [check] $arguments $owner $body }
        mpi_define! { $name "_c" [i64, isize, i64] [check] $arguments $owner $body }
    };
}

macro_rules! mpi_define {
    ($name:ident $suffix:literal [$count:ty, $displacement:ty, $address:ty] [$($check:ident)?]
     [$($argument:ident: $type:ty),*] [$($owner:ident)?] $body:block) => {
        const _: () = {
            #[allow(dead_code)] // not every function has one
            type Count = $count;
            #[allow(dead_code)] // not every function has one
            type Displacement = $displacement;
            #[allow(dead_code)] // not every function has one
            type Address = $address;

            #[inline(always)]
            #[allow(unreachable_code)] // some calls do not return
            fn mpi_call($($argument: $type),*) -> std::ffi::c_int {
                $crate::c::call::guard(concat!(stringify!($name), $suffix), || mpi_owner!($($owner)?), || {
                    $(phalanx_mpi::process::life::$check()?;)?
                    $($crate::c::argument::Argument::check(&$argument, stringify!($argument))?;)*
                    $body;
                    Ok(())
                })
            }

            #[unsafe(export_name = concat!(stringify!($name), $suffix))]
            extern "C" fn mpi_function($($argument: $type),*) -> std::ffi::c_int {
                mpi_call($($argument),*)
            }

            #[unsafe(export_name = concat!("P", stringify!($name), $suffix))]
            extern "C" fn mpi_twin($($argument: $type),*) -> std::ffi::c_int {
                mpi_call($($argument),*)
            }
        };
    };
}

macro_rules! mpi_owner {
    () => {
        $crate::c::failure::nobody()
    };
    ($owner:ident) => {
        $crate::c::failure::Owner::from($owner)
    };
}

/// Declares functions that return a value and cannot fail, with their twins.
macro_rules! mpi_value {
    ($($(#[$about:meta])* fn $name:ident ($($argument:ident: $type:ty),* $(,)?) -> $value:ty $body:block)*) => {
        $(const _: () = {
            #[unsafe(export_name = stringify!($name))]
            extern "C" fn mpi_function($($argument: $type),*) -> $value $body

            #[unsafe(export_name = concat!("P", stringify!($name)))]
            extern "C" fn mpi_twin($($argument: $type),*) -> $value $body
        };)*
    };
}

/// Calls, and returns a code: nothing unwinds into C.
#[inline]
pub fn guard(name: &'static str, owner: impl FnOnce() -> Owner, call: impl FnOnce() -> Result) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => MPI_SUCCESS,
        Ok(Err(failure)) => raise(name, owner(), failure),
        Err(_) => raise(name, owner(), Error::new(Class::Intern, "internal error, told on standard error").into()),
    }
}

#[cold]
fn raise(name: &str, owner: Owner, failure: Failure) -> c_int {
    let (owner, error) = match failure {
        Failure::Error(error) => (owner, Ok(losing::explained(error))),
        Failure::Of(owner, error) => (owner, Ok(losing::explained(error))),
        Failure::Code(code) => (owner, Err(code)),
    };
    let (code, text) = match &error {
        Ok(error) => (codes::code_of(error, name), error.code.map(|_| format!("{name}: {}", error.text))),
        Err(code) => (*code, None),
    };
    abi::ERROR.to_c(tell(if exists(&owner) { owner } else { nobody() }, code, text))
}

/// Whether there is an object that may have a handler.
fn exists(owner: &Owner) -> bool {
    if owner.kept.is_some() {
        return true;
    }
    match owner.kind {
        Kind::Comm => Comm::of(owner.object).is_ok(),
        Kind::Session => session::find(owner.object).is_ok(),
        Kind::Win => Window::of(owner.object).is_ok(),
        Kind::File => true, // what is no file has the handler of MPI_FILE_NULL
    }
}

/// Does with an error what the owner's handler says.
pub fn call_handler(owner: Owner, code: i32) {
    tell(owner, code, None);
}

/// The same, with words that the code itself does not stand for. Returns the code, which a program's handler may change.
fn tell(owner: Owner, code: i32, text: Option<String>) -> i32 {
    match &*owner.handler() {
        Errhandler::Return => code,
        Errhandler::Own(_, call) => call(owner.object, code),
        Errhandler::Fatal | Errhandler::Abort => {
            let known = || codes::text_of(code).unwrap_or_else(|_| format!("error {code}"));
            let text = text.unwrap_or_else(known);
            leaving::abort(codes::class_of(code).unwrap_or(code), &text)
        }
    }
}
