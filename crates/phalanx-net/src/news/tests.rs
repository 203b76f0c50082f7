mod floods;

use super::*;
use crate::identity::{Authority, IdentityError, Issued, LONGEST_LIST, Member, Revoked, Role};
use proptest::prelude::*;
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(24 * 3600);

struct Grid {
    authority: Authority,
    folder: TempDir,
}

/// A member of the grid, with its files and its renewed certificate.
struct Known {
    member: Member,
    list: PathBuf,
    renewed: String,
}

impl Grid {
    fn new() -> Grid {
        Grid { authority: Authority::create().unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    fn member(&self, name: &str) -> Known {
        let text = self.authority.issue_for(Role::User, name, Some(DAY)).unwrap();
        let own = text.split_inclusive("END CERTIFICATE-----").next().unwrap();
        let issued = &Issued::all(own, &self.authority.to_pem(None).unwrap()).unwrap()[0];
        let renewed = self.authority.renew(issued, Some(30 * DAY)).unwrap().to_pem();
        let list = self.folder.path().join(name);
        let member = Member::parse(&text, Role::User).unwrap().heeding(vec![list.clone()]);
        Known { member: member.renewing(None, Vec::new()).unwrap(), list, renewed }
    }

    /// A list with so many certificates that follows the earlier one.
    fn list(&self, earlier: Option<&str>, count: usize) -> String {
        self.try_list(earlier, count).unwrap()
    }

    fn try_list(&self, earlier: Option<&str>, count: usize) -> Result<String, IdentityError> {
        let revoked = (0..count).map(|number| Revoked {
            when: "2026-01-02T03:04:05Z".to_owned(),
            role: Role::Executor,
            name: format!("labpc{number}"),
            fingerprint: format!("{number:064x}"),
            until: None,
        });
        self.authority.revoke(earlier, revoked.collect())
    }
}

impl Known {
    fn exchange(&self) -> Exchange {
        Exchange::new(self.member.news())
    }

    fn client(&self) -> Exchange {
        Exchange::of_client(self.member.news())
    }

    fn server(&self) -> Exchange {
        Exchange::of_server(self.member.news())
    }

    fn take(&self, pem: &str) {
        assert!(self.member.renewals().unwrap().take(pem.as_bytes()).refused.is_none());
    }

    fn digest(&self) -> [u8; 16] {
        self.member.renewals().unwrap().digest()
    }

    fn has_list(&self) -> String {
        fs::read_to_string(&self.list).unwrap_or_default()
    }
}

/// Both ends say and hear until neither has more to say. Returns the bytes of bodies that were sent, and the longest body.
fn talk(one: &mut Exchange, other: &mut Exchange) -> (usize, usize) {
    let (mut sent, mut longest) = (0, 0);
    loop {
        let (from_one, from_other) = (one.due(), other.due());
        if from_one.is_none() && from_other.is_none() {
            return (sent, longest);
        }
        for (from, to) in [(from_one, &mut *other), (from_other, &mut *one)] {
            let Some((message, body)) = from else { continue };
            (sent, longest) = (sent + body.len(), longest.max(body.len()));
            assert!(to.hear(message, &body).unwrap().brought.refused.is_none());
        }
    }
}

#[test]
fn the_end_with_an_older_list_gets_the_newer_one_once() {
    let grid = Grid::new();
    let (ada, bob) = (grid.member("ada"), grid.member("bob"));
    let first = grid.list(None, 1);
    fs::write(&ada.list, &first).unwrap();
    let (mut one, mut other) = (ada.exchange(), bob.exchange());
    assert!(matches!(one.due(), Some((wire::News::Has(digest), body)) if digest.revoked == 1 && body.is_empty()));
    assert_eq!(one.due(), None, "the other end has not said what it has");
    assert_eq!(talk(&mut other, &mut one).0, first.len());
    other.hear(wire::News::Has(ada.member.news().digest()), &[]).unwrap();
    talk(&mut one, &mut other);
    assert_eq!(bob.has_list(), first);
    let second = grid.list(Some(&first), 3);
    assert!(bob.member.revocations().take(&second).unwrap().is_some(), "it learns the list from another member");
    assert_eq!(talk(&mut one, &mut other).0, second.len(), "a list that comes later travels too, and back it does not");
    assert_eq!(ada.has_list(), second);
}

/// Two thousand certificates need about 210 KB, and nine thousand a megabyte. No message has more than 48 KiB.
#[test]
fn long_lists_are_sent_in_pieces() {
    for count in [2000, 9000] {
        let grid = Grid::new();
        let (ada, bob) = (grid.member("ada"), grid.member("bob"));
        let list = grid.list(None, count);
        assert!(list.len() > 100 * count);
        fs::write(&ada.list, &list).unwrap();
        let (sent, longest) = talk(&mut ada.client(), &mut bob.server());
        assert_eq!((sent, longest), (list.len(), PIECE));
        assert_eq!(bob.has_list(), list);
    }
}

/// Members would read none of it, and let nobody in.
#[test]
fn the_authority_signs_no_list_that_is_too_long_for_members() {
    let error = Grid::new().try_list(None, 12_000).unwrap_err();
    assert!(error.to_string().contains("longer than the 1048576 bytes that members read"), "{error}");
}

#[test]
fn a_newer_list_may_appear_while_one_is_sent() {
    let grid = Grid::new();
    let (ada, bob) = (grid.member("ada"), grid.member("bob"));
    let first = grid.list(None, 2000);
    let second = grid.list(Some(&first), 2001);
    fs::write(&ada.list, &first).unwrap();
    let (mut one, mut other) = (ada.exchange(), bob.exchange());
    one.hear(other.due().unwrap().0, &[]).unwrap();
    other.hear(one.due().unwrap().0, &[]).unwrap();
    let (message, piece) = one.due().unwrap();
    assert!(other.hear(message, &piece).unwrap().list.is_none());
    assert!(ada.member.revocations().take(&second).unwrap().is_some());
    talk(&mut one, &mut other);
    assert_eq!(bob.has_list(), second);
}

#[test]
fn pieces_that_are_none_of_a_list_are_refused() {
    let grid = Grid::new();
    let (ada, stranger) = (grid.member("ada"), Grid::new());
    let piece = |number, left| wire::News::Revoked { number, left };
    let refused = |exchange: &mut Exchange, message, body: &[u8]| assert!(exchange.hear(message, body).is_err());
    refused(&mut ada.exchange(), piece(1, 0), b"no list");
    refused(&mut ada.exchange(), piece(1, 0), b"");
    refused(&mut ada.exchange(), piece(1, u64::MAX), b"x");
    refused(&mut ada.exchange(), piece(1, LONGEST_LIST), b"x");
    let mut many = ada.exchange();
    let most = LONGEST_LIST as usize / PIECE;
    for _ in 0..most {
        many.hear(piece(1, 1), &[b'x'; PIECE]).unwrap();
    }
    refused(&mut many, piece(1, 1), &[b'x'; PIECE]);
    let mut forged = stranger.list(None, 3);
    assert!(ada.exchange().hear(piece(7, 0), forged.as_bytes()).unwrap().list.is_none(), "another grid's");
    forged = grid.list(None, 3).replace("labpc1", "labpc9");
    refused(&mut ada.exchange(), piece(1, 0), forged.as_bytes());
    assert_eq!(ada.has_list(), "");
}

#[test]
fn an_older_list_replaces_no_newer_one() {
    let grid = Grid::new();
    let ada = grid.member("ada");
    let first = grid.list(None, 1);
    let second = grid.list(Some(&first), 2);
    fs::write(&ada.list, &second).unwrap();
    let mut end = ada.exchange();
    let said = wire::News::Revoked { number: 99, left: 0 };
    assert!(end.hear(said, first.as_bytes()).unwrap().list.is_none(), "the number in the list counts");
    assert_eq!(ada.has_list(), second);
}

#[test]
fn both_ends_know_the_same_certificates_at_last_and_send_none_twice() {
    let grid = Grid::new();
    let [ada, bob, eve, joe] = ["ada", "bob", "eve", "joe"].map(|name| grid.member(name));
    ada.take(&[ada.renewed.as_str(), &bob.renewed].concat());
    bob.take(&[eve.renewed.as_str(), &bob.renewed].concat());
    let (mut one, mut other) = (ada.exchange(), bob.exchange());
    talk(&mut one, &mut other);
    assert_eq!(ada.digest(), bob.digest());
    assert_eq!(talk(&mut one, &mut other).0, 0);
    assert_eq!(talk(&mut ada.exchange(), &mut bob.exchange()).0, 0, "another link finds nothing to send");
    ada.take(&joe.renewed);
    assert_eq!(talk(&mut one, &mut other).0, joe.renewed.len(), "only what is new, and it is not sent back");
    assert_eq!(ada.digest(), bob.digest());
}

#[test]
fn many_certificates_are_sent_in_pieces() {
    let grid = Grid::new();
    let (ada, bob) = (grid.member("ada"), grid.member("bob"));
    let many: String = (0..120).map(|number| grid.member(&format!("labpc{number}")).renewed).collect();
    ada.take(&many);
    let (sent, longest) = talk(&mut ada.client(), &mut bob.server());
    assert_eq!(sent, many.len());
    assert!(longest < many.len() && longest as u64 <= phalanx_core::wire::MAX_CONTROL_BODY);
    assert_eq!(ada.digest(), bob.digest());
}

#[test]
fn an_end_that_sends_other_certificates_is_heard_no_more() {
    let (grid, stranger) = (Grid::new(), Grid::new());
    let ada = grid.member("ada");
    let mut end = ada.exchange();
    let mut hear = |pem: &str| end.hear(wire::News::Renewed, pem.as_bytes()).unwrap().brought;
    assert!(hear(&stranger.member("ada").renewed).refused.is_some());
    let brought = hear(&ada.renewed);
    assert!(brought.own.is_none() && brought.refused.is_none());
    let again = ada.exchange().hear(wire::News::Renewed, ada.renewed.as_bytes()).unwrap();
    assert!(again.brought.own.is_some(), "over another link it is");
}

#[test]
fn a_member_without_files_has_nothing_and_is_told_nothing() {
    let grid = Grid::new();
    let text = grid.authority.issue(Role::User, "eve").unwrap();
    let eve = Member::parse(&text, Role::User).unwrap();
    let ada = grid.member("ada");
    ada.take(&ada.renewed);
    assert!(!eve.news().digest().differs(ada.member.news().digest()));
    let (mut one, mut other) = (Exchange::of_client(eve.news()), ada.server());
    assert_eq!(talk(&mut one, &mut other), (0, 0));
    assert!(one.is_over() && other.is_over());
}

#[test]
fn a_talk_is_over_when_both_ends_have_told_everything() {
    let grid = Grid::new();
    let (ada, bob) = (grid.member("ada"), grid.member("bob"));
    fs::write(&ada.list, grid.list(None, 700)).unwrap();
    bob.take(&ada.renewed);
    let (mut one, mut other) = (ada.client(), bob.server());
    assert!(!one.is_over() && !other.is_over());
    other.hear(one.due().unwrap().0, &[]).unwrap();
    while let Some((message, body)) = other.due() {
        assert!(message != wire::News::Done, "the client has not told everything yet");
        one.hear(message, &body).unwrap();
    }
    talk(&mut one, &mut other);
    assert!(one.is_over() && other.is_over());
    assert_eq!(HashSet::from([ada.member.news().digest(), bob.member.news().digest()]).len(), 1);
    talk(&mut ada.exchange(), &mut bob.exchange());
}

/// Messages in any order, of any lengths. None is signed, so that nothing may be learned.
fn any_message() -> impl Strategy<Value = (wire::News, Vec<u8>)> {
    let digest = (0u64..3, any::<[u8; 16]>()).prop_map(|(revoked, renewed)| wire::NewsDigest { revoked, renewed });
    let message = prop_oneof![
        digest.prop_map(wire::News::Has),
        (0u64..3, prop_oneof![Just(0), Just(1), any::<u64>()])
            .prop_map(|(number, left)| wire::News::Revoked { number, left }),
        Just(wire::News::Renewed),
        Just(wire::News::Done),
    ];
    (message, prop::collection::vec(any::<u8>(), 0..40))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn hostile_messages_are_refused_or_understood_and_an_exchange_ends(
        messages in prop::collection::vec(any_message(), 0..20),
    ) {
        let grid = Grid::new();
        let ada = grid.member("ada");
        ada.take(&ada.renewed);
        let list = grid.list(None, 1000);
        fs::write(&ada.list, &list).unwrap();
        for mut exchange in [ada.exchange(), ada.client(), ada.server()] {
            for (message, body) in &messages {
                let Ok(learned) = exchange.hear(message.clone(), body) else { continue };
                prop_assert!(learned.list.is_none() && learned.brought.own.is_none());
            }
            let due = (0..1000).take_while(|_| exchange.due().is_some()).count();
            prop_assert!(due < 10, "what is due is what this end has, once");
        }
        prop_assert_eq!(ada.has_list(), list);
    }
}
