//! Starting and ending, versions, clocks, errors, memory (MPI 5.0, chapters 9 and 11).

use super::argument::{Out, OutText, Text};
use crate::abi::{self, MPI_Comm, longest};
use phalanx_mpi::constants::*;
use phalanx_mpi::objects::{attribute, codes, environment};
use phalanx_mpi::process::life;
use phalanx_mpi::process::world::{is_fork, world};
use phalanx_mpi::universe::{joining, leaving};
use std::ffi::{c_char, c_double, c_int};

mpi! {
    early_fn MPI_Init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) {
        life::begin(MPI_THREAD_SINGLE)?;
        joining::join()?;
    }

    early_fn MPI_Init_thread(_argc: *mut c_int, _argv: *mut *mut *mut c_char, required: c_int, provided: Out<c_int>) {
        let level = life::begin(abi::THREAD.from_c(required))?;
        joining::join()?;
        provided.put(abi::THREAD.to_c(level));
    }

    early_fn MPI_Initialized(flag: Out<c_int>) {
        flag.put_flag(life::is_begun());
    }

    fn MPI_Finalize() {
        if !is_fork() {
            attribute::delete_all(MPI_COMM_SELF)?;
            leaving::leave(world()?)?;
        }
        life::end()?;
    }

    /// A fork has nothing to finalize: what it runs at its exit asks here first.
    early_fn MPI_Finalized(flag: Out<c_int>) {
        flag.put_flag(is_fork() || life::is_ended());
    }

    fn MPI_Query_thread(provided: Out<c_int>) {
        provided.put(abi::THREAD.to_c(life::thread_level()));
    }

    fn MPI_Is_thread_main(flag: Out<c_int>) {
        flag.put_flag(life::is_main_thread());
    }

    early_fn MPI_Abort(_comm: MPI_Comm, errorcode: c_int) {
        leaving::abort(errorcode, &format!("MPI_Abort was called with error code {errorcode}"));
    }

    early_fn MPI_Get_version(version: Out<c_int>, subversion: Out<c_int>) {
        version.put(MPI_VERSION);
        subversion.put(MPI_SUBVERSION);
    }

    early_fn MPI_Get_library_version(version: OutText, resultlen: Out<c_int>) {
        let text = environment::library_version(abi::INTERFACE);
        resultlen.put(version.put(&text, longest::LIBRARY_VERSION) as c_int);
    }

    early_fn MPI_Get_processor_name(name: OutText, resultlen: Out<c_int>) {
        resultlen.put(name.put(&environment::processor_name(), longest::PROCESSOR) as c_int);
    }

    early_fn MPI_Error_class(errorcode: c_int, errorclass: Out<c_int>) {
        errorclass.put(abi::ERROR.to_c(codes::class_of(abi::ERROR.from_c(errorcode))?));
    }

    early_fn MPI_Error_string(errorcode: c_int, string: OutText, resultlen: Out<c_int>) {
        let text = codes::text_of(abi::ERROR.from_c(errorcode))?;
        resultlen.put(string.put(&text, longest::ERROR) as c_int);
    }

    early_fn MPI_Add_error_class(errorclass: Out<c_int>) {
        errorclass.put(abi::ERROR.to_c(codes::add_class()?));
    }

    early_fn MPI_Add_error_code(errorclass: c_int, errorcode: Out<c_int>) {
        errorcode.put(abi::ERROR.to_c(codes::add_code(abi::ERROR.from_c(errorclass))?));
    }

    early_fn MPI_Add_error_string(errorcode: c_int, string: Text) {
        codes::set_text(abi::ERROR.from_c(errorcode), Some(string.get()))?;
    }

    early_fn MPI_Remove_error_class(errorclass: c_int) {
        codes::remove_class(abi::ERROR.from_c(errorclass))?;
    }

    early_fn MPI_Remove_error_code(errorcode: c_int) {
        codes::remove_code(abi::ERROR.from_c(errorcode))?;
    }

    early_fn MPI_Remove_error_string(errorcode: c_int) {
        codes::set_text(abi::ERROR.from_c(errorcode), None)?;
    }

    /// C passes more arguments, which mean nothing to us.
    early_fn MPI_Pcontrol(_level: c_int) {}
}

mpi_value! {
    fn MPI_Wtime() -> c_double {
        environment::time()
    }

    fn MPI_Wtick() -> c_double {
        1e-9
    }
}
