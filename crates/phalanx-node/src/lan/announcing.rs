//! An executor announces itself on the networks of its machine, until it ends.

use crate::log::{Log, Severity};
use phalanx_core::lan::{Announcer, MOST_PACKET, Reply, Segment, To};
use phalanx_net::identity::random_number;
use phalanx_net::multicast::{Multicast, segments};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two looks at which networks this machine has. A laptop that is carried away has another one.
const LOOK: Duration = Duration::from_secs(5);
/// Time between the two announcements in a new network, of which one may be lost (RFC 6762, section 8.3).
const AGAIN: Duration = Duration::from_millis(1100);
/// Time between two looks whether the executor has ended.
const PAUSE: Duration = Duration::from_millis(200);

/// An executor that is announced. Others are told that it listens no more when this is dropped.
#[derive(Debug)]
pub struct Announcing {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Announcing {
    /// Announces what listens at an address of this machine, or at all of them.
    ///
    /// # Errors
    /// No other machine reaches the address, or another program does not share the port of multicast DNS.
    pub fn begin(at: SocketAddr, log: Log) -> io::Result<Announcing> {
        let only = match at.ip().to_canonical() {
            IpAddr::V4(one) if one.is_unspecified() => None,
            IpAddr::V6(one) if one.is_unspecified() => None,
            IpAddr::V4(one) if !one.is_loopback() => Some(one),
            one => {
                let why = format!("{one} is no IPv4 address by which the local network reaches this machine");
                return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, why));
            }
        };
        let announcer = Announcer::new(at.port(), random_number());
        let (is_over, socket) = (Arc::new(AtomicBool::new(false)), Multicast::hearing()?);
        let mut announced = Announced {
            announcer,
            socket,
            only,
            networks: Vec::new(),
            began: Instant::now(),
            is_over: is_over.clone(),
        };
        let announce = move || announced.run(&log);
        let thread = thread::Builder::new().name("phalanx-lan".into()).spawn(announce)?;
        Ok(Announcing { is_over, thread: Some(thread) })
    }
}

impl Drop for Announcing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Announced {
    announcer: Announcer,
    socket: Multicast,
    /// The only address at which the executor listens.
    only: Option<Ipv4Addr>,
    /// Where it is announced, and when it is announced again there.
    networks: Vec<(Segment, Option<Instant>)>,
    began: Instant,
    is_over: Arc<AtomicBool>,
}

impl Announced {
    fn run(&mut self, log: &Log) {
        let (mut buffer, mut look) = ([0; MOST_PACKET + 1], Instant::now());
        while !self.is_over.load(Ordering::Acquire) {
            if look <= Instant::now() {
                look = Instant::now() + LOOK;
                self.look(log);
            }
            self.announce_again();
            let Some((from, packet)) = self.socket.receive(&mut buffer, PAUSE) else { continue };
            let network = self.networks.iter().map(|(on, _)| on).find(|on| on.has(*from.ip()));
            let reply =
                network.and_then(|on| Some((on, self.announcer.on_packet(self.began.elapsed(), on, from, packet)?)));
            let _ = match reply {
                Some((on, Reply { to: To::All, packet })) => self.socket.send_to_all(on, &packet),
                Some((_, Reply { to: To::One(to), packet })) => self.socket.send_to(to, &packet),
                None => Ok(()),
            };
        }
        self.networks.iter().for_each(|(on, _)| drop(self.socket.send_to_all(on, &self.announcer.goodbye(on))));
    }

    /// Joins the networks that are new, and leaves those that are gone.
    fn look(&mut self, log: &Log) {
        let mut here = match segments() {
            Ok(here) => here,
            Err(error) => {
                let what = "the networks of this machine are not known";
                return log.limited(Severity::Warning, what, format!("{what}: {error}"));
            }
        };
        here.retain(|on| self.only.is_none_or(|only| only == on.address));
        let (kept, gone) = self.networks.drain(..).partition::<Vec<_>, _>(|(on, _)| here.contains(on));
        gone.iter().for_each(|(on, _)| self.socket.leave(on));
        self.networks = kept;
        for on in here {
            if self.networks.iter().all(|(known, _)| *known != on) && self.socket.join(&on).is_ok() {
                log.info(format!("announced on the local network of {}", on.address));
                let _ = self.socket.send_to_all(&on, &self.announcer.announcement(self.began.elapsed(), &on));
                self.networks.push((on, Some(Instant::now() + AGAIN)));
            }
        }
        if self.networks.is_empty() {
            let what = "this machine has no network in which its executor can be announced; it is looked for again";
            log.limited(Severity::Warning, what, what);
        }
    }

    fn announce_again(&mut self) {
        for (on, again) in &mut self.networks {
            if again.is_some_and(|again| again <= Instant::now()) {
                *again = None;
                let _ = self.socket.send_to_all(on, &self.announcer.announcement(self.began.elapsed(), on));
            }
        }
    }
}
