//! Tuples, templates with their queries, and the messages of spaces and their clients.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::ids::SessionId;
use phalanx_core::space::{Asker, Get, Limits, Options, OutOptions, Space, Template, Tuple};
use phalanx_core::wire::space::{FromSpace, ToSpace};
use phalanx_fuzz::{cut, same_again};
use std::time::Duration;

fuzz_target!(|bytes: &[u8]| {
    let Some((header, body)) = cut(bytes) else { return };
    same_again::<FromSpace>(header);
    match same_again::<ToSpace>(header) {
        Some(ToSpace::Get { get, .. }) => ask(&get, body),
        Some(ToSpace::Out { tuples, options, .. }) => put(tuples, &options, body),
        _ => ask(&Get::default(), body),
    }
});

/// Tuples that are understood come out as they went in.
fn put(tuples: u32, options: &OutOptions, body: &[u8]) {
    let body = body.to_vec().into();
    let Ok(tuples) = Tuple::check_all(&body, tuples.into(), &Limits::default()) else { return };
    for tuple in &tuples {
        assert_eq!(Tuple::of(&tuple.values()), *tuple);
    }
    let Ok(mut space) = Space::new(Options::default()) else { return };
    let _ = space.out(Duration::ZERO, &tuples, options, None);
}

/// A template that is understood finds what it matches in a space of a tuple that it may match.
fn ask(get: &Get, body: &[u8]) {
    let (template, tuple) = body.split_at(body.len() / 2);
    let Ok(template) = Template::decode(template, &Limits::default()) else { return };
    let mut again = Vec::new();
    template.encode(&mut again);
    assert_eq!(Template::decode(&again, &Limits::default()).as_ref(), Ok(&template));
    let Ok(tuple) = Tuple::check(tuple.to_vec().into(), &Limits::default()) else { return };
    let Ok(mut space) = Space::new(Options::default()) else { return };
    let _ = space.out(Duration::ZERO, std::slice::from_ref(&tuple), &OutOptions::default(), None);
    let asker = Asker { session: SessionId(0), request: 0, acknowledges: false };
    let found = space.get(Duration::ZERO, asker, &template, get, None);
    let plain = get.key.is_none() && get.label.is_none() && get.after.is_none();
    assert!(found.is_ok_and(|page| !plain || page.tuples.len() == usize::from(template.matches(tuple.bytes()))));
}
