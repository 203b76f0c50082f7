//! Topologies (MPI 5.0, chapter 8).

use super::argument::{Number, OutArray, count};
use phalanx_mpi::error::Class;
use phalanx_mpi::topology;
use std::ffi::c_int;

mpi! {
    early_fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: OutArray<c_int>) {
        let nodes = nnodes.natural(Class::Arg, "nnodes")?;
        topology::balance(nodes, dims.slice(count(ndims, "ndims")?)?)?;
    }
}
