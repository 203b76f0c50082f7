//! What a launcher delegates to the ranks at one executor: at their start, and anew while they run.

use super::job::Hosts;
use crate::dialler::Dialler;
use crate::recruit::LASTS;
use phalanx_core::wire::machines::ToMachine;
use phalanx_net::identity::{IdentityError, Scope};
use phalanx_net::sync::lock;
use std::sync::Mutex;
use std::time::Instant;

/// The user's word for the ranks at one executor.
#[derive(Debug)]
pub struct Delegating {
    dialler: Dialler,
    program: [u8; 16],
    scope: Scope,
    /// The executor's certificate, in DER.
    executor: Vec<u8>,
    /// The certificate of the ranks there, and when the last delegation to them was made.
    ranks: Mutex<Option<(Vec<u8>, Instant)>>,
}

impl Delegating {
    /// For the executor with this certificate.
    pub fn new(hosts: &Hosts, executor: Vec<u8>) -> Delegating {
        let Hosts { dialler, program, scope, .. } = hosts.clone();
        Delegating { dialler, program, scope, executor, ranks: Mutex::default() }
    }

    /// The message with what the user gives to ranks with this certificate at their start.
    pub fn begin(&self, certificate: Vec<u8>) -> Result<ToMachine, IdentityError> {
        if self.scope.is_empty() {
            return Ok(ToMachine::Delegation { given: self.dialler.given(None) });
        }
        let message = self.message(&certificate)?;
        *lock(&self.ranks) = Some((certificate, Instant::now()));
        Ok(message)
    }

    /// The message with the next delegation, when it is time for it.
    pub fn renew(&self, now: Instant) -> Option<ToMachine> {
        let mut ranks = lock(&self.ranks);
        let (certificate, last) = ranks.as_mut()?;
        if now.saturating_duration_since(*last) <= LASTS / 3 {
            return None;
        }
        *last = now;
        self.message(certificate).ok() // the same key has signed before
    }

    fn message(&self, certificate: &[u8]) -> Result<ToMachine, IdentityError> {
        let whom = [certificate, &self.executor];
        let text = self.dialler.member().delegate(whom, &self.scope, self.program, LASTS)?;
        Ok(ToMachine::Delegation { given: self.dialler.given(Some(text)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::level::Policy;
    use phalanx_net::identity::{Authority, Delegation, Extent, KeyedCertificate, Member, Role, Service};
    use std::time::Duration;

    fn delegating(scope: Scope) -> Delegating {
        let authority = Authority::create().expect("a grid");
        let member = |role, name| {
            let text = authority.issue(role, name).expect("a member");
            Member::parse(&text, role).expect("a member")
        };
        let dialler = Dialler::from(member(Role::User, "ada"));
        let dialler = dialler.naming([("ws7".to_owned(), "10.0.0.7:7400".to_owned())].into());
        let (program, policy) = ([1; 16], Policy::default());
        let hosts = Hosts { addresses: Vec::new(), dialler, program, policy, most: None, scope, newcomers: None };
        Delegating::new(&hosts, member(Role::Executor, "labpc").own().certificate.to_vec())
    }

    fn spaces() -> Scope {
        let mut scope = Scope::default();
        scope.add(Service::Spaces, Extent::All).expect("a scope");
        scope
    }

    fn ranks() -> Vec<u8> {
        KeyedCertificate::ephemeral().expect("a key").certificate.to_vec()
    }

    #[test]
    fn a_delegation_is_made_at_the_start_and_anew_after_a_third_of_its_time() {
        let (delegating, begun) = (delegating(spaces()), Instant::now());
        assert!(delegating.renew(begun + LASTS).is_none(), "nothing was begun");
        let Ok(ToMachine::Delegation { given }) = delegating.begin(ranks()) else { panic!("nothing is given") };
        assert_eq!(given.machines["ws7"], "10.0.0.7:7400");
        let text = given.delegation.expect("spaces are delegated");
        assert!(text.contains("spaces at *") && Delegation::end_of(&text).is_some());
        assert!(delegating.renew(begun + LASTS / 3 - Duration::from_secs(60)).is_none());
        let later = begun + LASTS / 3 + Duration::from_secs(60);
        assert!(matches!(delegating.renew(later), Some(ToMachine::Delegation { .. })));
        assert!(delegating.renew(later + LASTS / 4).is_none());
        assert!(delegating.renew(later + LASTS / 2).is_some());
    }

    #[test]
    fn nothing_is_delegated_unless_the_user_says_so() {
        let delegating = delegating(Scope::default());
        let Ok(ToMachine::Delegation { given }) = delegating.begin(ranks()) else { panic!("nothing is given") };
        assert_eq!((given.delegation, given.machines.len()), (None, 1), "names of machines are no rights");
        assert!(delegating.renew(Instant::now() + LASTS).is_none());
    }
}
