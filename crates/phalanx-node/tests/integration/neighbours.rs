//! Executors that run another version of phalanx: the next patch works together with this one, others say which end is
//! to be upgraded.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::options;
use phalanx_core::level::Policy;
use phalanx_core::space::Options as SpaceOptions;
use phalanx_core::wire::{VERSION, Version};
use phalanx_net::address::Address;
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_node::asked::ask_all;
use phalanx_node::dialler::Dialler;
use phalanx_node::executor::{Executor, Options};
use phalanx_node::log::Log;
use phalanx_node::space::{Client, Connect, ServerOptions};
use phalanx_node::transfer::Exports;
use phalanx_node::transfer::files::{Reach, Session};
use std::time::Duration;

/// An executor that tells a version, and what becomes of a user who asks it, opens a space there, and looks at its files.
fn meet(version: &str) -> [Result<(), String>; 3] {
    let authority = Authority::create().unwrap();
    let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
    let phalanx = Version(version.to_owned());
    let spaces = Some(ServerOptions { phalanx: phalanx.clone(), ..ServerOptions::default() });
    let exports = Exports::parse(&["memory".to_owned()]).unwrap();
    let options = Options { spaces, exports, phalanx, ..options() };
    let executor = Executor::start("127.0.0.1:0", member(Role::Executor, "labpc"), options, Log::nowhere()).unwrap();
    let address: Address = executor.address().to_string().parse().unwrap();
    let dialler = || Dialler::from(member(Role::User, "ada"));
    let asked =
        ask_all(std::slice::from_ref(&address), &dialler()).remove(0).map(|asked| assert_eq!(asked.phalanx, version));
    let (create, members, patience) = (Some(SpaceOptions::default()), Vec::new(), Duration::from_secs(60));
    let connect = Connect { policy: Policy::default(), dialler: Some(dialler()), create, members, patience };
    let opened = Client::connect(format!("{address}/todo").parse().unwrap(), &connect).map(|client| client.close());
    let to = Reach { address: address.clone(), dialler: dialler(), policy: Policy::default(), level: None };
    let looked = Session::open(to, &mut || true).map(drop);
    [asked, opened.map_err(|error| error.to_string()), looked.map_err(|error| error.to_string())]
}

/// The numbers MAJOR, MINOR and PATCH of this version.
fn numbers() -> [u32; 3] {
    let numbers: Vec<u32> = VERSION.split('.').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn another_patch_works_together_with_this_one() {
    let [major, minor, patch] = numbers();
    let next = format!("{major}.{minor}.{}", patch + 1);
    assert_eq!(meet(&next), [Ok(()), Ok(()), Ok(())]);
}

#[test]
fn a_newer_or_older_version_is_refused_everywhere_with_the_end_to_upgrade() {
    let [major, minor, _] = numbers();
    for (version, mend) in [
        (format!("{major}.{}.0", minor + 1), "; upgrade phalanx here"),
        (format!("{}.0.0", major + 1), "; upgrade phalanx here"),
        ("0.0.1".to_owned(), "; upgrade phalanx at 127.0.0.1:"),
    ] {
        for refused in meet(&version) {
            let why = refused.unwrap_err();
            assert!(why.contains(&format!("runs phalanx {version}, this program phalanx {VERSION}")), "{why}");
            assert!(why.contains(mend), "{why}");
        }
    }
}
