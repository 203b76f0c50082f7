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
    MPI_Accumulate
    MPI_Accumulate_c
    MPI_Close_port
    MPI_Comm_accept
    MPI_Comm_connect
    MPI_Comm_join
    MPI_Comm_spawn
    MPI_Comm_spawn_multiple
    MPI_Compare_and_swap
    MPI_Fetch_and_op
    MPI_Get
    MPI_Get_accumulate
    MPI_Get_accumulate_c
    MPI_Get_c
    MPI_Lookup_name
    MPI_Open_port
    MPI_Publish_name
    MPI_Put
    MPI_Put_c
    MPI_Raccumulate
    MPI_Raccumulate_c
    MPI_Rget
    MPI_Rget_accumulate
    MPI_Rget_accumulate_c
    MPI_Rget_c
    MPI_Rput
    MPI_Rput_c
    MPI_Session_attach_buffer
    MPI_Session_attach_buffer_c
    MPI_Session_detach_buffer
    MPI_Session_detach_buffer_c
    MPI_Session_flush_buffer
    MPI_Session_iflush_buffer
    MPI_Unpublish_name
    MPI_Win_allocate
    MPI_Win_allocate_c
    MPI_Win_allocate_shared
    MPI_Win_allocate_shared_c
    MPI_Win_attach
    MPI_Win_complete
    MPI_Win_create
    MPI_Win_create_c
    MPI_Win_create_dynamic
    MPI_Win_detach
    MPI_Win_fence
    MPI_Win_flush
    MPI_Win_flush_all
    MPI_Win_flush_local
    MPI_Win_flush_local_all
    MPI_Win_free
    MPI_Win_get_group
    MPI_Win_get_info
    MPI_Win_get_name
    MPI_Win_lock
    MPI_Win_lock_all
    MPI_Win_post
    MPI_Win_set_info
    MPI_Win_set_name
    MPI_Win_shared_query
    MPI_Win_shared_query_c
    MPI_Win_start
    MPI_Win_sync
    MPI_Win_test
    MPI_Win_unlock
    MPI_Win_unlock_all
    MPI_Win_wait
}
