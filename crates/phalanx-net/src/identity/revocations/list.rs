//! The text of a list: a title with a number, a line for each certificate, and the authority's signature of all that.

use crate::identity::{IdentityError, Role, fingerprint, from_hex, to_hex};
use rustls::pki_types::CertificateDer;
use std::fmt::Write;
use webpki::EndEntityCert;
use webpki::ring::ECDSA_P256_SHA256;

/// The title's first words. Whatever else the authority signs is DER, which begins with another byte, so nothing else passes
/// for a list.
const TITLE: &str = "phalanx revoked";
const SIGNATURE: &str = "\nsignature ";

/// A list of revoked certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevokedList {
    /// It is higher in each new list.
    pub number: u64,
    /// The certificates.
    pub entries: Vec<Revoked>,
}

/// A revoked certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// The day and time, as text without spaces.
    pub when: String,
    /// The member's role.
    pub role: Role,
    /// The member's name.
    pub name: String,
    /// The certificate's digest, as [`fingerprint`] gives it.
    pub fingerprint: String,
}

impl RevokedList {
    /// Parses the text of a list. `None`: the list is another grid's.
    ///
    /// # Errors
    /// It is no list, or this authority has not signed it.
    pub fn parse(text: &str, authority: &CertificateDer<'_>) -> Result<Option<RevokedList>, IdentityError> {
        let whole = || wrong("it is none, or not whole");
        let end = text.rfind(SIGNATURE).ok_or_else(whole)? + 1;
        let (signed, signature) = (&text[..end], &text[end + SIGNATURE.len() - 1..]);
        let mut lines = signed.lines();
        let title = lines.next().and_then(|title| title.strip_prefix(TITLE)).ok_or_else(whole)?;
        let [number, "of", grid] = title.split_whitespace().collect::<Vec<_>>()[..] else { return Err(whole()) };
        if grid != fingerprint(authority) {
            return Ok(None);
        }
        let signature = from_hex(signature.strip_suffix('\n').unwrap_or(signature)).ok_or_else(whole)?;
        let key = EndEntityCert::try_from(authority).map_err(|_| IdentityError::DamagedAuthority("certificate"))?;
        let proved = key.verify_signature(ECDSA_P256_SHA256, signed.as_bytes(), &signature);
        proved.map_err(|_| wrong("the grid's authority has not signed it so"))?;
        let number = number.parse().map_err(|_| whole())?;
        let entries = lines.map(Revoked::parse).collect::<Option<_>>().ok_or_else(whole)?;
        Ok(Some(RevokedList { number, entries }))
    }

    /// The text that the authority with this certificate signs.
    fn to_sign(&self, authority: &CertificateDer<'_>) -> String {
        let mut text = format!("{TITLE} {} of {}\n", self.number, fingerprint(authority));
        for Revoked { when, role, name, fingerprint } in &self.entries {
            let _ = writeln!(text, "{when} {} {name} {fingerprint}", role.name());
        }
        text
    }

    /// The text of the list, signed by `sign`.
    pub(in crate::identity) fn signed<E>(
        &self,
        authority: &CertificateDer<'_>,
        sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<String, E> {
        let text = self.to_sign(authority);
        let signature = sign(text.as_bytes())?;
        Ok(format!("{}{SIGNATURE}{}\n", text.trim_end(), to_hex(&signature)))
    }
}

impl Revoked {
    fn parse(line: &str) -> Option<Revoked> {
        let [when, role, name, fingerprint] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let is_digest = fingerprint.len() == 64 && from_hex(fingerprint).is_some();
        let role = role.parse().ok().filter(|_| is_digest)?;
        let [when, name, fingerprint] = [when, name, fingerprint].map(str::to_owned);
        Some(Revoked { when, role, name, fingerprint })
    }
}

fn wrong(why: &'static str) -> IdentityError {
    IdentityError::Revocations(why)
}
