//! A connection to a space, shared by all threads of a process.
//!
//! A thread that waits for an answer reads the link itself unless another thread already does. The reading thread hands the
//! others their answers. So a question costs one thread and no wake-up. Requests begun with a callback have no waiting thread;
//! for these, one thread of the connection (the pump) reads.

use super::bounds::MOST_BODY;
use super::connect::{Connect, Reached, reach};
use super::ending;
use super::error::ClientError;
use super::takes::Takes;
use super::waiting::{Answer, Call, Done, Event, Nudge, Slot, State, Watch, number_of};
use super::{Place, SpaceAddress};
use crate::dial::check_version;
use bytes::Bytes;
use phalanx_core::error::SpaceError;
use phalanx_core::level::{Agreed, Mark};
use phalanx_core::space::{Options, RequestId};
use phalanx_core::wire::space::{FromSpace, ToSpace};
use phalanx_core::wire::{decode, encode};
use phalanx_net::frames::{Frame, Gate};
use phalanx_net::link::{Link, LinkError, Reader};
use phalanx_net::sync::lock;
use serde::Deserialize;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long the pump reads before it checks whether it is still needed.
const PAUSE: Duration = Duration::from_millis(200);
/// A caller waits while more bytes than this wait to be written.
const MOST_WAITING: usize = 16 << 20;
/// Turn of reading or of writing, where a thread has to do both.
const TURN: Duration = Duration::from_millis(10);
/// When nothing has come from the space for this long, a request past its time is given up.
pub const SILENT: Duration = Duration::from_secs(1);
/// How long a caller waits for the space to say what became of a cancelled request.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(1);
/// The same patience where the caller must not block for long, for example an event loop.
const SOON: Duration = Duration::from_millis(50);
/// How often the idle pump checks whether the connection still exists.
const IDLE: Duration = Duration::from_secs(1);
/// On closing, how long to wait for the space to confirm that it knows which tuples arrived here.
const CLOSING: Duration = Duration::from_secs(1);

/// A connection to one space.
pub struct Client {
    link: Arc<Link>,
    mark: Mark,
    created: bool,
    members: Vec<String>,
    names: Vec<String>,
    identity: u128,
    /// Most bytes in the body of a message; the space disconnects a client that sends more.
    most_body: u64,
    address: SpaceAddress,
    agreed: Agreed,
    peer: Option<String>,
    pub(super) state: Mutex<State>,
    next: AtomicU64,
    connect: Connect,
    /// A request was cancelled, and the space has not said yet what became of it.
    is_slow: AtomicBool,
    /// Only for a durable space.
    takes: Option<Arc<Takes>>,
    pub(super) is_looked_after: AtomicBool,
    /// Bytes received so far, and when this count was first seen.
    heard: Mutex<(u64, Instant)>,
    /// Most bytes in the body of an answer. Shared with the gate of the reader.
    most_answer: Arc<AtomicU64>,
}

impl Client {
    /// Connects to a server. [`Client::open`] must follow.
    pub(super) fn reach(address: SpaceAddress, connect: &Connect) -> Result<Client, ClientError> {
        let Reached { link, reader, agreed, peer } = reach(&address.place, connect)?;
        let (state, next) = (Mutex::new(State::new(reader)), AtomicU64::new(1));
        let (connect, takes) = (connect.clone(), None);
        let (is_slow, is_looked_after) = (AtomicBool::new(false), AtomicBool::new(false));
        let (mark, created, most_body, members, names) = (Mark::Data, false, MOST_BODY, Vec::new(), Vec::new());
        Ok(Client {
            link,
            mark,
            created,
            most_body,
            members,
            names,
            identity: 0,
            address,
            agreed,
            peer,
            state,
            next,
            connect,
            is_slow,
            takes,
            is_looked_after,
            heard: Mutex::new((0, Instant::now())),
            most_answer: Arc::new(AtomicU64::new(u64::MAX)),
        })
    }

    /// The name in the certificate of the server that was reached; empty if it has none.
    pub fn ask_name(&self) -> Result<String, ClientError> {
        match self.ask_first(|request| ToSpace::Name { request })? {
            FromSpace::Name { name, .. } => Ok(name),
            _ => Err(self.ended("it does not speak this protocol")),
        }
    }

    /// Opens the space, or creates it.
    pub(super) fn open(mut self, create: Option<Options>) -> Result<Arc<Client>, ClientError> {
        let name = self.address.name.clone();
        let asked = create.clone().unwrap_or_default();
        let FromSpace::Opened { phalanx, secure, created, durable, most_body, members, identity, .. } =
            self.ask_first(|request| ToSpace::Open { request, name, create })?
        else {
            return Err(self.ended("it does not speak this protocol"));
        };
        check_version(&self.address, &phalanx).map_err(ClientError::Unreachable)?;
        let is_not = |what| SpaceError::NotKept(format!("{} is there already, and is not {what}", self.address));
        if !asked.replicas.is_empty() && members.is_empty() {
            return Err(is_not("replicated").into());
        }
        if asked.durable && !durable {
            return Err(is_not("durable").into());
        }
        (self.created, self.most_body, self.identity) = (created, most_body, identity);
        self.mark = if secure { Mark::Data } else { Mark::None };
        let places: Result<Vec<Place>, _> = members.iter().map(|member| member.address.parse()).collect();
        self.connect.members = places.map_err(|_| self.ended("it does not speak this protocol"))?;
        (self.names, self.members) = members.into_iter().map(|member| (member.name, member.address)).unzip();
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
        let (weak, most) = (Arc::downgrade(&client), client.most_answer.clone());
        let gate: Gate = Box::new(move |header, bytes| {
            let is_short = bytes <= most.load(Ordering::Relaxed);
            if !is_short {
                weak.upgrade().into_iter().for_each(|client| client.refuse(header, bytes));
            }
            is_short
        });
        if let Some(reader) = lock(&client.state).reader.as_mut() {
            reader.set_gate(gate);
        }
        let weak = Arc::downgrade(&client);
        client.link.read_when_idle(move || weak.upgrade().into_iter().for_each(|client| client.read_if_idle()));
        Ok(client)
    }

    /// Asks one of the first questions, or another that the server answers at once.
    pub(super) fn ask_first(&self, message: impl FnOnce(RequestId) -> ToSpace) -> Result<FromSpace, ClientError> {
        let request = self.ask(message, Vec::new())?;
        match self.wait(request, self.connect.patience) {
            Some(Err(ClientError::Ended { .. })) if self.link.why_ended().is_none() => {
                let why = "refused this user (its server's own output says why)";
                Err(ClientError::Unreachable(format!("{} {why}", self.address)))
            }
            Some(answer) => answer.map(|answer| answer.message),
            None => Err(ClientError::Unreachable(format!("{} does not answer", self.address))),
        }
    }

    /// The addresses of the members that replicate the space; empty if one server alone keeps it.
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// The names in the certificates of these members, in the same order, as the member that leads says.
    pub fn names_of_members(&self) -> &[String] {
        &self.names
    }

    /// The space's random number. A space that is created anew at the same address has another one.
    pub fn identity(&self) -> u128 {
        self.identity
    }

    /// Whether the space's answers are on a disk before they are sent.
    pub fn is_durable(&self) -> bool {
        self.takes.is_some()
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// How the server was reached, and the members that replicate the space.
    pub(super) fn reached_by(&self) -> &Connect {
        &self.connect
    }

    /// The name in the server's certificate. `None`: it showed none, because it is a process of this user.
    pub fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }

    /// The space's address.
    pub fn address(&self) -> &SpaceAddress {
        &self.address
    }

    /// From now on, answers with more than `most` bytes of tuples are refused before their bytes are in memory. A request gets
    /// [`ClientError::TooLong`], and what it has taken is given back. A watch gets an event without bytes.
    pub fn refuse_longer(&self, most: u64) {
        self.most_answer.store(most, Ordering::Relaxed);
    }

    /// Most bytes of tuples in an answer that this client takes.
    pub fn most_answer(&self) -> u64 {
        self.most_answer.load(Ordering::Relaxed)
    }

    /// Whether the connection has ended, so that nothing can be asked over it any more.
    pub fn has_ended(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// For how long nothing has arrived. It is only as exact as the calls are frequent, because it is updated by each call.
    pub fn silence(&self) -> Duration {
        let received = self.link.counters().received.load(Ordering::Relaxed);
        let mut heard = lock(&self.heard);
        if heard.0 != received {
            *heard = (received, Instant::now());
        }
        heard.1.elapsed()
    }

    /// Whether the space was created for this client.
    pub fn created(&self) -> bool {
        self.created
    }

    /// The mark that its tuples travel with.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// How the link is protected, and why.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Sends a request; `message` is given its number. [`Client::wait`] must follow.
    pub fn ask(&self, message: impl FnOnce(RequestId) -> ToSpace, body: Vec<Bytes>) -> Result<RequestId, ClientError> {
        self.begin(message, body, Slot::Waited(None))
    }

    /// Sends a request whose answer goes to `done`, also if the request is cancelled. If no answer has come at `until` and the
    /// space is silent, `done` gets [`ClientError::Late`]. Whatever the request takes later is given back.
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

    /// Sends a message that has no answer. Returns a position for [`Client::has_left`].
    pub fn tell(&self, message: &ToSpace) -> u64 {
        let end = self.link.queue(self.mark, encode(message, 0), Vec::new());
        if let (Some(takes), ToSpace::Ack { request } | ToSpace::GiveBack { request }) = (&self.takes, message) {
            // This follows the queueing, so requests from the next number on are behind this message.
            let kept = matches!(message, ToSpace::Ack { .. });
            takes.on_settled(*request, kept, self.next.load(Ordering::Acquire));
        }
        if matches!(message, ToSpace::Ack { .. }) {
            let state = lock(&self.state); // held, so that no request is sent meanwhile
            if state.requests.is_empty() && state.watches.is_empty() {
                // Nobody waits for this message, so it may travel with the next one. (A process that dies with unread bytes
                // also loses the bytes that the system still holds to send for it.)
                self.link.flush_with_next();
                return end;
            }
        }
        self.link.flush();
        end
    }

    /// Whether the message that [`Client::tell`] returned `told` for has left this process, after waiting up to `pause`. Much
    /// may be queued before it. Also true if the connection has ended.
    pub fn has_left(&self, told: u64, pause: Duration) -> bool {
        let deadline = Instant::now() + pause;
        let left = || self.link.is_written(told) || self.link.is_closed();
        // A server whose answers are not read stops reading too. So this thread reads answers meanwhile.
        while !left() && Instant::now() < deadline {
            self.wait_for(TURN, |_, _| left().then_some(()));
        }
        left()
    }

    /// Checks whether the connection has ended, which goes unnoticed while no thread reads.
    pub fn look(&self) {
        let reader = lock(&self.state).reader.take();
        reader.into_iter().for_each(|reader| self.read(reader, LOOK));
    }

    /// Waits for the answer to a request. `None`: `pause` passed; the request may be waited for again.
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

    /// Cancels a waiting take or read request. If a tuple came first, it is returned, and the caller must acknowledge it or
    /// give it back. An error means that nothing was taken.
    pub fn cancel(self: &Arc<Self>, request: RequestId) -> Result<Answer, ClientError> {
        self.cancel_within(request, CANCEL_PATIENCE).unwrap_or(Err(SpaceError::Cancelled.into()))
    }

    /// The same without waiting long for a slow space. `None`: the space has not said what became of the request.
    pub fn cancel_soon(self: &Arc<Self>, request: RequestId) -> Option<Result<Answer, ClientError>> {
        let patience = if self.is_slow.load(Ordering::Relaxed) { Duration::ZERO } else { SOON };
        self.cancel_within(request, patience)
    }

    /// What a slow space sends after `patience` is given back.
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

    /// [`Client::cancel`] for a request begun with a callback. `true`: nothing was taken, and the callback is not called.
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
        // The caller may be an event loop, so it waits for a slow space at most once.
        match self.cancel_soon(request) {
            None | Some(Err(ClientError::Space(SpaceError::Cancelled) | ClientError::Ended { .. })) => true,
            Some(answer) => {
                done(answer);
                false
            }
        }
    }

    /// Gives up the begun requests that are past their time, if nothing at all arrives from the space.
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

    /// Begins to collect the events of a watch. [`Client::wait`] must follow.
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

    /// The events of a watch that have arrived; waits for the first one. `None`: `pause` passed.
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

    /// Puts back events that were handed out and not used. They come before all others the next time.
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

    /// Ends a watch on this side; the caller must tell the space. A thread that waits for its events gets an error.
    pub fn forget(&self, watch: RequestId) {
        let mut state = lock(&self.state);
        let Some(mut forgotten) = state.watches.remove(&watch) else { return };
        state.begun -= usize::from(forgotten.nudge.is_some());
        drop(state);
        forgotten.tell().inspect(|nudge| nudge());
    }

    /// Ends the connection. All that waits on it gets an error.
    pub fn close(&self) {
        self.confirm(CLOSING);
        self.end("it was closed here");
    }

    /// Waits until the space knows that the last taken tuples have arrived, for `patience` at most, because this process may be
    /// about to end. `false`: the space does not know it yet.
    pub(super) fn confirm(&self, patience: Duration) -> bool {
        let is_unconfirmed = || self.takes.as_ref().is_some_and(|takes| takes.is_unconfirmed());
        if is_unconfirmed() && !self.has_ended() {
            let back = |request| ToSpace::Back { request, client: 0, open: Vec::new() };
            let _ = self.ask(back, Vec::new()).map(|request| self.wait(request, patience));
        }
        !is_unconfirmed()
    }

    /// [`Client::close`]. If the space is replicated, also waits up to `patience` until one member has heard which tuples
    /// arrived. `false`: none has yet.
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
        // A thread that waits for the answer also writes the rest. A request begun with a callback has no such thread, so its
        // caller writes here.
        while begun && self.link.waiting_bytes() > MOST_WAITING && self.link.finish(PAUSE).is_ok() {}
        Ok(())
    }

    /// Waits until `look` finds something. `look` is also given a thread to wake when there may be more to find. The caller
    /// reads the link while no other thread does.
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
                    // the reading thread may wait for the answer to what this thread still has to write
                    true => drop(self.link.finish(pause.min(TURN))),
                    false => thread::park_timeout(pause),
                }
            }
        }
    }

    /// Reads once, after writing whatever must be sent before an answer can come.
    fn read(&self, reader: Reader, pause: Duration) {
        self.read_quietly(reader, pause).into_iter().for_each(Call::make);
    }

    /// The same, without making the callbacks, which it returns.
    fn read_quietly(&self, mut reader: Reader, pause: Duration) -> Vec<Call> {
        let mut calls = Vec::new();
        let outcome = self.receive(&mut reader, pause, &mut |frame| match self.on_frame(frame) {
            Call::Nothing => {}
            call => calls.push(call),
        });
        let mut state = lock(&self.state);
        state.reader = Some(reader);
        calls.extend(state.refused.drain(..).filter(|call| !matches!(call, Call::Nothing)));
        let unwanted = std::mem::take(&mut state.unwanted);
        // A callback may ask the space something, so another thread must read meanwhile.
        if !calls.is_empty() {
            state.hand_over();
        }
        drop(state);
        for request in unwanted {
            self.tell(&ToSpace::GiveBack { request });
        }
        if let Err(error) = outcome {
            calls.extend(
                self.end_quietly(&match error {
                    LinkError::Ended | LinkError::Closed => self
                        .link
                        .why_ended()
                        .unwrap_or_else(|| "the server is gone, or does not serve this user any more".into()),
                    error => error.to_string(),
                }),
            );
        }
        calls
    }

    /// Reads what has arrived while no thread waits for anything. The thread that calls this also ends the links of revoked
    /// members, so the server must not keep it: this reads for a turn only, and makes callbacks in another thread.
    fn read_if_idle(&self) {
        if !self.link.has_unread() {
            return;
        }
        let mut state = lock(&self.state);
        if state.begun > 0 {
            return; // the pump reads
        }
        let Some(reader) = state.reader.take() else { return };
        drop(state);
        let calls = self.read_quietly(reader, TURN);
        lock(&self.state).hand_over(); // a thread may have begun to wait meanwhile
        if !calls.is_empty() {
            let calls = Arc::new(Mutex::new(calls));
            let make = move || std::mem::take(&mut *lock(&calls)).into_iter().for_each(Call::make);
            if thread::Builder::new().name("phalanx-space".into()).spawn(make.clone()).is_err() {
                make();
            }
        }
    }

    /// Writes what is still to be written, and waits for frames.
    fn receive(&self, reader: &mut Reader, pause: Duration, on_frame: &mut impl FnMut(Frame)) -> Result<(), LinkError> {
        let end = Instant::now() + pause;
        while self.link.is_blocked() {
            let left = end.saturating_duration_since(Instant::now());
            if self.link.finish_or_hear(left)? {
                return reader.read_for(pause, on_frame);
            }
            if left.is_zero() {
                return Ok(());
            }
        }
        reader.receive(pause, on_frame)
    }

    /// Stores a frame. Returns the callback to make once this thread has stopped reading.
    fn on_frame(&self, frame: Frame) -> Call {
        let decoded = decode::<FromSpace>(&frame.header);
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return Call::Nothing; // the waiting caller has been told that nothing arrived
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
                let other = other_version(&frame.header);
                let why =
                    other.and_then(|(request, theirs)| Some((request, check_version(&self.address, &theirs).err()?)));
                let call = why.map(|(request, why)| state.answer(request, Err(ClientError::Unreachable(why))));
                drop(state);
                self.link.close();
                call.unwrap_or(Call::Nothing)
            }
        }
    }

    /// Refuses an answer that is too long, of which only the header has come. The thread that reads makes the callbacks, and gives
    /// back what was taken, once it has stopped reading.
    fn refuse(&self, header: &[u8], bytes: u64) {
        let Ok(message) = decode::<FromSpace>(header) else { return self.link.close() };
        let mut state = lock(&self.state);
        if let FromSpace::Event { watch, sequence } = message {
            let nudge = state.on_event(watch, sequence, Bytes::new());
            return state.refused.extend(nudge.map(Call::Nudge));
        }
        let request = number_of(&message);
        self.takes.iter().for_each(|takes| takes.on_answer(request, &message));
        let call = state.answer(request, Err(ClientError::TooLong { bytes, most: self.most_answer() }));
        state.refused.push(call);
        state.unwanted.push(request);
    }

    /// Ends the connection and everything that waits on it, with an error.
    pub(super) fn end(&self, why: &str) {
        self.end_quietly(why).into_iter().for_each(Call::make);
    }

    /// The same, without making the callbacks, which it returns.
    fn end_quietly(&self, why: &str) -> Vec<Call> {
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return Vec::new();
        }
        state.ended = Some(why.to_owned());
        self.link.close(); // not before: a thread that reads would say that the server is gone
        let open: Vec<_> = state.requests.keys().copied().collect();
        let mut calls: Vec<_> = open.into_iter().map(|it| state.answer(it, Err(self.ended(why)))).collect();
        calls.extend(state.watches.values_mut().filter_map(|watch| watch.fail(self.ended(why))).map(Call::Nudge));
        drop(state);
        self.come_back();
        calls.retain(|call| !matches!(call, Call::Nothing));
        calls
    }

    fn come_back(&self) {
        self.takes.iter().for_each(|takes| takes.clone().come_back(&self.address, &self.connect));
    }

    pub(super) fn ended(&self, why: &str) -> ClientError {
        ClientError::Ended { space: self.address.to_string(), why: why.to_owned() }
    }

    /// Starts or wakes the pump: the thread that reads for requests that no thread waits for.
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

/// The request and the version in an `Opened` whose other fields are those of another version.
fn other_version(header: &[u8]) -> Option<(RequestId, String)> {
    #[derive(Deserialize)]
    enum First {
        Opened { request: RequestId, phalanx: String },
    }
    let (First::Opened { request, phalanx }, _) = postcard::take_from_bytes(header).ok()?;
    Some((request, phalanx))
}

impl Drop for Client {
    fn drop(&mut self) {
        self.link.close();
        if !self.has_ended() && !self.link.is_copy() {
            self.come_back();
        }
    }
}
