//! What an executor makes of a launcher that does not keep to the protocol.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::options;
use phalanx_core::level::{Level, Levels, Mark};
use phalanx_core::wire::machines::{Exit, FromMachine, MOST_PIECE, Part, Program, ToMachine};
use phalanx_core::wire::ranks::{Entry, Listens, ToRank};
use phalanx_core::wire::{Given, decode, encode};
use phalanx_net::dial::{Expected, dial};
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use phalanx_node::executor::{Executor, Options};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A launcher that says whatever it is told to.
struct Launcher {
    link: Arc<Link>,
    reader: Reader,
    _executor: Executor,
}

impl Launcher {
    fn new() -> Launcher {
        let authority = Authority::create().unwrap();
        let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
        let options = Options { capacity: 2, ..options() };
        let executor =
            Executor::start("127.0.0.1:0", member(Role::Executor, "labpc"), options, phalanx_node::log::Log::nowhere())
                .unwrap();
        let client = member(Role::User, "ada").client_of(Role::Executor).unwrap();
        let (labpc, private) = (Expected::Named(&client, "labpc"), Levels::all(Level::Private));
        let dialled = dial(&executor.address().into(), PATIENCE).unwrap();
        let introduced = dialled.introduce(Preamble::Ranks, labpc, private, PATIENCE).unwrap();
        let (link, reader) = introduced.link(MOST_PIECE as u64).unwrap();
        let mut launcher = Launcher { link, reader, _executor: executor };
        launcher.say(&ToMachine::Ask { program: [3; 16], wants: 0 });
        assert!(matches!(launcher.hear(), FromMachine::Offer { capacity: 2, free: 2, .. }));
        launcher
    }

    fn say(&self, message: &ToMachine) {
        self.say_with(message, &[]);
    }

    /// It is not this end's silence that ends the link.
    fn beat(&self) {
        let _ = self.link.send(Mark::None, encode(&ToMachine::Beat, 0), Vec::new());
    }

    fn say_with(&self, message: &ToMachine, body: &'static [u8]) {
        let start = encode(message, body.len() as u64);
        let body = if body.is_empty() { Vec::new() } else { vec![body.into()] };
        self.link.send(Mark::None, start, body).unwrap();
    }

    /// The next message that is no beat.
    fn hear(&mut self) -> FromMachine {
        self.hear_unless(|message| *message == FromMachine::Beat)
    }

    fn hear_unless(&mut self, passes: impl Fn(&FromMachine) -> bool) -> FromMachine {
        let until = Instant::now() + PATIENCE;
        let mut heard = None;
        while heard.is_none() && Instant::now() < until {
            let mut on_frame = |frame: Frame| {
                let message = decode(&frame.header).unwrap();
                if !passes(&message) {
                    heard.get_or_insert(message);
                }
            };
            self.reader.poll(Duration::from_millis(100), &mut on_frame).unwrap();
            self.beat();
        }
        heard.expect("the executor answers")
    }

    fn refusal(&mut self) -> String {
        match self.hear_unless(|message| !matches!(message, FromMachine::Refused { .. })) {
            FromMachine::Refused { reason } => reason,
            _ => String::new(),
        }
    }

    fn begin(&self, part: Part) {
        let machines = vec!["127.0.0.1".parse().unwrap(), "10.9.9.9".parse().unwrap()];
        self.say(&ToMachine::Begin { part, machine: 0, machines, program: [7; 16] });
    }
}

fn part(count: u32, command: &[&str]) -> Part {
    let command = command.iter().map(|word| word.as_bytes().to_vec()).collect();
    let program = Program { app: 0, command, environment: Vec::new(), folder: None };
    Part { base: 0, size: count + 1, first: 0, secret: [0; 32], programs: vec![(count, program)], patience: None }
}

#[test]
fn a_launcher_that_wants_more_than_there_is_gets_what_there_is() {
    let mut launcher = Launcher::new();
    for wants in [u32::MAX, 1, u32::MAX] {
        launcher.say(&ToMachine::Ask { program: [3; 16], wants });
        assert!(matches!(launcher.hear(), FromMachine::Offer { capacity: 2, free: 2, fair: 2, .. }));
    }
    launcher.begin(part(2, &["true"]));
    assert!(matches!(launcher.hear(), FromMachine::Begun { .. }));
    launcher.say(&ToMachine::Ask { program: [3; 16], wants: 2 });
    assert!(matches!(launcher.hear(), FromMachine::Offer { free: 0, fair: 0, .. }), "they are the program's own");
}

#[test]
fn parts_that_make_no_sense_or_do_not_fit_are_refused() {
    let sleeps = |count| part(count, &["sleep", "1000"]);
    for (part, what) in [
        (Part { programs: Vec::new(), ..sleeps(1) }, "no sense"),
        (Part { size: 0, ..sleeps(1) }, "no sense"),
        (Part { first: u32::MAX, ..sleeps(1) }, "no sense"),
        (Part { size: u32::MAX, ..sleeps(u32::MAX - 1) }, "no sense"),
        (sleeps(3), "0 of its 2 places are in use"),
    ] {
        let mut launcher = Launcher::new();
        launcher.begin(part);
        let reason = launcher.refusal();
        assert!(reason.contains(what), "{reason}");
    }
}

#[test]
fn what_comes_before_its_time_is_refused() {
    for message in [ToMachine::Start, ToMachine::Piece, ToMachine::File { name: "a".into(), executable: false }] {
        let mut launcher = Launcher::new();
        launcher.say(&message);
        assert!(launcher.refusal().contains("no place for files"), "{message:?}");
    }
    let mut launcher = Launcher::new();
    launcher.begin(part(1, &["true"]));
    launcher.say_with(&ToMachine::Piece, b"of no file");
    assert!(launcher.refusal().contains("no file was begun"));
    launcher.begin(part(1, &["true"]));
    assert!(launcher.refusal().contains("no sense"));
}

#[test]
fn files_stay_in_their_folder() {
    let mut launcher = Launcher::new();
    launcher.begin(part(1, &["true"]));
    for name in ["../x", "/tmp/x", ""] {
        launcher.say(&ToMachine::File { name: name.into(), executable: false });
        assert!(launcher.refusal().contains("leads out"), "{name}");
    }
}

#[test]
fn a_table_with_weaker_links_than_the_machine_takes_is_not_passed_on() {
    let mut launcher = Launcher::new();
    launcher.begin(part(1, &["sleep", "1000"]));
    launcher.say(&ToMachine::Start);
    let tell = |ip: &str, machine, level| {
        let address = format!("{ip}:1").parse().unwrap();
        let listens = Listens { address, certificate: Vec::new() };
        let entries = vec![Entry { machine, listens, levels: Levels::all(level) }];
        ToMachine::Tell { ranks: vec![0], message: ToRank::Table { entries } }
    };
    launcher.say(&tell("10.9.9.9", 1, Level::Authenticated));
    assert!(launcher.refusal().contains("this machine takes safe, private"));
    launcher.say(&tell("10.9.9.8", 1, Level::Private));
    assert!(launcher.refusal().contains("no machine at 10.9.9.8"));
    launcher.say(&tell("10.9.9.8", 7, Level::Private));
    assert!(launcher.refusal().contains("no machine at 10.9.9.8"));
    // Its own ranks reach each other through memory; and it goes on to serve.
    launcher.say(&tell("127.0.0.1", 0, Level::Clear));
    launcher.say(&ToMachine::Signal { number: 9 });
    let ended =
        launcher.hear_unless(|message| !matches!(message, FromMachine::Ended { .. } | FromMachine::Refused { .. }));
    assert!(matches!(ended, FromMachine::Ended { rank: 0, .. }), "{ended:?}");
}

#[test]
fn input_beyond_the_window_ends_the_link() {
    static PIECE: [u8; MOST_PIECE] = [0; MOST_PIECE];
    let mut launcher = Launcher::new();
    launcher.begin(part(1, &["sleep", "1000"]));
    launcher.say(&ToMachine::Start);
    assert!(matches!(launcher.hear(), FromMachine::Begun { .. }));
    for _ in 0..40 {
        let start = encode(&ToMachine::Input, PIECE.len() as u64);
        let _ = launcher.link.send(Mark::None, start, vec![PIECE.as_slice().into()]);
    }
    let until = Instant::now() + PATIENCE;
    while launcher.reader.poll(Duration::from_millis(100), &mut |_| ()).is_ok() {
        assert!(Instant::now() < until, "the executor ends the link");
        launcher.beat();
    }
}

#[test]
fn ranks_find_what_is_delegated_to_them_and_what_replaces_it() {
    let mut launcher = Launcher::new();
    let given = |name: &str| Given { delegation: Some(name.to_owned()), ..Given::default() };
    launcher.say(&ToMachine::Delegation { given: given("early") });
    assert!(launcher.refusal().contains("no part was begun"));
    let finds = "until grep -q first $PHALANX_DELEGATED; do sleep 0.05; done; echo; \
                 until grep -q second $PHALANX_DELEGATED; do sleep 0.05; done; exit 7";
    launcher.begin(part(1, &["sh", "-c", finds]));
    let FromMachine::Begun { certificate, .. } = launcher.hear() else { panic!("it was not begun") };
    assert!(!certificate.is_empty());
    launcher.say(&ToMachine::Delegation { given: given("first") });
    launcher.say(&ToMachine::Start);
    let printed = launcher.hear_unless(|message| !matches!(message, FromMachine::Output { .. }));
    assert!(matches!(printed, FromMachine::Output { .. }), "it has found the first");
    launcher.say(&ToMachine::Delegation { given: given("second") });
    let ended = launcher.hear_unless(|message| !matches!(message, FromMachine::Ended { .. }));
    assert_eq!(ended, FromMachine::Ended { rank: 0, exit: Exit::Code(7) });
}

#[test]
fn each_part_has_a_key_of_its_own() {
    let certificate = || {
        let mut launcher = Launcher::new();
        launcher.begin(part(1, &["sleep", "1000"]));
        let FromMachine::Begun { certificate, .. } = launcher.hear() else { panic!("it was not begun") };
        certificate
    };
    assert_ne!(certificate(), certificate());
}
