//! Sessions (MPI 5.0, 11.3).

use super::argument::{Number, Out, OutText, Text, count};
use super::failure::fail;
use crate::abi::longest::PSET;
use crate::abi::{self, MPI_Errhandler, MPI_Info, MPI_Request, MPI_Session};
use phalanx_mpi::constants::{MPI_ERRHANDLER_NULL, MPI_SESSION_NULL};
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::errhandler::{self, Kind};
use phalanx_mpi::objects::info::{self, Info};
use phalanx_mpi::objects::request::{Active, Request};
use phalanx_mpi::process::world::world;
use phalanx_mpi::universe::session;
use std::ffi::{c_char, c_int, c_void};

mpi! {
    early_fn MPI_Session_init(info: MPI_Info, errhandler: MPI_Errhandler, session: Out<MPI_Session>) {
        let handle = session::begin(info::hints(info.id())?)?;
        if errhandler.id() != MPI_ERRHANDLER_NULL {
            if let Err(error) = errhandler::set(handle, Kind::Session, errhandler.id()) {
                session::end(handle)?;
                return Err(error.into());
            }
        }
        session.put(MPI_Session::of(handle));
    }

    fn MPI_Session_finalize(session: Out<MPI_Session>) on session {
        session::end(session.get().id())?;
        session.put(MPI_Session::of(MPI_SESSION_NULL));
    }

    fn MPI_Session_get_info(session: MPI_Session, info_used: Out<MPI_Info>) on session {
        let hints = Info::of(session::find(session.id())?.info.pairs());
        hints.set("thread_level", "MPI_THREAD_MULTIPLE")?; // whatever was asked for
        info_used.put(MPI_Info::of(info::put(hints)?));
    }

    fn MPI_Session_get_num_psets(session: MPI_Session, info: MPI_Info, npset_names: Out<c_int>) on session {
        session::find(session.id())?;
        info::hints(info.id())?;
        npset_names.put(session::SETS.len() as c_int);
    }

    fn MPI_Session_get_nth_pset(
        session: MPI_Session, info: MPI_Info, n: c_int, pset_len: Out<c_int>, pset_name: *mut c_char,
    ) on session {
        session::find(session.id())?;
        info::hints(info.id())?;
        let Some(name) = session::SETS.get(n.natural(Class::Arg, "n")?) else {
            return fail(Class::Arg, format!("n is {n}, but there are {} process sets", session::SETS.len()));
        };
        let room = pset_len.get().natural(Class::Arg, "pset_len")?;
        if room > 0 {
            OutText::of(pset_name, "pset_name")?.put(name, room.min(PSET));
        }
        pset_len.put(name.len() as c_int + 1);
    }

    fn MPI_Session_get_pset_info(session: MPI_Session, pset_name: Text, info: Out<MPI_Info>) on session {
        let size = session::find(session.id())?.set(&pset_name.get())?.size();
        info.put(MPI_Info::of(info::put(Info::of([("mpi_size".to_string(), size.to_string())]))?));
    }

    large_fn MPI_Session_attach_buffer(session: MPI_Session, buffer: *mut c_void, size: Count) on session {
        let automatic = std::ptr::eq(buffer, abi::address::BUFFER_AUTOMATIC);
        session::find(session.id())?.attached.attach(buffer as usize, count(size, "size")?, automatic)?;
    }

    large_fn MPI_Session_detach_buffer(session: MPI_Session, buffer_addr: *mut c_void, size: Out<Count>) on session {
        let (address, bytes) = session::find(session.id())?.attached.detach(world()?);
        Out::of(buffer_addr.cast::<*mut c_void>(), "buffer_addr")?.put(address as *mut c_void);
        size.put(Count::narrow(bytes as i64).unwrap_or(Count::MAX));
    }

    fn MPI_Session_flush_buffer(session: MPI_Session) on session {
        session::find(session.id())?.attached.flush(world()?);
    }

    fn MPI_Session_iflush_buffer(session: MPI_Session, request: Out<MPI_Request>) on session {
        let task = session::find(session.id())?.attached.begin_flush(world()?);
        request.put(MPI_Request::of(Request::put(session.into(), Active::Task(task))?));
    }
}
