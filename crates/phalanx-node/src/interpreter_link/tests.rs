//! Conversations of an interpreter's link with its manager, at the two ends of a socket pair.

use super::inbox::Queue;
use super::*;
use phalanx_core::level::{Level, Levels};
use phalanx_core::wire::{Follow, MAX_BODY, Shape, decode};
use phalanx_net::frames::Frame;
use phalanx_net::socket::Socket;

const LONG: Duration = Duration::from_secs(60);
const FIRING: FiringId = FiringId(7);
const NEXT: FiringId = FiringId(8);
const PROGRAM: ProgramId = ProgramId(3);

/// What the link asked of the standard output, in order.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

impl Output for Asked {
    fn raise(&self, mark: Mark) {
        lock(&self.0).push(format!("raise {}", mark.name()));
    }

    fn drain(&self) {
        lock(&self.0).push("drain".to_owned());
    }

    fn shown(&self, bytes: u32) {
        lock(&self.0).push(format!("shown {bytes}"));
    }
}

struct Manager {
    link: Arc<Link>,
    reader: Reader,
}

impl Manager {
    fn tell(&self, message: &ToInterpreter, body: &'static [u8]) {
        let body = Bytes::from_static(body);
        self.link.send(Mark::None, encode(message, body.len() as u64), vec![body]).expect("is sent");
    }

    fn fire(&self, firing: FiringId, count: u32) {
        self.tell(&fire(firing, count), b"[...]");
    }

    /// The next message that is no beat, and how many beats came before it.
    fn hear(&mut self) -> (FromInterpreter, usize) {
        let (mut beats, mut heard) = (0, None);
        while heard.is_none() {
            let on_frame = &mut |frame: Frame| match decode(&frame.header).expect("is a message") {
                FromInterpreter::Beat => beats += 1,
                message => heard = Some(message),
            };
            self.reader.poll(LONG, on_frame).expect("the interpreter lives");
        }
        (heard.expect("was heard"), beats)
    }
}

fn fire(firing: FiringId, count: u32) -> ToInterpreter {
    fire_for(firing, count, Duration::ZERO)
}

fn fire_for(firing: FiringId, count: u32, timeout: Duration) -> ToInterpreter {
    ToInterpreter::Fire {
        firing,
        program: PROGRAM,
        instruction: 1,
        shape: Shape::Packed { count, bytes: 5 },
        first: 0,
        count,
        slice: 1_000_000,
        timeout: timeout.as_nanos() as u64,
        groups: Vec::new(),
        takes: Mark::None,
        gives: Mark::None,
        follow: vec![Follow { instruction: 2, gives: Mark::None }],
    }
}

fn conversation() -> (Manager, InterpreterLink, Arc<Asked>) {
    let (ours, theirs) = Socket::pair().expect("a pair");
    let (link, reader) = Link::new(ours, None, MAX_BODY).expect("a link");
    let (own, own_reader) = Link::new(theirs, None, MAX_BODY).expect("a link");
    let output = Arc::new(Asked::default());
    (Manager { link, reader }, InterpreterLink::new(own, own_reader, output.clone()), output)
}

fn next_firing(own: &InterpreterLink) -> Firing {
    match own.try_next().expect("the manager lives") {
        Incoming::Fire(firing) => firing,
        other => panic!("{other:?} is no firing"),
    }
}

#[test]
fn a_program_is_staged_fired_and_answered() {
    let (mut manager, own, output) = conversation();
    manager.tell(&ToInterpreter::Stage { program: PROGRAM, mark: Mark::Code }, b"code");
    manager.tell(&ToInterpreter::Beat, b"");
    manager.tell(&ToInterpreter::Shown { bytes: 9 }, b"");
    manager.fire(FIRING, 3);
    let staged = own.try_next().expect("the manager lives");
    assert!(matches!(staged, Incoming::Stage { program: PROGRAM, code } if code == b"code"[..]));
    let firing = next_firing(&own);
    assert_eq!((firing.firing, firing.instruction, firing.count, firing.follow), (FIRING, 1, 3, vec![2]));
    assert_eq!((firing.tokens.count(), firing.slice), (3, Duration::from_millis(1)));
    let results = Tokens::packed(3, Bytes::from_static(b"[abc]"));
    own.fired(FIRING, &results, vec![], vec![Stayed { bytes: 1, busy: 2 }], 5).expect("is sent");
    let answer = manager.hear().0;
    assert!(
        matches!(&answer, FromInterpreter::Fired { firing: FIRING, shape, stayed, busy: 5, .. }
            if *shape == *results.shape() && stayed.len() == 1),
        "{answer:?}"
    );
    // What was printed leaves before the answer.
    assert_eq!(*lock(&output.0), ["shown 9", "raise code", "raise none", "drain"]);
}

#[test]
fn an_exception_and_parts_of_a_token_reach_the_manager() {
    let (mut manager, own, _) = conversation();
    manager.fire(FIRING, 2);
    next_firing(&own);
    let parts = Tokens::packed(1, Bytes::from_static(b"[a]"));
    own.ahead(FIRING, &parts, 0).expect("is sent");
    assert_eq!(manager.hear().0, FromInterpreter::Ahead { firing: FIRING, shape: parts.shape().clone() });
    own.failed(FIRING, b"error".to_vec(), 4).expect("is sent");
    assert_eq!(manager.hear().0, FromInterpreter::Failed { firing: FIRING, busy: 4 });
}

#[test]
fn tokens_that_were_not_begun_are_given_back_while_the_users_code_runs() {
    let (mut manager, own, _) = conversation();
    manager.fire(FIRING, 5);
    next_firing(&own);
    let running = own.running().expect("a firing runs");
    assert!(running.begin() && running.begin());
    thread::scope(|scope| {
        let attending = scope.spawn(|| attend(&own.link, &own.inbox, SILENCE));
        manager.tell(&ToInterpreter::GiveUp { firing: FIRING }, b"");
        assert_eq!(manager.hear().0, FromInterpreter::Returned { firing: FIRING, kept: 2 });
        assert!(!running.begin(), "the other tokens are the manager's again");
        manager.link.close();
        assert!(matches!(attending.join().expect("ends"), Ending::Link(_)));
    });
}

#[test]
fn the_token_that_is_fired_stops_when_it_is_cancelled_and_no_other_one() {
    let (mut manager, own, _) = conversation();
    manager.fire(FIRING, 5);
    next_firing(&own);
    let running = own.running().expect("a firing runs");
    assert!(running.begin() && running.begin());
    thread::scope(|scope| {
        scope.spawn(|| attend(&own.link, &own.inbox, SILENCE));
        // This one is done, and those that were not begun go back.
        manager.tell(&ToInterpreter::Cancel { firing: FIRING, token: 0 }, b"");
        assert_eq!(manager.hear().0, FromInterpreter::Returned { firing: FIRING, kept: 2 });
        for token in [1, u32::MAX] {
            manager.tell(&ToInterpreter::Cancel { firing: FIRING, token }, b"");
            assert_eq!(manager.hear().0, FromInterpreter::Stop { firing: FIRING, token: 1 });
        }
        // What is over, and what was never sent, says nothing: the next answer is that to the last message.
        own.end_firing();
        manager.tell(&ToInterpreter::Cancel { firing: FIRING, token: 1 }, b"");
        manager.tell(&ToInterpreter::Cancel { firing: NEXT, token: 0 }, b"");
        manager.fire(NEXT, 1);
        manager.tell(&ToInterpreter::Cancel { firing: NEXT, token: 0 }, b"");
        assert_eq!(manager.hear().0, FromInterpreter::Returned { firing: NEXT, kept: 0 });
        manager.link.close();
    });
}

#[test]
fn a_late_token_stops_once_and_those_in_time_do_not() {
    let (mut manager, own, _) = conversation();
    manager.tell(&fire_for(FIRING, 3, LONG), b"[...]");
    manager.tell(&fire_for(NEXT, 3, Duration::from_millis(30)), b"[...]");
    next_firing(&own);
    assert!(own.running().is_some_and(|running| running.begin()));
    own.end_firing();
    next_firing(&own);
    let running = own.running().expect("a firing runs");
    assert!(running.begin() && running.begin());
    assert_eq!(manager.hear().0, FromInterpreter::Stop { firing: NEXT, token: 1 });
    assert_eq!(running.left(), None, "it is told once");
}

#[test]
fn the_clock_stands_while_an_answer_is_sent() {
    let (manager, own, _) = conversation();
    manager.tell(&fire_for(FIRING, 2, LONG), b"[...]");
    next_firing(&own);
    let running = own.running().expect("a firing runs");
    assert!(running.begin() && running.left().is_some());
    let part = Tokens::packed(1, Bytes::from_static(b"[a]"));
    own.ahead(FIRING, &part, 0).expect("is sent");
    assert!(running.left().is_some(), "the token goes on after its first parts");
    own.fired(FIRING, &part, vec![], vec![], 1).expect("is sent");
    assert_eq!(running.left(), None, "it is done");
    assert!(running.begin() && running.left().is_some());
    own.failed(FIRING, b"error".to_vec(), 1).expect("is sent");
    assert_eq!(running.left(), None);
}

#[test]
fn a_firing_that_ends_early_gives_its_other_tokens_back() {
    let (mut manager, own, _) = conversation();
    manager.fire(FIRING, 5);
    next_firing(&own);
    assert!(own.running().expect("a firing runs").begin());
    let (firing, kept) = own.end_firing().expect("four tokens were not begun");
    own.give_back(firing, kept).expect("is sent");
    assert_eq!(manager.hear().0, FromInterpreter::Returned { firing: FIRING, kept: 1 });
    assert!(own.running().is_none());
}

#[test]
fn a_firing_that_waits_behind_another_is_given_back_as_a_whole() {
    let mut queue = Queue::default();
    let ahead = ToInterpreter::Ahead { firing: NEXT, shape: Shape::Packed { count: 2, bytes: 5 }, takes: Mark::None };
    for message in [fire(FIRING, 3), ahead.clone(), fire(NEXT, 3)] {
        queue.push(message, Bytes::new());
    }
    assert!(queue.pop().is_some());
    assert_eq!(queue.take_back(NEXT), Some(0));
    assert_eq!(queue.take_back(NEXT), None, "it is gone");
    assert_eq!(queue.pop(), None);
    // Once the interpreter has its first tokens, it is about to begin and stays.
    for message in [ahead, fire(NEXT, 3)] {
        queue.push(message, Bytes::new());
    }
    assert!(queue.pop().is_some());
    assert_eq!(queue.take_back(NEXT), None);
    assert_eq!(queue.pop().map(|(message, _)| message), Some(fire(NEXT, 3)));
    assert_eq!(queue.take_back(NEXT), Some(1), "of five tokens the first is about to begin");
}

#[test]
fn bytes_that_are_no_message_end_the_interpreter() {
    for attends in [false, true] {
        let (manager, own, _) = conversation();
        manager.link.send(Mark::None, encode(&[255u8; 9], 0), Vec::new()).expect("is sent");
        let ending = match attends {
            true => attend(&own.link, &own.inbox, SILENCE),
            false => own.try_next().expect_err("it is no message"),
        };
        assert!(matches!(ending, Ending::Garbage), "{ending:?}");
    }
}

#[test]
fn tokens_that_do_not_fit_their_message_end_the_interpreter() {
    let (manager, own, _) = conversation();
    manager.tell(&fire(FIRING, 3), b"too long");
    assert!(matches!(own.try_next(), Err(Ending::Garbage)));
}

#[test]
fn an_interpreter_sends_beats_and_notices_a_silent_manager() {
    let (mut manager, own, _) = conversation();
    let ending = attend(&own.link, &own.inbox, BEAT * 2);
    assert!(matches!(ending, Ending::Silent), "{ending:?}");
    own.failed(FIRING, Vec::new(), 0).expect("is sent");
    assert!(manager.hear().1 > 0);
}

#[test]
fn an_exception_has_the_strongest_mark_of_all() {
    let levels = Levels { base: Level::Clear, data: Level::Safe, code: Level::Private };
    let mut marks = Marks::default();
    let follow = [Follow { instruction: 1, gives: Mark::Data }];
    assert_eq!(marks.begin(PROGRAM, Mark::None, Mark::None, &follow, levels), Mark::Data);
    assert_eq!((marks.given(0), marks.given(1), marks.fails()), (Mark::None, Mark::Data, Mark::Data));
    marks.stage(PROGRAM, Mark::Code);
    assert_eq!(marks.begin(PROGRAM, Mark::Data, Mark::None, &[], levels), Mark::Code);
    assert_eq!(marks.given(2), Mark::Code, "nobody said what follows");
    marks.forget(PROGRAM);
    assert_eq!(marks.begin(PROGRAM, Mark::Data, Mark::None, &[], levels), Mark::Data);
}
