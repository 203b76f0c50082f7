//! Conversations of two links over a pair of sockets.

use super::*;
use crate::process::transport::Kind;
use phalanx_net::seal::{SECRET, head};
use proptest::prelude::*;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

const MIXED: Levels = Levels { base: Level::Authenticated, data: Level::Private, code: Level::Safe };

/// A link, and the other end of its socket.
fn half(levels: Levels, [seal, open]: [u8; 2]) -> (Link, UnixStream) {
    let (near, far) = UnixStream::pair().expect("sockets");
    near.set_nonblocking(true).expect("a socket");
    far.set_nonblocking(true).expect("a socket");
    (Link::new(near.into(), levels, (Context::new([seal; SECRET]), Context::new([open; SECRET]))), far)
}

/// Two links, and the wire from the first to the second: its two ends.
fn wire(levels: Levels) -> ([Link; 2], [UnixStream; 2]) {
    let ((one, from_one), (other, to_other)) = (half(levels, [1, 2]), half(levels, [2, 1]));
    ([one, other], [from_one, to_other])
}

fn header(length: usize) -> Header {
    Header { kind: Kind::Eager as u16, context: 4, tag: 3, length: length as u64, ..Header::default() }
}

fn data(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + number * 31 + index / 251) as u8).collect()
}

/// What a link sends, as it goes over the wire.
fn sent(link: &mut Link, wire: &mut UnixStream, data: &[u8], marked: bool) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::new(), None);
    loop {
        at = link.push(&header(data.len()), data, at, marked);
        let is_done = at == Some(data.len()) && link.flush();
        let mut some = vec![0; 1 << 20];
        while let Ok(count) = wire.read(&mut some) {
            bytes.extend_from_slice(&some[..count]);
        }
        if is_done {
            return bytes;
        }
    }
}

/// Reads frames as an engine does: data goes to its place where there is one, and what is there may have to leave it.
#[derive(Default)]
struct Reading {
    /// Bytes of a header of which not all has come.
    head: Vec<u8>,
    /// The data of the frame that is arriving, and how much of it has come.
    arriving: Option<(Vec<u8>, usize)>,
    frames: Vec<Vec<u8>>,
    leaves: bool,
}

impl Reading {
    fn read(&mut self, link: &mut Link) -> io::Result<()> {
        link.begin_round();
        loop {
            let place = self.arriving.as_mut().map(|(data, got)| {
                let rest = &mut data[*got..];
                Place { start: rest.as_mut_ptr(), length: rest.len() }
            });
            match link.read(place)? {
                Arrived::Nothing => {
                    if self.leaves {
                        place.iter().for_each(|place| link.leave_place(place));
                    }
                    return Ok(());
                }
                Arrived::Placed(count) => self.advance(count),
                Arrived::Bytes => {
                    let (buffer, range) = link.take();
                    self.take(&buffer[range]);
                    link.give_back(buffer);
                }
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if let Some((data, got)) = &mut self.arriving {
                let count = bytes.len().min(data.len() - *got);
                data[*got..][..count].copy_from_slice(&bytes[..count]);
                bytes = &bytes[count..];
                self.advance(count);
                continue;
            }
            let count = bytes.len().min(HEADER - self.head.len());
            self.head.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            if let Some(head) = self.head.first_chunk() {
                self.arriving = Some((vec![0; Header::of(head).length as usize], 0));
                self.head.clear();
                self.advance(0);
            }
        }
    }

    fn advance(&mut self, count: usize) {
        if let Some((data, got)) = &mut self.arriving {
            *got += count;
            if *got == data.len() {
                self.frames.extend(self.arriving.take().map(|(data, _)| data));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn frames_of_all_levels_arrive_whatever_cuts_the_bytes(
        levels in (0usize..5).prop_map(|index| Level::ALL.get(index).map_or(MIXED, |level| Levels::all(*level))),
        frames in proptest::collection::vec((prop_oneof![0usize..100, 7000usize..10_000, 0usize..700_000], any::<bool>()), 1..6),
        cuts in proptest::collection::vec(prop_oneof![1usize..50, 1usize..100_000], 1..20),
        leaves in any::<bool>(),
    ) {
        let ([mut one, mut other], [mut from_one, mut to_other]) = wire(levels);
        let frames: Vec<_> = (0..).zip(frames).map(|(number, (length, marked))| (data(number, length), marked)).collect();
        let bytes: Vec<u8> = frames.iter().flat_map(|(data, marked)| sent(&mut one, &mut from_one, data, *marked)).collect();
        let mut reading = Reading { leaves, ..Reading::default() };
        let (mut rest, mut cuts) = (&bytes[..], cuts.into_iter().cycle());
        while !rest.is_empty() {
            let count = rest.len().min(cuts.next().unwrap_or(1));
            let count = to_other.write(&rest[..count]).unwrap_or(0); // it may be full
            rest = &rest[count..];
            reading.read(&mut other).expect("nothing was changed");
        }
        let expected: Vec<_> = frames.into_iter().map(|(data, _)| data).collect();
        prop_assert!(reading.frames == expected);
    }

    #[test]
    fn hostile_bytes_end_a_link_or_wait_for_more(
        level in (0usize..4).prop_map(|index| Level::ALL[index]),
        begins_well in any::<bool>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let (mut link, mut far) = half(Levels { base: level, data: Level::Private, code: level }, [1, 1]);
        if begins_well {
            far.write_all(&head(level, bytes.len())).expect("it listens");
        }
        far.write_all(&bytes).expect("it listens");
        let mut place = vec![0; 1 << 20];
        let awaited = Some(Place { start: place.as_mut_ptr(), length: place.len() });
        for _ in 0..1000 {
            link.begin_round();
            match link.read(awaited) {
                Ok(Arrived::Nothing) | Err(_) => break,
                Ok(Arrived::Placed(_)) => prop_assert!(level < Level::Safe, "data out of nothing"),
                Ok(Arrived::Bytes) => {
                    prop_assert!(level < Level::Safe, "bytes out of nothing");
                    let (buffer, _) = link.take();
                    link.give_back(buffer);
                }
            }
        }
    }
}

#[test]
fn a_block_weaker_than_the_link_ends_it() {
    for (base, weaker) in Level::ALL.into_iter().flat_map(|base| Level::ALL.map(|weaker| (base, weaker))) {
        let (mut link, mut far) = half(Levels { base, data: Level::Private, code: base }, [1, 1]);
        far.write_all(&[&head(weaker, 10)[..], &[7; 10]].concat()).expect("it listens");
        match link.read(None) {
            Ok(Arrived::Bytes) => assert!(base <= weaker && weaker < Level::Safe),
            Ok(_) => assert!(base <= weaker, "its tag may come"),
            Err(error) => assert_eq!((error.kind(), weaker < base), (ErrorKind::InvalidData, true)),
        }
    }
}

#[test]
fn a_block_longer_than_the_buffer_ends_the_link() {
    let (mut link, mut far) = half(MIXED, [1, 1]);
    far.write_all(&head(Level::Authenticated, BLOCK + 1)).expect("it listens");
    assert!(link.read(None).is_err_and(|error| error.kind() == ErrorKind::InvalidData));
}

/// Whether `holds` is true in a fork of this process.
fn in_a_fork(holds: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child does nothing but find the answer, and end.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let holds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(holds)).unwrap_or(false);
        // SAFETY: ends the child without anything of the parent's being done.
        unsafe { libc::_exit(i32::from(holds)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1
}

/// A fork neither seals, nor writes, nor takes what comes for its parent, nor ends the connection.
#[test]
fn a_fork_leaves_a_link_to_its_parent() {
    for levels in [Levels::all(Level::Clear), Levels::all(Level::Safe), Levels::all(Level::Private), MIXED] {
        let ([mut one, mut other], [mut from_one, mut to_other]) = wire(levels);
        let mut reading = Reading::default();
        let first = sent(&mut one, &mut from_one, b"first", true);
        assert!(in_a_fork(|| one.push(&header(5), b"child", None, true).is_none()));
        assert!(in_a_fork(|| {
            one.shut_down();
            one.read(None).is_err_and(|error| error.to_string().contains("fork"))
        }));
        let second = sent(&mut one, &mut from_one, b"second", true);
        to_other.write_all(&[first, second].concat()).expect("it listens");
        assert!(in_a_fork(|| reading.read(&mut other).is_err()));
        reading.read(&mut other).expect("nothing was changed");
        assert_eq!(reading.frames, [&b"first"[..], b"second"]);
    }
}
