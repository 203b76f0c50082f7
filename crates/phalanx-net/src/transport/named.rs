//! Members of a grid that has a hub, by name: `ws7.lab.phalanx` is the member `ws7` of the grid `lab`.
//!
//! Where a member is, and how it is reached, knows whoever has joined the grid. It registers a [`Guide`] for the grid. So every
//! model reaches members by name, and none has to know whether their bytes pass a relay.

use super::{Dialled, Target, Transport};
use crate::address::Address;
use crate::forks::lock_soon;
use phalanx_core::hub::Needs;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The end of the names of members.
const SUFFIX: &str = ".phalanx";

/// The address by which policies judge a peer behind a relay, since its own is not known: one that leads nowhere (RFC 6666).
pub const RELAYED: IpAddr = IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1));

/// Finds the way to the members of one grid.
pub trait Guide: Debug + Send + Sync {
    /// Connects to the member of this name, by whatever path.
    ///
    /// # Errors
    /// There is no such member, it is not here, or no path leads to it.
    fn dial(&self, member: &str, patience: Duration) -> io::Result<Dialled>;

    /// For looking, again and again, which executors are here that have what is needed.
    fn watch(&self, needs: &Needs) -> Watcher;
}

/// Returns the names of the executors that are here and have what is needed, or why nobody can be asked. An error of the kind `NotFound`
/// says what they lack: none has it.
pub type Watcher = Box<dyn FnMut() -> io::Result<Vec<String>> + Send>;

/// The guide of each grid.
fn guides() -> &'static Mutex<BTreeMap<String, Arc<dyn Guide>>> {
    static GUIDES: OnceLock<Mutex<BTreeMap<String, Arc<dyn Guide>>>> = OnceLock::new();
    GUIDES.get_or_init(Mutex::default)
}

/// From now on, this guide leads to the members of the grid.
pub fn guide(grid: &str, guide: Arc<dyn Guide>) {
    let guides = lock_soon(guides());
    guides.into_iter().for_each(|mut guides| drop(guides.insert(grid.to_ascii_lowercase(), guide.clone())));
}

/// The name of a member's host.
pub fn host_of(member: &str, grid: &str) -> String {
    format!("{member}.{grid}{SUFFIX}")
}

/// The name of the member that an address means, if it means one by its name.
pub fn member_at(address: &Address) -> Option<String> {
    meant(address).map(|(member, _)| member)
}

/// How messages name the machine at an address: by the member's name if the address is that of a member of a grid, or else by the address.
pub fn called(address: &Address) -> String {
    member_at(address).unwrap_or_else(|| address.to_string())
}

/// For looking which executors of a grid are here that have what is needed.
///
/// # Errors
/// No guide leads to the grid.
pub fn watch(grid: &str, needs: &Needs) -> io::Result<Watcher> {
    Ok(guide_of(grid)?.watch(needs))
}

fn guide_of(grid: &str) -> io::Result<Arc<dyn Guide>> {
    let guide = lock_soon(guides()).and_then(|guides| guides.get(&grid.to_ascii_lowercase()).cloned());
    guide.ok_or_else(|| {
        let why = format!("this process does not know the grid {grid}: name it, as in px.Grid({grid:?})");
        io::Error::new(io::ErrorKind::NotFound, why)
    })
}

/// The member and the grid that a host's name means. `None`: it is another host's.
fn meant(address: &Address) -> Option<(String, String)> {
    let host = address.host.to_ascii_lowercase();
    let (member, grid) = host.strip_suffix(SUFFIX)?.split_once('.')?;
    (!member.is_empty() && !grid.is_empty()).then(|| (member.to_owned(), grid.to_owned()))
}

pub(super) struct Named;

impl Transport for Named {
    fn dial(&self, target: &Target, patience: Duration) -> Option<io::Result<Dialled>> {
        let Target::Host(address) = target else { return None };
        let (member, grid) = meant(address)?;
        Some(guide_of(&grid).and_then(|guide| guide.dial(&member, patience)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::dial;

    #[derive(Debug)]
    struct Refusing;

    impl Guide for Refusing {
        fn dial(&self, member: &str, _: Duration) -> io::Result<Dialled> {
            Err(io::Error::other(format!("{member} was asked for")))
        }

        fn watch(&self, _: &Needs) -> Watcher {
            Box::new(|| Ok(vec!["ws7".to_owned()]))
        }
    }

    #[test]
    fn the_name_of_a_member_goes_to_the_guide_of_its_grid() {
        guide("Attic", Arc::new(Refusing));
        let asked = |host: &str| {
            let address = Address { host: host.to_owned(), port: 7400 };
            dial(&(&address).into(), Duration::from_secs(1)).expect_err("nobody is there").to_string()
        };
        assert_eq!(asked("ws7.attic.phalanx"), "ws7 was asked for");
        assert_eq!(asked(&host_of("WS7", "ATTIC")), "ws7 was asked for");
        assert!(asked("ws7.cellar.phalanx").contains("does not know the grid cellar"));
        let mut watcher = watch("attic", &Needs::default()).expect("has a guide");
        assert_eq!(watcher().expect("knows one"), ["ws7"]);
        assert!(watch("cellar", &Needs::default()).is_err());
        for other in ["attic.phalanx", "ws7.attic.phalanx.example.invalid"] {
            assert_eq!(meant(&Address { host: other.to_owned(), port: 7400 }), None);
        }
    }
}
