//! A grid's certificate authority, which issues identities to members.

use super::renewals::to_pem;
use super::revocations::{LONGEST_LIST, Revoked, RevokedList};
use super::{
    IdentityError, Role, Validity, damaged, fingerprint, first_certificate, locked, members_of, role_and_name,
};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, SigningKey, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use std::collections::HashSet;
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
        let start = certificate_at(pem)?;
        let key = match (locked::is_locked(pem), passphrase) {
            (false, _) => pem[..start].to_owned().into(),
            (true, Some(passphrase)) => locked::unlock(&pem[..start], passphrase)?,
            (true, None) => return Err(IdentityError::Passphrase),
        };
        let key = KeyPair::from_pem(&key).map_err(|_| IdentityError::DamagedAuthority("private key"))?;
        // A damaged certificate would be copied into every member's file.
        certificate_in(&pem[start..])?;
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

    /// The same, with a certificate that is good for so long, or for ever.
    pub fn issue_for(
        &self,
        role: Role,
        name: &str,
        lasts: Option<Duration>,
    ) -> Result<Zeroizing<String>, IdentityError> {
        let mut key = KeyPair::generate()?;
        let certificates = self.certify(role, name, &key, lasts);
        let pem = locked::to_pem(&key);
        key.zeroize();
        Ok([&certificates?, pem.as_str()].concat().into())
    }

    /// Signs the text of a [`request`], for so long or for ever. Returns the member's role and name, and the certificates
    /// of its identity file.
    pub fn sign(&self, request: &str, lasts: Option<Duration>) -> Result<(Role, String, String), IdentityError> {
        let certificate = request.replace(LABEL, "CERTIFICATE");
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())
            .ok()
            .filter(|_| request.contains(LABEL))
            .ok_or_else(|| IdentityError::Request("it is none, or not whole".to_owned()))?;
        let (role, name) = role_and_name(&certificate)?;
        let role: Role = role.parse().map_err(IdentityError::Request)?;
        let key = PublicKey::of(&certificate)?;
        let certificates = self.certify(role, &name, &key, lasts)?;
        Ok((role, name, certificates))
    }

    /// Signs the key of a certificate again, for the same role and name. It is good for so long, or for as long as the certificate
    /// before. Returns PEM.
    ///
    /// # Errors
    /// This authority has not signed the certificate.
    pub fn renew(&self, issued: &Issued, lasts: Option<Duration>) -> Result<Issued, IdentityError> {
        let Issued { role, name, certificate, validity, .. } = issued;
        let authority = self.certificate()?;
        let members = members_of(&authority)?;
        let then = UnixTime::since_unix_epoch(Duration::from_secs(validity.until));
        members.verify_client_cert(certificate, &[], then)?;
        let before = Duration::from_secs(validity.until.saturating_sub(validity.from)).saturating_sub(DAY);
        let renewed = self.certify(*role, name, &PublicKey::of(certificate)?, Some(lasts.unwrap_or(before)))?;
        Issued::read(first_certificate(&renewed)?, &*members)
    }

    /// What [`Authority::renew`] signs, for tests: whatever the role and the name are.
    #[cfg(test)]
    pub(super) fn renew_unchecked(&self, issued: &Issued, lasts: Duration) -> Result<String, IdentityError> {
        let signed = self.certify(issued.role, &issued.name, &PublicKey::of(&issued.certificate)?, Some(lasts))?;
        Ok(to_pem(&first_certificate(&signed)?))
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> Result<CertificateDer<'static>, IdentityError> {
        certificate_in(&self.certificate)
    }

    /// Signs a list of revoked certificates: those of the earlier list, and these. Returns its text.
    pub fn revoke(&self, earlier: Option<&str>, revoked: Vec<Revoked>) -> Result<String, IdentityError> {
        self.revoke_after(earlier.as_slice(), revoked)
    }

    /// Signs a list that follows all these lists, in whatever order: it names the certificates of each, and its number is higher than
    /// theirs.
    pub fn revoke_after(&self, earlier: &[&str], revoked: Vec<Revoked>) -> Result<String, IdentityError> {
        let certificate = self.certificate()?;
        let mut list = RevokedList::default();
        let mut entries = Vec::new();
        for text in earlier {
            let earlier = RevokedList::parse(text, &certificate)?;
            let earlier = earlier.ok_or(IdentityError::Revocations("it is another grid's"))?;
            list.number = list.number.max(earlier.number);
            entries.extend(earlier.entries);
        }
        list.number += 1;
        let mut known = HashSet::new();
        entries.extend(revoked);
        list.entries = entries.into_iter().filter(|entry| known.insert(entry.fingerprint.clone())).collect();
        let text = list.signed(&certificate, |text| self.key.sign(text))?;
        match text.len() as u64 <= LONGEST_LIST {
            true => Ok(text),
            false => Err(IdentityError::LongList(LONGEST_LIST)), // members would read none of it, and let nobody in
        }
    }

    /// The certificate of a member with this key, and the authority's.
    fn certify(
        &self,
        role: Role,
        name: &str,
        key: &impl PublicKeyData,
        lasts: Option<Duration>,
    ) -> Result<String, IdentityError> {
        let mut params = member_params(role, name)?;
        if let Some(lasts) = lasts {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = date_time_ymd(1970, 1, 1) + now;
            // The other machine's clock may be behind.
            (params.not_before, params.not_after) = (now - DAY, now + lasts);
        }
        params.use_authority_key_identifier_extension = true;
        let member = params.signed_by(key, &Issuer::new(authority_params()?, &self.key))?;
        Ok(format!("{}{}", member.pem(), self.certificate))
    }
}

/// A certificate that an authority has issued.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The member's role.
    pub role: Role,
    /// The member's name.
    pub name: String,
    /// The certificate itself.
    pub certificate: CertificateDer<'static>,
    /// From when until when it is good.
    pub validity: Validity,
}

impl Issued {
    /// The certificates in a text, which is PEM. `authority` is the text of the authority's file.
    ///
    /// # Errors
    /// One of them is none of a member.
    pub fn all(text: &str, authority: &str) -> Result<Vec<Issued>, IdentityError> {
        let members = members_of(&certificate_in(&authority[certificate_at(authority)?..])?)?;
        let certificates = CertificateDer::pem_slice_iter(text.as_bytes());
        certificates.map(|certificate| Issued::read(certificate.map_err(damaged)?, &*members)).collect()
    }

    fn read(certificate: CertificateDer<'static>, members: &dyn ClientCertVerifier) -> Result<Issued, IdentityError> {
        let (role, name) = role_and_name(&certificate)?;
        let role = role.parse().map_err(IdentityError::Damaged)?;
        Ok(Issued { role, name, validity: Validity::of(&certificate, members)?, certificate })
    }

    /// The digest of the member's public key.
    pub fn key(&self) -> Result<String, IdentityError> {
        Ok(fingerprint(&PublicKey::of(&self.certificate)?.0.into()))
    }

    /// The certificate as PEM.
    pub fn to_pem(&self) -> String {
        to_pem(&self.certificate)
    }
}

/// Where the certificate begins in the text of an authority's file.
fn certificate_at(pem: &str) -> Result<usize, IdentityError> {
    pem.find("-----BEGIN CERTIFICATE-----").ok_or(IdentityError::DamagedAuthority("certificate"))
}

fn certificate_in(pem: &str) -> Result<CertificateDer<'static>, IdentityError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| IdentityError::DamagedAuthority("certificate"))
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
