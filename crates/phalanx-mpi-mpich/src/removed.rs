//! Functions that MPI had until version 3.0, which programs built with MPICH may still call: each is another one today.

use crate::abi::{MPI_Comm, MPI_Datatype, MPI_Errhandler};
use crate::c::argument::Out;
use crate::c::datatype::datatype_of;
use std::ffi::{c_int, c_void};

type Aint = isize;

/// Declares old names, with their twins for profiling tools, as what they are called now.
macro_rules! renamed {
    ($($old:ident $twin:ident = $new:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $old($($argument: $type),*) -> c_int {
                unsafe extern "C" {
                    fn $new($($argument: $type),*) -> c_int;
                }
                // SAFETY: what this function asks of the program, the other one does.
                unsafe { $new($($argument),*) }
            }

            #[unsafe(no_mangle)]
            extern "C" fn $twin($($argument: $type),*) -> c_int {
                $old($($argument),*)
            }
        )*
    };
}

renamed! {
    MPI_Address PMPI_Address = MPI_Get_address(location: *const c_void, address: *mut Aint);
    MPI_Errhandler_create PMPI_Errhandler_create =
        MPI_Comm_create_errhandler(function: *const c_void, errhandler: *mut MPI_Errhandler);
    MPI_Errhandler_get PMPI_Errhandler_get = MPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: *mut MPI_Errhandler);
    MPI_Errhandler_set PMPI_Errhandler_set = MPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler);
    MPI_Type_hindexed PMPI_Type_hindexed = MPI_Type_create_hindexed(
        count: c_int, lengths: *const c_int, places: *const Aint, old: MPI_Datatype, new: *mut MPI_Datatype);
    MPI_Type_hvector PMPI_Type_hvector = MPI_Type_create_hvector(
        count: c_int, length: c_int, stride: Aint, old: MPI_Datatype, new: *mut MPI_Datatype);
    MPI_Type_struct PMPI_Type_struct = MPI_Type_create_struct(
        count: c_int, lengths: *const c_int, places: *const Aint, types: *const MPI_Datatype, new: *mut MPI_Datatype);
    MPIX_Delete_error_class PMPIX_Delete_error_class = MPI_Remove_error_class(class: c_int);
    MPIX_Delete_error_code PMPIX_Delete_error_code = MPI_Remove_error_code(code: c_int);
    MPIX_Delete_error_string PMPIX_Delete_error_string = MPI_Remove_error_string(code: c_int);
}

mpi! {
    fn MPI_Type_extent(datatype: MPI_Datatype, extent: Out<Aint>) {
        extent.put(datatype_of(datatype)?.extent());
    }

    fn MPI_Type_lb(datatype: MPI_Datatype, displacement: Out<Aint>) {
        displacement.put(datatype_of(datatype)?.lower_bound());
    }

    fn MPI_Type_ub(datatype: MPI_Datatype, displacement: Out<Aint>) {
        let datatype = datatype_of(datatype)?;
        displacement.put(datatype.lower_bound() + datatype.extent());
    }
}
