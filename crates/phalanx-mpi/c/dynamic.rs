//! Processes that a program starts itself, and groups that find each other at ports (MPI 5.0, 11.8 to 11.10).

use super::argument::{Array, Out, OutArray, OutText, Text, count};
use super::comm::put;
use super::failure::{Result, fail};
use crate::abi::{self, MPI_Comm, MPI_Info, longest};
use phalanx_mpi::constants::*;
use phalanx_mpi::error::{Class, Error};
use phalanx_mpi::objects::comm::Comm;
use phalanx_mpi::objects::info::hints;
use phalanx_mpi::operations::collective::Call;
use phalanx_mpi::process::blocking::block_on;
use phalanx_mpi::process::world::world;
use phalanx_mpi::universe::dynamic::{self, End, Wanted};
use phalanx_mpi::universe::parents;
use std::ffi::{CStr, c_char, c_int};
use std::os::unix::ffi::OsStringExt;

/// What C has as a list of words, with NULL behind the last; NULL for none.
type Words = *const *const c_char;

mpi! {
    /// What is passed elsewhere than at the root means nothing, and may be NULL.
    fn MPI_Comm_spawn(
        command: *const c_char, argv: *const *const c_char, maxprocs: c_int, info: MPI_Info, root: c_int, comm: MPI_Comm,
        intercomm: Out<MPI_Comm>, array_of_errcodes: OutArray<c_int>
    ) on comm {
        let program = || Ok(vec![wanted(command, argv, maxprocs, info)?]);
        spawn(comm, root, program, intercomm, array_of_errcodes)?;
    }

    fn MPI_Comm_spawn_multiple(
        count: c_int, array_of_commands: Array<*const c_char>, array_of_argv: *const *const *const c_char,
        array_of_maxprocs: Array<c_int>, array_of_info: Array<MPI_Info>, root: c_int, comm: MPI_Comm,
        intercomm: Out<MPI_Comm>, array_of_errcodes: OutArray<c_int>
    ) on comm {
        let programs = || {
            let count = self::count(count, "count")?;
            let (commands, infos) = (array_of_commands.slice(count)?, array_of_info.slice(count)?);
            let processes = array_of_maxprocs.slice(count)?;
            let program = |index: usize| {
                // SAFETY: C promises a list of words for each command, or NULL for no lists.
                let argv = if array_of_argv.is_null() { std::ptr::null() } else { unsafe { *array_of_argv.add(index) } };
                wanted(commands[index], argv, processes[index], infos[index])
            };
            (0..count).map(program).collect()
        };
        spawn(comm, root, programs, intercomm, array_of_errcodes)?;
    }

    fn MPI_Comm_get_parent(parent: Out<MPI_Comm>) {
        parent.put(MPI_Comm::of(parents::parent()));
    }

    fn MPI_Open_port(info: MPI_Info, port_name: OutText) {
        hints(info.id())?;
        port_name.put(&block_on(world()?, dynamic::open_port(world()?))?, longest::PORT);
    }

    fn MPI_Close_port(port_name: Text) {
        block_on(world()?, dynamic::close_port(world()?, port_name.get()))?;
    }

    fn MPI_Comm_accept(
        port_name: *const c_char, info: MPI_Info, root: c_int, comm: MPI_Comm, newcomm: Out<MPI_Comm>
    ) on comm {
        meet(End::Accepts, port_name, info, root, comm, newcomm)?;
    }

    fn MPI_Comm_connect(
        port_name: *const c_char, info: MPI_Info, root: c_int, comm: MPI_Comm, newcomm: Out<MPI_Comm>
    ) on comm {
        meet(End::Connects, port_name, info, root, comm, newcomm)?;
    }

    fn MPI_Publish_name(service_name: Text, info: MPI_Info, port_name: Text) {
        hints(info.id())?;
        block_on(world()?, dynamic::publish(world()?, service_name.get(), port_name.get()))?;
    }

    fn MPI_Unpublish_name(service_name: Text, info: MPI_Info, _port_name: Text) {
        hints(info.id())?;
        block_on(world()?, dynamic::unpublish(world()?, service_name.get()))?;
    }

    fn MPI_Lookup_name(service_name: Text, info: MPI_Info, port_name: OutText) {
        hints(info.id())?;
        port_name.put(&block_on(world()?, dynamic::look_up(world()?, service_name.get()))?, longest::PORT);
    }

    fn MPI_Comm_join(fd: c_int, intercomm: Out<MPI_Comm>) {
        intercomm.put(MPI_Comm::of(MPI_COMM_NULL));
        let call = Call::new(world()?, Comm::of(MPI_COMM_SELF)?);
        if let Some(made) = block_on(world()?, dynamic::join_over(call, fd))? {
            put(MPI_Comm::of(MPI_COMM_SELF), made, intercomm)?;
        }
    }
}

fn spawn(
    comm: MPI_Comm,
    root: c_int,
    programs: impl FnOnce() -> Result<Vec<Wanted>>,
    intercomm: Out<MPI_Comm>,
    errcodes: OutArray<c_int>,
) -> Result {
    intercomm.put(MPI_Comm::of(MPI_COMM_NULL));
    let (call, root) = operation(comm, root)?;
    // What is wrong with them is told to all, who would wait for ever otherwise.
    let programs = match call.rank() == root {
        true => programs().map_err(|failure| match failure {
            super::failure::Failure::Error(error) | super::failure::Failure::Of(_, error) => error,
            super::failure::Failure::Code(_) => Error::new(Class::Arg, "the programs"),
        }),
        false => Ok(Vec::new()),
    };
    let spawned = block_on(world()?, dynamic::spawn(call, root, programs))?;
    if !errcodes.pointer().is_null() {
        for (place, code) in errcodes.slice(spawned.codes.count())?.iter_mut().enumerate() {
            *code = spawned.codes.of(place).map_or(MPI_SUCCESS, |class| abi::ERROR.to_c(class as i32));
        }
    }
    put(comm, spawned.made?, intercomm)
}

fn meet(
    end: End,
    port_name: *const c_char,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    newcomm: Out<MPI_Comm>,
) -> Result {
    newcomm.put(MPI_Comm::of(MPI_COMM_NULL));
    let (call, root) = operation(comm, root)?;
    let mut port = String::new();
    if call.rank() == root && !port_name.is_null() {
        hints(info.id())?;
        port = String::from_utf8_lossy(&word(port_name)).into_owned();
    }
    put(comm, block_on(world()?, dynamic::meet(call, root, end, port))?, newcomm)
}

fn operation(comm: MPI_Comm, root: c_int) -> Result<(Call, usize)> {
    let comm = Comm::of(comm.id())?;
    if comm.remote.is_some() {
        return fail(Class::Comm, "comm is an intercommunicator");
    }
    match usize::try_from(root).ok().filter(|root| *root < comm.size()) {
        Some(root) => Ok((Call::new(world()?, comm), root)),
        None => fail(Class::Root, format!("root {root} is not in 0..{}", comm.size())),
    }
}

/// A program with what its hints say of it (MPI 5.0, 11.8.4): `host`, `wdir` and `path`.
fn wanted(command: *const c_char, argv: Words, processes: c_int, info: MPI_Info) -> Result<Wanted> {
    if command.is_null() {
        return fail(Class::Arg, "command is NULL");
    }
    let hints = hints(info.id())?;
    let processes = count(processes, "maxprocs")?;
    let folder = folder(hints.get("wdir").unwrap_or_default())?;
    let command = dynamic::find_program(word(command), hints.get("path").as_deref());
    let words = std::iter::once(command).chain(words(argv)).collect();
    let host = hints.get("host").filter(|host| !host.is_empty());
    Ok(Wanted { processes: processes as u32, command: words, folder, host })
}

/// Where a process runs that is spawned. On executors folders are those of the machine where it is started: a name that
/// does not begin at the root means one in the program's own.
fn folder(named: String) -> Result<Vec<u8>> {
    if world()?.address.is_some() {
        return Ok(named.into_bytes());
    }
    let here = std::env::current_dir().unwrap_or_default();
    Ok(here.join(named).into_os_string().into_vec())
}

fn words(list: Words) -> impl Iterator<Item = Vec<u8>> {
    // SAFETY: C promises a list that ends with NULL.
    let at = move |index: usize| if list.is_null() { list.cast() } else { unsafe { *list.add(index) } };
    (0..).map(at).take_while(|pointer| !pointer.is_null()).map(word)
}

/// Of a pointer that is not NULL.
fn word(pointer: *const c_char) -> Vec<u8> {
    // SAFETY: C promises that a zero ends it.
    unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec()
}
