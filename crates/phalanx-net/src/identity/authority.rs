//! A grid's certificate authority, which issues identities to members: its root, or an issuer below it.

use super::members::{Members, path_length};
use super::renewals::to_pem;
use super::revocations::{Revoked, RevokedList};
use super::{
    IdentityError, Role, Validity, damaged, fingerprint, first_certificate, locked, random_token, role_and_name, to_hex,
};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, SigningKey, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use webpki::EndEntityCert;
use zeroize::{Zeroize, Zeroizing};

/// A grid's certificate authority. Its key can make members, so only the grid's owner should be able to read it.
///
/// The root's certificate is signed by itself. An issuer is signed by the authority above it, so that the root's key need not be where
/// members are issued every day.
#[derive(Debug)]
pub struct Authority {
    key: KeyPair,
    /// Its own certificate and those of the authorities above it, the root last.
    certificates: String,
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
        let mut params = authority_params(ROOT, PATH_LENGTH)?;
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificates = params.self_signed(&key)?.pem();
        Ok(Authority { key, certificates })
    }

    /// Makes an issuer: an authority whose members are members of this grid. The name is for people who look at its certificate.
    ///
    /// # Errors
    /// The name is none, or the certificate of this authority allows no issuer below it.
    pub fn issuer(&self, name: &str) -> Result<Authority, IdentityError> {
        let mut issuer = Authority { key: KeyPair::generate()?, certificates: String::new() };
        let own = self.issuer_params(name)?.signed_by(&issuer.key, &self.signer()?)?;
        issuer.certificates = own.pem() + &self.certificates;
        Ok(issuer)
    }

    /// The certificate of an issuer below this authority, before it is signed.
    fn issuer_params(&self, name: &str) -> Result<CertificateParams, IdentityError> {
        check_name(name)?;
        let above = path_length(&self.certificate()?).unwrap_or(PATH_LENGTH);
        let length = above.checked_sub(1).ok_or(IdentityError::NoIssuers)?;
        // Two issuers with one name have different subjects, so that a path has one way only.
        let subject = format!("phalanx issuer {name} {}", to_hex(&random_token()[..4]));
        let mut params = authority_params(&subject, length)?;
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.use_authority_key_identifier_extension = true;
        Ok(params)
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
        certificates_in(&pem[start..])?;
        Ok(Authority { key, certificates: pem[start..].to_owned() })
    }

    /// The key, the certificate and those of the authorities above, as PEM. With a passphrase the key is locked.
    pub fn to_pem(&self, passphrase: Option<&str>) -> Result<Zeroizing<String>, IdentityError> {
        let key = locked::to_pem(&self.key);
        let locked = passphrase.map(|passphrase| locked::lock(&key, passphrase)).transpose()?;
        Ok([locked.as_ref().unwrap_or(&key).as_str(), &self.certificates].concat().into())
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

    /// The certificates and the key of a server that speaks HTTPS to clients of no grid, under these DNS names and addresses. It is no
    /// member, and no member takes it for one.
    ///
    /// # Errors
    /// A name is none, or one of the grid's members.
    pub fn serving(&self, names: &[String], lasts: Duration) -> Result<Zeroizing<String>, IdentityError> {
        if let Some(name) =
            names.iter().find(|name| name.to_ascii_lowercase().trim_end_matches('.').ends_with("phalanx"))
        {
            return Err(IdentityError::Name(name.clone()));
        }
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name.push(DnType::CommonName, "phalanx over HTTPS");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let mut key = KeyPair::generate()?;
        let certificates = self.certified(params, &key, Some(lasts));
        let pem = locked::to_pem(&key);
        key.zeroize();
        Ok([&certificates?, pem.as_str()].concat().into())
    }

    /// Signs the text of a [`request`], for so long or for ever. Returns the member's role and name, and the certificates
    /// of its identity file.
    ///
    /// # Errors
    /// It is no request, or one of a hub: nobody becomes a hub by asking.
    pub fn sign(&self, request: &str, lasts: Option<Duration>) -> Result<(Role, String, String), IdentityError> {
        let certificate = request.replace(LABEL, "CERTIFICATE");
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())
            .ok()
            .filter(|_| request.contains(LABEL))
            .ok_or_else(|| IdentityError::Request("it is none, or not whole".to_owned()))?;
        self.sign_request(&certificate, lasts)
    }

    /// The same for a request in DER. The peer that has shown it in a handshake has proved that it holds the key. The certificate of a
    /// member whose time is over is a request as well. Whether the peer may have this role and this name is not checked here.
    ///
    /// # Errors
    /// As of [`Authority::sign`].
    pub fn sign_request(
        &self,
        request: &CertificateDer<'_>,
        lasts: Option<Duration>,
    ) -> Result<(Role, String, String), IdentityError> {
        let (role, name) = role_and_name(request)?;
        let role: Role = role.parse().map_err(IdentityError::Request)?;
        check_asks(role)?;
        let certificates = self.certify(role, &name, &PublicKey::of(request)?, lasts)?;
        Ok((role, name, certificates))
    }

    /// The same for a hub. The caller has checked that an owner has invited it, or that it is the hub of this issuer.
    ///
    /// # Errors
    /// It is no request of a hub.
    pub fn sign_hub(&self, request: &CertificateDer<'_>, lasts: Option<Duration>) -> Result<String, IdentityError> {
        match role_and_name(request)? {
            (role, name) if role == Role::Hub.name() => self.certify(Role::Hub, &name, &PublicKey::of(request)?, lasts),
            (role, name) => Err(IdentityError::Request(format!("{name} asks for the role {role}"))),
        }
    }

    /// Signs the key of another hub's issuer, whose request this is ([`NewIssuer`]). Returns the certificates of that issuer: its own,
    /// and those above it.
    ///
    /// # Errors
    /// It is no request, or the certificate of this authority allows no issuer below it.
    pub fn sign_issuer(&self, request: &CertificateDer<'_>) -> Result<String, IdentityError> {
        let (_, name) = role_and_name(request)?;
        let key = PublicKey::of(request)?;
        let params = self.issuer_params(&name)?;
        Ok(params.signed_by(&key, &self.signer()?)?.pem() + &self.certificates)
    }

    /// Whether this authority may make issuers.
    ///
    /// # Errors
    /// Its certificate is damaged.
    pub fn makes_issuers(&self) -> Result<bool, IdentityError> {
        Ok(path_length(&self.certificate()?).unwrap_or(PATH_LENGTH) > 0)
    }

    /// Signs the key of a certificate again, for the same role and name. It is good for so long, or for as long as the certificate
    /// before.
    ///
    /// # Errors
    /// It is no certificate of this grid, or its issuer is not known: neither this authority nor one above it has signed it.
    pub fn renew(&self, issued: &Issued, lasts: Option<Duration>) -> Result<Issued, IdentityError> {
        let Issued { role, name, certificate, validity, .. } = issued;
        let members = members_of(&self.certificates)?;
        members.verify_at_end(certificate, &[])?;
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
        certificates_in(&self.certificates).map(|mut all| all.swap_remove(0))
    }

    /// The certificate of the grid's root, which is its own unless this is an issuer.
    pub fn root(&self) -> Result<CertificateDer<'static>, IdentityError> {
        let last = certificates_in(&self.certificates)?.pop();
        last.ok_or(IdentityError::DamagedAuthority("certificate"))
    }

    /// Signs a list of revoked certificates: those of the earlier list, and these. Returns its text.
    pub fn revoke(&self, earlier: Option<&str>, revoked: Vec<Revoked>) -> Result<String, IdentityError> {
        self.revoke_after(earlier.as_slice(), revoked)
    }

    /// Signs a list that follows all these lists, in whatever order: it names the certificates of each, and its number is higher than
    /// theirs.
    ///
    /// # Errors
    /// This is an issuer: only the root and hubs sign lists.
    pub fn revoke_after(&self, earlier: &[&str], revoked: Vec<Revoked>) -> Result<String, IdentityError> {
        let (own, root) = (self.certificate()?, self.root()?);
        if own != root {
            return Err(IdentityError::NoLists);
        }
        let list = RevokedList::following(earlier, revoked, &root)?;
        list.signed(&root, |text| Ok(self.key.sign(text)?))
    }

    /// Signs with its key.
    fn signer(&self) -> Result<Issuer<'_, &KeyPair>, IdentityError> {
        let subject = common_name(&self.certificate()?)?;
        Ok(Issuer::new(authority_params(&subject, 0)?, &self.key))
    }

    /// The certificate of a member with this key, and those of the authority and of the ones above it.
    fn certify(
        &self,
        role: Role,
        name: &str,
        key: &impl PublicKeyData,
        lasts: Option<Duration>,
    ) -> Result<String, IdentityError> {
        self.certified(member_params(role, name)?, key, lasts)
    }

    fn certified(
        &self,
        mut params: CertificateParams,
        key: &impl PublicKeyData,
        lasts: Option<Duration>,
    ) -> Result<String, IdentityError> {
        if let Some(lasts) = lasts {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = date_time_ymd(1970, 1, 1) + now;
            // The other machine's clock may be behind.
            (params.not_before, params.not_after) = (now - DAY, now + lasts);
        }
        params.use_authority_key_identifier_extension = true;
        let member = params.signed_by(key, &self.signer()?)?;
        Ok(format!("{}{}", member.pem(), self.certificates))
    }
}

/// The key of an issuer that is on its way: another hub of the grid signs it. The key stays where it was made.
pub struct NewIssuer {
    key: KeyPair,
    request: CertificateDer<'static>,
}

impl NewIssuer {
    /// Makes the key, and the request for the hub of this name.
    ///
    /// # Errors
    /// It is no name.
    pub fn ask(name: &str) -> Result<NewIssuer, IdentityError> {
        let key = KeyPair::generate()?;
        let request = member_params(Role::Hub, name)?.self_signed(&key)?.der().clone();
        Ok(NewIssuer { key, request })
    }

    /// The request, in DER.
    pub fn request(&self) -> &CertificateDer<'static> {
        &self.request
    }

    /// The issuer, with the certificates that [`Authority::sign_issuer`] has made.
    ///
    /// # Errors
    /// They are not those of this key, or damaged.
    pub fn signed(self, certificates: &str) -> Result<Authority, IdentityError> {
        let own = certificates_in(certificates)?.swap_remove(0);
        if key_of(&own)? != key_of(&self.request)? {
            return Err(IdentityError::Request("another key was signed".to_owned()));
        }
        Ok(Authority { key: self.key, certificates: certificates.to_owned() })
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
        let members = members_of(&authority[certificate_at(authority)?..])?;
        let certificates = CertificateDer::pem_slice_iter(text.as_bytes());
        certificates.map(|certificate| Issued::read(certificate.map_err(damaged)?, &*members)).collect()
    }

    /// A certificate that this authority has issued, or one above it.
    ///
    /// # Errors
    /// It is none of a member.
    pub fn of(certificate: CertificateDer<'static>, authority: &Authority) -> Result<Issued, IdentityError> {
        Issued::read(certificate, &*members_of(&authority.certificates)?)
    }

    fn read(certificate: CertificateDer<'static>, members: &dyn ClientCertVerifier) -> Result<Issued, IdentityError> {
        let (role, name) = role_and_name(&certificate)?;
        let role = role.parse().map_err(IdentityError::Damaged)?;
        Ok(Issued { role, name, validity: Validity::of(&certificate, members)?, certificate })
    }

    /// The digest of the member's public key.
    pub fn key(&self) -> Result<String, IdentityError> {
        key_of(&self.certificate)
    }

    /// The certificate as PEM.
    pub fn to_pem(&self) -> String {
        to_pem(&self.certificate)
    }
}

/// The digest of the public key in a member's certificate or in a request.
///
/// # Errors
/// It is neither, or the key is of another kind.
pub fn key_of(certificate: &CertificateDer<'_>) -> Result<String, IdentityError> {
    Ok(fingerprint(&PublicKey::of(certificate)?.0.into()))
}

/// Where the certificates begin in the text of an authority's file.
fn certificate_at(pem: &str) -> Result<usize, IdentityError> {
    pem.find("-----BEGIN CERTIFICATE-----").ok_or(IdentityError::DamagedAuthority("certificate"))
}

/// The certificates of an authority and of those above it: at least one, the root last.
fn certificates_in(pem: &str) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let damaged = || IdentityError::DamagedAuthority("certificate");
    let all: Vec<_> =
        CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(|_| damaged())?;
    if all.is_empty() { Err(damaged()) } else { Ok(all) }
}

/// Verifies members of the grid to which the authority with these certificates belongs.
fn members_of(certificates: &str) -> Result<Arc<Members>, IdentityError> {
    let mut issuers = certificates_in(certificates)?;
    let root = issuers.pop().ok_or(IdentityError::DamagedAuthority("certificate"))?;
    Members::new(&root, issuers)
}

/// The common name in the certificate of an authority, whose subject is nothing else.
fn common_name(certificate: &CertificateDer<'_>) -> Result<String, IdentityError> {
    let damaged = || IdentityError::DamagedAuthority("certificate");
    let parsed = EndEntityCert::try_from(certificate).map_err(|_| damaged())?;
    // A set with one sequence: the identifier of a common name, and UTF-8 text of less than 128 bytes.
    let [0x31, _, 0x30, _, 0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, length, name @ ..] = parsed.subject() else {
        return Err(damaged());
    };
    let name = std::str::from_utf8(name).ok().filter(|name| name.len() == usize::from(*length));
    name.map(str::to_owned).ok_or_else(damaged)
}

/// Makes a private key, which stays where it is made, and a request for its certificate, which everyone may see. Both are PEM.
///
/// # Errors
/// The name is none, or the role is that of a hub.
pub fn request(role: Role, name: &str) -> Result<(Zeroizing<String>, String), IdentityError> {
    check_asks(role)?;
    let (key, request) = ask(role, name)?;
    Ok((key, to_pem(&request).replace("CERTIFICATE", LABEL)))
}

/// The same: the key as PEM, and the request in DER.
pub(super) fn ask(role: Role, name: &str) -> Result<(Zeroizing<String>, CertificateDer<'static>), IdentityError> {
    let params = member_params(role, name)?;
    let mut key = KeyPair::generate()?;
    let request = params.self_signed(&key).map(|request| request.der().clone());
    let pem = locked::to_pem(&key);
    key.zeroize();
    Ok((pem, request?))
}

/// A hub is invited by the hub that is there, and is signed by [`Authority::sign_hub`].
fn check_asks(role: Role) -> Result<(), IdentityError> {
    match role {
        Role::Hub => {
            Err(IdentityError::Request("nobody becomes a hub by asking; begin a grid with: phalanx up, or invite a further hub: phalanx invite --role hub".to_owned()))
        }
        Role::User | Role::Executor => Ok(()),
    }
}

/// The common name of a root.
const ROOT: &str = "phalanx grid";

/// The path length of a root: a hub's issuer, and below it one for a part of the grid. An issuer has one less than the authority
/// above it.
const PATH_LENGTH: u8 = 2;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Longest name of a member.
pub(super) const LONGEST_NAME: usize = 63;

/// The PEM label of a request. Inside is a certificate that the key signed itself.
const LABEL: &str = "PHALANX REQUEST";

/// The beginning of each public key of this curve in a certificate: the algorithm, and the length of the point.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A member's public key: a point of the curve P-256.
pub(super) struct PublicKey(Vec<u8>);

impl PublicKey {
    /// # Errors
    /// The certificate has another key.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<PublicKey, IdentityError> {
        let parsed = EndEntityCert::try_from(certificate);
        let info = parsed.map_err(|error| IdentityError::Request(error.to_string()))?.subject_public_key_info();
        let point = info.strip_prefix(&P256).filter(|point| point.len() == 65 && point[0] == 4);
        Ok(PublicKey(
            point.ok_or_else(|| IdentityError::Request("its key is not of the curve P-256".to_owned()))?.to_vec(),
        ))
    }
}

impl PublicKey {
    /// The point, not compressed: 65 bytes.
    pub fn point(&self) -> &[u8] {
        &self.0
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

fn check_name(name: &str) -> Result<(), IdentityError> {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let is_name =
        (1..=LONGEST_NAME).contains(&name.len()) && is_plain && !name.starts_with('-') && !name.ends_with('-');
    if is_name { Ok(()) } else { Err(IdentityError::Name(name.to_owned())) }
}

fn member_params(role: Role, name: &str) -> Result<CertificateParams, IdentityError> {
    check_name(name)?;
    let name = name.to_ascii_lowercase();
    let mut params =
        CertificateParams::new(vec![format!("{}.role.phalanx", role.name()), format!("{name}.name.phalanx")])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if role != Role::User {
        // Executors that keep a space together are each other's clients, so every certificate allows both. A hub needs both as
        // well. The end that accepts a link checks the role.
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    Ok(params)
}

/// For an authority with this common name, below which so many issuers may be.
fn authority_params(name: &str, length: u8) -> Result<CertificateParams, IdentityError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(length));
    Ok(params)
}
