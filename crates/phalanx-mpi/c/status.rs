//! What became of a message (MPI 5.0, 3.2.5), and how Fortran has it (19.3.5).

use super::argument::{In, Out};
use crate::abi::MPI_Status;
use std::ffi::c_int;

mpi! {
    early_fn MPI_Status_get_source(status: In<MPI_Status>, source: Out<c_int>) {
        source.put(status.get().source);
    }

    early_fn MPI_Status_get_tag(status: In<MPI_Status>, tag: Out<c_int>) {
        tag.put(status.get().tag);
    }

    early_fn MPI_Status_get_error(status: In<MPI_Status>, error: Out<c_int>) {
        error.put(status.get().error);
    }

    early_fn MPI_Status_set_source(status: Out<MPI_Status>, source: c_int) {
        let mut changed = status.get();
        changed.source = source;
        status.put(changed);
    }

    early_fn MPI_Status_set_tag(status: Out<MPI_Status>, tag: c_int) {
        let mut changed = status.get();
        changed.tag = tag;
        status.put(changed);
    }

    early_fn MPI_Status_set_error(status: Out<MPI_Status>, error: c_int) {
        let mut changed = status.get();
        changed.error = error;
        status.put(changed);
    }

    early_fn MPI_Status_set_cancelled(status: Out<MPI_Status>, flag: c_int) {
        let mut changed = status.get();
        changed.set_cancelled(flag != 0);
        status.put(changed);
    }

    early_fn MPI_Test_cancelled(status: In<MPI_Status>, flag: Out<c_int>) {
        flag.put_flag(status.get().cancelled());
    }

    // Fortran's status is an array of the same integers.
    early_fn MPI_Status_c2f(c_status: In<MPI_Status>, f_status: Out<MPI_Status>) {
        f_status.put(c_status.get());
    }

    early_fn MPI_Status_f2c(f_status: In<MPI_Status>, c_status: Out<MPI_Status>) {
        c_status.put(f_status.get());
    }

    early_fn MPI_Status_c2f08(c_status: In<MPI_Status>, f08_status: Out<MPI_Status>) {
        f08_status.put(c_status.get());
    }

    early_fn MPI_Status_f082c(f08_status: In<MPI_Status>, c_status: Out<MPI_Status>) {
        c_status.put(f08_status.get());
    }

    early_fn MPI_Status_f082f(f08_status: In<MPI_Status>, f_status: Out<MPI_Status>) {
        f_status.put(f08_status.get());
    }

    early_fn MPI_Status_f2f08(f_status: In<MPI_Status>, f08_status: Out<MPI_Status>) {
        f08_status.put(f_status.get());
    }
}
