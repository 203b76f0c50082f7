//! What protects the bytes of a link after its handshake: blocks, sealed with keys from the handshake's exporter.
//!
//! ```text
//! | 0x5b | payload length, u24, little endian | payload | tag, 16 bytes |
//! ```
//!
//! A block's sequence number is in its nonce and does not travel: a block that was altered, dropped, repeated, or put
//! elsewhere does not open. Blocks are eight times as long as TLS records and lie as the socket gives them, so
//! that a large array is opened in the memory where it stays (docs/decisions/0008).

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use std::io;

/// Longest payload in bytes: as much as stays in a core's own cache from the socket to the cipher.
pub const BLOCK: usize = 128 << 10;
/// Bytes before the payload.
pub const HEAD: usize = 4;
/// Bytes after it.
pub const TAG: usize = 16;
/// Bytes of the secret from which the keys of one direction come.
pub const SECRET: usize = 32;

const MARK: u8 = 0x5b;
/// Blocks under one key: 2³⁶ bytes, that is 2³² blocks of the cipher. Of AES-GCM an attacker then learns with
/// probability 2⁻⁶⁵, where TLS allows 2⁻⁵⁷ (RFC 8446, section 5.5).
const BLOCKS_PER_KEY: u64 = 1 << 19;

/// A block's beginning.
pub fn head(payload: usize) -> [u8; HEAD] {
    debug_assert!(payload <= BLOCK);
    let [low, middle, high, _] = (payload as u32).to_le_bytes();
    [MARK, low, middle, high]
}

/// The payload's length, from a peer's bytes.
pub fn payload(head: [u8; HEAD]) -> io::Result<usize> {
    let [mark, low, middle, high] = head;
    let length = u32::from_le_bytes([low, middle, high, 0]) as usize;
    if mark != MARK || length > BLOCK { Err(altered()) } else { Ok(length) }
}

/// One direction's keys: the sender's to seal, the receiver's to open.
pub struct Context {
    secret: [u8; SECRET],
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    /// Of the next block.
    sequence: u64,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Context {
    /// From a secret that only the two ends have.
    pub fn new(secret: [u8; SECRET]) -> Context {
        let prk = Prk::new_less_safe(HKDF_SHA256, &secret);
        let key = UnboundKey::new(&AES_128_GCM, &derive::<16>(&prk, b"phalanx key")).expect("has 16 bytes");
        Context { secret, key: LessSafeKey::new(key), iv: derive(&prk, b"phalanx iv"), sequence: 0 }
    }

    /// Encrypts the payload where it lies; the block's head and tag.
    pub fn seal(&mut self, payload: &mut [u8]) -> ([u8; HEAD], [u8; TAG]) {
        let head = head(payload.len());
        let nonce = self.nonce();
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(head), payload);
        let tag = tag.expect("a block is far below the cipher's longest message");
        (head, tag.as_ref().try_into().expect("16 bytes"))
    }

    /// Decrypts the payload where it lies; an error when it is not the next block that the peer sealed.
    pub fn open(&mut self, payload: &mut [u8], tag: [u8; TAG]) -> io::Result<()> {
        let head = head(payload.len());
        let nonce = self.nonce();
        let opened = self.key.open_in_place_separate_tag(nonce, Aad::from(head), tag.into(), payload, 0..);
        opened.map(|_| ()).map_err(|_| altered())
    }

    /// The next block's nonce, as TLS 1.3 makes it (RFC 8446, section 5.3). After many blocks both ends go on to the
    /// next secret, which does not tell the one before.
    fn nonce(&mut self) -> Nonce {
        if self.sequence == BLOCKS_PER_KEY {
            let prk = Prk::new_less_safe(HKDF_SHA256, &self.secret);
            *self = Context::new(derive(&prk, b"phalanx next"));
        }
        let mut nonce = self.iv;
        for (byte, of_sequence) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= of_sequence;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive<const N: usize>(prk: &Prk, purpose: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let purpose = [purpose];
    let okm = prk.expand(&purpose, Length(N)).expect("shorter than HKDF allows");
    okm.fill(&mut bytes).expect("has the length asked for");
    bytes
}

fn altered() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what arrived is not what the peer sent")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> (Context, Context) {
        (Context::new([7; SECRET]), Context::new([7; SECRET]))
    }

    #[test]
    fn ends_go_on_to_the_next_key_together_and_never_use_a_nonce_twice() {
        let (mut sender, mut receiver) = both();
        let first = sender.seal(&mut [1; 100]).1;
        (sender.sequence, receiver.sequence) = (BLOCKS_PER_KEY - 1, BLOCKS_PER_KEY - 1);
        for number in 0..3 {
            let mut payload = [number; 100];
            let (_, tag) = sender.seal(&mut payload);
            assert_ne!(tag, first);
            receiver.open(&mut payload, tag).expect("the same keys");
            assert_eq!(payload, [number; 100]);
        }
        assert_eq!(sender.sequence, 2);
    }

    #[test]
    fn a_peers_lengths_are_checked() {
        assert_eq!(payload(head(BLOCK)).expect("was made here"), BLOCK);
        for wrong in [[0; 4], [MARK, 0xff, 0xff, 0xff], [0x17, 3, 3, 0]] {
            assert!(payload(wrong).is_err());
        }
    }
}
