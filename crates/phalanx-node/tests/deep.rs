//! Deep trees, in a process that may have few files open: alone in it, since that is true of the whole process.
#![cfg(unix)]

use phalanx_core::level::Policy;
use phalanx_core::wire::files::{Answer, Ask};
use phalanx_core::wire::transfer::Filter;
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_node::executor::{Executor, Options};
use phalanx_node::transfer::Exports;
use phalanx_node::transfer::files::{Listing, Reach, Session, Wanted};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const DEEP: usize = 120;
/// More than fit one page, so that a listing stays at the bottom.
const MANY: usize = 5000;

fn patient() -> impl FnMut() -> bool {
    let until = Instant::now() + Duration::from_secs(60);
    move || Instant::now() < until
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

#[test]
fn deep_trees_are_listed_and_removed_with_few_files_open() {
    let limit = rustix::process::Rlimit { current: Some(256), maximum: Some(256) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let bottom = root.join("tree").join(std::iter::repeat_n("d", DEEP).collect::<PathBuf>());
    fs::create_dir_all(&bottom).unwrap();
    for number in 0..MANY {
        fs::write(bottom.join(number.to_string()), "").unwrap();
    }
    let authority = Authority::create().unwrap();
    let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
    let options = Options {
        capacity: 1,
        command: vec!["true".into()],
        python: "3.11".into(),
        exports: Exports::parse(&[format!("{}:rw", root.display())]).unwrap(),
        ..Options::default()
    };
    let executor =
        Executor::start("127.0.0.1:0", member(Role::Executor, "labpc"), options, phalanx_node::log::Log::nowhere())
            .unwrap();
    let address = executor.address().to_string();
    let open = || {
        let (address, member) = (address.parse().unwrap(), member(Role::User, "ada"));
        Arc::new(
            Session::open(
                Reach { address, dialler: member.into(), policy: Policy::default(), level: None },
                &mut patient(),
            )
            .unwrap(),
        )
    };
    let session = open();
    let listings: Vec<_> = (0..10)
        .map(|_| {
            let (path, filter, matching) = (bytes(&root.join("tree")), Filter::default(), Vec::new());
            let wanted = Wanted { path, depth: u32::MAX, filter, matching, contents: false };
            let listing = Listing::new(&session, wanted, &mut patient()).unwrap();
            assert!(!listing.page(&mut patient()).unwrap().unwrap().is_empty());
            listing
        })
        .collect();
    let other = open(); // is accepted all the same
    for listing in listings {
        let mut rest = 0;
        while let Some(page) = listing.page(&mut patient()).unwrap() {
            assert!(page.iter().all(|found| found.about.is_ok()), "{page:?}");
            rest += page.len();
        }
        assert!(rest > 0);
    }
    let ask = Ask::Remove { folder: bytes(&root), names: vec![b"tree".into()], all: true };
    let Answer::Tried { done, failed: 0, .. } = other.ask(&ask, &mut patient()).unwrap() else {
        panic!("not all is gone")
    };
    assert_eq!(done as usize, MANY + DEEP + 1);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
}
