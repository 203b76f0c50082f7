//! Several processes in one thread: everybody's operation goes on in turn.

use super::access::{Place, Way};
use super::open::open_together;
use super::pointer::Ask;
use super::together::{agree, first_does};
use super::*;
use crate::constants::*;
use crate::objects::buffer::Buffer;
use crate::objects::comm::revoke;
use crate::objects::datatype::Datatype;
use crate::objects::group::Group;
use crate::process::tasks;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const EVERYTHING: i32 = MPI_MODE_RDWR | MPI_MODE_CREATE;

/// Everybody's outcome of `work`.
fn everybody<S, T>(sides: &[S], world: impl Fn(&S) -> &'static World, work: impl AsyncFn(&S) -> T) -> Vec<T> {
    let future = |side| Box::pin(work(side)) as Pin<Box<dyn Future<Output = T> + '_>>;
    let mut futures: Vec<_> = sides.iter().map(future).collect();
    let mut outcomes: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let end = Instant::now() + Duration::from_secs(60);
    while outcomes.iter().any(Option::is_none) {
        assert!(Instant::now() < end, "nobody can go on");
        for ((side, future), outcome) in sides.iter().zip(&mut futures).zip(&mut outcomes) {
            world(side).progress();
            if outcome.is_none() {
                if let Poll::Ready(ready) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    *outcome = Some(ready);
                }
            }
        }
    }
    outcomes.into_iter().flatten().collect()
}

fn comms(size: usize) -> Vec<(&'static World, Arc<Comm>)> {
    comms_with(64, size)
}

fn comms_with(context: u64, size: usize) -> Vec<(&'static World, Arc<Comm>)> {
    let group = Arc::new(Group::new((0..size as u32).collect::<Vec<_>>()));
    let comm = |world: &'static World| (world, Comm::new(context, group.clone(), world.rank, None));
    World::together(size, &[]).into_iter().map(comm).collect()
}

/// A file opened by so many, and then deleted.
fn opened(size: usize) -> (Vec<Arc<File>>, PathBuf) {
    opened_with(64, size)
}

fn opened_with(context: u64, size: usize) -> (Vec<Arc<File>>, PathBuf) {
    let path = std::env::temp_dir().join(format!("phalanx-file-{}-{context}-{size}", std::process::id()));
    let work = async |side: &(&'static World, Arc<Comm>)| {
        open_together(side.0, side.1.clone(), false, &path, EVERYTHING | MPI_MODE_EXCL).await.expect("it is made")
    };
    (everybody(&comms_with(context, size), |side| side.0, work).into_iter().map(Arc::new).collect(), path)
}

fn end(files: Vec<Arc<File>>, path: PathBuf) {
    files.iter().for_each(|file| file.pointer.end());
    tasks::poll(files[0].world);
    std::fs::remove_file(path).expect("it is there");
}

/// Bytes that last as long as the program.
fn bytes(memory: Vec<u8>) -> Buffer {
    let memory = Vec::leak(memory);
    Buffer::new(memory.as_mut_ptr(), memory.len(), Datatype::of(MPI_BYTE).expect("predefined")).expect("a buffer")
}

#[test]
fn ordered_operations_are_in_the_order_of_ranks() {
    let (files, path) = opened(4);
    for _ in 0..2 {
        everybody(
            &files,
            |file| file.world,
            async |file: &Arc<File>| {
                let rank = file.comm.rank;
                let own = bytes(vec![rank as u8; 3 - rank]);
                file.clone().work(Way::Write, Place::Ordered, own).await.expect("written")
            },
        );
    }
    assert_eq!(std::fs::read(&path).expect("it is there"), [0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 1, 2]);
    let at = everybody(&files, |file| file.world, async |file: &Arc<File>| file.pointer.ask(Ask::Get).await);
    assert_eq!(at, [Ok(12), Ok(12), Ok(12), Ok(12)]);
    end(files, path);
}

#[test]
fn a_rank_that_fails_in_an_ordered_operation_keeps_nobody() {
    let (files, path) = opened(3);
    let failing = |file: &Arc<File>| if file.comm.rank == 1 { Way::Read } else { Way::Write };
    let wrong =
        Arc::new(View { etype: Datatype::of(MPI_INT).expect("predefined"), ..View::of_bytes().expect("bytes") });
    *lock(&files[1].view) = wrong;
    let outcomes = everybody(
        &files,
        |file| file.world,
        async |file: &Arc<File>| {
            file.clone().work(failing(file), Place::Ordered, bytes(vec![7; 2])).await.map(|status| status.bytes)
        },
    );
    assert_eq!((&outcomes[0], &outcomes[2]), (&Ok(2), &Ok(2)));
    assert_eq!(outcomes[1].as_ref().expect_err("no number of etypes").class, Class::Io);
    assert_eq!(std::fs::read(&path).expect("it is there"), [7; 4]);
    end(files, path);
}

#[test]
fn what_is_written_at_the_shared_pointer_is_there_once() {
    const EACH: usize = 50;
    let (files, path) = opened(5);
    everybody(
        &files,
        |file| file.world,
        async |file: &Arc<File>| {
            for number in 0..EACH {
                let own = bytes(vec![(file.comm.rank * EACH + number) as u8; 4]);
                assert_eq!(file.clone().work(Way::Write, Place::Shared, own).await.expect("written").bytes, 4);
            }
        },
    );
    let all = std::fs::read(&path).expect("it is there");
    let mut records: Vec<_> = all.chunks(4).map(|record| (record[0], record == [record[0]; 4])).collect();
    records.sort();
    assert_eq!(records, (0..5 * EACH).map(|number| (number as u8, true)).collect::<Vec<_>>());
    let moved = everybody(
        &files,
        |file| file.world,
        async |file: &Arc<File>| file.pointer.ask(Ask::Move(i64::MAX)).await.expect_err("too far").class,
    );
    assert_eq!(moved, [Class::Arg; 5]);
    end(files, path);
}

#[test]
fn what_fails_at_one_rank_fails_everywhere() {
    let sides = comms(3);
    let path = std::env::temp_dir().join(format!("phalanx-no-file-{}", std::process::id()));
    let open = async |side: &(&'static World, Arc<Comm>), amodes: [i32; 3]| {
        open_together(side.0, side.1.clone(), false, &path, amodes[side.1.rank]).await.map(drop).expect_err("refused")
    };
    let differ = [MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_RDONLY];
    let errors = everybody(&sides, |side| side.0, async |side: &_| open(side, differ).await.class);
    assert_eq!(errors, [Class::NotSame; 3]);
    let errors = everybody(&sides, |side| side.0, async |side: &_| open(side, [MPI_MODE_RDONLY; 3]).await.class);
    assert_eq!(errors, [Class::NoSuchFile; 3]);
    let errors = everybody(
        &sides,
        |side| side.0,
        async |side: &_| {
            let (world, comm): &(&'static World, Arc<Comm>) = side;
            let call = Call::new(world, comm.clone());
            let own = if comm.rank == 2 { fail(Class::Quota, "too much") } else { Ok(Vec::new()) };
            let first = agree(&call, own).await.expect_err("one failed");
            let second =
                first_does(&call, Ok(Vec::new()), || fail(Class::NoSpace, "full")).await.expect_err("it failed");
            (first, second)
        },
    );
    assert_eq!(errors[0].0, Error::new(Class::Quota, "at rank 2: too much"));
    assert_eq!(errors[2].0, Error::new(Class::Quota, "too much"));
    assert_eq!((errors[0].1.class, errors[1].1.text.as_str()), (Class::NoSpace, "at rank 0: full"));
}

#[test]
fn nothing_is_done_with_a_revoked_file() {
    const OF: u64 = 0x7000; // of which no other test has one
    let (files, path) = opened_with(OF, 3);
    let outcomes = everybody(
        &files,
        |file| file.world,
        async |file: &Arc<File>| {
            let asks = file.clone().work(Way::Write, Place::Shared, bytes(vec![1; 3]));
            asks.await.expect("not yet");
            let others = Comm::new(OF + 64, file.comm.group.clone(), file.comm.rank, None);
            crate::operations::collective::barrier(&Call::new(file.world, others)).await.expect("all are here");
            revoke(file.world, OF);
            let own = file.clone().work(Way::Write, Place::At(0), bytes(vec![2; 3])).await;
            let shared = file.clone().work(Way::Write, Place::Shared, bytes(vec![2; 3])).await;
            let all = file.clone().work(Way::Read, Place::Ordered, bytes(vec![2; 3])).await;
            [own, shared, all].map(|outcome| outcome.expect_err("it is revoked").class)
        },
    );
    assert_eq!(outcomes, [[Class::Revoked; 3]; 3]);
    end(files, path);
}

/// Process r writes numbers r, r + 3, r + 6, ...: in the file they are big endian, and longs have four bytes.
#[test]
fn numbers_in_external32_are_read_as_they_were_written() {
    const MANY: usize = 400_000;
    let (files, path) = opened_with(0x7100, 3);
    let long = Datatype::of(MPI_LONG).expect("predefined");
    let view = |rank: i64, representation: &str| {
        let every = Datatype::subarray(&[3], &[1], &[rank], crate::objects::datatype::Order::C, &long).expect("inside");
        every.commit();
        Arc::new(View::new(0, long.clone(), every, representation, true).expect("a view"))
    };
    let numbers = |rank: usize| (0..MANY).map(move |index| (3 * index + rank) as i64 - 7);
    let buffer = |numbers: Vec<i64>| {
        let memory = Vec::leak(numbers);
        Buffer::new(memory.as_mut_ptr().cast(), memory.len(), long.clone()).expect("a buffer")
    };
    for file in &files {
        *lock(&file.view) = view(file.comm.rank as i64, "external32");
        let own = buffer(numbers(file.comm.rank).collect());
        assert_eq!(file.access(Way::Write, Place::Own, &own).expect("written").bytes, 8 * MANY as u64);
        assert_eq!(*lock(&file.own), MANY as i64);
    }
    let expected: Vec<u8> = (0..3 * MANY).flat_map(|number| (number as i32 - 7).to_be_bytes()).collect();
    assert!(std::fs::read(&path).expect("it is there") == expected);
    for file in &files {
        let back = buffer(vec![0; MANY + 5]);
        // The end of the file comes sooner.
        assert_eq!(file.access(Way::Read, Place::At(0), &back).expect("read").bytes, 8 * MANY as u64);
        // SAFETY: the buffer lasts as long as the program.
        let read = unsafe { std::slice::from_raw_parts(back.start.cast::<i64>(), MANY) };
        assert!(read.iter().copied().eq(numbers(file.comm.rank)));
        assert_eq!(file.view().byte_offset(2), Ok(4 * (file.comm.rank as i64 + 6)));
    }
    let error = files[1].access(Way::Write, Place::At(0), &buffer(vec![1 << 31])).expect_err("it does not fit");
    assert_eq!(error.class, Class::Conversion);
    end(files, path);
}
