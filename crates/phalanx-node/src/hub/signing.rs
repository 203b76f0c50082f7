//! The certificates and lists that a hub signs, and how the hub identifies the peer that asks.

use phalanx_core::hub::{Asking, Good, Who};
use phalanx_net::identity::{
    Authority, IdentityError, Issued, Revoked, Role, date_and_time, fingerprint, first_certificate, key_of,
    role_and_name,
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A certificate that the hub has just made.
pub struct Signed {
    /// The certificate as the hub remembers it.
    pub good: Good,
    /// The certificate as PEM, with the certificates of the authorities above it.
    pub pem: String,
}

impl Signed {
    /// Signs the key, role and name of a request or of an earlier certificate, in DER.
    pub fn of(issuer: &Authority, certificate: &[u8], lasts: Duration) -> Result<Signed, IdentityError> {
        let request = certificate.to_vec().into();
        let pem = match role_and_name(&request)?.0 == Role::Hub.name() {
            true => issuer.sign_hub(&request, Some(lasts))?,
            false => issuer.sign_request(&request, Some(lasts))?.2,
        };
        let certificate = first_certificate(&pem)?;
        let until = now() + lasts.as_secs();
        Ok(Signed { good: Good { fingerprint: fingerprint(&certificate), until }, pem })
    }
}

/// The hub's own certificate, renewed, as PEM.
pub fn renewed(issuer: &Authority, own: &[u8], lasts: Duration) -> Result<String, IdentityError> {
    let issued = Issued::of(own.to_vec().into(), issuer)?;
    Ok(issuer.renew(&issued, Some(lasts))?.to_pem())
}

/// The key, role and name in a request or a certificate. The peer has proved that it holds the key.
pub fn asking(certificate: &[u8]) -> Result<Asking, IdentityError> {
    let certificate = certificate.to_vec().into();
    let (role, name) = role_and_name(&certificate)?;
    Ok(Asking { who: Who::new(&role, &name), key: key_of(&certificate)? })
}

/// The founder in the text of an identity file or of certificates.
pub fn founder(issuer: &Authority, pem: &str) -> Result<(Asking, Good), IdentityError> {
    let certificate = first_certificate(pem)?;
    let issued = Issued::of(certificate.clone(), issuer)?;
    Ok((asking(&certificate)?, Good { fingerprint: fingerprint(&certificate), until: issued.validity.until }))
}

/// When a certificate of this grid ends, in seconds since 1970.
pub fn ends(issuer: &Authority, certificate: &[u8]) -> Result<u64, IdentityError> {
    Ok(Issued::of(certificate.to_vec().into(), issuer)?.validity.until)
}

/// The entries of a list of revoked certificates.
pub fn entries(revoked: Vec<(Who, Good)>) -> Result<Vec<Revoked>, IdentityError> {
    let when = date_and_time(now());
    let entry = |(who, good): (Who, Good)| {
        let role: Role = who.role.parse().map_err(IdentityError::Damaged)?;
        Ok(Revoked { when: when.clone(), role, name: who.name, fingerprint: good.fingerprint, until: Some(good.until) })
    };
    revoked.into_iter().map(entry).collect()
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
