//! Agreements of a communicator's processes after losses (ULFM, sections on MPIX_Comm_agree and MPIX_Comm_shrink), and
//! revoked communicators.
//!
//! The launcher decides, because it alone says which processes are lost. All remaining processes get the same answer.
//! Before it, they have heard of every loss that it counts.

use super::ports::{Asker, Reply, refuse};
use super::{Command, Launch, Phase};
use crate::wire::ranks::{MOST_RANKS, ToRank};
use crate::wire::universe::{Answer, Ballot, Members, Refusal};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Limit on the incomplete agreements that one process waits for. Programs need fewer.
const MOST: usize = 1 << 8;

/// Limit on the remembered agreements, for processes that come late with other members.
const MOST_SETTLED: usize = 1 << 6;

const CUT_OFF: &str = "others cannot reach this process, and go on without it";
const DIFFERENT: &str = "the processes do not make the same call: some agree and others shrink, or of other processes";

/// The agreements of one program. An agreement is identified by its communicator and its turn. The context alone does
/// not identify the communicator, because another one among other processes may have the same (each world has its own
/// MPI_COMM_WORLD).
#[derive(Debug, Default)]
pub struct Agreements {
    open: BTreeMap<Key, Agreement>,
    /// The most recent completed agreements: the communicator's context, the turn, and the processes that got the
    /// answer.
    settled: VecDeque<(u64, u32, Members)>,
    /// Live processes that the others go on without.
    excluded: BTreeSet<u32>,
}

/// The communicator's first process, its context, and the turn.
type Key = (u32, u64, u32);

#[derive(Debug, Default)]
struct Agreement {
    members: Members,
    /// The processes that have not voted yet.
    awaited: BTreeSet<u32>,
    /// The votes of the others, without the list of members.
    ballots: BTreeMap<u32, (Asker, Ballot)>,
    /// The processes did not all make the same call. All get this answer, and go on with the next agreement.
    mixed: bool,
}

/// The result of a vote.
#[derive(Debug, Default)]
pub struct Outcome {
    pub replies: Vec<Reply>,
    /// Processes that are excluded from now on. All others hear of it before the replies.
    pub excluded: Vec<u32>,
}

impl Agreements {
    /// Adds a member's vote and returns the answers that follow from it. `known`: the number of processes so far,
    /// including those that are gone. `None`: the process waits for too many agreements, so the others would wait for
    /// its vote for ever.
    pub fn vote(
        &mut self,
        asker: Asker,
        mut ballot: Ballot,
        known: usize,
        is_gone: impl Fn(u32) -> bool,
    ) -> Option<Outcome> {
        let refused = |why, text: &str| {
            Some(Outcome { replies: vec![(asker, refuse(why, text.to_owned()))], ..Outcome::default() })
        };
        let runs = std::mem::take(&mut ballot.members);
        let members = runs.list(known).unwrap_or_default();
        if members.binary_search(&asker.rank).is_err() {
            return refused(Refusal::Members, "this process is not one of those who agree");
        }
        if members.last().is_some_and(|last| *last as usize >= known) {
            return refused(Refusal::Members, "some of those who are to agree do not exist");
        }
        if self.excluded.contains(&asker.rank) {
            return Some(Outcome { replies: vec![cut_off(asker)], ..Outcome::default() });
        }
        if self.is_late(&ballot, &members) {
            return refused(Refusal::Members, DIFFERENT);
        }
        let key = (members[0], ballot.context, ballot.turn);
        if self.open.values().filter(|it| it.ballots.contains_key(&asker.rank)).count() >= MOST {
            return None;
        }
        let new = || Agreement { members: runs.clone(), ..Agreement::default() };
        let is_new = !self.open.contains_key(&key);
        let agreement = self.open.entry(key).or_insert_with(new);
        if agreement.ballots.contains_key(&asker.rank) {
            return refused(Refusal::Members, DIFFERENT);
        }
        if is_new || agreement.members != runs {
            // A process named by any vote will vote in this agreement, so it must hear that the lists of members
            // differ.
            agreement.mixed |= !is_new;
            let lives = |rank: &u32| !is_gone(*rank) && !self.excluded.contains(rank);
            let comes = |rank: &u32| lives(rank) && !agreement.ballots.contains_key(rank);
            agreement.awaited.extend(members.iter().copied().filter(comes));
        }
        agreement.awaited.remove(&asker.rank);
        agreement.mixed |= agreement.ballots.values().any(|(_, other)| other.shrinks != ballot.shrinks);
        ballot.keep_only(&members);
        agreement.ballots.insert(asker.rank, (asker, ballot));
        Some(self.settle(key))
    }

    /// Whether the vote names processes that completed this agreement without the asking process, and so will not take
    /// part again.
    fn is_late(&self, ballot: &Ballot, members: &[u32]) -> bool {
        let same = self.settled.iter().filter(|(context, turn, _)| (*context, *turn) == (ballot.context, ballot.turn));
        let mut theirs = same.filter_map(|(.., members)| members.list(MOST_RANKS as usize)).flatten();
        theirs.any(|rank| members.binary_search(&rank).is_ok())
    }

    /// A process has left, or was lost. Agreements no longer wait for it, and its votes do not count.
    pub fn leave(&mut self, rank: u32) -> Outcome {
        self.take_out(rank).0
    }

    /// Like [`Self::leave`]; also returns the process's unanswered questions.
    fn take_out(&mut self, rank: u32) -> (Outcome, Vec<Asker>) {
        let (mut keys, mut unanswered) = (Vec::new(), Vec::new());
        for (key, agreement) in &mut self.open {
            let spoke = agreement.ballots.remove(&rank).map(|(asker, _)| asker);
            if agreement.awaited.remove(&rank) || spoke.is_some() {
                keys.push(*key);
            }
            unanswered.extend(spoke);
        }
        let mut all = Outcome::default();
        keys.into_iter().for_each(|key| all.add(self.settle(key)));
        (all, unanswered)
    }

    /// Whether the others go on without the process and have heard that it is lost.
    pub fn is_excluded(&self, rank: u32) -> bool {
        self.excluded.contains(&rank)
    }

    /// A process is about to be declared lost, together with others. Its votes no longer count.
    pub fn doubt(&mut self, rank: u32) {
        for agreement in self.open.values_mut() {
            if agreement.ballots.remove(&rank).is_some() {
                agreement.awaited.insert(rank);
            }
        }
    }

    /// Answers all votes, once none is awaited.
    fn settle(&mut self, key: Key) -> Outcome {
        let mut all = Outcome::default();
        if self.open.get(&key).is_none_or(|agreement| !agreement.awaited.is_empty()) {
            return all;
        }
        let Some(mut agreement) = self.open.remove(&key) else { return all };
        self.settled.truncate(MOST_SETTLED - 1);
        let ranks: Vec<u32> = agreement.ballots.keys().copied().collect();
        self.settled.push_front((key.1, key.2, Members::of(&ranks)));
        // Agreements that await one of these processes would wait in vain.
        let is_same = |(other, open): &(&Key, &Agreement)| {
            (other.1, other.2) == (key.1, key.2) && ranks.iter().any(|rank| open.awaited.contains(rank))
        };
        let same: Vec<Key> = self.open.iter().filter(is_same).map(|(other, _)| *other).collect();
        for other in same {
            if let Some(open) = self.open.get_mut(&other) {
                open.mixed = true;
                open.awaited.retain(|rank| !ranks.contains(rank));
            }
            all.add(self.settle(other));
        }
        if agreement.mixed {
            let refused = |(asker, _)| (asker, refuse(Refusal::Members, DIFFERENT.to_owned()));
            all.replies.extend(agreement.ballots.into_values().map(refused));
            return all;
        }
        for rank in agreement.cut_off() {
            if self.excluded.insert(rank) {
                all.excluded.push(rank);
                let (others, unanswered) = self.take_out(rank); // also leaves other agreements
                all.add(others);
                all.replies.extend(unanswered.into_iter().map(cut_off));
            }
        }
        for rank in &all.excluded {
            let its = agreement.ballots.remove(rank).map(|(asker, _)| asker);
            all.replies.extend(its.map(cut_off));
        }
        all.replies.extend(agreement.answers());
        all
    }
}

fn cut_off(asker: Asker) -> Reply {
    (asker, refuse(Refusal::Excluded, CUT_OFF.to_owned()))
}

impl Ballot {
    /// Drops reports about processes that do not take part, and repeated reports.
    fn keep_only(&mut self, members: &[u32]) {
        for ranks in [&mut self.acknowledged, &mut self.unreachable] {
            ranks.retain(|rank| members.binary_search(rank).is_ok());
            ranks.sort_unstable();
            ranks.dedup();
            ranks.shrink_to_fit();
        }
    }
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.replies.extend(other.replies);
        self.excluded.extend(other.excluded);
    }
}

impl Agreement {
    /// If two processes cannot reach each other, one is excluded: the one that most others cannot reach; among equals,
    /// the last.
    fn cut_off(&self) -> Vec<u32> {
        let mut cuts: BTreeSet<(u32, u32)> = BTreeSet::new();
        for (rank, (_, ballot)) in &self.ballots {
            let others = ballot.unreachable.iter().filter(|other| self.ballots.contains_key(other) && *other != rank);
            cuts.extend(others.map(|other| (*rank.min(other), *rank.max(other))));
        }
        let mut gone = Vec::new();
        while !cuts.is_empty() {
            let mut count: BTreeMap<u32, usize> = BTreeMap::new();
            cuts.iter().flat_map(|(one, other)| [one, other]).for_each(|rank| *count.entry(*rank).or_default() += 1);
            let Some((worst, _)) = count.into_iter().max_by_key(|(rank, cuts)| (*cuts, *rank)) else { break };
            cuts.retain(|(one, other)| *one != worst && *other != worst);
            gone.push(worst);
        }
        gone
    }

    fn answers(self) -> Vec<Reply> {
        let is_left = |rank: &u32| self.ballots.contains_key(rank);
        let members = self.members.list(MOST_RANKS as usize).unwrap_or_default();
        let lost: Vec<u32> = members.into_iter().filter(|rank| !is_left(rank)).collect();
        let ballots = || self.ballots.values().map(|(_, ballot)| ballot);
        let known: BTreeSet<u32> = ballots().fold(lost.iter().copied().collect(), |known, ballot| {
            let said: BTreeSet<u32> = ballot.acknowledged.iter().copied().collect();
            &known & &said
        });
        let flag = ballots().fold(!0, |flag, ballot| flag & ballot.flag);
        let offer = ballots().next().map_or(0, |ballot| ballot.offer);
        let secured = ballots().any(|ballot| ballot.secured);
        let unacknowledged = known.len() < lost.len();
        let answer = Answer::Agreed { flag, lost, unacknowledged, offer, secured };
        self.ballots.values().map(|(asker, _)| (*asker, answer.clone())).collect()
    }
}

impl Launch {
    pub(super) fn vote(&mut self, asker: Asker, ballot: Ballot) {
        let is_gone = |rank: u32| {
            let rank = self.ranks.get(rank as usize);
            rank.is_none_or(|it| it.end.is_some() || it.phase == Phase::Finalized)
        };
        match self.agreements.vote(asker, ballot, self.ranks.len(), is_gone) {
            Some(outcome) => self.carry_out(outcome),
            None => {
                let name = self.name(asker.rank);
                let what = format!("{name} begins an agreement while {MOST} others of it wait for somebody");
                self.on_trouble(self.now, what, 1);
            }
        }
    }

    pub(super) fn settle_without(&mut self, rank: u32) {
        let outcome = self.agreements.leave(rank);
        self.carry_out(outcome);
    }

    /// A process that shares another communicator with an excluded one must also go on without it.
    fn carry_out(&mut self, outcome: Outcome) {
        for rank in outcome.excluded {
            let text = format!("{} is lost: others cannot reach it, and go on without it", self.name(rank));
            let loss = ToRank::Lost { rank, text: text.clone() };
            self.tell_others(rank, &loss);
            self.losses.push(loss);
            self.commands.push(Command::Say(text));
        }
        outcome.replies.into_iter().for_each(|(asker, answer)| self.reply(asker, answer));
    }

    /// Tells all other processes of a communicator that it was revoked.
    pub(super) fn revoke(&mut self, by: u32, context: u64, processes: &[u32]) {
        let world = self.ranks[by as usize].world;
        self.worlds[world].revoked |= context == 0;
        let hears = |rank: &u32| *rank != by && self.ranks.get(*rank as usize).is_some_and(|it| it.passes_messages());
        let mut by_machine: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for rank in processes.iter().copied().filter(hears) {
            by_machine.entry(self.options.machine_of[rank as usize]).or_default().push(rank);
        }
        let tell = |ranks| Command::Tell { ranks, message: ToRank::Revoked { context } };
        self.commands.extend(by_machine.into_values().map(tell));
    }
}
