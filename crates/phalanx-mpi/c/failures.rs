//! User-level failure mitigation (ULFM), as MPICH and Open MPI have it.

use super::argument::Out;
use super::comm::put;
use super::failure::{Result, fail};
use crate::abi::{MPI_Comm, MPI_Group, MPI_Request};
use phalanx_mpi::constants::MPI_COMM_NULL;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::comm::Comm;
use phalanx_mpi::objects::group::Group;
use phalanx_mpi::objects::request::{Active, Request};
use phalanx_mpi::objects::{errhandler, group};
use phalanx_mpi::process::blocking::block_on;
use phalanx_mpi::process::tasks::Task;
use phalanx_mpi::process::world::world;
use phalanx_mpi::universe::failures;
use std::ffi::c_int;
use std::sync::Arc;

fn put_group(into: Out<MPI_Group>, group: Group) -> Result {
    into.put(MPI_Group::of(group::put(Arc::new(group))?));
    Ok(())
}

mpi! {
    fn MPIX_Comm_revoke(comm: MPI_Comm) on comm {
        failures::revoke(world()?, &*Comm::of(comm.id())?)?;
    }

    fn MPIX_Comm_is_revoked(comm: MPI_Comm, flag: Out<c_int>) on comm {
        let comm = Comm::of(comm.id())?;
        world()?.attend();
        flag.put_flag(comm.is_revoked());
    }

    fn MPIX_Comm_get_failed(comm: MPI_Comm, failedgrp: Out<MPI_Group>) on comm {
        let comm = Comm::of(comm.id())?;
        world()?.attend();
        put_group(failedgrp, failures::failed(world()?, &comm))?;
    }

    fn MPIX_Comm_ack_failed(comm: MPI_Comm, num_to_ack: c_int, num_acked: Out<c_int>) on comm {
        let comm = Comm::of(comm.id())?;
        let Ok(count) = usize::try_from(num_to_ack) else {
            return fail(Class::Arg, format!("num_to_ack {num_to_ack} is negative"));
        };
        num_acked.put(failures::acknowledge(world()?, &comm, count) as c_int);
    }

    fn MPIX_Comm_failure_ack(comm: MPI_Comm) on comm {
        let comm = Comm::of(comm.id())?;
        world()?.attend();
        failures::acknowledge(world()?, &comm, usize::MAX);
    }

    fn MPIX_Comm_failure_get_acked(comm: MPI_Comm, failedgrp: Out<MPI_Group>) on comm {
        let comm = Comm::of(comm.id())?;
        put_group(failedgrp, failures::acknowledged(world()?, &comm))?;
    }

    fn MPIX_Comm_agree(comm: MPI_Comm, flag: Out<c_int>) on comm {
        let comm = Comm::of(comm.id())?;
        let (agreed, known) = block_on(world()?, failures::agree(world()?, &comm, flag.get()))?;
        flag.put(agreed);
        known?;
    }

    fn MPIX_Comm_iagree(comm: MPI_Comm, flag: Out<c_int>, request: Out<MPI_Request>) on comm {
        let agreement = failures::agree(world()?, &*Comm::of(comm.id())?, flag.get());
        let task = Task::begin(world()?, async move {
            let (agreed, known) = agreement.await?;
            flag.put(agreed);
            known
        });
        request.put(MPI_Request::of(Request::put(comm.into(), Active::Task(task))?));
    }

    fn MPIX_Comm_shrink(comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        let made = block_on(world()?, failures::shrink(world()?, Comm::of(comm.id())?))?;
        put(comm, made, newcomm)?;
    }

    fn MPIX_Comm_ishrink(comm: MPI_Comm, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) on comm {
        let shrunk = failures::shrink(world()?, Comm::of(comm.id())?);
        newcomm.put(MPI_Comm::of(MPI_COMM_NULL));
        let task = Task::begin(world()?, async move {
            let handle = shrunk.await?.put()?;
            errhandler::inherit(comm.id(), handle);
            newcomm.put(MPI_Comm::of(handle));
            Ok(())
        });
        request.put(MPI_Request::of(Request::put(comm.into(), Active::Task(task))?));
    }
}
