//! Tests of a manager whose interpreters are threads of the test, at the other ends of socket pairs.

use super::*;
use crate::recruit::Hold;
use phalanx_core::ids::FiringId;
use phalanx_core::level::{Level, Levels, Mark};
use phalanx_core::wire::{Given, MAX_BODY};
use phalanx_net::link::{Link, LinkError, Reader};
use phalanx_net::socket::Socket;
use std::sync::mpsc::{Receiver, Sender, channel};

const LONG: Duration = Duration::from_secs(60);

/// A firing that has arrived at an interpreter, with the means to answer it.
struct Asked {
    firing: FiringId,
    link: Arc<Link>,
    /// The delegations that arrived before it.
    delegations: Vec<String>,
}

impl Asked {
    /// Answers with one result.
    fn answer(&self) {
        let shape = Tokens::packed(1, Bytes::from_static(b"[]")).shape().clone();
        let (ways, stayed) = (Vec::new(), Vec::new());
        let message = FromInterpreter::Fired { firing: self.firing, shape, ways, stayed, busy: 1, protection: 0 };
        self.link.send(Mark::None, encode(&message, 2), vec![Bytes::from_static(b"[]")]).expect("is sent");
    }
}

/// A place whose interpreters report each firing to the test.
struct Threads(Mutex<Sender<Asked>>);

impl Source for Threads {
    fn offered(&self) -> u32 {
        1
    }

    fn recruit(&self, id: InterpreterId) -> Result<Recruit, RecruitError> {
        let (ours, theirs) = Socket::pair()?;
        let (link, reader) = Link::new(ours, None, MAX_BODY)?;
        let (far, far_reader) = Link::new(theirs, None, MAX_BODY)?;
        let tell = lock(&self.0).clone();
        thread::spawn(move || interpret(far, far_reader, &tell));
        let agreed = Agreed { levels: Levels::all(Level::Clear), why: Default::default(), weaker: [false; 3] };
        let (name, machine) = (format!("here/{}", id.0), "here".into());
        Ok(Recruit { link, reader, name, machine, agreed, hold: Box::new(Held), has: Has::default() })
    }
}

pub(super) struct Held;

impl Hold for Held {
    fn end(&mut self) {}

    fn cause(&mut self) -> Cause {
        Cause::Died { how: "by the test".into() }
    }

    fn delegate(&self, scope: &Scope) -> Result<Option<Given>, IdentityError> {
        let delegation = (!scope.is_empty()).then(|| scope.to_string());
        Ok(Some(Given { delegation, ..Given::default() }))
    }

    fn is_alive(&self) -> bool {
        true
    }
}

fn delegation_in(body: &[u8]) -> Option<String> {
    decode::<Given>(body).ok()?.delegation
}

fn interpret(link: Arc<Link>, reader: Reader, tell: &Sender<Asked>) {
    let ready = encode(&FromInterpreter::Ready { pid: 1 }, 0);
    link.send(Mark::None, ready, Vec::new()).expect("is sent");
    let mut delegations = Vec::new();
    let on_frame = |frame: Frame| match decode(&frame.header) {
        Ok(ToInterpreter::Delegation) => delegations.extend(delegation_in(&frame.body)),
        Ok(ToInterpreter::Fire { firing, .. }) => {
            let _ = tell.send(Asked { firing, link: link.clone(), delegations: delegations.clone() });
        }
        _ => {}
    };
    let _: LinkError = reader.run(PAUSE, on_frame, |_| ());
}

/// A manager of this many interpreters, the firings that arrive at them, and a run with its mailbox.
fn computing(interpreters: u32) -> (Arc<Manager>, Receiver<Asked>, RunId, Arc<Mailbox>) {
    let (tell, asked) = channel();
    let options = Options {
        interpreters: Some(interpreters),
        goal: None,
        silence: LONG,
        patience: LONG,
        journal: None,
        show: None,
        gives: true,
        tell: None,
    };
    let manager = Arc::new(Manager::start(Box::new(Threads(Mutex::new(tell))), options).expect("starts"));
    let program = manager.stage(
        Graph::chain(1),
        Bytes::from_static(b"code"),
        Marks { code: false, data: Vec::new() },
        Vec::new(),
    );
    let mailbox = Arc::new(Mailbox::default());
    let (ahead, size) = (Duration::from_millis(10), None);
    let options = RunOptions { ordered: false, ahead, spare: 2, stragglers: false, contract: false, size };
    let run = manager.open(program, options, &mailbox);
    (manager, asked, run, mailbox)
}

fn feed(manager: &Manager, run: RunId) {
    manager.feed(run, Tokens::packed(1, Bytes::from_static(b"[]"))).expect("is taken");
}

/// Takes outcomes in a new thread. Returns once that thread waits in the link. The thread returns the number of outcomes.
fn take(manager: &Arc<Manager>, mailbox: &Arc<Mailbox>, patience: Duration) -> thread::JoinHandle<usize> {
    let (manager, mailbox) = (manager.clone(), mailbox.clone());
    let taking = thread::spawn({
        let mailbox = mailbox.clone();
        move || manager.take(&mailbox, patience, true).len()
    });
    let began = Instant::now();
    while cfg!(target_os = "linux") && !mailbox.has_reader() && !taking.is_finished() {
        assert!(began.elapsed() < LONG, "no reader waits in the link");
        thread::yield_now();
    }
    taking
}

#[test]
fn who_waits_for_the_only_call_reads_its_answer_itself() {
    let (manager, asked, run, mailbox) = computing(2);
    for _ in 0..50 {
        feed(&manager, run);
        let asked = asked.recv_timeout(LONG).unwrap();
        let taking = take(&manager, &mailbox, LONG);
        asked.answer();
        assert_eq!(taking.join().unwrap(), 1);
    }
}

#[test]
fn an_answer_by_another_interpreter_ends_the_wait_in_a_link() {
    let (manager, asked, run, mailbox) = computing(2);
    feed(&manager, run);
    let first = asked.recv_timeout(LONG).unwrap();
    let taking = take(&manager, &mailbox, LONG);
    feed(&manager, run);
    let second = asked.recv_timeout(LONG).unwrap();
    assert!(!Arc::ptr_eq(&first.link, &second.link));
    second.answer();
    assert_eq!(taking.join().unwrap(), 1);
    first.answer(); // this answer is read by the control thread again
    assert_eq!(manager.take(&mailbox, LONG, false).len(), 1);
}

#[test]
fn a_nudge_ends_the_wait_in_a_link() {
    let (manager, asked, run, mailbox) = computing(1);
    feed(&manager, run);
    let asked = asked.recv_timeout(LONG).unwrap();
    let taking = take(&manager, &mailbox, LONG);
    mailbox.nudge();
    assert_eq!(taking.join().unwrap(), 0);
    asked.answer();
    assert_eq!(manager.take(&mailbox, LONG, true).len(), 1);
}

#[test]
fn the_wait_in_a_link_ends_in_time() {
    let (manager, asked, run, mailbox) = computing(1);
    feed(&manager, run);
    let asked = asked.recv_timeout(LONG).unwrap();
    assert_eq!(take(&manager, &mailbox, Duration::from_millis(20)).join().unwrap(), 0);
    asked.answer();
    assert_eq!(manager.take(&mailbox, LONG, true).len(), 1);
}

#[test]
fn a_link_that_ends_while_a_reader_waits_in_it_is_a_loss() {
    let (manager, asked, run, mailbox) = computing(1);
    feed(&manager, run);
    let first = asked.recv_timeout(LONG).unwrap();
    let taking = take(&manager, &mailbox, LONG);
    first.link.close();
    asked.recv_timeout(LONG).unwrap().answer(); // this one is the next interpreter's
    assert_eq!(taking.join().unwrap(), 1);
    assert_eq!(manager.summary().lost, 1);
}

#[test]
fn hostile_bytes_that_a_waiting_reader_reads_are_a_violation() {
    let (manager, asked, run, mailbox) = computing(1);
    feed(&manager, run);
    let first = asked.recv_timeout(LONG).unwrap();
    let taking = take(&manager, &mailbox, LONG);
    let mut header = encode(&FromInterpreter::Beat, 0);
    *header.last_mut().unwrap() = 0xff; // no message has that number
    first.link.queue_ahead(header);
    first.link.flush();
    asked.recv_timeout(LONG).unwrap().answer();
    assert_eq!(taking.join().unwrap(), 1);
    let summary = manager.summary();
    let causes: Vec<_> = summary.interpreters.values().filter_map(|it| it.cause.clone()).collect();
    assert!(causes.iter().any(|cause| cause.contains("protocol")), "{causes:?}");
}

#[test]
fn what_the_user_delegates_reaches_each_interpreter_before_the_tasks_that_need_it() {
    let (manager, asked, run, _mailbox) = computing(1);
    let named = |name: &str| Extent::Named([name.to_owned()].into());
    feed(&manager, run);
    let first = asked.recv_timeout(LONG).unwrap();
    assert!(first.delegations.is_empty(), "nothing was delegated");
    manager.delegate(Service::Spaces, named("board/jobs")).unwrap();
    manager.delegate(Service::Spaces, named("board/jobs")).unwrap();
    manager.delegate(Service::Spaces, named("ws7/jobs")).unwrap();
    feed(&manager, run);
    first.answer();
    let second = asked.recv_timeout(LONG).unwrap();
    assert_eq!(second.delegations, ["spaces at board/jobs\n", "spaces at board/jobs ws7/jobs\n"]);
    let given = given::mark_of(["ws8/given".to_owned()].into());
    second.link.close();
    let third = asked.recv_timeout(LONG).unwrap();
    assert_eq!(third.delegations, ["spaces at board/jobs ws7/jobs\n"], "it was recruited later");
    manager.feed(run, Tokens::packed(1, format!("[{given}]").into())).unwrap();
    third.answer();
    let fourth = asked.recv_timeout(LONG).unwrap();
    assert_eq!(fourth.delegations[1..], ["spaces at board/jobs ws7/jobs ws8/given\n"], "it is in the task");
    assert!(manager.delegate(Service::Spaces, named("no name")).is_err());
}
