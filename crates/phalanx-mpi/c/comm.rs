//! Communicators (MPI 5.0, chapter 7), but for their attributes, names and info.

use super::argument::{Number, Out, OutText, Text, count};
use super::failure::{Result, fail};
use crate::abi::{self, MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Request, longest};
use phalanx_mpi::constants::*;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::comm::{Comm, Use, asks_for_protection, forget_dropped};
use phalanx_mpi::objects::info::{self, Info};
use phalanx_mpi::objects::request::{Active, Request};
use phalanx_mpi::objects::{attribute, errhandler, group};
use phalanx_mpi::operations::collective::Call;
use phalanx_mpi::operations::comm_create;
use phalanx_mpi::process::blocking::block_on;
use phalanx_mpi::process::tasks::Task;
use phalanx_mpi::process::world::world;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A new communicator's handle. It has the error handler of the one that it was made from.
pub fn put(from: MPI_Comm, made: Arc<Comm>, newcomm: Out<MPI_Comm>) -> Result {
    let handle = made.put()?;
    errhandler::inherit(from.id(), handle);
    newcomm.put(MPI_Comm::of(handle));
    Ok(())
}

pub fn put_or_null(from: MPI_Comm, made: Option<Arc<Comm>>, newcomm: Out<MPI_Comm>) -> Result {
    match made {
        Some(made) => put(from, made, newcomm),
        None => {
            newcomm.put(MPI_Comm::of(MPI_COMM_NULL));
            Ok(())
        }
    }
}

/// The one type of hardware that is known (MPI 5.0, 7.4.2).
const MACHINE: &str = "mpi_shared_memory";

/// The hints for a new communicator, as they are now. Wrong ones are refused before anything is made.
pub fn hints_of(info: MPI_Info) -> Result<Info> {
    let hints = Info::of(info::hints(info.id())?.pairs());
    asks_for_protection(&hints)?;
    Ok(hints)
}

/// With an error handler and hints of its own.
fn put_with(errhandler: MPI_Errhandler, hints: &Info, made: Arc<Comm>, newcomm: Out<MPI_Comm>) -> Result {
    made.set_hints(hints)?;
    let handle = made.put()?;
    errhandler::set(handle, errhandler::Kind::Comm, errhandler.id())?;
    newcomm.put(MPI_Comm::of(handle));
    Ok(())
}

fn operation(comm: MPI_Comm) -> Result<Call> {
    Ok(Call::new(world()?, Comm::of(comm.id())?))
}

mpi! {
    fn MPI_Comm_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        size.put(Comm::of(comm.id())?.size() as c_int);
    }

    fn MPI_Comm_rank(comm: MPI_Comm, rank: Out<c_int>) on comm {
        rank.put(Comm::of(comm.id())?.rank as c_int);
    }

    fn MPI_Comm_remote_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        match &Comm::of(comm.id())?.remote {
            Some(remote) => size.put(remote.group.size() as c_int),
            None => return fail(Class::Comm, "comm is no intercommunicator"),
        }
    }

    fn MPI_Comm_test_inter(comm: MPI_Comm, flag: Out<c_int>) on comm {
        flag.put_flag(Comm::of(comm.id())?.remote.is_some());
    }

    fn MPI_Comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: Out<c_int>) on comm1 {
        let (one, other) = (Comm::of(comm1.id())?, Comm::of(comm2.id())?);
        result.put(abi::COMPARISON.to_c(one.compare(&other)));
    }

    fn MPI_Comm_remote_group(comm: MPI_Comm, group: Out<MPI_Group>) on comm {
        match &Comm::of(comm.id())?.remote {
            Some(remote) => group.put(MPI_Group::of(group::put(remote.group.clone())?)),
            None => return fail(Class::Comm, "comm is no intercommunicator"),
        }
    }

    fn MPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: Out<MPI_Comm>) on comm {
        let made = block_on(world()?, comm_create::of_group(operation(comm)?, group::find(group.id())?))?;
        put_or_null(comm, made, newcomm)?;
    }

    fn MPI_Comm_create_group(comm: MPI_Comm, group: MPI_Group, tag: c_int, newcomm: Out<MPI_Comm>) on comm {
        let (comm_of, group) = (Comm::of(comm.id())?, group::find(group.id())?);
        if group.rank_of(world()?.rank as u32).is_none() {
            newcomm.put(MPI_Comm::of(MPI_COMM_NULL));
            return Ok(());
        }
        let made = comm_create::of_members(world()?, &comm_of, group, abi::TAG.from_c(tag));
        put(comm, block_on(world()?, made)?, newcomm)?;
    }

    fn MPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: Out<MPI_Comm>) on comm {
        let color = abi::RANK.from_c(color);
        if color < 0 && color != MPI_UNDEFINED {
            return fail(Class::Arg, format!("color {color} is negative"));
        }
        put_or_null(comm, block_on(world()?, comm_create::split(operation(comm)?, color, key, false))?, newcomm)?;
    }

    fn MPI_Comm_split_type(
        comm: MPI_Comm, split_type: c_int, key: c_int, info: MPI_Info, newcomm: Out<MPI_Comm>
    ) on comm {
        let hints = hints_of(info)?;
        let resource = hints.get("mpi_hw_resource_type");
        let color = match abi::SPLIT_TYPE.from_c(split_type) {
            // The ranks of one machine follow each other.
            MPI_COMM_TYPE_SHARED => world()?.local.start as i32,
            MPI_COMM_TYPE_HW_GUIDED | MPI_COMM_TYPE_RESOURCE_GUIDED if resource.as_deref() == Some(MACHINE) => {
                world()?.local.start as i32
            }
            // Machines are not divided further.
            MPI_COMM_TYPE_HW_UNGUIDED | MPI_COMM_TYPE_HW_GUIDED | MPI_COMM_TYPE_RESOURCE_GUIDED | MPI_UNDEFINED => {
                MPI_UNDEFINED
            }
            other => return fail(Class::Arg, format!("split_type {other} is none")),
        };
        let secured = asks_for_protection(&hints)?;
        let made = block_on(world()?, comm_create::split(operation(comm)?, color, key, secured))?;
        made.iter().try_for_each(|made| made.set_hints(&hints))?;
        put_or_null(comm, made, newcomm)?;
    }

    fn MPI_Intercomm_create(
        local_comm: MPI_Comm, local_leader: c_int, peer_comm: MPI_Comm, remote_leader: c_int, tag: c_int,
        newintercomm: Out<MPI_Comm>
    ) on local_comm {
        let comm = Comm::of(local_comm.id())?;
        let Some(leader) = usize::try_from(local_leader).ok().filter(|leader| *leader < comm.size()) else {
            return fail(Class::Rank, format!("local_leader {local_leader} is not in 0..{}", comm.size()));
        };
        let bridge = match comm.rank == leader {
            true => {
                let (leader, tag) = (abi::RANK.from_c(remote_leader), abi::TAG.from_c(tag));
                Some((Comm::of(peer_comm.id())?, Use::Point, leader, tag))
            },
            false => None,
        };
        put(local_comm, block_on(world()?, comm_create::join(operation(local_comm)?, leader, bridge))?, newintercomm)?;
    }

    fn MPI_Comm_create_from_group(
        group: MPI_Group, stringtag: Text, info: MPI_Info, errhandler: MPI_Errhandler, newcomm: Out<MPI_Comm>
    ) {
        let hints = hints_of(info)?;
        let (world, group) = (world()?, group::find(group.id())?);
        if group.size() == 0 {
            newcomm.put(MPI_Comm::of(MPI_COMM_NULL));
            return Ok(());
        }
        let made = block_on(world, comm_create::of_session(world, group, &stringtag.get()))?;
        put_with(errhandler, &hints, made, newcomm)?;
    }

    fn MPI_Intercomm_create_from_groups(
        local_group: MPI_Group, local_leader: c_int, remote_group: MPI_Group, remote_leader: c_int, stringtag: Text,
        info: MPI_Info, errhandler: MPI_Errhandler, newintercomm: Out<MPI_Comm>
    ) {
        let hints = hints_of(info)?;
        let side = |group: MPI_Group, leader: c_int, name: &str| -> Result<_> {
            let group = group::find(group.id())?;
            match usize::try_from(leader).ok().filter(|leader| *leader < group.size()) {
                Some(leader) => Ok((group, leader)),
                None => fail(Class::Rank, format!("{name} {leader} is not in 0..{}", group.size())),
            }
        };
        let local = side(local_group, local_leader, "local_leader")?;
        let remote = side(remote_group, remote_leader, "remote_leader")?;
        let world = world()?;
        let made = block_on(world, comm_create::join_sessions(world, local, remote, &stringtag.get()))?;
        put_with(errhandler, &hints, made, newintercomm)?;
    }

    fn MPI_Intercomm_merge(intercomm: MPI_Comm, high: c_int, newintracomm: Out<MPI_Comm>) on intercomm {
        put(intercomm, block_on(world()?, comm_create::merge(operation(intercomm)?, high != 0))?, newintracomm)?;
    }
}

mpi! {
    fn MPI_Comm_dup(comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        newcomm.put(MPI_Comm::of(MPI_COMM_NULL));
        duplicate(comm, &Info::default(), newcomm)?;
    }

    fn MPI_Comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>) on comm {
        newcomm.put(MPI_Comm::of(MPI_COMM_NULL));
        let hints = hints_of(info)?;
        duplicate(comm, &hints, newcomm)?;
        Comm::of(newcomm.get().id())?.set_hints(&hints)?;
    }

    fn MPI_Comm_idup(comm: MPI_Comm, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) on comm {
        begin_duplicate(comm, Info::default(), newcomm, request)?;
    }

    fn MPI_Comm_idup_with_info(
        comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>
    ) on comm {
        begin_duplicate(comm, hints_of(info)?, newcomm, request)?;
    }

    fn MPI_Comm_set_name(comm: MPI_Comm, comm_name: Text) on comm {
        Comm::of(comm.id())?.set_name(&comm_name.get());
    }

    fn MPI_Comm_get_name(comm: MPI_Comm, comm_name: OutText, resultlen: Out<c_int>) on comm {
        let name = match comm.id() {
            MPI_COMM_NULL => "MPI_COMM_NULL".to_string(),
            handle => Comm::of(handle)?.name(),
        };
        resultlen.put(comm_name.put(&name, longest::OBJECT_NAME) as c_int);
    }

    fn MPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) on comm {
        let hints = info::find(info.id())?;
        Comm::of(comm.id())?.set_hints(&hints)?;
    }

    fn MPI_Comm_get_info(comm: MPI_Comm, info_used: Out<MPI_Info>) on comm {
        info_used.put(MPI_Info::of(info::put(Comm::of(comm.id())?.hints())?));
    }

    large_fn MPI_Comm_attach_buffer(comm: MPI_Comm, buffer: *mut c_void, size: Count) on comm {
        let automatic = std::ptr::eq(buffer, abi::address::BUFFER_AUTOMATIC);
        Comm::of(comm.id())?.attached.attach(buffer as usize, count(size, "size")?, automatic)?;
    }

    large_fn MPI_Comm_detach_buffer(comm: MPI_Comm, buffer_addr: *mut c_void, size: Out<Count>) on comm {
        let (address, bytes) = Comm::of(comm.id())?.attached.detach(world()?);
        Out::of(buffer_addr.cast::<*mut c_void>(), "buffer_addr")?.put(address as *mut c_void);
        size.put(Count::narrow(bytes as i64).unwrap_or(Count::MAX));
    }

    fn MPI_Comm_flush_buffer(comm: MPI_Comm) on comm {
        Comm::of(comm.id())?.attached.flush(world()?);
    }

    fn MPI_Comm_iflush_buffer(comm: MPI_Comm, request: Out<MPI_Request>) on comm {
        let task = Comm::of(comm.id())?.attached.begin_flush(world()?);
        request.put(MPI_Request::of(Request::put(comm.into(), Active::Task(task))?));
    }

    fn MPI_Comm_free(comm: Out<MPI_Comm>) on comm {
        free(comm)?;
    }

    fn MPI_Comm_disconnect(comm: Out<MPI_Comm>) on comm {
        let of = Comm::of(comm.get().id())?;
        block_on(world()?, phalanx_mpi::operations::collective::barrier(&Call::new(world()?, of)))?;
        free(comm)?;
    }
}

fn duplicate(comm: MPI_Comm, hints: &Info, newcomm: Out<MPI_Comm>) -> Result {
    let secured = asks_for_protection(hints)?;
    let made = block_on(world()?, comm_create::duplicate(operation(comm)?, secured))?;
    put(comm, made, newcomm)?;
    if let Err(error) = attribute::copy_all(comm.id(), newcomm.get().id()) {
        // The copy function's error is the one to be told.
        let _ = free(newcomm);
        newcomm.put(MPI_Comm::of(MPI_COMM_NULL));
        return Err(error.into());
    }
    Ok(())
}

/// Its handle is written when it is there.
fn begin_duplicate(comm: MPI_Comm, hints: Info, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) -> Result {
    let (call, secured) = (operation(comm)?, asks_for_protection(&hints)?);
    newcomm.put(MPI_Comm::of(MPI_COMM_NULL));
    let task = Task::begin(world()?, async move {
        let made = comm_create::duplicate(call, secured).await?;
        made.set_hints(&hints)?;
        let handle = made.put()?;
        errhandler::inherit(comm.id(), handle);
        newcomm.put(MPI_Comm::of(handle));
        attribute::copy_all(comm.id(), handle)
    });
    request.put(MPI_Request::of(Request::put(comm.into(), Active::Task(task))?));
    Ok(())
}

fn free(comm: Out<MPI_Comm>) -> Result {
    let handle = comm.get().id();
    if handle != MPI_COMM_SELF {
        Comm::of(handle)?;
        attribute::delete_all(handle)?;
    }
    drop(Comm::free(handle)?);
    Request::keep_handler(world()?, handle);
    forget_dropped(world()?);
    errhandler::forget(handle);
    comm.put(MPI_Comm::of(MPI_COMM_NULL));
    Ok(())
}
