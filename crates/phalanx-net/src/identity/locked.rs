//! A private key in a file, locked by a passphrase: AES-256-GCM under a key that PBKDF2 makes of the passphrase.

use super::IdentityError;
use pem::{EncodeConfig, LineEnding, Pem};
use rcgen::KeyPair;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::pbkdf2;
use ring::rand::{SecureRandom, SystemRandom};
use std::num::NonZeroU32;
use zeroize::{Zeroize, Zeroizing};

/// The PEM label of a locked key, which the tag of its bytes covers too.
const LABEL: &str = "PHALANX LOCKED KEY";
const SALT: usize = 16;
/// Rounds of PBKDF2 with HMAC-SHA-256, as OWASP recommends: each guess takes about a fifth of a second.
const ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).expect("is not 0");

/// A private key as PEM. No other copy of it stays in memory.
pub(super) fn to_pem(key: &KeyPair) -> Zeroizing<String> {
    encode("PRIVATE KEY", key.serialized_der().to_vec())
}

/// Bytes as PEM. No other copy of them stays in memory.
pub(super) fn encode(label: &str, bytes: Vec<u8>) -> Zeroizing<String> {
    let whole = Pem::new(label, bytes);
    let text = pem::encode_config(&whole, EncodeConfig::new().set_line_ending(LineEnding::LF));
    whole.into_contents().zeroize();
    text.into()
}

/// Whether the text begins with a locked key.
pub(super) fn is_locked(text: &str) -> bool {
    text.trim_start().starts_with(&format!("-----BEGIN {LABEL}-----"))
}

/// Locks the text of a private key. Returns PEM.
pub(super) fn lock(key: &str, passphrase: &str) -> Result<Zeroizing<String>, IdentityError> {
    let mut head = [0; SALT + NONCE_LEN];
    SystemRandom::new().fill(&mut head).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    let (salt, nonce) = parts(&head)?;
    let mut sealed = key.as_bytes().to_vec();
    let done = cipher(salt, passphrase).seal_in_place_append_tag(nonce, Aad::from(LABEL), &mut sealed);
    done.map_err(|_| IdentityError::DamagedAuthority("private key"))?;
    Ok(encode(LABEL, [&head[..], &sealed].concat()))
}

/// Opens what [`lock`] returned.
pub(super) fn unlock(text: &str, passphrase: &str) -> Result<Zeroizing<String>, IdentityError> {
    let damaged = || IdentityError::DamagedAuthority("private key");
    let mut bytes = Zeroizing::new(pem::parse(text).map_err(|_| damaged())?.into_contents());
    let (head, sealed) = bytes.split_at_mut_checked(SALT + NONCE_LEN).ok_or_else(damaged)?;
    let (salt, nonce) = parts(head)?;
    let opened = cipher(salt, passphrase).open_in_place(nonce, Aad::from(LABEL), sealed);
    let opened = opened.map_err(|_| IdentityError::Passphrase)?;
    Ok(std::str::from_utf8(opened).map_err(|_| damaged())?.to_owned().into())
}

fn parts(head: &[u8]) -> Result<(&[u8], Nonce), IdentityError> {
    let (salt, nonce) = head.split_at(SALT);
    let nonce = Nonce::try_assume_unique_for_key(nonce);
    Ok((salt, nonce.map_err(|_| IdentityError::DamagedAuthority("private key"))?))
}

fn cipher(salt: &[u8], passphrase: &str) -> LessSafeKey {
    let mut key = Zeroizing::new([0; 32]);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, salt, passphrase.as_bytes(), &mut *key);
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).expect("is as long as a key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_key_opens_with_its_passphrase_only() {
        let locked = lock("the key", "long and odd").expect("can be locked");
        assert!(is_locked(&locked) && !locked.contains("the key"));
        assert_eq!(unlock(&locked, "long and odd").expect("is its passphrase").as_str(), "the key");
        assert!(matches!(unlock(&locked, "long and old"), Err(IdentityError::Passphrase)));
        assert_ne!(locked, lock("the key", "long and odd").expect("can be locked"), "each has its own salt");
    }

    #[test]
    fn damage_is_an_error() {
        let locked = lock("the key", "it").expect("can be locked");
        for end in [0, 10, 40, locked.len() - 30] {
            assert!(unlock(&locked[..end], "it").is_err());
        }
        let short = pem::encode(&Pem::new(LABEL, vec![0; 20]));
        assert!(matches!(unlock(&short, "it"), Err(IdentityError::DamagedAuthority(_))));
    }
}
