//! Renewed certificates travel over control links too. Each end says the digest of those that it keeps. If the digests differ, each
//! sends what it keeps, piece by piece, and later what it learns from others while the link is open.

use phalanx_net::identity::{Brought, Renewals};
use std::collections::HashSet;
use std::sync::Arc;

/// One end of a control link, as a carrier of renewed certificates.
#[derive(Debug)]
pub struct Renewing {
    /// `None`: this end takes no renewed certificates.
    renewals: Option<Arc<Renewals>>,
    /// The digest that this end has said.
    said: Option<[u8; 16]>,
    /// The digest that the other end has said.
    theirs: Option<[u8; 16]>,
    /// The fingerprints of the certificates that the other end knows. `None`: the digests were not compared yet.
    known: Option<HashSet<String>>,
    /// Everything up to this number of changes was sent.
    sent: Option<u64>,
    /// The other end has sent what is no renewed certificate. It is heard no more.
    is_deaf: bool,
}

impl Renewing {
    pub fn new(renewals: Option<Arc<Renewals>>) -> Renewing {
        Renewing { renewals, said: None, theirs: None, known: None, sent: None, is_deaf: false }
    }

    /// Notes the digest of the certificates that the other end keeps, and takes those in the text.
    pub fn hear(&mut self, digest: [u8; 16], pem: &[u8]) -> Brought {
        self.theirs.get_or_insert(digest);
        let Some(renewals) = self.renewals.as_ref().filter(|_| !pem.is_empty() && !self.is_deaf) else {
            return Brought::default();
        };
        let brought = renewals.take(pem);
        self.is_deaf = brought.refused.is_some();
        brought
    }

    /// Returns the next message to the other end, if one is due: the digest of the certificates that this end keeps, and the next of
    /// those that the other end may lack.
    pub fn due(&mut self) -> Option<([u8; 16], Vec<u8>)> {
        let renewals = self.renewals.as_ref()?;
        let changes = renewals.changes();
        let Some(said) = self.said else {
            return Some((*self.said.insert(renewals.digest()), Vec::new()));
        };
        let theirs = self.theirs?;
        if self.sent == Some(changes) {
            return None;
        }
        let begin =
            || if theirs == said && theirs == renewals.digest() { renewals.fingerprints() } else { HashSet::new() };
        let piece = renewals.piece(self.known.get_or_insert_with(begin));
        if piece.is_empty() {
            self.sent = Some(changes);
            return None;
        }
        Some((said, piece.into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_net::identity::{Authority, Issued, Member, Role};
    use std::time::Duration;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// A member of the grid, and its renewed certificate.
    fn member(authority: &Authority, name: &str) -> (Member, String) {
        let text = authority.issue_for(Role::User, name, Some(DAY)).unwrap();
        let issued =
            &Issued::all(text.split_inclusive("END CERTIFICATE-----").next().unwrap(), &pem(authority)).unwrap()[0];
        let member = Member::parse(&text, Role::User).unwrap().renewing(None, Vec::new()).unwrap();
        (member, authority.renew(issued, Some(30 * DAY)).unwrap().to_pem())
    }

    fn pem(authority: &Authority) -> String {
        authority.to_pem(None).unwrap().to_string()
    }

    fn renewing(member: &Member) -> Renewing {
        Renewing::new(member.renewals().cloned())
    }

    /// Both ends say and hear until neither has more to say. Returns the bytes of certificates that were sent.
    fn talk(one: &mut Renewing, other: &mut Renewing) -> usize {
        let mut sent = 0;
        loop {
            let (from_one, from_other) = (one.due(), other.due());
            if from_one.is_none() && from_other.is_none() {
                return sent;
            }
            for (from, to) in [(from_one, &mut *other), (from_other, &mut *one)] {
                let Some((digest, pem)) = from else { continue };
                sent += pem.len();
                assert!(to.hear(digest, &pem).refused.is_none());
            }
        }
    }

    fn take(member: &Member, pem: &str) {
        assert!(member.renewals().unwrap().take(pem.as_bytes()).refused.is_none());
    }

    fn digests(members: &[&Member]) -> HashSet<[u8; 16]> {
        members.iter().map(|member| member.renewals().unwrap().digest()).collect()
    }

    #[test]
    fn both_ends_know_the_same_certificates_at_last_and_send_none_twice() {
        let authority = Authority::create().unwrap();
        let [(ada, of_ada), (bob, of_bob)] = ["ada", "bob"].map(|name| member(&authority, name));
        let (_, of_eve) = member(&authority, "eve");
        take(&ada, &[of_ada.as_str(), &of_bob].concat());
        take(&bob, &[of_eve.as_str(), &of_bob].concat());
        let (mut one, mut other) = (renewing(&ada), renewing(&bob));
        talk(&mut one, &mut other);
        assert_eq!(digests(&[&ada, &bob]).len(), 1);
        assert_eq!(talk(&mut one, &mut other), 0);
        assert_eq!(talk(&mut renewing(&ada), &mut renewing(&bob)), 0, "another link finds nothing to send");
        let (_, of_joe) = member(&authority, "joe");
        take(&ada, &of_joe);
        assert!(talk(&mut one, &mut other) <= 2 * of_joe.len(), "only what is new");
        assert_eq!(digests(&[&ada, &bob]).len(), 1);
    }

    #[test]
    fn many_certificates_are_sent_in_pieces() {
        let authority = Authority::create().unwrap();
        let (ada, _) = member(&authority, "ada");
        let (bob, _) = member(&authority, "bob");
        let many: String = (0..120).map(|number| member(&authority, &format!("labpc{number}")).1).collect();
        take(&ada, &many);
        let (mut one, mut other) = (renewing(&ada), renewing(&bob));
        assert!(one.due().is_some_and(|(_, pem)| pem.is_empty()));
        let (digest, _) = other.due().unwrap();
        one.hear(digest, &[]);
        let (_, first) = one.due().unwrap();
        assert!(first.len() < many.len() && first.len() as u64 <= phalanx_core::wire::MAX_CONTROL_BODY);
        other.hear(digest, &first);
        talk(&mut one, &mut other);
        assert_eq!(digests(&[&ada, &bob]).len(), 1);
    }

    #[test]
    fn an_end_that_sends_something_else_is_heard_no_more() {
        let authority = Authority::create().unwrap();
        let (ada, of_ada) = member(&authority, "ada");
        let stranger = Authority::create().unwrap();
        let mut end = renewing(&ada);
        assert!(end.hear([1; 16], member(&stranger, "ada").1.as_bytes()).refused.is_some());
        let brought = end.hear([1; 16], of_ada.as_bytes());
        assert!(brought.own.is_none() && brought.refused.is_none());
        assert!(renewing(&ada).hear([1; 16], of_ada.as_bytes()).own.is_some(), "over another link it is");
    }

    #[test]
    fn an_end_that_takes_none_says_nothing() {
        let (mut end, (_, of_ada)) = (Renewing::new(None), member(&Authority::create().unwrap(), "ada"));
        assert!(end.hear([1; 16], of_ada.as_bytes()).own.is_none());
        assert_eq!(end.due(), None);
    }
}
