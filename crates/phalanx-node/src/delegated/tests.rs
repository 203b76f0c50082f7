//! A process finds the newest of what its user delegates, and the calls that delegate more.

use super::*;
use phalanx_net::identity::{Authority, Extent, Role, Scope};
use std::path::Path;
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
    let (machine, starter, linked) = ("labpc".to_owned(), Starter::Manager, Some(std::process::id()));
    (Here { machine, starter, papers, newest: None, file: None, linked }, delegate)
}

/// Two members are one that was verified once if they share the lists of revoked certificates.
fn is_same(one: &Member, other: &Member) -> bool {
    Arc::ptr_eq(one.revocations(), other.revocations())
}

fn given(delegation: String) -> Given {
    Given { delegation: Some(delegation), ..Given::default() }
}

#[test]
fn a_delegation_is_verified_once_and_another_in_its_place_again() {
    let (mut here, delegate) = process();
    assert!(here.member().unwrap().is_none());
    here.receive(given(delegate(Service::Spaces, HOUR)));
    let first = here.member().unwrap().unwrap().clone();
    assert!(is_same(&first, here.member().unwrap().unwrap()), "it was verified again");
    here.receive(given(delegate(Service::Spaces, 2 * HOUR)));
    let second = here.member().unwrap().unwrap();
    assert!(!is_same(&first, second), "the delegation before is in use");
    let until = |member: &Member| member.acts().unwrap().delegation.until;
    assert!(until(second) >= until(&first) + 3600);
}

#[test]
fn a_delegation_that_was_verified_ends_and_a_wrong_one_replaces_it_too() {
    let (mut here, delegate) = process();
    here.receive(given(delegate(Service::Spaces, Duration::from_secs(3))));
    assert!(here.member().unwrap().is_some());
    while here.member().is_ok() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(matches!(here.member(), Err(IdentityError::DelegationEnded)));
    here.receive(given(delegate(Service::Spaces, HOUR)));
    assert!(here.member().unwrap().is_some());
    let (_, anothers) = process();
    here.receive(given(anothers(Service::Spaces, HOUR)));
    assert!(here.member().is_err(), "another grid's");
}

/// The process that has the link, with a file, and another one that has only the file.
fn two(folder: &Path, mut here: Here) -> (Here, Here) {
    let file = Some(folder.join("file"));
    here.file.clone_from(&file);
    here.keep();
    let Here { machine, starter, papers, .. } = &here;
    let (machine, starter, papers) = (machine.clone(), *starter, papers.clone());
    (here, Here { machine, starter, papers, newest: None, file, linked: None })
}

#[test]
fn a_process_without_a_link_finds_the_newest_delegation_in_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (here, delegate) = process();
    let (mut here, mut other) = two(folder.path(), here);
    other.refresh();
    assert!(other.member().unwrap().is_none(), "nothing was delegated yet");
    for (lasts, machines) in [(HOUR, "ws7"), (2 * HOUR, "ws8")] {
        let machines = [(machines.to_owned(), "10.0.0.7:7400".to_owned())].into();
        here.receive(Given { machines, ..given(delegate(Service::Spaces, lasts)) });
        other.refresh();
        let until = |here: &mut Here| here.member().unwrap().unwrap().acts().unwrap().delegation.until;
        assert_eq!(until(&mut here), until(&mut other));
        assert_eq!(here.newest.as_ref().unwrap().given, other.newest.as_ref().unwrap().given);
    }
    let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    left.retain(|path| path.file_name() != Some(".phalanx.lock".as_ref()));
    assert_eq!(left, [folder.path().join("file")]);
    assert_eq!(std::fs::metadata(&left[0]).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_is_gone_or_spoilt_leaves_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let (here, delegate) = process();
    let (mut here, mut other) = two(folder.path(), here);
    here.receive(given(delegate(Service::Spaces, HOUR)));
    other.refresh();
    std::fs::write(folder.path().join("file"), "spoilt").unwrap();
    other.refresh();
    std::fs::remove_file(folder.path().join("file")).unwrap();
    other.refresh();
    assert!(other.member().unwrap().is_some());
}

#[test]
fn the_advice_names_the_call_that_started_the_process() {
    let manager = Starter::Manager.how("spaces");
    assert!(manager.ends_with("or say in the user's program: px.Manager(..., delegate=\"spaces\")"), "{manager}");
    let launcher = Starter::Launcher.how("copies");
    assert!(launcher.contains("px.mpirun(..., delegate=\"copies\")") && launcher.contains("--delegate copies"));
}
