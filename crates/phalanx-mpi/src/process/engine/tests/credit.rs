//! Conversations of engines that have no room for more messages.

use super::*;
use crate::process::engine::credit::MESSAGE;

/// Beyond what one process may have waiting in the memory of another.
const MANY: usize = MOST / MESSAGE + 1000;

/// The same numbered messages again and again, in a context of a program's own messages; those that are not done yet.
fn send_all(engine: &mut Engine, to: u32, envelope: Envelope, count: usize) -> Vec<usize> {
    let data = |number: usize| Outgoing::Owned((number as u32).to_le_bytes().to_vec());
    (0..count).filter_map(|number| engine.send(to, envelope, data(number), Mode::Standard)).collect()
}

/// Receives them, in their order.
fn receive_all(pair: &mut [Engine], to: usize, envelope: Envelope, count: usize) {
    let Envelope { context, source, tag } = envelope;
    let pattern = Pattern { context, source: Some(source), tag: Some(tag) };
    for number in 0..count {
        let mut got = [0; 4];
        let receive = pair[to].receive(pattern, room(&mut got));
        while pair[to].peek(receive).is_none() {
            assert!(pair.iter_mut().any(Engine::progress), "message {number} does not come");
        }
        assert_eq!(pair[to].outcome(receive).expect("it is done").error, None);
        assert_eq!(u32::from_le_bytes(got), number as u32);
    }
}

fn done(engine: &mut Engine, sends: Vec<usize>) -> bool {
    sends.into_iter().all(|send| engine.outcome(send).is_some_and(|it| it.error.is_none()))
}

fn held_back(engine: &Engine, peer: usize) -> usize {
    engine.peers[peer].held_back.iter().map(VecDeque::len).sum()
}

#[test]
fn both_may_send_more_than_there_is_room_for_at_once() {
    for make in ALL {
        let mut pair = make(2);
        let count = 2 * WINDOW / (20_000 + MESSAGE);
        let data = bytes(20_000, 1);
        let mut sends = [Vec::new(), Vec::new()];
        for _ in 0..count {
            for me in 0..2 {
                let envelope = Envelope { source: me as i32, ..of(0, 3) };
                sends[me].extend(pair[me].send(1 - me as u32, envelope, borrowed(&data), Mode::Standard));
            }
            settle(&mut pair);
        }
        assert!(sends.iter().all(|sends| sends.len() > count / 3), "there was room for all of it");
        let mut got = vec![0; data.len()];
        for me in (0..count).flat_map(|_| [0, 1]) {
            let receive = pair[me].receive(from(1 - me as i32, 3), room(&mut got));
            settle(&mut pair);
            assert_eq!(pair[me].outcome(receive).expect("it came").error, None);
            assert_eq!(got, data);
        }
        for (me, sends) in sends.into_iter().enumerate() {
            assert!(done(&mut pair[me], sends));
        }
        assert!(balances(&pair));
    }
}

/// Even the offers stay with their sender; an operation of all behind them goes on, and nothing overtakes.
#[test]
fn offers_stay_with_their_sender_too_and_operations_of_all_go_on() {
    for make in [engines as Make, clear] {
        let mut pair = make(2);
        let internal = Envelope { context: 4 | 1, ..of(0, 9) };
        let mut sends = Vec::new();
        for _ in 0..MANY / 1000 {
            sends.extend(send_all(&mut pair[0], 1, of(0, 3), 1000));
            settle(&mut pair);
        }
        assert!(held_back(&pair[0], 1) > 0 && pair[1].messages.len() < MOST / MESSAGE && !pair[0].is_blocked());
        let more = send_all(&mut pair[0], 1, internal, 10);
        settle(&mut pair);
        receive_all(&mut pair, 1, internal, 10);
        assert!(done(&mut pair[0], more) && held_back(&pair[0], 1) > 0);
        let count = MANY / 1000;
        (0..count).for_each(|_| receive_all(&mut pair, 1, of(0, 3), 1000));
        settle(&mut pair);
        assert!(done(&mut pair[0], sends) && held_back(&pair[0], 1) == 0 && balances(&pair));
        assert!(pair.iter().all(|engine| engine.ended().is_empty() && engine.requests.is_empty()));
        assert!(send_all(&mut pair[0], 1, of(0, 3), 1).is_empty(), "there is room again");
    }
}

#[test]
fn what_waits_for_room_can_be_taken_back_and_ends_with_a_loss_or_a_revocation() {
    for (end, make) in (0..2).flat_map(|end| [engines as Make, private].map(|make| (end, make))) {
        let mut pair = make(2);
        let mut sends = Vec::new();
        while held_back(&pair[0], 1) < 10 {
            sends.extend(send_all(&mut pair[0], 1, of(0, 3), 1000));
            settle(&mut pair);
        }
        let last = sends.pop().expect("many were sent");
        pair[0].cancel(last);
        assert!(pair[0].outcome(last).expect("nobody else has it").cancelled);
        let expected = if end == 0 { Class::ProcFailed } else { Class::Revoked };
        match end {
            0 => pair[0].lose(1),
            _ => {
                pair.iter_mut().for_each(|engine| engine.revoke(4));
                settle(&mut pair);
            }
        }
        // Some were short of room in the transport only, and have gone.
        let errors: Vec<_> = sends.iter().map(|send| pair[0].outcome(*send).expect("it ended").error).collect();
        assert!(errors.iter().all(|error| error.is_none_or(|error| error == expected)));
        assert!(errors.iter().flatten().count() > MOST / MESSAGE / 2);
        assert!(held_back(&pair[0], 1) == 0 && pair[0].requests.is_empty() && !pair[0].is_blocked());
        let next = Envelope { context: 8, ..of(0, 3) };
        if end == 0 {
            let late = send_all(&mut pair[0], 1, next, 1);
            assert_eq!(pair[0].outcome(late[0]).expect("nobody is there").error, Some(Class::ProcFailed));
        } else {
            assert!(pair[1].messages.is_empty() && balances(&pair));
            assert!(send_all(&mut pair[0], 1, next, 3).is_empty(), "there is room again");
            settle(&mut pair);
            receive_all(&mut pair, 1, next, 3);
        }
    }
}

#[test]
fn synchronous_sends_and_words_of_failure_go_beyond_the_window() {
    for make in ALL {
        let mut pair = make(2);
        let data = bytes(60_000, 1);
        let mut sends = Vec::new();
        while sends.len() < 10 {
            sends.extend(pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard));
            settle(&mut pair);
        }
        let synchronous = pair[0].send(1, of(0, 4), borrowed(&data), Mode::Synchronous).expect("it waits");
        let failed = pair[0].send(1, of(0, 5), Outgoing::Owned(Vec::new()), Mode::Failed).expect("it is asked for");
        settle(&mut pair);
        assert!(pair[0].peek(synchronous).is_none() && done(&mut pair[0], vec![failed]));
        let mut got = vec![0; 60_000];
        let early = [pair[1].receive(from(0, 4), room(&mut got)), pair[1].receive(from(0, 5), room(&mut []))];
        settle(&mut pair);
        let errors = early.map(|receive| pair[1].outcome(receive).expect("it came").error);
        assert_eq!((errors, got == data), ([None, Some(Class::ProcFailed)], true));
        assert!(done(&mut pair[0], vec![synchronous]));
    }
}

/// An intercommunicator and another one share the room that there is between two processes.
#[test]
fn several_communicators_share_the_window() {
    let mut pair = clear(2);
    let contexts = [4, 1 << 63 | 8, 12];
    let of = |context| Envelope { context, ..of(0, 3) };
    let data = bytes(50_000, 1);
    let mut sends: Vec<Vec<usize>> = vec![Vec::new(); 3];
    for place in (0..2 * WINDOW / 50_000).map(|number| number % 3) {
        sends[place].extend(pair[0].send(1, of(contexts[place]), borrowed(&data), Mode::Standard));
        settle(&mut pair);
    }
    assert!(sends.iter().all(|sends| !sends.is_empty()));
    let count = 2 * WINDOW / 50_000;
    let mut got = vec![0; 50_000];
    for place in [2, 0, 1].into_iter().cycle().take(3 * count) {
        let pattern = Pattern { context: contexts[place], source: Some(0), tag: Some(3) };
        if pair[1].probe(&pattern).is_some() {
            let receive = pair[1].receive(pattern, room(&mut got));
            settle(&mut pair);
            assert!(pair[1].outcome(receive).is_some() && got == data);
        }
    }
    sends.into_iter().for_each(|sends| assert!(done(&mut pair[0], sends)));
    assert!(balances(&pair) && pair[1].messages.is_empty());
}

/// Of what it takes back nothing is left, and answers that it does not read are not kept without end.
#[test]
fn who_takes_back_without_end_is_treated_as_lost() {
    let (mut engine, mut far) = stranger();
    for context in (4..).step_by(4).take(2 * MOST / MESSAGE) {
        let offer = Header { kind: Kind::Offer as u16, context, source: 1, length: 16, ..Header::default() };
        let back = Header { kind: Kind::Withdraw as u16, length: 0, ..offer };
        if far.write_all(&[frame(offer, &[7; 16]), frame(back, &[])].concat()).is_err() {
            break; // it has had enough
        }
        while engine.progress() {}
    }
    assert_eq!(engine.ended(), [Ended { peer: 1, left: false }]);
    engine.lose(1); // with the offer that it could not take back any more
    assert!(engine.messages.is_empty() && engine.matching.is_empty());
}

#[test]
fn who_offers_without_end_is_treated_as_lost() {
    let offer = Header { kind: Kind::Offer as u16, context: 4, source: 1, length: 16, ..Header::default() };
    let failed = Header { kind: Kind::Eager as u16, flags: FAILED, length: 0, ..offer };
    for (header, payload) in [(offer, &[7; 16][..]), (failed, &[])] {
        let (mut engine, mut far) = stranger();
        let some = frame(header, payload).repeat(1000);
        for _ in 0..2 * MOST / MESSAGE / 1000 {
            if far.write_all(&some).is_err() {
                break; // it has had enough
            }
            while engine.progress() {}
        }
        assert_eq!(engine.ended(), [Ended { peer: 1, left: false }]);
        assert!(engine.messages.len() <= MOST / MESSAGE);
    }
}
