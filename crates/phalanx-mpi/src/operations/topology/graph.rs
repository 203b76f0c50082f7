//! Processes as nodes of a graph (MPI 5.0, 8.5.3, 8.5.4 and 8.5.5).

use super::{Topology, within_one_group};
use crate::error::{Class, Result, fail};
use crate::objects::comm::{Comm, PROC_NULL, UNDEFINED};
use crate::operations::collective::{Call, everyone};
use crate::operations::comm_create;
use crate::process::world::World;
use std::sync::Arc;

/// The whole graph, known to all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// Where in `edges` each node's neighbours end.
    pub index: Vec<i32>,
    pub edges: Vec<i32>,
}

impl Graph {
    /// For so many processes at most.
    pub fn new(index: &[i32], edges_of: impl FnOnce(usize) -> Result<Vec<i32>>, size: usize) -> Result<Graph> {
        if index.len() > size {
            return fail(Class::Arg, format!("nnodes is {}, but comm has {size} processes", index.len()));
        }
        let grows = index.iter().try_fold(0, |before, next| (before <= *next).then_some(*next));
        let Some(count) = grows else { return fail(Class::Arg, "index does not grow") };
        let edges = edges_of(count as usize)?;
        if let Some(edge) = edges.iter().find(|edge| !(0..index.len() as i32).contains(*edge)) {
            return fail(Class::Arg, format!("edge {edge} is not in 0..{}", index.len()));
        }
        Ok(Graph { index: index.to_vec(), edges })
    }

    pub fn neighbours(&self, rank: usize) -> &[i32] {
        let start = if rank == 0 { 0 } else { self.index[rank - 1] as usize };
        &self.edges[start..self.index[rank] as usize]
    }
}

/// The neighbours of one process, known to it alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Distributed {
    pub sources: Vec<i32>,
    pub source_weights: Vec<i32>,
    pub destinations: Vec<i32>,
    pub destination_weights: Vec<i32>,
    /// Without, the weights mean nothing.
    pub is_weighted: bool,
}

impl Distributed {
    fn check(&self, size: usize) -> Result<()> {
        check_ranks("sources", &self.sources, size)?;
        check_ranks("destinations", &self.destinations, size)?;
        match self.source_weights.iter().chain(&self.destination_weights).find(|weight| **weight < 0) {
            Some(weight) => fail(Class::Arg, format!("a weight is {weight}")),
            None => Ok(()),
        }
    }
}

fn check_ranks(name: &str, ranks: &[i32], size: usize) -> Result<()> {
    match ranks.iter().find(|rank| **rank != PROC_NULL && !(0..size as i32).contains(*rank)) {
        Some(rank) => fail(Class::Rank, format!("{name}: rank {rank} is not in 0..{size}")),
        None => Ok(()),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_knows_each_nodes_neighbours() {
        let graph = Graph::new(&[2, 3, 3, 4], |count| Ok(vec![1, 3, 0, 0][..count].to_vec()), 4).expect("a graph");
        assert_eq!(graph.neighbours(0), [1, 3]);
        assert_eq!((graph.neighbours(1), graph.neighbours(2), graph.neighbours(3)), (&[0][..], &[][..], &[0][..]));
        assert!(Graph::new(&[2, 1], |_| Ok(vec![]), 4).is_err());
        assert!(Graph::new(&[-1], |_| Ok(vec![]), 4).is_err());
        assert!(Graph::new(&[1], |_| Ok(vec![1]), 4).is_err());
        assert!(Graph::new(&[0, 0], |_| Ok(vec![]), 1).is_err());
    }
}
