//! A verifier for a peer whose certificate was announced beforehand, over a secured link.

use super::proof::verify_proofs;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DistinguishedName};

/// Accepts one certificate, byte for byte, and the proof that the peer holds its key.
#[derive(Debug)]
pub(super) struct Pinned {
    expected: CertificateDer<'static>,
}

impl Pinned {
    pub(super) fn new(expected: &[u8]) -> Pinned {
        Pinned { expected: expected.to_vec().into() }
    }

    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let same = presented == &self.expected;
        same.then_some(()).ok_or(CertificateError::ApplicationVerificationFailure.into())
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(presented).map(|()| ServerCertVerified::assertion())
    }

    verify_proofs!();
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        presented: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(presented).map(|()| ClientCertVerified::assertion())
    }

    verify_proofs!();
}
