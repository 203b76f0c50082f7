//! The proof in a handshake that a peer holds the key of its certificate: the same for all verifiers.

/// The methods of a `ServerCertVerifier` or a `ClientCertVerifier` that verify the signature of a handshake, over TLS 1.3 only.
macro_rules! verify_proofs {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &rustls::pki_types::CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Err(rustls::Error::General("TLS 1.2 is not spoken".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            let algorithms = crate::identity::provider().signature_verification_algorithms;
            rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            crate::identity::provider().signature_verification_algorithms.supported_schemes()
        }
    };
}

pub(super) use verify_proofs;
