//! A channel between two sides that act in any order: what arrives is what was sent, and no side touches memory that the
//! other one may still use.

use super::super::watched::{watch, watched};
use super::*;
use proptest::prelude::*;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;

const RING: usize = 256 << 10;

struct Memory(NonNull<u8>, Layout);

impl Memory {
    fn new() -> Memory {
        let layout = Layout::from_size_align(channel_bytes(RING), 4096).expect("a layout");
        // SAFETY: the layout has bytes.
        Memory(NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory"), layout)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated so.
        unsafe { dealloc(self.0.as_ptr(), self.1) };
    }
}

/// The bytes of a frame, told from those of others.
fn payload(number: u64, length: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(|_| byte()).collect()
}

fn header(number: u64, length: usize) -> Header {
    Header { id: number, length: length as u64, ..Header::default() }
}

/// Sends frames of some lengths, as far as there is room for them.
struct Sending {
    sender: Sender,
    lengths: VecDeque<usize>,
    number: u64,
    /// Bytes of the first frame that are gone.
    sent: usize,
}

impl Sending {
    /// One chunk, if there is room.
    fn go_on(&mut self) -> bool {
        let Some(length) = self.lengths.front().copied() else { return false };
        let bytes = payload(self.number, length);
        let rest = &bytes[self.sent..];
        // SAFETY: the bytes live.
        let Some(count) = (unsafe { self.sender.push(&header(self.number, length), rest.as_ptr(), rest.len()) }) else {
            self.sender.ask_for_room();
            return false;
        };
        self.sent += count;
        if self.sent == length {
            self.lengths.pop_front();
            (self.number, self.sent) = (self.number + 1, 0);
        }
        true
    }
}

/// Takes frames, and sees that each is whole and in its turn.
struct Taking {
    receiver: Receiver,
    number: u64,
    got: Vec<u8>,
    signs: usize,
}

impl Taking {
    fn go_on(&mut self) -> bool {
        let Some(chunk) = self.receiver.peek() else { return false };
        // SAFETY: valid until it is popped.
        self.got.extend_from_slice(unsafe { std::slice::from_raw_parts(chunk.bytes, chunk.length) });
        assert_eq!(chunk.header.id, self.number);
        if self.got.len() as u64 == chunk.header.length {
            assert!(self.got == payload(self.number, self.got.len()), "frame {} has other bytes", self.number);
            self.got.clear();
            self.number += 1;
        }
        self.signs += usize::from(self.receiver.pop(&chunk));
        true
    }
}

fn ends(memory: &Memory, lengths: &[usize]) -> (Sending, Taking) {
    let lengths: VecDeque<_> = lengths.iter().copied().collect();
    let sending = Sending { sender: Sender::new(memory.0, RING), lengths, number: 0, sent: 0 };
    (sending, Taking { receiver: Receiver::new(memory.0, RING), number: 0, got: Vec::new(), signs: 0 })
}

/// Lets the sides act in turn, each as often as `turns` says, until all has arrived. How many accesses were out of order.
fn converse(lengths: &[usize], turns: &[usize], weakened: Option<(usize, bool)>) -> usize {
    let memory = Memory::new();
    let (mut sending, mut taking) = ends(&memory, lengths);
    watch(weakened);
    for (round, turns) in turns.iter().chain(std::iter::repeat(&300)).enumerate() {
        watched(|watch| watch.side = round % 2);
        for _ in 0..*turns {
            if !(if round % 2 == 0 { sending.go_on() } else { taking.go_on() }) {
                break;
            }
        }
        if taking.number == lengths.len() as u64 {
            break;
        }
        assert!(round < 100_000, "the sides wait for each other");
    }
    watched(|watch| watch.races).expect("it is watched")
}

/// Nothing, what goes in a slot, what goes in the ring, and what goes in parts.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![0..=INLINE, INLINE - 1..=INLINE + 2, 21..600usize, CHUNK - 2..CHUNK * 2 + 2]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn all_arrives_in_order_and_no_access_overlaps(
        lengths in prop::collection::vec(length(), 1..80),
        turns in prop::collection::vec(1..400usize, 0..40),
    ) {
        prop_assert_eq!(converse(&lengths, &turns, None), 0);
    }
}

/// More than all slots and all of the ring hold, so that both are used again.
fn laps() -> Vec<usize> {
    (0..600).map(|number| if number % 3 == 0 { 12 } else { 1500 }).collect()
}

#[test]
fn without_any_of_its_orderings_it_would_be_found_wrong() {
    assert_eq!(converse(&laps(), &[], None), 0);
    for bytes in [4, 8] {
        for store in [true, false] {
            assert!(converse(&laps(), &[], Some((bytes, store))) > 0, "weaker: {bytes} bytes, stores: {store}");
        }
    }
}

#[test]
fn who_finds_no_room_is_told_of_it() {
    let memory = Memory::new();
    let (mut sending, mut taking) = ends(&memory, &[4; SLOTS as usize + 1]);
    while sending.go_on() {}
    assert_eq!(sending.number, SLOTS);
    assert!(taking.go_on() && sending.go_on() && taking.go_on());
    assert_eq!(taking.signs, 1);
}

#[test]
fn two_threads_may_use_it_at_once() {
    let memory = Memory::new();
    let lengths: Vec<_> = (0..100_000).map(|number| [8, 20, 21, 300, 3000][number % 5]).collect();
    let (mut sending, mut taking) = ends(&memory, &lengths);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !sending.lengths.is_empty() {
                if !sending.go_on() {
                    std::thread::yield_now();
                }
            }
        });
        while taking.number < lengths.len() as u64 {
            if !taking.go_on() {
                std::thread::yield_now();
            }
        }
    });
}
