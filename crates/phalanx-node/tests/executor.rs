//! What an executor makes of a user who does not keep to what it said.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use phalanx_core::level::{Level, Levels, Mark, Policy};
use phalanx_core::wire::{FromExecutor, MAX_CONTROL_BODY, ToExecutor, decode, encode};
use phalanx_net::dial::{Expected, dial};
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_net::preamble::Preamble;
use phalanx_node::executor::{Executor, Options};
use std::time::{Duration, Instant};

/// Asks an executor with that policy for an interpreter with a link of these levels; why it refuses.
fn refusal(policy: Policy, levels: Levels) -> Option<String> {
    let authority = Authority::create().unwrap();
    let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
    let options = Options {
        capacity: 1,
        accepted: Vec::new(),
        command: vec!["true".into()],
        python: "3.11".into(),
        policy,
        spaces: None,
        exports: phalanx_node::transfer::Exports::default(),
        environment: Vec::new(),
    };
    let executor =
        Executor::start("127.0.0.1:0", member(Role::Executor, "labpc"), options, phalanx_node::log::Log::nowhere())
            .unwrap();
    let patience = Duration::from_secs(60);
    let client = member(Role::User, "ada").client_of(Role::Executor).unwrap();
    let (any, private) = (Expected::Any(&client), Levels::all(Level::Private));
    let dialled = dial(&executor.address().into(), patience).unwrap();
    let introduced = dialled.introduce(Preamble::Control, any, private, patience).unwrap();
    let (link, mut reader) = introduced.link(MAX_CONTROL_BODY).unwrap();
    link.send(Mark::None, encode(&ToExecutor::Recruit { request: 1, levels, program: [0; 16] }, 0), Vec::new())
        .unwrap();
    let mut answer = None;
    let until = Instant::now() + patience;
    while answer.is_none() && Instant::now() < until {
        let mut on_frame = |frame: phalanx_net::frames::Frame| match decode(&frame.header).unwrap() {
            FromExecutor::Refused { reason, .. } => answer = Some(Some(reason)),
            FromExecutor::Recruited { .. } => answer = Some(None),
            FromExecutor::Offer { .. } | FromExecutor::Ended { .. } | FromExecutor::Beat { .. } => {}
        };
        reader.poll(Duration::from_millis(100), &mut on_frame).unwrap();
    }
    executor.close();
    answer.expect("the executor answers")
}

#[test]
fn an_executor_refuses_levels_that_it_does_not_take_whoever_asks() {
    for weak in [Level::Clear, Level::Authenticated] {
        let reason = refusal(Policy::default(), Levels::all(weak)).expect("is refused");
        assert!(reason.contains("this machine takes safe, private"), "{reason}");
        let marked = Levels { base: Level::Private, data: weak, code: weak };
        assert_eq!(refusal(Policy::default(), marked), None, "what is marked gets no less than the rest");
    }
    assert_eq!(refusal(Policy::default(), Levels::all(Level::Safe)), None);
    let trusting = Policy { trusted: vec!["127.0.0.0/8".parse().unwrap()], ..Policy::default() };
    assert_eq!(refusal(trusting, Levels::all(Level::Clear)), None);
}
