//! The policy: decides a link's level from where the link goes, what it carries, and what the user said.

use super::{Level, LevelSet, Levels, Mark};
use core::net::IpAddr;
use ipnet::IpNet;
use std::fmt;
use thiserror::Error;

/// The warning about a policy that protects only marked data: what an attacker can do with the rest.
const MARKED: &str = "policy marked: what is not marked is only authenticated, so that an attacker on the wire can read \
                      and change it";

/// Where a link goes, as far as the policy distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Another process of this machine, over a socket that never leaves the kernel.
    SameMachine,
    /// A network that the user declared trusted.
    Trusted,
    /// Anywhere else. Also this machine's own network addresses, because a tunnel may start there.
    Untrusted,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reach::SameMachine => "same machine",
            Reach::Trusted => "trusted network",
            Reach::Untrusted => "untrusted network",
        })
    }
}

/// The other end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// How far away it is.
    pub reach: Reach,
    /// `None` on the same machine.
    pub address: Option<IpAddr>,
    /// The role in the peer's certificate.
    pub role: &'a str,
}

/// The links that a rule applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// All links.
    Any,
    /// Links to other processes of this machine.
    SameMachine,
    /// Links to networks that the user declared trusted.
    Trusted,
    /// Links to addresses in this range.
    Range(IpNet),
}

impl Network {
    fn contains(self, place: &Place<'_>) -> bool {
        match self {
            Network::Any => true,
            Network::SameMachine => place.reach == Reach::SameMachine,
            Network::Trusted => place.reach == Reach::Trusted,
            Network::Range(range) => place.address.is_some_and(|address| range.contains(&address.to_canonical())),
        }
    }
}

/// What a rule says about a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// At least this level.
    Required(Level),
    /// This level instead of the default.
    Preferred(Level),
    /// Not this level.
    Never(Level),
}

/// One line of the user's table. A condition that it leaves out is always met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Where the link goes.
    pub network: Network,
    /// The role in the peer's certificate.
    pub role: Option<String>,
    /// The mark of the frames to which the rule applies.
    pub mark: Option<Mark>,
    /// The bound that the rule sets for the level.
    pub bound: Bound,
}

impl Rule {
    fn is_about(&self, place: &Place<'_>, mark: Mark) -> bool {
        self.network.contains(place)
            && self.role.as_ref().is_none_or(|role| role == place.role)
            && self.mark.is_none_or(|its| its == mark)
    }
}

/// The default, if no rule says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Usual {
    /// Links to networks that are not trusted are private.
    #[default]
    Links,
    /// On such links, marked data is private, and the rest authenticated.
    Marked,
    /// Every link is private.
    All,
}

impl Usual {
    fn level(self, reach: Reach, mark: Mark) -> Level {
        match (self, reach) {
            (Usual::All, _) => Level::Private,
            (_, Reach::SameMachine | Reach::Trusted) => Level::Clear,
            (Usual::Marked, Reach::Untrusted) if mark == Mark::None => Level::Authenticated,
            (_, Reach::Untrusted) => Level::Private,
        }
    }

    /// The name that users read and type.
    pub fn name(self) -> &'static str {
        match self {
            Usual::Links => "links",
            Usual::Marked => "marked",
            Usual::All => "all",
        }
    }
}

/// The wishes of one end of a link.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The default, if no rule says otherwise.
    pub usual: Usual,
    /// Networks that the user declared trusted.
    pub trusted: Vec<IpNet>,
    /// The user's table.
    pub rules: Vec<Rule>,
}

/// A decision, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The level.
    pub level: Level,
    /// For people: the default or rule that decided.
    pub why: String,
    /// Whether the user's explicit words made the level weaker than the default.
    pub is_weaker: bool,
}

/// The levels of a link. For each mark also what decided it, and whether the user's explicit words made it weaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// The level for each mark.
    pub levels: Levels,
    /// The reason for each level, for messages to users.
    pub why: [String; 3],
    /// For each mark: whether the user's explicit words made the level weaker than the default.
    pub weaker: [bool; 3],
}

/// The two ends have no acceptable level in common.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no level is left for a link to the {reach}: this end takes {own}, the other {peer}")]
pub struct Conflict {
    reach: Reach,
    own: LevelSet,
    peer: LevelSet,
}

impl Policy {
    /// Where `address` is, seen from here. `None`: on this machine.
    pub fn reach(&self, address: Option<IpAddr>) -> Reach {
        match address {
            None => Reach::SameMachine,
            Some(address) if self.trusts(address) => Reach::Trusted,
            Some(_) => Reach::Untrusted,
        }
    }

    /// The other end of a link: a peer in that role at `address`, seen from here. `None`: on this machine.
    pub fn place<'a>(&self, address: Option<IpAddr>, role: &'a str) -> Place<'a> {
        Place { reach: self.reach(address), address, role }
    }

    /// Whether the user declared the network of `address` trusted.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address.to_canonical()))
    }

    /// Decides the level of frames with this mark on a link to `place`, whose other end accepts the levels `peer`.
    ///
    /// The first rule that prefers a level replaces the default. Rules with `Required` and `Never` limit it. The result
    /// is the weakest allowed level that is at least as strong. Only if this end's own rules leave none, it is the
    /// strongest weaker one. The other end can raise a level, never lower it.
    pub fn decide(&self, place: &Place<'_>, mark: Mark, peer: LevelSet) -> Result<Verdict, Conflict> {
        let conflict = |own| Conflict { reach: place.reach, own, peer };
        let usual = Usual::Links.level(place.reach, mark);
        let (wish, mut why) = self.wish(place, mark);
        let own = self.allowed(place, mark);
        let stronger = own.levels().find(|level| *level >= wish);
        let mut level = stronger.or_else(|| own.levels().next_back()).ok_or_else(|| conflict(own))?;
        if level != wish {
            why = self.limiting(place, mark, wish, level);
        }
        let agreed = own.both(peer).levels().find(|agreed| *agreed >= level).ok_or_else(|| conflict(own))?;
        if agreed != level {
            level = agreed;
            why = format!("the other end takes no less than {agreed}");
        }
        Ok(Verdict { level, why, is_weaker: level < usual })
    }

    /// [`Policy::decide`] for every mark, if the other end accepts the levels `peer`. Marked frames get no weaker level
    /// than unmarked ones.
    pub fn agree(&self, place: &Place<'_>, peer: [LevelSet; 3]) -> Result<Agreed, Conflict> {
        let decide = |mark: Mark| self.decide(place, mark, peer[mark as usize]);
        let base = decide(Mark::None)?;
        let no_less = |verdict: Verdict| if verdict.level < base.level { base.clone() } else { verdict };
        let (data, code) = (no_less(decide(Mark::Data)?), no_less(decide(Mark::Code)?));
        let levels = Levels { base: base.level, data: data.level, code: code.level };
        let weaker = [base.is_weaker, data.is_weaker, code.is_weaker];
        Ok(Agreed { levels, why: [base.why, data.why, code.why], weaker })
    }

    /// The levels that this end accepts for frames with this mark.
    pub fn allowed(&self, place: &Place<'_>, mark: Mark) -> LevelSet {
        let about = self.rules.iter().filter(|rule| rule.is_about(place, mark));
        about.fold(LevelSet::EVERY, |allowed, rule| match rule.bound {
            Bound::Required(level) => allowed.both(LevelSet::from(level)),
            Bound::Never(level) => allowed.without(level),
            Bound::Preferred(_) => allowed,
        })
    }

    /// The levels that an executor accepts. The minimum is the level that a rule of the owner prefers, if there is one.
    /// Otherwise it is clear on this machine and on networks that the owner trusts, because the owner's code is not at
    /// stake there. Elsewhere it is safe, so that what arrives is what was sent. With [`Usual::All`] it is always
    /// private.
    pub fn offered(&self, place: &Place<'_>, mark: Mark) -> LevelSet {
        let preferred = self.preferred(place, mark).map(|(_, level)| level);
        let least = match (self.usual, place.reach) {
            (Usual::All, _) => Level::Private,
            (_, Reach::Untrusted) => preferred.unwrap_or(Level::Safe),
            _ => preferred.unwrap_or(Level::Clear),
        };
        self.allowed(place, mark).both(LevelSet::from(least))
    }

    /// The parts of the policy that may give a link less than the defaults, described for people.
    pub fn weaker(&self) -> Vec<String> {
        let protected = |rule: &Rule| !matches!(rule.network, Network::SameMachine | Network::Trusted);
        let rule = |(rule, number): (&Rule, usize)| match rule.bound {
            _ if !protected(rule) => None, // has no effect, because the default gives no protection there
            Bound::Preferred(level) if level < Level::Private => Some(format!("rule {number} prefers {level}")),
            Bound::Never(level) if level > Level::Clear => Some(format!("rule {number}: never {level}")),
            _ => None,
        };
        let marked = (self.usual == Usual::Marked).then(|| MARKED.to_owned());
        marked.into_iter().chain(self.rules.iter().zip(1..).filter_map(rule)).collect()
    }

    fn wish(&self, place: &Place<'_>, mark: Mark) -> (Level, String) {
        match self.preferred(place, mark) {
            Some((number, level)) => (level, format!("rule {number} prefers {level}")),
            None => {
                let tells_apart = self.usual == Usual::Marked && place.reach == Reach::Untrusted;
                let marked = if tells_apart && mark != Mark::None { ", marked" } else { "" };
                let why = format!("policy {}: {}{marked}", self.usual.name(), place.reach);
                (self.usual.level(place.reach, mark), why)
            }
        }
    }

    /// The first rule that prefers a level, and its number, from 1.
    fn preferred(&self, place: &Place<'_>, mark: Mark) -> Option<(usize, Level)> {
        self.rules.iter().zip(1..).find_map(|(rule, number)| match rule.bound {
            Bound::Preferred(level) if rule.is_about(place, mark) => Some((number, level)),
            _ => None,
        })
    }

    /// The rule that turned `wish` into `level`.
    fn limiting(&self, place: &Place<'_>, mark: Mark, wish: Level, level: Level) -> String {
        let limits = |bound: Bound| match bound {
            Bound::Required(least) => wish < least,
            Bound::Never(never) => wish == never || (wish.min(level)..wish.max(level)).contains(&never),
            Bound::Preferred(_) => false,
        };
        let found = self.rules.iter().zip(1..).find(|(rule, _)| rule.is_about(place, mark) && limits(rule.bound));
        match found {
            Some((Rule { bound: Bound::Required(least), .. }, number)) => format!("rule {number} requires {least}"),
            Some((Rule { bound: Bound::Never(never), .. }, number)) => format!("rule {number}: never {never}"),
            _ => "rules".to_owned(),
        }
    }
}
