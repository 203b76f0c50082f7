//! Protection of a link's bytes after the handshake: blocks, with keys from the handshake's exporter.
//!
//! ```text
//! | 0x58 + level | payload length, u24, little endian | payload | tag, 16 bytes, at safe and private |
//! ```
//!
//! A block's sequence number is part of its nonce and is not sent. So a block that was altered, dropped, repeated or
//! moved does not open. Private uses AES-128-GCM. Safe uses the MAC of AEGIS-128X2, which is four times as fast as any
//! alternative here. Blocks are sixteen times as long as TLS records and are opened in place. So a large array is
//! decrypted in its final memory (docs/decisions/0008).
//!
//! This is the format and the cryptography. Every link cuts and protects its blocks with [`crate::blocks`].

use aegis::aegis128x2::Aegis128X2Mac;
use phalanx_core::level::Level;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use std::io;
use zeroize::{Zeroize, Zeroizing};

/// Longest payload with a tag, in bytes. Chosen so that it stays in a core's own cache between the socket and the
/// cipher.
pub const BLOCK: usize = 256 << 10;
/// Longest payload without a tag.
pub const PLAIN_BLOCK: usize = (1 << 24) - 1;
/// Bytes before the payload.
pub const HEAD: usize = 4;
/// Bytes behind the payload.
pub const TAG: usize = 16;
/// Bytes of the secret from which the keys of one direction come.
pub const SECRET: usize = 32;

const MARK: u8 = 0x58;
/// Blocks under one key: 2³⁶ bytes, that is 2³² cipher blocks. An attacker's advantage against AES-GCM is then 2⁻⁶⁵,
/// where TLS allows 2⁻⁵⁷ (RFC 8446, section 5.5).
const BLOCKS_PER_KEY: u64 = 1 << 18;

/// The head of a block.
pub fn head(level: Level, payload: usize) -> [u8; HEAD] {
    let [low, middle, high, _] = (payload as u32).to_le_bytes();
    [MARK + level as u8, low, middle, high]
}

/// Parses the head of a block that a peer sent: its level and the length of its payload.
pub(crate) fn parse(head: [u8; HEAD]) -> io::Result<(Level, usize)> {
    let [mark, low, middle, high] = head;
    let length = u32::from_le_bytes([low, middle, high, 0]) as usize;
    let level = Level::ALL.into_iter().find(|level| MARK + *level as u8 == mark).ok_or_else(altered)?;
    if has_tag(level) && length > BLOCK { Err(altered()) } else { Ok((level, length)) }
}

/// Whether blocks of this level end with a tag.
pub fn has_tag(level: Level) -> bool {
    level >= Level::Safe
}

/// The keys of one direction, and the number of the next block. Only [`crate::blocks`] uses them: the sender's
/// [`Sealer`](crate::blocks::Sealer) protects with them, the receiver's [`Opener`](crate::blocks::Opener) opens.
pub struct Context {
    secret: [u8; SECRET],
    private: LessSafeKey,
    safe: [u8; 16],
    iv: [u8; NONCE_LEN],
    /// The number of the next block.
    sequence: u64,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.secret.zeroize();
        self.safe.zeroize();
        self.iv.zeroize();
    }
}

impl Context {
    /// Derives the keys from a secret that only the two ends have.
    pub fn new(secret: [u8; SECRET]) -> Context {
        let prk = Prk::new_less_safe(HKDF_SHA256, &secret);
        let key = Zeroizing::new(derive::<16>(&prk, b"phalanx private"));
        let key = UnboundKey::new(&AES_128_GCM, &key[..]).expect("has 16 bytes");
        Context {
            secret,
            private: LessSafeKey::new(key),
            safe: derive(&prk, b"phalanx safe"),
            iv: derive(&prk, b"phalanx iv"),
            sequence: 0,
        }
    }

    /// Counts a block without protection. The next protected block then also proves that this one was sent.
    pub(crate) fn pass(&mut self) {
        self.nonce();
    }

    /// Encrypts the payload of a private block in place. Returns the block's tag.
    pub(crate) fn seal(&mut self, head: [u8; HEAD], payload: &mut [u8]) -> [u8; TAG] {
        let nonce = Nonce::assume_unique_for_key(self.nonce());
        let tag = self.private.seal_in_place_separate_tag(nonce, Aad::from(head), payload);
        let tag = tag.expect("a block is far below the cipher's longest message");
        tag.as_ref().try_into().expect("16 bytes")
    }

    /// The tag of a safe block whose payload is in several pieces.
    pub(crate) fn tag<'a>(&mut self, head: [u8; HEAD], payload: impl Iterator<Item = &'a [u8]>) -> [u8; TAG] {
        let mut mac = self.mac(head);
        payload.for_each(|piece| mac.update(piece));
        mac.finalize()
    }

    /// Checks the payload in place, and decrypts it if it is private. Fails if it is not the next block that the peer
    /// protected.
    pub(crate) fn open(&mut self, level: Level, payload: &mut [u8], tag: [u8; TAG]) -> io::Result<()> {
        let head = head(level, payload.len());
        let opened = match level {
            Level::Clear | Level::Authenticated => false,
            Level::Safe => {
                let mut mac = self.mac(head);
                mac.update(payload);
                mac.verify(&tag).is_ok()
            }
            Level::Private => {
                let nonce = Nonce::assume_unique_for_key(self.nonce());
                self.private.open_in_place_separate_tag(nonce, Aad::from(head), tag.into(), payload, 0..).is_ok()
            }
        };
        if opened { Ok(()) } else { Err(altered()) }
    }

    /// Starts a MAC over the next block, with its number and head.
    fn mac(&mut self, head: [u8; HEAD]) -> Aegis128X2Mac<TAG> {
        let mut nonce = [0; 16];
        nonce[..NONCE_LEN].copy_from_slice(&self.nonce());
        let mut mac = Aegis128X2Mac::new_with_nonce(&self.safe, &nonce);
        mac.update(&head);
        mac
    }

    /// The next block's nonce, as in TLS 1.3 (RFC 8446, section 5.3). After `BLOCKS_PER_KEY` blocks, both ends derive
    /// the next secret, from which the previous one cannot be computed.
    fn nonce(&mut self) -> [u8; NONCE_LEN] {
        if self.sequence == BLOCKS_PER_KEY {
            let prk = Prk::new_less_safe(HKDF_SHA256, &self.secret);
            *self = Context::new(derive(&prk, b"phalanx next"));
        }
        let mut nonce = self.iv;
        for (byte, of_sequence) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= of_sequence;
        }
        self.sequence += 1;
        nonce
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

pub(crate) fn altered() -> io::Error {
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
        let head = head(Level::Private, 100);
        let first = sender.seal(head, &mut [1; 100]);
        (sender.sequence, receiver.sequence) = (BLOCKS_PER_KEY - 1, BLOCKS_PER_KEY - 1);
        for number in 0..3 {
            let mut payload = [number; 100];
            let tag = sender.seal(head, &mut payload);
            assert_ne!(tag, first);
            receiver.open(Level::Private, &mut payload, tag).expect("the same keys");
            assert_eq!(payload, [number; 100]);
        }
        assert_eq!(sender.sequence, 2);
    }

    #[test]
    fn a_safe_block_is_checked_with_its_head_its_number_and_every_byte() {
        let tagged =
            |context: &mut Context, payload: &[u8]| context.tag(head(Level::Safe, payload.len()), payload.chunks(7));
        let (mut sender, mut receiver) = both();
        let mut payload = [3; 100];
        let (one, two) = (tagged(&mut sender, &payload), tagged(&mut sender, &payload));
        assert_ne!(one, two, "the number is part of it");
        receiver.open(Level::Safe, &mut payload, one).expect("nothing was changed");
        let mut altered = payload;
        altered[99] ^= 1;
        assert!(receiver.open(Level::Safe, &mut altered, two).is_err());
        assert!(both().1.open(Level::Safe, &mut payload[..99], one).is_err());
        assert!(both().1.open(Level::Private, &mut payload, one).is_err());
        let mut after_a_plain_one = both().1;
        after_a_plain_one.pass();
        assert!(after_a_plain_one.open(Level::Safe, &mut payload, one).is_err());
    }

    #[test]
    fn a_peers_lengths_are_checked() {
        for level in Level::ALL {
            assert_eq!(parse(head(level, BLOCK)).expect("was made here"), (level, BLOCK));
            assert_eq!(parse(head(level, PLAIN_BLOCK)).is_err(), has_tag(level));
        }
        for wrong in [[0; 4], [0x17, 3, 3, 0], [MARK + 4, 0, 0, 0]] {
            assert!(parse(wrong).is_err());
        }
    }
}
