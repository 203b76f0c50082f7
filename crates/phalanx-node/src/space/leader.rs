//! Finds the member that leads a replicated space.

use super::connect::Connect;
use super::seeking::{Answer, Seeking};
use super::{Client, ClientError, Place, SpaceAddress};
use phalanx_core::error::SpaceError;
use phalanx_core::space::{Options, Replica};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two rounds through the members.
const PAUSE: Duration = Duration::from_millis(50);
/// Most members asked in one round, counting those that other members name as the leader.
const MOST_ASKED: usize = 20;
/// A member that has not answered for this long is still listened to, but the next one is asked too.
const SLOW: Duration = Duration::from_millis(300);
/// By then every member has answered, or could not be reached.
const AT_LAST: Duration = Duration::from_secs(60);

/// Opens a space at the member that leads it. Searches in rounds until `until`, beginning with the given address. If it is not
/// certain that the space exists, and no member of the first round knows it, the search ends after that round.
fn find(
    address: &SpaceAddress,
    connect: &Connect,
    until: Instant,
    is_certain: bool,
) -> Result<Arc<Client>, ClientError> {
    let mut known = vec![address.place.clone()];
    known.extend(connect.members.iter().filter(|place| **place != address.place).cloned());
    let mut seeking = Seeking::new(&address.name, connect);
    loop {
        let mut round = Round::new(&known, is_certain);
        loop {
            round.ask_next(&mut seeking, known.len() == 1);
            match seeking.next(if round.needs_all() { AT_LAST } else { SLOW }) {
                Some(answer) => {
                    if let Some(outcome) = round.take(answer, &known) {
                        return outcome;
                    }
                }
                None if round.left.is_empty() => break,
                None => {}
            }
        }
        match round.last {
            Some(error) if !round.is_known => return Err(error),
            Some(error @ ClientError::Unexpected(_)) if Instant::now() >= until => return Err(error),
            _ if Instant::now() < until => thread::sleep(PAUSE),
            last => return Err(nobody(&address.name, round.asked.len(), last)),
        }
    }
}

/// One round through the members.
struct Round {
    /// The members to ask, the next one last.
    left: Vec<Place>,
    asked: Vec<Place>,
    /// The last error of a member.
    last: Option<ClientError>,
    /// Whether the space exists.
    is_known: bool,
}

impl Round {
    fn new(known: &[Place], is_known: bool) -> Round {
        Round { left: known.iter().rev().cloned().collect(), asked: Vec::new(), last: None, is_known }
    }

    /// Asks the next member. One that is `alone` delays no other, so this thread asks it.
    fn ask_next(&mut self, seeking: &mut Seeking, alone: bool) {
        while let Some(place) = self.left.pop() {
            if !self.asked.contains(&place) && self.asked.len() < MOST_ASKED {
                self.asked.push(place.clone());
                return if alone { seeking.ask_here(place) } else { seeking.ask(place) };
            }
        }
    }

    /// Whether only the answers of all members together tell that there is no such space.
    fn needs_all(&self) -> bool {
        self.left.is_empty() && !self.is_known
    }

    /// Takes the answer of one of the `known` members, or of one that they named. Returns the outcome of the search if it is over.
    fn take(&mut self, answer: Answer, known: &[Place]) -> Option<Answer> {
        match answer {
            Err(ClientError::Space(SpaceError::Elsewhere { leader })) => {
                self.is_known = true;
                // The last address may be that of a lost leader. It stays last, even if others still name it.
                let named = leader.and_then(|leader| leader.parse().ok());
                self.left.extend(named.filter(|named| known.len() == 1 || known.last() != Some(named)));
            }
            // This is one of several members; another one may know the space.
            Err(error @ (ClientError::Unreachable(_) | ClientError::Ended { .. })) => self.last = Some(error),
            Err(error @ ClientError::Unexpected(_)) if known.len() > 1 => self.last = Some(error),
            Err(error @ ClientError::Space(SpaceError::NoSpace(_))) => self.last = Some(error),
            outcome => return Some(outcome),
        }
        None
    }
}

fn nobody(name: &str, asked: usize, last: Option<ClientError>) -> ClientError {
    let why = last.map_or(String::new(), |error| format!(" ({error})"));
    let what = "most of its members must be reached by each other, and by who asks";
    ClientError::Unreachable(format!("no member of the space {name} leads it, of {asked} that were asked: {what}{why}"))
}

/// Opens a space that the servers at these places replicate. Creates it if all of them can be reached.
fn found(name: &str, places: &[Place], connect: &Connect, until: Instant) -> Result<Arc<Client>, ClientError> {
    let at = |place: &Place| SpaceAddress { place: place.clone(), name: name.to_owned() };
    let connect = &Connect { members: places.to_vec(), ..connect.clone() };
    let first = places.first().map(at).ok_or_else(|| SpaceError::Options("a space needs members".into()))?;
    let none = Connect { create: None, ..connect.clone() };
    let Some(create) = &connect.create else { return find(&first, &none, until, true) };
    let reached = reach_all(places, &first, connect);
    let missing = reached.iter().find_map(|reached| reached.as_ref().err().cloned());
    if let Some(missing) = missing {
        let needs = |why| match why {
            ClientError::Unexpected(_) => why,
            why => ClientError::Unreachable(format!("to be made, the space needs all of its members: {why}")),
        };
        return find(&first, &none, until, false).map_err(|error| match error {
            ClientError::Space(SpaceError::NoSpace(_)) | ClientError::Unreachable(_) => needs(missing),
            error => error,
        });
    }
    let (clients, names): (Vec<Client>, Vec<String>) = reached.into_iter().flatten().unzip();
    let replicas = names.into_iter().zip(places);
    let replicas = replicas.map(|(name, place)| Replica { name, address: place.to_string() }).collect();
    let create = Options { durable: true, replicas, ..create.clone() };
    // Every client that opens the space tells each server. So it does not matter which client is first, or whether one fails in
    // between.
    let mut leading = None;
    for client in clients {
        match client.open(Some(create.clone())) {
            Ok(client) => leading = Some(client),
            // A server that dies now has been told already, or learns it from the others.
            Err(ClientError::Space(SpaceError::Elsewhere { .. })) => {}
            Err(ClientError::Unreachable(_) | ClientError::Ended { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    leading.map_or_else(|| find(&first, &none, until, true), Ok)
}

/// Whether another member knows a leader other than the member of this connection, as far as they tell within `patience`.
pub(super) fn is_led_elsewhere(client: &Client, patience: Duration) -> bool {
    let (address, connect, until) = (client.address(), client.reached_by(), Instant::now() + patience);
    let own = address.place.to_string();
    let mut seeking = Seeking::new(&address.name, connect);
    connect.members.iter().filter(|place| **place != address.place).for_each(|place| seeking.ask(place.clone()));
    while let Some(answer) = seeking.next(until.saturating_duration_since(Instant::now())) {
        match answer {
            Ok(leading) => {
                leading.close();
                return true;
            }
            Err(ClientError::Space(SpaceError::Elsewhere { leader: Some(leader) })) if leader != own => return true,
            Err(_) => {}
        }
    }
    false
}

type Named = (Client, String);

/// Connects to all places at the same time, and asks for their names.
pub(super) fn reach_all(places: &[Place], space: &SpaceAddress, connect: &Connect) -> Vec<Result<Named, ClientError>> {
    let ask = |address: SpaceAddress| {
        let client = Client::reach(address.clone(), connect)?;
        match client.ask_name()? {
            name if name.is_empty() => {
                let why = "has no identity, which members of a replicated space need (phalanx grid issue)";
                Err(ClientError::Identity(format!("the server at {} {why}", address.place)))
            }
            name => Ok((client, name)),
        }
    };
    thread::scope(|scope| {
        let asking: Vec<_> = places
            .iter()
            .map(|place| {
                let address = SpaceAddress { place: place.clone(), name: space.name.clone() };
                scope.spawn(move || ask(address))
            })
            .collect();
        let gone = |_| Err(ClientError::Unreachable("a thread that asked a member has ended".into()));
        asking.into_iter().map(|asking| asking.join().unwrap_or_else(gone)).collect()
    })
}

impl Client {
    /// Connects to the space and opens it. A replicated space is opened at the member that leads.
    pub fn connect(address: SpaceAddress, connect: &Connect) -> Result<Arc<Client>, ClientError> {
        let is_certain = !connect.members.is_empty();
        find(&address, connect, Instant::now() + connect.patience, is_certain)
    }

    /// Opens a space at whichever of its members leads, and creates it if `connect` has options for that. Searches for the time
    /// of `patience`.
    pub fn connect_to_members(
        name: &str,
        places: &[Place],
        connect: &Connect,
        patience: Duration,
    ) -> Result<Arc<Client>, ClientError> {
        found(name, places, connect, Instant::now() + patience)
    }
}
