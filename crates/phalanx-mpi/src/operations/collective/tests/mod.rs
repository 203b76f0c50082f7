//! Several processes in one thread: everybody's operation goes on in turn, until all are done or nobody can.

mod combining;
mod moving;
mod programs;
mod words;

use super::{Blocks, Call, Span};
use crate::objects::comm::{Comm, Remote};
use crate::objects::group::Group;
use crate::process::world::World;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Lengths around the points where algorithms change, in bytes.
const LENGTHS: [usize; 9] = [0, 1, 8, 200, 2048, 2049, 20_000, 70_000, 140_000];

/// Where ranks may live: in order, one by one, alone.
const MACHINES: [&[u32]; 3] = [&[0, 0, 0, 1, 1], &[0, 1, 0, 1, 2, 0, 1], &[1, 0]];

/// The processes of one communicator.
pub(crate) struct Ranks(Vec<(&'static World, Arc<Comm>)>);

impl Ranks {
    pub(crate) fn new(size: usize) -> Ranks {
        Ranks::on_machines(size, &[])
    }

    pub(crate) fn on_machines(size: usize, machines: &[u32]) -> Ranks {
        let group = Arc::new(Group::new((0..size as u32).collect::<Vec<_>>()));
        let comm = |world: &'static World| (world, Comm::new(64, group.clone(), world.rank, None));
        Ranks(World::together(size, machines).into_iter().map(comm).collect())
    }

    /// An intercommunicator: the first `here` processes, and the others.
    pub(crate) fn across(here: usize, there: usize) -> Ranks {
        let groups = [0..here, here..here + there]
            .map(|processes| Arc::new(Group::new(processes.map(|process| process as u32).collect::<Vec<_>>())));
        let comm = |world: &'static World| {
            let (side, rank) = if world.rank < here { (0, world.rank) } else { (1, world.rank - here) };
            let local = Comm::new(128 + 4 * side as u64, groups[side].clone(), rank, None);
            let remote = Remote { group: groups[1 - side].clone(), local };
            (world, Comm::new(64, groups[side].clone(), rank, Some(remote)))
        };
        Ranks(World::together(here + there, &[]).into_iter().map(comm).collect())
    }

    /// Everybody's outcome of `work`.
    pub(crate) fn all<T>(&self, work: impl AsyncFn(Call) -> T) -> Vec<T> {
        let work = &work;
        let future = |(world, comm): &(&'static World, Arc<Comm>)| {
            let call = Call::new(world, comm.clone());
            Box::pin(async move { work(call).await }) as Pin<Box<dyn Future<Output = T> + '_>>
        };
        let mut futures: Vec<_> = self.0.iter().map(future).collect();
        let mut outcomes: Vec<Option<T>> = futures.iter().map(|_| None).collect();
        let mut idle = 0;
        while outcomes.iter().any(Option::is_none) {
            idle += 1;
            for (rank, (world, _)) in self.0.iter().enumerate() {
                if world.engine().progress() {
                    idle = 0;
                }
                if world.engine().has_asides() {
                    world.serve();
                    idle = 0;
                }
                if outcomes[rank].is_some() {
                    continue;
                }
                if let Poll::Ready(outcome) = futures[rank].as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    (outcomes[rank], idle) = (Some(outcome), 0);
                }
            }
            assert!(idle < 3, "nobody can go on, and these are not done: {:?}", waiting(&outcomes));
        }
        outcomes.into_iter().flatten().collect()
    }

    fn size(&self) -> usize {
        self.0.len()
    }
}

fn waiting<T>(outcomes: &[Option<T>]) -> Vec<usize> {
    (0..outcomes.len()).filter(|rank| outcomes[*rank].is_none()).collect()
}

/// What a rank has to say.
fn bytes(rank: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + rank * 31 + index / 250) as u8).collect()
}

/// Blocks of these lengths in a buffer.
fn blocks(buffer: &mut [u8], lengths: impl IntoIterator<Item = usize>) -> Blocks {
    Blocks::in_a_row(Span::of(buffer), lengths)
}

/// For every number of ranks and every length.
fn everywhere(test: impl Fn(&Ranks, usize)) {
    for size in 1..=9 {
        let ranks = Ranks::new(size);
        LENGTHS.iter().for_each(|length| test(&ranks, *length));
    }
    for machines in MACHINES {
        let ranks = Ranks::on_machines(machines.len(), machines);
        LENGTHS.iter().for_each(|length| test(&ranks, *length));
    }
}
