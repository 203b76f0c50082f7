//! A session: one client's connection to one space. Each session runs in a thread of its own.

use super::bounds::MOST_BODY;
use super::budget::{Budget, Room};
use super::hosted::{Hosted, Told};
use super::outlet::Client;
use super::spaces::Spaces;
use super::visitor::Visitor;
use super::waiting::number_of as answered_by;
use super::{Place, Rights, Verb};
use bytes::Bytes;
use phalanx_core::error::SpaceError;
use phalanx_core::ids::{SessionId, TransactionId};
use phalanx_core::level::Mark;
use phalanx_core::space::{Asker, Coordinator, Get, Goal, Keeper, Limits, OutOptions, Outcome, Page, Question};
use phalanx_core::space::{HERE, MOST_CLIENTS, Pattern, Shares, Space, Spot, Template, Tuple, Whole};
use phalanx_core::space::{Reader as Fields, RequestId};
use phalanx_core::wire::decode;
use phalanx_core::wire::space::{FromSpace, ToSpace, Wait};
use phalanx_net::frames::{Frame, Gate};
use phalanx_net::link::{Finisher, Link, LinkError, Reader};
use phalanx_net::sync::lock;
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longest wait of a session's thread before it checks again whether the session should end.
const PAUSE: Duration = Duration::from_millis(500);
/// While more answer bytes than this wait for the client to read them, the session reads no further requests from it.
const MOST_ANSWERS: usize = 8 << 20;
/// The server disconnects a client that has read none of its waiting answers for this long.
const STUCK: Duration = Duration::from_secs(60);
/// Largest page of tuples, in tuples and in bytes, whatever the client asks for.
const MOST_PAGE: u32 = 1 << 16;
const MOST_PAGE_BYTES: u64 = 16 << 20;
/// Most tuples in one `out` message. The limit is a count because a tuple takes memory even when it has no bytes.
const MOST_OUT: u64 = 1 << 20;
/// Most bytes in a message body before a space is opened. No message of that phase needs a body.
pub(super) const MOST_UNOPENED: u64 = 4 << 10;
/// Bytes that a message body may have beyond the largest tuple. Several tuples share them where the limit for one tuple is low.
const MOST_BESIDE: u64 = 64 << 20;
/// A message that has begun ends the connection when no more of it arrives for this long.
const UNFINISHED: Duration = Duration::from_secs(60);
/// Time for a rejected client to send its first request, so that the server can answer it with the reason.
const FAREWELL: Duration = Duration::from_secs(5);

/// The server's side of one client's connection, before and after the client opens a space.
pub struct Session<'a> {
    spaces: &'a Spaces,
    visitor: &'a Visitor<'a>,
    /// Whether nobody on the way can read marked data.
    is_private: bool,
    client: Arc<Client>,
    budget: Arc<Budget>,
    opened: Option<Opened>,
    /// Answers held back until the changes they report are stable, and their approximate size in bytes.
    unsaid: Vec<Said>,
    unsaid_bytes: usize,
}

/// The session's place in the space it has opened.
struct Opened {
    space: Arc<Hosted>,
    id: SessionId,
    rights: Rights,
    user: Option<Arc<str>>,
    limits: Limits,
    most_tuples: u64,
    client: Arc<Client>,
    /// In a durable or replicated space: the log entries that must be stable before the session answers anything.
    unstable: Cell<Option<Told>>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut locked = self.space.lock();
        locked.close(self.id);
        locked.tick();
        let _ = locked.unlock().flush(); // the client is gone, so nobody would read the error
    }
}

type Said = (FromSpace, Vec<Bytes>);
type Answered = Result<Option<Said>, SpaceError>;

impl<'a> Session<'a> {
    pub fn new(
        spaces: &'a Spaces,
        visitor: &'a Visitor<'a>,
        is_private: bool,
        link: Arc<Link>,
        finisher: Arc<Finisher>,
        budget: Arc<Budget>,
    ) -> Session<'a> {
        let client = Arc::new(Client::new(link, finisher));
        let (unsaid, unsaid_bytes) = (Vec::new(), 0);
        Session { spaces, visitor, is_private, client, budget, opened: None, unsaid, unsaid_bytes }
    }

    /// Makes the gate that each message passes before its body is read. It waits until the budget has room for the body. If
    /// there is none, it answers with the error.
    fn gate(&self, room: Arc<Mutex<Option<Room>>>) -> Gate {
        let (budget, user, client) = (self.budget.clone(), self.visitor.user().cloned(), self.client.clone());
        Box::new(move |header, bytes| {
            let goes_on = || {
                client.write(); // earlier answers do not wait for room
                !client.link.is_closed()
            };
            match budget.wait_for_room(user.as_ref(), bytes, goes_on) {
                Ok(new) => *lock(&room) = new,
                Err(error) => {
                    let request = decode(header).map_or(0, |message| number_of(&message));
                    client.say(&FromSpace::Failed { request, error }, Vec::new());
                    client.write();
                    return false;
                }
            }
            true
        })
    }

    /// Serves the client until it disconnects or `ended` returns true. Returns why the session ended.
    pub fn run(mut self, mut reader: Reader, ended: impl Fn() -> bool) -> LinkError {
        let link = self.client.link.clone();
        let (mut received, mut since) = (0, Instant::now());
        let room = Arc::default();
        reader.set_gate(self.gate(Arc::clone(&room)));
        loop {
            let mut said_something = false;
            let outcome = reader.receive(PAUSE, &mut |frame| {
                self.wait_for_room();
                said_something |= self.on_frame(frame);
                lock(&room).take();
            });
            reader.set_most_body(self.most_body());
            let now = link.counters().received.load(Ordering::Relaxed);
            if now != received || !reader.is_within() {
                (received, since) = (now, Instant::now());
            } else if since.elapsed() > UNFINISHED {
                link.close();
            }
            if lock(&room).as_ref().is_some_and(Room::is_overdue) {
                link.close();
            }
            self.say_unsaid();
            if said_something {
                self.client.write();
            }
            if let Err(error) = outcome {
                link.close();
                return error;
            }
            if ended() {
                link.close();
            }
            self.end_watches_behind();
        }
    }

    /// Most bytes that the body of the next message may have.
    fn most_body(&self) -> u64 {
        let opened = self.opened.as_ref();
        opened.map_or(MOST_UNOPENED, |opened| opened.limits.bytes.saturating_add(MOST_BESIDE).min(MOST_BODY))
    }

    /// Blocks while too many answers wait for the client to read them, so that a slow reader slows itself down.
    fn wait_for_room(&self) {
        let link = &self.client.link;
        let mut since = Instant::now();
        let mut least = usize::MAX;
        while link.waiting_bytes() > MOST_ANSWERS && !link.is_closed() {
            link.flush();
            if link.finish(PAUSE).is_err() || since.elapsed() > STUCK {
                return link.close();
            }
            if link.waiting_bytes() < least {
                (least, since) = (link.waiting_bytes(), Instant::now());
            }
        }
    }

    fn end_watches_behind(&self) {
        let Some(opened) = &self.opened else { return };
        for watch in self.client.take_behind() {
            let _ = opened.with(|space, _| Ok(space.unwatch(opened.id, watch)));
        }
    }

    /// Sends an answer. In a durable or replicated space, the answer is held back until the changes it reports are stable.
    fn say(&mut self, message: FromSpace, body: Vec<Bytes>) {
        if !self.opened.as_ref().is_some_and(Opened::is_unstable) {
            return self.client.say(&message, body);
        }
        self.unsaid_bytes += body.iter().map(Bytes::len).sum::<usize>() + 64;
        self.unsaid.push((message, body));
        if self.unsaid_bytes > MOST_ANSWERS {
            self.say_unsaid();
        }
    }

    fn say_unsaid(&mut self) {
        let unstable = self.opened.as_ref().and_then(|opened| opened.unstable.take());
        let stable = match (unstable, &self.opened) {
            // No answer is held back, and no other session waits to be told of the changes. So there is no need to wait yet.
            (Some(unstable), Some(opened)) if self.unsaid.is_empty() && !unstable.tells() => {
                return opened.unstable.set(Some(unstable));
            }
            (unstable, _) => unstable.map_or(Ok(()), Told::flush),
        };
        self.unsaid_bytes = 0;
        for (message, body) in std::mem::take(&mut self.unsaid) {
            match &stable {
                Ok(()) => self.client.say(&message, body),
                Err(error) => {
                    let (request, error) = (answered_by(&message), error.clone());
                    self.client.say(&FromSpace::Failed { request, error }, Vec::new());
                }
            }
        }
    }

    /// Handles one message. Returns whether it produced an answer to be flushed.
    fn on_frame(&mut self, frame: Frame) -> bool {
        let Ok(message) = decode::<ToSpace>(&frame.header) else {
            self.client.link.close();
            return false;
        };
        let request = number_of(&message);
        let answered = match (message, &self.opened) {
            (ToSpace::Open { request, name, create }, None) => self.open(request, &name, create),
            (ToSpace::Beat, _) => return false,
            (ToSpace::Name { request }, _) => {
                let name = self.spaces.own_name();
                Ok(Some((FromSpace::Name { request, name }, Vec::new())))
            }
            (ToSpace::Join { request, name, seat }, None) => {
                let joined = self.spaces.join(&name, *seat, self.visitor);
                joined.map(|()| Some((FromSpace::Done { request, number: 0 }, Vec::new())))
            }
            (ToSpace::Decide { request, space, identity, transaction, age }, None) => {
                let decided = self.spaces.decide(&space, identity, transaction, age);
                decided.map(|decision| Some((FromSpace::Decided { request, decision }, Vec::new())))
            }
            (ToSpace::Open { .. } | ToSpace::Join { .. } | ToSpace::Decide { .. }, Some(_)) | (_, None) => {
                self.client.link.close();
                return false;
            }
            (message, Some(opened)) => opened.on_message(message, frame.body),
        };
        let answer = answered.unwrap_or_else(|error| Some((FromSpace::Failed { request, error }, Vec::new())));
        let Some((message, body)) = answer else { return false };
        self.say(message, body);
        true
    }

    fn open(&mut self, request: RequestId, name: &str, create: Option<phalanx_core::space::Options>) -> Answered {
        let (space, created) = self.spaces.open(name, create, self.visitor)?;
        let (rights, user) = (self.visitor.rights(name), self.visitor.user().cloned());
        if space.secure && !self.is_private {
            let why = "the space is secure, and this link is neither private nor in a trusted network";
            return Err(SpaceError::Forbidden(why.to_owned()));
        }
        let secure = space.secure;
        let _ = self.client.mark.set(if secure { Mark::Data } else { Mark::None });
        let (id, limits, durable, members, most_tuples, identity) = {
            let mut locked = space.lock();
            locked.check()?;
            let id = locked.open(self.client.clone());
            let share = |most| self.spaces.share(most);
            let options = locked.engine().options();
            let (durable, most_tuples) = (options.durable, options.most_tuples);
            let (waiters, transactions) = (share(options.most_waiters), share(options.most_transactions));
            let keepers = locked.keepers().unwrap_or_default();
            let members = keepers.members.iter().map(|member| member.replica()).collect();
            if let Some(user) = &user {
                let most = Shares { waiters, transactions, clients: share(MOST_CLIENTS as u64) };
                locked.engine().add_user(id, user.clone(), most);
            }
            (id, locked.engine().limits(), durable, members, most_tuples, locked.engine().identity())
        };
        let unstable = Cell::default();
        let client = self.client.clone();
        self.opened = Some(Opened { space, id, rights, user, limits, most_tuples, client, unstable });
        let most_body = self.most_body();
        let phalanx = self.spaces.phalanx.0.clone();
        let opened = FromSpace::Opened { request, phalanx, created, secure, durable, most_body, members, identity };
        Ok(Some((opened, Vec::new())))
    }
}

impl Opened {
    /// Runs `work` on the engine. In a durable or replicated space, no answer may leave before the unstable changes are stable.
    fn with<T>(&self, work: impl FnOnce(&mut Space, Duration) -> Result<T, SpaceError>) -> Result<T, SpaceError> {
        self.done(self.space.with(work))
    }

    /// Asks the engine. While the search goes on, the client gets a beat now and then, so that it knows the server is alive.
    fn ask(&self, question: &Question) -> Result<Outcome, SpaceError> {
        self.done(self.space.ask(question, || {
            self.client.say(&FromSpace::Beat, Vec::new());
            self.client.write();
        }))
    }

    fn done<T>(&self, (done, told): (Result<T, SpaceError>, Told)) -> Result<T, SpaceError> {
        match told.is_unstable() {
            // The new handle also waits for all earlier unstable changes.
            true => {
                let before = self.unstable.take().unwrap_or_default();
                self.unstable.set(Some(before.and(told)));
            }
            false => told.flush()?,
        }
        done
    }

    fn order(&self, work: impl FnOnce(&mut Space, Duration)) -> Result<(), SpaceError> {
        self.with(|space, now| {
            work(space, now);
            Ok(())
        })
    }

    fn is_unstable(&self) -> bool {
        let unstable = self.unstable.take();
        let is_unstable = unstable.is_some();
        self.unstable.set(unstable);
        is_unstable
    }

    fn on_message(&self, message: ToSpace, body: Bytes) -> Answered {
        let done = |request, number| Ok(Some((FromSpace::Done { request, number }, Vec::new())));
        match message {
            ToSpace::Out { request, tuples, options, transaction } => {
                done(request, self.out(&body, tuples, &options, transaction)?)
            }
            ToSpace::Get { request, get, wait: Wait::No, transaction } => self.get(request, get, &body, transaction),
            ToSpace::Get { request, get, wait, transaction } => self.wait(request, get, wait, &body, transaction),
            ToSpace::Cancel { request } => match self.with(|space, _| Ok(space.cancel(self.id, request)))? {
                true => Err(SpaceError::Cancelled),
                false => Ok(None), // already answered, or there is no such request
            },
            ToSpace::Ack { request } => {
                // the client's next request reports the error
                let _ = self.order(|space, _| space.acknowledge(self.id, request));
                Ok(None)
            }
            ToSpace::GiveBack { request } => {
                let _ = self.order(|space, now| space.give_back(now, self.id, request));
                Ok(None)
            }
            ToSpace::Count { request, transaction } => {
                let template = self.template(&body, Verb::Rd)?;
                let (asker, get, goal) = (self.asker(request, transaction), &Get::default(), Goal::Count);
                let asked = self.ask(&Question { asker, template: &template, get, transaction, goal })?;
                Ok(answer(request, asked))
            }
            ToSpace::Renew { request, number, lease } => {
                if !self.rights.allow_some(Verb::Out) {
                    self.check(Verb::Out, None)?;
                }
                let allows = |user: Option<&str>, tuple: &Tuple| self.may_renew(user, tuple);
                self.with(|space, now| space.renew_if(now, number, lease, allows))?;
                done(request, number)
            }
            ToSpace::Begin { request, transaction, timeout, isolation } => {
                self.with(|space, now| space.begin(now, self.id, transaction, timeout, isolation))?;
                done(request, 0)
            }
            ToSpace::Prepare { request, transaction, coordinator } => {
                let coordinator = coordinator.filter(|coordinator| self.may_ask(coordinator));
                self.with(|space, now| space.prepare(now, transaction, coordinator))?;
                done(request, 0)
            }
            ToSpace::Commit { request, transaction, once } => {
                self.with(|space, now| space.commit_once(now, transaction, once.as_ref()))?;
                done(request, 0)
            }
            ToSpace::Abort { request, transaction } => {
                self.with(|space, now| space.abort(now, transaction))?;
                done(request, 0)
            }
            ToSpace::Watch { request, since } => self.watch(request, since, &body),
            ToSpace::Unwatch { request, watch } => {
                self.with(|space, _| Ok(space.unwatch(self.id, watch)))?;
                done(request, 0)
            }
            ToSpace::Info { request } => {
                self.check_some(Verb::Rd)?;
                let mut info = Box::new(self.with(|space, _| Ok(space.info()))?);
                if self.check(Verb::Rd, None).is_err() {
                    info.partitions.clear(); // partitions show the shape of tuples that this client may not see
                }
                info.keepers = self.space.lock().keepers();
                if let Some(keepers) = &info.keepers {
                    info.options.replicas = keepers.members.iter().map(Keeper::replica).collect();
                }
                Ok(Some((FromSpace::Info { request, info }, Vec::new())))
            }
            ToSpace::Known { client } => {
                if client != HERE {
                    let _ = self.order(|space, _| space.introduce(self.id, client));
                }
                Ok(None)
            }
            ToSpace::Back { request, client, open } => {
                let open: HashSet<RequestId> = open.into_iter().collect();
                let got = |request| !open.contains(&request);
                self.order(|space, now| space.client_is_back(now, self.id, client, got))?;
                done(request, 0)
            }
            ToSpace::Register { request, client } => {
                self.order(|space, _| space.remember_client(self.id, client))?;
                done(request, 0)
            }
            ToSpace::GoBy { request, card, replaces } => self.go_by(request, card.into(), replaces),
            ToSpace::Browse { request, after } => {
                self.check(Verb::Rd, None)?;
                let (all, next) = self.with(|space, now| space.browse(now, self.id, after))?;
                Ok(Some(whole(request, all, next)))
            }
            ToSpace::Withdraw { request, spots, transaction } => {
                self.check(Verb::In, None)?;
                let asker = self.asker(request, Some(transaction));
                let all = self.with(|space, now| space.withdraw_whole(now, asker, &spots, transaction))?;
                Ok(Some(whole(request, all, None)))
            }
            ToSpace::Members { request, add, remove } => {
                self.check(Verb::Create, None)?;
                self.space.change_members(&add, &remove)?;
                done(request, 0)
            }
            ToSpace::Open { .. } | ToSpace::Name { .. } | ToSpace::Join { .. } => Ok(None),
            ToSpace::Decide { .. } | ToSpace::Beat => Ok(None),
        }
    }

    fn out(
        &self,
        body: &Bytes,
        tuples: u32,
        options: &OutOptions,
        transaction: Option<TransactionId>,
    ) -> Result<u64, SpaceError> {
        // Decoding takes memory. So the rights and the number of tuples are checked first.
        self.check_some(Verb::Out)?;
        if u64::from(tuples) > self.most_tuples.min(MOST_OUT) {
            let most = self.most_tuples.min(MOST_OUT);
            return Err(SpaceError::Full { what: "tuples put at once".to_owned(), most });
        }
        let tuples = Tuple::check_all(body, u64::from(tuples), &self.limits)?;
        if !self.rights.are_everything() {
            tuples.iter().try_for_each(|tuple| self.check(Verb::Out, first_of(tuple)))?;
        }
        self.with(|space, now| {
            space.check_card(self.id)?;
            space.out_by(self.user.as_ref(), now, &tuples, options, transaction)
        })
    }

    fn go_by(&self, request: RequestId, card: Bytes, replaces: Option<Vec<u8>>) -> Answered {
        match replaces.as_deref() {
            None => {}
            Some([]) => self.check_some(Verb::Out)?,
            Some(_) => self.check(Verb::Create, None)?, // other clients rely on the card being replaced
        }
        let other = self.with(|space, now| {
            if let Some(replaces) = replaces {
                space.replace_card(now, card.clone(), &replaces)?;
            }
            let is_so = space.go_by_card(self.id, &card);
            Ok((!is_so).then(|| space.card().to_vec()))
        })?;
        Ok(Some((FromSpace::Card { request, other }, Vec::new())))
    }

    /// Whether this server may ask the coordinator for the outcome of a prepared transaction. If not, the transaction stays
    /// prepared and the server does not ask. A unix path may only be named by processes of the server's own user. A session
    /// that may change nothing has no transaction to decide.
    fn may_ask(&self, coordinator: &Coordinator) -> bool {
        let may_change = self.rights.allow_some(Verb::In) || self.rights.allow_some(Verb::Out);
        let asks_there = |place: &String| match place.parse() {
            Ok(Place::Network(_)) => true,
            Ok(Place::Path(_)) => self.user.is_none(),
            Err(_) => false,
        };
        may_change && coordinator.places.iter().all(asks_there)
    }

    /// A lease may be renewed by the user who made it, and by users who may take the tuple, because they could end it too.
    fn may_renew(&self, user: Option<&str>, tuple: &Tuple) -> bool {
        let (first, is_own) = (first_of(tuple), user.is_some() && user == self.user.as_deref());
        is_own && self.rights.allow(Verb::Out, first) || self.rights.allow(Verb::In, first)
    }

    fn get(&self, request: RequestId, mut get: Get, body: &[u8], transaction: Option<TransactionId>) -> Answered {
        let template = self.template_for(&get, body)?;
        get.limit = get.limit.min(MOST_PAGE);
        get.page_bytes = match get.page_bytes {
            0 => MOST_PAGE_BYTES,
            asked => asked.min(MOST_PAGE_BYTES),
        };
        let asker = self.asker(request, transaction);
        let question = Question { asker, template: &template, get: &get, transaction, goal: Goal::Page };
        Ok(answer(request, self.ask(&question)?))
    }

    fn wait(
        &self,
        request: RequestId,
        get: Get,
        wait: Wait,
        body: &[u8],
        transaction: Option<TransactionId>,
    ) -> Answered {
        let template = self.template_for(&get, body)?;
        let deadline = match wait {
            Wait::For(patience) => Some(self.space.now().saturating_add(patience)),
            Wait::No | Wait::Forever => None,
        };
        let (asker, goal) = (self.asker(request, transaction), Goal::Wait(deadline));
        Ok(answer(request, self.ask(&Question { asker, template: &template, get: &get, transaction, goal })?))
    }

    fn watch(&self, request: RequestId, since: Option<u64>, body: &[u8]) -> Answered {
        let template = Arc::new(self.template(body, Verb::Rd)?);
        let watching = self.with(|space, _| space.watch(self.id, request, template, since))?;
        Ok(Some((FromSpace::Watching { request, last: watching.last, missed: watching.missed }, Vec::new())))
    }

    fn asker(&self, request: RequestId, transaction: Option<TransactionId>) -> Asker {
        Asker { session: self.id, request, acknowledges: transaction.is_none() }
    }

    fn template_for(&self, get: &Get, body: &[u8]) -> Result<Template, SpaceError> {
        self.template(body, if get.take { Verb::In } else { Verb::Rd })
    }

    fn template(&self, body: &[u8], verb: Verb) -> Result<Template, SpaceError> {
        let template = Template::decode(body, &self.limits)?;
        let first = match template.patterns().first() {
            Some(Pattern::Actual(field)) => Some(&field[..]),
            _ => None,
        };
        self.check(verb, first)?;
        Ok(template)
    }

    fn check_some(&self, verb: Verb) -> Result<(), SpaceError> {
        match self.rights.allow_some(verb) {
            true => Ok(()),
            false => Err(SpaceError::Forbidden(format!("{} in this space", verb.name()))),
        }
    }

    fn check(&self, verb: Verb, first: Option<&[u8]>) -> Result<(), SpaceError> {
        self.check_some(verb)?;
        match self.rights.allow(verb, first) {
            true => Ok(()),
            false => Err(SpaceError::Forbidden(format!("{} with this first field", verb.name()))),
        }
    }
}

fn answer(request: RequestId, outcome: Outcome) -> Option<Said> {
    match outcome {
        Outcome::Found(page) => Some(got(request, page)),
        Outcome::One(tuple) => {
            let got = FromSpace::Got { request, tuples: u32::from(tuple.is_some()), next: None };
            Some((got, tuple.into_iter().map(Tuple::into_bytes).collect()))
        }
        Outcome::Counted(count) => Some((FromSpace::Counted { request, count }, Vec::new())),
        Outcome::Waits | Outcome::GoesOn => None,
    }
}

fn got(request: RequestId, page: Page) -> (FromSpace, Vec<Bytes>) {
    let count = page.tuples.len() as u32;
    let body = match <[Tuple; 1]>::try_from(page.tuples) {
        Ok([tuple]) => vec![tuple.into_bytes()],
        Err(tuples) => vec![tuples.iter().flat_map(|tuple| tuple.bytes().iter().copied()).collect()],
    };
    (FromSpace::Got { request, tuples: count, next: page.next }, body)
}

fn whole(request: RequestId, all: Vec<Whole>, next: Option<Spot>) -> Said {
    let body = all.iter().flat_map(|whole| whole.tuple.bytes().iter().copied()).collect();
    let tuples = all.into_iter().map(|whole| whole.beside).collect();
    (FromSpace::Whole { request, tuples, next }, vec![body])
}

fn first_of(tuple: &Tuple) -> Option<&[u8]> {
    let mut fields = Fields::new(tuple.bytes());
    (fields.varint().ok()? > 0).then(|| fields.field().ok()).flatten()
}

fn number_of(message: &ToSpace) -> RequestId {
    match message {
        ToSpace::Open { request, .. }
        | ToSpace::Out { request, .. }
        | ToSpace::Get { request, .. }
        | ToSpace::Cancel { request }
        | ToSpace::Ack { request }
        | ToSpace::GiveBack { request }
        | ToSpace::Count { request, .. }
        | ToSpace::Renew { request, .. }
        | ToSpace::Begin { request, .. }
        | ToSpace::Prepare { request, .. }
        | ToSpace::Commit { request, .. }
        | ToSpace::Abort { request, .. }
        | ToSpace::Watch { request, .. }
        | ToSpace::Unwatch { request, .. }
        | ToSpace::Back { request, .. }
        | ToSpace::Name { request }
        | ToSpace::Register { request, .. }
        | ToSpace::Join { request, .. }
        | ToSpace::Members { request, .. }
        | ToSpace::Decide { request, .. }
        | ToSpace::GoBy { request, .. }
        | ToSpace::Browse { request, .. }
        | ToSpace::Withdraw { request, .. }
        | ToSpace::Info { request } => *request,
        ToSpace::Known { .. } | ToSpace::Beat => 0,
    }
}

/// Tells a rejected client why: the reason is the answer to its first request.
pub fn turn_away(link: &Link, mut reader: Reader, error: &SpaceError) {
    let (mut asked, until) = (None, Instant::now() + FAREWELL);
    while asked.is_none() && Instant::now() < until && !link.is_closed() {
        let on_frame = &mut |frame: Frame| asked = asked.or(decode(&frame.header).ok().map(|it| number_of(&it)));
        if reader.receive(PAUSE, on_frame).is_err() {
            return;
        }
    }
    if let Some(request) = asked {
        let answer = FromSpace::Failed { request, error: error.clone() };
        link.queue(Mark::None, phalanx_core::wire::encode(&answer, 0), Vec::new());
        link.flush();
        let _ = link.finish(PAUSE); // an error here does not matter: the client need not receive the answer
    }
}
