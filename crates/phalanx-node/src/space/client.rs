//! A connection to a space, shared by all threads of a process.
//!
//! Whoever waits for an answer reads the link itself while nobody else does, and hands the others theirs: a question costs
//! one thread and no wake-up. Where no thread waits, for requests that were begun with a function to be called, one thread
//! of the connection reads.

use super::bounds::MOST_BODY;
use super::connect::{Connect, Reached, reach};
use super::ending;
use super::error::ClientError;
use super::takes::Takes;
use super::waiting::{Answer, Call, Done, Event, Nudge, Slot, State, Watch, number_of};
use super::{Place, SpaceAddress};
use bytes::Bytes;
use phalanx_core::error::SpaceError;
use phalanx_core::level::{Agreed, Mark};
use phalanx_core::space::{Options, RequestId};
use phalanx_core::wire::space::{FromSpace, ToSpace};
use phalanx_core::wire::{decode, encode};
use phalanx_net::frames::Frame;
use phalanx_net::link::{Link, LinkError, Reader};
use phalanx_net::sync::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long the connection's own thread reads before it looks whether it is still needed.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes that wait to be written beyond which whoever asks waits.
const MOST_WAITING: usize = 16 << 20;
/// How long is read or written in turn where both are to be done.
const TURN: Duration = Duration::from_millis(10);
/// A space from which nothing has come for so long does not send what is waited for.
pub const SILENT: Duration = Duration::from_secs(1);
/// For a space to say what became of a request that is given up.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(1);
/// The same where nobody may be kept waiting.
const SOON: Duration = Duration::from_millis(50);
/// How often the connection's own thread looks whether the connection is still there.
const IDLE: Duration = Duration::from_secs(1);
/// For a space to say that it knows what arrived here.
const CLOSING: Duration = Duration::from_secs(1);

/// A connection to one space.
pub struct Client {
    link: Arc<Link>,
    mark: Mark,
    created: bool,
    members: Vec<String>,
    identity: u128,
    /// Bytes of a message's body beyond which the space would hang up.
    most_body: u64,
    address: SpaceAddress,
    agreed: Agreed,
    pub(super) state: Mutex<State>,
    next: AtomicU64,
    connect: Connect,
    /// A request was given up and the space has not yet said what became of it.
    is_slow: AtomicBool,
    /// Of a durable space.
    takes: Option<Arc<Takes>>,
    pub(super) is_looked_after: AtomicBool,
    /// How much has come, and when it was first seen to be so much.
    heard: Mutex<(u64, Instant)>,
}

impl Client {
    /// Reaches a server; [`Client::open`] is to follow.
    pub(super) fn reach(address: SpaceAddress, connect: &Connect) -> Result<Client, ClientError> {
        let Reached { link, reader, agreed } = reach(&address.place, connect)?;
        let (state, next) = (Mutex::new(State::new(reader)), AtomicU64::new(1));
        let (connect, takes) = (connect.clone(), None);
        let (is_slow, is_looked_after) = (AtomicBool::new(false), AtomicBool::new(false));
        let (mark, created, most_body, members) = (Mark::Data, false, MOST_BODY, Vec::new());
        Ok(Client {
            link,
            mark,
            created,
            most_body,
            members,
            identity: 0,
            address,
            agreed,
            state,
            next,
            connect,
            is_slow,
            takes,
            is_looked_after,
            heard: Mutex::new((0, Instant::now())),
        })
    }

    /// The name in the certificate of the server that was reached; empty: it has none.
    pub(super) fn ask_name(&self) -> Result<String, ClientError> {
        match self.ask_first(|request| ToSpace::Name { request })? {
            FromSpace::Name { name, .. } => Ok(name),
            _ => Err(self.ended("it does not speak this protocol")),
        }
    }

    /// Opens the space, or makes it.
    pub(super) fn open(mut self, create: Option<Options>) -> Result<Arc<Client>, ClientError> {
        let name = self.address.name.clone();
        let asked = create.clone().unwrap_or_default();
        let FromSpace::Opened { secure, created, durable, most_body, members, identity, .. } =
            self.ask_first(|request| ToSpace::Open { request, name, create })?
        else {
            return Err(self.ended("it does not speak this protocol"));
        };
        let is_not = |what| SpaceError::NotKept(format!("{} is there already, and is not {what}", self.address));
        if !asked.replicas.is_empty() && members.is_empty() {
            return Err(is_not("replicated").into());
        }
        if asked.durable && !durable {
            return Err(is_not("durable").into());
        }
        (self.created, self.most_body, self.identity) = (created, most_body, identity);
        self.mark = if secure { Mark::Data } else { Mark::None };
        let places: Result<Vec<Place>, _> = members.iter().map(|address| address.parse()).collect();
        self.connect.members = places.map_err(|_| self.ended("it does not speak this protocol"))?;
        self.members = members;
        if durable {
            let takes = self.takes.insert(Arc::new(Takes::new()));
            let known = ToSpace::Known { client: takes.client() };
            self.tell(&known);
        }
        let client = Arc::new(self);
        if durable {
            ending::remember(&client);
        }
        if !client.members.is_empty() {
            client.look_after();
        }
        Ok(client)
    }

    /// One of the first questions, or one that is answered as soon.
    pub(super) fn ask_first(&self, message: impl FnOnce(RequestId) -> ToSpace) -> Result<FromSpace, ClientError> {
        let request = self.ask(message, Vec::new())?;
        match self.wait(request, self.connect.patience) {
            Some(Err(ClientError::Ended { .. })) => {
                let why = "refused this user (its server's own output says why)";
                Err(ClientError::Unreachable(format!("{} {why}", self.address)))
            }
            Some(answer) => answer.map(|answer| answer.message),
            None => Err(ClientError::Unreachable(format!("{} does not answer", self.address))),
        }
    }

    /// The addresses of the members that keep the space together; none: its server alone does.
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// The space's number, drawn by chance: a space that is made anew at the same address has another one.
    pub fn identity(&self) -> u128 {
        self.identity
    }

    /// Whether what it answers is on a disk.
    pub fn is_durable(&self) -> bool {
        self.takes.is_some()
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// How it was reached, and who the members are that keep the space together.
    pub(super) fn reached_by(&self) -> &Connect {
        &self.connect
    }

    /// The space's address.
    pub fn address(&self) -> &SpaceAddress {
        &self.address
    }

    /// Whether the connection has ended, so that nothing can be asked over it any more.
    pub fn has_ended(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// For how long nothing has come, as far as somebody has looked.
    pub fn silence(&self) -> Duration {
        let received = self.link.counters().received.load(Ordering::Relaxed);
        let mut heard = lock(&self.heard);
        if heard.0 != received {
            *heard = (received, Instant::now());
        }
        heard.1.elapsed()
    }

    /// Whether it was made for this client.
    pub fn created(&self) -> bool {
        self.created
    }

    /// What its tuples travel as.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// How the link is protected, and why.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Sends a request, whose number is given to `message`; [`Client::wait`] must follow.
    pub fn ask(&self, message: impl FnOnce(RequestId) -> ToSpace, body: Vec<Bytes>) -> Result<RequestId, ClientError> {
        self.begin(message, body, Slot::Waited(None))
    }

    /// Sends a request whose answer goes to `done`; cancelled ones are answered too. Where no answer has come `until` then, it is
    /// [`ClientError::Late`], and what the request takes later goes back.
    pub fn start(
        self: &Arc<Self>,
        message: impl FnOnce(RequestId) -> ToSpace,
        body: Vec<Bytes>,
        until: Option<Instant>,
        done: Done,
    ) -> Result<RequestId, ClientError> {
        let request = self.begin(message, body, Slot::Begun(done, until))?;
        self.pump()?;
        Ok(request)
    }

    /// Sends something that has no answer; what [`Client::has_left`] may be asked with.
    pub fn tell(&self, message: &ToSpace) -> u64 {
        let end = self.link.queue(self.mark, encode(message, 0), Vec::new());
        if let (Some(takes), ToSpace::Ack { request } | ToSpace::GiveBack { request }) = (&self.takes, message) {
            // After it was queued: requests from the next number on are behind it.
            let kept = matches!(message, ToSpace::Ack { .. });
            takes.on_settled(*request, kept, self.next.load(Ordering::Acquire));
        }
        if matches!(message, ToSpace::Ack { .. }) {
            let state = lock(&self.state); // held: no request is sent meanwhile
            if state.requests.is_empty() && state.watches.is_empty() {
                // Nobody waits for it. (A process that dies with unread bytes takes back what the system holds for it.)
                self.link.flush_with_next();
                return end;
            }
        }
        self.link.flush();
        end
    }

    /// Whether what was told has left this process, after up to `pause`: much may be before it. True, too, where the
    /// connection has ended.
    pub fn has_left(&self, told: u64, pause: Duration) -> bool {
        let deadline = Instant::now() + pause;
        let left = || self.link.is_written(told) || self.link.is_closed();
        // A server that finds nobody to read its answers reads nothing either: so they are read meanwhile.
        while !left() && Instant::now() < deadline {
            self.wait_for(TURN, |_, _| left().then_some(()));
        }
        left()
    }

    /// Looks whether the connection has ended meanwhile, which nobody sees while nobody reads.
    pub fn look(&self) {
        let reader = lock(&self.state).reader.take();
        reader.into_iter().for_each(|reader| self.read(reader, LOOK));
    }

    /// Waits for the answer to a request; none: `pause` passed, and it may be waited for again.
    pub fn wait(&self, request: RequestId, pause: Duration) -> Option<Result<Answer, ClientError>> {
        self.wait_for(pause, |state, thread| match state.requests.get_mut(&request) {
            Some(Slot::Answered(_)) => match state.requests.remove(&request) {
                Some(Slot::Answered(answer)) => Some(answer),
                _ => None,
            },
            Some(Slot::Waited(waiting)) => {
                *waiting = thread;
                None
            }
            _ => Some(Err(self.ended("there is no such request"))),
        })
    }

    /// Gives up a taking or reading request that waits. What came in its place is given: it is to be acknowledged or given
    /// back. An error: nothing was taken.
    pub fn cancel(self: &Arc<Self>, request: RequestId) -> Result<Answer, ClientError> {
        self.cancel_within(request, CANCEL_PATIENCE).unwrap_or(Err(SpaceError::Cancelled.into()))
    }

    /// The same without waiting long for a space that is slow; none: it has not said what became of it.
    pub fn cancel_soon(self: &Arc<Self>, request: RequestId) -> Option<Result<Answer, ClientError>> {
        let patience = if self.is_slow.load(Ordering::Relaxed) { Duration::ZERO } else { SOON };
        self.cancel_within(request, patience)
    }

    /// What a space that is slow sends later is given back then.
    fn cancel_within(self: &Arc<Self>, request: RequestId, patience: Duration) -> Option<Result<Answer, ClientError>> {
        self.tell(&ToSpace::Cancel { request });
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.wait(request, PAUSE.min(left)) {
                Some(answer) => return Some(answer),
                None if left > Duration::ZERO => {}
                None => {
                    self.is_slow.store(true, Ordering::Relaxed);
                    self.abandon(request);
                    return None;
                }
            }
        }
    }

    /// Forgets a request that nobody waits for any more, and gives back what it may take.
    pub fn abandon(self: &Arc<Self>, request: RequestId) {
        let client = Arc::downgrade(self);
        let give_back = move |answer: Result<Answer, ClientError>| {
            let Some(client) = client.upgrade() else { return };
            client.is_slow.store(false, Ordering::Relaxed);
            if answer.is_ok() {
                client.tell(&ToSpace::GiveBack { request });
            }
        };
        let mut state = lock(&self.state);
        match state.requests.remove(&request) {
            Some(Slot::Answered(answer)) => {
                drop(state);
                give_back(answer);
            }
            Some(Slot::Waited(_)) => {
                state.begun += 1;
                state.requests.insert(request, Slot::Begun(Box::new(give_back), None));
                drop(state);
                let _ = self.pump();
            }
            _ => {}
        }
    }

    /// [`Client::cancel`] of a request that was begun. `true`: nothing was taken, and the function is not called.
    pub fn cancel_begun(self: &Arc<Self>, request: RequestId) -> bool {
        let done = {
            let mut state = lock(&self.state);
            match state.requests.remove(&request) {
                Some(Slot::Begun(done, _)) => {
                    state.begun -= 1;
                    state.requests.insert(request, Slot::Waited(None));
                    done
                }
                Some(other) => {
                    state.requests.insert(request, other);
                    return false;
                }
                None => return false,
            }
        };
        // Whoever cancels may be an event loop, which waits for a slow space once at most.
        match self.cancel_soon(request) {
            None | Some(Err(ClientError::Space(SpaceError::Cancelled) | ClientError::Ended { .. })) => true,
            Some(answer) => {
                done(answer);
                false
            }
        }
    }

    /// Gives up requests that were begun and whose time is over, where nothing comes at all.
    fn give_up_late(self: &Arc<Self>) {
        if self.silence() < SILENT {
            return;
        }
        let late = lock(&self.state).take_late(Instant::now());
        for (request, done) in late {
            self.tell(&ToSpace::Cancel { request });
            self.abandon(request);
            done(Err(ClientError::Late { space: self.address.to_string() }));
        }
    }

    /// Begins to collect the events of a watch; [`Client::wait`] must follow.
    pub fn watch(
        self: &Arc<Self>,
        message: impl FnOnce(RequestId) -> ToSpace,
        body: Vec<Bytes>,
        nudge: Option<Nudge>,
    ) -> Result<RequestId, ClientError> {
        let (request, reads) = (self.next(), nudge.is_some());
        let mut state = lock(&self.state);
        state.begun += usize::from(reads);
        state.watches.insert(request, Watch { nudge, ..Watch::default() });
        drop(state);
        if let Err(error) = self.send(request, message(request), body, Slot::Waited(None)) {
            self.forget(request);
            return Err(error);
        }
        if reads {
            self.pump()?;
        }
        Ok(request)
    }

    /// The events of a watch that have come, as soon as there are some; none: `pause` passed.
    pub fn events(&self, watch: RequestId, pause: Duration) -> Option<Result<Vec<Event>, ClientError>> {
        self.wait_for(pause, |state, thread| {
            let Some(found) = state.watches.get_mut(&watch) else {
                return Some(Err(self.ended("the watch has ended")));
            };
            found.nudged = false;
            if !found.events.is_empty() {
                found.bytes = 0;
                return Some(Ok(found.events.drain(..).collect()));
            }
            found.waiting = thread;
            found.failed.clone().map(Err)
        })
    }

    /// Events that were given and not used come again, before all others.
    pub fn put_back(&self, watch: RequestId, events: VecDeque<Event>) {
        let mut state = lock(&self.state);
        let Some(found) = state.watches.get_mut(&watch) else { return };
        for event in events.into_iter().rev() {
            found.bytes += event.1.len();
            found.events.push_front(event);
        }
        let nudge = found.tell();
        drop(state);
        nudge.inspect(|nudge| nudge());
    }

    /// Ends a watch here; the space is to be told. Whoever waits for its events gets an error.
    pub fn forget(&self, watch: RequestId) {
        let mut state = lock(&self.state);
        let Some(mut forgotten) = state.watches.remove(&watch) else { return };
        state.begun -= usize::from(forgotten.nudge.is_some());
        drop(state);
        forgotten.tell().inspect(|nudge| nudge());
    }

    /// Ends the connection, and with an error whatever waits.
    pub fn close(&self) {
        self.confirm(CLOSING);
        self.end("it was closed here");
    }

    /// Waits until the space knows that the tuples taken last have arrived, for `patience` at most: this process may be about to
    /// end. `false`: the space does not know it yet.
    pub(super) fn confirm(&self, patience: Duration) -> bool {
        let is_unconfirmed = || self.takes.as_ref().is_some_and(|takes| takes.is_unconfirmed());
        if is_unconfirmed() && !self.has_ended() {
            let back = |request| ToSpace::Back { request, client: 0, open: Vec::new() };
            let _ = self.ask(back, Vec::new()).map(|request| self.wait(request, patience));
        }
        !is_unconfirmed()
    }

    /// [`Client::close`]; where several members keep the space, waits so long at most for one of them to hear what arrived.
    /// `false`: none has yet.
    pub fn leave(&self, patience: Duration) -> bool {
        self.close();
        self.takes.as_ref().is_none_or(|takes| self.members.is_empty() || takes.wait_until_said(patience))
    }

    fn next(&self) -> RequestId {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn begin(
        &self,
        message: impl FnOnce(RequestId) -> ToSpace,
        body: Vec<Bytes>,
        slot: Slot,
    ) -> Result<RequestId, ClientError> {
        let request = self.next();
        self.send(request, message(request), body, slot).map(|()| request)
    }

    fn send(&self, request: RequestId, message: ToSpace, body: Vec<Bytes>, slot: Slot) -> Result<(), ClientError> {
        let bytes = body.iter().map(|piece| piece.len() as u64).sum();
        if bytes > self.most_body {
            let (what, most) = ("bytes in one message".to_owned(), self.most_body);
            return Err(SpaceError::Full { what, most }.into());
        }
        let mut state = lock(&self.state);
        if let Some(why) = &state.ended {
            return Err(self.ended(why));
        }
        let begun = matches!(slot, Slot::Begun(..));
        state.begun += usize::from(begun);
        state.requests.insert(request, slot);
        drop(state);
        self.takes.iter().for_each(|takes| takes.on_ask(request, &message));
        self.link.queue(self.mark, encode(&message, bytes), body);
        self.link.flush();
        // Who waits for the answer writes the rest; nobody does where it was only begun.
        while begun && self.link.waiting_bytes() > MOST_WAITING && self.link.finish(PAUSE).is_ok() {}
        Ok(())
    }

    /// Waits until `look` finds something, which is given a thread to be woken when there may be more to find. Reads the
    /// link as long as no other thread does.
    fn wait_for<T>(&self, pause: Duration, mut look: impl FnMut(&mut State, Option<Thread>) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + pause;
        let mut parked = None;
        loop {
            let mut state = lock(&self.state);
            parked.take().inspect(|number| drop(state.parked.remove(number)));
            let found = look(&mut state, None);
            if found.is_some() || Instant::now() >= deadline {
                state.hand_over();
                return found;
            }
            if let Some(reader) = state.reader.take() {
                drop(state);
                self.read(reader, pause);
            } else {
                let _ = look(&mut state, Some(thread::current()));
                parked = Some(state.park());
                drop(state);
                match self.link.is_blocked() {
                    true => drop(self.link.finish(pause.min(TURN))), // who reads may wait for what this one asks
                    false => thread::park_timeout(pause),
                }
            }
        }
    }

    /// Reads once, with what must be written before there can be an answer.
    fn read(&self, mut reader: Reader, pause: Duration) {
        let mut calls = Vec::new();
        let outcome = self.receive(&mut reader, pause, &mut |frame| match self.on_frame(frame) {
            Call::Nothing => {}
            call => calls.push(call),
        });
        let mut state = lock(&self.state);
        state.reader = Some(reader);
        // What is called may ask the space something: somebody else reads meanwhile.
        if !calls.is_empty() {
            state.hand_over();
        }
        drop(state);
        if let Err(error) = outcome {
            self.end(&match error {
                LinkError::Ended | LinkError::Closed => {
                    "the server is gone, or does not serve this user any more".into()
                }
                error => error.to_string(),
            });
        }
        calls.into_iter().for_each(Call::make);
    }

    /// Writes what is still to be written, and waits for what comes.
    fn receive(&self, reader: &mut Reader, pause: Duration, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        let end = Instant::now() + pause;
        while self.link.is_blocked() {
            let left = end.saturating_duration_since(Instant::now());
            if self.link.finish_or_hear(left)? {
                return reader.read_all(on_frame);
            }
            if left.is_zero() {
                return Ok(());
            }
        }
        reader.receive(pause, on_frame)
    }

    /// Keeps what came; what is to be called when this thread does not read any more.
    fn on_frame(&self, frame: Frame) -> Call {
        let decoded = decode::<FromSpace>(&frame.header);
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return Call::Nothing; // whoever waited for it has been told so: nothing arrived
        }
        if let (Some(takes), Ok(message)) = (&self.takes, &decoded) {
            takes.on_answer(number_of(message), message);
        }
        match decoded {
            Ok(FromSpace::Event { watch, sequence }) => {
                state.on_event(watch, sequence, frame.body).map_or(Call::Nothing, Call::Nudge)
            }
            Ok(FromSpace::Beat) => Call::Nothing,
            Ok(FromSpace::Failed { request, error }) => state.answer(request, Err(error.into())),
            Ok(message) => state.answer(number_of(&message), Ok(Answer { message, body: frame.body })),
            Err(_) => {
                drop(state);
                self.link.close();
                Call::Nothing
            }
        }
    }

    /// Ends everything with an error.
    pub(super) fn end(&self, why: &str) {
        self.link.close();
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(why.to_owned());
        let open: Vec<_> = state.requests.keys().copied().collect();
        let calls: Vec<_> = open.into_iter().map(|it| state.answer(it, Err(self.ended(why)))).collect();
        let nudges: Vec<_> = state.watches.values_mut().filter_map(|watch| watch.fail(self.ended(why))).collect();
        drop(state);
        self.come_back();
        nudges.into_iter().for_each(|nudge| nudge());
        calls.into_iter().for_each(Call::make);
    }

    fn come_back(&self) {
        self.takes.iter().for_each(|takes| takes.clone().come_back(&self.address, &self.connect));
    }

    pub(super) fn ended(&self, why: &str) -> ClientError {
        ClientError::Ended { space: self.address.to_string(), why: why.to_owned() }
    }

    /// Reads for requests that no thread waits for.
    fn pump(self: &Arc<Self>) -> Result<(), ClientError> {
        let mut state = lock(&self.state);
        if state.pump.is_some() {
            if std::mem::take(&mut state.pump_idles) {
                state.pump.as_ref().inspect(|pump| pump.unpark());
            }
            return Ok(());
        }
        let weak = Arc::downgrade(self);
        let started = thread::Builder::new().name("phalanx-space".into()).spawn(move || Client::read_on(&weak));
        let started = started.map_err(|error| self.ended(&error.to_string()))?;
        state.pump = Some(started.thread().clone());
        Ok(())
    }

    fn read_on(weak: &Weak<Client>) {
        while let Some(client) = weak.upgrade() {
            let idle = client.wait_for(PAUSE, |state, _| {
                state.pump_idles = state.begun == 0;
                state.pump_idles.then_some(())
            });
            if lock(&client.state).ended.is_some() {
                return;
            }
            if idle.is_none() {
                client.give_up_late();
                client.look_after();
            }
            drop(client);
            if idle.is_some() {
                thread::park_timeout(IDLE);
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.link.close();
        if !self.has_ended() && !self.link.is_copy() {
            self.come_back();
        }
    }
}
