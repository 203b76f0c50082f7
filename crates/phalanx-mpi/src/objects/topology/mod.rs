//! Topologies: which processes of a communicator are neighbours (MPI 5.0, chapter 8).

mod cartesian;
mod graph;
mod neighbours;

pub use cartesian::Cartesian;
pub use graph::{Distributed, Graph, check_ranks};
pub use neighbours::Neighbours;

/// What a communicator's processes are arranged as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// A grid (MPI_Cart_create).
    Cartesian(Cartesian),
    /// A graph (MPI_Graph_create).
    Graph(Graph),
    /// A graph of which each process knows its own edges (MPI_Dist_graph_create).
    Distributed(Distributed),
}

impl Topology {
    /// Who sends to a rank in a neighbour collective, and to whom it sends (MPI 5.0, 8.6).
    pub fn neighbours(&self, rank: usize) -> Neighbours {
        match self {
            Topology::Cartesian(cartesian) => cartesian.neighbours(rank),
            Topology::Graph(graph) => {
                let all = ranks(graph.neighbours(rank));
                Neighbours { sources: all.clone(), destinations: all, is_cartesian: false }
            }
            Topology::Distributed(graph) => {
                let (sources, destinations) = (ranks(&graph.sources), ranks(&graph.destinations));
                Neighbours { sources, destinations, is_cartesian: false }
            }
        }
    }
}

/// Ranks that were checked when the topology was made; MPI_PROC_NULL is nobody.
fn ranks(list: &[i32]) -> Vec<Option<usize>> {
    list.iter().map(|rank| usize::try_from(*rank).ok()).collect()
}
