mod hubs;

use super::*;
use crate::identity::{Authority, IdentityError, Member, Role, first_certificate};
use proptest::prelude::*;
use std::fs;

const LONG: Duration = Duration::from_secs(60);

/// A grid, and a member that has a role and a name in it.
struct Grid {
    authority: Authority,
    certificate: CertificateDer<'static>,
}

impl Grid {
    fn new() -> Grid {
        let authority = Authority::create().expect("a grid");
        let pem = authority.issue(Role::User, "any").expect("a member");
        let certificate = Member::parse(&pem, Role::User).expect("a member").authority;
        Grid { authority, certificate }
    }

    fn issue(&self, name: &str) -> CertificateDer<'static> {
        first_certificate(&self.authority.issue(Role::Executor, name).expect("a member")).expect("a certificate")
    }

    fn revoke(&self, earlier: Option<&str>, name: &str, certificate: &CertificateDer<'_>) -> String {
        let entry = Revoked {
            when: "2026-01-02T03:04:05Z".to_owned(),
            role: Role::Executor,
            name: name.to_owned(),
            fingerprint: fingerprint(certificate),
            until: None,
        };
        self.authority.revoke(earlier, vec![entry]).expect("a list")
    }
}

fn heeding(grid: &Grid, files: Vec<PathBuf>) -> Arc<Revocations> {
    let members = Members::new(&grid.certificate, Vec::new()).expect("a verifier");
    Revocations::new(members, grid.certificate.clone(), files)
}

/// Looks again at once.
fn check(revocations: &Arc<Revocations>, certificate: &CertificateDer<'_>) -> Result<(), String> {
    lock(&revocations.state).looked = None;
    revocations.admit(std::slice::from_ref(certificate)).map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_list_names_who_was_revoked_and_grows() {
    let grid = Grid::new();
    let [one, other] = ["one", "other"].map(|name| grid.issue(name));
    let first = grid.revoke(None, "one", &one);
    let list = RevokedList::parse(&first, &grid.certificate).expect("a list").expect("of this grid");
    assert_eq!((list.number, list.entries.len()), (1, 1));
    let both = grid.revoke(Some(&first), "other", &other);
    let again = grid.revoke(Some(&both), "other", &other);
    let list = RevokedList::parse(&again, &grid.certificate).expect("a list").expect("of this grid");
    let names: Vec<_> = list.entries.iter().map(|it| it.name.as_str()).collect();
    assert_eq!((list.number, names), (3, vec!["one", "other"]));
    assert!(matches!(RevokedList::parse(&again, &Grid::new().certificate), Ok(None)), "another grid's");
}

#[test]
fn a_list_that_follows_several_names_all_of_theirs_under_a_higher_number() {
    let grid = Grid::new();
    let [one, other, third] = ["one", "other", "third"].map(|name| grid.issue(name));
    let first = grid.revoke(None, "one", &one);
    let long = grid.revoke(Some(&grid.revoke(Some(&first), "one", &one)), "one", &one);
    let restored = grid.revoke(Some(&first), "other", &other);
    let entry = Revoked {
        when: "2026-01-02T03:04:05Z".to_owned(),
        role: Role::Executor,
        name: "third".to_owned(),
        fingerprint: fingerprint(&third),
        until: None,
    };
    for earlier in [[&*long, &restored], [&*restored, &long]] {
        let list = grid.authority.revoke_after(&earlier, vec![entry.clone()]).expect("a list");
        let list = RevokedList::parse(&list, &grid.certificate).expect("a list").expect("of this grid");
        let names: Vec<_> = list.entries.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((list.number, names), (4, vec!["one", "other", "third"]));
    }
    let another = Grid::new().revoke(None, "one", &one);
    grid.authority.revoke_after(&[&first, &another], Vec::new()).expect_err("another grid's");
}

#[test]
fn a_member_refuses_who_is_on_the_list_as_soon_as_it_finds_it() {
    let (grid, folder) = (Grid::new(), tempfile::tempdir().expect("a folder"));
    let [one, other] = ["one", "other"].map(|name| grid.issue(name));
    let files = ["a", "b"].map(|name| folder.path().join(name));
    let revocations = heeding(&grid, files.to_vec());
    assert_eq!(check(&revocations, &one), Ok(()));
    let first = grid.revoke(None, "one", &one);
    fs::write(&files[0], &first).expect("written");
    let refused = "the certificate of the executor one was revoked on 2026-01-02T03:04:05Z";
    assert_eq!(check(&revocations, &one), Err(refused.to_owned()));
    assert_eq!(check(&revocations, &other), Ok(()));
    fs::write(&files[1], grid.revoke(Some(&first), "other", &other)).expect("written");
    assert!(check(&revocations, &one).is_err() && check(&revocations, &other).is_err());
    fs::write(&files[1], &first).expect("written");
    assert!(check(&revocations, &other).is_err(), "an older list takes nothing back");
    fs::remove_file(&files[0]).expect("removed");
    assert!(check(&revocations, &one).is_err(), "nor does a list that is gone");
}

#[test]
fn nobody_is_let_in_while_a_list_is_damaged() {
    let (grid, folder) = (Grid::new(), tempfile::tempdir().expect("a folder"));
    let (one, file) = (grid.issue("one"), folder.path().join("revoked.txt"));
    let revocations = heeding(&grid, vec![file.clone()]);
    let list = grid.revoke(None, "other", &grid.issue("other"));
    let another = Grid::new();
    let forged =
        another.revoke(None, "x", &one).replace(&fingerprint(&another.certificate), &fingerprint(&grid.certificate));
    for damaged in ["", "phalanx revoked", &list[..list.len() - 3], &list.replace("other", "ether"), &forged] {
        fs::write(&file, damaged).expect("written");
        let error = check(&revocations, &one).expect_err("damaged");
        assert!(error.contains("revoked.txt is no list of revoked certificates"), "{error}");
    }
    fs::write(&file, vec![b'x'; LONGEST_LIST as usize + 1]).expect("written");
    assert!(check(&revocations, &one).expect_err("too long").contains("too long"));
    fs::write(&file, &list).expect("written");
    assert_eq!(check(&revocations, &one), Ok(()));
    fs::write(&file, another.revoke(None, "x", &one)).expect("written");
    assert_eq!(check(&revocations, &one), Ok(()), "another grid's list is none of this one's business");
}

#[test]
fn a_newer_list_of_another_member_is_kept_and_heeded() {
    let (grid, folder) = (Grid::new(), tempfile::tempdir().expect("a folder"));
    let [one, other] = ["one", "other"].map(|name| grid.issue(name));
    let file = folder.path().join("revoked.txt");
    let revocations = heeding(&grid, vec![file.clone()]);
    let first = grid.revoke(None, "one", &one);
    let both = grid.revoke(Some(&first), "other", &other);
    let taken = |text: &str| revocations.take(text).map(|taken| taken.map(|it| (it.number, it.unwritten.is_none())));
    assert_eq!((revocations.number(), revocations.newer_than(0)), (0, None));
    assert_eq!(taken(&both).expect("a list"), Some((2, true)));
    assert_eq!((revocations.newer_than(2), revocations.newer_than(1)), (None, Some((2, both.clone()))));
    assert_eq!(fs::read_to_string(&file).expect("written"), both);
    assert!(check(&revocations, &one).is_err() && check(&revocations, &other).is_err());
    for older in [&first, &both] {
        assert_eq!(taken(older).expect("a list"), None);
    }
    assert_eq!(taken(&Grid::new().revoke(None, "one", &one)).expect("another grid's"), None);
    taken(&both.replace("other", "ether")).expect_err("the authority has not signed it");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "beside the lock nothing else is left there");
}

#[test]
fn a_list_that_cannot_be_written_is_heeded_all_the_same() {
    let (grid, folder) = (Grid::new(), tempfile::tempdir().expect("a folder"));
    let one = grid.issue("one");
    let file = folder.path().join("none").join("revoked.txt");
    let revocations = heeding(&grid, vec![file.clone()]);
    let list = grid.revoke(None, "one", &one);
    let taken = revocations.take(&list).expect("a list").expect("newer");
    assert!(taken.unwritten.is_some());
    assert!(check(&revocations, &one).is_err());
    fs::create_dir(folder.path().join("none")).expect("made");
    let until = Instant::now() + LONG;
    while fs::read_to_string(&file).ok().as_ref() != Some(&list) {
        assert!(Instant::now() < until, "it is written as soon as that is possible");
        assert_eq!(revocations.number(), 1);
    }
    let nowhere = heeding(&grid, Vec::new());
    assert!(nowhere.take(&grid.revoke(None, "one", &one)).expect("a list").is_none());
}

proptest! {
    #[test]
    fn what_is_no_list_is_refused(text in "\\PC{0,300}", cut in 0usize..400, flip in 0usize..400) {
        let grid = Grid::new();
        prop_assert!(RevokedList::parse(&text, &grid.certificate).is_err());
        let list = grid.revoke(None, "one", &grid.issue("one"));
        let cut = cut.min(list.len() - 2);
        prop_assert!(RevokedList::parse(&list[..cut], &grid.certificate).is_err());
        let mut changed = list.clone().into_bytes();
        let at = flip % (changed.len() - 1);
        changed[at] ^= 1;
        let changed = String::from_utf8_lossy(&changed);
        prop_assert!(!matches!(RevokedList::parse(&changed, &grid.certificate), Ok(Some(_))), "{}", changed);
    }
}

#[test]
fn a_certificate_that_has_ended_is_told_to_its_owner() {
    let grid = Grid::new();
    let issue = |days: u64| {
        let lasts = Duration::from_secs(days * 24 * 3600);
        grid.authority.issue_for(Role::User, "ada", Some(lasts)).expect("a member")
    };
    let (short, begun) = (issue(0), Instant::now());
    while !matches!(Member::parse(&short, Role::User), Err(IdentityError::Ended { .. })) {
        assert!(begun.elapsed() < Duration::from_secs(30), "it ends at once");
        thread::sleep(Duration::from_millis(50));
    }
    let soon = Member::parse(&issue(7), Role::User).expect("a member");
    assert!(!soon.validity().expect("a certificate").is_near_end());
}

#[test]
fn of_two_lists_that_processes_write_at_the_same_time_the_newer_one_stays() {
    let (grid, folder) = (Grid::new(), tempfile::tempdir().expect("a folder"));
    let [one, other] = ["one", "other"].map(|name| grid.issue(name));
    let first = grid.revoke(None, "one", &one);
    let second = grid.revoke(Some(&first), "other", &other);
    let file = folder.path().join("revoked.txt");
    let revocations = heeding(&grid, vec![file.clone()]);
    fs::write(&file, &second).expect("written"); // after the process has looked, and before it writes
    revocations.write(&file, 1, &first, LONG).expect("nothing fails");
    assert_eq!(fs::read_to_string(&file).expect("read"), second);
}

#[test]
fn the_list_of_another_grid_is_not_overwritten() {
    let (grid, other, folder) = (Grid::new(), Grid::new(), tempfile::tempdir().expect("a folder"));
    let (file, one) = (folder.path().join("revoked.txt"), grid.issue("one"));
    let theirs = other.revoke(None, "eve", &other.issue("eve"));
    fs::write(&file, &theirs).expect("written");
    let revocations = heeding(&grid, vec![file.clone()]);
    let taken = revocations.take(&grid.revoke(None, "one", &one)).expect("a list").expect("newer");
    assert!(taken.unwritten.is_some_and(|why| why.to_string().ends_with("is another grid's list")));
    check(&revocations, &one).expect_err("it is heeded all the same");
    assert_eq!(fs::read_to_string(&file).expect("read"), theirs);
}
