//! What one user may have of a server: who takes more than that costs others nothing, and is told so.

use super::common::*;
use phalanx_core::error::SpaceError;
use phalanx_core::ids::TransactionId;
use phalanx_core::level::{Conflict, Mark};
use phalanx_core::space::{Isolation, Options, OutOptions, Pattern, Replica, Seat};
use phalanx_core::wire::space::{FromSpace, ToSpace, Wait};
use phalanx_core::wire::{decode, encode};
use phalanx_net::dial::dial;
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Authority, Role};
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use phalanx_net::tls::choose;
use phalanx_node::space::{Access, Caps, Client, Directory, Place, ServerOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn start(options: ServerOptions) -> AtPort {
    AtPort::start_with(Authority::create().unwrap(), options)
}

fn full<T: std::fmt::Debug>(outcome: Result<T, phalanx_node::space::ClientError>) -> (String, u64) {
    match space_error(outcome) {
        SpaceError::Full { what, most } => (what, most),
        other => panic!("{other}"),
    }
}

#[test]
fn one_user_has_a_share_of_the_clients_and_is_told_so() {
    let at = start(ServerOptions { sessions: 8, ..ServerOptions::default() });
    let open = |name: &str| at.user(name, all_private(), "todo");
    let adas: Vec<_> = (0..2).map(|_| open("ada").unwrap()).collect();
    assert_eq!(full(open("ada").map(drop)), ("clients of one user at this server".into(), 2));
    out(&open("bob").unwrap(), tuple("a", 1)).unwrap();
    adas[0].close();
    until("a free place", || open("ada").is_ok());
}

#[test]
fn one_user_makes_a_share_of_the_spaces() {
    let at = start(ServerOptions { caps: Caps { spaces: 8, ..Caps::default() }, ..ServerOptions::default() });
    let open = |name: &str, space: &str| at.user(name, all_private(), space).map(drop);
    open("ada", "one").unwrap();
    open("ada", "two").unwrap();
    assert_eq!(full(open("ada", "three")), ("spaces made by one user".into(), 2));
    open("bob", "three").unwrap();
    open("ada", "three").unwrap(); // it is there
}

fn begin(client: &Client, number: u128) -> Result<(), phalanx_node::space::ClientError> {
    let (transaction, timeout) = (TransactionId(number), Duration::from_secs(600));
    let isolation = Isolation::ReadCommitted;
    let asked = client.ask(|request| ToSpace::Begin { request, transaction, timeout, isolation }, vec![])?;
    finish(client, asked).map(drop)
}

#[test]
fn one_user_has_a_share_of_transactions_and_waiting_requests_in_all_sessions_together() {
    let at = start(ServerOptions::default());
    let small = || Some(Options { most_transactions: 16, most_waiters: 16, ..Options::default() });
    let open = |name: &str| at.user_with(name, all_private(), "todo", small()).unwrap();
    let (first, second, third, bob) = (open("ada"), open("ada"), open("ada"), open("bob"));
    for (client, number) in [(&first, 1), (&first, 2), (&second, 3), (&second, 4)] {
        begin(client, number).unwrap();
    }
    assert_eq!(full(begin(&third, 5)), ("transactions of one user".into(), 4));
    begin(&bob, 6).unwrap();
    let waits = |client: &Arc<Client>| ask(client, some("never"), true, Wait::Forever).unwrap();
    let waiting: Vec<_> = [&first, &first, &second, &second].map(waits).into();
    until("four waiters", || info(&bob).takers == 4);
    assert_eq!(full(finish(&third, waits(&third))), ("waiters of one user".into(), 4));
    waits(&bob);
    until("one more", || info(&third).takers == 5);
    assert_eq!(space_error(first.cancel(waiting[0])), SpaceError::Cancelled);
    second.close();
    until("the end of its requests", || info(&bob).takers == 2 && info(&bob).transactions == 3);
    // What has ended has given its place back.
    begin(&third, 7).unwrap();
    begin(&third, 8).unwrap();
    assert_eq!(full(begin(&open("ada"), 9)), ("transactions of one user".into(), 4));
    for _ in 0..3 {
        waits(&third);
    }
    until("those too", || info(&bob).takers == 5);
}

/// A user's link to the space `todo` on which anything can be said.
fn raw(at: &AtPort, name: &str) -> (Arc<Link>, Reader) {
    let Place::Network(address) = at.server.address() else { panic!("listens at a port") };
    let mut socket = dial(&address.into(), PATIENCE).unwrap().socket;
    let connection = at.member(Role::User, name).client_of(Role::Executor).unwrap().connect().unwrap();
    let policy = all_private();
    let decide = |theirs| {
        let agreed = policy.agree(&policy.place(None, "executor"), theirs);
        agreed.map(|agreed| agreed.levels).map_err(|conflict: Conflict| conflict.to_string())
    };
    let mut timed = socket.until(Instant::now() + PATIENCE);
    let preamble = Preamble::Space { shakes: true };
    preamble.write(&mut timed).unwrap();
    let shaken = choose(connection, decide, &preamble.bound(), &mut timed).unwrap();
    Link::direct(socket, Some(shaken), 1 << 20).unwrap()
}

/// A link on which the server has seen the beginning of a message of so many bytes, and no more will come.
fn unfinished((link, mut reader): (Arc<Link>, Reader), bytes: u64) -> (Arc<Link>, Reader) {
    let open = ToSpace::Open { request: 1, name: "todo".into(), create: Some(Options::default()) };
    link.queue(Mark::None, encode(&open, 0), vec![]);
    hear(&link, &mut reader);
    // The answer comes when all was read that came with the question.
    link.queue(Mark::None, [encode(&ToSpace::Info { request: 2 }, 0), beginning(bytes)].concat(), vec![]);
    hear(&link, &mut reader);
    (link, reader)
}

/// Waits for one answer.
fn hear(link: &Link, reader: &mut Reader) -> FromSpace {
    link.flush();
    let mut heard = None;
    until("an answer", || {
        let on_frame = &mut |frame: Frame| heard = Some(decode(&frame.header).unwrap());
        reader.receive(Duration::from_millis(50), on_frame).unwrap();
        heard.is_some()
    });
    heard.unwrap()
}

/// Of an `out` of so many bytes, one.
fn beginning(bytes: u64) -> Vec<u8> {
    let put = ToSpace::Out { request: 3, tuples: 1, options: OutOptions::default(), transaction: None };
    [encode(&put, bytes), vec![2]].concat()
}

/// Small, since other tests measure memory meanwhile, and more than what needs no room.
const UNIT: u64 = 128 << 10;

fn put_large(client: &Client, units: u64) -> u64 {
    let put = |request| ToSpace::Out { request, tuples: 1, options: OutOptions::default(), transaction: None };
    client.ask(put, vec![tuple(&"x".repeat((units * UNIT) as usize), 1)]).unwrap()
}

#[test]
fn who_floods_with_unfinished_messages_slows_down_nobody_else() {
    let at = start(ServerOptions { unfinished: 16 * UNIT, ..ServerOptions::default() });
    let hold: Vec<_> = (0..8).map(|_| unfinished(raw(&at, "mallory"), 3 * UNIT)).collect();
    let bob = at.user("bob", all_private(), "todo").unwrap();
    for _ in 0..3 {
        let large = put_large(&bob, 12);
        finish(&bob, large).unwrap();
    }
    // Of mallory's, small messages only.
    let own = at.user("mallory", all_private(), "todo").unwrap();
    out(&own, tuple("a", 1)).unwrap();
    let late = put_large(&own, 3);
    let (what, most) = full(finish(&own, late));
    assert!(what.contains("one user's unfinished messages") && most == 4 * UNIT, "{what}");
    // What was refused has been thrown away, and the connection goes on behind it.
    out(&own, tuple("a", 2)).unwrap();
    drop(hold);
    until("room again", || finish(&own, put_large(&own, 3)).is_ok());
}

#[test]
fn unfinished_messages_of_all_are_bounded_and_who_waits_goes_on_when_there_is_room() {
    let at = AtPath::start(ServerOptions { unfinished: 4 * UNIT, ..ServerOptions::default() });
    let (client, other) = (at.client("todo"), at.client("todo"));
    let mut socket = dial(&at.socket().as_path().into(), PATIENCE).unwrap().socket;
    Preamble::Space { shakes: false }.write(&mut socket).unwrap();
    let holding = unfinished(Link::direct(socket, None, 1 << 20).unwrap(), 3 * UNIT);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| finish(&client, put_large(&client, 2)));
        for number in 0..50 {
            out(&other, tuple("a", number)).unwrap();
            assert_eq!(get(&other, some("a"), true).unwrap(), Some(tuple("a", number)));
        }
        let everything = template(vec![Pattern::Any, Pattern::Any]);
        assert_eq!(count(&other, everything.clone()), 0, "there is no room for the large one");
        holding.0.close();
        let answer = waiting.join().unwrap().unwrap();
        assert!(matches!(answer.message, FromSpace::Done { .. }));
        assert_eq!(count(&other, everything), 1);
    });
}

#[test]
fn a_message_longer_than_a_share_comes_alone() {
    let at = start(ServerOptions { unfinished: UNIT, ..ServerOptions::default() });
    let ada = at.user("ada", all_private(), "todo").unwrap();
    let large = put_large(&ada, 5);
    finish(&ada, large).unwrap();
}

/// Asks a server to be a member of a space that others keep, and of which its owner has never heard.
fn join(at: &AtPort, user: &str, name: &str, options: Options) -> Result<(), SpaceError> {
    let (link, mut reader) = raw(at, user);
    let replica = |name: &str, port| Replica { name: name.into(), address: format!("127.0.0.1:{port}") };
    let replicas = vec![replica("labpc", 1), replica("one", 2), replica("two", 3)];
    let seat = Seat { number: 1 << 32, group: format!("{name} of them"), options: Options { replicas, ..options } };
    let join = ToSpace::Join { request: 1, name: name.into(), seat: Box::new(seat) };
    link.queue(Mark::None, encode(&join, 0), vec![]);
    match hear(&link, &mut reader) {
        FromSpace::Done { .. } => Ok(()),
        FromSpace::Failed { error, .. } => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_has_a_server_join_a_space_makes_a_space_there_of_their_own_share() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "[[group]]\nname = \"lab\"\nmembers = [\"bob\"]\n[[rule]]\nmay = [\"rd\"]\n\
        [[rule]]\nuser = [\"ada\", \"bob\"]\nmay = [\"create\"]";
    let at = start(ServerOptions {
        access: Some(Access::parse(rules).unwrap()),
        caps: Caps { spaces: 8, ..Caps::default() },
        directory: Some(Directory::new(folder.path().to_owned())),
        ..ServerOptions::default()
    });
    let labs = || Options { group: Some("lab".into()), ..Options::default() };
    let forged = || Options { maker: Some("bob".into()), ..Options::default() };
    let forbidden = |joined| matches!(joined, Err(SpaceError::Forbidden(_)));
    assert!(forbidden(join(&at, "mallory", "one", Options::default())));
    assert!(forbidden(join(&at, "ada", "one", labs())));
    join(&at, "ada", "one", forged()).unwrap();
    join(&at, "ada", "two", forged()).unwrap();
    let most = SpaceError::Full { what: "spaces made by one user".into(), most: 2 };
    assert_eq!(join(&at, "ada", "three", forged()), Err(most));
    join(&at, "bob", "three", labs()).unwrap();
}

/// Puts tuples of [`UNIT`] until there is no room. Returns how many, and what there was too little of.
fn fill(client: &Client) -> (u64, String) {
    for count in 0.. {
        let large = put_large(client, 1);
        if let Err(error) = finish(client, large) {
            return (count, full::<()>(Err(error)).0);
        }
    }
    unreachable!("there is a limit")
}

#[test]
fn the_spaces_of_one_user_leave_memory_for_those_of_others() {
    let caps = Caps { bytes: 16 * UNIT, ..Caps::default() };
    let at = start(ServerOptions { caps, ..ServerOptions::default() });
    let open = |name: &str, space: &str| at.user(name, all_private(), space).unwrap();
    let (one, two) = (open("ada", "one"), open("ada", "two"));
    let (first, what) = fill(&one);
    assert!((9..=12).contains(&first), "three quarters of 16: {first}");
    assert_eq!(what, "bytes of one user's spaces at this server");
    assert_eq!(fill(&two).0, 0, "another space of the same user gets no more");
    let his = fill(&open("bob", "his")).0;
    assert!((1..=3).contains(&his), "a part of what is left: {his}");
    for _ in 0..3 {
        let any = template(vec![Pattern::Any, Pattern::Any]);
        assert!(get(&one, any, true).unwrap().is_some());
    }
    until("what the other space gave back", || finish(&two, put_large(&two, 1)).is_ok());
}
