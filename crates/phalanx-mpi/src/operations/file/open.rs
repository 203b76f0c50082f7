//! Opening, closing and deleting files (MPI 5.0, 14.2).

use super::access::Begun;
use super::disk::Disk;
use super::mode::{Create, Mode};
use super::pointer::Pointer;
use super::together::{agree, first_does};
use super::{File, View};
use crate::constants::{MPI_MODE_APPEND, MPI_MODE_DELETE_ON_CLOSE};
use crate::error::{Class, Error, Result, fail};
use crate::objects::comm::{Comm, asks_for_protection};
use crate::objects::info::Info;
use crate::operations::collective::Call;
use crate::operations::comm_create;
use crate::process::blocking::block_on;
use crate::process::world::World;
use std::cell::Cell;
use std::path::{Path, absolute};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// Collective over the communicator: with the same mode everywhere, and a name that means the same file everywhere.
pub fn open(world: &'static World, comm: Arc<Comm>, name: &Path, amode: i32, hints: &Info) -> Result<Arc<File>> {
    if comm.remote.is_some() {
        return fail(Class::Comm, "comm is an intercommunicator");
    }
    let secured = asks_for_protection(hints)?; // before anything is opened
    let file = block_on(world, open_together(world, comm, secured, name, amode))?;
    file.add_hints(hints)?;
    Ok(Arc::new(file))
}

pub(super) async fn open_together(
    world: &'static World,
    comm: Arc<Comm>,
    secured: bool,
    name: &Path,
    amode: i32,
) -> Result<File> {
    let of = comm.context;
    let comm = comm_create::duplicate(Call::new(world, comm), secured).await?;
    comm.serve(world, of);
    let call = Call::new(world, comm.clone());
    let mode = Mode::new(amode);
    agree(&call, mode.clone().map(|_| amode.to_le_bytes().to_vec())).await?;
    let mode = mode?;
    // The first one makes the file, the others find it.
    let (mut disk, mut outcome) = (None, Ok(()));
    for first in [true, false] {
        if (comm.rank == 0) == first {
            let create = if first { mode.create() } else { Create::Never };
            match Disk::open(name, mode, create) {
                Ok(opened) => disk = Some(opened),
                Err(error) => outcome = Err(error),
            }
        }
        agree(&call, outcome.clone().map(|()| Vec::new())).await?;
    }
    let disk = disk.ok_or_else(|| Error::new(Class::Intern, "the file was not opened"))?;
    let end = if mode.has(MPI_MODE_APPEND) { disk.size() } else { Ok(0) };
    agree(&call, end.clone().map(|_| Vec::new())).await?;
    let end = i64::try_from(end?).unwrap_or(i64::MAX);
    Ok(File {
        world,
        disk,
        path: absolute(name).unwrap_or_else(|_| name.to_path_buf()),
        mode,
        view: Mutex::new(Arc::new(View::of_bytes()?)),
        own: Mutex::new(end),
        pointer: Pointer::new(world, comm.clone(), end),
        comm,
        atomic: AtomicBool::new(false),
        turn: Mutex::new(()),
        split: Mutex::new(None::<Begun>),
        hints: Mutex::default(),
    })
}

/// Collective. What was begun on the file must be done. Of a revoked file nobody is waited for.
pub fn close(file: Arc<File>) -> Result<()> {
    let ends_here = Cell::new(file.comm.rank == 0);
    let delete = || match ends_here.replace(false) && file.mode.has(MPI_MODE_DELETE_ON_CLOSE) {
        true => Disk::delete(&file.path),
        false => Ok(()),
    };
    let outcome = match block_on(file.world, first_does(&file.call(), Ok(Vec::new()), delete)) {
        Err(error) if error.class == Class::Revoked => delete(), // if it was not done yet
        met => met,
    };
    file.pointer.end();
    outcome
}

/// Deletes a file that nobody needs to have opened.
pub fn delete(name: &Path) -> Result<()> {
    Disk::delete(name)
}
