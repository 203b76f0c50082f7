//! Values that only the holders of a key can read, but that a space can still compare (DepSpace; paper 002, section 2).
//!
//! The cipher is AES-256-GCM-SIV (RFC 8452). Its tag is a fingerprint of the value that cannot be made or checked
//! without the key. With the same nonce, equal values give equal bytes, which is all that others learn. A space
//! compares them like any bytes. A value that is never matched gets a random nonce and does not even reveal that.

use aes_gcm_siv::aead::{Aead, KeyInit, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

/// Bytes of a key.
pub const KEY: usize = 32;
/// Bytes of a fingerprint.
pub const FINGERPRINT: usize = 16;

const NONCE: usize = 12;
const PURPOSE: &[u8] = b"phalanx sealed value";

/// A sealed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The authentication tag. Equal values that were sealed as `matched` with the same key have the same one.
    pub fingerprint: [u8; FINGERPRINT],
    /// The nonce, followed by the encrypted value.
    pub ciphertext: Vec<u8>,
}

/// A key that seals and opens values.
pub struct SealingKey(Aes256GcmSiv);

impl SealingKey {
    /// The key made from this secret.
    pub fn new(secret: &[u8; KEY]) -> SealingKey {
        SealingKey(Aes256GcmSiv::new(secret.into()))
    }

    /// A new random secret. Panics if the system has no random numbers.
    pub fn random() -> Zeroizing<[u8; KEY]> {
        Zeroizing::new(random())
    }

    /// Seals a value. If it is `matched`, the result is the same every time. `None`: the value is longer than 64 GiB.
    pub fn seal(&self, value: &[u8], matched: bool) -> Option<Sealed> {
        let nonce: [u8; NONCE] = if matched { [0; NONCE] } else { random() };
        let sealed = self.0.encrypt(&Nonce::from(nonce), Payload { msg: value, aad: PURPOSE }).ok()?;
        let (encrypted, fingerprint) = sealed.split_last_chunk()?;
        Some(Sealed { fingerprint: *fingerprint, ciphertext: [&nonce, encrypted].concat() })
    }

    /// Opens a value. `None`: it was sealed with another key, or altered.
    pub fn open(&self, sealed: &Sealed) -> Option<Vec<u8>> {
        let (nonce, encrypted) = sealed.ciphertext.split_first_chunk::<NONCE>()?;
        let message = [encrypted, &sealed.fingerprint].concat();
        self.0.decrypt(&Nonce::from(*nonce), Payload { msg: &message, aad: PURPOSE }).ok()
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
        SealingKey::new(&[first; KEY])
    }

    #[test]
    fn what_is_sealed_is_opened_with_the_same_key_only() {
        for matched in [true, false] {
            let sealed = key(1).seal(b"value", matched).unwrap();
            assert_eq!(key(1).open(&sealed).unwrap(), b"value");
            assert_eq!(key(2).open(&sealed), None);
            assert!(!sealed.ciphertext.windows(5).any(|part| part == b"value"));
        }
    }

    #[test]
    fn only_values_that_are_matched_tell_that_they_are_equal() {
        assert_eq!(key(1).seal(b"a", true), key(1).seal(b"a", true));
        assert_ne!(key(1).seal(b"a", true), key(1).seal(b"b", true));
        assert_ne!(key(1).seal(b"a", true), key(2).seal(b"a", true));
        assert_ne!(key(1).seal(b"a", false), key(1).seal(b"a", false));
    }

    #[test]
    fn what_was_altered_does_not_open() {
        let sealed = key(1).seal(b"value", true).unwrap();
        for at in 0..sealed.ciphertext.len() {
            let mut altered = sealed.clone();
            altered.ciphertext[at] ^= 1;
            assert_eq!(key(1).open(&altered), None);
        }
        let altered = Sealed { fingerprint: [0; FINGERPRINT], ..sealed.clone() };
        assert_eq!(key(1).open(&altered), None);
        for length in 0..NONCE + 2 {
            let cut = Sealed { ciphertext: sealed.ciphertext[..length].to_vec(), ..sealed.clone() };
            assert_eq!(key(1).open(&cut), None);
        }
    }
}
