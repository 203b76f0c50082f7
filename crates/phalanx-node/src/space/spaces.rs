//! The spaces of one server, by name.

use super::deciding::asks;
use super::hosted::{Asks, Hosted};
use super::keeping::Directory;
use super::log::replicated::Kept;
use super::replica::{FIRST_JOINING, Taking, check, founding};
use super::visitor::{Visitor, share};
use super::{Verb, check_name};
use crate::dialler::Dialler;
use crate::log::Log;
use phalanx_core::error::SpaceError;
use phalanx_core::ids::TransactionId;
use phalanx_core::level::Policy;
use phalanx_core::space::{Decision, Options, Pool, Seat};
use phalanx_core::wire::Version;
use phalanx_net::identity::Member;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// The server owner's upper limits. They hold whatever options a space is created with.
#[derive(Debug, Clone)]
pub struct Caps {
    /// Most spaces at a time.
    pub spaces: usize,
    /// The upper limit of each option of a space.
    pub options: Options,
    /// Most bytes of memory of all spaces together. One user's spaces may take up to three times what they leave of it.
    pub bytes: u64,
    /// The part, in percent, that one user may have of what there is for all. It applies to clients, spaces and unfinished
    /// messages, and within each space to transactions and waiting requests.
    pub share: u8,
}

impl Default for Caps {
    fn default() -> Caps {
        Caps { spaces: 1000, options: Options::default(), bytes: 1 << 34, share: 25 }
    }
}

/// Longest group name that members use for a space, in bytes.
const MOST_GROUP_NAME: usize = 8192;

type Named = HashMap<String, Arc<Hosted>>;
type Takings = HashMap<String, Arc<Taking>>;

/// Named spaces.
pub struct Spaces {
    named: Mutex<Named>,
    /// Whether a space is created when a user with that right first names it.
    creates: bool,
    caps: Caps,
    /// The memory of all spaces.
    pool: Arc<Pool>,
    /// The folder of durable spaces. `None`: there are none.
    directory: Option<Directory>,
    /// The spaces opened from the folder.
    kept: Mutex<Vec<Weak<Hosted>>>,
    /// This server's memberships in replicated spaces.
    takings: Mutex<Takings>,
    /// This server's identity. `None`: it cannot be a member of a replicated space.
    own: Option<Arc<Member>>,
    asks: Asks,
    /// The version of phalanx that clients are told.
    pub(super) phalanx: Version,
    log: Log,
}

impl Spaces {
    /// Creates the table, with no space in it.
    pub fn new(
        creates: bool,
        caps: Caps,
        directory: Option<Directory>,
        own: Option<Arc<Member>>,
        policy: Policy,
        phalanx: Version,
        log: Log,
    ) -> Spaces {
        let asks = asks(own.as_deref().cloned().map(Dialler::from), policy);
        let (named, kept, takings) = (Mutex::default(), Mutex::default(), Mutex::default());
        let pool = Pool::new(caps.bytes);
        Spaces { named, creates, caps, pool, directory, kept, takings, own, asks, phalanx, log }
    }

    /// The part of `most` that one user may have.
    pub fn share(&self, most: u64) -> u64 {
        share(most, self.caps.share)
    }

    /// The name in this server's certificate; empty if it has none.
    pub fn own_name(&self) -> String {
        self.own.as_ref().map_or(String::new(), |own| own.name.clone())
    }

    /// Opens all spaces that have a file in the folder. A failure is logged, and the space is tried again when it is named.
    pub fn open_kept(&self) {
        let kept = self.directory.iter().flat_map(|directory| [directory.names(), directory.replicas()].concat());
        for name in kept.filter(|name| check_name(name).is_ok()) {
            match self.open(&name, None, &Visitor::owner()) {
                Ok(_) | Err(SpaceError::Elsewhere { .. }) => {}
                Err(error) => self.log.warning(format!("the space {name} was kept, but {error}")),
            }
        }
    }

    /// Finds the space that other members ask about, by its group name.
    pub fn find_group(&self, group: &str) -> Option<Arc<Kept>> {
        lock(&self.takings).values().find(|taking| taking.group == group).map(|taking| taking.kept.clone())
    }

    /// This server's membership in the replicated space of that name, if there is one or `create` asks for one.
    fn taking(
        &self,
        name: &str,
        create: Option<&Options>,
        visitor: &Visitor,
        named: &Named,
    ) -> Result<Option<Arc<Taking>>, SpaceError> {
        let mut takings = lock(&self.takings);
        let create = create.filter(|options| !options.replicas.is_empty());
        if let Some(taking) = takings.get(name) {
            create.map_or(Ok(()), |options| taking.check(options))?;
            return Ok(Some(taking.clone()));
        }
        let has = self.directory.as_ref().is_some_and(|directory| directory.has_replica(name));
        if !has && create.is_none() {
            return Ok(None);
        }
        let not_kept = |why: &str| SpaceError::NotKept(why.to_owned());
        let directory = self.directory.as_ref().ok_or_else(|| not_kept("this server has no directory for spaces"))?;
        let own = self.own.as_ref().ok_or_else(|| not_kept("this server has no identity: it is no member"))?;
        if let Some(options) = create.filter(|_| !has) {
            self.check_creating(name, options, visitor)?;
            self.check_room(visitor, named, &takings)?;
        }
        let create = create.map(|options| self.capped(options.clone(), visitor)).filter(|_| self.creates);
        let new = create.clone().map(|options| founding(name, options, &own.name)).transpose()?;
        let taking = Taking::open(&directory.replica(name)?, name, own, new, self.asks.clone(), self.log.clone())?;
        takings.insert(name.to_owned(), taking.clone());
        drop(takings);
        create.map_or(Ok(()), |options| taking.check(&options))?;
        Ok(Some(taking))
    }

    /// Makes this server a member of a space that others keep. The space's leader is told of it next. For this server's rules
    /// and limits, the visitor creates a space.
    pub fn join(&self, name: &str, seat: Seat, visitor: &Visitor) -> Result<(), SpaceError> {
        check_name(name).map_err(|error| SpaceError::NoSpace(error.to_string()))?;
        self.check_creating(name, &seat.options, visitor)?;
        let not_kept = |why: &str| SpaceError::NotKept(why.to_owned());
        let directory = self.directory.as_ref().ok_or_else(|| not_kept("this server has no directory for spaces"))?;
        let own = self.own.as_ref().ok_or_else(|| not_kept("this server has no identity: it is no member"))?;
        check(&seat.options.replicas, &own.name)?;
        if seat.number < FIRST_JOINING || seat.group.len() > MOST_GROUP_NAME {
            return Err(SpaceError::Options("no number or name that a member who comes later has".into()));
        }
        let named = lock(&self.named);
        let mut takings = lock(&self.takings);
        if let Some(former) = takings.get(name).filter(|taking| taking.is_former()) {
            former.close();
            directory.set_aside(name)?;
            takings.remove(name);
        }
        if named.contains_key(name) || takings.contains_key(name) || directory.has(name) || directory.has_replica(name)
        {
            return Err(not_kept("this server has a space of this name already"));
        }
        self.check_room(visitor, &named, &takings)?;
        let seat = Seat { options: self.capped(seat.options, visitor), ..seat };
        let (path, asks, log) = (directory.replica(name)?, self.asks.clone(), self.log.clone());
        let taking = Taking::open(&path, name, own, Some(seat), asks, log)?;
        takings.insert(name.to_owned(), taking);
        Ok(())
    }

    /// Whether the visitor may create a space of this name, for the group that the options name.
    fn check_creating(&self, name: &str, options: &Options, visitor: &Visitor) -> Result<(), SpaceError> {
        if !self.creates {
            return Err(SpaceError::NoSpace("there is none of this name".into()));
        }
        if !visitor.rights(name).allow(Verb::Create, None) {
            return Err(SpaceError::Forbidden(format!("to create the space {name}")));
        }
        options.group.as_ref().map_or(Ok(()), |group| visitor.check_making(name, group))
    }

    /// Checks that there is room for one more space, in total and in the visitor's share.
    fn check_room(&self, visitor: &Visitor, named: &Named, takings: &Takings) -> Result<(), SpaceError> {
        let full = |what: &str, most| Err(SpaceError::Full { what: what.to_owned(), most });
        let most = self.caps.spaces as u64;
        // Spaces with a file count even while no client has named them.
        let kept = self.directory.iter().flat_map(Directory::names).filter(|name| !named.contains_key(name));
        if (named.len() + kept.count() + takings.len()) as u64 >= most {
            return full("spaces", most);
        }
        let Some(user) = visitor.user() else { return Ok(()) };
        let replicated = takings.values().map(|taking| &taking.options().maker);
        let makers = named.values().map(|space| &space.maker).chain(replicated);
        let most = self.share(most);
        match makers.filter(|maker| maker.as_deref() == Some(user)).count() as u64 >= most {
            true => full("spaces made by one user", most),
            false => Ok(()),
        }
    }

    /// Ends the spaces of the folder. The others belong to the code that added them.
    pub fn close(&self) {
        let kept = std::mem::take(&mut *lock(&self.kept));
        kept.iter().filter_map(Weak::upgrade).for_each(|space| space.end());
        let takings = std::mem::take(&mut *lock(&self.takings));
        takings.values().for_each(|taking| taking.close());
    }

    fn open_file(&self, directory: &Directory, name: &str, create: Option<Options>) -> Result<Arc<Hosted>, SpaceError> {
        let space = self.charged(directory.open(name, create)?);
        let mut kept = lock(&self.kept);
        kept.retain(|one| one.strong_count() > 0);
        kept.push(Arc::downgrade(&space));
        Ok(space)
    }

    /// Adds an existing space. Returns false if the name is taken.
    pub fn add(&self, name: &str, space: Arc<Hosted>) -> bool {
        let mut named = lock(&self.named);
        let free = !named.contains_key(name);
        if free {
            named.insert(name.to_owned(), self.charged(space));
        }
        free
    }

    /// The space of that name, and whether it was created now. It is created if it does not exist and `create` has options. An
    /// existing space keeps its options, but a client that asks for a group's space gets no space of another group.
    pub fn open(
        &self,
        name: &str,
        create: Option<Options>,
        visitor: &Visitor,
    ) -> Result<(Arc<Hosted>, bool), SpaceError> {
        check_name(name).map_err(|error| SpaceError::NoSpace(error.to_string()))?;
        if !visitor.rights(name).are_any() {
            return Err(SpaceError::Forbidden(visitor.nothing_in(name)));
        }
        let asked = create.as_ref().and_then(|options| options.group.clone());
        let (space, created) = self.find_or_make(name, create, visitor)?;
        space.ask_by(&self.asks);
        space.group.as_ref().map_or(Ok(()), |group| visitor.check_member(name, group))?;
        match asked.filter(|asked| space.group.as_ref() != Some(asked)) {
            Some(asked) => {
                let what = format!("the space {name} is there already, and is not the group {asked}'s");
                Err(SpaceError::Forbidden(what))
            }
            None => Ok((space, created)),
        }
    }

    /// The outcome of a transaction that a space here coordinates.
    pub fn decide(
        &self,
        name: &str,
        identity: u128,
        transaction: TransactionId,
        age: Duration,
    ) -> Result<Decision, SpaceError> {
        let none = || SpaceError::NoSpace("there is none of this name".into());
        check_name(name).map_err(|error| SpaceError::NoSpace(error.to_string()))?;
        let (space, _) = self.find_or_make(name, None, &Visitor::owner())?;
        let (decision, told) = space.with(|space, now| match space.identity() == identity {
            true => Ok(space.decision(now, transaction, age)),
            false => Err(none()),
        });
        told.flush()?;
        decision
    }

    fn find_or_make(
        &self,
        name: &str,
        create: Option<Options>,
        visitor: &Visitor,
    ) -> Result<(Arc<Hosted>, bool), SpaceError> {
        let mut named = lock(&self.named);
        if let Some(space) = named.get(name).filter(|space| !space.has_ended()) {
            return Ok((space.clone(), false));
        }
        if let Some(taking) = self.taking(name, create.as_ref(), visitor, &named)? {
            let space = taking.space()?;
            space.charge_to(&self.pool);
            return Ok((space, false));
        }
        if let Some(directory) = self.directory.as_ref().filter(|directory| directory.has(name)) {
            let space = self.open_file(directory, name, None)?;
            named.insert(name.to_owned(), space.clone());
            return Ok((space, false));
        }
        let options = create.ok_or_else(|| SpaceError::NoSpace("there is none of this name".to_owned()))?;
        self.check_creating(name, &options, visitor)?;
        self.check_room(visitor, &named, &lock(&self.takings))?;
        let options = self.capped(options, visitor);
        let space = match (options.durable, &self.directory) {
            (false, _) => self.charged(Hosted::new(options)?),
            (true, Some(directory)) => self.open_file(directory, name, Some(options))?,
            (true, None) => return Err(SpaceError::NotKept("this server has no directory for durable spaces".into())),
        };
        named.insert(name.to_owned(), space.clone());
        Ok((space, true))
    }

    fn charged(&self, space: Arc<Hosted>) -> Arc<Hosted> {
        space.charge_to(&self.pool);
        space
    }

    fn capped(&self, asked: Options, visitor: &Visitor) -> Options {
        let most = &self.caps.options;
        Options {
            most_tuples: asked.most_tuples.min(most.most_tuples),
            most_bytes: asked.most_bytes.min(most.most_bytes),
            most_tuple_bytes: asked.most_tuple_bytes.min(most.most_tuple_bytes),
            most_fields: asked.most_fields.min(most.most_fields),
            most_nesting: asked.most_nesting.min(most.most_nesting),
            most_waiters: asked.most_waiters.min(most.most_waiters),
            most_session_waiters: asked.most_session_waiters.min(most.most_session_waiters),
            most_transactions: asked.most_transactions.min(most.most_transactions),
            longest_transaction: asked.longest_transaction.min(most.longest_transaction),
            log_events: asked.log_events.min(most.log_events),
            log_bytes: asked.log_bytes.min(most.log_bytes),
            lease: asked.lease.map(|lease| lease.max(Duration::from_nanos(1))),
            maker: visitor.user().map(|user| user.to_string()),
            ..asked
        }
    }
}
