//! The ranks of other machines: met when all have joined.

use crate::process::control::{Control, Loss};
use crate::process::transport::{Link, Listening};
use phalanx_core::wire::ranks::{FromRank, Seat, ToRank};
use phalanx_core::wire::universe::Side;
use std::collections::HashMap;
use std::net::IpAddr;

/// What a process of a program on several machines knows of the others.
#[derive(Default)]
pub struct Elsewhere {
    pub links: HashMap<usize, Link>,
    /// The machine of each rank.
    pub machines: Vec<u32>,
    /// Its address.
    pub addresses: Vec<IpAddr>,
    /// Ranks at the same address as this one, itself among them: they share its cores.
    pub beside: usize,
    pub early: Early,
}

/// What the launcher has said before anything attends to what it says.
#[derive(Default)]
pub struct Early {
    /// Ranks that were lost.
    pub lost: Vec<Loss>,
    /// Who has started this world.
    pub parents: Option<Side>,
}

impl Elsewhere {
    /// Joins the program, and connects with the ranks of other machines if there are any. A spawned process also waits for the
    /// word on who has started it.
    pub fn meet(control: &Control, seat: &Seat) -> Result<Elsewhere, String> {
        let mut elsewhere = match seat.local < seat.size {
            true => Elsewhere::connect(control, seat)?,
            false => {
                let told = control.tell(&FromRank::Joined { listens: None });
                told.map_err(|error| format!("the launcher is gone: {error}"))?;
                Elsewhere::default()
            }
        };
        let early = &mut elsewhere.early;
        if seat.base > 0 && early.parents.is_none() {
            early.parents = Some(control.await_parents(&mut early.lost)?);
        }
        Ok(elsewhere)
    }

    /// Joins the program, waits for the others, and connects with those of other machines. Links are by rank.
    fn connect(control: &Control, seat: &Seat) -> Result<Elsewhere, String> {
        let (first, rank, size) = (seat.base as usize, seat.rank as usize, seat.size as usize);
        let failed = |error: std::io::Error| format!("this rank cannot be reached from other machines: {error}");
        let listening = Listening::open(seat.address).map_err(failed)?;
        let listens = Some(listening.listens().map_err(failed)?);
        control.tell(&FromRank::Joined { listens }).map_err(|error| format!("the launcher is gone: {error}"))?;
        let mut lost = Vec::new();
        let table = control.await_table(size, &mut lost)?;
        let machines = table.iter().map(|entry| entry.machine).collect();
        let addresses: Vec<IpAddr> = table.iter().map(|entry| entry.listens.address.ip()).collect();
        let beside = addresses.iter().filter(|address| **address == addresses[rank]).count();
        let (mut parents, mut early) = (None, Vec::new());
        let mut hear = || {
            match control.hear_early(false, &mut lost)? {
                Some(ToRank::Born { parents: said }) => parents = Some(said),
                message => early.extend(message), // others have connected, and want more of this process already
            }
            Ok(lost.iter().filter_map(|(process, _)| (*process as usize).checked_sub(first)).collect())
        };
        let links = listening.connect(rank, &table, &mut hear)?.into_iter().collect();
        control.defer(early);
        Ok(Elsewhere { links, machines, addresses, beside, early: Early { lost, parents } })
    }
}
