//! An executor's stay at a hub. While the executor runs, the hub lists it, renews its certificate, and sends it news of the grid.

use super::asking::{AtHub, SILENCE};
use super::hubs_file::{HubsFile, merged};
use super::seeking::hub_address;
use super::{AskError, come_back, why};
use crate::control::{tell, tell_with};
use crate::dial::{DIAL_PATIENCE, printable};
use crate::learned::log_learned;
use crate::log::{Log, Severity};
use crate::quota::Quota;
use phalanx_core::hub::are_words;
use phalanx_core::wire::hub::{Facts, FromHub, GuestState, HubAt, Status, Terms, ToHub, Worked, addresses_of};
use phalanx_core::wire::jobs::FromHubJobs;
use phalanx_core::wire::{VERSION, decode};
use phalanx_net::address::Address;
use phalanx_net::dial::{Target, dial};
use phalanx_net::frames::Frame;
use phalanx_net::identity::{Member, random_number};
use phalanx_net::link::Link;
use phalanx_net::news::Exchange;
use phalanx_net::socket::Socket;
use phalanx_net::sync::lock;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Interval at which an executor says that it is still here. When its process or its machine's operating system ends, its link ends
/// at once. Beats find the losses that no operating system reports, such as a cut cable. With two beats a minute, an executor at
/// rest sends and receives less than 1 KB a minute.
pub const BEAT: Duration = Duration::from_secs(30);
/// Interval at which an executor tells what users have used of it, and what it has offered while nobody has used it.
const WORKED: Duration = Duration::from_secs(30);
const OFFERED: Duration = Duration::from_secs(600);
/// Interval at which the link checks for due news, beats and renewals.
const PAUSE: Duration = Duration::from_secs(1);
/// Backoff before the hubs are called again. The pauses double up to the longest. A random factor between a half and one shortens
/// each pause, so that the members of a restarted hub do not all come at once.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long after its start an executor beside a hub may be unknown to the leader, which gets a new key from that hub.
const BROUGHT_WITHIN: Duration = Duration::from_secs(10);

/// Most connections that are made at a time at the hub's request.
const MOST_COMING: usize = 64;
/// Most looks for programs at a time. Each takes a moment, unless a folder is on another machine that does not answer.
const MOST_LOOKING: usize = 4;

/// The addresses and facts that an executor tells a hub.
#[derive(Debug, Clone, Default)]
pub struct Telling {
    /// The addresses at which others reach the executor. If empty, others reach it at `port` of the address that the hub sees, and
    /// of the address that it has in its own network.
    pub addresses: Vec<String>,
    /// The port at which the executor listens.
    pub port: u16,
    /// What the executor's machine has, such as cores and memory.
    pub facts: Facts,
}

impl Telling {
    /// The addresses to tell, and the port at the address that the hub sees; port 0 means that others do not reach the executor at
    /// that address. `from` is the machine's address in its own network. Behind a router that translates addresses (NAT), the hub
    /// sees the router's address, and members behind the same router need the machine's own.
    fn places(&self, from: Option<IpAddr>) -> (Vec<String>, u16) {
        if !self.addresses.is_empty() {
            return (self.addresses.clone(), 0);
        }
        let own = from.filter(|from| !from.is_loopback()).map(|from| SocketAddr::new(from, self.port).to_string());
        (own.into_iter().collect(), self.port)
    }
}

/// The executor that stays.
pub trait Resident: Send + Sync {
    /// Takes a connection that a hub relays.
    fn come(&self, socket: Socket);
    /// Whether users' processes find a program of this name here.
    fn finds(&self, program: &str) -> bool;
    /// What the executor runs now. This is called once a second.
    fn status(&self) -> Status;
    /// The work of the executor since its start.
    fn worked(&self) -> Worked;
    /// The hub says on which terms the executor is a guest of another grid; `None`: it is none. Returns at once.
    fn be_guest(&self, terms: Option<Terms>);
    /// Whether a hub of the grid runs beside the executor. That hub tells the leader which key the executor has.
    fn is_at_hub(&self) -> bool;
    /// The hub has let the executor in over this link, and is at this address. `None`: the link has ended.
    fn at_hub(&self, hub: Option<(&Arc<Link>, &Address)>);
    /// The hub says something about jobs. Returns at once.
    fn hear_of_jobs(&self, message: FromHubJobs);
    /// How the executor is as a guest. This is called once a second. `None`: its owner does not let it be lent.
    fn guest(&self) -> Option<GuestState>;
}

/// The stay of an executor at its hub. It ends when it is dropped.
pub struct Stay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Waits until a hub lets the executor in, or until the stay ends.
pub struct Waiting(Arc<Shared>);

impl Waiting {
    /// Waits until a hub has let the executor in, at most for `patience`. Returns whether a hub has.
    pub fn until_in(&self, patience: Duration) -> bool {
        let state = lock(&self.0.state);
        let waited =
            self.0.changed.wait_timeout_while(state, patience, |it| !it.was_in && !it.is_over && it.expelled.is_none());
        waited.is_ok_and(|(state, _)| state.was_in)
    }
}

pub(super) struct Shared {
    pub(super) member: Member,
    telling: Telling,
    resident: Box<dyn Resident>,
    looking: Arc<Quota>,
    /// The connections to a hub that are being made for other members.
    coming: Arc<Quota>,
    /// Where the addresses of the hubs are kept for the next start.
    kept: Mutex<Option<HubsFile>>,
    log: Log,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

pub(super) struct State {
    hubs: Vec<String>,
    /// The hubs, as one of them has told last.
    pub(super) known: Vec<HubAt>,
    pub(super) is_over: bool,
    /// The open link.
    pub(super) link: Option<Arc<Link>>,
    /// The name of the hub at its other end.
    pub(super) at: Option<String>,
    /// The status of the stay, as text for people.
    status: String,
    /// Whether the hub has let the executor in, over the newest link; and at least once.
    is_in: bool,
    was_in: bool,
    /// Why the executor is no member any more.
    pub(super) expelled: Option<String>,
}

impl State {
    /// Learns where the hubs are. Known addresses stay at the end of the list. A hub that moves may tell its new address before it can be
    /// reached there.
    pub(super) fn learn(&mut self, hubs: &[HubAt]) {
        let are_good =
            |hub: &&HubAt| !hub.addresses.is_empty() && hub.addresses.iter().all(|it| hub_address(it).is_ok());
        self.known = hubs.iter().filter(are_good).cloned().collect();
        self.learn_addresses(addresses_of(&self.known));
    }

    fn learn_addresses(&mut self, hubs: Vec<String>) {
        if !hubs.is_empty() && hubs.iter().all(|hub| hub_address(hub).is_ok()) {
            self.hubs = merged(hubs, std::mem::take(&mut self.hubs));
        }
    }
}

impl Stay {
    /// Begins the stay at the first hub that answers: one of `hubs`, or of the file `kept`. The stay writes new addresses into that file.
    /// The member must renew itself ([`Member::renewing`]).
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn begin(
        member: Member,
        hubs: Vec<String>,
        kept: Option<HubsFile>,
        telling: Telling,
        resident: Box<dyn Resident>,
        log: Log,
    ) -> io::Result<Stay> {
        let status = "the hub was not reached yet".to_owned();
        let state = Mutex::new(State {
            hubs: kept.as_ref().map_or_else(|| hubs.clone(), |file| file.after(&hubs)),
            known: Vec::new(),
            is_over: false,
            link: None,
            at: None,
            status,
            is_in: false,
            was_in: false,
            expelled: None,
        });
        let coming = Quota::new("connections that the hub asks for", MOST_COMING, MOST_COMING);
        let looking = Quota::new("looks for programs", MOST_LOOKING, MOST_LOOKING);
        let changed = Condvar::new();
        let shared = Arc::new(Shared {
            member,
            telling,
            resident,
            looking,
            coming,
            kept: Mutex::new(kept),
            log,
            state,
            changed,
        });
        let staying = shared.clone();
        let thread = thread::Builder::new().name("phalanx-member".into()).spawn(move || staying.stay())?;
        let watching = shared.clone();
        let watching = thread::Builder::new().name("phalanx-watching".into()).spawn(move || watching.watch());
        let mut stay = Stay { shared, thread: Some(thread) };
        watching.inspect_err(|_| stay.close())?;
        Ok(stay)
    }

    /// The status of the stay, as text for people.
    pub fn status(&self) -> String {
        lock(&self.shared.state).status.clone()
    }

    /// Why the executor is no member any more. `None`: it is a member, as far as it knows.
    pub fn expelled(&self) -> Option<String> {
        lock(&self.shared.state).expelled.clone()
    }

    /// Whether a hub knows the executor now.
    pub fn is_in(&self) -> bool {
        let state = lock(&self.shared.state);
        state.is_in && state.link.as_ref().is_some_and(|link| !link.is_closed())
    }

    /// Makes a handle that waits until the hub has let the executor in.
    pub fn waiting(&self) -> Waiting {
        Waiting(self.shared.clone())
    }

    /// Ends the stay. The hub notices at once.
    pub fn close(&mut self) {
        let link = {
            let mut state = lock(&self.shared.state);
            state.is_over = true;
            self.shared.changed.notify_all();
            state.link.take()
        };
        link.iter().for_each(|link| link.close());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.close();
    }
}

/// What the hub was told last, and when.
#[derive(Default)]
struct Told {
    when: Option<Instant>,
    status: Option<Status>,
    guest: Option<GuestState>,
    /// The work of the executor, and when it was told.
    worked: Option<(Instant, Worked)>,
}

impl Shared {
    fn stay(self: &Arc<Shared>) {
        let (mut pause, start) = (FIRST_PAUSE, Instant::now());
        let may_be_brought = || self.resident.is_at_hub() && start.elapsed() < BROUGHT_WITHIN;
        while !lock(&self.state).is_over {
            let began = Instant::now();
            match self.stay_once().and_then(|()| self.look_whether_member()) {
                Ok(()) => self.note("the link to the hub has ended"),
                Err(AskError::NoMember(why)) if !may_be_brought() => return self.end_as_expelled(why),
                Err(AskError::Ended(error)) => match self.look_whether_member() {
                    Err(AskError::NoMember(why)) if !may_be_brought() => return self.end_as_expelled(why),
                    _ => self.note(&error.to_string()),
                },
                Err(error) => self.note(&error.to_string()),
            }
            pause = if began.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            let cut = pause / 2 + pause / 2 * (random_number() % 1000) as u32 / 1000;
            let state = lock(&self.state);
            drop(self.changed.wait_timeout_while(state, cut, |it| !it.is_over));
        }
    }

    /// Asks whether this end is still a member. A hub hangs up on an expelled member without a reason.
    fn look_whether_member(&self) -> Result<(), AskError> {
        let (hubs, is_over) = {
            let state = lock(&self.state);
            (state.hubs.clone(), state.is_over)
        };
        if is_over { Ok(()) } else { why(&self.member, &hubs).map_or(Ok(()), Err) }
    }

    fn end_as_expelled(&self, why: String) {
        self.log.warning(&why);
        self.resident.be_guest(None); // the grid that has lent it is not its own any more
        let mut state = lock(&self.state);
        (state.link, state.status, state.expelled) = (None, why.clone(), Some(why));
        self.changed.notify_all();
    }

    fn note(&self, status: &str) {
        let mut state = lock(&self.state);
        if !state.is_over {
            self.log.limited(Severity::Warning, status, format!("{status}; the hub is called again"));
            status.clone_into(&mut state.status);
        }
        (state.link, state.at) = (None, None);
    }

    /// Opens a link, enters, and stays until the link ends.
    fn stay_once(self: &Arc<Shared>) -> Result<(), AskError> {
        let hubs = lock(&self.state).hubs.clone();
        self.come_back_if_ended(&hubs)?;
        let mut at_hub = AtHub::open(&self.member, &hubs)?;
        {
            let mut state = lock(&self.state);
            (state.link, state.is_in) = (Some(at_hub.link.0.clone()), false);
            if state.is_over {
                return Ok(());
            }
        }
        let (addresses, port) = self.telling.places(at_hub.way().map(|way| way.from));
        let port = if at_hub.way().is_some_and(|way| way.is_by_proxy) { 0 } else { port };
        let entering = ToHub::Enter { addresses, port, facts: self.telling.facts.clone(), phalanx: VERSION.to_owned() };
        let entered = at_hub.ask(&entering)?.0;
        {
            // The request may have moved on to another hub.
            let mut state = lock(&self.state);
            state.link = Some(at_hub.link.0.clone());
            state.at = Some(at_hub.name().to_owned());
        }
        tell(&at_hub.link.0, &ToHub::Watch);
        match entered {
            FromHub::Entered { addresses, hubs } => self.enter(&addresses, hubs),
            _ => return Err(super::asking::other()),
        }
        self.resident.at_hub(Some((&at_hub.link.0, at_hub.address())));
        let served = self.serve(at_hub);
        self.resident.at_hub(None);
        served
    }

    fn enter(&self, addresses: &[String], hubs: Vec<String>) {
        let addresses = printable(&addresses.join(", "));
        let mut state = lock(&self.state);
        state.learn_addresses(hubs);
        state.status = format!("known to the hub, at {addresses}");
        self.log.info(&state.status);
        (state.is_in, state.was_in) = (true, true);
        self.changed.notify_all();
    }

    /// Keeps the addresses of the hubs for the next start.
    fn keep_hubs(&self) {
        let hubs = lock(&self.state).hubs.clone();
        if let Some(Err(error)) = lock(&self.kept).as_mut().map(|file| file.keep(&hubs)) {
            let what = "the addresses of the hubs are not written yet";
            self.log.limited(Severity::Warning, what, format!("{what}: {error}"));
        }
    }

    /// Gets a new certificate if the old one has ended, because that one opens no link. The hub gives a new one to an executor that
    /// is still a member.
    fn come_back_if_ended(&self, hubs: &[String]) -> Result<(), AskError> {
        if self.member.validity()?.is_over() {
            let certificates = come_back(&self.member.newest(), hubs)?;
            self.take_certificate(certificates.as_bytes());
        }
        Ok(())
    }

    fn take_certificate(&self, pem: &[u8]) {
        let Some(renewals) = self.member.renewals() else { return };
        let brought = renewals.take(pem);
        if let Some(validity) = &brought.own {
            self.log.info(format!("the hub has renewed the certificate, which is good until {}", validity.end()));
        }
        if let Some(error) = &brought.unwritten {
            let what = "the renewed certificate is not written yet";
            self.log.limited(Severity::Warning, what, format!("{what}: {error}"));
        }
    }

    /// Dials the hub with a token, and serves the member that the hub relays.
    fn come(self: &Arc<Shared>, token: [u8; 16], hub: &Address) {
        let entered = match self.coming.enter("the hub") {
            Ok(entered) => entered,
            Err(why) => return self.log.limited(Severity::Warning, "too much comes", why.to_string()),
        };
        let (shared, hub) = (self.clone(), hub.clone());
        let dial = move || {
            let _entered = entered;
            match dial(&Target::Hub(hub), DIAL_PATIENCE).and_then(|dialled| dialled.through(token, DIAL_PATIENCE)) {
                Ok(socket) => shared.resident.come(socket),
                Err(error) => {
                    let what = "a member that the hub brings was not reached";
                    shared.log.limited(Severity::Warning, what, format!("{what}: {error}"));
                }
            }
        };
        let _ = thread::Builder::new().name("phalanx-relayed".into()).spawn(dial);
    }

    /// Looks for programs, and tells the hub. Not in the thread of the link, which must not wait for a disk.
    fn look(self: &Arc<Shared>, programs: Vec<String>, link: &Arc<Link>) {
        if !are_words(&programs) {
            return link.close();
        }
        let entered = match self.looking.enter("the hub") {
            Ok(entered) => entered,
            Err(why) => return self.log.limited(Severity::Warning, "too much is looked for", why.to_string()),
        };
        let (shared, link) = (self.clone(), link.clone());
        let look = move || {
            let _entered = entered;
            let programs =
                programs.into_iter().map(|it| (shared.resident.finds(&it), it)).map(|(found, it)| (it, found));
            tell(&link, &ToHub::Has { programs: programs.collect() });
        };
        let _ = thread::Builder::new().name("phalanx-look".into()).spawn(look);
    }

    /// Tells the hub what the executor runs if that has changed, at most once a second.
    fn tell_status(&self, link: &Link, told: &mut Told) {
        if told.when.is_some_and(|when| when.elapsed() < PAUSE) {
            return;
        }
        told.when = Some(Instant::now());
        let status = self.resident.status();
        if told.status.as_ref() != Some(&status) {
            tell(link, &ToHub::Status(status.clone()));
            told.status = Some(status);
        }
        let guest = self.resident.guest();
        if let Some(state) = guest.as_ref().filter(|_| told.guest != guest) {
            tell(link, &ToHub::Guest(state.clone()));
            told.guest = guest;
        }
        self.tell_work(link, told);
    }

    /// Tells the hub what the executor has worked. The hub stores it, so what is only offered is told seldom.
    fn tell_work(&self, link: &Link, told: &mut Told) {
        let age = told.worked.as_ref().map(|(when, _)| when.elapsed());
        if age.is_some_and(|age| age < WORKED) {
            return;
        }
        let worked = self.resident.worked();
        let is_news = told.worked.as_ref().is_none_or(|(_, last)| last.uses != worked.uses);
        if is_news || age.is_some_and(|age| age >= OFFERED) {
            tell(link, &ToHub::Worked(worked.clone()));
            told.worked = Some((Instant::now(), worked));
        }
    }

    fn serve(self: &Arc<Shared>, at_hub: AtHub) -> Result<(), AskError> {
        let (hub, way) = (at_hub.address().clone(), at_hub.way());
        let AtHub { link: ending, reader, news, .. } = at_hub;
        let (link, news) = (&ending.0, Mutex::new(news));
        let (heard, asked) = (Mutex::new(Instant::now()), Mutex::new((Instant::now(), None::<Instant>)));
        let told = Mutex::new(Told::default());
        let on_frame = |frame: Frame| {
            *lock(&heard) = Instant::now();
            match decode(&frame.header) {
                Ok(FromHub::Beat) => {}
                Ok(FromHub::Come { token }) => self.come(token, &hub),
                Ok(FromHub::Look { programs }) => self.look(programs, link),
                Ok(FromHub::BeGuest { terms }) => self.resident.be_guest(terms),
                Ok(FromHub::Jobs(message)) => self.resident.hear_of_jobs(message),
                Ok(FromHub::Renewed) => self.take_certificate(&frame.body),
                Ok(FromHub::Hubs { hubs }) => self.hear_of(hubs),
                Ok(FromHub::News(message)) => match lock(&news).as_mut().map(|news| news.hear(message, &frame.body)) {
                    Some(Ok(learned)) => log_learned(&self.log, &learned, "the hub"),
                    _ => link.close(),
                },
                Ok(FromHub::Refused { reason }) => {
                    let reason = printable(&reason);
                    self.log.limited(Severity::Warning, &reason, format!("the hub refuses: {reason}"));
                }
                Ok(_) | Err(_) => link.close(),
            }
        };
        reader.run(PAUSE, on_frame, |link| {
            while let Some((message, body)) = lock(&news).as_mut().and_then(Exchange::due) {
                tell_with(link, &ToHub::News(message), body);
            }
            let now = Instant::now();
            let mut asked = lock(&asked);
            if now - asked.0 >= BEAT {
                asked.0 = now;
                tell(link, &ToHub::Beat);
            }
            self.tell_status(link, &mut lock(&told));
            self.keep_hubs();
            let is_near = self.member.validity().is_ok_and(|it| it.is_near_end());
            if is_near && asked.1.is_none_or(|last| now - last >= SILENCE) {
                asked.1 = Some(now);
                tell(link, &ToHub::Renew);
            }
            let has_moved = way.is_some_and(|way| way.has_changed());
            if has_moved || lock(&heard).elapsed() > SILENCE || lock(&self.state).is_over {
                link.close();
            }
        });
        Ok(())
    }
}
