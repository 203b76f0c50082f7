//! Members whose certificates an issuer has signed, which the grid's root has signed.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::forging;
use phalanx_core::level::{Level, Levels};
use phalanx_net::identity::{
    Authority, Extent, IdentityError, Issued, KeyedCertificate, Member, Role, Scope, Service, first_certificate,
    role_and_name,
};
use phalanx_net::socket::Socket;
use phalanx_net::tls::{Shaken, choose, offer};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::thread;
use std::time::{Duration, Instant};
use webpki::EndEntityCert;

const PRIVATE: Levels = Levels::all(Level::Private);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// A grid with an issuer for its members.
struct Grid {
    root: Authority,
    issuer: Authority,
}

impl Grid {
    fn new() -> Grid {
        let root = Authority::create().unwrap();
        let issuer = root.issuer("hub").unwrap();
        Grid { root, issuer }
    }
}

fn member(authority: &Authority, role: Role, name: &str) -> Member {
    Member::parse(&authority.issue(role, name).unwrap(), role).unwrap()
}

/// What each end of a link knows of the other. A client waits for the offer, so it knows whether the server accepts it.
fn meet(client: &Member, server: &Member) -> (io::Result<Shaken>, io::Result<Shaken>) {
    let (mut one, mut other) = Socket::pair().unwrap();
    let role: Role = role_and_name(&server.own().certificate).unwrap().0.parse().unwrap();
    let connection = server.server().unwrap();
    let serving = thread::spawn(move || offer(connection, PRIVATE.exactly(), &[], &mut other.until(soon())));
    let client = client.client_of(role).unwrap().connect().unwrap();
    let chosen = choose(client, |_| Ok::<_, &str>(PRIVATE), &[], &mut one.until(soon()));
    drop(one);
    (chosen, serving.join().unwrap())
}

fn know_each_other(one: &Member, other: &Member) -> bool {
    let (client, server) = meet(one, other);
    assert_eq!(client.is_ok(), server.is_ok(), "{client:?} {server:?}");
    client.is_ok()
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
}

#[test]
fn members_of_a_root_and_of_its_issuers_know_each_other() {
    let grid = Grid::new();
    let below = grid.issuer.issuer("lab").unwrap();
    let all = [&grid.root, &grid.issuer, &below];
    for of_client in all {
        for of_server in all {
            let (ada, labpc) = (member(of_client, Role::User, "ada"), member(of_server, Role::Executor, "labpc"));
            let (client, server) = meet(&ada, &labpc);
            assert_eq!(role_and_name(client.unwrap().peer_certificate()).unwrap().1, "labpc");
            assert_eq!(role_and_name(server.unwrap().peer_certificate()).unwrap().1, "ada");
        }
    }
    assert_eq!(member(&below, Role::User, "ada").authority(), &*grid.root.root().unwrap());
}

#[test]
fn a_hub_is_a_client_and_a_server_but_no_executor() {
    let grid = Grid::new();
    let (hub, ada) = (member(&grid.issuer, Role::Hub, "hub"), member(&grid.issuer, Role::User, "ada"));
    let labpc = member(&grid.issuer, Role::Executor, "labpc");
    assert!(know_each_other(&ada, &hub) && know_each_other(&hub, &labpc));
    let (mut one, mut other) = Socket::pair().unwrap();
    let server = hub.server().unwrap();
    let serving = thread::spawn(move || offer(server, PRIVATE.exactly(), &[], &mut other.until(soon())));
    let client = ada.client_of(Role::Executor).unwrap().connect().unwrap();
    assert!(choose(client, |_| Ok::<_, &str>(PRIVATE), &[], &mut one.until(soon())).is_err());
    drop(one);
    assert!(serving.join().unwrap().is_err());
}

#[test]
fn the_issuer_of_another_grid_is_refused() {
    let (ours, theirs) = (Grid::new(), Grid::new());
    let (ada, labpc) = (member(&ours.issuer, Role::User, "ada"), member(&ours.issuer, Role::Executor, "labpc"));
    let (eve, desk) = (member(&theirs.issuer, Role::User, "eve"), member(&theirs.issuer, Role::Executor, "desk"));
    let refused = |client, server| {
        let (client, server) = meet(client, server);
        client.is_err() && server.is_err()
    };
    assert!(refused(&eve, &labpc) && refused(&ada, &desk));
    // A file that mixes them is none.
    let (one, other) = (ours.issuer.issue(Role::User, "ada").unwrap(), theirs.issuer.issue(Role::User, "eve").unwrap());
    let certificate = &one[..one.find("-----BEGIN CERTIFICATE").unwrap() + 1 + one[1..].find("-----BEGIN").unwrap()];
    let mixed = [certificate, &other[other[1..].find("-----BEGIN").unwrap() + 1..]].concat();
    let error = Member::parse(&mixed, Role::User).unwrap_err().to_string();
    assert!(error.contains("do not belong together"), "{error}");
}

/// What an executor of the grid says to a client that shows the certificates in this text, and has the key in it.
fn judge(grid: &Grid, text: &str) -> Result<(), String> {
    let labpc = member(&grid.issuer, Role::Executor, "labpc");
    let (mut shown, key) = (certificates(text), PrivateKeyDer::from_pem_slice(text.as_bytes()).unwrap());
    shown.pop(); // the root
    forging::judge(labpc.server().unwrap(), "executor.role.phalanx", shown, key.secret_der())
}

/// The text of an identity file, as if it were that of an authority: the key first.
fn as_authority(text: &str) -> Authority {
    let key = text.find("-----BEGIN PRIVATE").unwrap();
    Authority::parse(&[&text[key..], &text[..key]].concat(), None).unwrap()
}

#[test]
fn members_issue_nobody() {
    let grid = Grid::new();
    assert_eq!(judge(&grid, &grid.issuer.issue(Role::User, "ada").unwrap()), Ok(()));
    for role in [Role::Executor, Role::User, Role::Hub] {
        let forged = as_authority(&grid.issuer.issue(role, "eve").unwrap()).issue(Role::User, "ada").unwrap();
        let error = Member::parse(&forged, Role::User).unwrap_err().to_string();
        assert!(error.contains("do not belong together"), "{error}");
        judge(&grid, &forged).unwrap_err();
    }
}

#[test]
fn an_issuer_is_no_member() {
    let grid = Grid::new();
    let pem = grid.issuer.to_pem(None).unwrap();
    judge(&grid, &pem).unwrap_err();
    assert!(Member::parse(&pem, Role::User).is_err());
}

#[test]
fn the_path_to_the_root_has_a_limit() {
    let grid = Grid::new();
    let below = grid.issuer.issuer("lab").unwrap();
    let error = below.issuer("deeper").unwrap_err();
    assert!(matches!(error, IdentityError::NoIssuers), "{error}");
    assert!(grid.root.issuer("a b").is_err(), "a name is one");
    // An issuer that goes on all the same.
    let pem = below.to_pem(None).unwrap();
    let certificate = first_certificate(&pem).unwrap();
    let parsed = EndEntityCert::try_from(&certificate).unwrap();
    let subject = &parsed.subject()[11..];
    let above = rcgen::Issuer::new(ca(std::str::from_utf8(subject).unwrap(), 0), KeyPair::from_pem(&pem).unwrap());
    let key = KeyPair::generate().unwrap();
    let deeper = ca("phalanx issuer deeper", 0).signed_by(&key, &above).unwrap();
    let deeper = [&key.serialize_pem(), &deeper.pem(), &pem[pem.find("-----BEGIN CERTIFICATE").unwrap()..]].concat();
    let forged = Authority::parse(&deeper, None).unwrap().issue(Role::User, "ada").unwrap();
    judge(&grid, &forged).unwrap_err();
    assert_eq!(judge(&grid, &below.issue(Role::User, "ada").unwrap()), Ok(()));
}

/// An authority's parameters.
fn ca(name: &str, length: u8) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(length));
    params
}

#[test]
fn the_root_of_an_old_grid_has_members_but_no_issuers() {
    let key = KeyPair::generate().unwrap();
    let root = ca("phalanx grid", 0).self_signed(&key).unwrap();
    let old = Authority::parse(&[key.serialize_pem(), root.pem()].concat(), None).unwrap();
    let error = old.issuer("hub").unwrap_err();
    assert!(error.to_string().contains("begin a new grid"), "{error}");
    assert!(know_each_other(&member(&old, Role::User, "ada"), &member(&old, Role::Executor, "labpc")));
    let (of_issuer, signs) = (KeyPair::generate().unwrap(), rcgen::Issuer::new(ca("phalanx grid", 0), key));
    let issuer = ca("phalanx issuer hub", 0).signed_by(&of_issuer, &signs).unwrap();
    let issuer = Authority::parse(&[of_issuer.serialize_pem(), issuer.pem(), root.pem()].concat(), None).unwrap();
    assert!(Member::parse(&issuer.issue(Role::User, "eve").unwrap(), Role::User).is_err());
}

#[test]
fn an_issuer_survives_its_file() {
    let grid = Grid::new();
    let pem = grid.issuer.to_pem(Some("odd")).unwrap();
    let again = Authority::parse(&pem, Some("odd")).unwrap();
    assert_eq!(again.to_pem(None).unwrap(), grid.issuer.to_pem(None).unwrap());
    assert_eq!(again.certificate().unwrap(), grid.issuer.certificate().unwrap());
    assert_eq!((again.root().unwrap(), certificates(&pem).len()), (grid.root.certificate().unwrap(), 2));
    assert!(know_each_other(&member(&again, Role::User, "ada"), &member(&grid.root, Role::Executor, "labpc")));
    assert!(matches!(again.revoke(None, Vec::new()), Err(IdentityError::NoLists)));
}

#[test]
fn a_process_acts_for_a_user_of_an_issuer_that_the_server_knows() {
    let grid = Grid::new();
    let other = grid.root.issuer("other").unwrap();
    let (ada, labpc) = (member(&other, Role::User, "ada"), member(&grid.issuer, Role::Executor, "labpc"));
    let board = member(&grid.issuer, Role::Executor, "board");
    let process = KeyedCertificate::ephemeral().unwrap();
    let mut scope = Scope::default();
    scope.add(Service::Spaces, Extent::All).unwrap();
    let whom = [&process.certificate[..], &labpc.own().certificate];
    let text = ada.delegate(whom, &scope, [1; 16], Duration::from_secs(3600)).unwrap();
    let papers = [&ada.own().certificate[..], &labpc.own().certificate, ada.authority()];
    let acts = |issuers: &[Vec<u8>]| Member::delegated(process.clone(), papers, issuers, &text);
    assert!(acts(&labpc.issuers()).is_err(), "the executor does not know the user's issuer");
    assert!(know_each_other(&ada, &labpc), "now it does");
    let process = acts(&labpc.issuers()).unwrap();
    assert_eq!(process.acts().unwrap().user, "ada");
    assert!(!know_each_other(&process, &board), "the server does not");
    assert!(know_each_other(&ada, &board));
    let (_, server) = meet(&process, &board);
    let acting = board.acting(server.unwrap().shown()).unwrap().unwrap();
    assert_eq!((acting.user.as_str(), acting.executor.as_str()), ("ada", "labpc"));
}

#[test]
fn only_issuers_of_verified_members_are_learned_and_not_too_many() {
    let (grid, theirs) = (Grid::new(), Grid::new());
    let labpc = member(&grid.root, Role::Executor, "labpc");
    assert_eq!(labpc.issuers(), Vec::<Vec<u8>>::new());
    assert!(!know_each_other(&member(&theirs.issuer, Role::User, "eve"), &labpc));
    assert!(labpc.issuers().is_empty());
    for number in 0..20 {
        let issuer = grid.root.issuer(&format!("hub-{number}")).unwrap();
        assert!(know_each_other(&member(&issuer, Role::User, "ada"), &labpc));
        assert_eq!(labpc.issuers().last(), Some(&issuer.certificate().unwrap().to_vec()));
    }
    assert_eq!(labpc.issuers().len(), 16);
}

#[test]
fn an_issuer_renews_a_member_of_the_root_which_then_shows_it() {
    let grid = Grid::new();
    let folder = tempfile::tempdir().unwrap();
    let text = grid.root.issue_for(Role::Executor, "labpc", Some(DAY)).unwrap();
    let file = folder.path().join("labpc.pem");
    std::fs::write(&file, &*text).unwrap();
    let labpc = Member::parse(&text, Role::Executor).unwrap().renewing(Some(file.clone()), Vec::new()).unwrap();
    let pem = grid.issuer.to_pem(None).unwrap();
    let own = text.split_inclusive("END CERTIFICATE-----").next().unwrap();
    let issued = Issued::all(own, &pem).unwrap().remove(0);
    let renewed = grid.issuer.renew(&issued, Some(30 * DAY)).unwrap().to_pem();
    let renewals = labpc.renewals().unwrap();
    assert!(renewals.take(renewed.as_bytes()).refused.is_some(), "its issuer is not known");
    let hub = member(&grid.issuer, Role::Hub, "hub");
    assert!(know_each_other(&labpc, &hub), "from the hub it is learned");
    assert!(renewals.take(renewed.as_bytes()).own.is_some());
    // The peer knows no issuers: the member shows them.
    for labpc in [&labpc, &labpc.newest()] {
        let (client, _) = meet(&member(&grid.root, Role::User, "ada"), labpc);
        let shown = client.unwrap().shown().to_vec();
        assert_eq!(shown, [first_certificate(&renewed).unwrap(), grid.issuer.certificate().unwrap()]);
    }
    let (_, server) = meet(&labpc.newest(), &member(&grid.root, Role::Executor, "board"));
    assert_eq!(server.unwrap().shown().len(), 2);
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.starts_with(&renewed));
    assert_eq!(certificates(&kept)[1..], [grid.issuer.certificate().unwrap(), grid.root.certificate().unwrap()]);
    let again = Member::parse(&kept, Role::Executor).unwrap();
    assert!(know_each_other(&member(&grid.root, Role::User, "ada"), &again));
}

#[test]
fn a_renewed_identity_file_keeps_its_issuers() {
    let grid = Grid::new();
    let folder = tempfile::tempdir().unwrap();
    let text = grid.issuer.issue_for(Role::User, "ada", Some(DAY)).unwrap();
    let [file, renewed] = ["ada.pem", "renewed.pem"].map(|name| folder.path().join(name));
    std::fs::write(&file, &*text).unwrap();
    let pem = grid.issuer.to_pem(None).unwrap();
    let own = text.split_inclusive("END CERTIFICATE-----").next().unwrap();
    let new = grid.issuer.renew(&Issued::all(own, &pem).unwrap()[0], Some(30 * DAY)).unwrap();
    std::fs::write(&renewed, new.to_pem()).unwrap();
    let kept = Member::renew(&text, Role::User, file.clone(), vec![renewed]).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), *kept);
    assert_eq!(certificates(&kept)[1..], certificates(&text)[1..]);
    assert_eq!(certificates(&kept)[0], new.certificate);
}

#[test]
fn nobody_becomes_a_hub_by_asking() {
    let grid = Grid::new();
    assert!(phalanx_net::identity::request(Role::Hub, "hub").is_err());
    let hub = grid.root.issue(Role::Hub, "hub").unwrap();
    let asked = hub[..hub.find("-----BEGIN PRIVATE").unwrap()].replace("CERTIFICATE", "PHALANX REQUEST");
    let error = grid.root.sign(&asked, None).unwrap_err().to_string();
    assert!(error.contains("nobody becomes a hub by asking"), "{error}");
}
