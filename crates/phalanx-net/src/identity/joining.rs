//! Joining a grid: a machine or a user asks a hub for a certificate.
//!
//! What joins is no member yet. It knows the fingerprint of the grid's root, from a token that somebody has given to it. It makes its key
//! where it runs, and shows its request in place of a certificate: the handshake proves that it holds the key. The hub shows the root's
//! certificate too, so that the other end can verify it by the fingerprint. Whether the request is granted is decided after the
//! handshake, by the token that the request is sent with.
//!
//! A member whose certificate has ended comes back in the same way, and shows that one.

use super::authority::{PublicKey, ask};
use super::members::{LONGEST_SHOWN, MOST_SHOWN, Members};
use super::proof::verify_proofs;
use super::renewals::to_pem;
use super::{
    IdentityError, KeyedCertificate, Member, Role, certificates_in, key_in, locked, provider, role_and_name, server,
    sha256,
};
use crate::connection::Connection;
use crate::preamble::Preamble;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DistinguishedName};
use std::sync::Arc;
use zeroize::Zeroizing;

/// A machine or a user on the way into a grid.
#[derive(Debug)]
pub struct Joining {
    /// The request, or the certificate that has ended.
    own: KeyedCertificate,
    /// The issuers of that certificate. Empty for a request.
    issuers: Vec<CertificateDer<'static>>,
    root: [u8; 32],
    role: Role,
    name: String,
}

impl Joining {
    /// Makes a key and a request for this role and name, in the grid whose root's certificate has this SHA-256 digest.
    ///
    /// # Errors
    /// The name is none.
    pub fn new(role: Role, name: &str, root: [u8; 32]) -> Result<Joining, IdentityError> {
        let (key, request) = ask(role, name)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(super::damaged)?;
        let own = KeyedCertificate { certificate: request, key };
        Ok(Joining { own, issuers: Vec::new(), root, role, name: name.to_ascii_lowercase() })
    }

    /// A member with this identity file, whose certificate may have ended. It keeps its key.
    ///
    /// # Errors
    /// The text is no identity file.
    pub fn returning(pem: &str) -> Result<Joining, IdentityError> {
        let (certificate, issuers, root) = certificates_in(pem)?;
        let (role, name) = role_and_name(&certificate)?;
        let own = KeyedCertificate { certificate, key: key_in(pem)? };
        Ok(Joining { own, issuers, root: sha256(&root), role: role.parse().map_err(IdentityError::Damaged)?, name })
    }

    /// The same for a member that runs.
    pub fn of(member: &Member) -> Result<Joining, IdentityError> {
        let Member { own, issuers, authority, name, .. } = member.newest();
        let (role, _) = role_and_name(&own.certificate)?;
        Ok(Joining {
            own,
            issuers,
            root: sha256(&authority),
            role: role.parse().map_err(IdentityError::Damaged)?,
            name,
        })
    }

    /// The request in DER, or the certificate that has ended.
    pub fn request(&self) -> &CertificateDer<'static> {
        &self.own.certificate
    }

    /// The role that is asked for.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The name that is asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text of the identity file, with the certificates that a hub has answered, as PEM.
    ///
    /// # Errors
    /// They are not what was asked for: those of another key, role, name or grid, or they do not hold now.
    pub fn identity(&self, certificates: &str) -> Result<Zeroizing<String>, IdentityError> {
        let (own, issuers, root) = certificates_in(certificates)?;
        if sha256(&root) != self.root {
            return Err(wrong("it is of another grid"));
        }
        if role_and_name(&own)? != (self.role.name().to_owned(), self.name.clone()) {
            return Err(wrong("it is for another role or name"));
        }
        let text: String = std::iter::once(&own).chain(&issuers).chain([&root]).map(to_pem).collect();
        Members::new(&root, issuers)?.verify_client_cert(&own, &[], UnixTime::now())?;
        let key = locked::encode("PRIVATE KEY", self.own.key.secret_der().to_vec());
        let text = Zeroizing::new([&text, key.as_str()].concat());
        Member::parse(&text, self.role)?; // also checks that the certificate is that of the key
        Ok(text)
    }

    /// The client's side of a link to a hub of the grid, which is good for [`Preamble::Join`] only.
    pub(crate) fn connect(&self) -> Result<Connection, IdentityError> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous() // replaces the verifier by one that takes the root from the peer, and compares its fingerprint
            .with_custom_certificate_verifier(Arc::new(Hubs { root: self.root }))
            .with_client_cert_resolver(self.own.signing_with(&self.issuers)?);
        config.resumption = Resumption::disabled();
        Ok(Connection::client(&config, Role::Hub.dns())?.only_for(Preamble::Join))
    }
}

impl Member {
    /// The hub's side of a link from a peer that joins, which is good for [`Preamble::Join`] only. The peer has proved after the
    /// handshake that it holds the key of what it has shown, and nothing else: its role and its name are what it asks for.
    ///
    /// # Errors
    /// This member is no hub.
    pub fn server_for_joining(&self) -> Result<Connection, IdentityError> {
        let newest = self.newest();
        newest.check_hub()?;
        let shown = [&newest.issuers[..], std::slice::from_ref(&newest.authority)].concat();
        let config = server(Arc::new(Joiners), &newest.own, &shown, 0)?;
        Ok(Connection::server(&config)?.only_for(Preamble::Join))
    }

    /// The role and the name of a member of this grid that has shown this in a handshake for joining. Its certificate may have ended.
    ///
    /// # Errors
    /// The first certificate is no member's of this grid, but a request for example; or it was revoked, or an issuer of it.
    pub fn ended_member(&self, shown: &[CertificateDer<'_>]) -> Result<(Role, String), IdentityError> {
        let (certificate, issuers) = shown.split_first().ok_or(IdentityError::Missing("certificate"))?;
        self.revocations().admit(shown).map_err(|error| IdentityError::Revoked(error.to_string()))?;
        self.verifier.members().verify_at_end(certificate, issuers)?;
        let (role, name) = role_and_name(certificate)?;
        Ok((role.parse().map_err(IdentityError::Damaged)?, name))
    }

    /// Whether an issuer of this member's certificate was revoked, and the certificate itself was not. The hub with that issuer was
    /// expelled, and other hubs give the member a new certificate.
    pub fn has_lost_issuer(&self, shown: &[CertificateDer<'_>]) -> bool {
        let Some((own, issuers)) = shown.split_first() else { return false };
        // Only issuers that have signed the certificate count, and not what else is shown.
        let Ok(path) = self.verifier.members().path(own, issuers) else { return false };
        !self.revocations().names(own) && path.iter().any(|it| self.revocations().names(it))
    }
}

fn wrong(why: &'static str) -> IdentityError {
    IdentityError::Joining(why)
}

/// Accepts the hubs of the grid whose root's certificate has this digest. A hub shows that certificate behind its own.
#[derive(Debug)]
struct Hubs {
    root: [u8; 32],
}

impl ServerCertVerifier for Hubs {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let unknown = || rustls::Error::from(CertificateError::UnknownIssuer);
        let (root, issuers) = others.split_last().ok_or_else(unknown)?;
        if root.len() > LONGEST_SHOWN || sha256(root) != self.root {
            return Err(unknown());
        }
        let members = Members::new(&root.clone().into_owned(), Vec::new()).map_err(|_| unknown())?;
        members.verify_server_cert(presented, issuers, &Role::Hub.dns(), ocsp, now)
    }

    verify_proofs!();
}

/// Accepts every peer that proves that it holds the key of what it shows.
#[derive(Debug)]
struct Joiners;

impl ClientCertVerifier for Joiners {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        presented: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let is_short = |it: &CertificateDer<'_>| it.len() <= LONGEST_SHOWN;
        let are_few = others.len() <= MOST_SHOWN && others.iter().all(is_short);
        match are_few && is_short(presented) && PublicKey::of(presented).is_ok() {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(CertificateError::BadEncoding.into()),
        }
    }

    verify_proofs!();
}
