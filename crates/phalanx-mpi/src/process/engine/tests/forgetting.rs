//! What is left of requests and communicators that nobody uses any more.

use super::*;

#[test]
fn what_waits_in_a_communicator_that_is_gone_takes_no_room() {
    for make in ALL {
        let mut pair = make(2);
        let data = bytes(50_000, 1);
        let mut offered = Vec::new();
        for _ in 0..2 * WINDOW / 50_000 {
            offered.extend(pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard));
            settle(&mut pair);
        }
        pair[1].mark(4);
        pair[1].lose_source(4, 7);
        assert!(pair[1].forget(4));
        settle(&mut pair);
        let one = &pair[1];
        assert!(one.messages.is_empty() && one.marked.is_empty() && one.lost_sources.is_empty());
        assert!(one.unacknowledged.is_empty() && balances(&pair));
        let next = Envelope { context: 8, ..of(0, 3) };
        assert!(pair[0].send(1, next, borrowed(&data[..100]), Mode::Standard).is_none(), "there is room again");
    }
}

/// MPI_Comm_free does not end what was begun.
#[test]
fn a_receive_that_is_under_way_is_not_forgotten() {
    for make in ALL {
        let mut pair = make(2);
        let (data, mut got) = (bytes(EAGER + 1, 1), vec![0; EAGER + 1]);
        let receive = pair[1].receive(from(0, 3), room(&mut got));
        pair[1].mark(4);
        assert!(!pair[1].forget(4));
        assert!(pair[1].marked.contains(&4));
        let send = pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard).expect("it is only offered");
        assert!(!pair[0].forget(4));
        settle(&mut pair);
        assert!(pair.iter_mut().all(|engine| engine.forget(4)), "what is done is under way no longer");
        assert!(pair[1].marked.is_empty());
        assert!(pair[1].outcome(receive).is_some_and(|it| it.error.is_none()) && got == data);
        assert!(pair[0].outcome(send).is_some());
    }
}

/// Rank 0: MPI_Isend, MPI_Comm_free, MPI_Cancel, MPI_Wait.
#[test]
fn a_send_that_its_receiver_has_forgotten_can_be_taken_back() {
    for make in ALL {
        let mut pair = make(2);
        let data = bytes(EAGER + 1, 1);
        let send = pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard).expect("it is only offered");
        settle(&mut pair);
        assert!(pair[1].forget(4));
        (0..2).for_each(|_| pair[0].cancel(send));
        settle(&mut pair);
        assert!(pair[0].outcome(send).expect("nobody has it").cancelled && balances(&pair));
    }
}

/// The word that it cannot be taken back comes before its number is another one's.
#[test]
fn a_send_that_is_taken_back_too_late_is_done() {
    for make in ALL {
        let mut pair = make(2);
        let (data, mut got) = (bytes(EAGER + 1, 1), vec![0; EAGER + 1]);
        let send = pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard).expect("it is only offered");
        settle(&mut pair[..1]);
        while pair[1].probe(&from(0, 3)).is_none() {
            settle(&mut pair);
        }
        let receive = pair[1].receive(from(0, 3), room(&mut got));
        pair[0].cancel(send);
        settle(&mut pair);
        assert!(!pair[0].outcome(send).expect("it is done").cancelled);
        assert!(pair[1].outcome(receive).is_some() && got == data);
        assert!(pair.iter().all(|engine| engine.requests.is_empty() && engine.messages.is_empty()));
    }
}

/// MPI_Request_free of a receive from anybody, when somebody was lost: it gets its message all the same.
#[test]
fn an_interrupted_receive_that_nobody_asks_for_is_still_done() {
    for make in ALL {
        let mut three = make(3);
        let anybody = Pattern { context: 4, source: None, tag: None };
        let mut got = [0; 3];
        let receive = three[0].receive(anybody, room(&mut got));
        three[0].lose(2);
        three[0].lose_source(4, 2);
        three[0].detach(receive);
        three[0].acknowledge(4);
        three[1].send(0, of(1, 3), borrowed(&[5; 3]), Mode::Standard);
        settle(&mut three);
        assert_eq!(got, [5; 3]);
        assert!(three[0].requests.is_empty() && three[0].messages.is_empty());
    }
}
