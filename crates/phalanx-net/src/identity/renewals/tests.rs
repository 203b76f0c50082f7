//! Which certificates a member takes, keeps, uses and hands on.

use super::*;
use crate::identity::{Authority, Issued, Member, Role};
use proptest::prelude::*;
use std::fs;
use std::thread;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A grid, and members with identity files in a folder.
struct Grid {
    authority: Authority,
    folder: tempfile::TempDir,
}

impl Grid {
    fn new() -> Grid {
        Grid { authority: Authority::create().expect("a grid"), folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The text of an identity file that is good for a day.
    fn issue(&self, role: Role, name: &str) -> Zeroizing<String> {
        self.authority.issue_for(role, name, Some(DAY)).expect("a member")
    }

    /// The member with this identity file, which keeps renewed certificates beside it.
    fn member(&self, role: Role, text: &str, name: &str) -> Member {
        fs::write(self.path(&format!("{name}.pem")), text).expect("written");
        self.running(role, text, name)
    }

    /// Another process of the member.
    fn running(&self, role: Role, text: &str, name: &str) -> Member {
        let [identity, renewed] = ["pem", "renewed"].map(|ending| self.path(&format!("{name}.{ending}")));
        let member = Member::parse(text, role).expect("a member");
        member.renewing(Some(identity), vec![renewed]).expect("has a role and a name")
    }

    fn renew(&self, text: &str, lasts: Duration) -> String {
        renew(&self.authority, text, lasts)
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

/// The certificate of an identity file, signed again by its authority.
fn renew(authority: &Authority, text: &str, lasts: Duration) -> String {
    let pem = authority.to_pem(None).expect("is not locked");
    let issued = Issued::all(&to_pem(&first_certificate(text).expect("a certificate")), &pem).expect("certificates");
    authority.renew(&issued[0], Some(lasts)).expect("renewed").to_pem()
}

fn renewals(member: &Member) -> &Renewals {
    member.renewals().expect("takes them")
}

/// The certificate that the member shows at the next link.
fn shown(member: &Member) -> String {
    to_pem(&member.newest().own().certificate)
}

#[test]
fn a_member_uses_a_renewed_certificate_and_writes_it_into_its_identity_file() {
    let grid = Grid::new();
    let text = grid.issue(Role::Executor, "labpc");
    let member = grid.member(Role::Executor, &text, "labpc");
    let new = grid.renew(&text, 30 * DAY);
    let brought = renewals(&member).take(new.as_bytes());
    assert!(brought.refused.is_none() && brought.unwritten.is_none(), "{brought:?}");
    assert_eq!(brought.own, member.validity().ok());
    assert_eq!(shown(&member), new);
    let again = grid.file("labpc.pem");
    assert!(again.starts_with(&new) && again.ends_with(&text[text.find("-----END CERTIFICATE").expect("it")..]));
    assert_eq!(to_pem(&Member::parse(&again, Role::Executor).expect("a member").own().certificate), new);
    assert_eq!(grid.file("labpc.renewed"), new, "it is handed on");
    assert!(renewals(&member).take(new.as_bytes()).own.is_none(), "it is no news");
}

#[test]
fn what_is_not_for_the_member_changes_nothing_of_it() {
    let grid = Grid::new();
    let text = grid.issue(Role::Executor, "labpc");
    let member = grid.member(Role::Executor, &text, "labpc");
    let (before, file) = (shown(&member), grid.file("labpc.pem"));
    let (stranger, own) = (Authority::create().expect("a grid"), first_certificate(&text).expect("a certificate"));
    let key = Holder::of(&own).expect("a member").key;
    let certify = |authority: &Authority, role, name: &str| {
        let issued = Issued { role, name: name.to_owned(), ..issued_of(&grid.authority, &text) };
        // The key is that of the member, and what else it says is not.
        let renewed = authority.renew_unchecked(&issued, 30 * DAY).expect("signed");
        assert_eq!(Holder::of(&first_certificate(&renewed).expect("a certificate")).expect("a member").key, key);
        renewed
    };
    let huge =
        format!("{}{}", "-----BEGIN CERTIFICATE-----\n", "AAAA".repeat(1 << 18)) + "\n-----END CERTIFICATE-----\n";
    let hostile = [
        ("another authority's", certify(&stranger, Role::Executor, "labpc"), true),
        ("another name", certify(&grid.authority, Role::Executor, "other"), false),
        ("another role", certify(&grid.authority, Role::User, "labpc"), false),
        ("another key", grid.renew(&grid.issue(Role::Executor, "labpc"), 30 * DAY), false),
        ("an earlier end", grid.renew(&text, DAY / 2), false),
        ("the same end", before.clone(), false),
        ("an end that has passed", grid.renew(&text, Duration::ZERO), false),
        ("huge", huge, true),
        ("none", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(), true),
        ("half", grid.renew(&text, 30 * DAY)[..200].to_owned(), true),
    ];
    for (what, pem, is_refused) in hostile {
        let brought = renewals(&member).take(pem.as_bytes());
        assert_eq!((brought.own, brought.refused.is_some()), (None, is_refused), "{what}");
        assert_eq!((shown(&member), grid.file("labpc.pem")), (before.clone(), file.clone()), "{what}");
    }
    let kept = renewals(&member).fingerprints().len();
    assert!(kept <= 4, "{kept}: what others' certificates are is kept for them, and nothing else");
}

fn issued_of(authority: &Authority, text: &str) -> Issued {
    let pem = authority.to_pem(None).expect("is not locked");
    let certificate = to_pem(&first_certificate(text).expect("a certificate"));
    Issued::all(&certificate, &pem).expect("certificates").remove(0)
}

proptest! {
    #[test]
    fn an_altered_byte_is_refused(at in 0usize..400, flip in 1u8..=255) {
        let grid = Grid::new();
        let text = grid.issue(Role::Executor, "labpc");
        let member = grid.member(Role::Executor, &text, "labpc");
        let mut der = first_certificate(&grid.renew(&text, 30 * DAY)).expect("a certificate").to_vec();
        let at = at % der.len();
        der[at] ^= flip;
        let brought = renewals(&member).take(to_pem(&der.into()).as_bytes());
        prop_assert_eq!(brought.own, None);
        prop_assert!(renewals(&member).fingerprints().is_empty());
    }

    #[test]
    fn no_bytes_do_harm(bytes: Vec<u8>) {
        let grid = Grid::new();
        let text = grid.issue(Role::User, "ada");
        prop_assert!(renewals(&grid.member(Role::User, &text, "ada")).take(&bytes).own.is_none());
    }
}

#[test]
fn members_hand_on_the_certificates_of_others() {
    let grid = Grid::new();
    let texts = ["ada", "bob", "eve"].map(|name| grid.issue(Role::User, name));
    let [ada, bob] = [0, 1].map(|index| grid.member(Role::User, &texts[index], ["ada", "bob"][index]));
    let all: String = texts.iter().map(|text| grid.renew(text, 30 * DAY)).collect();
    renewals(&ada).take(all.as_bytes());
    assert_ne!(renewals(&ada).digest(), renewals(&bob).digest());
    let mut known = HashSet::new();
    let piece = renewals(&ada).piece(&mut known, 48 << 10);
    assert_eq!((known.len(), renewals(&ada).piece(&mut known, 48 << 10)), (3, String::new()));
    assert!(renewals(&bob).take(piece.as_bytes()).own.is_some());
    assert_eq!(renewals(&ada).digest(), renewals(&bob).digest());
    assert_eq!(grid.file("ada.renewed"), grid.file("bob.renewed"));
}

#[test]
fn another_process_of_the_member_finds_the_new_file() {
    let grid = Grid::new();
    let text = grid.issue(Role::Executor, "labpc");
    let members = [grid.member(Role::Executor, &text, "labpc"), grid.running(Role::Executor, &text, "labpc")];
    let before = shown(&members[1]);
    let new = grid.renew(&text, 30 * DAY);
    renewals(&members[0]).take(new.as_bytes());
    assert_eq!(shown(&members[1]), new);
    let newer = grid.renew(&text, 60 * DAY);
    let theirs = Grid::new();
    let theirs = theirs.renew(&theirs.issue(Role::Executor, "labpc"), 90 * DAY);
    fs::write(grid.path("labpc.renewed"), [&theirs, &new, &newer].map(String::as_str).concat()).expect("written");
    assert_eq!(members.each_ref().map(shown), [newer.clone(), newer.clone()]);
    assert!(grid.file("labpc.pem").starts_with(&newer));
    let other = grid.issue(Role::Executor, "labpc");
    fs::write(grid.path("labpc.pem"), &*other).expect("written");
    assert_eq!(shown(&members[0]), newer, "a file with another key is for the next start");
    renewals(&members[0]).take(grid.renew(&text, 90 * DAY).as_bytes()).unwritten.expect("it is not overwritten");
    assert_eq!(grid.file("labpc.pem"), *other);
    assert_ne!(before, newer);
}

#[test]
fn of_two_processes_that_write_at_the_same_time_the_later_end_stays() {
    let grid = Grid::new();
    let text = grid.issue(Role::Executor, "labpc");
    let member = grid.member(Role::Executor, &text, "labpc");
    let new: Vec<_> = (2..12u32).map(|days| grid.renew(&text, days * DAY)).collect();
    thread::scope(|scope| {
        for (index, one) in new.iter().enumerate() {
            // Half of them share what they know, and half are processes of their own.
            let process = if index % 2 == 0 { member.clone() } else { grid.running(Role::Executor, &text, "labpc") };
            scope.spawn(move || renewals(&process).take(one.as_bytes()));
        }
    });
    assert!(grid.file("labpc.pem").starts_with(&new[9]));
    assert_eq!(grid.file("labpc.renewed"), new[9]);
}

#[test]
fn an_identity_whose_certificate_has_ended_is_renewed_from_the_file_beside_it() {
    let grid = Grid::new();
    let text = grid.authority.issue_for(Role::User, "ada", Some(Duration::ZERO)).expect("a member");
    let ends = Instant::now();
    while !matches!(Member::parse(&text, Role::User), Err(IdentityError::Ended { .. })) {
        assert!(ends.elapsed() < Duration::from_secs(30), "it ends at once");
        thread::sleep(Duration::from_millis(20));
    }
    fs::write(grid.path("ada.pem"), &*text).expect("written");
    let renewed = || {
        let [identity, file] = ["ada.pem", "renewed.pem"].map(|name| grid.path(name));
        Member::renew(&text, Role::User, identity, vec![file]).expect("an identity file")
    };
    assert_eq!(*renewed(), *text);
    fs::write(grid.path("renewed.pem"), grid.renew(&text, 30 * DAY)).expect("written");
    Member::parse(&renewed(), Role::User).expect("a member");
    assert_eq!(grid.file("ada.pem"), *renewed());
}

#[test]
fn a_member_that_keeps_its_certificate_is_not_renewed_meanwhile() {
    let grid = Grid::new();
    let text = grid.issue(Role::Executor, "labpc");
    let member = grid.member(Role::Executor, &text, "labpc");
    let kept = member.newest();
    renewals(&member).take(grid.renew(&text, 30 * DAY).as_bytes());
    assert_eq!(shown(&kept), to_pem(&first_certificate(&text).expect("a certificate")));
    assert!(is_same_member(&kept.own().certificate, &member.newest().own().certificate));
    let other = first_certificate(&grid.issue(Role::Executor, "labpc")).expect("a certificate");
    assert!(!is_same_member(&kept.own().certificate, &other), "another key");
}

#[test]
fn only_certificates_of_the_authority_are_renewed() {
    let (one, other) = (Grid::new(), Grid::new());
    let issued = issued_of(&one.authority, &one.issue(Role::User, "ada"));
    other.authority.renew(&issued, None).expect_err("it is another grid's");
    let again = one.authority.renew(&issued, None).expect("renewed");
    let lasts = |it: &Issued| it.validity.until - it.validity.from;
    assert_eq!(lasts(&again), lasts(&issued), "it is good for as long as the one before");
}

/// A file of renewed certificates may be of several grids, and of one that is larger than what a member keeps.
#[test]
fn certificates_that_a_member_does_not_keep_stay_in_the_file() {
    let (grid, other) = (Grid::new(), Grid::new());
    let text = grid.issue(Role::User, "ada");
    let member = grid.member(Role::User, &text, "ada");
    let theirs = other.renew(&other.issue(Role::User, "eve"), 30 * DAY);
    fs::write(grid.path("ada.renewed"), &theirs).expect("written");
    let of_bob = grid.renew(&grid.issue(Role::User, "bob"), 30 * DAY);
    let brought = renewals(&member).take(of_bob.as_bytes());
    assert!(brought.refused.is_none() && brought.unwritten.is_none(), "{brought:?}");
    let file = grid.file("ada.renewed");
    assert!(file.contains(&theirs) && file.contains(&of_bob));
}

/// The number of members that two members have in each other's news must not depend on the order in which they heard of them.
#[test]
fn two_members_that_have_heard_the_same_keep_the_same() {
    let grid = Grid::new();
    let [one, other] = ["ada", "bob"].map(|name| grid.member(Role::User, &grid.issue(Role::User, name), name));
    let of = |name: &str| grid.renew(&grid.issue(Role::Executor, name), 30 * DAY);
    let many: Vec<_> = (0..MOST_RENEWED + 3).map(|number| of(&format!("labpc{number}"))).collect();
    let forth: String = many.concat();
    let back: String = many.iter().rev().map(String::as_str).collect();
    assert!(renewals(&one).take(forth.as_bytes()).refused.is_none());
    assert!(renewals(&other).take(back.as_bytes()).refused.is_none());
    assert_eq!(renewals(&one).fingerprints().len(), MOST_RENEWED);
    assert_eq!(renewals(&one).digest(), renewals(&other).digest());
    for pem in &many {
        assert!(renewals(&one).take(pem.as_bytes()).refused.is_none());
    }
    assert_eq!(renewals(&one).digest(), renewals(&other).digest(), "hearing of them again changes nothing");
    // Of what is left out, nothing is lost that was in the file.
    fs::write(grid.path("ada.renewed"), &forth).expect("written");
    assert!(renewals(&one).take(of("aaa").as_bytes()).unwritten.is_none());
    let file = grid.file("ada.renewed");
    assert!(many.iter().all(|pem| file.contains(pem)));
}

#[test]
fn of_two_certificates_with_the_same_end_all_members_keep_the_same() {
    let grid = Grid::new();
    let [one, other] = ["ada", "bob"].map(|name| grid.member(Role::User, &grid.issue(Role::User, name), name));
    let text = grid.issue(Role::Executor, "labpc");
    let (first, second) = std::iter::repeat_with(|| [(); 2].map(|()| grid.renew(&text, 30 * DAY)))
        .map(|[first, second]| (issued_of(&grid.authority, &first), issued_of(&grid.authority, &second)))
        .find(|(first, second)| first.validity.until == second.validity.until)
        .expect("some are of the same second");
    let [first, second] = [first.to_pem(), second.to_pem()];
    assert_ne!(first, second);
    renewals(&one).take([&*first, &second].concat().as_bytes());
    renewals(&other).take([&*second, &first].concat().as_bytes());
    assert_eq!(renewals(&one).fingerprints(), renewals(&other).fingerprints());
    assert_eq!(renewals(&one).digest(), renewals(&other).digest());
}

#[test]
fn what_cannot_be_written_is_written_later() {
    let grid = Grid::new();
    let text = grid.issue(Role::User, "ada");
    let [identity, renewed] = ["ada.pem", "ada.renewed"].map(|name| grid.path("none").join(name));
    let member = Member::parse(&text, Role::User).expect("a member");
    let member = member.renewing(Some(identity.clone()), vec![renewed.clone()]).expect("has a role and a name");
    let new = grid.renew(&text, 30 * DAY);
    assert!(renewals(&member).take(new.as_bytes()).unwritten.is_some());
    fs::create_dir(grid.path("none")).expect("made");
    fs::write(&identity, &*text).expect("written");
    let until = std::time::Instant::now() + Duration::from_secs(60);
    let has = |path: &Path| fs::read_to_string(path).is_ok_and(|file| file.contains(&new));
    while !(has(&identity) && has(&renewed)) {
        assert!(std::time::Instant::now() < until, "both files are written as soon as that is possible");
        renewals(&member).changes();
    }
}

/// An end that sends forged certificates is found out also by those that would change nothing.
#[test]
fn a_forged_certificate_that_has_ended_or_is_older_is_refused() {
    let (grid, stranger) = (Grid::new(), Grid::new());
    let member = grid.member(Role::User, &grid.issue(Role::User, "ada"), "ada");
    let forged = stranger.renew(&stranger.issue(Role::User, "bob"), Duration::from_secs(1));
    let of_bob = grid.renew(&grid.issue(Role::User, "bob"), Duration::from_secs(1));
    let is_over = |pem: &str| {
        let certificate = first_certificate(pem).expect("a certificate");
        renewals(&member).read(certificate).expect("readable").1.validity.is_over()
    };
    let until = Instant::now() + Duration::from_secs(60);
    while !(is_over(&forged) && is_over(&of_bob)) {
        assert!(Instant::now() < until, "they end");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(renewals(&member).take(forged.as_bytes()).refused.is_some());
    assert!(renewals(&member).take(of_bob.as_bytes()).refused.is_none(), "it may have been on its way");
    assert!(renewals(&member).fingerprints().is_empty());
}
