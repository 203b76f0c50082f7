//! Authentication of peers: a grid's certificate authority, its members, and their roles.
//!
//! A member's certificate carries its role and name as DNS names under `.phalanx`. So the standard verification of a
//! server's name also checks its role.

mod authority;
mod bearer;
mod delegation;
mod hybrid;
mod joining;
mod known;
mod locked;
mod members;
mod news;
mod pinned;
mod proof;
mod renewals;
mod revocations;
mod validity;

pub use authority::{Authority, Issued, NewIssuer, key_of, request};
pub use bearer::{Bearer, LONGEST_BEARER};
pub use delegation::{Acting, Delegation, Extent, LONGEST, Lasting, Scope, Service, Until};
pub use joining::Joining;
pub(crate) use news::Teller;
pub use news::{Courier, News};
pub use renewals::{Brought, MOST_RENEWED, Renewals, is_same_member};
pub use revocations::{Ends, LONGEST_LIST, Revocations, Revoked, RevokedList, Taken, Watch};
pub use validity::{Validity, date_and_time};

use crate::connection::Connection;
pub(crate) use delegation::is_delegated;
use delegation::{Acts, Verifier};
use hybrid::X25519MlKem768;
use members::{MOST_SHOWN, Members};
use pinned::Pinned;
use rcgen::{CertificateParams, KeyPair};
pub(crate) use renewals::Holder;
use renewals::{Newest, with_certificate};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ServerConfig, ServerSessionMemoryCache};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, SignatureScheme};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

/// Limit on the sessions that a server keeps for resumption.
const SESSIONS: usize = 1024;
/// Tickets for resumption per link. A copy opens several streams at the same time, and each needs a ticket of its own.
const TICKETS: usize = 2;

/// The role of a member in a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs programs.
    User,
    /// Offers its processors.
    Executor,
    /// Lets machines and users into the grid, and renews and revokes their certificates. It is no user and no executor.
    Hub,
}

impl Role {
    /// The word users read and type.
    pub fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Executor => "executor",
            Role::Hub => "hub",
        }
    }

    /// The role as it is written in a certificate.
    fn dns(self) -> ServerName<'static> {
        let name = match self {
            Role::User => "user.role.phalanx",
            Role::Executor => "executor.role.phalanx",
            Role::Hub => "hub.role.phalanx",
        };
        ServerName::try_from(name).expect("is a DNS name")
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(word: &str) -> Result<Role, String> {
        let known = [Role::User, Role::Executor, Role::Hub].into_iter().find(|role| role.name() == word);
        known.ok_or_else(|| format!("{word:?} is no role: write user, executor or hub"))
    }
}

/// Why a certificate cannot be made, read or used.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// A member of a grid cannot have this name.
    #[error("{0:?} is no name for a member: use letters, digits and -, at most 63")]
    Name(String),
    /// The identity file lacks this part.
    #[error("no {0} in the identity file; make one with: phalanx grid create, phalanx grid issue")]
    Missing(&'static str),
    /// The identity file cannot be read as one.
    #[error("the identity file is damaged: {0}")]
    Damaged(String),
    /// The file of a grid's authority lacks this part.
    #[error("the authority's file is damaged: it has no whole {0}")]
    DamagedAuthority(&'static str),
    /// The authority's private key is locked by another passphrase, or none was given.
    #[error("this is not the passphrase of the grid's authority")]
    Passphrase,
    /// A request for a certificate cannot be signed.
    #[error("this is no request that phalanx grid request has made: {0}")]
    Request(String),
    /// What a hub has answered is not what was asked for.
    #[error("the hub has not given the certificate that was asked for: {0}")]
    Joining(&'static str),
    /// A certificate was revoked, or that cannot be known.
    #[error("{0}")]
    Revoked(String),
    /// This authority's certificate allows no authority below it.
    #[error(
        "this authority cannot have an issuer, because its certificate allows none (no grid of an earlier version does); begin a new \
         grid: phalanx up"
    )]
    NoIssuers,
    /// This identity signs no lists of revoked certificates.
    #[error("only the grid's root and its hubs sign lists of revoked certificates")]
    NoLists,
    /// The certificate's time is over.
    #[error(
        "the certificate of {name} ended on {end}; on the machine of the grid's authority: phalanx grid renew {name}, and \
         copy its renewed.pem beside this file"
    )]
    Ended {
        /// The member's name.
        name: String,
        /// The day and time.
        end: String,
    },
    /// A text is no list of revoked certificates of this grid.
    #[error("this is no list that phalanx grid revoke has made: {0}")]
    Revocations(&'static str),
    /// The list of revoked certificates would be longer than members read.
    #[error("the list would be longer than the {0} bytes that members read; begin a new grid: phalanx grid create")]
    LongList(u64),
    /// A bearer token cannot be used.
    #[error("the token does not hold: {0}")]
    Bearer(&'static str),
    /// What a user has delegated cannot be used.
    #[error("the delegation does not hold: {0}")]
    Delegation(&'static str),
    /// The time of a delegation is over.
    #[error("the delegation has ended: the program that gave it renews it no more")]
    DelegationEnded,
    /// The certificate was issued for another role.
    #[error(
        "this certificate is for the role {is}, but {wanted} is needed; issue one with: phalanx grid issue --role {wanted} NAME"
    )]
    Role {
        /// The role in the certificate.
        is: String,
        /// The role that is needed here.
        wanted: &'static str,
    },
    /// The library that makes keys and certificates failed.
    #[error(transparent)]
    Generation(#[from] rcgen::Error),
    /// The TLS library refused the certificate or the key.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// A certificate with its private key.
#[derive(Debug)]
pub struct KeyedCertificate {
    /// The certificate, which everyone may see.
    pub certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Drop for KeyedCertificate {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl Clone for KeyedCertificate {
    fn clone(&self) -> Self {
        KeyedCertificate { certificate: self.certificate.clone(), key: self.key.clone_key() }
    }
}

impl KeyedCertificate {
    /// An identity for a single link, without a certificate authority. The peer learns over another, secured link which
    /// certificate to expect.
    pub fn ephemeral() -> Result<KeyedCertificate, IdentityError> {
        let mut key = KeyPair::generate()?;
        let certificate = CertificateParams::new(Vec::new())?.self_signed(&key)?;
        let der = Zeroizing::new(key.serialize_der());
        key.zeroize();
        Ok(KeyedCertificate::from_parts(certificate.der().to_vec(), der))
    }

    /// From DER, as [`KeyedCertificate::to_parts`] returned it.
    pub fn from_parts(certificate: Vec<u8>, mut key: Zeroizing<Vec<u8>>) -> KeyedCertificate {
        let key = PrivatePkcs8KeyDer::from(std::mem::take(&mut *key));
        KeyedCertificate { certificate: certificate.into(), key: key.into() }
    }

    /// Certificate and key as DER.
    pub fn to_parts(&self) -> (Vec<u8>, Zeroizing<Vec<u8>>) {
        (self.certificate.to_vec(), self.key.secret_der().to_vec().into())
    }

    /// The certificate and the key as TLS uses them. The library takes a key that it may keep a copy of; from a reference
    /// it makes none but that of its cipher.
    fn signing(&self) -> Result<Arc<SingleCertAndKey>, rustls::Error> {
        self.signing_with(&[])
    }

    /// The same, with what is shown beside the certificate.
    fn signing_with(&self, more: &[CertificateDer<'static>]) -> Result<Arc<SingleCertAndKey>, rustls::Error> {
        let shown = [std::slice::from_ref(&self.certificate), more].concat();
        let certified = CertifiedKey::new(shown, any_supported_type(&self.key)?);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Arc::new(certified.into())),
            Err(error) => Err(error),
        }
    }

    /// Signs a text.
    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, IdentityError> {
        let signer = any_supported_type(&self.key)?.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]);
        let signer = signer.ok_or_else(|| IdentityError::Damaged("its key is not of the curve P-256".to_owned()))?;
        Ok(signer.sign(text)?)
    }

    /// The client's side of a link that accepts only the peer with the certificate `expected`.
    pub fn client_of(&self, expected: &[u8]) -> Result<Connection, IdentityError> {
        let verifier = Arc::new(Pinned::new(expected));
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous() // replaces the verifier by a stricter one, which accepts a single certificate
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(self.signing()?);
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from("interpreter.phalanx").expect("is a DNS name");
        Ok(Connection::client(&config, name)?)
    }

    /// The server's side of a link that accepts only the peer with the certificate `expected`.
    pub fn server_of(&self, expected: &[u8]) -> Result<Connection, IdentityError> {
        let verifier = Arc::new(Pinned::new(expected));
        Ok(Connection::server(&*server(verifier, self, &[], 0)?)?)
    }
}

/// A member of a grid: the contents of an identity file, and the sessions that its links can resume. Or a process that acts
/// for one.
#[derive(Debug, Clone)]
pub struct Member {
    own: KeyedCertificate,
    /// The issuers of its own certificate, which it shows beside it. Empty: the root has signed the certificate itself.
    issuers: Vec<CertificateDer<'static>>,
    /// The root's certificate.
    authority: CertificateDer<'static>,
    server: Arc<ServerConfig>,
    verifier: Arc<Verifier>,
    news: News,
    /// Whether this member goes on with its certificate when that is renewed.
    is_fixed: bool,
    acts: Option<Acts>,
    /// The member's name. Users must keep it unique in the grid.
    pub name: String,
}

impl Member {
    /// Parses the text of an identity file, for the given role.
    pub fn parse(pem: &str, role: Role) -> Result<Member, IdentityError> {
        let member = Member::read(pem, role)?;
        let validity = Validity::of(&member.own.certificate, &*member.verifier)?;
        match validity.is_over() {
            true => Err(IdentityError::Ended { name: member.name, end: validity.end() }),
            false => Ok(member),
        }
    }

    /// Like [`Member::parse`], also if the certificate has ended: for a member that gets a new one from a hub.
    pub fn parse_ended(pem: &str, role: Role) -> Result<Member, IdentityError> {
        Member::read(pem, role)
    }

    /// The text of an identity file, for the given role, with the newest certificate that is in these files for the same member. If
    /// there is one, it replaces the certificate in the identity file. Its certificate may have ended before.
    ///
    /// # Errors
    /// The text is no identity file for this role.
    pub fn renew(
        pem: &str,
        role: Role,
        identity: PathBuf,
        renewed: Vec<PathBuf>,
    ) -> Result<Zeroizing<String>, IdentityError> {
        let member = Member::read(pem, role)?.renewing(Some(identity), renewed)?;
        let newest = member.newest_own();
        let text = newest.and_then(|newest| with_certificate(pem, &newest.own.certificate, &newest.issuers).ok());
        Ok(text.unwrap_or_else(|| pem.to_owned().into()))
    }

    fn read(pem: &str, role: Role) -> Result<Member, IdentityError> {
        let (certificate, issuers, authority) = certificates_in(pem)?;
        let key = key_in(pem)?;
        let (is, name) = role_and_name(&certificate)?;
        if is != role.name() {
            return Err(IdentityError::Role { is, wanted: role.name() });
        }
        Member::of(KeyedCertificate { certificate, key }, issuers, authority, name)
    }

    /// `issuers`: those of the identity file.
    fn of(
        own: KeyedCertificate,
        issuers: Vec<CertificateDer<'static>>,
        authority: CertificateDer<'static>,
        name: String,
    ) -> Result<Member, IdentityError> {
        let members = Members::new(&authority, issuers.clone())?;
        // Without issuers there is one path at most, and peers say whether it holds.
        let issuers = match issuers.is_empty() {
            true => issuers,
            false => members.path(&own.certificate, &[]).map_err(|_| apart())?,
        };
        let revocations = Revocations::new(members.clone(), authority.clone(), Vec::new());
        let verifier = Arc::new(Verifier::new(members, authority.clone()));
        let server = server(verifier.clone(), &own, &issuers, SESSIONS)?;
        let news = News { revocations, renewals: None };
        Ok(Member { own, issuers, authority, server, verifier, news, is_fixed: false, acts: None, name })
    }

    /// The same member, which heeds the lists of revoked certificates in these files.
    pub fn heeding(self, files: Vec<PathBuf>) -> Member {
        let revocations = Revocations::new(self.verifier.members().clone(), self.authority.clone(), files);
        let news = News { revocations, ..self.news.clone() };
        Member { news, ..self }
    }

    /// The lists of revoked certificates that the member heeds.
    pub fn revocations(&self) -> &Arc<Revocations> {
        &self.news.revocations
    }

    /// Signs a list of revoked certificates, as a hub. It follows all these lists, in whatever order: it names the certificates of each
    /// and these, and its number is higher than theirs.
    ///
    /// # Errors
    /// This member is no hub; or one of the lists names the hub itself or an issuer of it; or the list would be too long.
    pub fn revoke_after(&self, earlier: &[&str], revoked: Vec<Revoked>) -> Result<String, IdentityError> {
        let newest = self.newest();
        newest.check_hub().map_err(|_| IdentityError::NoLists)?;
        let list = RevokedList::following(earlier, revoked, &self.authority)?;
        let hub = [std::slice::from_ref(&newest.own.certificate), &newest.issuers].concat();
        list.signed_by(&hub, &self.authority, |text| newest.own.sign(text))
    }

    /// Checks that this is a hub.
    fn check_hub(&self) -> Result<(), IdentityError> {
        match role_and_name(&self.own.certificate)? {
            (is, _) if is == Role::Hub.name() => Ok(()),
            (is, _) => Err(IdentityError::Role { is, wanted: Role::Hub.name() }),
        }
    }

    /// What the member keeps of its grid's news.
    pub fn news(&self) -> &News {
        &self.news
    }

    /// Checks that the member itself was not revoked.
    ///
    /// # Errors
    /// A list names its certificate, or a file with a list cannot be read.
    pub fn check_own(&self) -> std::io::Result<()> {
        self.news.revocations.admit(std::slice::from_ref(&self.own.certificate)).map(drop)
    }

    /// The same member, which shows its newest certificate: from its identity file, from the files with renewed certificates, or sent
    /// by another member. See [`Renewals`].
    ///
    /// # Errors
    /// This is a process that acts for a user.
    pub fn renewing(self, identity: Option<PathBuf>, renewed: Vec<PathBuf>) -> Result<Member, IdentityError> {
        let renewals = Renewals::new(self.own.clone(), self.verifier.clone(), identity, renewed)?;
        let news = News { renewals: Some(Arc::new(renewals)), ..self.news.clone() };
        Ok(Member { news, ..self })
    }

    /// The renewed certificates that the member knows. `None`: it takes none.
    pub fn renewals(&self) -> Option<&Arc<Renewals>> {
        self.news.renewals.as_ref()
    }

    /// The member with its newest certificate, which it keeps from then on.
    pub fn newest(&self) -> Member {
        let member = Member { is_fixed: true, ..self.clone() };
        match self.newest_own() {
            Some(newest) => Member { own: newest.own, issuers: newest.issuers, server: newest.server, ..member },
            None => member,
        }
    }

    /// The member's newest certificate, if it is another one than the first.
    fn newest_own(&self) -> Option<Newest> {
        self.news.renewals.as_ref().filter(|_| !self.is_fixed)?.newest()
    }

    /// From when until when the member's newest certificate is good.
    ///
    /// # Errors
    /// This is a process that acts for a user.
    pub fn validity(&self) -> Result<Validity, IdentityError> {
        Validity::of(&self.newest().own.certificate, &*self.verifier)
    }

    /// This member's certificate and key.
    pub fn own(&self) -> &KeyedCertificate {
        &self.own
    }

    /// The certificate of the grid's root, in DER.
    pub fn authority(&self) -> &[u8] {
        &self.authority
    }

    /// The certificates of the issuers that this member knows, in DER: those of its identity file, and those of verified peers.
    pub fn issuers(&self) -> Vec<Vec<u8>> {
        self.verifier.members().issuers().iter().map(|issuer| issuer.to_vec()).collect()
    }

    /// The client configuration for links to another member of this grid, in the given role.
    pub fn client_of(&self, role: Role) -> Result<Client, IdentityError> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous() // the library's own verifier, which also gets the known issuers
            .with_custom_certificate_verifier(self.verifier.members().clone())
            .with_client_cert_resolver(
                self.own.signing_with(self.acts.as_ref().map_or(&self.issuers[..], |acts| &acts.shown))?,
            );
        config.resumption = Resumption::in_memory_sessions(1);
        Ok(Client { config: Arc::new(config), role, news: self.news.clone(), acts: self.acts.clone().map(Arc::new) })
    }

    /// Like [`Member::client_of`], for a peer that is always reached at the same place. Sessions of this process's
    /// earlier links are reused, so that even the first link is resumed.
    pub fn client_at(&self, role: Role, place: &str) -> Result<Client, IdentityError> {
        known::client(&self.newest(), role, place)
    }

    /// The server's side of a link from any member of this grid, with the newest certificate. Afterwards, check the peer's
    /// [`role_and_name`].
    pub fn server(&self) -> Result<Connection, IdentityError> {
        let server = self.newest_own().map_or_else(|| self.server.clone(), |newest| newest.server);
        Ok(Connection::server(&server)?)
    }
}

/// Makes links to one member, one after the other. From the second on they are resumed, without certificates and
/// signatures.
#[derive(Debug, Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    role: Role,
    news: News,
    /// `None`: this end is the member itself.
    acts: Option<Arc<Acts>>,
}

impl Client {
    /// The role that the peer must have.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// What the member keeps of its grid's news.
    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    /// When the delegation ends by which this process acts for a user, in seconds since 1970.
    pub(crate) fn acts_until(&self) -> Option<u64> {
        self.acting().map(|acting| acting.delegation.until)
    }

    /// The delegation that the process shows, if it acts for a user.
    pub(crate) fn acting(&self) -> Option<&Acting> {
        self.acts.as_ref().map(|acts| &acts.acting)
    }

    /// The same client with the newest delegation, and when that ends.
    pub(crate) fn newest_acting(&self) -> Option<(Client, u64)> {
        let newest = (self.acts.as_ref()?.newest.as_ref()?.0)()?.client_of(self.role).ok()?;
        let until = newest.acts_until()?;
        Some((newest, until))
    }

    /// The client's side of another link.
    pub fn connect(&self) -> Result<Connection, IdentityError> {
        Ok(Connection::client(&self.config, self.role.dns())?)
    }
}

/// A server's configuration, which shows these issuers, and keeps that many sessions.
fn server(
    verifier: Arc<dyn ClientCertVerifier>,
    own: &KeyedCertificate,
    issuers: &[CertificateDer<'static>],
    sessions: usize,
) -> Result<Arc<ServerConfig>, IdentityError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(own.signing_with(issuers)?);
    config.send_tls13_tickets = sessions.min(TICKETS);
    config.session_storage = ServerSessionMemoryCache::new(sessions);
    Ok(Arc::new(config))
}

/// The certificates of an identity file: the member's own first, the root's last, and those of issuers between them.
#[allow(clippy::type_complexity, reason = "three things that are told apart by their place")]
fn certificates_in(
    pem: &str,
) -> Result<(CertificateDer<'static>, Vec<CertificateDer<'static>>, CertificateDer<'static>), IdentityError> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).take(MOST_SHOWN + 3);
    let mut certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(damaged)?.into_iter();
    let own = certificates.next().ok_or(IdentityError::Missing("certificate"))?;
    let root = certificates.next_back().ok_or(IdentityError::Missing("authority's certificate"))?;
    match certificates.len() <= MOST_SHOWN {
        true => Ok((own, certificates.collect(), root)),
        false => Err(IdentityError::Damaged("it has too many certificates".to_owned())),
    }
}

fn apart() -> IdentityError {
    IdentityError::Damaged("its certificates do not belong together".to_owned())
}

fn key_in(pem: &str) -> Result<PrivateKeyDer<'static>, IdentityError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| match error {
        pem::Error::NoItemsFound => IdentityError::Missing("private key"),
        error => damaged(error),
    })
}

/// Formats the error readably, because the library prints bytes as numbers.
fn damaged(error: pem::Error) -> IdentityError {
    IdentityError::Damaged(match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("the line -----END {}----- is missing", String::from_utf8_lossy(&end_marker))
        }
        pem::Error::IllegalSectionStart { .. } => "a line with -----BEGIN is not whole".to_owned(),
        error => error.to_string(),
    })
}

/// The role and the name in a member's certificate.
pub fn role_and_name(certificate: &CertificateDer<'_>) -> Result<(String, String), IdentityError> {
    let parsed = webpki::EndEntityCert::try_from(certificate);
    let parsed = parsed.map_err(|error| IdentityError::Damaged(error.to_string()))?;
    let find = |suffix: &str| parsed.valid_dns_names().find_map(|name| name.strip_suffix(suffix).map(str::to_owned));
    let role = find(".role.phalanx").ok_or(IdentityError::Missing("role"))?;
    Ok((role, find(".name.phalanx").ok_or(IdentityError::Missing("name"))?))
}

/// A random number of 128 bits that cannot be guessed.
pub fn random_number() -> u128 {
    u128::from_le_bytes(random_token())
}

/// The bytes of a random number that cannot be guessed.
pub fn random_token() -> [u8; 16] {
    let mut token = [0; 16];
    provider().secure_random.fill(&mut token).expect("the system gives random bytes");
    token
}

fn provider() -> Arc<CryptoProvider> {
    use std::sync::OnceLock;
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let make = || {
        let mut provider = rustls::crypto::ring::default_provider();
        // Both ends are phalanx, so one suite is enough, that of private blocks, and the hybrid key exchange can come first.
        provider.cipher_suites.retain(|suite| suite.suite() == rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
        provider.kx_groups.insert(0, &X25519MlKem768);
        Arc::new(provider)
    };
    PROVIDER.get_or_init(make).clone()
}

/// The first certificate in a PEM text.
pub fn first_certificate(text: &str) -> Result<CertificateDer<'static>, IdentityError> {
    CertificateDer::from_pem_slice(text.as_bytes()).map_err(damaged)
}

/// The SHA-256 digest of a text.
pub fn sha256(text: &[u8]) -> [u8; 32] {
    ring::digest::digest(&ring::digest::SHA256, text).as_ref().try_into().expect("has this length")
}

/// The SHA-256 digest of a certificate, as `openssl x509 -fingerprint -sha256` shows it but in lower case and without colons.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    to_hex(digest.as_ref())
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.len() % 2 == 0 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).ok();
    if is_hex { (0..text.len()).step_by(2).map(byte).collect() } else { None }
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
