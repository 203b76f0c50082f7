//! Protection of a link's bytes after the handshake: blocks.
//!
//! ```text
//! | 17 03 03 | length, u16, big endian         | payload and its type, encrypted | tag, 16 bytes |    private
//! | 58 + level | length, u32, little endian    | payload                         | tag, 16 bytes |    safe
//! | 58 + level | length, u32, little endian    | payload                         |                    clear, authenticated
//! ```
//!
//! A private block is the next record of the TLS connection that did the handshake (RFC 8446, section 5.2), so a link that has no other blocks
//! is a connection of TLS 1.3 from its first byte to its last. TLS has no record that is only authenticated. So a safe
//! block has the MAC of AEGIS-128X2 under a key from the handshake's exporter. Its MAC is four times as fast as any alternative here, and
//! a large array is checked in its final memory (docs/decisions/0008).
//!
//! A block's number is part of its nonce and is not sent. So a block that was altered, dropped, repeated or moved does not
//! open. Records and other blocks have one count.
//!
//! This is the format and the cryptography. Every link cuts and protects its blocks with [`crate::blocks`].

use aegis::aegis128x2::Aegis128X2Mac;
use phalanx_core::level::Level;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use std::io;
use zeroize::Zeroizing;

/// Longest payload of a safe block, in bytes. Chosen so that it stays in a core's own cache between the socket and the
/// cipher.
pub const BLOCK: usize = 256 << 10;
/// Longest payload of a private block, in bytes: that of a record of TLS.
pub const RECORD: usize = 16 << 10;
/// Longest payload without a tag.
pub const PLAIN_BLOCK: usize = (1 << 24) - 1;
/// Bytes before the payload.
pub const HEAD: usize = 5;
/// Bytes behind the payload of a safe block.
pub const TAG: usize = 16;
/// Bytes behind the payload of a private block: its content type and the tag.
pub const RECORD_TAIL: usize = 1 + TAG;
/// Bytes of the secrets from which the keys of one direction come.
pub const SECRET: usize = 32;

const MARK: u8 = 0x58;
/// The first bytes of a protected record.
const RECORD_MARK: [u8; 3] = [APPLICATION_DATA, 3, 3];
/// Content types of TLS.
const APPLICATION_DATA: u8 = 23;
const HANDSHAKE: u8 = 22;
/// A message of TLS: the sender's next record has the next key. It asks for no answer.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
/// Bytes of the record with that message.
pub(crate) const UPDATE: usize = HEAD + KEY_UPDATE.len() + RECORD_TAIL;
/// Records under one key: 2³⁶ bytes, that is 2³² cipher blocks. An attacker's advantage against AES-GCM is then 2⁻⁶⁵,
/// where TLS allows 2⁻⁵⁷ (RFC 8446, section 5.5).
pub const RECORDS_PER_KEY: u64 = 1 << 22;

/// The head of a block.
pub fn head(level: Level, payload: usize) -> [u8; HEAD] {
    if level == Level::Private {
        let [kind, major, minor] = RECORD_MARK;
        let [high, low] = ((payload + RECORD_TAIL) as u16).to_be_bytes();
        return [kind, major, minor, high, low];
    }
    let [low, middle, high, highest] = (payload as u32).to_le_bytes();
    [MARK + level as u8, low, middle, high, highest]
}

/// Parses the head of a block that a peer sent: its level and the length of its payload.
pub(crate) fn parse(head: [u8; HEAD]) -> io::Result<(Level, usize)> {
    let [mark, first, second, third, fourth] = head;
    if [mark, first, second] == RECORD_MARK {
        let payload = usize::from(u16::from_be_bytes([third, fourth])).checked_sub(RECORD_TAIL).ok_or_else(altered)?;
        return Ok((Level::Private, payload));
    }
    let payload = u32::from_le_bytes([first, second, third, fourth]) as usize;
    let mut levels = Level::ALL.into_iter().filter(|level| *level < Level::Private);
    Ok((levels.find(|level| MARK + *level as u8 == mark).ok_or_else(altered)?, payload))
}

/// Whether blocks of this level end with a tag.
pub fn has_tag(level: Level) -> bool {
    level >= Level::Safe
}

/// The secrets of one direction after a handshake, and the number of its next record.
pub struct Secrets {
    /// The application traffic secret of TLS.
    pub traffic: Zeroizing<[u8; SECRET]>,
    /// The secret of its exporter.
    pub exported: Zeroizing<[u8; SECRET]>,
    /// The number of the next record.
    pub number: u64,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").field("number", &self.number).finish_non_exhaustive()
    }
}

impl From<[u8; SECRET]> for Secrets {
    /// Where no handshake was done.
    fn from(secret: [u8; SECRET]) -> Secrets {
        Secrets { traffic: Zeroizing::new(secret), exported: Zeroizing::new(secret), number: 0 }
    }
}

/// The keys of one direction, and the number of the next block. Only [`crate::blocks`] uses them: the sender's
/// [`Sealer`](crate::blocks::Sealer) protects with them, the receiver's [`Opener`](crate::blocks::Opener) opens.
pub struct Context {
    secrets: Secrets,
    private: LessSafeKey,
    private_iv: Zeroizing<[u8; NONCE_LEN]>,
    safe: Zeroizing<[u8; 16]>,
    safe_iv: Zeroizing<[u8; NONCE_LEN]>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("number", &self.secrets.number).finish_non_exhaustive()
    }
}

/// The content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// A payload.
    Payload,
    /// A key update. The next record has the next key.
    Message,
}

impl Context {
    /// Derives the keys from secrets that only the two ends have.
    pub fn new(secrets: impl Into<Secrets>) -> Context {
        let secrets = secrets.into();
        let traffic = Prk::new_less_safe(HKDF_SHA256, &secrets.traffic[..]);
        let exported = Prk::new_less_safe(HKDF_SHA256, &secrets.exported[..]);
        let key = derive_label::<16>(&traffic, b"key");
        let key = UnboundKey::new(&AES_128_GCM, &key[..]).expect("has 16 bytes");
        Context {
            private: LessSafeKey::new(key),
            private_iv: derive_label(&traffic, b"iv"),
            safe: derive(&exported, &[b"phalanx safe"]),
            safe_iv: derive(&exported, &[b"phalanx iv"]),
            secrets,
        }
    }

    /// Sets the number of the next block.
    pub(crate) fn begin_at(&mut self, number: u64) {
        self.secrets.number = number;
    }

    /// Counts a block without protection. The next protected block then also proves that this one was sent.
    pub(crate) fn pass(&mut self) {
        self.secrets.number += 1;
    }

    /// Puts a message into these bytes that goes on to the next keys, if that is due before the next record.
    pub(crate) fn update_due(&mut self, out: &mut [u8; UPDATE]) -> bool {
        let is_due = self.secrets.number >= RECORDS_PER_KEY;
        if is_due {
            out[HEAD..][..KEY_UPDATE.len()].copy_from_slice(&KEY_UPDATE);
            self.seal(HANDSHAKE, out);
            self.update();
        }
        is_due
    }

    /// Makes a record of these bytes, which are a head to be filled in, the payload, and [`RECORD_TAIL`] bytes more.
    pub(crate) fn seal_record(&mut self, record: &mut [u8]) {
        self.seal(APPLICATION_DATA, record);
    }

    /// Makes a record with content of this type.
    fn seal(&mut self, kind: u8, record: &mut [u8]) {
        let content = record.len() - HEAD - RECORD_TAIL;
        let head = head(Level::Private, content);
        record[..HEAD].copy_from_slice(&head);
        let (inner, tag) = record[HEAD..].split_at_mut(content + 1);
        inner[content] = kind;
        let nonce = Nonce::assume_unique_for_key(self.nonce(&self.private_iv));
        let made = self.private.seal_in_place_separate_tag(nonce, Aad::from(head), inner);
        tag.copy_from_slice(made.expect("a record is far below the cipher's longest message").as_ref());
        self.pass();
    }

    /// Checks and decrypts a record in place, of which `bytes` is what follows its head. Fails if it is not the next one that
    /// the peer protected.
    pub(crate) fn open_record(&mut self, bytes: &mut [u8]) -> io::Result<Opened> {
        let payload = bytes.len().checked_sub(RECORD_TAIL).ok_or_else(altered)?;
        let nonce = Nonce::assume_unique_for_key(self.nonce(&self.private_iv));
        let opened = self.private.open_in_place(nonce, Aad::from(head(Level::Private, payload)), bytes);
        let (kind, content) = opened.ok().and_then(|content| content.split_last()).ok_or_else(altered)?;
        // Never the first under its keys: a peer cannot make this end derive keys without end.
        let is_update = *kind == HANDSHAKE && *content == KEY_UPDATE && self.secrets.number > 0;
        self.pass();
        match *kind {
            APPLICATION_DATA => Ok(Opened::Payload),
            HANDSHAKE if is_update => {
                self.update();
                Ok(Opened::Message)
            }
            _ => Err(altered()),
        }
    }

    /// The tag of a safe block whose payload is in several pieces.
    pub(crate) fn tag<'a>(&mut self, head: [u8; HEAD], payload: impl Iterator<Item = &'a [u8]>) -> [u8; TAG] {
        let mut mac = self.mac(head);
        payload.for_each(|piece| mac.update(piece));
        mac.finalize()
    }

    /// Checks the payload of a safe block. Fails if it is not the next block that the peer protected.
    pub(crate) fn check(&mut self, payload: &[u8], tag: [u8; TAG]) -> io::Result<()> {
        let mut mac = self.mac(head(Level::Safe, payload.len()));
        mac.update(payload);
        mac.verify(&tag).map_err(|_| altered())
    }

    /// Starts a MAC over the next block, with its number and head.
    fn mac(&mut self, head: [u8; HEAD]) -> Aegis128X2Mac<TAG> {
        let mut nonce = [0; 16];
        nonce[..NONCE_LEN].copy_from_slice(&self.nonce(&self.safe_iv));
        let mut mac = Aegis128X2Mac::new_with_nonce(&self.safe, &nonce);
        mac.update(&head);
        self.pass();
        mac
    }

    /// The next block's nonce (RFC 8446, section 5.3).
    fn nonce(&self, iv: &[u8; NONCE_LEN]) -> [u8; NONCE_LEN] {
        let mut nonce = *iv;
        for (byte, of_number) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.secrets.number.to_be_bytes()) {
            *byte ^= of_number;
        }
        nonce
    }

    /// Goes on to the next secrets, from which those before cannot be computed (RFC 8446, section 7.2).
    fn update(&mut self) {
        let traffic = Prk::new_less_safe(HKDF_SHA256, &self.secrets.traffic[..]);
        let exported = Prk::new_less_safe(HKDF_SHA256, &self.secrets.exported[..]);
        *self = Context::new(Secrets {
            traffic: derive_label(&traffic, b"traffic upd"),
            exported: derive(&exported, &[b"phalanx next"]),
            number: 0,
        });
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446, section 7.1).
fn derive_label<const N: usize>(prk: &Prk, label: &[u8]) -> Zeroizing<[u8; N]> {
    let prefix = b"tls13 ";
    let lengths = [0, N as u8, (prefix.len() + label.len()) as u8];
    derive(prk, &[&lengths[..], prefix, label, &[0]])
}

fn derive<const N: usize>(prk: &Prk, info: &[&[u8]]) -> Zeroizing<[u8; N]> {
    let mut bytes = Zeroizing::new([0; N]);
    let okm = prk.expand(info, Length(N)).expect("shorter than HKDF allows");
    okm.fill(&mut bytes[..]).expect("has the length asked for");
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

    fn record(context: &mut Context, payload: &[u8]) -> Vec<u8> {
        let mut update = [0; UPDATE];
        let before = if context.update_due(&mut update) { &update[..] } else { &[] };
        [before, &sealed(context, APPLICATION_DATA, payload)].concat()
    }

    fn sealed(context: &mut Context, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut record = [&[0; HEAD][..], content, &[0; RECORD_TAIL]].concat();
        context.seal(kind, &mut record);
        record
    }

    /// RFC 8448, section 3: the client's keys, and its first record of application data.
    #[test]
    fn keys_and_records_are_those_of_tls() {
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..][..2], 16).expect("digits")).collect()
        };
        let secret = bytes("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5");
        let secret: [u8; SECRET] = secret.try_into().expect("32 bytes");
        let prk = Prk::new_less_safe(HKDF_SHA256, &secret);
        assert_eq!(derive_label::<16>(&prk, b"key")[..], bytes("17422dda596ed5d9acd890e3c63f5051"));
        assert_eq!(derive_label::<12>(&prk, b"iv")[..], bytes("5b78923dee08579033e523d9"));
        let payload: Vec<u8> = (0..50).collect();
        let wire = "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4";
        assert_eq!(record(&mut Context::new(secret), &payload), bytes(wire));
    }

    #[test]
    fn ends_go_on_to_the_next_key_together_and_never_use_a_nonce_twice() {
        let (mut sender, mut receiver) = both();
        let first = record(&mut sender, &[1; 100]);
        sender.begin_at(RECORDS_PER_KEY - 1);
        receiver.begin_at(RECORDS_PER_KEY - 1);
        for number in 0..3 {
            let made = record(&mut sender, &[number; 100]);
            assert!(!made.windows(TAG).any(|tag| tag == &first[first.len() - TAG..]));
            let mut records = &made[..];
            let mut opened = Vec::new();
            while let Some((head, _)) = records.split_first_chunk() {
                let (level, payload) = parse(*head).expect("was made here");
                assert_eq!(level, Level::Private);
                let (one, rest) = records.split_at(HEAD + payload + RECORD_TAIL);
                let mut one = one[HEAD..].to_vec();
                opened.push(receiver.open_record(&mut one).expect("the same keys"));
                assert!(*opened.last().expect("one") == Opened::Message || one[..payload] == [number; 100]);
                records = rest;
            }
            let expected = if number == 1 { vec![Opened::Message, Opened::Payload] } else { vec![Opened::Payload] };
            assert_eq!(opened, expected);
        }
        assert_eq!(sender.secrets.number, 2);
    }

    #[test]
    fn other_messages_of_tls_are_refused() {
        let alert = [1, 0];
        let asks_for_an_update = [24, 0, 0, 1, 1];
        for (kind, content) in
            [(21, &alert[..]), (HANDSHAKE, &asks_for_an_update), (HANDSHAKE, &[]), (0, &[]), (20, &[1])]
        {
            let (mut sender, mut receiver) = both();
            let mut record = sealed(&mut sender, kind, content);
            assert!(receiver.open_record(&mut record[HEAD..]).is_err(), "{kind}");
        }
        let (mut sender, mut receiver) = both();
        receiver.pass();
        sender.pass();
        let mut twice = [(); 2].map(|()| {
            let record = sealed(&mut sender, HANDSHAKE, &KEY_UPDATE);
            sender.update();
            record
        });
        assert_eq!(receiver.open_record(&mut twice[0][HEAD..]).expect("it is one"), Opened::Message);
        assert!(receiver.open_record(&mut twice[1][HEAD..]).is_err(), "nothing came under the keys");
        let (mut sender, mut receiver) = both();
        let mut padded = sealed(&mut sender, 0, &[1, APPLICATION_DATA]);
        assert!(receiver.open_record(&mut padded[HEAD..]).is_err(), "nothing here pads");
    }

    #[test]
    fn a_safe_block_is_checked_with_its_head_its_number_and_every_byte() {
        let tagged =
            |context: &mut Context, payload: &[u8]| context.tag(head(Level::Safe, payload.len()), payload.chunks(7));
        let (mut sender, mut receiver) = both();
        let payload = [3; 100];
        let (one, two) = (tagged(&mut sender, &payload), tagged(&mut sender, &payload));
        assert_ne!(one, two, "the number is part of it");
        receiver.check(&payload, one).expect("nothing was changed");
        let mut altered = payload;
        altered[99] ^= 1;
        assert!(receiver.check(&altered, two).is_err());
        assert!(both().1.check(&payload[..99], one).is_err());
        let mut after_a_plain_one = both().1;
        after_a_plain_one.pass();
        assert!(after_a_plain_one.check(&payload, one).is_err());
    }

    #[test]
    fn heads_are_parsed_as_they_are_made() {
        for level in Level::ALL {
            for payload in [0, 1, 255, RECORD] {
                assert_eq!(parse(head(level, payload)).expect("was made here"), (level, payload));
            }
        }
        let wrong =
            [[0; HEAD], [0x17, 3, 4, 0, 50], [0x17, 3, 3, 0, 16], [MARK + 3, 0, 0, 0, 0], [MARK + 4, 0, 0, 0, 0]];
        assert!(wrong.into_iter().all(|wrong| parse(wrong).is_err()));
    }
}
