//! Functions that are not there yet. Programs that name them load and run; calling one is an error.

use super::call::{NOBODY, fail, guard};
use phalanx_mpi::error::Class;
use std::ffi::c_int;

macro_rules! unsupported {
    ($($name:ident)*) => {
        $(const _: () = {
            // What is passed stays where the C caller put it.
            #[unsafe(export_name = stringify!($name))]
            extern "C" fn function() -> c_int {
                refuse(stringify!($name))
            }

            #[unsafe(export_name = concat!("P", stringify!($name)))]
            extern "C" fn twin() -> c_int {
                refuse(stringify!($name))
            }
        };)*
    };
}

#[cold]
fn refuse(name: &'static str) -> c_int {
    guard(name, || NOBODY, || fail(Class::UnsupportedOperation, "phalanx does not have this function yet"))
}

unsupported! {
    MPI_Close_port
    MPI_Comm_accept
    MPI_Comm_connect
    MPI_Comm_join
    MPI_Comm_spawn
    MPI_Comm_spawn_multiple
    MPI_Lookup_name
    MPI_Open_port
    MPI_Publish_name
    MPI_Session_attach_buffer
    MPI_Session_attach_buffer_c
    MPI_Session_detach_buffer
    MPI_Session_detach_buffer_c
    MPI_Session_flush_buffer
    MPI_Session_iflush_buffer
    MPI_Unpublish_name
}
