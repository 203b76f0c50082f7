//! Groups: processes in an order, their handles, and how groups are made of others (MPI 5.0, 7.3).

use crate::constants::*;
use crate::error::{Class, Error, Result, fail};
use crate::objects::attached::Attached;
use crate::objects::handle::Table;
use crate::process::world::World;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Processes by their numbers in the program. A process's place is its rank.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// Their numbers, in the order of their ranks.
    pub processes: Vec<u32>,
    /// Of the session that it comes from: memory for buffered sends, also in communicators that are made of it.
    pub attached: Option<Arc<Attached>>,
}

impl Group {
    /// Of no session.
    pub fn new(processes: impl Into<Vec<u32>>) -> Group {
        Group { processes: processes.into(), attached: None }
    }

    /// All processes of MPI_COMM_WORLD.
    pub fn of_world(world: &World) -> Group {
        Group::new((world.first as u32..(world.first + world.size) as u32).collect::<Vec<_>>())
    }

    /// Other processes in the same session.
    pub fn of(&self, processes: impl Into<Vec<u32>>) -> Group {
        Group { processes: processes.into(), attached: self.attached.clone() }
    }

    /// The number of processes.
    #[inline]
    pub fn size(&self) -> usize {
        self.processes.len()
    }

    /// The rank of a process, if it belongs to the group.
    pub fn rank_of(&self, process: u32) -> Option<usize> {
        self.processes.iter().position(|member| *member == process)
    }
}

/// Groups are compared by their processes.
impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        self.processes == other.processes
    }
}

impl Eq for Group {}

/// Handles' kind; see [`crate::objects::handle`].
const KIND: u32 = 4;
static MADE: Table<Group> = Table::new(KIND);

/// A handle for a group.
pub fn put(group: Arc<Group>) -> Result<u32> {
    if group.processes.is_empty() {
        return Ok(MPI_GROUP_EMPTY);
    }
    MADE.put(group).ok_or_else(|| Error::new(Class::NoMem, "too many groups"))
}

/// The group with this handle.
pub fn find(handle: u32) -> Result<Arc<Group>> {
    match handle {
        MPI_GROUP_NULL => fail(Class::Group, "group is MPI_GROUP_NULL"),
        MPI_GROUP_EMPTY => Ok(Arc::default()),
        _ => match MADE.get(handle) {
            Some(group) => Ok(group),
            None => fail(Class::Group, format!("group {handle:#x} does not exist, or was freed")),
        },
    }
}

/// Frees the handle.
pub fn free(handle: u32) -> Result<()> {
    find(handle)?;
    MADE.take(handle); // the empty one stays
    Ok(())
}

/// MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL.
pub fn compare(one: &Group, other: &Group) -> i32 {
    match () {
        () if one == other => MPI_IDENT,
        () if one.size() == other.size() && members(one) == members(other) => MPI_SIMILAR,
        () => MPI_UNEQUAL,
    }
}

fn members(group: &Group) -> HashSet<u32> {
    group.processes.iter().copied().collect()
}

/// All of one, then those of the other that are not in it.
pub fn union(one: &Group, other: &Group) -> Group {
    let known = members(one);
    let more = other.processes.iter().filter(|process| !known.contains(process));
    one.of(one.processes.iter().chain(more).copied().collect::<Vec<_>>())
}

/// Those of one that are in the other.
pub fn intersection(one: &Group, other: &Group) -> Group {
    let known = members(other);
    one.of(one.processes.iter().copied().filter(|process| known.contains(process)).collect::<Vec<_>>())
}

/// Those of one that are not in the other.
pub fn difference(one: &Group, other: &Group) -> Group {
    let known = members(other);
    one.of(one.processes.iter().copied().filter(|process| !known.contains(process)).collect::<Vec<_>>())
}

/// What ranks of one group are in another: MPI_UNDEFINED for processes that are not.
pub fn translate(from: &Group, ranks: &[i32], to: &Group) -> Result<Vec<i32>> {
    let places: HashMap<u32, i32> = to.processes.iter().copied().zip(0..).collect();
    let translated = ranks.iter().map(|rank| match *rank {
        MPI_PROC_NULL => Ok(MPI_PROC_NULL),
        rank => Ok(places.get(&from.processes[place(from, rank)?]).copied().unwrap_or(MPI_UNDEFINED)),
    });
    translated.collect()
}

fn place(group: &Group, rank: i32) -> Result<usize> {
    match usize::try_from(rank) {
        Ok(place) if place < group.size() => Ok(place),
        _ => fail(Class::Rank, format!("rank {rank} is not in 0..{}", group.size())),
    }
}

/// The processes at these ranks, in this order.
pub fn include(group: &Group, ranks: &[i32]) -> Result<Group> {
    let places = distinct(group, ranks.iter().copied())?;
    Ok(group.of(places.into_iter().map(|place| group.processes[place]).collect::<Vec<_>>()))
}

/// The processes at other ranks.
pub fn exclude(group: &Group, ranks: &[i32]) -> Result<Group> {
    let places: HashSet<usize> = distinct(group, ranks.iter().copied())?.into_iter().collect();
    let left = group.processes.iter().enumerate().filter(|(place, _)| !places.contains(place));
    Ok(group.of(left.map(|(_, process)| *process).collect::<Vec<_>>()))
}

/// The ranks of ranges: of each the first, the last and the step between them.
pub fn ranks_of(group: &Group, ranges: &[[i32; 3]]) -> Result<Vec<i32>> {
    let mut ranks = Vec::new();
    for [first, last, stride] in ranges {
        if *stride == 0 {
            return fail(Class::Arg, format!("the range from {first} to {last} has stride 0"));
        }
        let steps = (*last as i64 - *first as i64) / *stride as i64;
        if *last as i64 - *first as i64 != 0 && (last > first) != (*stride > 0) {
            return fail(Class::Arg, format!("stride {stride} does not lead from {first} to {last}"));
        }
        // Before there are more of them than may be right.
        place(group, *first)?;
        place(group, (*first as i64 + steps * *stride as i64) as i32)?;
        ranks.extend((0..=steps).map(|step| (*first as i64 + step * *stride as i64) as i32));
        if ranks.len() > group.size() {
            return fail(Class::Rank, "a rank is in several ranges");
        }
    }
    Ok(ranks)
}

fn distinct(group: &Group, ranks: impl Iterator<Item = i32>) -> Result<Vec<usize>> {
    let mut seen = HashSet::new();
    let one = |rank| match place(group, rank)? {
        place if seen.insert(place) => Ok(place),
        _ => fail(Class::Rank, format!("rank {rank} is there twice")),
    };
    ranks.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(processes: &[u32]) -> Group {
        Group::new(processes)
    }

    #[test]
    fn sets_keep_the_order_of_the_first() {
        let (one, other) = (group(&[3, 1, 4]), group(&[4, 5, 3]));
        assert_eq!(union(&one, &other), group(&[3, 1, 4, 5]));
        assert_eq!(intersection(&one, &other), group(&[3, 4]));
        assert_eq!(difference(&one, &other), group(&[1]));
        assert_eq!(compare(&one, &group(&[1, 3, 4])), MPI_SIMILAR);
        assert_eq!((compare(&one, &one.clone()), compare(&one, &other)), (MPI_IDENT, MPI_UNEQUAL));
        assert_eq!(translate(&one, &[0, 1, MPI_PROC_NULL], &other), Ok(vec![2, MPI_UNDEFINED, MPI_PROC_NULL]));
    }

    #[test]
    fn ranks_pick_processes() {
        let all = group(&[10, 11, 12, 13, 14]);
        assert_eq!(include(&all, &[4, 0]), Ok(group(&[14, 10])));
        assert_eq!(exclude(&all, &[4, 0]), Ok(group(&[11, 12, 13])));
        let ranks = ranks_of(&all, &[[4, 1, -2], [0, 0, 7]]).expect("they are good");
        assert_eq!(ranks, [4, 2, 0]);
    }

    #[test]
    fn wrong_ranks_are_told() {
        let all = group(&[10, 11, 12]);
        for ranks in [&[3][..], &[-1], &[0, 0], &[i32::MIN]] {
            assert_eq!(include(&all, ranks).expect_err("wrong").class, Class::Rank);
        }
        for range in [[0, i32::MAX, 1], [0, 3, 1], [i32::MIN, i32::MAX, 1], [2, -1, -1]] {
            assert_eq!(ranks_of(&all, &[range]).expect_err("wrong").class, Class::Rank);
        }
        for range in [[0, 2, 0], [0, 2, -1], [2, 0, 1]] {
            assert_eq!(ranks_of(&all, &[range]).expect_err("wrong").class, Class::Arg);
        }
        assert_eq!(ranks_of(&all, &[[0, 2, 1], [0, 0, 1]]).expect_err("twice").class, Class::Rank);
        assert_eq!(find(0x9999).expect_err("none").class, Class::Group);
    }
}
