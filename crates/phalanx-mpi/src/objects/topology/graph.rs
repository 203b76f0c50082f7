//! Processes as nodes of a graph (MPI 5.0, 8.5.3 to 8.5.5).

use crate::constants::MPI_PROC_NULL;
use crate::error::{Class, Result, fail};

/// The whole graph, known to all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// Where in `edges` each node's neighbours end.
    pub index: Vec<i32>,
    /// The neighbours of all nodes, one node after the other.
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

    /// The neighbours of a node.
    pub fn neighbours(&self, rank: usize) -> &[i32] {
        let start = if rank == 0 { 0 } else { self.index[rank - 1] as usize };
        &self.edges[start..self.index[rank] as usize]
    }
}

/// The neighbours of one process, known to it alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Distributed {
    /// The processes from which edges come.
    pub sources: Vec<i32>,
    /// The weights of these edges.
    pub source_weights: Vec<i32>,
    /// The processes to which edges go.
    pub destinations: Vec<i32>,
    /// The weights of these edges.
    pub destination_weights: Vec<i32>,
    /// Without, the weights mean nothing.
    pub is_weighted: bool,
}

impl Distributed {
    /// Fails where a neighbour is no rank of so many, or a weight is negative.
    pub fn check(&self, size: usize) -> Result<()> {
        check_ranks("sources", &self.sources, size)?;
        check_ranks("destinations", &self.destinations, size)?;
        match self.source_weights.iter().chain(&self.destination_weights).find(|weight| **weight < 0) {
            Some(weight) => fail(Class::Arg, format!("a weight is {weight}")),
            None => Ok(()),
        }
    }
}

/// Fails where a rank is none of so many; MPI_PROC_NULL is nobody.
pub fn check_ranks(name: &str, ranks: &[i32], size: usize) -> Result<()> {
    match ranks.iter().find(|rank| **rank != MPI_PROC_NULL && !(0..size as i32).contains(*rank)) {
        Some(rank) => fail(Class::Rank, format!("{name}: rank {rank} is not in 0..{size}")),
        None => Ok(()),
    }
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
