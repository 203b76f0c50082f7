//! Communicators whose processes are on a grid (MPI 5.0, 8.5.1 and 8.5.7).

use super::within_one_group;
use crate::error::Result;
use crate::objects::comm::{Comm, UNDEFINED};
use crate::objects::topology::{Cartesian, Topology};
use crate::operations::collective::Call;
use crate::operations::comm_create;
use std::sync::Arc;

/// The communicator of the grid; None for ranks beyond it. Processes keep their order.
pub async fn cart_create(call: Call, cartesian: Cartesian) -> Result<Option<Arc<Comm>>> {
    within_one_group(&call.comm)?;
    let rank = call.rank();
    let color = if rank < cartesian.nodes() { 0 } else { UNDEFINED };
    let made = comm_create::split(call, color, rank as i32, false).await?;
    Ok(made.inspect(|made| drop(made.topology.set(Topology::Cartesian(cartesian)))))
}

/// The communicator of those who differ from this process in the dimensions that remain only.
pub async fn cart_sub(call: Call, cartesian: &Cartesian, remain: &[bool]) -> Result<Option<Arc<Comm>>> {
    let coords = cartesian.coords(call.rank());
    let number = |of: bool| {
        let places = cartesian.dims.iter().zip(&coords).zip(remain).filter(|(_, remains)| **remains == of);
        places.fold(0, |number, ((dim, at), _)| number * dim + at)
    };
    let kept = |index: &usize| remain[*index];
    let dims = (0..remain.len()).filter(kept).map(|index| cartesian.dims[index]).collect();
    let periods = (0..remain.len()).filter(kept).map(|index| cartesian.periods[index]).collect();
    let (color, key) = (number(false), number(true));
    let made = comm_create::split(call, color, key, false).await?;
    Ok(made.inspect(|made| drop(made.topology.set(Topology::Cartesian(Cartesian { dims, periods })))))
}
