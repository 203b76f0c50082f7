//! What a process that acts for a user gets at an executor: the spaces that the user named, and nothing else.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::{next_line, options};
use phalanx_core::level::{Level, Levels, Policy};
use phalanx_core::space::Options as SpaceOptions;
use phalanx_core::wire::files::Ask;
use phalanx_core::wire::transfer::{Direction, Filter, Target};
use phalanx_net::dial::{Expected, dial};
use phalanx_net::identity::{Authority, Extent, KeyedCertificate, Member, Role, Scope, Service};
use phalanx_net::preamble::Preamble;
use phalanx_node::dialler::Dialler;
use phalanx_node::executor::{Executor, Options};
use phalanx_node::log::Log;
use phalanx_node::space::{Access, Client, ClientError, Connect, ServerOptions};
use phalanx_node::transfer::files::{Reach, Session};
use phalanx_node::transfer::{Copy, CopyError, Exports, Here, Job, Report};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

const PATIENCE: Duration = Duration::from_secs(60);
/// Services that cannot be delegated. Data links, streams and ranks have keys of their own.
const OTHERS: [Preamble; 5] =
    [Preamble::Control, Preamble::Ranks, Preamble::Executor, Preamble::Replica, Preamble::News];

/// An executor that serves spaces and takes copies, a user, and another executor at which processes act for the user.
struct Lab {
    board: Executor,
    ada: Member,
    labpc: Member,
    log: Receiver<String>,
}

impl Lab {
    fn new(access: &str) -> Lab {
        Lab::accepting(access, &[])
    }

    /// The same, for these users only.
    fn accepting(access: &str, accepted: &[&str]) -> Lab {
        let authority = Authority::create().unwrap();
        let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
        let access = (!access.is_empty()).then(|| Access::parse(access).unwrap());
        let spaces = ServerOptions { access, ..ServerOptions::default() };
        let exports = Exports::parse(&["memory".to_owned()]).unwrap();
        let accepted = accepted.iter().map(|name| (*name).to_owned()).collect();
        let options = Options { capacity: 2, spaces: Some(spaces), exports, accepted, ..options() };
        let (sender, log) = channel();
        let log_to = Log::new(move |_, text| drop(sender.send(text.to_owned())));
        let board = Executor::start("127.0.0.1:0", member(Role::Executor, "board"), options, log_to).unwrap();
        Lab { board, ada: member(Role::User, "ada"), labpc: member(Role::Executor, "labpc"), log }
    }

    /// The user, as a process acts for the user in spaces.
    fn delegated(&self, extent: Extent) -> Member {
        self.delegated_for(Service::Spaces, extent)
    }

    /// The user, as a process acts for the user.
    fn delegated_for(&self, service: Service, extent: Extent) -> Member {
        self.delegated_until(service, extent, PATIENCE)
    }

    fn delegated_until(&self, service: Service, extent: Extent, lasts: Duration) -> Member {
        self.delegated_to(KeyedCertificate::ephemeral().unwrap(), service, extent, lasts)
    }

    /// The same, to the process with this key.
    fn delegated_to(&self, process: KeyedCertificate, service: Service, extent: Extent, lasts: Duration) -> Member {
        let mut scope = Scope::default();
        scope.add(service, extent).unwrap();
        let (ada, labpc) = (self.ada.own().certificate.clone(), self.labpc.own().certificate.clone());
        let text = self.ada.delegate([&process.certificate, &labpc], &scope, [1; 16], lasts).unwrap();
        Member::delegated(process, [&ada, &labpc, self.ada.authority()], &[], &text).unwrap()
    }

    fn open(&self, member: Member, space: &str) -> Result<(), String> {
        self.client(member, space).map(|client| client.close()).map_err(|error| error.to_string())
    }

    fn client(&self, member: Member, space: &str) -> Result<Arc<Client>, ClientError> {
        let connect = Connect {
            policy: Policy::default(),
            dialler: Some(Dialler::from(member)),
            create: Some(SpaceOptions::default()),
            members: Vec::new(),
            patience: PATIENCE,
        };
        let address = format!("{}/{space}", self.board.address()).parse().unwrap();
        Client::connect(address, &connect)
    }

    /// Copies some bytes to the executor's memory.
    fn copy(&self, member: Member) -> Result<Report, CopyError> {
        let bytes = 1 << 20;
        let job = Job {
            address: self.board.address().to_string().parse().unwrap(),
            dialler: Dialler::from(member),
            policy: Policy::default(),
            direction: Direction::Put,
            here: Here::Memory { bytes },
            there: Target::Memory { bytes },
            level: None,
            streams: Some(2),
            threads: None,
            checked: true,
            anew: false,
            whole_file: None,
            compress: None,
            filter: Filter::default(),
            patience: PATIENCE,
            limit: 0,
            share: None,
            fresh: false,
            copy: [3; 16],
        };
        Copy::start(job).unwrap().wait(PATIENCE).unwrap()
    }

    /// Connects for a service, and returns what the executor's log says about its refusal.
    fn refused(&self, member: &Member, service: Preamble) -> String {
        let client = member.client_of(Role::Executor).unwrap();
        let dialled = dial(&self.board.address().into(), PATIENCE).unwrap();
        let (expected, private) = (Expected::Named(&client, "board"), Levels::all(Level::Private));
        let _introduced = dialled.introduce(service, expected, private, PATIENCE).unwrap();
        self.hear("refused")
    }

    /// The next line of the log with this text.
    fn hear(&self, text: &str) -> String {
        next_line(&self.log, text)
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
    let heard = lab.refused(&lab.delegated(named(&["elsewhere/jobs"])), Preamble::Space { shakes: true });
    assert!(heard.contains("ada did not delegate the spaces of board to labpc"));
}

#[test]
fn no_other_service_is_used_in_a_users_name() {
    for service in OTHERS {
        let lab = Lab::new(""); // the log says the first lines of a cause only
        let heard = lab.refused(&lab.delegated(Extent::All), service);
        assert!(heard.contains("this needs the user's own key"), "{service:?}: {heard}");
    }
}

#[test]
fn a_process_copies_as_its_user() {
    let lab = Lab::accepting("", &["ada"]);
    let report = lab.copy(lab.delegated_for(Service::Copies, Extent::All)).unwrap();
    assert_eq!((report.totals.bytes, report.peers), (1 << 20, vec!["board".to_owned()]));
    assert!(lab.hear("acts for").contains("a process at labpc acts for ada, who delegated copies to it"));
    assert!(lab.hear("serving").contains("serving ada, who copies to memory"));
}

#[test]
fn a_user_who_is_not_accepted_is_not_accepted_through_a_process_either() {
    let lab = Lab::accepting("", &["eve"]);
    let error = lab.copy(lab.delegated_for(Service::Copies, Extent::All)).unwrap_err();
    assert!(error.to_string().contains("the user ada is not among those accepted here"), "{error}");
}

#[test]
fn a_delegation_of_one_service_is_none_of_the_other() {
    for service in [Preamble::Transfer, Preamble::Files] {
        let lab = Lab::new("");
        let heard = lab.refused(&lab.delegated(Extent::All), service);
        assert!(heard.contains("ada did not delegate copies at board to labpc"), "{service:?}: {heard}");
    }
    let lab = Lab::new("");
    let heard = lab.refused(&lab.delegated_for(Service::Copies, Extent::All), Preamble::Space { shakes: true });
    assert!(heard.contains("ada did not delegate the spaces of board to labpc"), "{heard}");
    let error = lab.copy(lab.delegated(Extent::All)).unwrap_err();
    assert!(matches!(error, CopyError::Unreachable(_)), "{error}");
}

#[test]
fn nothing_is_copied_when_the_delegation_has_ended() {
    let lab = Lab::new("");
    let process = lab.delegated_until(Service::Copies, Extent::All, Duration::from_secs(3));
    while !process.acts().unwrap().delegation.has_ended() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(lab.copy(process).is_err());
    assert!(lab.hear("refused").contains("DelegationEnded"), "the handshake ends with it");
}

#[test]
fn an_open_link_ends_with_its_delegation_and_the_error_says_so() {
    let lab = Lab::new("");
    let process = lab.delegated_until(Service::Spaces, Extent::All, Duration::from_secs(3));
    let client = lab.client(process, "jobs").unwrap();
    let (until, mut asked) = (Instant::now() + PATIENCE, Ok(String::new()));
    while asked.is_ok() {
        assert!(Instant::now() < until, "the link outlives the delegation");
        asked = client.ask_name();
    }
    let error = asked.unwrap_err().to_string();
    assert!(error.contains("the delegation by which this process acts for its user has ended"), "{error}");
}

#[test]
fn questions_about_files_end_with_the_delegation_too() {
    let lab = Lab::new("");
    let process = lab.delegated_until(Service::Copies, Extent::All, Duration::from_secs(3));
    let address = lab.board.address().to_string().parse().unwrap();
    let to = Reach { address, dialler: Dialler::from(process), policy: Policy::default(), level: None };
    let session = Session::open(to, &mut || true).unwrap();
    let until = Instant::now() + PATIENCE;
    while !session.is_closed() {
        assert!(Instant::now() < until, "the link outlives the delegation");
        std::thread::sleep(Duration::from_millis(50));
    }
    let error = session.ask(&Ask::Beat, &mut || true).unwrap_err().to_string();
    assert!(error.contains("the delegation by which this process acts for its user has ended"), "{error}");
}

#[test]
fn an_open_link_goes_on_with_the_delegation_that_follows() {
    let lab = Lab::new("");
    let own = KeyedCertificate::ephemeral().unwrap();
    let next = lab.delegated_to(own.clone(), Service::Spaces, Extent::All, PATIENCE);
    let first = lab.delegated_to(own, Service::Spaces, Extent::All, Duration::from_secs(6));
    let until = first.acts().unwrap().delegation.until;
    let client = lab.client(first.prolonged_by(move || Some(next.clone())), "jobs").unwrap();
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    while now() < until + 4 {
        assert_eq!(client.ask_name().unwrap(), "board"); // the server looks for ends once a second
    }
    client.close();
}
