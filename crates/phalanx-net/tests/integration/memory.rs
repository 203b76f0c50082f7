//! Links whose long bodies lie in memory that both ends share: what is sent arrives, and a peer that passes on nonsense ends
//! the link.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use bytes::Bytes;
use phalanx_core::level::{Level, Mark};
use phalanx_core::wire::{MAX_BODY, Place, ToInterpreter, encode, set_place};
use phalanx_net::frames::Frame;
use phalanx_net::link::{Link, LinkError, Reader};
use phalanx_net::memory::LONG;
use phalanx_net::socket::Socket;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

type End = (Arc<Link>, Reader);

fn ends() -> (End, End) {
    let (one, other) = Socket::pair().unwrap();
    let end = |socket| Link::sharing(socket, MAX_BODY).unwrap();
    (end(one), end(other))
}

fn read(reader: Reader) -> Receiver<Result<Frame, LinkError>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let pause = Duration::from_millis(20);
        let error = reader.run(pause, |frame| drop(sender.send(Ok(frame))), |_| ());
        let _ = sender.send(Err(error));
    });
    receiver
}

fn start(body: u64) -> Vec<u8> {
    encode(&ToInterpreter::Beat, body)
}

fn body(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + number) as u8).collect()
}

#[test]
fn bodies_of_all_sizes_arrive_in_order_whether_they_are_queued_or_sent() {
    let (one, other) = ends();
    let (from_other, from_one) = (read(one.1), read(other.1));
    let sizes = [0, 1, 40_000, LONG - 1, LONG, 5 << 20, 3, LONG + 1, 9 << 20, 70_000];
    let sent: Vec<_> = sizes.iter().enumerate().map(|(number, size)| body(number, *size)).collect();
    for (sender, receiver) in [(&one.0, &from_one), (&other.0, &from_other)] {
        for round in 0..3 {
            for bytes in &sent {
                let (start, pieces) = (start(bytes.len() as u64), vec![Bytes::from(bytes.clone())]);
                match round {
                    0 => sender.send(Mark::None, start, pieces).unwrap(),
                    _ => drop(sender.queue(Mark::None, start, pieces)),
                }
            }
            sender.flush();
            for bytes in &sent {
                assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().unwrap().body, *bytes);
            }
        }
    }
    // Every byte is counted at the link's level; through the socket went only what is short.
    let (all, short) = (3 * sizes.iter().sum::<usize>() as u64, 3 * (LONG as u64 + 200_000));
    for (sender, receiver) in [(&one.0, &other.0), (&other.0, &one.0)] {
        let bytes = |link: &Link| link.counters().levels[Level::Clear as usize].bytes.load(Ordering::Relaxed);
        assert!(bytes(sender) >= 2 * all && bytes(receiver) >= 2 * all);
        assert!(sender.counters().sent.load(Ordering::Relaxed) < short);
    }
}

#[test]
fn threads_that_queue_at_the_same_time_lose_no_frame() {
    let (one, other) = ends();
    let (_from_other, from_one) = (read(one.1), read(other.1));
    let senders: Vec<_> = (0..4usize)
        .map(|number| {
            let link = one.0.clone();
            thread::spawn(move || {
                for round in 0..50 {
                    let bytes = body(number, if (round + number) % 2 == 0 { LONG } else { 9 });
                    link.queue(Mark::None, start(bytes.len() as u64), vec![bytes.into()]);
                    link.flush();
                    link.trim();
                }
            })
        })
        .collect();
    for _ in 0..200 {
        let frame = from_one.recv_timeout(PATIENCE).unwrap().unwrap();
        let number = frame.body[0] as usize;
        assert_eq!(frame.body, body(number, frame.body.len()));
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
}

/// Sends bytes with files, as a peer could.
fn pass_on(socket: &OwnedFd, bytes: &[u8], files: &[OwnedFd]) {
    let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

fn segment(length: usize) -> OwnedFd {
    let file = memfd_create("peer", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, (length + (64 << 10)) as u64).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    file
}

fn frame(place: Option<Place>, length: usize) -> Vec<u8> {
    let mut frame = start(length as u64);
    set_place(&mut frame, place);
    frame
}

#[test]
fn a_peer_that_passes_on_nonsense_ends_the_link() {
    let fresh = Some(Place { slot: 0, generation: 1, fresh: true });
    let known = Some(Place { slot: 0, generation: 1, fresh: false });
    let nonsense: [(&str, Vec<u8>, Vec<OwnedFd>); 7] = [
        ("no file", frame(fresh, LONG), vec![]),
        ("a segment that is not known", frame(known, LONG), vec![]),
        ("two files", frame(fresh, LONG), vec![segment(LONG), segment(LONG)]),
        ("eight files", frame(fresh, LONG), (0..8).map(|_| segment(LONG)).collect()),
        ("a file that nobody asked for", frame(None, 0), vec![segment(LONG)]),
        ("a segment that is too short", frame(fresh, LONG + 1), vec![segment(LONG)]),
        ("a file that is no segment", frame(fresh, LONG), vec![std::fs::File::open("/dev/null").unwrap().into()]),
    ];
    for (what, bytes, files) in nonsense {
        let (one, other) = Socket::pair().unwrap();
        let (_link, reader) = Link::sharing(one, MAX_BODY).unwrap();
        let (received, peer) = (read(reader), OwnedFd::from(other));
        match files.is_empty() {
            true => (&Socket::from(peer.try_clone().unwrap())).write_all(&bytes).unwrap(),
            false => pass_on(&peer, &bytes, &files),
        }
        drop(files);
        // The frame before the nonsense was noticed may come.
        let error = loop {
            match received.recv_timeout(PATIENCE).expect(what) {
                Ok(_) => continue,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, LinkError::Wire(_)) || error.is_attack(), "{what}: {error}");
    }
}

#[test]
fn a_link_that_shares_no_memory_takes_no_place() {
    let (one, other) = Socket::pair().unwrap();
    let (_link, reader) = Link::new(one, None, MAX_BODY).unwrap();
    let (received, peer) = (read(reader), OwnedFd::from(other));
    pass_on(&peer, &frame(Some(Place { slot: 0, generation: 1, fresh: true }), LONG), &[segment(LONG)]);
    assert!(matches!(received.recv_timeout(PATIENCE).unwrap(), Err(LinkError::Wire(_))));
}

#[test]
fn segments_from_a_peer_leave_no_file_open() {
    let (one, other) = ends();
    let (_from_other, from_one) = (read(one.1), read(other.1));
    let segments = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        let names = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        names.filter(|name| name.to_string_lossy().contains("phalanx-body")).count()
    };
    let kept: Vec<_> = (0..40)
        .map(|number| {
            let bytes = body(number, LONG);
            one.0.send(Mark::None, start(LONG as u64), vec![bytes.into()]).unwrap();
            from_one.recv_timeout(PATIENCE).unwrap().unwrap()
        })
        .collect();
    assert!(segments() < 20, "{} open", segments()); // other tests of this process open some for a moment
    for (number, frame) in kept.iter().enumerate() {
        assert_eq!(frame.body, body(number, LONG));
    }
}
