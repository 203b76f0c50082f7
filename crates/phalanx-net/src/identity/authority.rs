//! A grid's certificate authority, which issues identities to members.

use super::{IdentityError, Role};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// A grid's certificate authority. Its key can make members, so only the grid's owner should be able to read it.
#[derive(Debug)]
pub struct Authority {
    key: KeyPair,
    certificate: String,
}

impl Authority {
    /// Creates a new grid.
    pub fn create() -> Result<Authority, IdentityError> {
        let key = KeyPair::generate()?;
        let mut params = authority_params()?;
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { key, certificate })
    }

    /// Parses the text of [`Authority::to_pem`].
    pub fn parse(pem: &str) -> Result<Authority, IdentityError> {
        let start = pem.find("-----BEGIN CERTIFICATE-----").ok_or(IdentityError::DamagedAuthority("certificate"))?;
        let key = KeyPair::from_pem(&pem[..start]).map_err(|_| IdentityError::DamagedAuthority("private key"))?;
        // A damaged certificate would be copied into every member's file.
        let whole = CertificateDer::from_pem_slice(&pem.as_bytes()[start..]);
        whole.map_err(|_| IdentityError::DamagedAuthority("certificate"))?;
        Ok(Authority { key, certificate: pem[start..].to_owned() })
    }

    /// The key and the certificate, as PEM.
    pub fn to_pem(&self) -> String {
        format!("{}{}", self.key.serialize_pem(), self.certificate)
    }

    /// Makes the identity file of a new member.
    pub fn issue(&self, role: Role, name: &str) -> Result<String, IdentityError> {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if name.is_empty() || name.len() > 63 || !plain || name.starts_with('-') || name.ends_with('-') {
            return Err(IdentityError::Name(name.to_owned()));
        }
        let name = name.to_ascii_lowercase();
        let key = KeyPair::generate()?;
        let mut params =
            CertificateParams::new(vec![format!("{}.role.phalanx", role.name()), format!("{name}.name.phalanx")])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if role == Role::Executor {
            // Executors that keep a space together are each other's clients, so every certificate allows both. Whoever
            // accepts a link checks the role.
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let member = params.signed_by(&key, &Issuer::new(authority_params()?, &self.key))?;
        Ok(format!("{}{}{}", member.pem(), self.certificate, key.serialize_pem()))
    }
}

fn authority_params() -> Result<CertificateParams, IdentityError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "phalanx grid");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    Ok(params)
}
