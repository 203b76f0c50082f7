//! Communicators whose processes are nodes of a graph (MPI 5.0, 8.5.3, 8.5.4 and 8.5.5).

use super::within_one_group;
use crate::error::{Class, Result, fail};
use crate::objects::comm::{Comm, UNDEFINED};
use crate::objects::topology::{Distributed, Graph, Topology, check_ranks};
use crate::operations::collective::{Call, everyone};
use crate::operations::comm_create;
use crate::process::world::World;
use std::sync::Arc;

/// The communicator of the graph; None for ranks beyond it. Processes keep their order.
pub async fn graph_create(call: Call, graph: Graph) -> Result<Option<Arc<Comm>>> {
    within_one_group(&call.comm)?;
    let rank = call.rank();
    let color = if rank < graph.index.len() { 0 } else { UNDEFINED };
    let made = comm_create::split(call, color, rank as i32, false).await?;
    Ok(made.inspect(|made| drop(made.topology.set(Topology::Graph(graph)))))
}

/// Each process says who its own neighbours are.
pub async fn dist_graph_create_adjacent(call: Call, graph: Distributed) -> Result<Arc<Comm>> {
    within_one_group(&call.comm)?;
    graph.check(call.size())?;
    let rank = call.rank();
    match comm_create::split(call, 0, rank as i32, false).await? {
        Some(made) => {
            let _ = made.topology.set(Topology::Distributed(graph));
            Ok(made)
        }
        None => fail(Class::Intern, "no part in a communicator of all"),
    }
}

/// An edge, and its weight.
pub type Edge = [i32; 3];

/// Each process names some edges of the graph, from anybody to anybody: all hear of all, and keep their own.
pub async fn dist_graph_create(
    world: &'static World,
    comm: Arc<Comm>,
    edges: Vec<Edge>,
    is_weighted: bool,
) -> Result<Arc<Comm>> {
    within_one_group(&comm)?;
    let (tell, make) = (Call::new(world, comm.clone()), Call::new(world, comm));
    let (rank, size) = (tell.rank() as i32, tell.size());
    edges.iter().try_for_each(|[source, destination, _]| check_ranks("edges", &[*source, *destination], size))?;
    let mut graph = Distributed { is_weighted, ..Distributed::default() };
    for [source, destination, weight] in everyone(&tell, &edges).await?.into_iter().flatten() {
        if destination == rank {
            graph.sources.push(source);
            graph.source_weights.push(weight);
        }
        if source == rank {
            graph.destinations.push(destination);
            graph.destination_weights.push(weight);
        }
    }
    dist_graph_create_adjacent(make, graph).await
}
