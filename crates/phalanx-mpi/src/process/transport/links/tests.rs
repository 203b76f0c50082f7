//! Processes that meet, each a thread, over the loopback interface.

use super::*;
use phalanx_core::level::{Level, Levels};
use std::net::TcpListener;
use std::sync::atomic::AtomicUsize;

fn listening() -> Listening {
    Listening::open(Some(Ipv4Addr::LOCALHOST.into())).expect("a port")
}

fn entry(machine: u32, listening: &Listening) -> Entry {
    let levels = Levels::all(Level::Private);
    Entry { machine, listens: listening.listens().expect("an address"), levels }
}

fn nobody() -> Result<Vec<usize>, String> {
    Ok(Vec::new())
}

fn ranks(links: Result<Vec<(usize, Link)>, String>) -> Vec<usize> {
    let mut ranks: Vec<usize> = links.expect("all come").into_iter().map(|(rank, _)| rank).collect();
    ranks.sort_unstable();
    ranks
}

#[test]
fn all_meet() {
    let all: Vec<Listening> = (0..6).map(|_| listening()).collect();
    let table: Vec<Entry> = all.iter().zip([0, 0, 1, 2, 3, 3]).map(|(it, machine)| entry(machine, it)).collect();
    let table = &table;
    thread::scope(|scope| {
        let meet = |(me, it): (usize, Listening)| scope.spawn(move || ranks(it.connect(me, table, &mut nobody)));
        let all: Vec<_> = all.into_iter().enumerate().map(meet).collect();
        for (me, it) in all.into_iter().enumerate() {
            let others = (0..6).filter(|rank| table[*rank].machine != table[me].machine);
            assert_eq!(it.join().expect("no panic"), others.collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_caller_that_gave_up_when_it_was_welcomed_calls_again() {
    let [zero, one] = [listening(), listening()];
    let table = &[entry(0, &zero), entry(1, &one)];
    thread::scope(|scope| {
        let meeting = scope.spawn(move || zero.connect(0, table, &mut nobody));
        let Entry { listens, levels, .. } = &table[0];
        let (zero, rank) = (Expected::Holder(&one.own, &listens.certificate), Preamble::Rank { rank: 1 });
        let dialled = dial(&listens.address.into(), SHAKING).expect("it listens");
        let introduced = dialled.introduce_and_wait(rank, zero, *levels, SHAKING);
        let mut socket = introduced.expect("it is the rank that it says").socket;
        hear(WELCOME, &mut socket.until(Instant::now() + SHAKING)).expect("a welcome");
        drop(socket);
        let mut called = one.connect(1, table, &mut nobody).expect("it hears this one again");
        let mut heard = meeting.join().expect("no panic").expect("a link");
        let (mut from, mut to) = (called.remove(0).1, heard.remove(0).1);
        let header = crate::process::transport::Header::default();
        assert_eq!(from.push(&header, &[], None, false), Some(0));
        let deadline = Instant::now() + PATIENCE;
        while to.read(None).expect("both have the same connection") == crate::process::transport::Arrived::Nothing {
            assert!(Instant::now() < deadline);
            to.begin_round();
        }
    });
}

#[test]
fn who_is_lost_while_it_is_called_keeps_nobody() {
    let (silent, me) = (TcpListener::bind("127.0.0.1:0").expect("a port"), listening());
    let mut lost = entry(0, &listening());
    lost.listens.address = silent.local_addr().expect("bound");
    let table = [lost, entry(1, &me)];
    let rounds = AtomicUsize::new(0);
    let mut says = || match rounds.fetch_add(1, Ordering::Relaxed) {
        0..5 => Ok(Vec::new()), // it is being called meanwhile
        _ => Ok(vec![0]),
    };
    let began = Instant::now();
    assert_eq!(ranks(me.connect(1, &table, &mut says)), []);
    assert!(began.elapsed() < SHAKING, "it was waited for");
}

#[test]
fn who_has_said_nothing_goes_first_and_who_has_proved_its_rank_stays() {
    let stranger = |came| {
        let (socket, _) = Socket::pair().expect("two ends");
        Stranger { number: 0, socket, came }
    };
    let place = |came: &[Came]| least_welcome(&came.iter().copied().map(stranger).collect::<Vec<_>>());
    assert_eq!(place(&[Came::Proved, Came::SaidRank, Came::Connected, Came::Connected]), Some(2));
    assert_eq!(place(&[Came::Proved, Came::SaidRank, Came::SaidRank]), Some(1));
    assert_eq!(place(&[Came::Proved]), None);
}
