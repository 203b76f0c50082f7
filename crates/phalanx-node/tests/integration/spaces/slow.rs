//! Clients that flood, and clients that do not read, cost others nothing.

use super::common::*;
use bytes::Bytes;
use phalanx_core::level::{Mark, Policy};
use phalanx_core::space::{Get, Options, OutOptions, Tuple, Value};
use phalanx_core::wire::space::{FromSpace, ToSpace, Wait};
use phalanx_core::wire::{VERSION, decode, encode};
use phalanx_net::dial::dial;
use phalanx_net::frames::Frame;
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use phalanx_net::socket::Listener;
use phalanx_node::space::{Client, ClientError, Connect, Place, ServerOptions, SpaceAddress};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn who_floods_does_not_starve_others() {
    let at = AtPath::start(ServerOptions::default());
    let (flooding, other) = (at.client("todo"), at.client("todo"));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let message =
                |request| ToSpace::Out { request, tuples: 1, options: OutOptions::default(), transaction: None };
            while !stop.load(Ordering::Relaxed) {
                let asked: Vec<_> = (0..100).map(|_| flooding.ask(message, vec![tuple("flood", 1)]).unwrap()).collect();
                asked.into_iter().for_each(|request| drop(finish(&flooding, request).unwrap()));
            }
        });
        until("a flood", || count(&other, some("flood")) > 1000);
        for number in 0..200 {
            out(&other, tuple("a", number)).unwrap();
            assert_eq!(get(&other, some("a"), true).unwrap(), Some(tuple("a", number)));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A link to the space `todo` that nobody reads.
fn deaf(at: &AtPath) -> Arc<Link> {
    let mut socket = dial(&at.socket().as_path().into(), PATIENCE).unwrap().socket;
    Preamble::Space { shakes: false }.write(&mut socket).unwrap();
    let (link, reader) = Link::direct(socket, None, 1 << 20).unwrap();
    std::mem::forget(reader);
    let open = ToSpace::Open { request: 1, name: "todo".into(), create: None };
    link.queue(Mark::None, encode(&open, 0), vec![]);
    link.flush();
    link
}

fn say(link: &Link, message: &ToSpace, body: Bytes) {
    link.queue(Mark::None, encode(message, body.len() as u64), vec![body]);
    link.flush();
}

fn large(number: i64) -> Bytes {
    Tuple::of(&[Value::Str("large".into()), Value::Int(number), Value::Bytes(vec![7; 1 << 20])]).into_bytes()
}

/// A client that waits so long for first answers, and what reads at the server, which has opened its space.
fn opened(patience: Duration) -> (Arc<Client>, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::Path(folder.path().join("server"));
    let listener = Listener::bind_path(&folder.path().join("server")).unwrap();
    thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            let (mut socket, _) = listener.accept().unwrap();
            Preamble::read(&mut socket).unwrap();
            let (link, mut reader) = Link::direct(socket, None, 1 << 30).unwrap();
            let mut opened = false;
            while !opened {
                reader.receive(PATIENCE, &mut |_| opened = true).unwrap();
            }
            let (secure, created, durable) = (false, false, false);
            let opened = FromSpace::Opened {
                request: 1,
                phalanx: VERSION.to_owned(),
                secure,
                created,
                durable,
                most_body: 1 << 30,
                members: Vec::new(),
                identity: 7,
            };
            link.queue(Mark::None, encode(&opened, 0), vec![]);
            link.flush();
            reader
        });
        let (policy, dialler, create, members) = (Policy::default(), None, None, Vec::new());
        let connect = Connect { policy, dialler, create, members, patience };
        let client = Client::connect(SpaceAddress { place, name: "todo".into() }, &connect).unwrap();
        (client, accepted.join().unwrap())
    })
}

#[test]
fn a_server_that_is_frozen_is_not_waited_for_for_ever() {
    let (client, _reader) = opened(Duration::from_millis(500));
    let message = |request| ToSpace::Out { request, tuples: 1, options: OutOptions::default(), transaction: None };
    let request = client.ask(message, vec![tuple("a", 1)]).unwrap();
    client.look_after();
    let answer = client.wait(request, PATIENCE).unwrap().map(drop);
    assert!(matches!(&answer, Err(ClientError::Ended { why, .. }) if why.contains("it is frozen")), "{answer:?}");
}

#[test]
fn a_member_that_is_silent_does_not_delay_the_others() {
    let at = AtPath::start(ServerOptions::default());
    let folder = tempfile::tempdir().unwrap();
    let silent = Place::Path(folder.path().join("silent"));
    let listener = Listener::bind_path(&folder.path().join("silent")).unwrap();
    let (policy, dialler, create) = (Policy::default(), None, Some(Options::default()));
    let members = vec![silent.clone(), Place::Path(at.socket())];
    let connect = Connect { policy, dialler, create, members, patience: PATIENCE };
    let client = Client::connect(SpaceAddress { place: silent, name: "todo".into() }, &connect).unwrap();
    out(&client, tuple("a", 1)).unwrap();
    // It was asked, and has still all the time that it may take.
    let (mut socket, _) = listener.accept().unwrap();
    Preamble::read(&mut socket).unwrap();
    let (_link, mut reader) = Link::direct(socket, None, 1 << 20).unwrap();
    let mut asked = false;
    until("the question", || {
        reader.receive(Duration::from_millis(1), &mut |_| asked = true).unwrap();
        asked
    });
    reader.receive(Duration::from_millis(1), &mut |_| {}).expect("a connection that is still open");
}

#[test]
fn what_was_told_has_left_only_when_all_before_it_has() {
    let (client, mut reader) = opened(PATIENCE);
    let first = client.tell(&ToSpace::Ack { request: 1 });
    assert!(client.has_left(first, PATIENCE));
    let message = |request| ToSpace::Out { request, tuples: 1, options: OutOptions::default(), transaction: None };
    client.ask(message, vec![large(1), large(2), large(3)]).unwrap();
    let told = client.tell(&ToSpace::Ack { request: 2 });
    assert!(!client.has_left(told, Duration::from_millis(20)), "the socket is full of what is before it");
    let mut acknowledged = false;
    until("the ack", || {
        let _ = client.has_left(told, Duration::from_millis(1));
        let is_ack = |frame: Frame| matches!(decode(&frame.header), Ok(ToSpace::Ack { request: 2 }));
        reader.receive(Duration::from_millis(1), &mut |frame| acknowledged |= is_ack(frame)).unwrap();
        acknowledged
    });
    assert!(client.has_left(told, PATIENCE));
}

/// Resident bytes of this process.
fn memory() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
#[cfg(target_os = "linux")]
fn who_asks_and_does_not_read_is_not_listened_to() {
    let at = AtPath::start(ServerOptions::default());
    let other = at.client("todo");
    out(&other, large(1)).unwrap();
    let deaf = deaf(&at);
    let before = memory();
    let get = Get::default();
    let template = template(vec![phalanx_core::space::Pattern::Any; 3]);
    for request in 2..2000 {
        let ask = ToSpace::Get { request, get: get.clone(), wait: Wait::No, transaction: None };
        say(&deaf, &ask, template.clone());
    }
    // What it asked for is two gigabytes; other tests need memory meanwhile.
    for number in 0..200 {
        out(&other, tuple("a", number)).unwrap();
        assert_eq!(get_back(&other), number);
    }
    assert!(memory().saturating_sub(before) < 500 << 20, "{} more", memory() - before);
    deaf.close();
}

fn get_back(client: &phalanx_node::space::Client) -> i64 {
    let body = get(client, some("a"), true).unwrap().unwrap();
    let Value::Int(number) = Tuple::check(body, &Default::default()).unwrap().values()[1].clone() else { panic!() };
    number
}

#[test]
#[cfg(target_os = "linux")]
fn who_watches_and_does_not_read_is_told_that_it_is_behind() {
    let at = AtPath::start(ServerOptions::default());
    let other = at.client("todo");
    let deaf = deaf(&at);
    say(&deaf, &ToSpace::Watch { request: 2, since: None }, template(vec![phalanx_core::space::Pattern::Any; 3]));
    until("the watch", || info(&other).watches == 1);
    let before = memory();
    for number in 0..300 {
        out(&other, large(number)).unwrap();
        let large = template(vec![phalanx_core::space::Pattern::Any; 3]);
        get(&other, large, true).unwrap().unwrap();
    }
    assert!(memory().saturating_sub(before) < 220 << 20, "{} more", memory() - before);
    until("the watch's end", || info(&other).watches == 0);
    deaf.close();
}
