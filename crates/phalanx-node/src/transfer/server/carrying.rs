//! An executor's part in a copy between two executors: it admits the executor that shows a ticket, or it calls the other one.
//!
//! A ticket is valid once, for the owner of the certificate that the user named, for the request of the user, and while the
//! user's own link stands.

use super::service::{Guest, Idle, PATIENCE, Service, counted};
use super::transfers::{Expected, Ticket, Transfers};
use crate::control::{LEVELS, Pulse, tell};
use crate::dial::{agree, printable};
use crate::door::{Peer, refused};
use crate::transfer::client::calling::{Called, Caller, Ran, Terms};
use crate::transfer::client::job::CopyError;
use crate::transfer::endpoint::common::Common;
use phalanx_core::level::{Level, LevelSet, Mark};
use phalanx_core::wire::transfer::{Carriage, Carried, Direction, MOST_STREAMS, Message, Request, Trouble, is_name};
use phalanx_net::address::Address;
use phalanx_net::identity::{Role, is_same_member, random_token};
use phalanx_net::link::{Link, Reader};
use phalanx_net::stream::Protection;
use phalanx_net::sync::lock;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which the user's link is checked.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the other executor may take to show its ticket.
const VALID: Duration = Duration::from_secs(60);
/// Most bytes that may wait for a user who does not read. With more, the copy is given up.
const MOST_WAITING: usize = 1 << 20;

/// Removes a ticket when the service of its user ends, and ends the transfer that was begun with it.
struct Leaving<'a>(&'a Service, Ticket, Arc<Expected>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        lock(&self.0.transfers).expected.remove(&self.1);
        self.2.gone.store(true, Ordering::Release);
    }
}

/// Marks a copy as ended when its service ends.
struct Ended(Arc<Expected>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
    }
}

/// Ends the count of a call when it has shown a ticket, or failed to.
struct Showing<'a>(&'a Service, Vec<u8>);

impl Drop for Showing<'_> {
    fn drop(&mut self) {
        lock(&self.0.transfers).leave_showing(&self.1);
    }
}

/// Ends the count of a user's copy to another executor.
struct Carrying<'a>(&'a Service, String);

impl Drop for Carrying<'_> {
    fn drop(&mut self) {
        let carrying = &mut lock(&self.0.transfers).carrying;
        if let Some(index) = carrying.iter().position(|user| *user == self.1) {
            carrying.swap_remove(index);
        }
    }
}

impl Service {
    /// Gives a user a ticket for the executor that is to copy here. Returns when the user's link has ended.
    pub(super) fn expect(
        &self,
        guest: Guest,
        request: Request,
        levels: LevelSet,
        name: Vec<u8>,
        certificate: Vec<u8>,
    ) -> io::Result<()> {
        let Guest { link, ear, user, .. } = guest;
        let (gone, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let is_possible = match request.direction {
            Direction::Put if !is_name(&name) => Err(refused("what is copied has no name")),
            Direction::Put => self.allows(&request),
            Direction::Get => Err(refused("the executor that sends is the one that calls")),
        };
        let arrived = Mutex::default();
        let expected = Arc::new(Expected { user, certificate, request, levels, name, gone, ended, arrived });
        let ticket = random_token();
        let entered = is_possible.and_then(|()| {
            let mut transfers = lock(&self.transfers);
            transfers.room(&expected.user)?;
            transfers.expected.insert(ticket, expected.clone());
            Ok(())
        });
        let (reader, _) = ear.into_parts();
        if let Err(error) = entered {
            return Err(self.refuse(&link, reader, &expected.user, &error));
        }
        let _leaving = Leaving(self, ticket, expected.clone());
        tell(&link, &Message::Ticket { ticket });
        let until = Instant::now() + VALID;
        let mut told = None::<Instant>;
        self.attend(reader, || {
            let is_late = Instant::now() >= until && lock(&self.transfers).expected.contains_key(&ticket);
            let has_ended = expected.ended.load(Ordering::Acquire); // read first, because `arrived` is set before it
            let arrived = lock(&expected.arrived).take();
            if let Some((level, totals)) = arrived {
                tell(&link, &Message::Arrived { level, totals });
                told = Some(Instant::now());
            }
            // If the user does not close the link then, this end does.
            let is_over = told.map_or(has_ended, |at| at.elapsed() >= PATIENCE);
            is_late || is_over
        });
        Ok(())
    }

    /// Serves another executor, which was sent by a user.
    pub fn serve_executor(&self, mut peer: Peer) -> io::Result<()> {
        let (shaken, name) = peer.shake_hands_as(&self.member, LEVELS, Role::Executor)?;
        let certificate = shaken.peer_certificate().to_vec();
        lock(&self.transfers).enter_showing(&certificate)?;
        let showing = Showing(self, certificate);
        let mut guest = self.greet(peer, shaken, name, Role::Executor)?;
        let Message::Show { ticket, level } = guest.hear(PATIENCE)? else {
            return Err(refused("the first word of an executor is its ticket"));
        };
        let expected = match self.redeem(ticket, &guest, level) {
            Ok(expected) => expected,
            Err(error) => {
                let (reader, _) = guest.ear.into_parts();
                return Err(self.refuse(&guest.link, reader, &guest.user, &error));
            }
        };
        drop(showing);
        let _ended = Ended(expected.clone());
        guest.user = expected.user.clone();
        let request = Request { level, ..expected.request.clone() };
        let totals = self.go(guest, request, Some(&expected.name), &|| expected.gone.load(Ordering::Acquire))?;
        *lock(&expected.arrived) = totals.map(|totals| (level, totals));
        Ok(())
    }

    /// Redeems a ticket, if it was given for this executor. An attempt of another executor does not use it up.
    fn redeem(&self, ticket: Ticket, guest: &Guest, level: Level) -> io::Result<Arc<Expected>> {
        let mut transfers = lock(&self.transfers);
        let expected = transfers
            .expected
            .get(&ticket)
            .filter(|expected| is_same_member(&expected.certificate, &guest.certificate));
        let expected = expected.ok_or_else(|| refused("an unknown ticket"))?;
        if !expected.levels.contains(level) {
            return Err(refused(format!("streams are to be {level}, but the user takes {}", expected.levels)));
        }
        transfers.expected.remove(&ticket).ok_or_else(|| refused("an unknown ticket"))
    }

    /// Copies to another executor for a user. Returns when the user has received the outcome.
    pub(super) fn carry(&self, guest: Guest, carriage: &Carriage) -> io::Result<()> {
        let Guest { link, ear, user, .. } = guest;
        let (reader, _) = ear.into_parts();
        let enter = |mut transfers: MutexGuard<'_, Transfers>| {
            transfers.room(&user).map(|()| transfers.carrying.push(user.clone()))
        };
        let entered = enter(lock(&self.transfers));
        if let Err(error) = entered {
            return Err(self.refuse(&link, reader, &user, &error));
        }
        let _carrying = Carrying(self, user.clone());
        self.log.visit(&user, format!("serving {user}, who copies from here to {}", printable(&carriage.address)));
        let (gone, told) = (AtomicBool::new(false), Mutex::new(None::<Instant>));
        thread::scope(|scope| {
            let attending = || {
                // If the user does not close the link then, this end does.
                self.attend(reader, || lock(&told).is_some_and(|at| at.elapsed() >= PATIENCE));
                gone.store(true, Ordering::Release);
            };
            thread::Builder::new().name("phalanx-user".into()).spawn_scoped(scope, attending)?;
            let outcome = self.copy_on(carriage, &link, &gone);
            let how = match &outcome {
                Ok(carried) => counted(&carried.totals),
                Err(error) => format!("gave up: {error}"),
            };
            self.log.visit(&user, format!("{user}'s copy ended: {how}"));
            tell(&link, &last_word(outcome));
            *lock(&told) = Some(Instant::now());
            Ok(())
        })
    }

    /// Copies to the other executor, as a user's machine does.
    fn copy_on(&self, carriage: &Carriage, user: &Link, gone: &AtomicBool) -> Result<Carried, CopyError> {
        let refused = |error: io::Error| CopyError::Refused(error.to_string());
        let get = Request { direction: Direction::Get, ..carriage.request.clone() };
        self.allows(&get).map_err(refused)?;
        let address: Result<SocketAddr, _> = carriage.address.parse(); // numeric, so that this machine resolves no name
        let address = address.map_err(|_| CopyError::Refused("this is no executor's address".to_owned()))?;
        let address = Address { host: address.ip().to_string(), port: address.port() };
        let mut called = Called::new(&address, Caller::Executor(&self.member, &carriage.certificate), |_| ())?;
        let (least, checked) = (carriage.request.level, carriage.request.checked);
        let place = self.policy.place(Some(called.at.ip()), Role::Executor.name());
        let own = self.policy.offered(&place, Mark::None); // whatever the user prefers
        let theirs = called.levels.both(LevelSet::from(least)).both(carriage.levels).both(own);
        let agreed = agree(&self.policy, carriage.exact.then_some(least), called.at.ip(), theirs);
        let (level, why) = agreed.map_err(|why| CopyError::Level(format!("{address}: {why}")))?;
        let common = Arc::new(Common::new(called.link.clone(), true));
        let end = self.open(common, &get, None).map_err(refused)?;
        let answer = called.ask(&Message::Show { ticket: carriage.ticket, level })?;
        let Message::Begun { token } = answer else { return Err(called.nonsense()) };
        let threads = Some(carriage.request.threads.min(MOST_STREAMS)).filter(|threads| *threads > 0);
        let terms = Terms { protection: Protection { level, checked }, streams: carriage.streams, threads };
        let (mut told, mut idle) = (None, Idle::new());
        let ran = called.run(&end, token, terms, |link| {
            let (bytes, total, growing) = end.progress();
            if told != Some((bytes, total)) {
                told = Some((bytes, total));
                tell(user, &Message::Progress { bytes, total, growing });
            }
            if idle.is_over(&end) {
                end.common().give_up("nothing moved for too long".to_owned());
            }
            if gone.load(Ordering::Acquire) || user.waiting_bytes() > MOST_WAITING {
                link.close();
            }
        });
        for failure in end.common().failures() {
            if user.waiting_bytes() > MOST_WAITING {
                user.close();
                break;
            }
            tell(user, &Common::skipped(&failure.path, failure.reason));
        }
        let Ran { totals, streams, lost, altered, setup } = ran?;
        Ok(Carried { level, why, streams, lost, altered, setup: setup.as_micros() as u64, totals })
    }

    /// Serves a user's link until it ends or `is_over` returns true.
    fn attend(&self, reader: Reader, mut is_over: impl FnMut() -> bool) {
        let mut pulse = Pulse::new();
        reader.run(
            PAUSE,
            |_| (),
            |link| {
                pulse.pause(link, &Message::Beat);
                if self.is_closed() || self.paused().is_some() || is_over() {
                    link.close();
                }
            },
        );
    }
}

/// The message to the user about a copy that has ended.
fn last_word(outcome: Result<Carried, CopyError>) -> Message {
    let stopped = |trouble, reason| Message::Stopped { trouble, reason };
    match outcome {
        Ok(carried) => Message::Carried(carried),
        Err(CopyError::Unreachable(reason)) => stopped(Trouble::Unreachable, reason),
        Err(CopyError::Level(reason)) => stopped(Trouble::Level, reason),
        Err(CopyError::Cut(reason)) => stopped(Trouble::Cut, reason),
        Err(error) => stopped(Trouble::Refused, error.to_string()),
    }
}
