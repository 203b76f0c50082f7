//! Frames of another rank, in any pieces, while the program receives, sends, awaits data, takes requests back and revokes.

#![no_main]
#![expect(clippy::disallowed_types, reason = "it plays the other end of a rank's connection")]

use libfuzzer_sys::fuzz_target;
use phalanx_core::level::{Level, Levels};
use phalanx_core::spmd::{Envelope, Pattern};
use phalanx_fuzz::cut;
use phalanx_mpi::process::engine::{EAGER, Engine, MARKED, Mode, Outgoing, Path, Taken, Target};
use phalanx_mpi::process::transport::{Header, Link};
use phalanx_net::blocks::{Sealer, carried};
use phalanx_net::seal::{BLOCK, Context, SECRET};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Bytes behind each buffer, which no frame may change.
const GUARD: [u8; 16] = [0xa5; 16];
/// Longer than what goes with its message, and than what is read at once.
const LONG: usize = 2 * EAGER;
static DATA: [u8; LONG] = [7; LONG];
const CONTEXTS: [u64; 4] = [4, 5, 8, 4 | MARKED];

fuzz_target!(|bytes: &[u8]| {
    let Some((level, mut steps)) = bytes.split_first() else { return };
    let mut rank = Rank::new(match level % 3 {
        0 => Levels::all(Level::Clear),
        1 => Levels::all(Level::Safe),
        _ => Levels { base: Level::Authenticated, data: Level::Safe, code: Level::Safe },
    });
    while let Some((step, rest)) = steps.split_first_chunk::<4>() {
        steps = rank.step(*step, rest);
        rank.settle();
        rank.check();
    }
    rank.engine.lose(1);
    for (send, _) in rank.sends.drain(..) {
        assert!(rank.engine.outcome(send).is_some(), "a lost rank keeps no send waiting");
    }
    rank.check();
});

/// A rank, and the other end of its connection.
struct Rank {
    engine: Engine,
    far: UnixStream,
    sealer: Sealer,
    level: Level,
    /// Requests that are not done, and the memory of the receives. It stays until the engine is gone.
    sends: Vec<(usize, u64)>,
    receives: Vec<(usize, usize)>,
    awaited: Vec<usize>,
    taken: Vec<Taken>,
    memories: Vec<Box<[u8]>>,
}

impl Rank {
    fn new(levels: Levels) -> Rank {
        let (near, far) = UnixStream::pair().expect("sockets");
        [&near, &far].into_iter().for_each(|end| end.set_nonblocking(true).expect("a socket"));
        let context = |seed| Context::new([seed; SECRET]);
        let link = Link::new(near.into(), levels, (context(1), context(2)));
        Rank {
            engine: Engine::new(0, vec![Path::Own, Path::Socket(Box::new(link))], None),
            far,
            sealer: Sealer::new(Some(context(2)), carried(levels)),
            level: levels.base,
            sends: Vec::new(),
            receives: Vec::new(),
            awaited: Vec::new(),
            taken: Vec::new(),
            memories: Vec::new(),
        }
    }

    /// Does one thing. Returns the steps after it.
    fn step<'a>(&mut self, [what, which, size, more]: [u8; 4], rest: &'a [u8]) -> &'a [u8] {
        let context = CONTEXTS[usize::from(which % 4)];
        let any = |number: u8| Some(i32::from(number % 4)).filter(|number| *number < 3);
        let pattern = Pattern { context, source: any(which >> 2), tag: any(which >> 4) };
        let length = (usize::from(size) << (more % 10)).min(LONG);
        match what % 14 {
            0..4 => return self.hear([what, which, size, more], rest),
            4 => {
                let (said, rest) = cut(rest).unwrap_or_default();
                self.say(said);
                return rest;
            }
            5 => {
                let target = self.memory(length);
                let receive = self.engine.receive(pattern, target);
                self.receives.push((receive, self.memories.len() - 1));
            }
            6 => {
                let target = self.memory(length);
                let awaited = self.engine.await_data(1, context, target);
                self.awaited.extend(awaited);
            }
            7 => {
                let mode = [Mode::Standard, Mode::Synchronous, Mode::Failed][usize::from(more % 3)];
                let envelope = Envelope { context, source: 0, tag: i32::from(which >> 4) };
                let data = Outgoing::Borrowed(DATA.as_ptr(), length);
                self.sends.extend(self.engine.send(1, envelope, data, mode).map(|send| (send, context)));
            }
            8 => {
                let data = Outgoing::Borrowed(DATA.as_ptr(), length);
                self.engine.send_awaited(1, context, u64::from(which), data);
                self.engine.keep_data(1, context, Some(u64::from(which)).filter(|_| more % 2 == 0));
            }
            9 => self.take_back(usize::from(which), more),
            10 => self.taken.extend(self.engine.probe_and_take(&pattern).map(|(taken, _)| taken)),
            11 => {
                if let Some(taken) = self.taken.pop() {
                    let target = self.memory(length);
                    let receive = self.engine.receive_message(taken, target);
                    self.receives.push((receive, self.memories.len() - 1));
                }
            }
            12 => match more % 4 {
                0 => self.engine.revoke(context & !3),
                1 => drop(self.engine.forget(context & !3)),
                2 => self.engine.lose_source(context & !3, i32::from(size % 3)),
                _ => self.engine.acknowledge(context & !3),
            },
            _ => {
                while let Some(aside) = self.engine.next_aside() {
                    self.engine.give_back(aside.bytes);
                }
            }
        }
        rest
    }

    /// The program wants a request no longer.
    fn take_back(&mut self, which: usize, how: u8) {
        match (how % 4, self.sends.get(which), self.receives.get(which)) {
            (0, Some((send, _)), _) => self.engine.cancel(*send),
            (1, _, Some((receive, _))) => self.engine.cancel(*receive),
            (2, Some((send, _)), _) => {
                self.engine.detach(*send);
                self.sends.swap_remove(which);
            }
            _ => drop(self.awaited.pop().map(|awaited| self.engine.end_await(awaited))),
        }
    }

    /// Memory for a receive, and the guard behind it.
    fn memory(&mut self, length: usize) -> Target {
        let mut memory = vec![0; length + GUARD.len()].into_boxed_slice();
        memory[length..].copy_from_slice(&GUARD);
        let target = Target::Plain(memory.as_mut_ptr(), length);
        self.memories.push(memory);
        target
    }

    /// The other rank sends a frame, the last bytes of which may be missing.
    fn hear<'a>(&mut self, [_, which, size, more]: [u8; 4], rest: &'a [u8]) -> &'a [u8] {
        let Some(([kind, id, cut, flags], rest)) = rest.split_first_chunk::<4>() else { return &[] };
        let header = Header {
            context: CONTEXTS[usize::from(which % 4)],
            length: u64::from(size) << (more % 16),
            id: u64::from(*id % 16),
            source: i32::from((which >> 2) % 4),
            tag: i32::from(which >> 4),
            kind: u16::from(kind % 12),
            flags: u16::from(flags % 4),
        };
        let comes = (header.length as usize).min(3 * BLOCK) >> (cut % 4);
        let mut frame = header.bytes().to_vec();
        frame.resize(frame.len() + comes, *cut);
        if let (8 | 16, Some((word, _))) = (comes, rest.split_first_chunk::<8>()) {
            frame.truncate(frame.len() - comes);
            frame.extend([*word; 2].as_flattened().iter().take(comes)); // numbers of sends and receives, lengths
        }
        if self.level < Level::Safe && *flags < 128 {
            self.say(&frame);
            return rest;
        }
        let level = if *flags < 192 { self.level.max(Level::Safe) } else { self.level };
        let mut blocks = Vec::new();
        for piece in frame.chunks(BLOCK) {
            let _ = self.sealer.append(level, [piece].into_iter(), &mut blocks);
        }
        self.say(&blocks);
        rest
    }

    /// Bytes come over the connection.
    fn say(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.far.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && self.engine.progress() => {}
                Err(_) => return,
            }
        }
    }

    /// Everything is read that was sent.
    fn settle(&mut self) {
        let mut heard = [0; 4096];
        while self.engine.progress() | self.far.read(&mut heard).is_ok_and(|count| count > 0) {}
    }

    /// What is done fits its memory, and nothing else was written.
    fn check(&mut self) {
        self.sends.retain(|(send, _)| self.engine.outcome(*send).is_none());
        self.receives.retain(|(receive, memory)| match self.engine.outcome(*receive) {
            Some(status) => {
                assert!(status.bytes as usize <= self.memories[*memory].len() - GUARD.len());
                false
            }
            None => true,
        });
        assert!(self.memories.iter().all(|memory| memory.ends_with(&GUARD)));
    }
}
