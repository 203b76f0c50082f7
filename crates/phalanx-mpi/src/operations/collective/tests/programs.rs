//! Operations as programs call them.

use super::super::operations::{self, Operands};
use super::super::{Argument, Call, Scan, Shape};
use super::Ranks;
use crate::error::{Class, Result};
use crate::objects::comm::{Comm, PROC_NULL, ROOT};
use crate::objects::datatype::Datatype;
use crate::objects::topology::{Cartesian, Neighbours};

const INT: u32 = 0x250;
const INT64: u32 = 0x258;
const BYTE: u32 = 0x247;
const SUM: u32 = 0x21;
const BAND: u32 = 0x28;

fn plain<T>(buffer: &mut [T], count: i64, datatype: u32) -> Argument<'static> {
    Argument { name: "buffer", start: Some(buffer.as_mut_ptr().cast()), shape: Shape::Equal { count, datatype } }
}

const IN_PLACE: Argument<'static> =
    Argument { name: "sendbuf", start: None, shape: Shape::Equal { count: -7, datatype: 7 } };
/// What nobody may look at.
const INSIGNIFICANT: Argument<'static> =
    Argument { name: "recvbuf", start: Some(std::ptr::null_mut()), shape: Shape::Equal { count: -7, datatype: 7 } };

/// A handle of every second of three integers.
fn gaps() -> u32 {
    let int = Datatype::of(INT).expect("MPI_INT32_T");
    let datatype = Datatype::vector(3, 1, 2, &int).expect("a datatype");
    datatype.commit();
    datatype.put().expect("a handle")
}

fn numbers(rank: usize, count: usize) -> Vec<i32> {
    (0..count).map(|index| (rank * 1000 + index) as i32).collect()
}

#[test]
fn what_lies_between_the_elements_stays() {
    let gaps = gaps();
    for size in [1, 2, 5] {
        let got = Ranks::new(size).all(async |call: Call| {
            let rank = call.rank();
            let (mut own, mut all) = (numbers(rank, 5), vec![-1; 5 * size]);
            let (send, receive) = (plain(&mut own, 1, gaps), plain(&mut all, 1, gaps));
            operations::allgather(&call.comm, send, receive)?(&call).await.map(|()| all)
        });
        let block = |rank: usize| {
            let own = numbers(rank, 5);
            [own[0], -1, own[2], -1, own[4]]
        };
        assert!(got.iter().all(|all| *all == Ok((0..size).flat_map(block).collect())), "{got:?}");
        let scattered = Ranks::new(size).all(async |call: Call| {
            let (mut all, mut own) = (numbers(call.rank(), 5 * size), vec![-1; 5]);
            let receive = plain(&mut own, 1, gaps);
            let send = if call.rank() == size - 1 { plain(&mut all, 1, gaps) } else { INSIGNIFICANT };
            operations::scatter(&call.comm, send, receive, size as i32 - 1)?(&call).await.map(|()| own)
        });
        let all = numbers(size - 1, 5 * size);
        for (rank, own) in scattered.into_iter().enumerate() {
            assert_eq!(own, Ok(vec![all[5 * rank], -1, all[5 * rank + 2], -1, all[5 * rank + 4]]));
        }
    }
}

#[test]
fn blocks_lie_where_displacements_say() {
    let size = 4;
    let got = Ranks::new(size).all(async |call: Call| {
        let (rank, mut all) = (call.rank(), vec![-1; 20]);
        let mut own = numbers(rank, rank);
        // From the end to the beginning.
        let block = |rank: usize| Ok((rank as i64, 18 - 5 * rank as i64));
        let receive = Argument { shape: Shape::Vector { block: &block, datatype: INT }, ..plain(&mut all, 0, INT) };
        let receive = if rank == 2 { receive } else { Argument { start: None, ..receive } };
        operations::gather(&call.comm, plain(&mut own, rank as i64, INT), receive, 2)?(&call).await.map(|()| all)
    });
    let mut expected = vec![-1; 20];
    (0..size).for_each(|rank| expected[18 - 5 * rank..][..rank].copy_from_slice(&numbers(rank, rank)));
    assert_eq!(got[2], Ok(expected));
    assert!(got.iter().all(Result::is_ok));
}

#[test]
fn blocks_of_different_datatypes_are_exchanged_and_in_place_too() {
    let (size, gaps) = (3, gaps());
    for in_place in [false, true] {
        let got = Ranks::new(size).all(async |call: Call| {
            let (mut own, mut into) = (numbers(call.rank(), 15), numbers(call.rank(), 15));
            // To and from odd ranks as a vector, otherwise as a row.
            let of =
                |rank: usize| Ok(if rank % 2 == 1 { (1, 20 * rank as i64, gaps) } else { (3, 20 * rank as i64, INT) });
            let mixed = Shape::Mixed { block: &of };
            let receive = Argument { shape: mixed, ..plain(&mut into, 0, INT) };
            let send = if in_place { IN_PLACE } else { Argument { shape: mixed, ..plain(&mut own, 0, INT) } };
            operations::alltoall(&call.comm, send, receive)?(&call).await.map(|()| into)
        });
        for (rank, into) in got.into_iter().enumerate() {
            let into = into.expect("an exchange");
            for from in 0..size {
                let (out_step, in_step) = (1 + rank % 2, 1 + from % 2);
                for index in 0..3 {
                    let sent = numbers(from, 15)[5 * rank + index * out_step];
                    assert_eq!(into[5 * from + index * in_step], sent, "{in_place} {from} to {rank}");
                }
            }
        }
    }
}

#[test]
fn wrong_arguments_are_named() {
    let mut buffer = [0i64; 4];
    let uncommitted = Datatype::vector(2, 1, 2, &Datatype::of(INT).expect("MPI_INT32_T")).expect("a datatype");
    let uncommitted = uncommitted.put().expect("a handle");
    let ranks = Ranks::new(2);
    let comm: &Comm = &ranks.0[0].1;
    let class = |result: Result<()>, word: &str| {
        let error = result.expect_err("a wrong argument");
        assert!(error.text.contains(word), "{error} does not say {word}");
        error.class
    };
    let mut bcast =
        |count, datatype, root| operations::bcast(comm, plain(&mut buffer, count, datatype), root).map(drop);
    assert_eq!(class(bcast(1, INT, 2), "root 2"), Class::Root);
    assert_eq!(class(bcast(1, INT, -1), "root -1"), Class::Root);
    assert_eq!(class(bcast(-1, INT, 0), "count is -1"), Class::Count);
    assert_eq!(class(bcast(1, 7, 0), "datatype"), Class::Type);
    assert_eq!(class(bcast(1, uncommitted, 0), "not committed"), Class::Type);
    assert_eq!(class(bcast(i64::MAX, INT64, 0), "elements"), Class::Count);
    assert_eq!(class(operations::bcast(comm, Argument { start: None, ..INSIGNIFICANT }, 0).map(drop), ""), Class::Type);
    let null = Argument { shape: Shape::Equal { count: 3, datatype: INT }, ..INSIGNIFICANT };
    assert_eq!(class(operations::bcast(comm, null, 0).map(drop), "recvbuf is NULL"), Class::Buffer);
    let nothing = Argument { shape: Shape::Equal { count: 0, datatype: INT }, ..INSIGNIFICANT };
    assert!(operations::bcast(comm, nothing, 0).is_ok());
    let place = Some(buffer.as_mut_ptr().cast());
    let operands = Operands { send: None, receive: place, count: 1, datatype: INT64, op: SUM };
    let reduce = |operands| operations::allreduce(comm, operands).map(drop);
    assert_eq!(reduce(operands), Ok(()));
    assert_eq!(class(reduce(Operands { op: BAND, datatype: 0x214, ..operands }), "MPI_DOUBLE"), Class::Op);
    assert_eq!(class(reduce(Operands { op: 0x20, ..operands }), "op"), Class::Op);
    assert_eq!(class(reduce(Operands { send: place, ..operands }), "sendbuf and recvbuf"), Class::Buffer);
    let at_other_rank = operations::reduce_to(comm, operands, 1).map(drop);
    assert_eq!(class(at_other_rank, "MPI_IN_PLACE"), Class::Buffer);
    let counts = |rank| Ok([2, -3][rank]);
    assert_eq!(class(operations::reduce_scatter(comm, operands, &counts).map(drop), "recvcounts"), Class::Count);
    let across = Ranks::across(1, 1);
    let across: &Comm = &across.0[0].1;
    assert_eq!(class(operations::scan_up(across, operands, Scan::Inclusive).map(drop), "intercomm"), Class::Comm);
    assert_eq!(class(operations::allreduce(across, operands).map(drop), "MPI_IN_PLACE"), Class::Buffer);
}

#[test]
fn who_expects_another_length_is_told_and_nobody_waits_for_ever() {
    for (expected, class) in [(1, Class::Truncate), (3, Class::Count)] {
        let got = Ranks::new(3).all(async |call: Call| {
            let mut data = [5i64; 3];
            let count = if call.rank() == 0 { 2 } else { expected };
            operations::bcast(&call.comm, plain(&mut data, count, INT64), 0)?(&call).await
        });
        assert_eq!(got[0], Ok(()));
        assert!(got[1..].iter().all(|got| got.as_ref().is_err_and(|error| error.class == class)), "{got:?}");
        let sums = Ranks::new(3).all(async |call: Call| {
            let mut data = [5i64; 3];
            let count = if call.rank() == 0 { 2 } else { expected };
            let receive = Some(data.as_mut_ptr().cast());
            let operands = Operands { send: None, receive, count, datatype: INT64, op: SUM };
            operations::allreduce(&call.comm, operands)?(&call).await
        });
        assert!(sums.iter().any(Result::is_err), "{sums:?}");
    }
}

#[test]
fn two_groups_work_across() {
    for (here, there) in [(1, 1), (2, 1), (2, 3), (4, 2)] {
        let ranks = Ranks::across(here, there);
        let sides = [here, there];
        let got = ranks.all(async |call: Call| {
            let (rank, side) = (call.rank(), usize::from(call.world.rank >= here));
            let (mine, other) = (sides[side] as i64, sides[1 - side]);
            let comm = &call.comm.clone();
            let again = || Call::new(call.world, call.comm.clone());
            operations::barrier()(&again()).await?;
            // The root is the last of the first group.
            let root = match side {
                0 if rank == here - 1 => ROOT,
                0 => PROC_NULL,
                _ => here as i32 - 1,
            };
            let mut word = [if root == ROOT { 42 } else { -1 }];
            operations::bcast(comm, plain(&mut word, 1, INT), root)?(&again()).await?;
            let (mut own, mut all) = ([call.world.rank as i32], vec![-1; other]);
            let (send, receive) = (plain(&mut own, 1, INT), plain(&mut all, 1, INT));
            operations::gather(comm, send, receive, root)?(&again()).await?;
            let gathered = all.clone();
            operations::scatter(comm, receive, send, root)?(&again()).await?;
            let scattered = own[0];
            own[0] = call.world.rank as i32;
            operations::allgather(comm, send, receive)?(&again()).await?;
            let everybody = all.clone();
            let mut out: Vec<i32> = (0..other).map(|to| (100 * call.world.rank + to) as i32).collect();
            operations::alltoall(comm, plain(&mut out, 1, INT), receive)?(&again()).await?;
            let exchanged = all.clone();
            let mut sum = [0i32];
            let (from, to) = (Some(own.as_mut_ptr().cast()), Some(sum.as_mut_ptr().cast()));
            let operands = Operands { send: from, receive: to, count: 1, datatype: INT, op: SUM };
            // Nothing is significant at who only waits beside the root.
            let reduced_by = Operands { op: if root == PROC_NULL { 0 } else { SUM }, ..operands };
            operations::reduce_to(comm, reduced_by, root)?(&again()).await?;
            let reduced = sum[0];
            operations::allreduce(comm, operands)?(&again()).await?;
            // Both groups give and get as many numbers in all.
            let part = (here * there) as i64 / mine;
            let (mut many, mut parts) = (vec![1 + side as i32; here * there], vec![0; part as usize]);
            let (from, to) = (Some(many.as_mut_ptr().cast()), Some(parts.as_mut_ptr().cast()));
            let operands = Operands { send: from, receive: to, ..operands };
            operations::reduce_scatter(comm, operands, &|_| Ok(part))?(&again()).await?;
            Result::Ok((word[0], gathered, scattered, everybody, exchanged, reduced, sum[0], parts))
        });
        for (number, got) in got.into_iter().enumerate() {
            let (word, gathered, scattered, everybody, exchanged, reduced, sum, parts) = got.expect("all operations");
            let side = usize::from(number >= here);
            let theirs: Vec<i32> =
                if side == 0 { here..here + there } else { 0..here }.map(|rank| rank as i32).collect();
            let (is_root, rank) = (number == here - 1, if side == 0 { number } else { number - here });
            assert_eq!(word, if side == 1 || is_root { 42 } else { -1 });
            assert_eq!(gathered, if is_root { theirs.clone() } else { vec![-1; sides[1 - side]] });
            assert_eq!(scattered, number as i32, "{number}");
            assert_eq!(everybody, theirs);
            assert_eq!(exchanged, theirs.iter().map(|from| 100 * from + rank as i32).collect::<Vec<_>>());
            assert_eq!(reduced, if is_root { theirs.iter().sum() } else { 0 });
            assert_eq!(sum, theirs.iter().sum::<i32>());
            assert!(parts.iter().all(|part| *part == (2 - side as i32) * sides[1 - side] as i32));
        }
    }
}

#[test]
fn neighbours_on_a_grid_get_what_was_sent_their_way() {
    for (dims, periodic) in [(vec![1], true), (vec![2], true), (vec![3], false), (vec![2, 2], true), (vec![1, 3], true)]
    {
        let size = dims.iter().product::<i32>() as usize;
        let grid = Cartesian::new(&dims, vec![periodic; dims.len()], size).expect("a grid");
        let count = 2 * dims.len();
        let got = Ranks::new(size).all(async |call: Call| {
            let mut out: Vec<i32> = (0..count).map(|way| (10 * call.rank() + way) as i32).collect();
            let mut into = vec![-1; count];
            let (send, receive) = (plain(&mut out, 1, INT), plain(&mut into, 1, INT));
            let neighbours = grid.neighbours(call.rank());
            operations::neighbour_alltoall(neighbours, send, receive)?(&call).await.map(|()| into)
        });
        for (rank, into) in got.into_iter().enumerate() {
            let from = |way: usize| match grid.neighbours(rank).sources[way] {
                Some(source) => (10 * source + (way ^ 1)) as i32,
                None => -1,
            };
            assert_eq!(into, Ok((0..count).map(from).collect()), "{dims:?}");
        }
    }
}

#[test]
fn neighbours_in_a_graph_may_be_the_same_several_times_or_nobody() {
    let got = Ranks::new(2).all(async |call: Call| {
        let other = Some(1 - call.rank());
        let all = vec![other, None, other];
        let neighbours = Neighbours { sources: all.clone(), destinations: all, is_cartesian: false };
        let (mut out, mut into) = ([1u8, 2, 3].map(|byte| byte + 10 * call.rank() as u8), [0u8; 3]);
        let (send, receive) = (plain(&mut out, 1, BYTE), plain(&mut into, 1, BYTE));
        operations::neighbour_alltoall(neighbours.clone(), send, receive)?(&call).await?;
        let mut all = [0u8; 3];
        let again = Call::new(call.world, call.comm.clone());
        operations::neighbour_allgather(neighbours, send, plain(&mut all, 1, BYTE))?(&again).await?;
        Result::Ok((into, all))
    });
    assert_eq!(got, [Ok(([11, 0, 13], [11, 0, 11])), Ok(([1, 0, 3], [1, 0, 1]))]);
}
