//! Topologies (MPI 5.0, chapter 8).

use super::argument::{Array, Number, Out, OutArray, count};
use super::comm::{hints_of, put, put_or_null};
use super::failure::{Result, fail};
use crate::abi::{self, MPI_Comm, MPI_Info, address};
use phalanx_mpi::constants::*;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::comm::Comm;
use phalanx_mpi::objects::topology::{Cartesian, Distributed, Graph, Topology};
use phalanx_mpi::operations::collective::Call;
use phalanx_mpi::operations::topology;
use phalanx_mpi::process::blocking::block_on;
use phalanx_mpi::process::world::world;
use std::ffi::c_int;
use std::sync::Arc;

/// `&Cartesian` of a communicator, or an error; and the like.
macro_rules! arranged {
    ($name:ident $variant:ident $type:ty, $words:literal) => {
        fn $name(comm: &Comm) -> Result<&$type> {
            match comm.topology.get() {
                Some(Topology::$variant(topology)) => Ok(topology),
                _ => fail(Class::Topology, concat!("comm has no ", $words, " topology")),
            }
        }
    };
}

arranged!(cartesian Cartesian Cartesian, "cartesian");
arranged!(graph Graph Graph, "graph");
arranged!(distributed Distributed Distributed, "distributed graph");

/// Copies as much as there is room for.
fn fill<T: Copy>(into: OutArray<c_int>, most: c_int, name: &str, from: &[T], to_c: impl Fn(T) -> c_int) -> Result {
    let length = count(most, name)?.min(from.len());
    for (place, value) in into.slice(length)?.iter_mut().zip(from) {
        *place = to_c(*value);
    }
    Ok(())
}

fn as_it_is(number: i32) -> c_int {
    number
}

fn rank_or_null(rank: Option<usize>) -> c_int {
    rank.map_or(abi::RANK.to_c(MPI_PROC_NULL), |rank| rank as c_int)
}

fn rank_of(comm: &Comm, rank: c_int) -> Result<usize> {
    match usize::try_from(abi::RANK.from_c(rank)).ok().filter(|rank| *rank < comm.size()) {
        Some(rank) => Ok(rank),
        None => fail(Class::Rank, format!("rank {rank} is not in 0..{}", comm.size())),
    }
}

fn grid(ndims: c_int, dims: Array<c_int>, periods: Array<c_int>, size: usize) -> Result<Cartesian> {
    let ndims = ndims.natural(Class::Arg, "ndims")?;
    let periods = periods.slice(ndims)?.iter().map(|periodic| *periodic != 0).collect();
    Ok(Cartesian::new(dims.slice(ndims)?, periods, size)?)
}

fn nodes(nnodes: c_int, index: Array<c_int>, edges: Array<c_int>, size: usize) -> Result<Graph> {
    let index = index.slice(nnodes.natural(Class::Arg, "nnodes")?)?;
    let edges = |count| match edges.slice(count) {
        Ok(edges) => Ok(edges.to_vec()),
        Err(_) => phalanx_mpi::error::fail(Class::Arg, "edges is NULL"),
    };
    Ok(Graph::new(index, edges, size)?)
}

mpi! {
    early_fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: OutArray<c_int>) {
        let nodes = nnodes.natural(Class::Arg, "nnodes")?;
        topology::balance(nodes, dims.slice(count(ndims, "ndims")?)?)?;
    }

    fn MPI_Topo_test(comm: MPI_Comm, status: Out<c_int>) on comm {
        let number = match Comm::of(comm.id())?.topology.get() {
            Some(Topology::Cartesian(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::Distributed(_)) => MPI_DIST_GRAPH,
            None => MPI_UNDEFINED,
        };
        status.put(abi::TOPOLOGY.to_c(number));
    }

    fn MPI_Cart_create(
        comm_old: MPI_Comm, ndims: c_int, dims: Array<c_int>, periods: Array<c_int>, _reorder: c_int,
        comm_cart: Out<MPI_Comm>
    ) on comm_old {
        comm_cart.put(MPI_Comm::of(MPI_COMM_NULL));
        let comm = Comm::of(comm_old.id())?;
        let grid = grid(ndims, dims, periods, comm.size())?;
        put_or_null(comm_old, block_on(world()?, topology::cart_create(Call::new(world()?, comm), grid))?, comm_cart)?;
    }

    fn MPI_Cart_sub(comm: MPI_Comm, remain_dims: Array<c_int>, newcomm: Out<MPI_Comm>) on comm {
        newcomm.put(MPI_Comm::of(MPI_COMM_NULL));
        let of = Comm::of(comm.id())?;
        let grid = cartesian(&of)?;
        let remain: Vec<bool> = remain_dims.slice(grid.dims.len())?.iter().map(|remains| *remains != 0).collect();
        let made = block_on(world()?, topology::cart_sub(Call::new(world()?, of.clone()), grid, &remain))?;
        put_or_null(comm, made, newcomm)?;
    }

    fn MPI_Cartdim_get(comm: MPI_Comm, ndims: Out<c_int>) on comm {
        ndims.put(cartesian(&*Comm::of(comm.id())?)?.dims.len() as c_int);
    }

    fn MPI_Cart_get(
        comm: MPI_Comm, maxdims: c_int, dims: OutArray<c_int>, periods: OutArray<c_int>, coords: OutArray<c_int>
    ) on comm {
        let comm = Comm::of(comm.id())?;
        let grid = cartesian(&comm)?;
        fill(dims, maxdims, "maxdims", &grid.dims, as_it_is)?;
        fill(periods, maxdims, "maxdims", &grid.periods, c_int::from)?;
        fill(coords, maxdims, "maxdims", &grid.coords(comm.rank), as_it_is)?;
    }

    fn MPI_Cart_rank(comm: MPI_Comm, coords: Array<c_int>, rank: Out<c_int>) on comm {
        let comm = Comm::of(comm.id())?;
        let grid = cartesian(&comm)?;
        let coords: Vec<i64> = coords.slice(grid.dims.len())?.iter().map(|at| i64::from(*at)).collect();
        match grid.rank_at(&coords) {
            Some(found) => rank.put(found as c_int),
            None => return fail(Class::Arg, format!("coords {coords:?} are not in dims {:?}", grid.dims)),
        }
    }

    fn MPI_Cart_coords(comm: MPI_Comm, rank: c_int, maxdims: c_int, coords: OutArray<c_int>) on comm {
        let comm = Comm::of(comm.id())?;
        let at = cartesian(&comm)?.coords(rank_of(&comm, rank)?);
        fill(coords, maxdims, "maxdims", &at, as_it_is)?;
    }

    fn MPI_Cart_shift(
        comm: MPI_Comm, direction: c_int, disp: c_int, rank_source: Out<c_int>, rank_dest: Out<c_int>
    ) on comm {
        let comm = Comm::of(comm.id())?;
        let grid = cartesian(&comm)?;
        let Some(along) = usize::try_from(direction).ok().filter(|along| *along < grid.dims.len()) else {
            return fail(Class::Arg, format!("direction {direction} is not in 0..{}", grid.dims.len()));
        };
        let (source, destination) = grid.shift(comm.rank, along, disp);
        rank_source.put(rank_or_null(source));
        rank_dest.put(rank_or_null(destination));
    }

    fn MPI_Cart_map(
        comm: MPI_Comm, ndims: c_int, dims: Array<c_int>, periods: Array<c_int>, newrank: Out<c_int>
    ) on comm {
        let comm = Comm::of(comm.id())?;
        put_place(&comm, grid(ndims, dims, periods, comm.size())?.nodes(), newrank);
    }

    fn MPI_Graph_create(
        comm_old: MPI_Comm, nnodes: c_int, index: Array<c_int>, edges: Array<c_int>, _reorder: c_int,
        comm_graph: Out<MPI_Comm>
    ) on comm_old {
        comm_graph.put(MPI_Comm::of(MPI_COMM_NULL));
        let comm = Comm::of(comm_old.id())?;
        let graph = nodes(nnodes, index, edges, comm.size())?;
        let made = block_on(world()?, topology::graph_create(Call::new(world()?, comm), graph))?;
        put_or_null(comm_old, made, comm_graph)?;
    }

    fn MPI_Graphdims_get(comm: MPI_Comm, nnodes: Out<c_int>, nedges: Out<c_int>) on comm {
        let comm = Comm::of(comm.id())?;
        let graph = graph(&comm)?;
        nnodes.put(graph.index.len() as c_int);
        nedges.put(graph.edges.len() as c_int);
    }

    fn MPI_Graph_get(
        comm: MPI_Comm, maxindex: c_int, maxedges: c_int, index: OutArray<c_int>, edges: OutArray<c_int>
    ) on comm {
        let comm = Comm::of(comm.id())?;
        let graph = graph(&comm)?;
        fill(index, maxindex, "maxindex", &graph.index, as_it_is)?;
        fill(edges, maxedges, "maxedges", &graph.edges, as_it_is)?;
    }

    fn MPI_Graph_neighbors_count(comm: MPI_Comm, rank: c_int, nneighbors: Out<c_int>) on comm {
        let comm = Comm::of(comm.id())?;
        nneighbors.put(graph(&comm)?.neighbours(rank_of(&comm, rank)?).len() as c_int);
    }

    fn MPI_Graph_neighbors(comm: MPI_Comm, rank: c_int, maxneighbors: c_int, neighbors: OutArray<c_int>) on comm {
        let comm = Comm::of(comm.id())?;
        let found = graph(&comm)?.neighbours(rank_of(&comm, rank)?);
        fill(neighbors, maxneighbors, "maxneighbors", found, as_it_is)?;
    }

    fn MPI_Graph_map(
        comm: MPI_Comm, nnodes: c_int, index: Array<c_int>, edges: Array<c_int>, newrank: Out<c_int>
    ) on comm {
        let comm = Comm::of(comm.id())?;
        put_place(&comm, nodes(nnodes, index, edges, comm.size())?.index.len(), newrank);
    }

    fn MPI_Dist_graph_create_adjacent(
        comm_old: MPI_Comm, indegree: c_int, sources: Array<c_int>, sourceweights: Array<c_int>, outdegree: c_int,
        destinations: Array<c_int>, destweights: Array<c_int>, info: MPI_Info, _reorder: c_int,
        comm_dist_graph: Out<MPI_Comm>
    ) on comm_old {
        comm_dist_graph.put(MPI_Comm::of(MPI_COMM_NULL));
        let hints = hints_of(info)?;
        let (in_, out) = (indegree.natural(Class::Arg, "indegree")?, outdegree.natural(Class::Arg, "outdegree")?);
        let graph = Distributed {
            sources: ranks(sources.slice(in_)?),
            source_weights: weights(sourceweights, in_)?,
            destinations: ranks(destinations.slice(out)?),
            destination_weights: weights(destweights, out)?,
            is_weighted: is_weighted(sourceweights) && is_weighted(destweights),
        };
        let call = Call::new(world()?, Comm::of(comm_old.id())?);
        let made = block_on(world()?, topology::dist_graph_create_adjacent(call, graph))?;
        made.set_hints(&hints)?;
        put(comm_old, made, comm_dist_graph)?;
    }

    fn MPI_Dist_graph_create(
        comm_old: MPI_Comm, n: c_int, sources: Array<c_int>, degrees: Array<c_int>, destinations: Array<c_int>,
        edge_weights: Array<c_int>, info: MPI_Info, _reorder: c_int, comm_dist_graph: Out<MPI_Comm>
    ) on comm_old {
        comm_dist_graph.put(MPI_Comm::of(MPI_COMM_NULL));
        let hints = hints_of(info)?;
        let n = n.natural(Class::Arg, "n")?;
        let (sources, degrees) = (ranks(sources.slice(n)?), degrees.slice(n)?);
        let total = degrees.iter().try_fold(0, |sum, degree| Ok::<_, super::failure::Failure>(sum + count(*degree, "a degree")?))?;
        let (destinations, weights) = (ranks(destinations.slice(total)?), weights(edge_weights, total)?);
        let from = sources.iter().zip(degrees).flat_map(|(source, degree)| (0..*degree).map(|_| *source));
        let edges = from.zip(destinations).zip(weights).map(|((source, to), weight)| [source, to, weight]).collect();
        let comm = Comm::of(comm_old.id())?;
        let made = topology::dist_graph_create(world()?, comm, edges, is_weighted(edge_weights));
        let made = block_on(world()?, made)?;
        made.set_hints(&hints)?;
        put(comm_old, made, comm_dist_graph)?;
    }

    fn MPI_Dist_graph_neighbors_count(
        comm: MPI_Comm, indegree: Out<c_int>, outdegree: Out<c_int>, weighted: Out<c_int>
    ) on comm {
        let comm: Arc<Comm> = Comm::of(comm.id())?;
        let graph = distributed(&comm)?;
        indegree.put(graph.sources.len() as c_int);
        outdegree.put(graph.destinations.len() as c_int);
        weighted.put_flag(graph.is_weighted);
    }

    fn MPI_Dist_graph_neighbors(
        comm: MPI_Comm, maxindegree: c_int, sources: OutArray<c_int>, sourceweights: OutArray<c_int>,
        maxoutdegree: c_int, destinations: OutArray<c_int>, destweights: OutArray<c_int>
    ) on comm {
        let comm = Comm::of(comm.id())?;
        let graph = distributed(&comm)?;
        let rank = |rank| abi::RANK.to_c(rank);
        fill(sources, maxindegree, "maxindegree", &graph.sources, rank)?;
        fill(destinations, maxoutdegree, "maxoutdegree", &graph.destinations, rank)?;
        if graph.is_weighted && is_weighted(Array::of(sourceweights)) {
            fill(sourceweights, maxindegree, "maxindegree", &graph.source_weights, as_it_is)?;
        }
        if graph.is_weighted && is_weighted(Array::of(destweights)) {
            fill(destweights, maxoutdegree, "maxoutdegree", &graph.destination_weights, as_it_is)?;
        }
    }
}

/// Where a process would be in a topology of so many: where it is.
fn put_place(comm: &Comm, nodes: usize, newrank: Out<c_int>) {
    newrank.put(if comm.rank < nodes { comm.rank as c_int } else { abi::RANK.to_c(MPI_UNDEFINED) });
}

fn ranks(list: &[c_int]) -> Vec<i32> {
    list.iter().map(|rank| abi::RANK.from_c(*rank)).collect()
}

fn is_weighted(weights: Array<c_int>) -> bool {
    !std::ptr::eq(weights.pointer(), address::unweighted())
}

/// As many ones where there are no weights.
fn weights(weights: Array<c_int>, count: usize) -> Result<Vec<i32>> {
    match is_weighted(weights) && !std::ptr::eq(weights.pointer(), address::weights_empty()) {
        true => Ok(weights.slice(count)?.to_vec()),
        false => Ok(vec![1; count]),
    }
}
