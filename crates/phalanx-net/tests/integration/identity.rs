//! Who gets past a handshake, and who does not.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use phalanx_core::level::{Level, LevelSet, Levels, Mark};
use phalanx_core::wire::{MAX_BODY, ToInterpreter, encode};
use phalanx_net::connection::Connection;
use phalanx_net::identity::{
    Authority, Client, Extent, KeyedCertificate, Member, Role, Scope, Service, request, role_and_name,
};
use phalanx_net::link::{Link, LinkError};
use phalanx_net::socket::Socket;
use phalanx_net::tls::{Shaken, choose, choose_ahead, offer};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

const PRIVATE: Levels = Levels::all(Level::Private);

/// Both ends' outcomes. A client is done before the server has judged it, so it then waits for the server's word.
fn shake_hands(client: Connection, server: Connection) -> (Result<(), LinkError>, io::Result<String>) {
    let (mut one, mut other) = Socket::pair().unwrap();
    let serving = thread::spawn(move || {
        let shaken = offer(server, PRIVATE.exactly(), &[], &mut other.until(soon()))?;
        let (_, name) = role_and_name(shaken.peer_certificate()).unwrap_or_default();
        let (link, _reader) = Link::new(other, Some(shaken), MAX_BODY)?;
        link.send(Mark::None, encode(&ToInterpreter::Beat, 0), Vec::new()).map_err(io::Error::other)?;
        Ok(name)
    });
    let client = hear_a_frame(client, &mut one);
    one.shut_down();
    (client, serving.join().unwrap())
}

fn hear_a_frame(client: Connection, socket: &mut Socket) -> Result<(), LinkError> {
    let shaken = choose_ahead(client, PRIVATE, &[], &mut socket.until(soon()))?;
    let (_link, mut reader) = Link::new(socket.try_clone()?, Some(shaken), MAX_BODY)?;
    let (mut heard, until) = (false, soon());
    while !heard && Instant::now() < until {
        reader.poll(Duration::from_secs(1), &mut |_| heard = true)?;
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
    let (client, server) =
        shake_hands(user.client_of(Role::Executor).unwrap().connect().unwrap(), executor.server().unwrap());
    client.unwrap();
    assert_eq!(server.unwrap(), "ada");
}

/// Whether a link to the executor is resumed; both ends know each other by name, resumed or not.
fn is_resumed(client: &Client, executor: &Member) -> bool {
    let (mut one, mut other) = Socket::pair().unwrap();
    let server = executor.server().unwrap();
    let serving = thread::spawn(move || {
        let shaken = offer(server, PRIVATE.exactly(), &[], &mut other.until(soon())).unwrap();
        let (_, name) = role_and_name(shaken.peer_certificate()).unwrap();
        let (link, _reader) = Link::new(other, Some(shaken), MAX_BODY).unwrap();
        link.send(Mark::None, encode(&ToInterpreter::Beat, 0), Vec::new()).unwrap();
        name
    });
    let shaken = choose_ahead(client.connect().unwrap(), PRIVATE, &[], &mut one.until(soon())).unwrap();
    assert_eq!(role_and_name(shaken.peer_certificate()).unwrap().1, executor.name);
    let is_resumed = shaken.was_resumed();
    let (_link, mut reader) = Link::new(one, Some(shaken), MAX_BODY).unwrap();
    let mut heard = false;
    while !heard {
        reader.poll(Duration::from_secs(1), &mut |_| heard = true).unwrap();
    }
    assert_eq!(serving.join().unwrap(), "ada");
    is_resumed
}

#[test]
fn the_second_link_to_a_member_is_resumed_and_its_peers_are_known_as_before() {
    let authority = Authority::create().unwrap();
    let (user, executor) = (member(&authority, Role::User, "ada"), member(&authority, Role::Executor, "labpc"));
    let client = user.client_of(Role::Executor).unwrap();
    assert_eq!([(); 3].map(|()| is_resumed(&client, &executor)), [false, true, true]);
}

#[test]
fn what_a_process_keeps_of_links_is_of_one_member_of_one_grid_to_one_place() {
    let authority = Authority::create().unwrap();
    let (user, executor) = (authority.issue(Role::User, "ada").unwrap(), member(&authority, Role::Executor, "labpc"));
    let user = || Member::parse(&user, Role::User).unwrap(); // as the next copy reads it
    let at = |user: Member, place: &str| is_resumed(&user.client_at(Role::Executor, place).unwrap(), &executor);
    assert_eq!(["a:1", "a:1", "b:1", "a:1"].map(|place| at(user(), place)), [false, true, false, true]);
    assert!(!at(member(&authority, Role::User, "ada"), "a:1"), "another key of the same name");
    let restarted = member(&authority, Role::Executor, "labpc");
    assert!(!is_resumed(&user().client_at(Role::Executor, "a:1").unwrap(), &restarted), "it remembers nothing");
}

#[test]
fn another_grids_members_are_refused_by_both_sides() {
    let (ours, theirs) = (Authority::create().unwrap(), Authority::create().unwrap());
    let user = || member(&ours, Role::User, "ada");
    let executor = |authority| member(authority, Role::Executor, "labpc");
    let (client, _) =
        shake_hands(user().client_of(Role::Executor).unwrap().connect().unwrap(), executor(&theirs).server().unwrap());
    assert!(client.is_err());
    let stranger = member(&theirs, Role::User, "eve");
    let (_, server) =
        shake_hands(stranger.client_of(Role::Executor).unwrap().connect().unwrap(), executor(&ours).server().unwrap());
    assert!(server.is_err());
}

#[test]
fn a_user_cannot_stand_in_for_an_executor() {
    let authority = Authority::create().unwrap();
    let (user, eve) = (member(&authority, Role::User, "ada"), member(&authority, Role::User, "eve"));
    let (client, _) = shake_hands(user.client_of(Role::Executor).unwrap().connect().unwrap(), eve.server().unwrap());
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
    let again = Authority::parse(&authority.to_pem(None).unwrap(), None).unwrap();
    let (user, executor) = (member(&authority, Role::User, "ada"), member(&again, Role::Executor, "labpc"));
    let (client, server) =
        shake_hands(user.client_of(Role::Executor).unwrap().connect().unwrap(), executor.server().unwrap());
    assert!(client.is_ok() && server.is_ok());
}

#[test]
fn damaged_files_wrong_roles_and_bad_names_are_named() {
    let authority = Authority::create().unwrap();
    let user = authority.issue(Role::User, "ada").unwrap();
    assert!(Member::parse(&user, Role::Executor).unwrap_err().to_string().contains("role user"));
    for text in ["", "nonsense", &user[..user.len() / 2], &authority.to_pem(None).unwrap()] {
        assert!(Member::parse(text, Role::User).is_err());
    }
    let cut = Member::parse(&user[..user.find("-----END").unwrap()], Role::User).unwrap_err().to_string();
    assert_eq!(cut, "the identity file is damaged: the line -----END CERTIFICATE----- is missing");
    for name in ["", "a b", "-a", "a-", "ä", &"a".repeat(64)] {
        assert!(authority.issue(Role::User, name).is_err(), "{name:?}");
    }
    assert!(Authority::parse(&user, None).is_err());
    let authority = authority.to_pem(None).unwrap();
    let cut = Authority::parse(&authority[..authority.len() - 40], None).unwrap_err().to_string();
    assert_eq!(cut, "the authority's file is damaged: it has no whole certificate");
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// A user who takes these levels at a server that takes those: what both ends made of it.
fn agree(wanted: Levels, offered: LevelSet) -> (Result<Shaken, String>, Result<Shaken, String>) {
    let authority = Authority::create().unwrap();
    let (user, executor) = (member(&authority, Role::User, "ada"), member(&authority, Role::Executor, "labpc"));
    let (mut one, mut other) = Socket::pair().unwrap();
    let server = executor.server().unwrap();
    let serving = thread::spawn(move || offer(server, [offered; 3], &[], &mut other.until(soon())));
    let client = user.client_of(Role::Executor).unwrap().connect().unwrap();
    let decide = |theirs: [LevelSet; 3]| if theirs == [offered; 3] { Ok(wanted) } else { Err("another offer") };
    let chosen = choose(client, decide, &[], &mut one.until(soon()));
    drop(one);
    (chosen.map_err(|error| error.to_string()), serving.join().unwrap().map_err(|error| error.to_string()))
}

#[test]
fn a_client_chooses_levels_among_those_offered() {
    let marked = Levels { base: Level::Safe, data: Level::Private, code: Level::Private };
    for levels in [Levels::all(Level::Private), marked] {
        let (client, server) = agree(levels, LevelSet::from(Level::Safe));
        assert_eq!((client.unwrap().levels, server.unwrap().levels), (levels, levels));
    }
    let (client, server) = agree(Levels::all(Level::Clear), LevelSet::from(Level::Safe));
    assert!(client.unwrap_err().contains("the peer does not offer clear"));
    assert!(server.is_err());
}

#[test]
fn a_request_becomes_a_member_and_its_key_is_nowhere_else() {
    let authority = Authority::create().unwrap();
    for (role, name) in [(Role::User, "ada"), (Role::Executor, "labpc")] {
        let (key, asked) = request(role, name).unwrap();
        assert!(!asked.contains("PRIVATE") && key.contains("PRIVATE"));
        let (is, named, certificates) = authority.sign(&asked, None).unwrap();
        assert_eq!((is, &*named), (role, name));
        assert!(!certificates.contains("PRIVATE"));
        let member = Member::parse(&[&certificates, key.as_str()].concat(), role).unwrap();
        assert_eq!(member.name, name);
        let (other, _) = request(role, name).unwrap();
        assert!(Member::parse(&[&certificates, other.as_str()].concat(), role).is_err(), "another key");
    }
}

#[test]
fn what_is_no_request_is_not_signed() {
    let authority = Authority::create().unwrap();
    let (_, asked) = request(Role::User, "ada").unwrap();
    let member = authority.issue(Role::User, "ada").unwrap();
    let halves = [&asked[..asked.len() / 2], &asked[asked.len() / 2..]];
    for text in ["", "nonsense", &member, halves[0], halves[1], &authority.to_pem(None).unwrap()] {
        assert!(authority.sign(text, None).unwrap_err().to_string().contains("no request"), "{text}");
    }
    assert!(request(Role::User, "a.b").is_err());
}

#[test]
fn an_authority_is_locked_by_its_passphrase() {
    let authority = Authority::create().unwrap();
    let locked = authority.to_pem(Some("odd")).unwrap();
    assert!(Authority::is_locked(&locked) && !Authority::is_locked(&authority.to_pem(None).unwrap()));
    assert!(!locked.contains("PRIVATE KEY"));
    for wrong in [None, Some("even")] {
        assert!(Authority::parse(&locked, wrong).unwrap_err().to_string().contains("not the passphrase"));
    }
    let again = Authority::parse(&locked, Some("odd")).unwrap();
    assert_eq!(again.to_pem(None).unwrap(), authority.to_pem(None).unwrap());
}

#[test]
fn handshakes_agree_on_a_key_exchange_that_a_quantum_computer_does_not_break() {
    let authority = Authority::create().unwrap();
    let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
    let mut client = member(Role::User, "ada").client_of(Role::Executor).unwrap().connect().unwrap();
    let mut server = member(Role::Executor, "labpc").server().unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        for (from, to) in [(0, 1), (1, 0)] {
            let ends = [&mut client, &mut server];
            let mut bytes = Vec::new();
            while ends[from].wants_write() {
                ends[from].write_tls(&mut bytes).unwrap();
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                ends[to].read_tls(&mut rest).unwrap();
                ends[to].process_new_packets().unwrap();
            }
        }
    }
    for end in [&client, &server] {
        let group = end.negotiated_key_exchange_group().map(|group| group.name());
        assert_eq!(group, Some(rustls::NamedGroup::X25519MLKEM768));
    }
}

/// A process at an executor with a delegation of the user for so long, as it connects to other members.
fn delegated(user: &Member, executor: &Member, lasts: Duration) -> Result<Member, String> {
    let process = KeyedCertificate::ephemeral().unwrap();
    let mut scope = Scope::default();
    scope.add(Service::Spaces, Extent::All).unwrap();
    let (own, at) = (user.own().certificate.to_vec(), executor.own().certificate.to_vec());
    let text = user.delegate([&process.certificate, &at], &scope, [1; 16], lasts).unwrap();
    let certificates = [&own[..], &at[..], user.authority()];
    Member::delegated(process, certificates, &executor.issuers(), &text).map_err(|error| error.to_string())
}

/// What the server knows of a peer after a handshake, and whether the session was resumed.
fn met(client: &Client, server: &Member) -> Result<(String, String, bool), String> {
    let (mut one, mut other) = Socket::pair().unwrap();
    let (connection, judge) = (server.server().unwrap(), server.clone());
    let serving = thread::spawn(move || {
        let shaken =
            offer(connection, PRIVATE.exactly(), &[], &mut other.until(soon())).map_err(|it| it.to_string())?;
        assert!(role_and_name(shaken.peer_certificate()).is_err(), "its own certificate is nobody's");
        let acting = judge.acting(shaken.shown()).map_err(|error| error.to_string())?.unwrap();
        let resumed = shaken.was_resumed();
        let (link, _reader) = Link::new(other, Some(shaken), MAX_BODY).unwrap();
        link.send(Mark::None, encode(&ToInterpreter::Beat, 0), Vec::new()).unwrap();
        Ok((acting.user, acting.executor, resumed))
    });
    let heard = hear_a_frame(client.connect().unwrap(), &mut one);
    one.shut_down();
    let met = serving.join().unwrap();
    assert_eq!(heard.is_ok(), met.is_ok(), "{heard:?}");
    met
}

#[test]
fn a_process_acts_for_its_user_toward_another_member_also_in_resumed_sessions() {
    let authority = Authority::create().unwrap();
    let (user, server) = (member(&authority, Role::User, "ada"), member(&authority, Role::Executor, "board"));
    let executor = member(&authority, Role::Executor, "labpc");
    let process = delegated(&user, &executor, Duration::from_secs(3600)).unwrap();
    let client = process.client_of(Role::Executor).unwrap();
    let names = |resumed| Ok(("ada".to_owned(), "labpc".to_owned(), resumed));
    assert_eq!([(); 2].map(|()| met(&client, &server)), [names(false), names(true)]);
    let elsewhere = member(&Authority::create().unwrap(), Role::Executor, "board");
    assert!(met(&client, &elsewhere).is_err(), "another grid's");
    assert!(delegated(&user, &executor, Duration::ZERO).unwrap_err().contains("has ended"));
    let (client, _) =
        shake_hands(user.client_of(Role::Executor).unwrap().connect().unwrap(), process.server().unwrap());
    assert!(client.is_err(), "it is no server");
}

#[test]
fn a_resumed_session_does_not_outlast_its_delegation() {
    let authority = Authority::create().unwrap();
    let (user, server) = (member(&authority, Role::User, "ada"), member(&authority, Role::Executor, "board"));
    let process = delegated(&user, &server, Duration::from_secs(3)).unwrap();
    let client = process.client_of(Role::Executor).unwrap();
    assert!(met(&client, &server).is_ok());
    let until = soon();
    let why = loop {
        match met(&client, &server) {
            Err(why) => break why,
            Ok(_) => assert!(Instant::now() < until, "it ends"),
        }
        thread::sleep(Duration::from_millis(100));
    };
    assert!(why.contains("the delegation has ended"), "{why}");
}
