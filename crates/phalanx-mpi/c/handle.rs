//! Handles as integers, for Fortran and other languages, and addresses (MPI 5.0, 19.3 and 20.3).

use super::argument::MPI_Aint;
use crate::abi::*;
use std::ffi::c_int;

macro_rules! integers {
    ($($handle:ident: $toint:ident $fromint:ident $c2f:ident $f2c:ident;)*) => {
        mpi_value! {
            $(
                fn $toint(handle: $handle) -> c_int {
                    handle.integer()
                }

                fn $fromint(integer: c_int) -> $handle {
                    $handle::of_integer(integer)
                }

                fn $c2f(handle: $handle) -> c_int {
                    handle.integer()
                }

                fn $f2c(integer: c_int) -> $handle {
                    $handle::of_integer(integer)
                }
            )*
        }
    };
}

integers! {
    MPI_Comm: MPI_Comm_toint MPI_Comm_fromint MPI_Comm_c2f MPI_Comm_f2c;
    MPI_Datatype: MPI_Type_toint MPI_Type_fromint MPI_Type_c2f MPI_Type_f2c;
    MPI_Errhandler: MPI_Errhandler_toint MPI_Errhandler_fromint MPI_Errhandler_c2f MPI_Errhandler_f2c;
    MPI_File: MPI_File_toint MPI_File_fromint MPI_File_c2f MPI_File_f2c;
    MPI_Group: MPI_Group_toint MPI_Group_fromint MPI_Group_c2f MPI_Group_f2c;
    MPI_Info: MPI_Info_toint MPI_Info_fromint MPI_Info_c2f MPI_Info_f2c;
    MPI_Message: MPI_Message_toint MPI_Message_fromint MPI_Message_c2f MPI_Message_f2c;
    MPI_Op: MPI_Op_toint MPI_Op_fromint MPI_Op_c2f MPI_Op_f2c;
    MPI_Request: MPI_Request_toint MPI_Request_fromint MPI_Request_c2f MPI_Request_f2c;
    MPI_Session: MPI_Session_toint MPI_Session_fromint MPI_Session_c2f MPI_Session_f2c;
    MPI_Win: MPI_Win_toint MPI_Win_fromint MPI_Win_c2f MPI_Win_f2c;
}

mpi_value! {
    fn MPI_Aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
        base.wrapping_add(disp)
    }

    fn MPI_Aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
        addr1.wrapping_sub(addr2)
    }
}
