//! Who gets past a handshake, and who does not.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use phalanx_net::identity::{Authority, KeyedCertificate, Member, Role, role_and_name};
use phalanx_net::socket::Socket;
use phalanx_net::tls::{Channel, Connection};
use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

/// Both ends' outcomes. A client is done before the server has judged it, so it then asks for the server's word.
fn shake_hands(client: Connection, server: Connection) -> (io::Result<()>, io::Result<String>) {
    let (mut one, mut other) = Socket::pair().unwrap();
    one.set_patience(Some(Duration::from_secs(10))).unwrap();
    other.set_patience(Some(Duration::from_secs(10))).unwrap();
    let serving = thread::spawn(move || {
        let (mut channel, _) = Channel::handshake(server, &mut other.until(soon()))?;
        let mut sealed = Vec::new();
        let filled = channel.seal(&[b"welcome"], &mut sealed)?;
        other.write_all(&sealed[..filled])?;
        let (_, name) = role_and_name(channel.peer_certificate().unwrap()).unwrap_or_default();
        Ok(name)
    });
    let client = hear_welcome(client, &mut one);
    one.shut_down();
    (client, serving.join().unwrap())
}

fn hear_welcome(client: Connection, socket: &mut Socket) -> io::Result<()> {
    let (mut channel, early) = Channel::handshake(client, &mut socket.until(soon()))?;
    let (mut heard, mut bytes) = (early.plaintext, early.incoming);
    while heard.len() < 7 {
        let mut more = [0; 4096];
        match io::Read::read(socket, &mut more)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&more[..count]),
        }
        let consumed = channel.open(&mut bytes, |plaintext| heard.extend_from_slice(plaintext))?;
        bytes.drain(..consumed);
    }
    Ok(())
}

fn member(authority: &Authority, role: Role, name: &str) -> Member {
    Member::parse(&authority.issue(role, name).unwrap(), role).unwrap()
}

#[test]
fn members_of_a_grid_know_each_other_by_role_and_name() {
    let authority = Authority::create().unwrap();
    let (user, executor) = (member(&authority, Role::User, "Ada"), member(&authority, Role::Executor, "labpc"));
    let (client, server) = shake_hands(user.client_of(Role::Executor).unwrap(), executor.server().unwrap());
    client.unwrap();
    assert_eq!(server.unwrap(), "ada");
}

#[test]
fn another_grids_members_are_refused_by_both_sides() {
    let (ours, theirs) = (Authority::create().unwrap(), Authority::create().unwrap());
    let user = || member(&ours, Role::User, "ada");
    let executor = |authority| member(authority, Role::Executor, "labpc");
    let (client, _) = shake_hands(user().client_of(Role::Executor).unwrap(), executor(&theirs).server().unwrap());
    assert!(client.is_err());
    let stranger = member(&theirs, Role::User, "eve");
    let (_, server) = shake_hands(stranger.client_of(Role::Executor).unwrap(), executor(&ours).server().unwrap());
    assert!(server.is_err());
}

#[test]
fn a_user_cannot_stand_in_for_an_executor() {
    let authority = Authority::create().unwrap();
    let (user, eve) = (member(&authority, Role::User, "ada"), member(&authority, Role::User, "eve"));
    let (client, _) = shake_hands(user.client_of(Role::Executor).unwrap(), eve.server().unwrap());
    assert!(client.is_err());
}

#[test]
fn a_pinned_link_takes_one_certificate_only() {
    let own = || KeyedCertificate::ephemeral().unwrap();
    let (manager, interpreter, eve) = (own(), own(), own());
    let serve = || interpreter.server_of(&manager.certificate).unwrap();
    let (client, server) = shake_hands(manager.client_of(&interpreter.certificate).unwrap(), serve());
    assert!(client.is_ok() && server.is_ok());
    let (client, server) = shake_hands(eve.client_of(&interpreter.certificate).unwrap(), serve());
    assert!(client.is_err() && server.is_err());
    let (client, _) = shake_hands(manager.client_of(&eve.certificate).unwrap(), serve());
    assert!(client.is_err());
}

#[test]
fn an_authority_survives_its_file() {
    let authority = Authority::create().unwrap();
    let again = Authority::parse(&authority.to_pem()).unwrap();
    let (user, executor) = (member(&authority, Role::User, "ada"), member(&again, Role::Executor, "labpc"));
    let (client, server) = shake_hands(user.client_of(Role::Executor).unwrap(), executor.server().unwrap());
    assert!(client.is_ok() && server.is_ok());
}

#[test]
fn damaged_files_wrong_roles_and_bad_names_are_named() {
    let authority = Authority::create().unwrap();
    let user = authority.issue(Role::User, "ada").unwrap();
    assert!(Member::parse(&user, Role::Executor).unwrap_err().to_string().contains("role user"));
    for text in ["", "nonsense", &user[..user.len() / 2], &authority.to_pem()] {
        assert!(Member::parse(text, Role::User).is_err());
    }
    for name in ["", "a b", "-a", "a-", "ä", &"a".repeat(64)] {
        assert!(authority.issue(Role::User, name).is_err(), "{name:?}");
    }
    assert!(Authority::parse(&user).is_err());
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}
