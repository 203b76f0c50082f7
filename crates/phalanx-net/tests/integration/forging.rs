//! A client that accepts every server, and shows whatever the test wants.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use phalanx_net::connection::Connection;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519]
    }
}

/// The configuration of a client that shows these certificates and signs with this key, whether they belong together or not.
fn client(shown: Vec<CertificateDer<'static>>, key: &[u8]) -> Arc<ClientConfig> {
    let key = PrivateKeyDer::try_from(key.to_vec()).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
    let config = config.unwrap().dangerous().with_custom_certificate_verifier(Arc::new(Anybody));
    Arc::new(config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(shown, key)))))
}

/// Whether a server lets a client in that shows this and has this key, and wants a server of this name.
pub fn judge(
    mut server: Connection,
    name: &'static str,
    shown: Vec<CertificateDer<'static>>,
    key: &[u8],
) -> Result<(), String> {
    let client = ClientConnection::new(client(shown, key), ServerName::try_from(name).unwrap()).unwrap();
    let mut client = rustls::Connection::from(client);
    while client.is_handshaking() || server.is_handshaking() {
        tell(&mut client, &mut server)?;
        tell(&mut server, &mut client)?;
    }
    Ok(())
}

fn tell(from: &mut rustls::Connection, to: &mut rustls::Connection) -> Result<(), String> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets().map_err(|error| error.to_string())?;
    }
    Ok(())
}
