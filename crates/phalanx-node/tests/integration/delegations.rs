//! What a process that acts for a user gets at an executor: the spaces that the user named, and nothing else.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::options;
use phalanx_core::level::{Level, Levels, Policy};
use phalanx_core::space::Options as SpaceOptions;
use phalanx_net::dial::{Expected, dial};
use phalanx_net::identity::{Authority, Extent, KeyedCertificate, Member, Role, Scope, Service};
use phalanx_net::preamble::Preamble;
use phalanx_node::dialler::Dialler;
use phalanx_node::executor::{Executor, Options};
use phalanx_node::log::Log;
use phalanx_node::space::{Access, Client, Connect, ServerOptions};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Services that cannot be delegated. Data links, streams and ranks have keys of their own.
const OTHERS: [Preamble; 6] =
    [Preamble::Control, Preamble::Ranks, Preamble::Transfer, Preamble::Executor, Preamble::Files, Preamble::Replica];

/// An executor that serves spaces, a user, and another executor at which processes act for the user.
struct Lab {
    board: Executor,
    ada: Member,
    labpc: Member,
    log: Receiver<String>,
}

impl Lab {
    fn new(access: &str) -> Lab {
        let authority = Authority::create().unwrap();
        let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
        let access = (!access.is_empty()).then(|| Access::parse(access).unwrap());
        let spaces = ServerOptions { access, ..ServerOptions::default() };
        let options = Options { capacity: 2, spaces: Some(spaces), ..options() };
        let (sender, log) = channel();
        let log_to = Log::new(move |_, text| drop(sender.send(text.to_owned())));
        let board = Executor::start("127.0.0.1:0", member(Role::Executor, "board"), options, log_to).unwrap();
        Lab { board, ada: member(Role::User, "ada"), labpc: member(Role::Executor, "labpc"), log }
    }

    /// The user, as a process acts for the user.
    fn delegated(&self, extent: Extent) -> Member {
        let (process, mut scope) = (KeyedCertificate::ephemeral().unwrap(), Scope::default());
        scope.add(Service::Spaces, extent).unwrap();
        let (ada, labpc) = (self.ada.own().certificate.clone(), self.labpc.own().certificate.clone());
        let text = self.ada.delegate([&process.certificate, &labpc], &scope, [1; 16], PATIENCE).unwrap();
        Member::delegated(process, [&ada, &labpc, self.ada.authority()], &text).unwrap()
    }

    fn open(&self, member: Member, space: &str) -> Result<(), String> {
        let connect = Connect {
            policy: Policy::default(),
            dialler: Some(Dialler::from(member)),
            create: Some(SpaceOptions::default()),
            members: Vec::new(),
            patience: PATIENCE,
        };
        let address = format!("{}/{space}", self.board.address()).parse().unwrap();
        Client::connect(address, &connect).map(|client| client.close()).map_err(|error| error.to_string())
    }

    /// The next line of the log with this text.
    fn hear(&self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let line = self.log.recv_timeout(until.saturating_duration_since(Instant::now())).unwrap();
            if line.contains(text) {
                return line;
            }
        }
    }
}

fn named(names: &[&str]) -> Extent {
    Extent::Named(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn a_process_uses_the_spaces_that_its_user_named() {
    let lab = Lab::new("");
    lab.open(lab.delegated(named(&["board/jobs"])), "jobs").unwrap();
    assert!(lab.hear("acts for").contains("a process at labpc acts for ada"));
    let error = lab.open(lab.delegated(named(&["board/jobs"])), "other").unwrap_err();
    assert!(error.contains("nothing in the space other: ada delegated other spaces"), "{error}");
    let error = lab.open(lab.delegated(named(&["elsewhere/jobs"])), "jobs").unwrap_err();
    assert!(error.contains("ada delegated the spaces of other servers to labpc, not those of board"), "{error}");
    lab.open(lab.delegated(Extent::All), "other").unwrap();
}

#[test]
fn a_process_has_the_rights_of_its_user_and_no_more() {
    let lab = Lab::new("[[rule]]\nspace = \"jobs\"\nuser = \"ada\"\nmay = [\"create\", \"out\"]\n");
    lab.open(lab.delegated(Extent::All), "jobs").unwrap();
    let error = lab.open(lab.delegated(Extent::All), "other").unwrap_err();
    assert!(error.contains("nothing in the space other"), "{error}");
}

#[test]
fn other_servers_than_those_that_were_named_refuse_by_themselves() {
    let lab = Lab::new("");
    let process = lab.delegated(named(&["elsewhere/jobs"]));
    let client = process.client_of(Role::Executor).unwrap();
    let dialled = dial(&lab.board.address().into(), PATIENCE).unwrap();
    let (expected, private) = (Expected::Named(&client, "board"), Levels::all(Level::Private));
    let _introduced = dialled.introduce(Preamble::Space { shakes: true }, expected, private, PATIENCE).unwrap();
    assert!(lab.hear("refused").contains("ada did not delegate the spaces of board to labpc"));
}

#[test]
fn no_other_service_is_used_in_a_users_name() {
    for service in OTHERS {
        let lab = Lab::new(""); // the log says the first lines of a cause only
        let process = lab.delegated(Extent::All);
        let client = process.client_of(Role::Executor).unwrap();
        let dialled = dial(&lab.board.address().into(), PATIENCE).unwrap();
        let (expected, private) = (Expected::Named(&client, "board"), Levels::all(Level::Private));
        let _introduced = dialled.introduce(service, expected, private, PATIENCE).unwrap();
        let heard = lab.hear("refused");
        assert!(heard.contains("this needs the user's own key"), "{service:?}: {heard}");
    }
}
