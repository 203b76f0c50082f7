//! Verifies members of a grid by their certificates.
//!
//! The grid's root signs a member's certificate, or an issuer does: an authority whose own certificate the root, or an issuer above,
//! has signed. A peer shows the issuers of its certificate. Delegations and renewed certificates carry none, so a member knows the
//! issuers of its own identity file, and learns those of peers that it has verified.

use super::proof::verify_proofs;
use super::{IdentityError, Validity, fingerprint, provider};
use crate::sync::lock;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DistinguishedName, RootCertStore};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage};

/// Most issuers that a peer may show beside its own certificate, and that an identity file may have. The longest path has two.
pub(super) const MOST_SHOWN: usize = 4;
/// Longest certificate that a peer may show, in bytes. Those of an authority have about 500.
pub(super) const LONGEST_SHOWN: usize = 4 << 10;
/// Most issuers that are learned from peers. A further one displaces the oldest. A grid has one for each hub.
const MOST_LEARNED: usize = 16;

/// The bytes of the extension basicConstraints of an authority, up to its path length.
const PATH_LENGTH: [u8; 17] =
    [0x06, 0x03, 0x55, 0x1d, 0x13, 0x01, 0x01, 0xff, 0x04, 0x08, 0x30, 0x06, 0x01, 0x01, 0xff, 0x02, 0x01];

/// Verifies the members of one grid, as clients and as servers.
#[derive(Debug)]
pub(super) struct Members {
    roots: Arc<RootCertStore>,
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<WebPkiServerVerifier>,
    /// Whether the root allows issuers. Those of grids before there were hubs do not.
    allows_issuers: bool,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The issuers of this member's identity file.
    own: Vec<CertificateDer<'static>>,
    learned: Vec<CertificateDer<'static>>,
    /// The fingerprints of revoked certificates. An issuer among them counts no more.
    revoked: HashSet<String>,
}

impl Members {
    /// Of the grid with this root. `issuers`: those of an identity file of this member, which need no proof: they only help to find
    /// a path to the root.
    pub fn new(
        root: &CertificateDer<'static>,
        issuers: Vec<CertificateDer<'static>>,
    ) -> Result<Arc<Members>, IdentityError> {
        let mut roots = RootCertStore::empty();
        roots.add(root.clone())?;
        let roots = Arc::new(roots);
        let damaged = |error: rustls::server::VerifierBuilderError| IdentityError::Damaged(error.to_string());
        let clients =
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider()).build().map_err(damaged)?;
        let servers =
            WebPkiServerVerifier::builder_with_provider(roots.clone(), provider()).build().map_err(damaged)?;
        let allows_issuers = path_length(root) != Some(0);
        let known = Mutex::new(Known { own: issuers, ..Known::default() });
        Ok(Arc::new(Members { roots, clients, servers, allows_issuers, known }))
    }

    /// The issuers that this member knows.
    pub fn issuers(&self) -> Vec<CertificateDer<'static>> {
        let known = lock(&self.known);
        known.own.iter().chain(&known.learned).cloned().collect()
    }

    /// The issuers between a member's certificate and the root, the one that has signed it first. Those of the path are among the
    /// ones that are `shown` and the known ones. The certificate is verified as of the time nearest to now at which it is good. Revoked
    /// issuers are in a path, too.
    ///
    /// # Errors
    /// It is no certificate of a member of this grid, or an issuer is not known.
    pub fn path(
        &self,
        certificate: &CertificateDer<'_>,
        shown: &[CertificateDer<'_>],
    ) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
        let validity = Validity::of(certificate, self)?;
        let at = UnixTime::now().as_secs().clamp(validity.from, validity.until.max(validity.from));
        let candidates = self.candidates(shown, |_, _| true)?;
        self.path_at(certificate, &candidates, UnixTime::since_unix_epoch(Duration::from_secs(at)))
    }

    /// Whether a peer that has shown these may have issuers.
    pub fn may_have_issuers(&self, shown: &[CertificateDer<'_>]) -> bool {
        let known = lock(&self.known);
        self.allows_issuers && !(shown.is_empty() && known.own.is_empty() && known.learned.is_empty())
    }

    /// Verifies a certificate of a member as of its end. That it has ended, or has not begun, is no error.
    ///
    /// # Errors
    /// It is no certificate of a member of this grid, or an issuer is revoked or not known.
    pub fn verify_at_end(
        &self,
        certificate: &CertificateDer<'_>,
        shown: &[CertificateDer<'_>],
    ) -> Result<(), IdentityError> {
        let end = UnixTime::since_unix_epoch(Duration::from_secs(Validity::of(certificate, self)?.until));
        self.verify_client_cert(certificate, shown, end)?;
        Ok(())
    }

    /// From now on, issuers with these fingerprints count no more.
    pub fn distrust(&self, revoked: HashSet<String>) {
        lock(&self.known).revoked = revoked;
    }

    /// Learns the issuers of a member's certificate, if they are verified.
    pub fn learn(&self, certificate: &CertificateDer<'_>, shown: &[CertificateDer<'_>]) {
        let is_known = |known: &Known, it: &CertificateDer<'_>| known.own.contains(it) || known.learned.contains(it);
        let known = lock(&self.known);
        if shown.iter().all(|it| is_known(&known, it)) {
            return;
        }
        drop(known);
        let Ok(path) = self.path(certificate, shown) else { return };
        let mut known = lock(&self.known);
        for issuer in path {
            if is_known(&known, &issuer) {
                continue;
            }
            if known.learned.len() >= MOST_LEARNED {
                known.learned.remove(0);
            }
            known.learned.push(issuer.into_owned());
        }
    }

    fn path_at(
        &self,
        certificate: &CertificateDer<'_>,
        candidates: &[CertificateDer<'_>],
        at: UnixTime,
    ) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
        let damaged = |error: webpki::Error| IdentityError::Damaged(error.to_string());
        let parsed = EndEntityCert::try_from(certificate).map_err(damaged)?;
        let (provider, usage) = (provider(), KeyUsage::client_auth());
        let algorithms = provider.signature_verification_algorithms.all;
        let path = parsed.verify_for_usage(algorithms, &self.roots.roots, candidates, at, usage, None, None);
        let path = path.map_err(damaged)?;
        Ok(path.intermediate_certificates().map(|it| it.der().into_owned()).collect())
    }

    /// The certificates among which the issuers of a peer are looked for: what it has shown, and the known ones.
    ///
    /// # Errors
    /// The peer has shown too much.
    fn candidates<'a>(
        &self,
        shown: &[CertificateDer<'a>],
        is_good: impl Fn(&Known, &CertificateDer<'_>) -> bool,
    ) -> Result<Vec<CertificateDer<'a>>, rustls::Error> {
        if shown.len() > MOST_SHOWN || shown.iter().any(|it| it.len() > LONGEST_SHOWN) {
            return Err(CertificateError::BadEncoding.into());
        }
        if !self.allows_issuers {
            return Ok(Vec::new());
        }
        let known = lock(&self.known);
        let all = shown.iter().chain(&known.own).chain(&known.learned);
        let mut candidates: Vec<CertificateDer<'a>> = Vec::new();
        for it in all.filter(|it| is_good(&known, it)) {
            if !candidates.contains(it) {
                candidates.push(it.clone());
            }
        }
        Ok(candidates)
    }

    fn good_candidates<'a>(&self, shown: &[CertificateDer<'a>]) -> Result<Vec<CertificateDer<'a>>, rustls::Error> {
        self.candidates(shown, |known, it| known.revoked.is_empty() || !known.revoked.contains(&fingerprint(it)))
    }
}

/// The path length in the certificate of an authority: how many issuers may be below it. `None`: there is no limit.
pub(super) fn path_length(authority: &CertificateDer<'_>) -> Option<u8> {
    let begin = authority.windows(PATH_LENGTH.len()).position(|bytes| bytes == PATH_LENGTH)?;
    authority.get(begin + PATH_LENGTH.len()).copied()
}

fn check_length(certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
    match certificate.len() <= LONGEST_SHOWN {
        true => Ok(()),
        false => Err(CertificateError::BadEncoding.into()),
    }
}

impl ClientCertVerifier for Members {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.clients.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        presented: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        check_length(presented)?;
        let verified = self.clients.verify_client_cert(presented, &self.good_candidates(others)?, now)?;
        self.learn(presented, others);
        Ok(verified)
    }

    verify_proofs!();
}

impl ServerCertVerifier for Members {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        check_length(presented)?;
        let verified = self.servers.verify_server_cert(presented, &self.good_candidates(others)?, name, ocsp, now)?;
        self.learn(presented, others);
        Ok(verified)
    }

    verify_proofs!();
}
