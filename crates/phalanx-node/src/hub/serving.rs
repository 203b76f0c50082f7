//! The link of a member to the hub.

use super::{Hub, HubError, signing};
use crate::control::{tell, tell_with, turn_away};
use crate::dial::{check_version, printable};
use crate::door::{Peer, STACK, refused};
use crate::learned::log_learned;
use crate::log::Severity;
use crate::quota::Entered;
use phalanx_core::hub::{Asking, Found, Refusal, Who, are_words};
use phalanx_core::level::Levels;
use phalanx_core::wire::hub::{
    Facts, FromHub, HubAt, LEVEL, MOST_ADDRESSES, Row, Statuses, ToHub, addresses_of, are_addresses, are_short,
    is_short, is_short_work,
};
use phalanx_core::wire::{MAX_CONTROL_BODY, decode, encode_body};
use phalanx_net::address::Address;
use phalanx_net::frames::Frame;
use phalanx_net::identity::Role;
use phalanx_net::link::{Link, Reader};
use phalanx_net::news::Exchange;
use phalanx_net::sync::lock;
use serde::Serialize;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The levels of links to a hub.
pub const LEVELS: Levels = Levels::all(LEVEL);
/// A member that sends nothing for this long is no longer here. Executors send a beat every [`BEAT`](crate::membership::BEAT).
const SILENCE: Duration = Duration::from_secs(90);
/// Interval at which a link checks its silence and its news. The interval is long, because a hub may have thousands of links. News
/// do not wait for it, because the thread that learns them sends them.
const PAUSE: Duration = Duration::from_secs(2);
/// The hub queues no further news while this many bytes wait to be written.
const MOST_WAITING: usize = 1 << 20;

/// An open link of a member.
pub struct Linked {
    number: u64,
    link: Arc<Link>,
    asking: Asking,
    /// The certificate that the member has shown, in DER.
    pub(super) certificate: Vec<u8>,
    /// The certificate of the issuer behind it.
    pub(super) issuer: Option<Vec<u8>>,
    pub(super) role: Role,
    /// Whether the member wants to be told which hub leads.
    watches: AtomicBool,
    /// The executor's address, as the hub sees it.
    from: IpAddr,
    news: Mutex<Exchange>,
    heard: Mutex<Instant>,
}

impl Linked {
    /// Tells the member the news that it lacks.
    pub fn tell_news(&self) {
        let mut news = lock(&self.news);
        while self.link.waiting_bytes() < MOST_WAITING {
            let Some((message, body)) = news.due() else { return };
            tell_with(&self.link, &FromHub::News(message), body);
        }
    }

    /// The member's key.
    pub(super) fn asking(&self) -> &Asking {
        &self.asking
    }

    /// Tells which hub leads, to a member that watches or an executor that stays.
    pub(super) fn tell_hubs(&self, hubs: &[HubAt]) {
        if self.watches.load(Ordering::Acquire) {
            tell(&self.link, &FromHub::Hubs { hubs: hubs.to_vec() });
        }
    }

    /// The member.
    pub fn who(&self) -> &Who {
        &self.asking.who
    }

    /// The member's role.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// The number of the link.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn link(&self) -> &Link {
        &self.link
    }

    pub fn close(&self) {
        self.link.close();
    }
}

/// Removes a link when it is dropped, however the serving ends.
struct Leaving<'a>(&'a Hub, &'a Linked);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let Leaving(hub, linked) = self;
        linked.close();
        lock(&hub.linked).remove(&linked.number);
        hub.engine().go(signing::now(), linked.number, &linked.asking.who);
        hub.jobs_lose(linked);
    }
}

impl Hub {
    /// Lets a member in, and serves it until its link ends.
    pub fn serve(self: &Arc<Hub>, mut peer: Peer) -> io::Result<()> {
        let from = peer.from.ok_or_else(|| refused("hubs are reached over the network"))?;
        let (shaken, role, name) = peer.offer(&self.member.newest(), LEVELS.exactly())?;
        let certificate = shaken.peer_certificate().to_vec();
        let issuer = shaken.shown().get(1).map(|issuer| issuer.to_vec());
        let entered = self.links.enter(&format!("{} {name}", role.name())).map_err(HubError::from);
        let admitted = entered.and_then(|entered| Ok((entered, self.admitted(&certificate)?)));
        if admitted.is_ok() {
            peer.proved(); // other peers keep counting as unproved connections, which may be closed for newer ones
        }
        peer.socket.end_when_silent(SILENCE)?; // keep-alive packets are rare, because a member's beats come as often
        let (link, mut reader) = Link::new(peer.socket, Some(shaken), MAX_CONTROL_BODY)?;
        let (entered, asking) = match admitted {
            Ok(admitted) => admitted,
            Err(why) => return Err(turn_away(&link, reader, &why.answer(self), refused(why.to_string()))),
        };
        let number = self.next_link.fetch_add(1, Ordering::Relaxed);
        let news = Mutex::new(Exchange::new(self.member.news()));
        let heard = Mutex::new(Instant::now());
        let watches = AtomicBool::new(false);
        let linked = Linked { number, link, asking, certificate, issuer, role, watches, from, news, heard };
        let linked = Arc::new(linked);
        reader.save_memory();
        let hub = self.clone();
        let serve = move || hub.serve_linked(&linked, reader, entered);
        // The stack of this thread has pages that only the handshake needed, about 80 KB. They are free once it has ended.
        thread::Builder::new().name("phalanx-member".into()).stack_size(STACK).spawn(serve).map(drop)
    }

    fn serve_linked(&self, linked: &Arc<Linked>, reader: Reader, _entered: Entered) {
        lock(&self.linked).insert(linked.number, linked.clone());
        let _leaving = Leaving(self, linked);
        reader.run(PAUSE, |frame| self.on_frame(linked, &frame), |_| self.look_after(linked));
    }

    /// The member with this certificate. A hub that does not lead knows no members: it admits all that the grid's issuers have made, and
    /// does nothing for them.
    pub(super) fn admitted(&self, certificate: &[u8]) -> Result<Asking, HubError> {
        if !self.leads() {
            return Ok(signing::asking(certificate)?);
        }
        let known = self.known(certificate);
        if known.is_err() && self.confirm().is_err() {
            return Ok(signing::asking(certificate)?); // another hub leads by now, and may know the member
        }
        known
    }

    fn look_after(&self, linked: &Linked) {
        linked.tell_news();
        if self.is_closed() || lock(&linked.heard).elapsed() > SILENCE {
            linked.close();
        }
    }

    fn on_frame(&self, linked: &Linked, frame: &Frame) {
        *lock(&linked.heard) = Instant::now();
        let Ok(message) = decode::<ToHub>(&frame.header) else { return linked.close() };
        // A peer that sends requests and reads no answers would fill the memory with answers.
        // An executor that is sent many jobs at once reads them a moment later.
        let is_patient = linked.role == Role::Executor && linked.link.waiting_bytes() < MOST_WAITING;
        if linked.link.is_blocked() && !is_patient {
            return linked.close();
        }
        match message {
            ToHub::Beat if self.leads() || linked.watches.load(Ordering::Acquire) => tell(&linked.link, &FromHub::Beat),
            ToHub::Beat => tell(&linked.link, &self.elsewhere()),
            ToHub::News(message) => match lock(&linked.news).hear(message, &frame.body) {
                Ok(learned) => log_learned(&self.log, &learned, &linked.asking.who.name),
                Err(_) => linked.close(),
            },
            asked => match self.confirmed(linked, asked, &frame.body) {
                Ok(Some((answer, body))) => tell_with(&linked.link, &answer, body),
                Ok(None) => {}
                Err(error) => {
                    let Who { role, name } = &linked.asking.who;
                    let what = format!("the {role} {name} was refused");
                    self.log.limited(Severity::Info, &what, format!("{what}: {error}"));
                    tell(&linked.link, &error.answer(self));
                }
            },
        }
        linked.tell_news();
    }

    /// Answers a request, once it is sure that no other hub leads. See [`Hub::answer`].
    fn confirmed(&self, linked: &Linked, asked: ToHub, body: &[u8]) -> Result<Option<(FromHub, Vec<u8>)>, HubError> {
        match asked {
            ToHub::Watch => {
                linked.watches.store(true, Ordering::Release);
                linked.tell_hubs(&self.hubs());
                return Ok(None);
            }
            ToHub::Issue => return Ok(Some((FromHub::Issued, self.issue(linked, body)?.into_bytes()))),
            // It needs no answer, and comes often.
            ToHub::Status(_) | ToHub::Has { .. } | ToHub::Worked(_) if self.leads() => {
                return self.answer(linked, asked, body);
            }
            // What is told about runs is told after it is stored, which confirms that this hub leads.
            ToHub::Jobs(_) if self.leads() && linked.role == Role::Executor => return self.answer(linked, asked, body),
            _ if !self.leads() => return Err(HubError::Elsewhere),
            _ => {}
        }
        let answer = self.answer(linked, asked, body);
        self.confirm()?;
        answer
    }

    /// Answers a request. `None`: the answer was sent already, or the message was no request.
    fn answer(&self, linked: &Linked, asked: ToHub, body: &[u8]) -> Result<Option<(FromHub, Vec<u8>)>, HubError> {
        let who = &linked.asking.who;
        self.engine().check_member(&linked.asking)?;
        let as_user = || match linked.role {
            Role::User => Ok(who.name.as_str()),
            _ => Err(HubError::Refused(Refusal::NoUser(who.name.clone()))),
        };
        let nothing = Vec::new();
        Ok(Some(match asked {
            ToHub::Enter { addresses, port, facts, phalanx } => {
                let addresses = self.enter(linked, addresses, port, facts, &phalanx)?;
                linked.watches.store(true, Ordering::Release);
                (FromHub::Entered { addresses, hubs: addresses_of(&self.hubs()) }, nothing)
            }
            ToHub::Renew => (FromHub::Renewed, self.renew(&linked.certificate)?.1.into_bytes()),
            ToHub::Members { after } => {
                // An executor asks for the addresses to which it lets its users' processes connect.
                if linked.role != Role::Executor {
                    as_user()?;
                }
                self.await_executors();
                let after = after.map(|(role, name)| Who { role, name });
                let (rows, goes_on) = self.engine().rows(after.as_ref());
                let (rows, goes_on) = page(rows, goes_on);
                (FromHub::Members { goes_on, hubs: addresses_of(&self.hubs()) }, rows)
            }
            ToHub::Seek { after, programs } => {
                let user = as_user()?;
                self.await_executors();
                let (rows, goes_on) = self.seek(user, after, &programs)?;
                (FromHub::Members { goes_on, hubs: addresses_of(&self.hubs()) }, rows)
            }
            ToHub::Status(status) => {
                if linked.role != Role::Executor || !is_short(&status) {
                    return Err(HubError::Other("only executors tell what they run, and tell little".to_owned()));
                }
                self.engine().runs(linked.number, who, status);
                return Ok(None);
            }
            ToHub::Worked(worked) => {
                if !is_short_work(&worked) {
                    return Err(HubError::Other("what was worked is too long".to_owned()));
                }
                self.change(|engine, now| Ok(engine.worked(now, linked.number, who, worked)))?;
                return Ok(None);
            }
            ToHub::History { since, after } => {
                as_user()?;
                let (rows, goes_on) = self.engine().history(since, after);
                let (body, goes_on) = page(rows, goes_on);
                (FromHub::History { goes_on }, body)
            }
            ToHub::Statuses { after } => {
                as_user()?;
                let (statuses, goes_on) = self.statuses(after.as_deref());
                (FromHub::Statuses { goes_on }, statuses)
            }
            ToHub::Has { programs } => {
                self.engine().answered(linked.number, who, &programs);
                return Ok(None);
            }
            ToHub::Find { name } => {
                let rows = vec![self.engine().row_of(&Who::new("executor", &name))?];
                (FromHub::Members { goes_on: false, hubs: addresses_of(&self.hubs()) }, encode_body::<Vec<Row>>(&rows))
            }
            ToHub::Reach { name } => (FromHub::Reached { token: self.reach(who, &name)? }, nothing),
            ToHub::Invite { role, uses, seconds } => {
                (FromHub::Invited { token: self.invite(as_user()?, &role, uses, seconds)?.to_string() }, nothing)
            }
            ToHub::Lend(terms) => (FromHub::Lent { grid: self.lend(as_user()?, terms)? }, nothing),
            ToHub::EndLoan { grid } => {
                self.end_loan(as_user()?, &grid)?;
                (FromHub::Lent { grid }, nothing)
            }
            ToHub::Loans { after } => {
                let (loans, goes_on) = self.loans(as_user()?, after.as_deref())?;
                (FromHub::Loans { goes_on }, loans)
            }
            ToHub::Guest(state) => {
                self.guest_says(linked, state)?;
                return Ok(None);
            }
            ToHub::Expel { name } => {
                let answer = |certificates| tell(&linked.link, &FromHub::Expelled { certificates });
                self.expel(as_user()?, &name, answer)?;
                return Ok(None);
            }
            ToHub::Leave => {
                self.leave(who, || tell(&linked.link, &FromHub::Left))?;
                return Ok(None);
            }
            ToHub::Join { .. } | ToHub::JoinAsOwner { .. } | ToHub::Return { .. } | ToHub::Why { .. } => {
                return Err(HubError::Other("this is no joining link".to_owned()));
            }
            ToHub::Attend { number, addresses, phalanx } => {
                (FromHub::Attended { hubs: self.attend(linked, number, addresses, &phalanx, body)? }, nothing)
            }
            ToHub::HasIssued { hub, key, fingerprint } => {
                self.has_issued(linked, &hub, key, fingerprint)?;
                (FromHub::Issued, nothing)
            }
            ToHub::Jobs(asked) => return self.answer_about_jobs(linked, asked, body),
            ToHub::Beat | ToHub::News(_) | ToHub::Watch | ToHub::Issue => return Ok(None), // these are no requests
        }))
    }

    /// Records that an executor is here. Returns the addresses at which other members reach the executor.
    fn enter(
        &self,
        linked: &Linked,
        addresses: Vec<String>,
        port: u16,
        facts: Facts,
        phalanx: &str,
    ) -> Result<Vec<String>, HubError> {
        let who = &linked.asking.who;
        check_version(&who.name, phalanx).map_err(HubError::Other)?;
        if linked.role != Role::Executor || !are_short(&facts) || !are_addresses(&addresses) {
            return Err(HubError::Other("only executors enter, and they tell little of themselves".to_owned()));
        }
        // Users dial these addresses. With a host name, an executor could send them to another address at each lookup.
        let is_address = |it: &String| match linked.from.to_canonical().is_loopback() {
            true => {
                it.parse::<Address>().is_ok_and(|address| address.port > 0 && !address.host.contains(char::is_control))
            }
            false => it.parse::<SocketAddr>().is_ok_and(|address| address.port() > 0),
        };
        if let Some(wrong) = addresses.iter().find(|it| !is_address(it)) {
            return Err(HubError::Other(format!("{} is no address of an executor", printable(wrong))));
        }
        let seen = if port == 0 { Vec::new() } else { self.seen_at(linked.from, port) };
        let own = addresses.into_iter().filter(|own| !seen.contains(own));
        let addresses: Vec<String> = seen.iter().cloned().chain(own).take(MOST_ADDRESSES).collect();
        self.engine().enter(signing::now(), linked.number, who, addresses.clone(), facts)?;
        let what = format!("the executor {} is here", who.name);
        self.log.limited(Severity::Info, &what, format!("{what}, at {}", addresses.join(", ")));
        Ok(addresses)
    }

    /// The addresses of an executor, as the hub sees it. An executor on the hub's own machine has the addresses of the hub.
    fn seen_at(&self, from: IpAddr, port: u16) -> Vec<String> {
        let from = from.to_canonical();
        let hubs = if from.is_loopback() { self.addresses() } else { Vec::new() };
        let own = hubs.iter().filter_map(|hub| Some(format!("{}:{port}", hub.rsplit_once(':')?.0)));
        let own: Vec<String> = own.collect();
        if own.is_empty() { vec![SocketAddr::new(from, port).to_string()] } else { own }
    }

    /// A page of what executors run, as the body of an answer: as many as fit. The first page has what is relayed.
    fn statuses(&self, after: Option<&str>) -> (Vec<u8>, bool) {
        let (executors, goes_on) = self.engine().statuses(after);
        let (relayed, relays, bytes) = if after.is_none() { self.carried.rows() } else { Default::default() };
        let mut statuses = Statuses { executors, relayed, relays, bytes };
        shortened(statuses.executors.len(), goes_on, |count| {
            statuses.executors.truncate(count);
            encode_body(&statuses)
        })
    }

    /// A page of members, with what they have answered about programs. Asks those who were not asked.
    fn seek(
        &self,
        by: &str,
        after: Option<(String, String)>,
        programs: &[String],
    ) -> Result<(Vec<u8>, bool), HubError> {
        if !are_words(programs) {
            return Err(HubError::Other("these are no names of programs, or too many".to_owned()));
        }
        let after = after.map(|(role, name)| Who { role, name });
        let (rows, goes_on) = self.seek_rows(by, after.as_ref(), programs)?;
        Ok(page(rows, goes_on))
    }

    /// The rows of such a page.
    pub(super) fn seek_rows(
        &self,
        by: &str,
        after: Option<&Who>,
        programs: &[String],
    ) -> Result<(Vec<Row>, bool), HubError> {
        let Found { rows, goes_on, questions } = self.engine().seek(signing::now(), by, programs, after)?;
        for (number, programs) in questions {
            let linked = lock(&self.linked).get(&number).cloned();
            linked.iter().for_each(|linked| tell(&linked.link, &FromHub::Look { programs: programs.clone() }));
        }
        Ok((rows, goes_on))
    }
}

/// A page of rows, as the body of an answer: as many as fit. Whether there are more.
fn page<R: Serialize>(mut rows: Vec<R>, goes_on: bool) -> (Vec<u8>, bool) {
    shortened(rows.len(), goes_on, |count| {
        rows.truncate(count);
        encode_body::<Vec<R>>(&rows)
    })
}

/// Encodes the first of `count` rows, half as many each time, until they fit into a body. Whether there are more.
pub(super) fn shortened(
    mut count: usize,
    mut goes_on: bool,
    mut encode: impl FnMut(usize) -> Vec<u8>,
) -> (Vec<u8>, bool) {
    loop {
        let body = encode(count);
        if body.len() as u64 <= MAX_CONTROL_BODY || count < 2 {
            return (body, goes_on);
        }
        count /= 2;
        goes_on = true;
    }
}
