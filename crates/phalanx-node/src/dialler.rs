//! Whom a caller expects: the member that the user named for an address or, where only an address was typed, the one that answered
//! there first.

use crate::delegated;
use crate::known_members::{KnownMember, KnownMembers, normal};
use phalanx_core::wire::Given;
use phalanx_net::address::Address;
use phalanx_net::dial::{Judge, member_at};
use phalanx_net::identity::{IdentityError, Member, Service};
use phalanx_net::sync::lock;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use thiserror::Error;

/// Ports from here on are those that Linux gives to programs that ask for any (`ip_local_port_range`).
const FIRST_PASSING: u16 = 32768;
/// Limit on the members that one process remembers without a file.
const MOST_MET: usize = 4096;

/// A member that calls others: its identity, and whom it expects at which address.
#[derive(Debug, Clone)]
pub struct Dialler {
    member: Member,
    /// The name in the certificate of the member at each address that the user named.
    named: Arc<HashMap<String, String>>,
    /// The address of each machine of the user's grid, by name.
    machines: Arc<BTreeMap<String, String>>,
    known: Known,
}

/// The members that answered at addresses without a name.
#[derive(Debug, Clone)]
enum Known {
    /// In a file, for the user's programs.
    File(KnownMembers),
    /// By this process: the name by address.
    Process(Arc<Mutex<HashMap<String, String>>>),
}

/// The member that is expected at one address.
#[derive(Debug)]
pub struct Awaited<'a> {
    dialler: &'a Dialler,
    address: String,
}

/// Another member answers than the expected one, or it cannot be told who is expected.
#[derive(Debug, Error)]
#[error("{0}")]
struct Unexpected(String);

impl Dialler {
    /// `named`: the name in the certificate of the member at each address, as the user's list of machines has it. `known`: the
    /// file of those that answered first at other addresses; `None`: this process remembers them until it ends.
    pub fn new(member: Member, named: HashMap<String, String>, known: Option<PathBuf>) -> Dialler {
        let key = |(address, name): (String, String)| Some((normal(&address)?, name));
        let named = Arc::new(named.into_iter().filter_map(key).collect());
        let in_process = || Known::Process(Arc::default());
        let known = known.map_or_else(in_process, |file| Known::File(KnownMembers::at(file)));
        Dialler { member, named, machines: Arc::default(), known }
    }

    /// The same, which gives the processes of the user's program these names of machines, with their addresses.
    pub fn naming(self, machines: BTreeMap<String, String>) -> Dialler {
        Dialler { machines: Arc::new(machines), ..self }
    }

    /// What a process gets beside a delegation with this text.
    pub(crate) fn given(&self, delegation: Option<String>) -> Given {
        let certificates = self.named.iter().map(|(address, name)| (address.clone(), name.clone())).collect();
        Given { delegation, machines: (*self.machines).clone(), certificates }
    }

    /// The identity that this end shows.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// The same with the newest delegation, if this is a process that acts for a user with the service.
    pub(crate) fn newest(&self, service: Service) -> Result<Dialler, IdentityError> {
        let newest = if self.member.acts().is_some() { delegated::member(service)? } else { None };
        Ok(Dialler { member: newest.unwrap_or_else(|| self.member.clone()), ..self.clone() })
    }

    /// The member that is expected at an address.
    pub(crate) fn at(&self, address: &Address) -> Awaited<'_> {
        self.awaited(&address.to_string())
    }

    /// The member that is expected behind a unix socket.
    pub(crate) fn at_path(&self, path: &Path) -> Awaited<'_> {
        self.awaited(&format!("unix:{}", path.display()))
    }

    fn awaited(&self, address: &str) -> Awaited<'_> {
        Awaited { dialler: self, address: normal(address).unwrap_or_else(|| address.to_owned()) }
    }

    /// Checks that the member is the one that answered at its address before, or remembers it.
    fn meet(&self, name: &str, address: &str) -> Result<(), String> {
        match &self.known {
            Known::File(file) => {
                let member = KnownMember::of_grid(&self.member, name, address);
                file.meet(&member).map_err(|error| error.to_string())
            }
            Known::Process(met) => {
                let mut met = lock(met);
                match met.get(address) {
                    Some(known) if known.eq_ignore_ascii_case(name) => Ok(()),
                    Some(known) => Err(format!("{name} answers, but {known} answered this process there before")),
                    None if met.len() >= MOST_MET => Err(format!("this process knows {MOST_MET} members already")),
                    None => {
                        met.insert(address.to_owned(), name.to_owned());
                        Ok(())
                    }
                }
            }
        }
    }
}

impl From<Member> for Dialler {
    /// A member that names nobody, and remembers until its process ends who answered.
    fn from(member: Member) -> Dialler {
        Dialler::new(member, HashMap::new(), None)
    }
}

impl Awaited<'_> {
    /// Whether the user named the member.
    pub(crate) fn is_named(&self) -> bool {
        self.dialler.named.contains_key(&self.address)
            || self.address.parse().is_ok_and(|address| member_at(&address).is_some())
    }
}

impl Judge for Awaited<'_> {
    fn judge(&self, name: &str, at: Option<SocketAddr>) -> io::Result<()> {
        let Awaited { dialler, address } = self;
        let named = address.parse().ok().and_then(|address| member_at(&address));
        let judged = match dialler.named.get(address).or(named.as_ref()) {
            Some(expected) if expected.eq_ignore_ascii_case(name) => Ok(()),
            Some(expected) => Err(format!(
                "{name} answers, but {expected} is expected: another machine has taken its place, or the list of machines \
                 is wrong. If {name} is right, write there: {expected} = {address} as {name}"
            )),
            None if is_passing(at) => Ok(()),
            None => dialler.meet(name, address),
        };
        judged.map_err(|why| io::Error::new(ErrorKind::PermissionDenied, Unexpected(why)))
    }
}

/// Whether this error says that another member answers than the expected one, or that it cannot be told who is expected.
pub(crate) fn is_unexpected(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Unexpected>())
}

/// Whether a server listens at a port of this machine that the system chose for it. The next program gets the same port for
/// another server, so that who answered there first says nothing.
fn is_passing(at: Option<SocketAddr>) -> bool {
    at.is_some_and(|at| at.ip().to_canonical().is_loopback() && at.port() >= FIRST_PASSING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_net::identity::{Authority, Role};

    fn ada() -> Member {
        let text = Authority::create().unwrap().issue(Role::User, "ada").unwrap();
        Member::parse(&text, Role::User).unwrap()
    }

    fn at(text: &str) -> (Address, Option<SocketAddr>) {
        (text.parse().unwrap(), text.parse().ok())
    }

    #[test]
    fn the_member_that_the_user_named_is_expected_whatever_answered_before() {
        let named = HashMap::from([("LAB:7400".to_owned(), "ws7".to_owned())]);
        let dialler = Dialler::new(ada(), named, None);
        let (address, _) = at("lab:7400");
        assert!(dialler.at(&address).is_named());
        assert!(dialler.at(&address).judge("WS7", None).is_ok());
        let error = dialler.at(&address).judge("ws8", None).unwrap_err();
        assert!(is_unexpected(&error) && error.kind() == ErrorKind::PermissionDenied, "{error:?}");
        assert!(error.to_string().contains("ws7 = lab:7400 as ws8"), "{error}");
    }

    #[test]
    fn an_address_that_is_the_name_of_a_member_means_that_member() {
        let dialler = Dialler::from(ada());
        let (address, _) = at("WS7.lab.phalanx:7400");
        assert!(dialler.at(&address).is_named());
        assert!(dialler.at(&address).judge("ws7", None).is_ok());
        assert!(is_unexpected(&dialler.at(&address).judge("ws8", None).unwrap_err()));
    }

    #[test]
    fn the_first_member_at_an_address_without_a_name_is_the_one_that_is_expected() {
        let dialler = Dialler::from(ada());
        let (address, ip) = at("10.0.0.7:7400");
        assert!(!dialler.at(&address).is_named());
        assert!(dialler.at(&address).judge("ws7", ip).is_ok());
        assert!(dialler.clone().at(&address).judge("ws7", ip).is_ok());
        let error = dialler.clone().at(&address).judge("ws8", ip).unwrap_err();
        assert_eq!(error.to_string(), "ws8 answers, but ws7 answered this process there before");
        assert!(dialler.at(&at("10.0.0.8:7400").0).judge("ws8", ip).is_ok());
    }

    #[test]
    fn ports_of_this_machine_that_the_system_chose_are_not_remembered() {
        let dialler = Dialler::from(ada());
        for (text, is_remembered) in [("127.0.0.1:32768", false), ("[::1]:50000", false), ("127.0.0.1:7400", true)] {
            let (address, ip) = at(text);
            assert!(dialler.at(&address).judge("ws7", ip).is_ok());
            assert_eq!(dialler.at(&address).judge("ws8", ip).is_err(), is_remembered, "{text}");
        }
        let (address, ip) = at("10.0.0.7:50000");
        assert!(dialler.at(&address).judge("ws7", ip).is_ok());
        assert!(dialler.at(&address).judge("ws8", ip).is_err(), "it is the port of another machine");
    }
}
