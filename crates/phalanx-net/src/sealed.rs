//! Values that only the holders of a key can read, but that a space can still compare (DepSpace; paper 002, section 2).
//!
//! The cipher is AES-256-GCM-SIV (RFC 8452). Its tag is a fingerprint of the value that cannot be made or checked
//! without the key. A *matched* value has the same nonce every time, so that equal values give equal bytes, which a
//! space compares like any bytes. A *hidden* value has the number of its tuple as its nonce, and does not even reveal
//! that. A sealed value opens only where it was sealed (docs/decisions/0051): matched ones in the same position of a
//! tuple, hidden ones also only beside the same other fields and the other hidden ones of the same tuple.
//!
//! ```text
//! | 1 | encrypted value |                         matched
//! | 2 | number, 12 bytes | encrypted value |      hidden
//! ```

use aes_gcm_siv::aead::{Aead, KeyInit, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};
use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;
use zeroize::Zeroizing;

/// Bytes of a key.
pub const KEY: usize = 32;
/// Bytes of a fingerprint.
pub const FINGERPRINT: usize = 16;
/// Bytes of a tuple's number.
pub const NUMBER: usize = 12;

const MATCHED: u8 = 1;
const HIDDEN: u8 = 2;
const DIGEST: usize = 32;
const PURPOSE: &[u8] = b"phalanx sealed field";
/// What values of the first format were sealed for. They were bound to nothing.
const EARLIER: &[u8] = b"phalanx sealed value";

/// A sealed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The authentication tag. Equal values that were sealed as matched in the same position with the same key have the
    /// same one.
    pub fingerprint: [u8; FINGERPRINT],
    /// The kind, the number of a hidden value, and the encrypted value.
    pub ciphertext: Vec<u8>,
}

/// Why a sealed value does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotOpened {
    /// The key, the position or the bytes are others.
    #[error("this was sealed with another key, for another place, or altered")]
    Other,
    /// A hidden value is opened only together with its tuple.
    #[error("this is bound to its tuple: open the whole tuple, with open_fields")]
    NeedsTuple,
    /// It has the format of earlier versions.
    #[error(
        "this was sealed by an earlier version of phalanx, which did not bind values to their tuples, so that whoever \
         takes tuples could swap them: open it with that version and seal it anew"
    )]
    Earlier,
}

/// What the hidden values of one tuple are bound to.
#[derive(Debug)]
pub struct Tuple {
    number: [u8; NUMBER],
    digest: [u8; DIGEST],
}

impl Tuple {
    /// Binds to a tuple of `length` fields, of which these can be seen: their positions and encodings, in order. `number`:
    /// drawn for each tuple.
    pub fn new<'a>(number: [u8; NUMBER], length: u64, seen: impl IntoIterator<Item = (u64, &'a [u8])>) -> Tuple {
        let mut digest = Context::new(&SHA256);
        digest.update(&length.to_le_bytes());
        for (position, field) in seen {
            digest.update(&position.to_le_bytes());
            digest.update(&(field.len() as u64).to_le_bytes());
            digest.update(field);
        }
        let mut tuple = Tuple { number, digest: [0; DIGEST] };
        tuple.digest.copy_from_slice(digest.finish().as_ref());
        tuple
    }
}

/// The number of the tuple that a hidden value belongs to. `None`: it is not hidden.
pub fn number_of(ciphertext: &[u8]) -> Option<[u8; NUMBER]> {
    let (kind, rest) = ciphertext.split_first()?;
    rest.first_chunk::<NUMBER>().filter(|_| *kind == HIDDEN).copied()
}

/// A key that seals and opens values.
pub struct SealingKey {
    cipher: Aes256GcmSiv,
    /// What the values are for, like the name of a space. They open for nothing else.
    context: Vec<u8>,
}

impl SealingKey {
    /// The key made from this secret, for values of this context.
    pub fn new(secret: &[u8; KEY], context: &[u8]) -> SealingKey {
        SealingKey { cipher: Aes256GcmSiv::new(secret.into()), context: context.to_vec() }
    }

    /// A new random secret. Panics if the system has no random numbers.
    pub fn random() -> Zeroizing<[u8; KEY]> {
        Zeroizing::new(random())
    }

    /// A new number for a tuple. Panics if the system has no random numbers.
    pub fn number() -> [u8; NUMBER] {
        random()
    }

    /// Seals a value that a space compares. The result is the same every time. `None`: the value is longer than 64 GiB.
    pub fn seal(&self, value: &[u8], position: u64) -> Option<Sealed> {
        self.encrypt(value, vec![MATCHED], [0; NUMBER], &self.bound(MATCHED, position, &[]))
    }

    /// Seals a value that nothing matches, for a position of this tuple.
    pub fn hide(&self, value: &[u8], position: u64, tuple: &Tuple) -> Option<Sealed> {
        let head = [&[HIDDEN][..], &tuple.number].concat();
        self.encrypt(value, head, tuple.number, &self.bound(HIDDEN, position, &tuple.digest))
    }

    /// Opens a value in its position; `tuple`: in this tuple.
    pub fn open(&self, sealed: &Sealed, position: u64, tuple: Option<&Tuple>) -> Result<Vec<u8>, NotOpened> {
        let opened = match (sealed.ciphertext.split_first(), number_of(&sealed.ciphertext), tuple) {
            (Some((&MATCHED, encrypted)), ..) => {
                self.decrypt(sealed, encrypted, [0; NUMBER], &self.bound(MATCHED, position, &[]))
            }
            (Some((_, rest)), Some(number), Some(tuple)) if number == tuple.number => {
                self.decrypt(sealed, &rest[NUMBER..], number, &self.bound(HIDDEN, position, &tuple.digest))
            }
            (_, Some(_), None) if !self.is_earlier(sealed) => return Err(NotOpened::NeedsTuple),
            _ => None,
        };
        opened.ok_or_else(|| if self.is_earlier(sealed) { NotOpened::Earlier } else { NotOpened::Other })
    }

    /// Whether a value was sealed with this key in the first format: a nonce, and the encrypted value.
    fn is_earlier(&self, sealed: &Sealed) -> bool {
        let parts = sealed.ciphertext.split_first_chunk::<NUMBER>();
        parts.is_some_and(|(nonce, encrypted)| self.decrypt(sealed, encrypted, *nonce, EARLIER).is_some())
    }

    /// What a value is bound to. Each part but the last has a fixed length, or its length before it.
    fn bound(&self, kind: u8, position: u64, tuple: &[u8]) -> Vec<u8> {
        let length = (self.context.len() as u64).to_le_bytes();
        [PURPOSE, &length, &self.context, &[kind], &position.to_le_bytes(), tuple].concat()
    }

    fn encrypt(&self, value: &[u8], mut head: Vec<u8>, nonce: [u8; NUMBER], bound: &[u8]) -> Option<Sealed> {
        let sealed = self.cipher.encrypt(&Nonce::from(nonce), Payload { msg: value, aad: bound }).ok()?;
        let (encrypted, fingerprint) = sealed.split_last_chunk()?;
        head.extend_from_slice(encrypted);
        Some(Sealed { fingerprint: *fingerprint, ciphertext: head })
    }

    fn decrypt(&self, sealed: &Sealed, encrypted: &[u8], nonce: [u8; NUMBER], bound: &[u8]) -> Option<Vec<u8>> {
        let message = [encrypted, &sealed.fingerprint].concat();
        self.cipher.decrypt(&Nonce::from(nonce), Payload { msg: &message, aad: bound }).ok()
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(first: u8) -> SealingKey {
        SealingKey::new(&[first; KEY], b"patients")
    }

    fn tuple(number: u8, name: &[u8]) -> Tuple {
        Tuple::new([number; NUMBER], 3, [(0, &b"patient"[..]), (1, name)])
    }

    #[test]
    fn a_matched_value_opens_with_the_same_key_context_and_position_only() {
        let sealed = key(1).seal(b"value", 1).unwrap();
        assert_eq!(key(1).open(&sealed, 1, None).unwrap(), b"value");
        assert_eq!(key(1).open(&sealed, 1, Some(&tuple(1, b"Meier"))).unwrap(), b"value");
        assert_eq!(key(1).open(&sealed, 2, None), Err(NotOpened::Other));
        assert_eq!(key(2).open(&sealed, 1, None), Err(NotOpened::Other));
        assert_eq!(SealingKey::new(&[1; KEY], b"others").open(&sealed, 1, None), Err(NotOpened::Other));
        assert!(!sealed.ciphertext.windows(5).any(|part| part == b"value"));
    }

    #[test]
    fn a_hidden_value_opens_in_its_tuple_only() {
        let sealed = key(1).hide(b"A+", 2, &tuple(1, b"Meier")).unwrap();
        let open = |position, tuple: Option<&Tuple>| key(1).open(&sealed, position, tuple);
        assert_eq!(open(2, Some(&tuple(1, b"Meier"))).unwrap(), b"A+");
        assert_eq!(open(2, Some(&tuple(1, b"Huber"))), Err(NotOpened::Other), "another tuple");
        assert_eq!(open(2, Some(&tuple(2, b"Meier"))), Err(NotOpened::Other), "one that looks alike");
        assert_eq!(open(1, Some(&tuple(1, b"Meier"))), Err(NotOpened::Other), "another position");
        assert_eq!(open(2, None), Err(NotOpened::NeedsTuple));
        let longer = Tuple::new([1; NUMBER], 4, [(0, &b"patient"[..]), (1, &b"Meier"[..])]);
        let moved = Tuple::new([1; NUMBER], 3, [(0, &b"patient"[..]), (2, &b"Meier"[..])]);
        let joined = Tuple::new([1; NUMBER], 3, [(0, &b"patientMeier"[..]), (1, &b""[..])]);
        assert!([longer, moved, joined].iter().all(|other| open(2, Some(other)).is_err()));
        assert_eq!(number_of(&sealed.ciphertext), Some([1; NUMBER]));
        assert_eq!(number_of(&key(1).seal(&[2; 40], 0).unwrap().ciphertext), None);
    }

    #[test]
    fn only_values_that_are_matched_tell_that_they_are_equal() {
        let seal = |first: u8, value: &[u8], position| key(first).seal(value, position).unwrap();
        assert_eq!(seal(1, b"a", 1), seal(1, b"a", 1));
        assert_ne!(seal(1, b"a", 1), seal(1, b"b", 1));
        assert_ne!(seal(1, b"a", 1), seal(1, b"a", 2));
        assert_ne!(seal(1, b"a", 1), seal(2, b"a", 1));
        let hide = |number, position| key(1).hide(b"a", position, &tuple(number, b"Meier")).unwrap();
        assert_ne!(hide(1, 1), hide(2, 1));
        assert_ne!(hide(1, 1).fingerprint, hide(1, 2).fingerprint);
        assert_ne!(hide(1, 1).ciphertext, hide(1, 2).ciphertext);
        assert_ne!(SealingKey::number(), SealingKey::number());
    }

    #[test]
    fn what_was_altered_does_not_open() {
        let of = tuple(1, b"Meier");
        for sealed in [key(1).seal(b"value", 1).unwrap(), key(1).hide(b"value", 1, &of).unwrap()] {
            let opens = |sealed: &Sealed| key(1).open(sealed, 1, Some(&of)).is_ok();
            assert!(opens(&sealed));
            for at in 0..sealed.ciphertext.len() {
                let mut altered = sealed.clone();
                altered.ciphertext[at] ^= 3; // makes one kind the other, too
                assert!(!opens(&altered), "{at}");
                altered.ciphertext.truncate(at);
                assert!(!opens(&altered), "{at}");
            }
            assert!(!opens(&Sealed { fingerprint: [0; FINGERPRINT], ..sealed.clone() }));
        }
    }

    #[test]
    fn what_earlier_versions_sealed_is_refused_by_name() {
        for nonce in [[0; NUMBER], [1; NUMBER], [2; NUMBER], [77; NUMBER]] {
            let earlier = key(1).encrypt(b"value", nonce.to_vec(), nonce, EARLIER).unwrap();
            assert_eq!(key(1).open(&earlier, 1, None), Err(NotOpened::Earlier));
            assert_eq!(key(1).open(&earlier, 1, Some(&tuple(2, b"Meier"))), Err(NotOpened::Earlier));
            assert_eq!(key(2).open(&earlier, 1, Some(&tuple(2, b"Meier"))), Err(NotOpened::Other));
        }
    }
}
