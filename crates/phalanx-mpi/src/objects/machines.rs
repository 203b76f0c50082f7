//! Where the ranks of a group live, for operations that go machine by machine.

use crate::objects::group::Group;
use crate::process::world::World;
use std::sync::Arc;

/// Where the ranks of a communicator live.
#[derive(Debug, PartialEq, Eq)]
pub struct Machines {
    /// The ranks of each machine, which are in the order of their first ones.
    ranks: Vec<Arc<[usize]>>,
    /// This process's machine.
    own: usize,
}

impl Machines {
    /// None where it makes no difference: on one machine, or with one rank on each.
    pub fn of(group: &Group, rank: usize, world: &World) -> Option<Machines> {
        let mut found: Vec<(u32, Vec<usize>)> = Vec::new();
        for (place, process) in group.processes.iter().enumerate() {
            let machine = *world.machines.get((*process as usize).checked_sub(world.first)?)?;
            match found.iter_mut().find(|(other, _)| *other == machine) {
                Some((_, ranks)) => ranks.push(place),
                None => found.push((machine, vec![place])),
            }
        }
        let own = found.iter().position(|(_, ranks)| ranks.contains(&rank))?;
        let matters = found.len() > 1 && found.len() < group.size();
        matters.then(|| Machines { ranks: found.into_iter().map(|(_, ranks)| ranks.into()).collect(), own })
    }

    /// The ranks of this process's machine.
    pub fn own(&self) -> &Arc<[usize]> {
        &self.ranks[self.own]
    }

    /// Who speaks for each machine: its first rank, on the root's machine the root. Also its place among them, and that of
    /// this machine's speaker among its ranks.
    pub fn speakers(&self, root: Option<usize>) -> Speakers {
        let speaker = |ranks: &Arc<[usize]>| root.filter(|root| ranks.contains(root)).unwrap_or(ranks[0]);
        let ranks: Arc<[usize]> = self.ranks.iter().map(speaker).collect();
        let place = |ranks: &[usize], rank| ranks.iter().position(|other| *other == rank).unwrap_or(0);
        let at_home = place(self.own(), ranks[self.own]);
        Speakers { root: root.map_or(0, |root| place(&ranks, root)), at_home, ranks }
    }
}

/// One rank of each machine, for an operation among the machines.
pub struct Speakers {
    /// The rank of each machine that speaks for it.
    pub ranks: Arc<[usize]>,
    /// The place of the root, or of its machine's speaker, among them.
    pub root: usize,
    /// The place of this machine's speaker among the machine's ranks.
    pub at_home: usize,
}
