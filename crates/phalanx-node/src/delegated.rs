//! What this process may do in a user's name, if it runs at an executor for the user.
//!
//! The executor gives an interpreter a key and a certificate of its own when it starts it. The user's manager sends delegations,
//! each of which replaces the one before. Links to other members are opened with the newest.

use phalanx_net::identity::{IdentityError, KeyedCertificate, Member, Service};
use phalanx_net::sync::lock;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Mutex;
use zeroize::Zeroizing;

/// What a process needs, beside a delegation, to act for a user: its own certificate and key, and the certificates of the user, of
/// its executor and of the grid's authority.
#[derive(Clone, Serialize, Deserialize)]
pub struct Papers {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    user: Vec<u8>,
    executor: Vec<u8>,
    authority: Vec<u8>,
}

impl fmt::Debug for Papers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Papers")
    }
}

impl Papers {
    /// Of a process with the certificate and key `own`, which the executor `at` runs for the owner of the certificate `user`.
    pub fn new(own: &KeyedCertificate, user: &[u8], at: &Member) -> Papers {
        let (certificate, key) = own.to_parts();
        let (executor, authority) = (at.own().certificate.to_vec(), at.authority().to_vec());
        Papers { certificate, key, user: user.to_vec(), executor, authority }
    }
}

/// This process at an executor.
struct Here {
    machine: String,
    papers: Papers,
    /// The text of the newest delegation.
    delegation: Option<String>,
}

static HERE: Mutex<Option<Here>> = Mutex::new(None);

/// From now on, this process runs for a user at an executor.
pub(crate) fn begin(machine: &str, papers: Papers) {
    *lock(&HERE) = Some(Here { machine: machine.to_owned(), papers, delegation: None });
}

/// Takes a delegation from the user's manager.
pub(crate) fn receive(text: &[u8]) {
    if let (Some(here), Ok(text)) = (&mut *lock(&HERE), std::str::from_utf8(text)) {
        here.delegation = Some(text.to_owned());
    }
}

/// The name of the machine at whose executor this process runs. `None`: it is the user's own process.
pub fn machine() -> Option<String> {
    lock(&HERE).as_ref().map(|here| here.machine.clone())
}

/// The user, as this process may use a service in the user's name. `None`: that was not delegated to it.
///
/// # Errors
/// The delegation has ended.
pub fn member(service: Service) -> Result<Option<Member>, IdentityError> {
    let here = lock(&HERE);
    let Some((papers, text)) = here.as_ref().and_then(|here| Some((&here.papers, here.delegation.as_ref()?))) else {
        return Ok(None);
    };
    let Papers { certificate, key, user, executor, authority } = papers;
    let own = KeyedCertificate::from_parts(certificate.clone(), key.clone());
    let member = Member::delegated(own, [user, executor, authority], text)?;
    let knows = member.acts().is_some_and(|acting| acting.delegation.scope.knows(service));
    Ok(knows.then_some(member))
}

/// What to do where a service was not delegated, for users.
pub fn advice(machine: &str, service: Service) -> String {
    let service = service.name();
    format!(
        "this process runs at {machine} for a user, who delegated no {service} to it; give the program the space itself, or \
         say in the user's program: px.Manager(..., delegate=\"{service}\")"
    )
}
