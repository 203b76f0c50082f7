//! Short messages on their shortest way, among messages that go on others.

use super::*;

/// Receives so until something is found.
fn receive(engine: &mut Engine, pattern: &Pattern, got: &mut [u8]) -> Option<Status> {
    while !engine.may_receive_short(pattern) {
        if !engine.matching.would_wait(pattern) {
            return None;
        }
        engine.rounds += 1; // it is only the turn of everything else
    }
    // SAFETY: the room is this long.
    match unsafe { engine.receive_short(0, pattern, got.as_mut_ptr(), got.len()) } {
        Found::Message(status) => Some(status),
        _ => None,
    }
}

#[test]
fn a_short_message_needs_no_request() {
    for length in [0, 1, 8, SHORT] {
        let (mut pair, data, mut got) = (engines(2), bytes(length, 1), vec![0; length + 5]);
        assert!(receive(&mut pair[1], &from(0, 3), &mut got).is_none(), "nothing has come");
        assert!(pair[0].send_short(1, &of(0, 3), &borrowed(&data)));
        let status = receive(&mut pair[1], &Pattern { tag: None, ..from(0, 3) }, &mut got).expect("it came");
        assert_eq!((status.source, status.tag, status.bytes, status.error), (0, 3, length as u64, None));
        assert_eq!(got[..length], data);
        assert!(pair[1].matching.is_empty() && !pair[1].progress() && balances(&pair));
    }
}

/// It stays where it is, for who looks for everything.
#[test]
fn what_is_unusual_is_left() {
    let send = |pair: &mut Vec<Engine>, data: &[u8], mode| pair[0].send(1, of(0, 3), borrowed(data), mode);
    let (short, long) = (bytes(8, 1), bytes(20_000, 1));
    let cases: [(&[u8], Mode, i32, usize); 5] = [
        (&short, Mode::Standard, 5, 8),
        (&short, Mode::Standard, 3, 7),
        (&short, Mode::Synchronous, 3, 8),
        (&short, Mode::Failed, 3, 8),
        (&long, Mode::Standard, 3, 20_000),
    ];
    for (data, mode, tag, room_for) in cases {
        let (mut pair, mut got) = (engines(2), [0; 20_000]);
        send(&mut pair, data, mode);
        assert!(receive(&mut pair[1], &from(0, tag), &mut got[..room_for]).is_none());
        assert!(pair[1].progress(), "it is still there");
        assert!(receive(&mut pair[1], &from(0, 3), &mut got).is_none(), "what waits comes first");
    }
    let (mut pair, mut got) = (engines(2), [0; 8]);
    assert!(pair[0].send_short(1, &Envelope { context: 8, ..of(0, 3) }, &borrowed(&short)));
    assert!(receive(&mut pair[1], &from(0, 3), &mut got).is_none() && got == [0; 8], "of another communicator");
    let mut pair = engines(2);
    assert!(!pair[0].send_short(1, &of(0, 3), &borrowed(&long)));
    assert!(!pair[0].send_short(0, &of(0, 3), &borrowed(&short)), "to itself");
    let mut apart = clear(2);
    assert!(!apart[0].send_short(1, &of(0, 3), &borrowed(&short)), "to another machine");
    pair[0].revoke(4);
    assert!(!pair[0].send_short(1, &of(0, 3), &borrowed(&short)), "in what was revoked");
}

#[test]
fn a_receive_that_was_begun_before_gets_its_message() {
    let (mut pair, data, mut first, mut second) = (engines(2), bytes(8, 1), [0; 8], [0; 8]);
    let begun = pair[1].receive(from(0, 3), room(&mut first));
    assert!(pair[0].send_short(1, &of(0, 3), &borrowed(&data)));
    assert!(receive(&mut pair[1], &from(0, 3), &mut second).is_none());
    settle(&mut pair);
    assert!(pair[1].outcome(begun).is_some());
    assert_eq!((&first[..], second), (&data[..], [0; 8]));
}

#[test]
fn a_full_channel_is_left() {
    let (mut pair, data) = (engines(2), bytes(8, 1));
    let went = (0..).take_while(|_| pair[0].send_short(1, &of(0, 3), &borrowed(&data))).count();
    let waits = pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard).expect("there is no room");
    assert!(!pair[0].send_short(1, &of(0, 3), &borrowed(&data)), "nothing overtakes what waits");
    settle(&mut pair);
    assert!(pair[0].outcome(waits).is_some());
    for _ in 0..went + 1 {
        let mut got = [0; 8];
        let receive = pair[1].receive(from(0, 3), room(&mut got));
        assert!(pair[1].outcome(receive).is_some() && got[..] == data);
    }
    assert!(balances(&pair));
}

proptest! {
    /// Whichever way each message goes and each receive looks first, all come in their order.
    #[test]
    fn both_ways_keep_the_order(
        sends in proptest::collection::vec((0i32..2, 0usize..2 * SHORT, any::<bool>(), any::<bool>()), 1..100),
    ) {
        let (mut pair, data) = (engines(2), sends.iter().enumerate().map(|(seed, send)| bytes(send.1, seed)));
        let data: Vec<Vec<u8>> = data.collect();
        for (&(tag, _, quick, _), data) in sends.iter().zip(&data) {
            if !quick || !pair[0].send_short(1, &of(0, tag), &borrowed(data)) {
                prop_assert!(pair[0].send(1, of(0, tag), borrowed(data), Mode::Standard).is_none());
            }
        }
        for tag in 0..2 {
            for (&(_, length, _, quick), data) in sends.iter().zip(&data).filter(|(send, _)| send.0 == tag) {
                let mut got = vec![0; length];
                let found = if quick { receive(&mut pair[1], &from(0, tag), &mut got) } else { None };
                let status = found.or_else(|| {
                    let receive = pair[1].receive(from(0, tag), room(&mut got));
                    while pair[1].peek(receive).is_none() && pair[1].progress_to(1) {}
                    pair[1].outcome(receive)
                });
                prop_assert_eq!(status.map(|status| status.bytes), Some(length as u64));
                prop_assert_eq!(&got, data);
            }
        }
        settle(&mut pair);
        prop_assert!(pair[1].requests.is_empty() && pair[1].messages.is_empty() && balances(&pair));
    }
}
