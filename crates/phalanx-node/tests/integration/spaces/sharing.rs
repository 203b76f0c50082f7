//! Processes that share a space, and what becomes of it when one is gone.

use super::common::*;
use phalanx_core::error::SpaceError;
use phalanx_core::space::{Get, Options};
use phalanx_core::wire::space::{FromSpace, ToSpace, Wait};
use phalanx_node::space::{ClientError, ServerOptions};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

#[test]
fn what_one_puts_another_reads_and_takes_once() {
    let at = AtPath::start(ServerOptions::default());
    let (one, other) = (at.client("todo"), at.client("todo"));
    assert!(one.created() && !other.created());
    out(&one, tuple("a", 1)).unwrap();
    assert_eq!(get(&other, some("a"), false).unwrap(), Some(tuple("a", 1)));
    assert_eq!(get(&other, some("a"), true).unwrap(), Some(tuple("a", 1)));
    assert_eq!(get(&one, some("a"), true).unwrap(), None);
    assert_eq!(count(&at.client("another"), some("a")), 0);
}

#[test]
fn who_waits_is_woken_by_who_puts() {
    let at = AtPath::start(ServerOptions::default());
    let (one, other) = (at.client("todo"), at.client("todo"));
    let request = ask(&one, some("a"), true, Wait::Forever).unwrap();
    until("a taker", || info(&other).takers == 1);
    assert!(one.wait(request, Duration::from_millis(1)).is_none());
    out(&other, tuple("a", 7)).unwrap();
    assert_eq!(finish(&one, request).unwrap().body, tuple("a", 7));
    assert_eq!(
        space_error(finish(&one, ask(&one, some("a"), true, Wait::For(Duration::ZERO)).unwrap())),
        SpaceError::TimedOut
    );
}

#[test]
fn threads_share_a_connection_and_each_gets_its_own_answers() {
    let at = AtPath::start(ServerOptions::default());
    let client = at.client("todo");
    thread::scope(|scope| {
        for number in 0..8 {
            let client = &client;
            scope.spawn(move || {
                for round in 0..200 {
                    let name = format!("{number}.{round}");
                    let waiting = ask(client, some(&name), true, Wait::Forever).unwrap();
                    out(client, tuple(&name, round)).unwrap();
                    assert_eq!(finish(client, waiting).unwrap().body, tuple(&name, round));
                    client.tell(&ToSpace::Ack { request: waiting });
                }
            });
        }
    });
    until("acknowledgements", || info(&client).unacknowledged == 0);
    assert_eq!(info(&client).tuples, 0);
}

#[test]
fn what_a_taker_that_is_gone_did_not_acknowledge_is_there_again() {
    let at = AtPath::start(ServerOptions::default());
    let (one, other) = (at.client("todo"), at.client("todo"));
    out(&other, tuple("a", 1)).unwrap();
    out(&other, tuple("a", 2)).unwrap();
    let kept = ask(&one, some("a"), true, Wait::No).unwrap();
    finish(&one, kept).unwrap();
    one.tell(&ToSpace::Ack { request: kept });
    finish(&one, ask(&one, some("a"), true, Wait::No).unwrap()).unwrap();
    let waiting = ask(&one, some("b"), true, Wait::Forever).unwrap();
    until("all that", || {
        let info = info(&other);
        (info.unacknowledged, info.takers) == (1, 1)
    });
    one.close();
    assert!(matches!(finish(&one, waiting), Err(ClientError::Ended { .. })));
    until("the tuple", || count(&other, some("a")) == 1);
    until("no taker", || info(&other).takers == 0);
    out(&other, tuple("b", 1)).unwrap();
    assert_eq!(count(&other, some("b")), 1, "it goes to nobody who is gone");
}

#[test]
fn what_is_given_back_or_cancelled_is_not_taken() {
    let at = AtPath::start(ServerOptions::default());
    let (one, other) = (at.client("todo"), at.client("todo"));
    out(&other, tuple("a", 1)).unwrap();
    let request = ask(&one, some("a"), true, Wait::No).unwrap();
    finish(&one, request).unwrap();
    assert_eq!(count(&other, some("a")), 0);
    one.tell(&ToSpace::GiveBack { request });
    until("the tuple", || count(&other, some("a")) == 1);

    let waiting = ask(&one, some("b"), true, Wait::Forever).unwrap();
    assert_eq!(space_error(one.cancel(waiting)), SpaceError::Cancelled);
    assert_eq!(info(&other).takers, 0);

    let abandoned = ask(&one, some("c"), true, Wait::Forever).unwrap();
    one.abandon(abandoned);
    out(&other, tuple("c", 1)).unwrap();
    until("the tuple", || count(&other, some("c")) == 1 && info(&other).unacknowledged == 0);
}

#[test]
fn requests_without_a_thread_call_back_once() {
    let at = AtPath::start(ServerOptions::default());
    let (one, other) = (at.client("todo"), at.client("todo"));
    let (sender, answers) = mpsc::channel();
    let begin = |name: &str| {
        let sender = sender.clone();
        let get = Get { take: true, ..Get::default() };
        let message = move |request| ToSpace::Get { request, get, wait: Wait::Forever, transaction: None };
        one.start(message, vec![some(name)], None, Box::new(move |answer| drop(sender.send(answer)))).unwrap()
    };
    let (first, second) = (begin("a"), begin("b"));
    out(&other, tuple("a", 1)).unwrap();
    assert_eq!(answers.recv_timeout(PATIENCE).unwrap().unwrap().body, tuple("a", 1));
    assert!(one.cancel_begun(second), "it waits");
    assert!(!one.cancel_begun(first), "it was answered");
    let third = begin("c");
    until("the taker", || info(&other).takers == 1);
    one.close();
    assert!(answers.recv_timeout(PATIENCE).unwrap().is_err());
    assert!(!one.cancel_begun(third));
    assert!(answers.try_recv().is_err());
}

#[test]
fn events_come_in_order_and_again_after_a_break() {
    let at = AtPath::start(ServerOptions::default());
    let (one, other) = (at.client("todo"), at.client("todo"));
    let nudged = Arc::new(Mutex::new(0));
    let nudge = nudged.clone();
    let watch = |since, nudge| one.watch(|request| ToSpace::Watch { request, since }, vec![some("a")], nudge).unwrap();
    let first = watch(None, Some(Arc::new(move || *nudge.lock().unwrap() += 1) as _));
    let FromSpace::Watching { last: start, missed: 0, .. } = finish(&one, first).unwrap().message else { panic!() };
    (0..100).for_each(|number| out(&other, tuple("a", number)).unwrap());
    until("a nudge", || *nudged.lock().unwrap() > 0);
    let mut events = Vec::new();
    until("all events", || {
        events.extend(one.events(first, Duration::from_millis(10)).transpose().unwrap().unwrap_or_default());
        events.len() == 100
    });
    let expected: Vec<_> = (0..100).map(|number| (start + 1 + number as u64, tuple("a", number))).collect();
    assert_eq!(events, expected);
    one.forget(first);
    assert!(one.events(first, Duration::ZERO).unwrap().is_err());
    let again = watch(Some(events[90].0), None);
    finish(&one, again).unwrap();
    let mut events = Vec::new();
    until("the rest", || {
        events.extend(one.events(again, Duration::from_millis(10)).transpose().unwrap().unwrap_or_default());
        events.len() == 9
    });
    assert_eq!(events, expected[91..]);
}

#[test]
fn a_space_is_made_as_its_server_allows() {
    let mut options = ServerOptions::default();
    options.caps.spaces = 2;
    options.caps.options.most_tuples = 3;
    let at = AtPath::start(options);
    assert!(matches!(at.try_client("todo", None), Err(ClientError::Space(SpaceError::NoSpace(_)))));
    let client = at.client("todo");
    assert!(!at.try_client("todo", None).unwrap().created());
    assert_eq!(info(&client).options.most_tuples, 3);
    (0..3).for_each(|number| out(&client, tuple("a", number)).unwrap());
    assert_eq!(space_error(out(&client, tuple("a", 3))), SpaceError::Full { what: "tuples".into(), most: 3 });
    at.client("second");
    let full = at.try_client("third", Some(Options::default())).err().unwrap();
    assert_eq!(full.to_string(), "the space is full: its limit is 2 spaces");

    let at = AtPath::start(ServerOptions { creates: false, ..ServerOptions::default() });
    let refused = at.try_client("todo", Some(Options::default())).err().unwrap();
    assert!(refused.to_string().contains("there is none of this name"), "{refused}");
}

#[test]
fn a_server_that_ends_says_so_to_who_waits() {
    let at = AtPath::start(ServerOptions::default());
    let client = at.client("todo");
    let waiting = ask(&client, some("a"), true, Wait::Forever).unwrap();
    at.server.close();
    let error = finish(&client, waiting).unwrap_err().to_string();
    assert!(error.contains("the connection to the space") && error.contains("ended"), "{error}");
    assert!(matches!(out(&client, tuple("a", 1)), Err(ClientError::Ended { .. })), "nobody connects again by himself");
    let gone = at.try_client("todo", None).err().unwrap().to_string();
    assert!(gone.contains("no server of spaces listens there") || gone.contains("refused"), "{gone}");
}

#[test]
fn an_answer_that_is_too_long_is_refused_and_its_tuple_stays() {
    let at = AtPath::start(ServerOptions::default());
    let (one, other) = (at.client("todo"), at.client("todo"));
    one.refuse_longer(1000);
    let name = "x".repeat(2000);
    let watch = one.watch(|request| ToSpace::Watch { request, since: None }, vec![some(&name)], None).unwrap();
    finish(&one, watch).unwrap();
    let waiting = ask(&one, some(&name), true, Wait::Forever).unwrap();
    until("a taker", || info(&other).takers == 1);
    out(&other, tuple(&name, 1)).unwrap();
    out(&other, tuple("short", 1)).unwrap();
    let is_refused = |request| {
        let refused = finish(&one, request);
        assert!(matches!(refused, Err(ClientError::TooLong { bytes: 2000.., most: 1000 })), "{refused:?}");
        until("the tuple", || count(&other, some(&name)) == 1);
    };
    is_refused(waiting);
    is_refused(ask(&one, some(&name), true, Wait::No).unwrap());
    is_refused(ask(&one, some(&name), false, Wait::No).unwrap());
    assert_eq!(get(&one, some("short"), true).unwrap(), Some(tuple("short", 1)), "the connection goes on");
    let events = one.events(watch, PATIENCE).unwrap().unwrap();
    assert!(events.iter().map(|(_, bytes)| bytes.len()).all(|length| length == 0) && !events.is_empty(), "{events:?}");
    until("no taken tuple", || info(&other).unacknowledged == 0);
    one.refuse_longer(u64::MAX);
    assert_eq!(get(&one, some(&name), true).unwrap(), Some(tuple(&name, 1)));
}
