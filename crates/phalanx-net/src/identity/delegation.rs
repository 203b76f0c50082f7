//! Delegated certificates: how a process at an executor acts for its user toward other members.
//!
//! The process has a key and a certificate of its own, which was made where it runs. The user's key signs a text, the
//! delegation. It names that certificate, the executor, the services that may be used in the user's name, and an end. In the
//! handshake the process shows four certificates: its own, the user's, the executor's, and the text in place of a fourth.
//! A peer that accepts them knows both members, and that the user's program named this process.

mod lasting;
mod member;
mod scope;
mod text;

pub use lasting::{Lasting, Until};
pub(super) use member::Acts;
pub use scope::{Extent, Scope, Service};

use super::members::Members;
use super::proof::verify_proofs;
use super::{IdentityError, Role, fingerprint, role_and_name};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DistinguishedName, OtherError};
use std::sync::Arc;
use std::time::Duration;
use webpki::EndEntityCert;
use webpki::ring::ECDSA_P256_SHA256;

/// Longest time that a delegation may have left. A server refuses what a user has signed for longer.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Longest text of a delegation, in bytes.
const MOST: usize = 16 << 10;
/// What a delegated process shows: its certificate, the user's, the executor's, and the delegation.
const SHOWN: usize = 4;

/// The user's word that a process may act for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    /// The fingerprint of the process's certificate.
    pub holder: String,
    /// The fingerprint of the user's certificate.
    pub user: String,
    /// The fingerprint of the certificate of the executor at which the process runs.
    pub executor: String,
    /// The token of the user's program.
    pub program: [u8; 16],
    /// The end, in seconds since 1970.
    pub until: u64,
    /// What the process may use in the user's name.
    pub scope: Scope,
}

impl Delegation {
    /// Whether its time is over.
    pub fn has_ended(&self) -> bool {
        self.until <= UnixTime::now().as_secs()
    }
}

/// A process that acts for a user, as a peer knows it once everything that it has shown was checked.
#[derive(Debug, Clone)]
pub struct Acting {
    /// The user's name.
    pub user: String,
    /// The name of the executor at which the process runs.
    pub executor: String,
    /// The user's word.
    pub delegation: Delegation,
}

impl Acting {
    /// Checks everything that a delegated process has shown, except that it holds its key and that nobody was revoked.
    ///
    /// # Errors
    /// The delegation does not hold, or does not hold now.
    pub(super) fn check(
        shown: &[CertificateDer<'_>],
        authority: &CertificateDer<'_>,
        members: &dyn ClientCertVerifier,
        now: UnixTime,
    ) -> Result<Acting, IdentityError> {
        let [holder, user, executor, text] = shown else { return Err(wrong("it is not whole")) };
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= MOST);
        let (delegation, signed, signature) =
            Delegation::parse(text.ok_or_else(|| wrong("it is too long"))?, authority)?;
        let named = [(holder, &delegation.holder), (user, &delegation.user), (executor, &delegation.executor)];
        if named.iter().any(|(certificate, named)| fingerprint(certificate) != **named) {
            return Err(wrong("it is another one's"));
        }
        let name_of = |certificate: &CertificateDer<'_>, role: Role| {
            members.verify_client_cert(certificate, &[], now)?;
            match role_and_name(certificate)? {
                (is, name) if is == role.name() => Ok(name),
                _ => Err(wrong("only a user delegates, and only to a process at an executor")),
            }
        };
        let (user_name, executor) = (name_of(user, Role::User)?, name_of(executor, Role::Executor)?);
        let key = EndEntityCert::try_from(user).map_err(|_| wrong("the user's certificate is damaged"))?;
        let proved = key.verify_signature(ECDSA_P256_SHA256, signed.as_bytes(), &signature);
        proved.map_err(|_| wrong("the user has not signed it so"))?;
        check_nameless(holder)?;
        match delegation.until.checked_sub(now.as_secs()) {
            None | Some(0) => Err(IdentityError::DelegationEnded),
            Some(left) if left > LONGEST.as_secs() => Err(wrong("it is for too long a time")),
            Some(_) => Ok(Acting { user: user_name, executor, delegation }),
        }
    }
}

/// Checks that a process's certificate has no name. It is the process that makes it, and a name in it could be taken for
/// that of a member.
fn check_nameless(holder: &CertificateDer<'_>) -> Result<(), IdentityError> {
    let parsed = EndEntityCert::try_from(holder).map_err(|_| wrong("its process's certificate is damaged"))?;
    match parsed.valid_dns_names().next() {
        None => Ok(()),
        Some(_) => Err(wrong("its process's certificate has a name")),
    }
}

/// Whether a peer shows a delegation, rather than a certificate of its own and its issuers. No certificate begins as the text does.
pub(crate) fn is_delegated(shown: &[CertificateDer<'_>]) -> bool {
    shown.len() == SHOWN && shown[SHOWN - 1].starts_with(text::TITLE.as_bytes())
}

pub(super) fn wrong(why: &'static str) -> IdentityError {
    IdentityError::Delegation(why)
}

/// Accepts members by their certificates, and processes to which a user has delegated. Which services a delegation is good
/// for is checked after the handshake.
#[derive(Debug)]
pub(super) struct Verifier {
    members: Arc<Members>,
    authority: CertificateDer<'static>,
}

impl Verifier {
    pub fn new(members: Arc<Members>, authority: CertificateDer<'static>) -> Verifier {
        Verifier { members, authority }
    }

    /// Verifies members themselves.
    pub fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// Who has shown this in a handshake, if it was a delegation. It is checked again, because a session that is resumed may
    /// outlast a delegation.
    pub fn acting(&self, shown: &[CertificateDer<'_>], now: UnixTime) -> Result<Option<Acting>, IdentityError> {
        match is_delegated(shown) {
            true => Acting::check(shown, &self.authority, &*self.members, now).map(Some),
            false => Ok(None),
        }
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.members.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        presented: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let shown: Vec<_> = std::iter::once(presented).chain(others).cloned().collect();
        match self.acting(&shown, now) {
            Ok(None) => self.members.verify_client_cert(presented, others, now),
            Ok(Some(_)) => Ok(ClientCertVerified::assertion()),
            Err(IdentityError::Tls(error)) => Err(error),
            Err(error) => Err(CertificateError::Other(OtherError(Arc::new(error))).into()),
        }
    }

    verify_proofs!();
}

#[cfg(test)]
mod tests;
