//! Operations that move bytes.

use super::super::{Blocks, Call, Span, allgather, alltoall, barrier, bcast, gather};
use super::{MACHINES, Ranks, blocks, bytes, everywhere};
use std::cell::Cell;

#[test]
fn nobody_leaves_a_barrier_before_all_came() {
    let all = (1..=9).map(Ranks::new);
    for ranks in all.chain(MACHINES.map(|machines| Ranks::on_machines(machines.len(), machines))) {
        let (came, size) = (Cell::new(0), ranks.size());
        let seen = ranks.all(async |call: Call| {
            came.set(came.get() + 1);
            assert_eq!(barrier(&call).await, Ok(()));
            came.get()
        });
        assert_eq!(seen, vec![size; size]);
    }
}

#[test]
fn everybody_gets_what_the_root_has() {
    everywhere(|ranks, length| {
        for root in [0, ranks.size() / 2, ranks.size() - 1] {
            for by in 0..3 {
                let got = ranks.all(async |call: Call| {
                    let mut data = if call.rank() == root { bytes(root, length) } else { vec![0; length] };
                    let span = Span::of(&mut data);
                    match by {
                        0 => bcast(&call, span, root).await,
                        1 => super::super::bcast::by_tree(&call, span, root).await,
                        _ => super::super::bcast::by_parts(&call, span, root).await,
                    }
                    call.outcome().map(|()| data)
                });
                assert!(got.iter().all(|data| data.as_ref() == Ok(&bytes(root, length))), "{by} {length}");
            }
        }
    });
}

#[test]
fn the_root_gathers_blocks_and_scatters_them() {
    everywhere(|ranks, length| {
        let size = ranks.size();
        let whole: Vec<u8> = (0..size).flat_map(|rank| bytes(rank, length)).collect();
        for root in [0, size / 2, size - 1] {
            for by in 0..3 {
                let got = ranks.all(async |call: Call| {
                    let (mut own, mut all) = (bytes(call.rank(), length), vec![0; size * length]);
                    let here = call.rank() == root;
                    let equal = here.then(|| Blocks::Equal { all: Span::of(&mut all), each: length });
                    let span = Span::of(&mut own);
                    match by {
                        0 => gather::gather(&call, span, equal.as_ref(), root).await,
                        1 => gather::gather_directly(&call, span, equal.as_ref(), root).await,
                        _ => gather::gather_by_tree(&call, span, equal.as_ref(), root).await,
                    }
                    let gathered = all.clone();
                    span.clear(0);
                    match by {
                        0 => gather::scatter(&call, equal.as_ref(), span, root).await,
                        1 => gather::scatter_directly(&call, equal.as_ref(), span, root).await,
                        _ => gather::scatter_by_tree(&call, equal.as_ref(), span, root).await,
                    }
                    assert_eq!(call.outcome(), Ok(()));
                    (gathered, own)
                });
                assert_eq!(got[root].0, whole, "{by}");
                assert!(got.iter().enumerate().all(|(rank, (_, own))| *own == bytes(rank, length)), "{by}");
            }
        }
    });
}

/// Of the first ranks, nothing, or twice as much.
fn uneven(rank: usize, length: usize) -> usize {
    length * (rank % 3)
}

#[test]
fn everybody_gets_the_blocks_of_all() {
    everywhere(|ranks, length| {
        let size = ranks.size();
        for by in 0..3 {
            let lengths = |rank| if by == 0 { length } else { uneven(rank, length / 2) };
            let whole: Vec<u8> = (0..size).flat_map(|rank| bytes(rank, lengths(rank))).collect();
            let got = ranks.all(async |call: Call| {
                let mut all = vec![0; whole.len()];
                let blocks = blocks(&mut all, (0..size).map(lengths));
                let own = call.rank();
                Span::of(&mut bytes(own, lengths(own))).copy_to(blocks.at(own));
                match by {
                    2 => allgather::around(&call, blocks.at(call.rank()), &blocks).await,
                    1 => allgather::in_doubling_steps(&call, &blocks, whole.len()).await,
                    _ => allgather::allgather(&call, blocks.at(call.rank()), &blocks).await,
                }
                call.outcome().map(|()| all)
            });
            assert!(got.iter().all(|all| all.as_ref() == Ok(&whole)), "{by} {length}");
        }
    });
}

#[test]
fn everybody_gets_a_block_of_each() {
    everywhere(|ranks, length| {
        let (size, length) = (ranks.size(), length / 3);
        for by in 0..3 {
            let lengths = |from: usize, to: usize| if by == 2 { uneven(from + 2 * to, length) } else { length };
            let block = |from: usize, to: usize| bytes(from * 10 + to, lengths(from, to));
            let got = ranks.all(async |call: Call| {
                let own = call.rank();
                let mut out: Vec<u8> = (0..size).flat_map(|to| block(own, to)).collect();
                let mut into = vec![0; (0..size).map(|from| lengths(from, own)).sum()];
                let send = blocks(&mut out, (0..size).map(|to| lengths(own, to)));
                let receive = blocks(&mut into, (0..size).map(|from| lengths(from, own)));
                match by {
                    0 => alltoall::alltoall(&call, &send, &receive).await,
                    1 => alltoall::in_doubling_steps(&call, &send, &receive).await,
                    _ => alltoall::directly(&call, &send, &receive).await,
                }
                call.outcome().map(|()| into)
            });
            for (rank, into) in got.into_iter().enumerate() {
                assert_eq!(into, Ok((0..size).flat_map(|from| block(from, rank)).collect()), "{by} {length}");
            }
        }
    });
}
