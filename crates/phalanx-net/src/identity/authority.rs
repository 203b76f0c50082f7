//! A grid's certificate authority, which issues identities to members.

use super::revocations::{Revoked, RevokedList};
use super::{IdentityError, Role, locked, role_and_name};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, SigningKey, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zeroize::{Zeroize, Zeroizing};

/// A grid's certificate authority. Its key can make members, so only the grid's owner should be able to read it.
#[derive(Debug)]
pub struct Authority {
    key: KeyPair,
    certificate: String,
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.key.zeroize();
    }
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

    /// Whether the text of an authority's file needs a passphrase.
    pub fn is_locked(text: &str) -> bool {
        locked::is_locked(text)
    }

    /// Parses the text of [`Authority::to_pem`]. An error if it is locked and no passphrase is given.
    pub fn parse(pem: &str, passphrase: Option<&str>) -> Result<Authority, IdentityError> {
        let start = pem.find("-----BEGIN CERTIFICATE-----").ok_or(IdentityError::DamagedAuthority("certificate"))?;
        let key = match (locked::is_locked(pem), passphrase) {
            (false, _) => pem[..start].to_owned().into(),
            (true, Some(passphrase)) => locked::unlock(&pem[..start], passphrase)?,
            (true, None) => return Err(IdentityError::Passphrase),
        };
        let key = KeyPair::from_pem(&key).map_err(|_| IdentityError::DamagedAuthority("private key"))?;
        // A damaged certificate would be copied into every member's file.
        let whole = CertificateDer::from_pem_slice(&pem.as_bytes()[start..]);
        whole.map_err(|_| IdentityError::DamagedAuthority("certificate"))?;
        Ok(Authority { key, certificate: pem[start..].to_owned() })
    }

    /// The key and the certificate, as PEM. With a passphrase the key is locked.
    pub fn to_pem(&self, passphrase: Option<&str>) -> Result<Zeroizing<String>, IdentityError> {
        let key = locked::to_pem(&self.key);
        let locked = passphrase.map(|passphrase| locked::lock(&key, passphrase)).transpose()?;
        Ok([locked.as_ref().unwrap_or(&key).as_str(), &self.certificate].concat().into())
    }

    /// Makes the identity file of a new member, with its private key. Its certificate never ends.
    pub fn issue(&self, role: Role, name: &str) -> Result<Zeroizing<String>, IdentityError> {
        self.issue_for(role, name, None)
    }

    /// The same, with a certificate that is good for so many days, or for ever.
    pub fn issue_for(&self, role: Role, name: &str, days: Option<u32>) -> Result<Zeroizing<String>, IdentityError> {
        let mut key = KeyPair::generate()?;
        let certificates = self.certify(role, name, &key, days);
        let pem = locked::to_pem(&key);
        key.zeroize();
        Ok([&certificates?, pem.as_str()].concat().into())
    }

    /// Signs the text of a [`request`], for so many days or for ever. Returns the member's role and name, and the certificates
    /// of its identity file.
    pub fn sign(&self, request: &str, days: Option<u32>) -> Result<(Role, String, String), IdentityError> {
        let certificate = request.replace(LABEL, "CERTIFICATE");
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())
            .ok()
            .filter(|_| request.contains(LABEL))
            .ok_or_else(|| IdentityError::Request("it is none, or not whole".to_owned()))?;
        let (role, name) = role_and_name(&certificate)?;
        let role: Role = role.parse().map_err(IdentityError::Request)?;
        let key = PublicKey::of(&certificate)?;
        let certificates = self.certify(role, &name, &key, days)?;
        Ok((role, name, certificates))
    }

    /// Signs a list of revoked certificates: those of the earlier list, and these. Returns its text.
    pub fn revoke(&self, earlier: Option<&str>, revoked: Vec<Revoked>) -> Result<String, IdentityError> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let certificate = certificate.map_err(|_| IdentityError::DamagedAuthority("certificate"))?;
        let earlier = earlier.map(|text| RevokedList::parse(text, &certificate)).transpose()?;
        let another = IdentityError::Revocations("it is another grid's");
        let mut list = earlier.map_or(Ok(RevokedList::default()), |list| list.ok_or(another))?;
        list.number += 1;
        for entry in revoked {
            if list.entries.iter().all(|known| known.fingerprint != entry.fingerprint) {
                list.entries.push(entry);
            }
        }
        Ok(list.signed(&certificate, |text| self.key.sign(text))?)
    }

    /// The certificate of a member with this key, and the authority's.
    fn certify(
        &self,
        role: Role,
        name: &str,
        key: &impl PublicKeyData,
        days: Option<u32>,
    ) -> Result<String, IdentityError> {
        let mut params = member_params(role, name)?;
        if let Some(days) = days {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = date_time_ymd(1970, 1, 1) + now;
            // The other machine's clock may be behind.
            (params.not_before, params.not_after) = (now - DAY, now + DAY * days);
        }
        params.use_authority_key_identifier_extension = true;
        let member = params.signed_by(key, &Issuer::new(authority_params()?, &self.key))?;
        Ok(format!("{}{}", member.pem(), self.certificate))
    }
}

/// Makes a private key, which stays where it is made, and a request for its certificate, which everyone may see. Both are PEM.
pub fn request(role: Role, name: &str) -> Result<(Zeroizing<String>, String), IdentityError> {
    let mut key = KeyPair::generate()?;
    let request = member_params(role, name).and_then(|params| Ok(params.self_signed(&key)?.pem()));
    let pem = locked::to_pem(&key);
    key.zeroize();
    Ok((pem, request?.replace("CERTIFICATE", LABEL)))
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The PEM label of a request. Inside is a certificate that the key signed itself.
const LABEL: &str = "PHALANX REQUEST";

/// The beginning of each public key of this curve in a certificate: the algorithm, and the length of the point.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A member's public key: a point of the curve P-256.
struct PublicKey(Vec<u8>);

impl PublicKey {
    fn of(certificate: &CertificateDer<'_>) -> Result<PublicKey, IdentityError> {
        let parsed = webpki::EndEntityCert::try_from(certificate);
        let info = parsed.map_err(|error| IdentityError::Request(error.to_string()))?.subject_public_key_info();
        let point = info.strip_prefix(&P256).filter(|point| point.len() == 65 && point[0] == 4);
        Ok(PublicKey(
            point.ok_or_else(|| IdentityError::Request("its key is not of the curve P-256".to_owned()))?.to_vec(),
        ))
    }
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

fn member_params(role: Role, name: &str) -> Result<CertificateParams, IdentityError> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if name.is_empty() || name.len() > 63 || !plain || name.starts_with('-') || name.ends_with('-') {
        return Err(IdentityError::Name(name.to_owned()));
    }
    let name = name.to_ascii_lowercase();
    let mut params =
        CertificateParams::new(vec![format!("{}.role.phalanx", role.name()), format!("{name}.name.phalanx")])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if role == Role::Executor {
        // Executors that keep a space together are each other's clients, so every certificate allows both. Whoever
        // accepts a link checks the role.
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    Ok(params)
}

fn authority_params() -> Result<CertificateParams, IdentityError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "phalanx grid");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    Ok(params)
}
