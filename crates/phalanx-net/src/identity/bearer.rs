//! Bearer tokens authenticate a user to services that speak HTTP, because HTTP clients know neither links nor certificates of a grid. Any
//! client that presents a token acts as its user.
//!
//! ```text
//! "phalanx-bearer-", then base64url of:  length, the user's name | 65 bytes: the user's public key
//!                                        | 8 bytes: end, in seconds since 1970 | 16 random bytes | signature
//! ```
//!
//! The user's key signs the expiry and the grid, so a token needs no hub to make. The hub checks that the key belongs to a member. So a
//! token becomes invalid with the membership of its user.

use super::{IdentityError, Member, Role, fingerprint, role_and_name, to_hex};
use crate::identity::authority::{LONGEST_NAME, PublicKey};
use phalanx_core::hub::{from_letters, to_letters};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::pki_types::{CertificateDer, UnixTime};
use std::time::Duration;

const PREFIX: &str = "phalanx-bearer-";
/// Prefix of the signed text (domain separation). A user's key signs no other text with this prefix.
const TITLE: &str = "phalanx bearer token of ";
/// Longest validity of a token: 30 days.
pub const LONGEST_BEARER: Duration = Duration::from_secs(30 * 24 * 3600);

/// The contents of a valid token. The caller must check that the key is still that of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    /// The user's name.
    pub user: String,
    /// The digest of the user's public key.
    pub key: String,
    /// The expiry, in seconds since 1970.
    pub until: u64,
}

impl Member {
    /// Makes a token of this user.
    ///
    /// # Errors
    /// This member is not a user, or is a process that acts for one, or the time is too long.
    pub fn bearer(&self, lasts: Duration) -> Result<String, IdentityError> {
        let (role, name) = role_and_name(&self.own.certificate)?;
        if self.acts.is_some() || role != Role::User.name() {
            return Err(IdentityError::Bearer("only a user makes one, with the user's own key"));
        }
        if lasts > LONGEST_BEARER {
            return Err(IdentityError::Bearer("a token is good for 30 days at most"));
        }
        let until = UnixTime::now().as_secs() + lasts.as_secs();
        let (key, nonce) = (PublicKey::of(&self.own.certificate)?, super::random_token());
        let signature = self.own.sign(to_sign(&self.authority, &name, until, &nonce).as_bytes())?;
        let mut bytes = vec![name.len() as u8];
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(key.point());
        bytes.extend_from_slice(&until.to_be_bytes());
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&signature);
        Ok(format!("{PREFIX}{}", to_letters(&bytes)))
    }

    /// Reads a token of this member's grid. The caller checks that the key is that of the user.
    ///
    /// # Errors
    /// The token is malformed, its signature is wrong, or it has expired.
    pub fn read_bearer(&self, token: &str) -> Result<Bearer, IdentityError> {
        let parts = token.strip_prefix(PREFIX).and_then(from_letters);
        let parts = parts.as_deref().and_then(Parts::of).ok_or(IdentityError::Bearer("it is none, or not whole"))?;
        let Parts { user, point, until, nonce, signature } = parts;
        let signed = to_sign(&self.authority, user, until, nonce);
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
            .verify(signed.as_bytes(), signature)
            .map_err(|_| IdentityError::Bearer("it is another grid's, or was changed"))?;
        let now = UnixTime::now().as_secs();
        if until <= now {
            return Err(IdentityError::Bearer("its time is over; make a new one: phalanx token"));
        }
        // The margin of a day is for clocks that are wrong. The check bounds every token's life.
        if until - now > LONGEST_BEARER.as_secs() + 24 * 3600 {
            return Err(IdentityError::Bearer("it is for too long a time"));
        }
        let key = fingerprint(&CertificateDer::from(point.to_vec()));
        Ok(Bearer { user: user.to_owned(), key, until })
    }
}

/// The parts of a token.
struct Parts<'a> {
    user: &'a str,
    point: &'a [u8; 65],
    until: u64,
    nonce: &'a [u8; 16],
    signature: &'a [u8],
}

impl Parts<'_> {
    fn of(bytes: &[u8]) -> Option<Parts<'_>> {
        let (length, rest) = bytes.split_first()?;
        let (user, rest) = rest.split_at_checked(usize::from(*length))?;
        let (point, rest) = rest.split_first_chunk::<65>()?;
        let (until, rest) = rest.split_first_chunk::<8>()?;
        let (nonce, signature) = rest.split_first_chunk::<16>()?;
        let user = std::str::from_utf8(user).ok().filter(|it| it.len() <= LONGEST_NAME && !it.contains('\n'))?;
        Some(Parts { user, point, until: u64::from_be_bytes(*until), nonce, signature })
    }
}

/// The text that the user's key signs.
fn to_sign(authority: &CertificateDer<'_>, user: &str, until: u64, nonce: &[u8; 16]) -> String {
    format!("{TITLE}{}\nuser {user}\nuntil {until}\nnonce {}\n", fingerprint(authority), to_hex(nonce))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Authority;

    const HOUR: Duration = Duration::from_secs(3600);

    fn member(authority: &Authority, role: Role, name: &str) -> Member {
        let pem = authority.issue(role, name).expect("an identity");
        Member::parse(&pem, role).expect("a member")
    }

    #[test]
    fn a_token_names_its_user_and_the_key() {
        let grid = Authority::create().expect("a grid");
        let (ada, hub) = (member(&grid, Role::User, "ada"), member(&grid, Role::Hub, "hub"));
        let bearer = hub.read_bearer(&ada.bearer(HOUR).expect("a token")).expect("is good");
        let key = super::super::key_of(&ada.own.certificate).expect("a key");
        assert_eq!((bearer.user.as_str(), bearer.key), ("ada", key));
        let left = bearer.until - UnixTime::now().as_secs();
        assert!((3590..=3600).contains(&left), "{left}");
        assert_ne!(ada.bearer(HOUR).expect("one"), ada.bearer(HOUR).expect("another"));
    }

    #[test]
    fn a_token_that_was_changed_or_is_of_another_grid_is_refused() {
        let (grid, other) = (Authority::create().expect("a grid"), Authority::create().expect("a grid"));
        let (ada, hub) = (member(&grid, Role::User, "ada"), member(&grid, Role::Hub, "hub"));
        let token = ada.bearer(HOUR).expect("a token");
        assert!(member(&other, Role::Hub, "hub").read_bearer(&token).is_err());
        let bytes = from_letters(token.strip_prefix(PREFIX).expect("begins so")).expect("letters");
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let read = hub.read_bearer(&format!("{PREFIX}{}", to_letters(&changed)));
                assert!(read.is_err(), "byte {at}, bit {bit}: {read:?}");
            }
            assert!(hub.read_bearer(&format!("{PREFIX}{}", to_letters(&bytes[..at]))).is_err());
        }
        for wrong in ["", PREFIX, "phalanx-bearer-!", &token[1..]] {
            assert!(hub.read_bearer(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_users_make_tokens_and_not_for_ever() {
        let grid = Authority::create().expect("a grid");
        let (ada, ws7) = (member(&grid, Role::User, "ada"), member(&grid, Role::Executor, "ws7"));
        assert!(ws7.bearer(HOUR).is_err());
        assert!(ada.bearer(LONGEST_BEARER + HOUR).is_err());
        let ended = ada.bearer(Duration::ZERO).expect("a token");
        let error = member(&grid, Role::Hub, "hub").read_bearer(&ended).expect_err("has ended");
        assert!(error.to_string().contains("its time is over"), "{error}");
    }
}
