//! Links between members that cannot connect directly: each dials the hub with a token of its own, and the hub copies the bytes.
//!
//! The tokens come over links that authenticate the members. They protect the hub from carrying strangers' bytes, and nothing else: the
//! two members authenticate each other through the relay.

use super::{Hub, HubError, signing};
use crate::control::tell;
use crate::door::{Peer, refused};
use crate::quota::Entered;
use phalanx_core::hub::Who;
use phalanx_core::wire::hub::FromHub;
use phalanx_net::identity::random_token;
use phalanx_net::relay::carry;
use phalanx_net::socket::Socket;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long the two ends of a link may take to arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most relayed links, and most of one member.
pub const MOST: (usize, usize) = (2048, 512);

type Token = [u8; 16];

/// The links whose ends have not both arrived.
#[derive(Default)]
pub struct Meetings(Mutex<HashMap<Token, Arc<Meeting>>>);

/// The two ends of a link that will be relayed.
struct Meeting {
    until: Instant,
    first: Mutex<Option<Socket>>,
    /// The place of the member who has asked.
    entered: Mutex<Option<Entered>>,
}

impl Meetings {
    /// The tokens for both ends of a new link.
    fn arrange(&self, entered: Entered) -> [Token; 2] {
        let (until, tokens) = (Instant::now() + PATIENCE, [random_token(), random_token()]);
        let meeting = Arc::new(Meeting { until, first: Mutex::new(None), entered: Mutex::new(Some(entered)) });
        let mut meetings = lock(&self.0);
        meetings.retain(|_, meeting| meeting.until > Instant::now());
        tokens.iter().for_each(|token| drop(meetings.insert(*token, meeting.clone())));
        tokens
    }

    /// An end has arrived. Returns both sockets once both have, and the place that the link takes.
    fn arrive(&self, token: Token, socket: Socket) -> Option<(Socket, Socket, Option<Entered>)> {
        let meeting = lock(&self.0).remove(&token).filter(|meeting| meeting.until > Instant::now())?;
        let mut first = lock(&meeting.first);
        match first.take() {
            Some(other) => Some((other, socket, lock(&meeting.entered).take())),
            None => {
                *first = Some(socket);
                None
            }
        }
    }

    /// Forgets links whose ends are late. Their connections end.
    pub fn forget_late(&self) {
        lock(&self.0).retain(|_, meeting| meeting.until > Instant::now());
    }

    fn is_expected(&self, token: &Token) -> bool {
        lock(&self.0).contains_key(token)
    }
}

impl Hub {
    /// Makes a way to an executor that is here: the executor is told to dial the hub. Returns the token of the member that has asked.
    pub(super) fn reach(&self, by: &Who, name: &str) -> Result<Token, HubError> {
        let number = self.engine().link_of(&Who::new("executor", name))?;
        let linked = lock(&self.linked).get(&number).cloned();
        let linked = linked.ok_or_else(|| HubError::Other(format!("{name} has just left")))?;
        let entered = self.relayed.enter(&format!("{} {}", by.role, by.name))?;
        let [token, theirs] = self.meetings.arrange(entered);
        tell(linked.link(), &FromHub::Come { token: theirs });
        Ok(token)
    }

    /// Takes one end of a link, and carries the link once both ends are here.
    pub fn serve_relayed(&self, peer: Peer, token: Token) -> io::Result<()> {
        if !self.meetings.is_expected(&token) {
            return Err(refused("a link that nobody has arranged"));
        }
        peer.proved();
        if let Some((one, other, _entered)) = self.meetings.arrive(token, peer.socket) {
            let began = signing::now();
            let bytes = carry(one, other)?;
            self.log.debug(format!("relayed {bytes} bytes in {} s", signing::now().saturating_sub(began)));
        }
        Ok(())
    }
}
