use super::*;
use crate::ids::{FiringId, ProgramId};
use crate::level::Mark;
use bytes::Bytes;
use proptest::prelude::*;

fn tokens(objects: &[(Vec<u8>, Vec<Vec<u8>>)]) -> Tokens {
    let pickles: Vec<u8> = objects.iter().flat_map(|(pickle, _)| pickle.clone()).collect();
    let lengths = objects.iter().map(|(pickle, _)| pickle.len() as u64).collect();
    let attached = objects.iter().enumerate().flat_map(|(token, (_, buffers))| {
        buffers.iter().map(move |buffer| (token as u32, Bytes::from(buffer.clone())))
    });
    Tokens::separate(pickles.into(), lengths, attached.collect())
}

fn objects() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<Vec<u8>>)>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
    proptest::collection::vec((bytes(), proptest::collection::vec(bytes(), 0..3)), 1..8)
}

proptest! {
    #[test]
    fn tokens_survive_the_wire(objects in objects()) {
        let sent = tokens(&objects);
        let body = sent.to_owned_bytes();
        prop_assert_eq!(body.len() as u64, sent.bytes());
        let got = Tokens::from_wire(sent.shape().clone(), body).unwrap();
        prop_assert_eq!(got.parts(), sent.parts());
    }

    #[test]
    fn a_slice_holds_what_its_tokens_held(objects in objects(), a in any::<u32>(), b in any::<u32>()) {
        let first = a % objects.len() as u32;
        let count = 1 + b % (objects.len() as u32 - first);
        let (slice, start) = tokens(&objects).slice(first, count);
        prop_assert_eq!(start, 0);
        let expected = tokens(&objects[first as usize..(first + count) as usize]);
        prop_assert_eq!(slice.shape(), expected.shape());
        prop_assert_eq!(slice.to_owned_bytes(), expected.to_owned_bytes());
    }

    #[test]
    fn tokens_are_cut_and_put_together_again(objects in objects(), cuts in proptest::collection::vec(0u32..4, 0..9)) {
        let all = tokens(&objects);
        let mut left = objects.len() as u32;
        let mut sizes: Vec<u32> = cuts.into_iter().map(|cut| { let size = cut.min(left); left -= size; size }).collect();
        sizes.push(left);
        let pieces = all.cut(sizes.iter().copied()).unwrap();
        let mut first = 0;
        for (piece, size) in pieces.iter().zip(&sizes) {
            let expected = tokens(&objects[first..first + *size as usize]);
            prop_assert_eq!(piece.shape(), expected.shape());
            first += *size as usize;
        }
        let again = Tokens::concat(&pieces);
        prop_assert_eq!(again.shape(), all.shape());
        prop_assert_eq!(again.to_owned_bytes(), all.to_owned_bytes());
        prop_assert!(all.cut([objects.len() as u32, 1]).is_err());
        prop_assert!(Tokens::packed(2, Bytes::new()).cut([1, 1]).is_err());
    }

    #[test]
    fn hostile_headers_are_refused_or_understood_but_never_panic(header in proptest::collection::vec(any::<u8>(), 0..300), body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode::<ToExecutor>(&header);
        let _ = decode::<FromExecutor>(&header);
        let _ = decode::<News>(&header);
        let _ = decode::<ToInterpreter>(&header);
        let _ = decode::<space::ToSpace>(&header);
        let _ = decode::<space::FromSpace>(&header);
        if let Ok(FromInterpreter::Fired { shape, .. }) = decode(&header) {
            let _ = Tokens::from_wire(shape, body.into());
        }
    }

    #[test]
    fn hostile_shapes_are_refused_or_cut_inside_the_body(
        pickles in proptest::collection::vec(prop_oneof![0u64..50, any::<u64>()], 0..5),
        attached in proptest::collection::vec((0u32..6, prop_oneof![0u64..50, any::<u64>()]), 0..5),
        body in 0usize..400,
    ) {
        let attached = attached.into_iter().map(|(token, bytes)| Attached { token, bytes }).collect();
        let shape = Shape::Separate { pickles, attached };
        if let Ok(tokens) = Tokens::from_wire(shape, vec![0; body].into()) {
            prop_assert_eq!(tokens.bytes(), body as u64);
        }
    }

    #[test]
    fn a_prefix_survives_or_is_refused(bytes in any::<[u8; PREFIX]>()) {
        if let Ok(prefix) = Prefix::decode(&bytes) {
            prop_assert_eq!(prefix.encode(), bytes);
            prop_assert!(prefix.header as u64 <= MAX_HEADER && prefix.body <= MAX_BODY);
            prop_assert!(prefix.place.is_none_or(|place| place.slot < SLOTS));
        }
    }

    #[test]
    fn a_place_comes_back_as_it_was_set(slot in 0..SLOTS, generation in any::<u16>(), fresh in any::<bool>()) {
        let place = Some(Place { slot, generation, fresh });
        let mut start = encode(&ToInterpreter::Beat, 9);
        set_place(&mut start, place);
        let prefix = Prefix::decode(start[..PREFIX].try_into().unwrap()).unwrap();
        prop_assert_eq!(prefix.place, place);
        set_place(&mut start, None);
        prop_assert_eq!(start, encode(&ToInterpreter::Beat, 9));
    }
}

#[test]
fn a_message_comes_back_as_it_was_sent() {
    let shape = Shape::Packed { count: 3, bytes: 9 };
    let fire = ToInterpreter::Fire {
        firing: FiringId(7),
        program: ProgramId(1),
        instruction: 0,
        shape,
        first: 0,
        count: 3,
        slice: 20_000_000,
        timeout: 0,
        takes: Mark::Data,
        gives: Mark::None,
        groups: Vec::new(),
        follow: vec![Follow { instruction: 1, gives: Mark::Data }],
    };
    let bytes = encode(&fire, 9);
    let prefix = Prefix::decode(bytes[..PREFIX].try_into().unwrap()).unwrap();
    assert_eq!(prefix, Prefix { header: bytes.len() - PREFIX, body: 9, place: None });
    assert_eq!(decode::<ToInterpreter>(&bytes[PREFIX..]).unwrap(), fire);
}

#[test]
fn lengths_over_the_limits_are_refused() {
    let long = |header: u32, body: u64| {
        let mut bytes = [0; PREFIX];
        bytes[..4].copy_from_slice(&header.to_le_bytes());
        bytes[8..].copy_from_slice(&body.to_le_bytes());
        Prefix::decode(&bytes)
    };
    assert_eq!(
        long(u32::MAX, 0),
        Err(crate::error::WireError::HeaderTooLong { is: u64::from(u32::MAX), most: MAX_HEADER })
    );
    assert_eq!(long(0, MAX_BODY + 1), Err(crate::error::WireError::BodyTooLong { is: MAX_BODY + 1, most: MAX_BODY }));
}

#[test]
fn bytes_behind_a_message_are_refused() {
    let mut bytes = encode(&ToInterpreter::Beat, 0);
    bytes.push(0);
    assert!(decode::<ToInterpreter>(&bytes[PREFIX..]).is_err());
}
