//! Lists that a hub has signed, and issuers that were revoked.

use super::*;
use crate::identity::{KeyedCertificate, to_hex};
use std::slice::from_ref;
use std::sync::atomic::{AtomicBool, Ordering};

/// A grid with an issuer and a hub.
struct WithHub {
    grid: Grid,
    issuer: Authority,
    hub: Member,
}

impl WithHub {
    fn new() -> WithHub {
        let grid = Grid::new();
        let issuer = grid.authority.issuer("hub").expect("an issuer");
        let hub = member(&issuer, Role::Hub, "hub", None);
        WithHub { grid, issuer, hub }
    }

    /// The certificates of a member of the issuer, and of the issuer.
    fn with_issuer(&self, own: &KeyedCertificate) -> [CertificateDer<'static>; 2] {
        [own.certificate.clone(), self.issuer.certificate().expect("a certificate")]
    }

    fn parse(&self, text: &str) -> Result<RevokedList, IdentityError> {
        RevokedList::parse(text, &self.grid.certificate).map(|list| list.expect("of this grid"))
    }

    /// A list with this number that names these certificates, as a member signs it that keeps to nothing.
    fn forge(&self, by: &Member, number: u64, named: &[&CertificateDer<'_>]) -> String {
        let mut text = format!("phalanx revoked {number} of {}\n", fingerprint(&self.grid.certificate));
        for it in named {
            text += &format!("2026-01-02T03:04:05Z executor one {}\n", fingerprint(it));
        }
        for it in self.with_issuer(by.own()) {
            text += &format!("by {}\n", to_hex(&it));
        }
        let signature = by.own().sign(text.as_bytes()).expect("signed");
        format!("{text}signature {}\n", to_hex(&signature))
    }
}

fn member(authority: &Authority, role: Role, name: &str, lasts: Option<Duration>) -> Member {
    Member::read(&authority.issue_for(role, name, lasts).expect("a member"), role).expect("a member")
}

fn entry(name: &str, certificate: &CertificateDer<'_>) -> Revoked {
    let (when, fingerprint) = ("2026-01-02T03:04:05Z".to_owned(), fingerprint(certificate));
    Revoked { when, role: Role::Executor, name: name.to_owned(), fingerprint, until: None }
}

fn names(list: &RevokedList) -> Vec<&str> {
    list.entries.iter().map(|it| it.name.as_str()).collect()
}

#[test]
fn a_hub_and_the_root_sign_lists_in_turn() {
    let with = WithHub::new();
    let [one, other, third] = ["one", "other", "third"].map(|name| with.grid.issue(name));
    let first = with.grid.revoke(None, "one", &one);
    let second = with.hub.revoke_after(&[&first], vec![entry("other", &other)]).expect("a list");
    let third = with.grid.revoke(Some(&second), "third", &third);
    let parsed = [&first, &second, &third].map(|text| with.parse(text).expect("a list"));
    assert_eq!(parsed.each_ref().map(|list| list.number), [1, 2, 3]);
    assert_eq!(names(&parsed[2]), ["one", "other", "third"]);
    assert_eq!(parsed.each_ref().map(|list| list.signers.len()), [0, 2, 0]);
    assert!(!third.contains("\nby "), "the root's lists are as before");
    let folder = tempfile::tempdir().expect("a folder");
    let revocations = heeding(&with.grid, vec![folder.path().join("revoked.txt")]);
    for text in [&first, &second, &third] {
        assert!(revocations.take(text).expect("a list").is_some());
    }
    check(&revocations, &other).expect_err("the hub has revoked it");
    let theirs = WithHub::new();
    assert!(matches!(RevokedList::parse(&second, &theirs.grid.certificate), Ok(None)), "another grid's");
}

#[test]
fn a_hub_of_the_root_itself_signs_too() {
    let grid = Grid::new();
    let hub = member(&grid.authority, Role::Hub, "hub", None);
    let list = hub.revoke_after(&[], vec![entry("one", &grid.issue("one"))]).expect("a list");
    let list = RevokedList::parse(&list, &grid.certificate).expect("a list").expect("of this grid");
    assert_eq!(list.signers, [fingerprint(&hub.own().certificate)]);
}

#[test]
fn only_hubs_of_the_grid_sign_lists() {
    let (with, theirs) = (WithHub::new(), WithHub::new());
    let one = with.grid.issue("one");
    assert!(with.parse(&with.forge(&with.hub, 1, &[&one])).is_ok());
    for role in [Role::Executor, Role::User] {
        let eve = member(&with.issuer, role, "eve", None);
        assert!(matches!(eve.revoke_after(&[], vec![entry("one", &one)]), Err(IdentityError::NoLists)));
        let error = with.parse(&with.forge(&eve, 1, &[&one])).expect_err("no hub").to_string();
        assert!(error.contains("no hub"), "{error}");
    }
    // A foreign hub, with its own issuer or under the one of this grid.
    let lists = [theirs.forge(&theirs.hub, 1, &[&one]), with.forge(&theirs.hub, 1, &[&one])];
    let titles =
        lists.map(|it| it.replace(&fingerprint(&theirs.grid.certificate), &fingerprint(&with.grid.certificate)));
    for list in titles {
        with.parse(&list).expect_err("another grid's hub");
    }
    // The certificate of a hub, and another's signature.
    let eve = KeyedCertificate::ephemeral().expect("a key");
    let list = with.forge(&with.hub, 1, &[&one]);
    let end = list.rfind("signature ").expect("is signed");
    let signature = to_hex(&eve.sign(&list.as_bytes()[..end]).expect("signed"));
    with.parse(&format!("{}signature {signature}\n", &list[..end])).expect_err("another key");
}

#[test]
fn a_list_stays_good_when_the_certificate_of_its_hub_has_ended() {
    let with = WithHub::new();
    let hub = member(&with.issuer, Role::Hub, "hub", Some(Duration::ZERO));
    let list = hub.revoke_after(&[], vec![entry("one", &with.grid.issue("one"))]).expect("a list");
    let begun = Instant::now();
    while !hub.validity().expect("a certificate").is_over() {
        assert!(begun.elapsed() < LONG, "it ends at once");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(names(&with.parse(&list).expect("a list")), ["one"]);
}

#[test]
fn a_list_by_a_hub_that_is_altered_anywhere_is_refused() {
    let with = WithHub::new();
    let list = with.hub.revoke_after(&[], vec![entry("one", &with.grid.issue("one"))]).expect("a list");
    for at in 0..list.len() - 1 {
        for flip in [1, 0x20] {
            let mut changed = list.clone().into_bytes();
            changed[at] ^= flip;
            let changed = String::from_utf8_lossy(&changed);
            let parsed = RevokedList::parse(&changed, &with.grid.certificate);
            assert!(!matches!(parsed, Ok(Some(_))), "byte {at}: {changed}");
        }
    }
    for at in 0..list.len() - 1 {
        assert!(with.parse(&list[..at]).is_err(), "{at}");
    }
    let without: String = list.split_inclusive('\n').filter(|line| !line.starts_with("by ")).collect();
    with.parse(&without).expect_err("nobody has signed it so");
}

#[test]
fn a_hub_neither_names_itself_nor_takes_the_last_number() {
    let with = WithHub::new();
    let [hub, issuer] = with.with_issuer(with.hub.own());
    for own in [&hub, &issuer] {
        with.hub.revoke_after(&[], vec![entry("hub", own)]).expect_err("it names itself");
        let error = with.parse(&with.forge(&with.hub, 1, &[own])).expect_err("it names itself").to_string();
        assert!(error.contains("names the hub that has signed it"), "{error}");
        let named = with.grid.revoke(None, "hub", own);
        with.hub.revoke_after(&[&named], Vec::new()).expect_err("it would name itself");
    }
    let most = with.forge(&with.hub, 1 << 62, &[]);
    assert!(with.parse(&most).is_ok());
    for number in [(1 << 62) + 1, u64::MAX] {
        with.parse(&with.forge(&with.hub, number, &[])).expect_err("the root could sign no later one");
    }
    assert!(with.hub.revoke_after(&[&most], Vec::new()).is_err());
    let later = with.grid.revoke(Some(&most), "hub", &hub);
    assert_eq!(with.parse(&later).expect("a list").number, (1 << 62) + 1);
}

#[test]
fn a_hub_that_the_known_list_names_is_not_believed() {
    let with = WithHub::new();
    let one = with.grid.issue("one");
    let [hub, issuer] = with.with_issuer(with.hub.own());
    for named in [&hub, &issuer] {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ["a", "b"].map(|name| folder.path().join(name));
        let revocations = heeding(&with.grid, files.to_vec());
        let known = with.grid.revoke(None, "hub", named);
        assert!(revocations.take(&known).expect("a list").is_some());
        let forged = with.forge(&with.hub, 7, &[&one]);
        assert!(revocations.take(&forged).expect("a list").is_none());
        // Nor where it is found in a file, in whatever order.
        fs::write(&files[1], &forged).expect("written");
        assert_eq!(check(&revocations, &one), Ok(()));
        for (index, text) in [(0, &forged), (1, &known)] {
            fs::write(&files[index], text).expect("written");
        }
        let restarted = heeding(&with.grid, files.to_vec());
        assert_eq!(check(&restarted, &one), Ok(()));
        assert_eq!(restarted.number(), 1);
        // A list of the root replaces it.
        let later = with.grid.revoke(Some(&known), "one", &one);
        assert!(restarted.take(&later).expect("a list").expect("newer").unwritten.is_none());
        assert_eq!(fs::read_to_string(&files[0]).expect("read"), later);
        check(&restarted, &one).expect_err("the root has revoked it");
    }
}

#[test]
fn the_members_of_a_revoked_issuer_are_refused_whatever_they_show() {
    let with = WithHub::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("revoked.txt");
    let text = with.issuer.issue(Role::Executor, "labpc").expect("a member");
    let labpc = Member::parse(&text, Role::Executor).expect("a member").heeding(vec![file.clone()]);
    let (one, [_, issuer]) = (with.issue_below("one"), with.with_issuer(with.hub.own()));
    let admit = |shown: &[CertificateDer<'_>]| labpc.revocations().admit(shown).map(drop);
    let verify = || labpc.verifier.members().verify_at_end(&one, from_ref(&issuer));
    assert!(admit(from_ref(&one)).is_ok() && admit(&[one.clone(), issuer.clone()]).is_ok() && verify().is_ok());
    labpc.revocations().take(&with.grid.revoke(None, "hub", &issuer)).expect("a list").expect("newer");
    for shown in [&[one.clone()][..], &[one.clone(), issuer.clone()]] {
        let error = admit(shown).expect_err("its issuer is revoked").to_string();
        assert!(error.contains("the executor hub was revoked"), "{error}");
    }
    verify().expect_err("the issuer counts no more");
    assert!(admit(&[with.grid.issue("other")]).is_ok(), "the root's own members are still there");
    assert!(labpc.check_own().is_err());
}

impl WithHub {
    fn issue_below(&self, name: &str) -> CertificateDer<'static> {
        first_certificate(&self.issuer.issue(Role::Executor, name).expect("a member")).expect("a certificate")
    }
}

/// A link that notes whether it was ended.
#[derive(Debug, Default)]
struct Open(AtomicBool);

impl Ends for Open {
    fn end(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn has_ended(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn tell(&self, _: NewsDigest) {}

    fn look(&self) {}
}

#[test]
fn a_list_ends_the_links_of_the_revoked_at_once() {
    let with = WithHub::new();
    let folder = tempfile::tempdir().expect("a folder");
    let [file, other_file] = ["a", "b"].map(|name| folder.path().join(name));
    let revocations = heeding(&with.grid, vec![file, other_file.clone()]);
    let [one, other, third] = ["one", "other", "third"].map(|name| with.grid.issue(name));
    let below = with.issue_below("below");
    let issuer = with.issuer.certificate().expect("a certificate");
    let open = |shown: &[CertificateDer<'_>]| {
        let link = Arc::new(Open::default());
        let watch = revocations.admit(shown).expect("is admitted").expect("there are files");
        watch.over(&link);
        link
    };
    let links = [open(from_ref(&one)), open(from_ref(&other)), open(&[below, issuer.clone()]), open(from_ref(&third))];
    let ended = || links.each_ref().map(|link| link.has_ended());
    // No look comes between: the next one is due after a pause, and the list is taken before it.
    let first = with.grid.revoke(None, "one", &one);
    revocations.take(&first).expect("a list").expect("newer");
    assert_eq!(ended(), [true, false, false, false]);
    let second = with.hub.revoke_after(&[&first], vec![entry("other", &other)]).expect("a list");
    revocations.take(&second).expect("a list").expect("newer");
    assert_eq!(ended(), [true, true, false, false]);
    // A peer that connects makes this end look at its files.
    fs::write(other_file, with.grid.revoke(Some(&second), "hub", &issuer)).expect("written");
    check(&revocations, &third).expect("is not revoked");
    assert_eq!(ended(), [true, true, true, false]);
    // A list that comes between the handshake and the link.
    let watch = revocations.admit(from_ref(&third)).expect("is admitted").expect("there are files");
    let (_, text) = revocations.newer_than(0).expect("a list");
    revocations.take(&with.grid.revoke(Some(&text), "third", &third)).expect("a list").expect("newer");
    let late = Arc::new(Open::default());
    watch.over(&late);
    assert!(late.has_ended() && links[3].has_ended());
}
