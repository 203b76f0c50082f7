//! Groups (MPI 5.0, 7.3).

use super::argument::{Array, Out, OutArray, Text, count};
use super::failure::Result;
use crate::abi::{self, MPI_Comm, MPI_Group, MPI_Session};
use phalanx_mpi::constants::{MPI_GROUP_NULL, MPI_UNDEFINED};
use phalanx_mpi::objects::comm::Comm;
use phalanx_mpi::objects::group;
use phalanx_mpi::objects::group::Group;
use phalanx_mpi::process::world::known;
use phalanx_mpi::universe::session;
use std::ffi::c_int;
use std::sync::Arc;

pub fn find(group: MPI_Group) -> Result<Arc<Group>> {
    Ok(group::find(group.id())?)
}

pub fn put(group: impl Into<Arc<Group>>) -> Result<MPI_Group> {
    Ok(MPI_Group::of(group::put(group.into())?))
}

fn ranks(n: c_int, ranks: Array<c_int>) -> Result<Vec<i32>> {
    Ok(ranks.slice(count(n, "n")?)?.iter().map(|rank| abi::RANK.from_c(*rank)).collect())
}

mpi! {
    fn MPI_Comm_group(comm: MPI_Comm, group: Out<MPI_Group>) on comm {
        group.put(put(Comm::of(comm.id())?.group.clone())?);
    }

    fn MPI_Group_size(group: MPI_Group, size: Out<c_int>) {
        size.put(find(group)?.size() as c_int);
    }

    fn MPI_Group_rank(group: MPI_Group, rank: Out<c_int>) {
        let place = find(group)?.rank_of(known()?.rank as u32);
        rank.put(place.map_or(abi::RANK.to_c(MPI_UNDEFINED), |place| place as c_int));
    }

    fn MPI_Group_translate_ranks(
        group1: MPI_Group, n: c_int, ranks1: Array<c_int>, group2: MPI_Group, ranks2: OutArray<c_int>,
    ) {
        let translated = group::translate(&*find(group1)?, &ranks(n, ranks1)?, &*find(group2)?)?;
        let results = ranks2.slice(translated.len())?;
        results.iter_mut().zip(translated).for_each(|(result, rank)| *result = abi::RANK.to_c(rank));
    }

    fn MPI_Group_compare(group1: MPI_Group, group2: MPI_Group, result: Out<c_int>) {
        result.put(abi::COMPARISON.to_c(group::compare(&*find(group1)?, &*find(group2)?)));
    }

    fn MPI_Group_union(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        newgroup.put(put(group::union(&*find(group1)?, &*find(group2)?))?);
    }

    fn MPI_Group_intersection(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        newgroup.put(put(group::intersection(&*find(group1)?, &*find(group2)?))?);
    }

    fn MPI_Group_difference(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        newgroup.put(put(group::difference(&*find(group1)?, &*find(group2)?))?);
    }

    fn MPI_Group_incl(group: MPI_Group, n: c_int, ranks_: Array<c_int>, newgroup: Out<MPI_Group>) {
        newgroup.put(put(group::include(&*find(group)?, &ranks(n, ranks_)?)?)?);
    }

    fn MPI_Group_excl(group: MPI_Group, n: c_int, ranks_: Array<c_int>, newgroup: Out<MPI_Group>) {
        newgroup.put(put(group::exclude(&*find(group)?, &ranks(n, ranks_)?)?)?);
    }

    fn MPI_Group_range_incl(group: MPI_Group, n: c_int, ranges: Array<[c_int; 3]>, newgroup: Out<MPI_Group>) {
        let group = find(group)?;
        let ranks = group::ranks_of(&group, ranges.slice(count(n, "n")?)?)?;
        newgroup.put(put(group::include(&group, &ranks)?)?);
    }

    fn MPI_Group_range_excl(group: MPI_Group, n: c_int, ranges: Array<[c_int; 3]>, newgroup: Out<MPI_Group>) {
        let group = find(group)?;
        let ranks = group::ranks_of(&group, ranges.slice(count(n, "n")?)?)?;
        newgroup.put(put(group::exclude(&group, &ranks)?)?);
    }

    fn MPI_Group_from_session_pset(session: MPI_Session, pset_name: Text, newgroup: Out<MPI_Group>) on session {
        newgroup.put(put(session::find(session.id())?.set(&pset_name.get())?)?);
    }

    fn MPI_Group_free(group: Out<MPI_Group>) {
        group::free(group.get().id())?;
        group.put(MPI_Group::of(MPI_GROUP_NULL));
    }
}
