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
    MPI_File_iread
    MPI_File_iread_all
    MPI_File_iread_all_c
    MPI_File_iread_at
    MPI_File_iread_at_all
    MPI_File_iread_at_all_c
    MPI_File_iread_at_c
    MPI_File_iread_c
    MPI_File_iread_shared
    MPI_File_iread_shared_c
    MPI_File_iwrite
    MPI_File_iwrite_all
    MPI_File_iwrite_all_c
    MPI_File_iwrite_at
    MPI_File_iwrite_at_all
    MPI_File_iwrite_at_all_c
    MPI_File_iwrite_at_c
    MPI_File_iwrite_c
    MPI_File_iwrite_shared
    MPI_File_iwrite_shared_c
    MPI_File_read
    MPI_File_read_all
    MPI_File_read_all_begin
    MPI_File_read_all_begin_c
    MPI_File_read_all_c
    MPI_File_read_at
    MPI_File_read_at_all
    MPI_File_read_at_all_begin
    MPI_File_read_at_all_begin_c
    MPI_File_read_at_all_c
    MPI_File_read_at_c
    MPI_File_read_c
    MPI_File_read_ordered
    MPI_File_read_ordered_begin
    MPI_File_read_ordered_begin_c
    MPI_File_read_ordered_c
    MPI_File_read_shared
    MPI_File_read_shared_c
    MPI_File_write
    MPI_File_write_all
    MPI_File_write_all_begin
    MPI_File_write_all_begin_c
    MPI_File_write_all_c
    MPI_File_write_at
    MPI_File_write_at_all
    MPI_File_write_at_all_begin
    MPI_File_write_at_all_begin_c
    MPI_File_write_at_all_c
    MPI_File_write_at_c
    MPI_File_write_c
    MPI_File_write_ordered
    MPI_File_write_ordered_begin
    MPI_File_write_ordered_begin_c
    MPI_File_write_ordered_c
    MPI_File_write_shared
    MPI_File_write_shared_c
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
