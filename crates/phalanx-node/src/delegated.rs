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

    /// The user, as the process acts by the delegation with this text.
    fn member(&self, text: &str) -> Result<Member, IdentityError> {
        let Papers { certificate, key, user, executor, authority } = self;
        let own = KeyedCertificate::from_parts(certificate.clone(), key.clone());
        Member::delegated(own, [user, executor, authority], text)
    }
}

/// This process at an executor.
struct Here {
    machine: String,
    papers: Papers,
    newest: Option<Newest>,
}

/// The newest delegation.
struct Newest {
    text: String,
    /// The user, as this process acts by this text. It is verified when it is first needed, and once.
    member: Option<Member>,
}

impl Here {
    /// The user, by the newest delegation. `None`: there is none.
    fn member(&mut self) -> Result<Option<&Member>, IdentityError> {
        let Some(newest) = &mut self.newest else { return Ok(None) };
        if newest.member.is_none() {
            newest.member = Some(self.papers.member(&newest.text)?);
        }
        let Some(member) = &newest.member else { return Ok(None) };
        match member.acts() {
            Some(acting) if acting.delegation.has_ended() => Err(IdentityError::DelegationEnded),
            _ => Ok(Some(member)),
        }
    }

    /// Replaces the newest delegation.
    fn receive(&mut self, text: &str) {
        self.newest = Some(Newest { text: text.to_owned(), member: None });
    }
}

static HERE: Mutex<Option<Here>> = Mutex::new(None);

/// From now on, this process runs for a user at an executor.
pub(crate) fn begin(machine: &str, papers: Papers) {
    *lock(&HERE) = Some(Here { machine: machine.to_owned(), papers, newest: None });
}

/// Takes a delegation from the user's manager.
pub(crate) fn receive(text: &[u8]) {
    if let (Some(here), Ok(text)) = (&mut *lock(&HERE), std::str::from_utf8(text)) {
        here.receive(text);
    }
}

/// The name of the machine at whose executor this process runs. `None`: it is the user's own process.
pub fn machine() -> Option<String> {
    lock(&HERE).as_ref().map(|here| here.machine.clone())
}

/// The user, as this process may use a service in the user's name. `None`: that was not delegated to it.
///
/// # Errors
/// The delegation does not hold, or has ended.
pub fn member(service: Service) -> Result<Option<Member>, IdentityError> {
    let mut here = lock(&HERE);
    let Some(here) = &mut *here else { return Ok(None) };
    let knows = |member: &&Member| member.acts().is_some_and(|acting| acting.delegation.scope.knows(service));
    Ok(here.member()?.filter(knows).cloned())
}

/// What to do where a service was not delegated, for users.
pub fn advice(machine: &str, service: Service) -> String {
    let how = match service {
        Service::Spaces => "give the program the space itself, or say",
        Service::Copies => "say",
    };
    let service = service.name();
    format!(
        "this process runs at {machine} for a user, who delegated no {service} to it; {how} in the user's program: \
         px.Manager(..., delegate=\"{service}\")"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_net::identity::{Authority, Extent, Role, Scope};
    use std::sync::Arc;
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    /// A process at an executor, and a function that delegates to it.
    fn process() -> (Here, impl Fn(Service, Duration) -> String) {
        let authority = Authority::create().expect("a grid");
        let member = |role, name| {
            let pem = authority.issue(role, name).expect("a member");
            Member::parse(&pem, role).expect("a member")
        };
        let (ada, labpc) = (member(Role::User, "ada"), member(Role::Executor, "labpc"));
        let own = KeyedCertificate::ephemeral().expect("a key");
        let papers = Papers::new(&own, &ada.own().certificate, &labpc);
        let delegate = move |service, lasts| {
            let mut scope = Scope::default();
            scope.add(service, Extent::All).expect("a scope");
            let whom = [&own.certificate[..], &labpc.own().certificate[..]];
            ada.delegate(whom, &scope, [1; 16], lasts).expect("a delegation")
        };
        (Here { machine: "labpc".to_owned(), papers, newest: None }, delegate)
    }

    /// Two members are one that was verified once if they share the lists of revoked certificates.
    fn is_same(one: &Member, other: &Member) -> bool {
        Arc::ptr_eq(one.revocations(), other.revocations())
    }

    #[test]
    fn a_delegation_is_verified_once_and_another_in_its_place_again() {
        let (mut here, delegate) = process();
        assert!(here.member().unwrap().is_none());
        here.receive(&delegate(Service::Spaces, HOUR));
        let first = here.member().unwrap().unwrap().clone();
        assert!(is_same(&first, here.member().unwrap().unwrap()), "it was verified again");
        here.receive(&delegate(Service::Spaces, 2 * HOUR));
        let second = here.member().unwrap().unwrap();
        assert!(!is_same(&first, second), "the delegation before is in use");
        let until = |member: &Member| member.acts().unwrap().delegation.until;
        assert!(until(second) >= until(&first) + 3600);
    }

    #[test]
    fn a_delegation_that_was_verified_ends_and_a_wrong_one_replaces_it_too() {
        let (mut here, delegate) = process();
        here.receive(&delegate(Service::Spaces, Duration::from_secs(3)));
        assert!(here.member().unwrap().is_some());
        while here.member().is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(matches!(here.member(), Err(IdentityError::DelegationEnded)));
        here.receive(&delegate(Service::Spaces, HOUR));
        assert!(here.member().unwrap().is_some());
        let (_, anothers) = process();
        here.receive(&anothers(Service::Spaces, HOUR));
        assert!(here.member().is_err(), "another grid's");
    }
}
