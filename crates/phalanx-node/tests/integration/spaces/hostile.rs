//! Peers that mean no good do not stop a server from serving others.

use super::common::*;
use phalanx_core::error::SpaceError;
use phalanx_core::level::{Level, LevelSet, Mark};
use phalanx_core::space::{Get, MOST_CLIENTS, Once, OutOptions, Pattern, Seat};
use phalanx_core::wire::space::{FromSpace, ToSpace, Wait};
use phalanx_core::wire::{VERSION, decode, encode};
use phalanx_net::dial::dial;
use phalanx_net::identity::{Member, Revoked, Role, fingerprint};
use phalanx_net::link::Link;
use phalanx_net::preamble::Preamble;
use phalanx_net::socket::{Listener, Socket};
use phalanx_net::tls::offer;
use phalanx_node::space::ServerOptions;
use proptest::prelude::*;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A connection that has said what it is for, and nothing yet of what it wants.
fn connection(at: &AtPath) -> Socket {
    let mut socket = dial(&at.socket().as_path().into(), PATIENCE).unwrap().socket;
    Preamble::Space { shakes: false }.write(&mut socket).unwrap();
    socket
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let at = AtPath::start(ServerOptions::default());
    let client = at.client("todo");
    let open = encode(&ToSpace::Open { request: 1, name: "todo".into(), create: None }, 0);
    let huge = [&u32::MAX.to_le_bytes()[..], &[0; 4], &u64::MAX.to_le_bytes()].concat();
    let long_body = [&0u32.to_le_bytes()[..], &[0; 4], &(1u64 << 40).to_le_bytes()].concat();
    let twice = [open.clone(), open.clone()].concat();
    let early = encode(&ToSpace::Info { request: 1 }, 0);
    for bytes in [vec![0xff; 5000], vec![0; 5000], huge, long_body, twice, early, [open, vec![7; 100]].concat()] {
        let mut socket = connection(&at);
        let _ = socket.write_all(&bytes);
        let mut rest = Vec::new();
        socket.set_patience(Some(PATIENCE)).unwrap();
        let ended = std::io::Read::read_to_end(&mut socket, &mut rest);
        let is_over = ended.map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true);
        assert!(is_over, "the server hangs up");
        out(&client, tuple("a", 1)).unwrap();
    }
}

#[test]
fn bodies_that_are_no_tuples_or_templates_are_errors() {
    let at = AtPath::start(ServerOptions::default());
    let client = at.client("todo");
    for body in [vec![], vec![0xff; 50], vec![1], vec![1, 6, 200], vec![0; 3]] {
        assert!(out(&client, body.clone().into()).is_err(), "{body:?}");
        let found = get(&client, body.clone().into(), true);
        assert!(found.is_err() || body == [0, 0], "{body:?}");
    }
    assert_eq!(info(&client).tuples, 0);
    let many = |request| ToSpace::Out { request, tuples: u32::MAX, options: OutOptions::default(), transaction: None };
    assert!(finish(&client, client.ask(many, vec![tuple("a", 1)]).unwrap()).is_err());
    // Numbers of requests, watches, tuples and transactions that nobody gave.
    for message in
        [ToSpace::Ack { request: 9 }, ToSpace::GiveBack { request: 9 }, ToSpace::Cancel { request: 9 }, ToSpace::Beat]
    {
        client.tell(&message);
    }
    assert!(
        finish(&client, client.ask(|request| ToSpace::Renew { request, number: 9, lease: None }, vec![]).unwrap())
            .is_err()
    );
    out(&client, tuple("a", 1)).unwrap();
}

#[test]
fn before_a_space_is_open_nothing_long_is_taken() {
    let at = AtPath::start(ServerOptions::default());
    let mut socket = connection(&at);
    let open = ToSpace::Open { request: 1, name: "todo".into(), create: None };
    let _ = socket.write_all(&encode(&open, 1 << 20)); // none of whose body comes
    socket.set_patience(Some(PATIENCE)).unwrap();
    let ended = std::io::Read::read(&mut socket, &mut [0]);
    let is_over = ended.map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |count| count == 0);
    assert!(is_over, "the server hangs up");
}

#[test]
fn nobody_takes_a_seat_that_makes_no_sense_or_where_nothing_is_kept() {
    let at = AtPath::start(ServerOptions::default());
    let seat = |number: u64| Box::new(Seat { number, group: "x".repeat(9000), options: Default::default() });
    for (name, number) in [("todo", 1), ("todo", u64::MAX), ("../todo", u64::MAX)] {
        let mut socket = connection(&at);
        let join = ToSpace::Join { request: 1, name: name.into(), seat: seat(number) };
        socket.write_all(&encode(&join, 0)).unwrap();
        socket.set_patience(Some(PATIENCE)).unwrap();
        let mut prefix = [0; 16];
        std::io::Read::read_exact(&mut socket, &mut prefix).unwrap();
        let mut header = vec![0; u32::from_le_bytes(prefix[..4].try_into().unwrap()) as usize];
        std::io::Read::read_exact(&mut socket, &mut header).unwrap();
        assert!(matches!(decode(&header), Ok(FromSpace::Failed { request: 1, .. })), "{header:?}");
    }
    assert!(at.try_client("todo", None).is_err(), "there is none");
}

#[test]
fn clients_that_register_without_end_are_forgotten_and_the_space_goes_on() {
    let at = AtPath::start(ServerOptions::default());
    let client = at.client("todo");
    let once = Once { client: 0, number: 1, open_from: 1 };
    let options = OutOptions { once: Some(once), ..OutOptions::default() };
    let message = |request| ToSpace::Out { request, tuples: 1, options: options.clone(), transaction: None };
    let put = || finish(&client, client.ask(message, vec![tuple("a", 1)]).unwrap());
    for number in 0..=MOST_CLIENTS as u128 {
        let register = |request| ToSpace::Register { request, client: number };
        let request = client.ask(register, Vec::new()).unwrap();
        if number % 500 == 0 {
            finish(&client, request).unwrap();
            put().unwrap();
        } else {
            client.abandon(request);
        }
    }
    assert!(matches!(space_error(put()), SpaceError::UnknownClient));
    assert_eq!(info(&client).tuples, 1);
}

#[test]
fn a_message_longer_than_the_space_takes_is_an_error_here() {
    let at = AtPath::start(ServerOptions::default());
    let small = phalanx_core::space::Options { most_tuple_bytes: 1000, ..Default::default() };
    let client = at.try_client("small", Some(small)).unwrap();
    let many = |request| ToSpace::Out { request, tuples: 1, options: OutOptions::default(), transaction: None };
    let refused = client.ask(many, vec![vec![0; 65 << 20].into()]);
    assert!(matches!(space_error(refused), SpaceError::Full { .. }));
    out(&client, tuple("a", 1)).unwrap();
}

#[test]
fn a_message_of_millions_of_empty_tuples_is_refused() {
    let at = AtPath::start(ServerOptions::default());
    let client = at.client("todo");
    let tuples = (1 << 20) + 1;
    let many = |request| ToSpace::Out { request, tuples, options: OutOptions::default(), transaction: None };
    let refused = finish(&client, client.ask(many, vec![vec![0; tuples as usize].into()]).unwrap());
    assert!(matches!(space_error(refused), SpaceError::Full { .. }));
    assert_eq!(info(&client).tuples, 0);
}

#[test]
fn a_template_that_matches_everything_gets_pages() {
    let at = AtPath::start(ServerOptions::default());
    let client = at.client("todo");
    (0..5).for_each(|number| out(&client, tuple(&"x".repeat(5 << 20), number)).unwrap());
    let everything = template(vec![Pattern::Any, Pattern::Any]);
    let (mut seen, mut after, mut pages) = (0, None, 0);
    loop {
        let get = Get { limit: u32::MAX, page_bytes: u64::MAX, after, ..Get::default() };
        let message = |request| ToSpace::Get { request, get, wait: Wait::No, transaction: None };
        let answer = finish(&client, client.ask(message, vec![everything.clone()]).unwrap()).unwrap();
        let phalanx_core::wire::space::FromSpace::Got { tuples, next, .. } = answer.message else { panic!() };
        assert!(answer.body.len() < 24 << 20, "a page is bounded whatever is asked for");
        (seen, after, pages) = (seen + tuples, next, pages + 1);
        if next.is_none() {
            break;
        }
    }
    assert!(seen == 5 && pages > 1, "{seen} tuples on {pages} pages");
}

#[test]
fn more_clients_than_allowed_are_refused_and_the_others_served() {
    let at = AtPath::start(ServerOptions { sessions: 3, ..ServerOptions::default() });
    let clients: Vec<_> = (0..3).map(|_| at.client("todo")).collect();
    assert!(at.try_client("todo", None).is_err());
    out(&clients[0], tuple("a", 1)).unwrap();
    clients[2].close();
    until("a free place", || at.try_client("todo", None).is_ok());
}

/// Opens any space, and then sends beats without pause until the client is gone. `read`: they have waited, and were read then.
fn flood(mut socket: Socket, own: &Member, read: &AtomicBool) {
    let mut timed = socket.until(Instant::now() + PATIENCE);
    let said = Preamble::read(&mut timed).unwrap();
    let shaken = offer(own.server().unwrap(), [LevelSet::from(Level::Private); 3], &said.bytes(), &mut timed).unwrap();
    let (link, mut reader) = Link::direct(socket, Some(shaken), 1 << 20).unwrap();
    let mut asked = None;
    while asked.is_none() {
        reader.receive(PATIENCE, &mut |frame| asked = decode(&frame.header).ok()).unwrap();
    }
    let Some(ToSpace::Open { request, .. }) = asked else { panic!("{asked:?}") };
    let (phalanx, members) = (VERSION.to_owned(), Vec::new());
    let opened = FromSpace::Opened {
        request,
        phalanx,
        created: true,
        secure: false,
        durable: false,
        most_body: 1 << 20,
        members,
        identity: 1,
    };
    link.queue(Mark::None, encode(&opened, 0), Vec::new());
    let (beats, mut waits) = (encode(&FromSpace::Beat, 0).repeat(1 << 14), false);
    while reader.receive(Duration::from_millis(1), &mut |_| ()).is_ok() {
        if link.waiting_bytes() < 4 << 20 {
            link.queue(Mark::None, beats.clone(), Vec::new());
            link.flush();
            continue;
        }
        let before = link.waiting_bytes();
        if link.finish(Duration::from_millis(300)).is_err() {
            break;
        }
        match link.waiting_bytes() == before {
            true => waits = true,
            false if waits => read.store(true, Ordering::Relaxed),
            false => {}
        }
    }
}

#[test]
fn a_server_that_never_pauses_keeps_no_revoked_link_alive() {
    let (at, folder) = (AtPort::start(all_private(), None), tempfile::tempdir().unwrap());
    let list = folder.path().join("list");
    let ada = at.member(Role::User, "ada").heeding(vec![list.clone()]);
    let text = at.authority.issue(Role::Executor, "ws7").unwrap();
    let ws7 = Member::parse(&text, Role::Executor).unwrap();
    let revoked = Revoked {
        when: "2026-01-02T03:04:05Z".to_owned(),
        role: Role::Executor,
        name: "ws7".to_owned(),
        fingerprint: fingerprint(&ws7.own().certificate),
        until: None,
    };
    let log = phalanx_node::log::Log::nowhere();
    let options = ServerOptions { policy: all_private(), ..ServerOptions::default() };
    let other = phalanx_node::space::Server::start(&"127.0.0.1:0".parse().unwrap(), Some(ws7), options, log).unwrap();
    let open = |address: String| reach(&address, Some(ada.clone()), all_private(), Some(Default::default())).unwrap();
    let to_revoked = open(format!("{}/todo", other.address()));
    let (listener, liar, read) =
        (Listener::bind("127.0.0.1:0").unwrap(), at.member(Role::Executor, "liar"), Arc::default());
    let address = listener.address().unwrap();
    let noted: Arc<AtomicBool> = Arc::clone(&read);
    let flooding = thread::spawn(move || flood(listener.accept().unwrap().0, &liar, &noted));
    let flooded = open(format!("{address}/todo"));
    until("a look at the idle client", || read.load(Ordering::Relaxed));
    std::fs::write(&list, at.authority.revoke(None, vec![revoked]).unwrap()).unwrap();
    until("the end of the revoked link", || {
        to_revoked.look();
        to_revoked.has_ended()
    });
    assert!(!flooded.has_ended());
    flooded.close();
    flooding.join().unwrap();
    other.close();
    at.server.close();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn hostile_frames_never_stop_a_server(
        frames in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..60), proptest::collection::vec(any::<u8>(), 0..60)), 0..6),
    ) {
        use std::sync::OnceLock;
        static AT: OnceLock<AtPath> = OnceLock::new();
        let at = AT.get_or_init(|| AtPath::start(ServerOptions::default()));
        let socket = connection(at);
        let (link, _reader) = Link::direct(socket, None, 1 << 20).unwrap();
        link.queue(Mark::None, encode(&ToSpace::Open { request: 1, name: "todo".into(), create: Some(Default::default()) }, 0), vec![]);
        for (header, body) in frames {
            let mut start = vec![0; 16];
            start[..4].copy_from_slice(&(header.len() as u32).to_le_bytes());
            start[8..].copy_from_slice(&(body.len() as u64).to_le_bytes());
            link.queue(Mark::None, [start, header].concat(), vec![body.into()]);
        }
        link.flush();
        let client = at.client("todo");
        prop_assert!(out(&client, tuple("alive", 1)).is_ok());
    }
}
