//! Machines and users that ask a hub for a certificate.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::forging;
use phalanx_core::level::{Level, LevelSet, Levels};
use phalanx_net::connection::Connection;
use phalanx_net::dial::{Dialled, Expected, Introduced, dial};
use phalanx_net::identity::{
    Authority, IdentityError, Joining, KeyedCertificate, Member, Revoked, Role, fingerprint, first_certificate,
    request, role_and_name,
};
use phalanx_net::preamble::Preamble;
use phalanx_net::socket::{Listener, Socket};
use phalanx_net::tls::{Shaken, offer};
use std::io;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PRIVATE: Levels = Levels::all(Level::Private);
const LONG: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A grid with a hub.
struct Grid {
    issuer: Authority,
    root: [u8; 32],
    hub: Member,
}

impl Grid {
    fn new() -> Grid {
        let root = Authority::create().unwrap();
        let issuer = root.issuer("hub").unwrap();
        let hub = member(&issuer, Role::Hub, "hub");
        Grid { root: digest(&root.certificate().unwrap()), issuer, hub }
    }
}

fn digest(certificate: &[u8]) -> [u8; 32] {
    ring::digest::digest(&ring::digest::SHA256, certificate).as_ref().try_into().unwrap()
}

fn member(authority: &Authority, role: Role, name: &str) -> Member {
    Member::parse(&authority.issue(role, name).unwrap(), role).unwrap()
}

/// A server that does one handshake with this connection, behind a preamble that it takes as it comes.
fn server(connection: Connection, levels: Levels) -> (SocketAddr, JoinHandle<io::Result<Shaken>>) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    let serving = thread::spawn(move || {
        let (mut socket, _) = listener.accept()?;
        let mut timed = socket.until(Instant::now() + LONG);
        let preamble = Preamble::read(&mut timed)?;
        offer(connection, levels.exactly(), &preamble.bound(), &mut timed)
    });
    (address, serving)
}

/// Both ends of a handshake for joining, over a real connection.
fn join(joining: &Joining, connection: Connection) -> (io::Result<Introduced>, io::Result<Shaken>) {
    let (address, serving) = server(connection, PRIVATE);
    let dialled = dial(&address.into(), LONG).unwrap();
    let introduced = dialled.introduce_and_wait(Preamble::Join, Expected::Hub(joining), PRIVATE, LONG);
    (introduced, serving.join().unwrap())
}

fn are_refused((client, server): (io::Result<Introduced>, io::Result<Shaken>)) -> bool {
    client.is_err() && server.is_err()
}

#[test]
fn a_machine_joins() {
    let grid = Grid::new();
    for role in [Role::Executor, Role::User] {
        let joining = Joining::new(role, "LabPC", grid.root).unwrap();
        let (introduced, shaken) = join(&joining, grid.hub.server_for_joining().unwrap());
        assert_eq!(introduced.unwrap().name().unwrap(), "hub");
        let shaken = shaken.unwrap();
        assert!(!shaken.was_resumed());
        let asked = role_and_name(shaken.peer_certificate()).unwrap();
        assert_eq!(asked, (role.name().to_owned(), "labpc".to_owned()));
        assert!(grid.hub.ended_member(shaken.shown()).is_err(), "it is no member yet");
        let (is, name, certificates) = grid.issuer.sign_request(shaken.peer_certificate(), Some(DAY)).unwrap();
        assert_eq!((is, name.as_str()), (role, "labpc"));
        let text = joining.identity(&certificates).unwrap();
        let labpc = Member::parse(&text, role).unwrap();
        assert_eq!((labpc.name.as_str(), labpc.authority()), ("labpc", grid.hub.authority()));
        assert_eq!(labpc.issuers(), grid.hub.issuers());
    }
}

#[test]
fn only_a_hub_of_the_grid_answers_a_machine_that_joins() {
    let (grid, theirs) = (Grid::new(), Grid::new());
    let joining = Joining::new(Role::Executor, "labpc", grid.root).unwrap();
    assert!(are_refused(join(&joining, theirs.hub.server_for_joining().unwrap())), "another grid's");
    let wrong = Joining::new(Role::Executor, "labpc", [7; 32]).unwrap();
    assert!(are_refused(join(&wrong, grid.hub.server_for_joining().unwrap())), "another fingerprint");
    for role in [Role::Executor, Role::User] {
        let no_hub = member(&grid.issuer, role, "eve");
        assert!(matches!(no_hub.server_for_joining(), Err(IdentityError::Role { .. })));
        assert!(are_refused(join(&joining, no_hub.server().unwrap())), "no hub");
    }
    let own = KeyedCertificate::ephemeral().unwrap();
    let pinned = own.server_of(&first_certificate(&request_pem()).unwrap()).unwrap();
    assert!(are_refused(join(&joining, pinned)), "a process");
    assert!(are_refused(join(&joining, grid.hub.server().unwrap())), "a hub, where it serves members");
    let member = Member::parse(&grid.issuer.issue(Role::User, "ada").unwrap(), Role::User).unwrap();
    let (address, serving) = server(grid.hub.server_for_joining().unwrap(), PRIVATE);
    let client = member.client_of(Role::Hub).unwrap();
    let dialled = dial(&address.into(), LONG).unwrap();
    let hub = dialled.introduce_and_wait(Preamble::Hub, Expected::Named(&client, "hub"), PRIVATE, LONG);
    assert!(hub.is_err() && serving.join().unwrap().is_err(), "what lets everybody in serves nothing else");
}

fn request_pem() -> String {
    request(Role::User, "ada").unwrap().1.replace("PHALANX REQUEST", "CERTIFICATE")
}

#[test]
fn a_link_for_joining_is_good_for_nothing_else() {
    let grid = Grid::new();
    let joining = Joining::new(Role::Executor, "labpc", grid.root).unwrap();
    let safe = Levels::all(Level::Safe);
    for (preamble, levels) in [(Preamble::Hub, PRIVATE), (Preamble::Control, PRIVATE), (Preamble::Join, safe)] {
        let (mut socket, other) = Socket::pair().unwrap();
        let connection = grid.hub.server_for_joining().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let dialled = Dialled { socket: other, address: None, again: address.into() };
        let expected = Expected::Hub(&joining);
        let serving = thread::spawn(move || {
            let mut timed = socket.until(Instant::now() + LONG);
            let preamble = Preamble::read(&mut timed)?;
            offer(connection, [LevelSet::EVERY; 3], &preamble.bound(), &mut timed)
        });
        assert!(dialled.introduce(preamble, expected, levels, LONG).is_err(), "{preamble:?} {levels:?}");
        assert!(serving.join().unwrap().is_err(), "{preamble:?} {levels:?}");
    }
}

#[test]
fn a_hub_gives_what_was_asked_for() {
    let (grid, theirs) = (Grid::new(), Grid::new());
    let joining = Joining::new(Role::Executor, "labpc", grid.root).unwrap();
    let asked = |role, name| Joining::new(role, name, grid.root).unwrap();
    let others = [asked(Role::Executor, "labpc"), asked(Role::Executor, "desk"), asked(Role::User, "labpc")];
    for (other, why) in others.iter().zip(["", "another role or name", "another role or name"]) {
        let (_, _, certificates) = grid.issuer.sign_request(other.request(), Some(DAY)).unwrap();
        let error = joining.identity(&certificates).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let (_, _, certificates) = theirs.issuer.sign_request(joining.request(), Some(DAY)).unwrap();
    assert!(joining.identity(&certificates).unwrap_err().to_string().contains("another grid"));
    // The root of the grid, behind another's certificates.
    let own = grid.issuer.sign_request(joining.request(), Some(DAY)).unwrap().2;
    let (begins, root) = (certificates.rfind("-----BEGIN").unwrap(), own.rfind("-----BEGIN").unwrap());
    let mixed = [&certificates[..begins], &own[root..]].concat();
    assert!(joining.identity(&mixed).is_err());
    assert!(joining.identity("").is_err() && joining.identity(&own[..own.len() / 2]).is_err());
    assert!(joining.identity(&own).is_ok());
}

#[test]
fn a_member_whose_certificate_has_ended_comes_back() {
    let grid = Grid::new();
    let text = grid.issuer.issue_for(Role::Executor, "labpc", Some(Duration::ZERO)).unwrap();
    let until = Instant::now() + LONG;
    while !matches!(Member::parse(&text, Role::Executor), Err(IdentityError::Ended { .. })) {
        assert!(Instant::now() < until, "it ends at once");
        thread::sleep(Duration::from_millis(20));
    }
    let returning = Joining::returning(&text).unwrap();
    assert_eq!((returning.role(), returning.name()), (Role::Executor, "labpc"));
    let (introduced, shaken) = join(&returning, grid.hub.server_for_joining().unwrap());
    let shaken = shaken.unwrap();
    introduced.unwrap();
    let shown = shaken.shown();
    assert_eq!(grid.hub.ended_member(shown).unwrap(), (Role::Executor, "labpc".to_owned()));
    let (_, _, certificates) = grid.issuer.sign_request(&shown[0], Some(DAY)).unwrap();
    let again = returning.identity(&certificates).unwrap();
    let key = |text: &str| text[text.find("-----BEGIN PRIVATE").unwrap()..].to_owned();
    assert_eq!(key(&again), key(&text), "it keeps its key");
    Member::parse(&again, Role::Executor).unwrap();
    let theirs = Grid::new();
    assert!(theirs.hub.ended_member(shown).is_err(), "another grid's");
    assert!(grid.hub.ended_member(&[]).is_err());
}

#[test]
fn a_revoked_member_does_not_come_back() {
    let grid = Grid::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("revoked.txt");
    let hub = grid.hub.clone().heeding(vec![file.clone()]);
    let labpc = grid.issuer.issue_for(Role::Executor, "labpc", Some(DAY)).unwrap();
    let shown = [first_certificate(&labpc).unwrap(), grid.issuer.certificate().unwrap()];
    assert!(hub.ended_member(&shown).is_ok());
    let entry = Revoked {
        when: "2026-01-02T03:04:05Z".to_owned(),
        role: Role::Executor,
        name: "labpc".to_owned(),
        fingerprint: fingerprint(&shown[0]),
        until: None,
    };
    std::fs::write(&file, hub.revoke_after(&[], vec![entry]).unwrap()).unwrap();
    assert!(hub.ended_member(&shown).unwrap_err().to_string().contains("was revoked"));
    assert!(hub.ended_member(&shown[..1]).unwrap_err().to_string().contains("was revoked"));
}

/// What the hub says to a peer that shows this and has this key.
fn judge(hub: &Member, shown: Vec<rustls::pki_types::CertificateDer<'static>>, key: &[u8]) -> Result<(), String> {
    forging::judge(hub.server_for_joining().unwrap(), "hub.role.phalanx", shown, key)
}

#[test]
fn a_peer_that_joins_has_the_key_of_its_request() {
    let grid = Grid::new();
    let own = |role, name: &str| {
        let (key, asked) = request(role, name).unwrap();
        let asked = first_certificate(&asked.replace("PHALANX REQUEST", "CERTIFICATE")).unwrap();
        (asked, pem::parse(key.as_bytes()).unwrap().into_contents())
    };
    let ((ada, key_of_ada), (_, key_of_eve)) = (own(Role::User, "ada"), own(Role::User, "eve"));
    assert_eq!(judge(&grid.hub, vec![ada.clone()], &key_of_ada), Ok(()));
    judge(&grid.hub, vec![ada.clone()], &key_of_eve).unwrap_err();
    let member = first_certificate(&grid.issuer.issue(Role::User, "ada").unwrap()).unwrap();
    judge(&grid.hub, vec![member], &key_of_eve).unwrap_err();
    judge(&grid.hub, Vec::new(), &key_of_eve).unwrap_err();
    assert_eq!(judge(&grid.hub, vec![ada.clone(); 5], &key_of_ada), Ok(()));
    judge(&grid.hub, vec![ada.clone(); 6], &key_of_ada).unwrap_err();
    judge(&grid.hub, vec![ada, vec![0x30; 4097].into()], &key_of_ada).unwrap_err();
}

#[test]
fn another_kind_of_key_joins_nothing() {
    let grid = Grid::new();
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let names = vec!["user.role.phalanx".to_owned(), "ada.name.phalanx".to_owned()];
    let asked = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    judge(&grid.hub, vec![asked.der().clone()], &key.serialize_der()).unwrap_err();
    let key = rcgen::KeyPair::generate().unwrap();
    let names = (0..200).map(|number| format!("name-{number}.name.phalanx")).collect::<Vec<_>>();
    let asked = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    assert!(asked.der().len() > 4096);
    judge(&grid.hub, vec![asked.der().clone()], &key.serialize_der()).unwrap_err();
}

/// The hub that signs looks whether the token is one for hubs.
#[test]
fn a_further_hub_asks_as_others_do() {
    let grid = Grid::new();
    assert!(Joining::new(Role::User, "a b", grid.root).is_err());
    let hub = Joining::new(Role::Hub, "other", grid.root).unwrap();
    grid.issuer.sign_request(hub.request(), None).unwrap_err();
    hub.identity(&grid.issuer.sign_hub(hub.request(), None).unwrap()).unwrap();
}
