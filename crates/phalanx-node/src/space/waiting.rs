//! The requests and watches of one connection that several threads share, and the threads that wait for them.

use super::error::ClientError;
use bytes::Bytes;
use phalanx_core::error::SpaceError;
use phalanx_core::space::RequestId;
use phalanx_core::wire::space::FromSpace;
use phalanx_net::link::Reader;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Instant;

/// Most events of one watch, and their bytes, that are buffered until a caller fetches them.
const MOST_EVENTS: usize = 100_000;
const MOST_EVENT_BYTES: usize = 64 << 20;

/// The answer to a request. It is never [`FromSpace::Failed`], which becomes an error.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The message.
    pub message: FromSpace,
    /// The tuples that belong to it, encoded.
    pub body: Bytes,
}

/// Callback for the outcome of a request. It is called once, in any thread, and must be quick.
pub type Done = Box<dyn FnOnce(Result<Answer, ClientError>) + Send>;
/// Callback for new events since the caller last looked. It is called in any thread and must be quick.
pub type Nudge = Arc<dyn Fn() + Send + Sync>;
/// An event of a watch: its sequence number, and the tuple. No bytes: the tuple is longer than the client takes.
pub type Event = (u64, Bytes);

/// The open requests and watches of one connection.
pub(super) struct State {
    /// `None`: a thread holds the reader and reads.
    pub(super) reader: Option<Reader>,
    pub(super) requests: HashMap<RequestId, Slot>,
    pub(super) watches: HashMap<RequestId, Watch>,
    /// Threads that wait while another one reads, each under a number of its own.
    pub(super) parked: HashMap<u64, Thread>,
    pub(super) next_parked: u64,
    /// Number of requests (and watches) that the pump, the connection's own thread, reads for.
    pub(super) begun: usize,
    pub(super) pump: Option<Thread>,
    /// The pump found nothing to read for. It must be woken when there is something.
    pub(super) pump_idles: bool,
    pub(super) ended: Option<String>,
    /// Callbacks about answers that were refused because they are too long.
    pub(super) refused: Vec<Call>,
    /// The requests of such answers, whose tuples must be given back.
    pub(super) unwanted: Vec<RequestId>,
}

/// A request that was sent.
pub(super) enum Slot {
    /// A thread looks here for the answer; it is woken if it is parked.
    Waited(Option<Thread>),
    /// With the time after which nobody waits for the answer.
    Begun(Done, Option<Instant>),
    Answered(Result<Answer, ClientError>),
}

/// A callback to make after the state is unlocked.
#[must_use]
pub(super) enum Call {
    Nothing,
    Done(Done, Result<Answer, ClientError>),
    Nudge(Nudge),
}

impl Call {
    pub(super) fn make(self) {
        match self {
            Call::Nothing => {}
            Call::Done(done, answer) => done(answer),
            Call::Nudge(nudge) => nudge(),
        }
    }
}

/// A watch, and the events that no caller has fetched yet.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) events: VecDeque<Event>,
    pub(super) bytes: usize,
    pub(super) failed: Option<ClientError>,
    pub(super) waiting: Option<Thread>,
    pub(super) nudge: Option<Nudge>,
    /// The nudge was called, and no caller has looked since.
    pub(super) nudged: bool,
}

impl State {
    pub(super) fn new(reader: Reader) -> State {
        State {
            reader: Some(reader),
            requests: HashMap::new(),
            watches: HashMap::new(),
            parked: HashMap::new(),
            next_parked: 0,
            begun: 0,
            pump: None,
            pump_idles: false,
            ended: None,
            refused: Vec::new(),
            unwanted: Vec::new(),
        }
    }

    /// Wakes a parked thread to take over the reading when this one is done.
    pub(super) fn hand_over(&mut self) {
        if self.reader.is_some() {
            self.parked.values().next().inspect(|thread| thread.unpark());
        }
    }

    pub(super) fn park(&mut self) -> u64 {
        self.next_parked += 1;
        self.parked.insert(self.next_parked, thread::current());
        self.next_parked
    }

    /// Gives a request its answer.
    pub(super) fn answer(&mut self, request: RequestId, answer: Result<Answer, ClientError>) -> Call {
        match (self.requests.remove(&request), answer) {
            (Some(Slot::Waited(thread)), answer) => {
                self.requests.insert(request, Slot::Answered(answer));
                thread.inspect(Thread::unpark);
                Call::Nothing
            }
            (Some(Slot::Begun(done, _)), answer) => {
                self.begun -= 1;
                Call::Done(done, answer)
            }
            (Some(answered), _) => {
                self.requests.insert(request, answered);
                Call::Nothing
            }
            (None, Err(error)) => match self.watches.get_mut(&request) {
                Some(watch) => watch.fail(error).map_or(Call::Nothing, Call::Nudge),
                None => Call::Nothing,
            },
            (None, Ok(_)) => Call::Nothing,
        }
    }

    /// Takes the begun requests that are past their time. The caller must wait for them or abandon them.
    pub(super) fn take_late(&mut self, now: Instant) -> Vec<(RequestId, Done)> {
        let is_late = |slot: &Slot| matches!(slot, Slot::Begun(_, Some(until)) if *until <= now);
        let late = self.requests.iter().filter(|(_, slot)| is_late(slot)).map(|(request, _)| *request);
        let late: Vec<RequestId> = late.collect();
        let mut taken = Vec::with_capacity(late.len());
        for request in late {
            if let Some(Slot::Begun(done, _)) = self.requests.insert(request, Slot::Waited(None)) {
                self.begun -= 1;
                taken.push((request, done));
            }
        }
        taken
    }

    /// Stores an event. Returns the nudge to call after the state is unlocked.
    pub(super) fn on_event(&mut self, watch: RequestId, sequence: u64, tuple: Bytes) -> Option<Nudge> {
        let watch = self.watches.get_mut(&watch).filter(|watch| watch.failed.is_none())?;
        if watch.events.len() >= MOST_EVENTS || watch.bytes > MOST_EVENT_BYTES {
            let what = "events that wait for who watches".to_owned();
            return watch.fail(SpaceError::Full { what, most: MOST_EVENTS as u64 }.into());
        }
        watch.bytes += tuple.len();
        watch.events.push_back((sequence, tuple));
        watch.tell()
    }
}

impl Watch {
    pub(super) fn fail(&mut self, error: ClientError) -> Option<Nudge> {
        self.failed = Some(error);
        self.tell()
    }

    /// Wakes the waiting thread. Returns the nudge to call after the state is unlocked.
    pub(super) fn tell(&mut self) -> Option<Nudge> {
        self.waiting.take().inspect(Thread::unpark);
        let first = !std::mem::replace(&mut self.nudged, true);
        self.nudge.clone().filter(|_| first)
    }
}

pub(super) fn number_of(message: &FromSpace) -> RequestId {
    match message {
        FromSpace::Opened { request, .. }
        | FromSpace::Name { request, .. }
        | FromSpace::Done { request, .. }
        | FromSpace::Got { request, .. }
        | FromSpace::Counted { request, .. }
        | FromSpace::Watching { request, .. }
        | FromSpace::Info { request, .. }
        | FromSpace::Decided { request, .. }
        | FromSpace::Card { request, .. }
        | FromSpace::Whole { request, .. }
        | FromSpace::Failed { request, .. } => *request,
        FromSpace::Event { watch, .. } => *watch,
        FromSpace::Beat => 0,
    }
}
