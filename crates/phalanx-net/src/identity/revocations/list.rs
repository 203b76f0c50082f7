//! The text of a list: a title with a number, a line for each certificate, and a signature of all that. The signature is the root's, or
//! that of a hub. A hub adds its own certificate and those of its issuers, so that every member of the grid can verify the list.

use crate::identity::members::{LONGEST_SHOWN, MOST_SHOWN, Members};
use crate::identity::{IdentityError, LONGEST_LIST, Role, fingerprint, from_hex, role_and_name, to_hex};
use rustls::pki_types::{CertificateDer, UnixTime};
use std::collections::HashSet;
use std::fmt::Write;
use webpki::EndEntityCert;
use webpki::ring::ECDSA_P256_SHA256;

/// The title's first words. Whatever else an authority or a hub signs begins with another byte or word: certificates and requests are
/// DER, and the text of a handshake begins with 64 spaces. So nothing else passes for a list.
const TITLE: &str = "phalanx revoked";
/// Begins the line of a certificate of the hub that has signed the list.
const BY: &str = "by ";
/// How long a certificate that has ended stays in lists, in seconds: 30 days. Clocks differ, and members may be away.
const REMEMBERED: u64 = 30 * 24 * 3600;
const SIGNATURE: &str = "\nsignature ";
/// Highest number of a list that a hub has signed. So the root always has a higher one for its own, which names the hub.
const MOST_BY_HUB: u64 = 1 << 62;

/// A list of revoked certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevokedList {
    /// It is higher in each new list.
    pub number: u64,
    /// The certificates.
    pub entries: Vec<Revoked>,
    /// The fingerprints of the certificates of the hub that has signed the list and of its issuers. Empty: the root has signed it.
    pub signers: Vec<String>,
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
    /// When the certificate ends, in seconds since 1970. A hub leaves it out of its lists some time later. `None`: it stays in them.
    pub until: Option<u64>,
}

impl RevokedList {
    /// Parses the text of a list. `authority`: the certificate of the grid's root. `None`: the list is another grid's.
    ///
    /// # Errors
    /// It is no list, or neither this root nor a hub of its grid has signed it.
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
        let lines: Vec<_> = lines.collect();
        let (entries, by) = lines.split_at(lines.iter().position(|line| line.starts_with(BY)).unwrap_or(lines.len()));
        let hub = hub_in(by)?;
        let signer = hub.first().unwrap_or(authority);
        let key = EndEntityCert::try_from(signer).map_err(|_| IdentityError::DamagedAuthority("certificate"))?;
        let proved = key.verify_signature(ECDSA_P256_SHA256, signed.as_bytes(), &signature);
        proved.map_err(|_| wrong("neither the grid's authority nor a hub has signed it so"))?;
        let number = number.parse().map_err(|_| whole())?;
        let entries = entries.iter().map(|line| Revoked::parse(line)).collect::<Option<_>>().ok_or_else(whole)?;
        let list = RevokedList { number, entries, signers: signers(&hub, authority)? };
        list.check_signers().map(|()| Some(list))
    }

    /// A list that follows all these lists of the grid with this root, in whatever order: it names the certificates of each and these,
    /// and its number is higher than theirs.
    pub(in crate::identity) fn following(
        earlier: &[&str],
        revoked: Vec<Revoked>,
        authority: &CertificateDer<'_>,
    ) -> Result<RevokedList, IdentityError> {
        let mut list = RevokedList::default();
        let mut entries = Vec::new();
        for text in earlier {
            let earlier = RevokedList::parse(text, authority)?.ok_or(wrong("it is another grid's"))?;
            list.number = list.number.max(earlier.number);
            entries.extend(earlier.entries);
        }
        list.number = list.number.checked_add(1).ok_or(wrong("there is no higher number"))?;
        let mut known = HashSet::new();
        entries.extend(revoked);
        let now = UnixTime::now().as_secs();
        let counts = |entry: &Revoked| entry.until.is_none_or(|until| now.saturating_sub(until) < REMEMBERED);
        entries.retain(counts);
        list.entries = entries.into_iter().filter(|entry| known.insert(entry.fingerprint.clone())).collect();
        Ok(list)
    }

    /// Checks what a hub may not sign.
    fn check_signers(&self) -> Result<(), IdentityError> {
        let names_own = || self.entries.iter().any(|entry| self.signers.contains(&entry.fingerprint));
        match self.signers.is_empty() {
            false if names_own() => Err(wrong("it names the hub that has signed it")),
            false if self.number > MOST_BY_HUB => Err(wrong("only the grid's authority signs a number that high")),
            _ => Ok(()),
        }
    }

    /// The text that is signed. `hub`: the certificates of the hub that signs and of its issuers. Empty: the root signs.
    fn to_sign(&self, authority: &CertificateDer<'_>, hub: &[CertificateDer<'_>]) -> String {
        let mut text = format!("{TITLE} {} of {}\n", self.number, fingerprint(authority));
        for Revoked { when, role, name, fingerprint, until } in &self.entries {
            let _ = write!(text, "{when} {} {name} {fingerprint}", role.name());
            let _ = until.map_or(Ok(()), |until| write!(text, " {until}"));
            text.push('\n');
        }
        for certificate in hub {
            let _ = writeln!(text, "{BY}{}", to_hex(certificate));
        }
        text
    }

    /// The text of the list, which `sign` signs with the root's key.
    ///
    /// # Errors
    /// The list is too long, or cannot be signed.
    pub(in crate::identity) fn signed(
        &self,
        authority: &CertificateDer<'_>,
        sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, IdentityError>,
    ) -> Result<String, IdentityError> {
        self.signed_by(&[], authority, sign)
    }

    /// The same, which `sign` signs with the key of the hub with the first of these certificates. The others are those of its issuers.
    ///
    /// # Errors
    /// The list names the hub or an issuer of it, or is too long, or cannot be signed.
    pub(in crate::identity) fn signed_by(
        &self,
        hub: &[CertificateDer<'_>],
        authority: &CertificateDer<'_>,
        sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, IdentityError>,
    ) -> Result<String, IdentityError> {
        let list = RevokedList { signers: hub.iter().map(fingerprint).collect(), ..self.clone() };
        list.check_signers()?;
        let text = list.to_sign(authority, hub);
        let signature = sign(text.as_bytes())?;
        let text = format!("{}{SIGNATURE}{}\n", text.trim_end(), to_hex(&signature));
        match text.len() as u64 <= LONGEST_LIST {
            true => Ok(text),
            false => Err(IdentityError::LongList(LONGEST_LIST)), // members would read none of it, and let nobody in
        }
    }
}

/// The certificates in these lines: a hub's, and those of its issuers. Empty: there are no lines.
fn hub_in(lines: &[&str]) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let certificate =
        |line: &&str| line.strip_prefix(BY).filter(|hex| hex.len() <= 2 * LONGEST_SHOWN).and_then(from_hex);
    let hub: Option<Vec<_>> = lines.iter().map(|line| certificate(line).map(CertificateDer::from)).collect();
    let hub = hub.filter(|hub| hub.len() <= 1 + MOST_SHOWN);
    hub.ok_or_else(|| wrong("it is none, or not whole"))
}

/// The fingerprints of the certificates of a hub and of its issuers, which are verified as of now, or of the end of the hub's certificate
/// if that has passed. So a list stays good.
fn signers(hub: &[CertificateDer<'_>], authority: &CertificateDer<'_>) -> Result<Vec<String>, IdentityError> {
    let Some((hub, issuers)) = hub.split_first() else { return Ok(Vec::new()) };
    let members = Members::new(&authority.clone().into_owned(), Vec::new())?;
    let path = members.path(hub, issuers).map_err(|_| wrong("a hub of another grid has signed it"))?;
    match role_and_name(hub) {
        Ok((role, _)) if role == Role::Hub.name() => {
            Ok(std::iter::once(fingerprint(hub)).chain(path.iter().map(fingerprint)).collect())
        }
        _ => Err(wrong("a member has signed it that is no hub")),
    }
}

impl Revoked {
    fn parse(line: &str) -> Option<Revoked> {
        let words: Vec<_> = line.split(' ').collect();
        let (words, until) = match &words[..] {
            [words @ .., until] if words.len() == 4 => (words, Some(until.parse().ok()?)),
            words => (words, None),
        };
        let [when, role, name, fingerprint] = *words else { return None };
        let is_digest = fingerprint.len() == 64 && from_hex(fingerprint).is_some();
        let role = role.parse().ok().filter(|_| is_digest)?;
        let [when, name, fingerprint] = [when, name, fingerprint].map(str::to_owned);
        Some(Revoked { when, role, name, fingerprint, until })
    }
}

fn wrong(why: &'static str) -> IdentityError {
    IdentityError::Revocations(why)
}
