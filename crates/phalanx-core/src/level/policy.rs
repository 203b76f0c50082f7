//! The policy: from where a link goes, what it carries and what the user said to its level.

use super::{Level, LevelSet, Levels, Mark};
use core::net::IpAddr;
use ipnet::IpNet;
use std::fmt;
use thiserror::Error;

/// Where a link goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Another process of this machine, over a socket that never leaves the kernel.
    SameMachine,
    /// A network that the user declared trusted.
    Trusted,
    /// Anywhere else; also this machine's own addresses, where a tunnel may begin.
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
    pub reach: Reach,
    /// None on the same machine.
    pub address: Option<IpAddr>,
    /// The role in the peer's certificate.
    pub role: &'a str,
}

/// Which links a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Any,
    SameMachine,
    Trusted,
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

/// What a rule says of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// At least this.
    Required(Level),
    /// This, in place of the default.
    Preferred(Level),
    /// Not this.
    Never(Level),
}

/// One line of the user's table. What it does not name it holds for in all cases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub network: Network,
    pub role: Option<String>,
    pub mark: Option<Mark>,
    pub bound: Bound,
}

impl Rule {
    fn is_about(&self, place: &Place<'_>, mark: Mark) -> bool {
        self.network.contains(place)
            && self.role.as_ref().is_none_or(|role| role == place.role)
            && self.mark.is_none_or(|its| its == mark)
    }
}

/// What holds where no rule says something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Usual {
    /// Links to networks that are not trusted are private.
    #[default]
    Links,
    /// There, what is marked is private, and the rest authenticated.
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

    /// The word users read and type.
    pub fn name(self) -> &'static str {
        match self {
            Usual::Links => "links",
            Usual::Marked => "marked",
            Usual::All => "all",
        }
    }
}

/// What one end of a link wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    pub usual: Usual,
    /// Networks that the user declared trusted.
    pub trusted: Vec<IpNet>,
    pub rules: Vec<Rule>,
}

/// A decision, and what decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub level: Level,
    /// For people: which default or rule it was.
    pub why: String,
    /// Less than without the user's explicit words.
    pub is_weaker: bool,
}

/// The levels of a link; for each mark what decided it, and whether it is weaker than without the user's explicit words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    pub levels: Levels,
    pub why: [String; 3],
    pub weaker: [bool; 3],
}

/// No level is left.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no level is left for a link to the {reach}: this end takes {own}, the other {peer}")]
pub struct Conflict {
    reach: Reach,
    own: LevelSet,
    peer: LevelSet,
}

impl Policy {
    /// Where `address` is, seen from here; none: on this machine.
    pub fn reach(&self, address: Option<IpAddr>) -> Reach {
        match address {
            None => Reach::SameMachine,
            Some(address) if self.trusts(address) => Reach::Trusted,
            Some(_) => Reach::Untrusted,
        }
    }

    /// The other end of a link to `address`, a peer in that role, seen from here; none: on this machine.
    pub fn place<'a>(&self, address: Option<IpAddr>, role: &'a str) -> Place<'a> {
        Place { reach: self.reach(address), address, role }
    }

    /// Whether the user declared the network of `address` trusted.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address.to_canonical()))
    }

    /// The level of what has this mark on a link to `place`, whose other end takes the levels `peer`.
    ///
    /// The first rule that prefers a level takes the default's place. `Required` and `never` limit it: the weakest level
    /// that is left and no weaker is taken, and only where this end's own rules leave none, the strongest weaker one. The
    /// other end can raise a level, never lower it.
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

    /// [`Policy::decide`] for every mark, where the other end takes the levels `peer`. What is marked gets no less than
    /// what is not.
    pub fn agree(&self, place: &Place<'_>, peer: [LevelSet; 3]) -> Result<Agreed, Conflict> {
        let decide = |mark: Mark| self.decide(place, mark, peer[mark as usize]);
        let base = decide(Mark::None)?;
        let no_less = |verdict: Verdict| if verdict.level < base.level { base.clone() } else { verdict };
        let (data, code) = (no_less(decide(Mark::Data)?), no_less(decide(Mark::Code)?));
        let levels = Levels { base: base.level, data: data.level, code: code.level };
        let weaker = [base.is_weaker, data.is_weaker, code.is_weaker];
        Ok(Agreed { levels, why: [base.why, data.why, code.why], weaker })
    }

    /// The levels that this end takes for what has this mark.
    pub fn allowed(&self, place: &Place<'_>, mark: Mark) -> LevelSet {
        let about = self.rules.iter().filter(|rule| rule.is_about(place, mark));
        about.fold(LevelSet::EVERY, |allowed, rule| match rule.bound {
            Bound::Required(level) => allowed.both(LevelSet::from(level)),
            Bound::Never(level) => allowed.without(level),
            Bound::Preferred(_) => allowed,
        })
    }

    /// The levels that an executor takes: its owner's code is not at stake on a network the owner trusts, elsewhere what
    /// arrives must be what was sent, unless a rule of the owner prefers less.
    pub fn offered(&self, place: &Place<'_>, mark: Mark) -> LevelSet {
        let preferred = self.preferred(place, mark).map(|(_, level)| level);
        let least = match (self.usual, place.reach) {
            (Usual::All, _) => Level::Private,
            (_, Reach::Untrusted) => preferred.unwrap_or(Level::Safe),
            _ => preferred.unwrap_or(Level::Clear),
        };
        self.allowed(place, mark).both(LevelSet::from(least))
    }

    /// What in it may give a link less than the defaults do, for people.
    pub fn weaker(&self) -> Vec<String> {
        let protected = |rule: &Rule| !matches!(rule.network, Network::SameMachine | Network::Trusted);
        let rule = |(rule, number): (&Rule, usize)| match rule.bound {
            _ if !protected(rule) => None, // nothing is, by default
            Bound::Preferred(level) if level < Level::Private => Some(format!("rule {number} prefers {level}")),
            Bound::Never(level) if level > Level::Clear => Some(format!("rule {number}: never {level}")),
            _ => None,
        };
        let marked = (self.usual == Usual::Marked).then(|| "policy marked".to_owned());
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

    /// The first rule that prefers a level; counted from 1.
    fn preferred(&self, place: &Place<'_>, mark: Mark) -> Option<(usize, Level)> {
        self.rules.iter().zip(1..).find_map(|(rule, number)| match rule.bound {
            Bound::Preferred(level) if rule.is_about(place, mark) => Some((number, level)),
            _ => None,
        })
    }

    /// Which rule made `level` of the `wish`.
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
