//! What blocks of 256 KiB would save over records of TLS, which have 16 KiB (docs/decisions/0008).
//!
//! `cargo bench -p phalanx-net --bench records` prints GB/s and CPU seconds a GB, both ends together, as medians with quartiles. Messages of
//! 1 MB go from one thread to another over TCP on the loopback interface. The sender copies a message into its buffer and seals it there,
//! with AES-128-GCM; the receiver ends with the plaintext in the message's own memory.
//!
//! - `blocks`: each read straight into the message's memory and opened there.
//! - `records, copied`: read into a buffer, opened there, and copied, as phalanx does.
//! - `records, straight`: as good as it can get. One `readv` fetches sixteen records, their payloads straight into the message's memory, where
//!   they are opened. The byte with which TLS ends a record's plaintext is left out, which makes this possible.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails says so")]

mod cpu;

use cpu::own_cpu;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use std::io::{IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

const MESSAGE: usize = 1 << 20;
const BLOCK: usize = 256 << 10;
const RECORD: usize = 16 << 10;
const HEAD: usize = 5;
const TAG: usize = 16;

#[derive(Clone, Copy)]
enum Way {
    Blocks,
    Copied,
    Straight,
}

impl Way {
    const ALL: [(Way, &str); 3] =
        [(Way::Blocks, "blocks"), (Way::Copied, "records, copied"), (Way::Straight, "records, straight")];

    fn piece(self) -> usize {
        if matches!(self, Way::Blocks) { BLOCK } else { RECORD }
    }
}

/// One direction's key and number.
struct Cipher(LessSafeKey, u64);

impl Cipher {
    fn new() -> Cipher {
        Cipher(LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).unwrap()), 0)
    }

    fn nonce(&mut self) -> Nonce {
        self.1 += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.1.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    fn seal(&mut self, payload: &mut [u8]) -> Tag {
        let nonce = self.nonce();
        self.0.seal_in_place_separate_tag(nonce, Aad::from([0; HEAD]), payload).unwrap()
    }

    fn open(&mut self, payload: &mut [u8], tag: [u8; TAG]) {
        let nonce = self.nonce();
        self.0.open_in_place_separate_tag(nonce, Aad::from([0; HEAD]), tag.into(), payload, 0..).unwrap();
    }
}

fn main() {
    let (rounds, messages) = if std::env::args().any(|argument| argument == "--quick") { (1, 100) } else { (9, 1500) };
    let mut rows = Way::ALL.map(|(_, name)| (name, Vec::new(), Vec::new()));
    for _ in 0..rounds {
        for (row, (way, _)) in rows.iter_mut().zip(Way::ALL) {
            let (rate, cpu) = transfer(way, messages);
            row.1.push(rate);
            row.2.push(cpu);
        }
    }
    for (name, rates, cpus) in &mut rows {
        let quartiles = |values: &mut Vec<f64>| {
            values.sort_by(f64::total_cmp);
            [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
        };
        let ([low, rate, high], [few, cpu, many]) = (quartiles(rates), quartiles(cpus));
        println!("{name:18} {rate:5.2} GB/s ({low:.2} to {high:.2})   {cpu:.3} CPU s/GB ({few:.3} to {many:.3})");
    }
}

/// GB/s and CPU seconds a GB.
fn transfer(way: Way, messages: usize) -> (f64, f64) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut receiver = listener.accept().unwrap().0;
    let message: Vec<u8> = (0..MESSAGE).map(|at| at as u8).collect();
    let (begun, cpu) = (Instant::now(), own_cpu());
    std::thread::scope(|scope| {
        scope.spawn(|| (0..messages).fold(Cipher::new(), |cipher, _| send(way, &mut sender, cipher, &message)));
        let (mut cipher, mut memory) = (Cipher::new(), vec![0; MESSAGE]);
        for _ in 0..messages {
            match way {
                Way::Blocks | Way::Straight => receive_straight(way, &mut receiver, &mut cipher, &mut memory),
                Way::Copied => receive_and_copy(&mut receiver, &mut cipher, &mut memory),
            }
        }
        assert_eq!(memory, message);
    });
    let bytes = (messages * MESSAGE) as f64 / 1e9;
    (bytes / begun.elapsed().as_secs_f64(), (own_cpu() - cpu) / bytes)
}

/// Each write has as many bytes, whatever the pieces are.
fn send(way: Way, socket: &mut TcpStream, mut cipher: Cipher, message: &[u8]) -> Cipher {
    let mut buffer = Vec::with_capacity(BLOCK + BLOCK / RECORD * (HEAD + TAG));
    for part in message.chunks(BLOCK) {
        buffer.clear();
        for piece in part.chunks(way.piece()) {
            buffer.extend_from_slice(&[0; HEAD]);
            let start = buffer.len();
            buffer.extend_from_slice(piece);
            let tag = cipher.seal(&mut buffer[start..]);
            buffer.extend_from_slice(tag.as_ref());
        }
        socket.write_all(&buffer).unwrap();
    }
    cipher
}

fn receive_straight(way: Way, socket: &mut TcpStream, cipher: &mut Cipher, memory: &mut [u8]) {
    for part in memory.chunks_mut(BLOCK) {
        let count = part.len() / way.piece();
        let mut around = vec![[0; HEAD + TAG]; count];
        let mut slices = Vec::with_capacity(3 * count);
        for (piece, around) in part.chunks_mut(way.piece()).zip(&mut around) {
            let (head, tag) = around.split_at_mut(HEAD);
            slices.extend([IoSliceMut::new(head), IoSliceMut::new(piece), IoSliceMut::new(tag)]);
        }
        let mut left = &mut slices[..];
        while !left.is_empty() {
            let count = socket.read_vectored(left).unwrap();
            IoSliceMut::advance_slices(&mut left, count);
        }
        for (piece, around) in part.chunks_mut(way.piece()).zip(&around) {
            cipher.open(piece, around[HEAD..].try_into().unwrap());
        }
    }
}

fn receive_and_copy(socket: &mut TcpStream, cipher: &mut Cipher, memory: &mut [u8]) {
    let mut buffer = vec![0; BLOCK + BLOCK / RECORD * (HEAD + TAG)];
    let whole = HEAD + RECORD + TAG;
    for part in memory.chunks_mut(BLOCK) {
        let (mut filled, mut opened) = (0, 0);
        for piece in part.chunks_mut(RECORD) {
            while filled < opened + whole {
                filled += socket.read(&mut buffer[filled..]).unwrap();
            }
            let record = &mut buffer[opened + HEAD..opened + whole];
            let (payload, tag) = record.split_at_mut(RECORD);
            cipher.open(payload, (&*tag).try_into().unwrap());
            piece.copy_from_slice(payload);
            opened += whole;
        }
    }
}
