//! Error handlers (MPI 5.0, 9.3).

use super::argument::Out;
use super::call::call_handler;
use super::failure::{Owner, Result, fail};
use crate::abi::{self, MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session, MPI_Win};
use phalanx_mpi::constants::{MPI_ERRHANDLER_NULL, MPI_FILE_NULL};
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::codes;
use phalanx_mpi::objects::comm::Comm;
use phalanx_mpi::objects::errhandler::{self, Kind};
use phalanx_mpi::universe::session;
use std::ffi::c_int;

/// A program's handler: it may have more parameters, of which C does not tell.
type Handler<T> = unsafe extern "C" fn(*mut T, *mut c_int, ...);

/// An object that may have a handler: whether it exists.
trait Handled: Copy {
    const KIND: Kind;
    fn of(id: u32) -> Self;
    fn exists(self) -> Result<u32>;
}

impl Handled for MPI_Comm {
    const KIND: Kind = Kind::Comm;

    fn of(id: u32) -> MPI_Comm {
        MPI_Comm::of(id)
    }

    fn exists(self) -> Result<u32> {
        use phalanx_mpi::constants::{MPI_COMM_SELF, MPI_COMM_WORLD};
        // These may get a handler before there is a world.
        if !matches!(self.id(), MPI_COMM_SELF | MPI_COMM_WORLD) {
            Comm::of(self.id())?;
        }
        Ok(self.id())
    }
}

impl Handled for MPI_Session {
    const KIND: Kind = Kind::Session;

    fn of(id: u32) -> MPI_Session {
        MPI_Session::of(id)
    }

    fn exists(self) -> Result<u32> {
        session::find(self.id())?;
        Ok(self.id())
    }
}

impl Handled for MPI_Win {
    const KIND: Kind = Kind::Win;

    fn of(id: u32) -> MPI_Win {
        MPI_Win::of(id)
    }

    fn exists(self) -> Result<u32> {
        super::window::exists(self)
    }
}

impl Handled for MPI_File {
    const KIND: Kind = Kind::File;

    fn of(id: u32) -> MPI_File {
        MPI_File::of(id)
    }

    /// MPI_FILE_NULL has the handler of new files.
    fn exists(self) -> Result<u32> {
        if self.id() == MPI_FILE_NULL { Ok(MPI_FILE_NULL) } else { super::file::exists(self) }
    }
}

fn create<T: Handled + 'static>(function: Option<Handler<T>>) -> Result<MPI_Errhandler> {
    let Some(function) = function else { return fail(Class::Arg, "the function is NULL") };
    let call = move |object, code| {
        let (mut object, mut code) = (T::of(object), abi::ERROR.to_c(code));
        // SAFETY: the program gave this function for this.
        unsafe { function(&mut object, &mut code) };
        abi::ERROR.from_c(code)
    };
    Ok(MPI_Errhandler::of(errhandler::create(T::KIND, Box::new(call))?))
}

fn set<T: Handled>(object: T, handler: MPI_Errhandler) -> Result {
    Ok(errhandler::set(object.exists()?, T::KIND, handler.id())?)
}

fn get<T: Handled>(object: T) -> Result<MPI_Errhandler> {
    Ok(MPI_Errhandler::of(errhandler::handle_of(object.exists()?, T::KIND)?))
}

/// The program says that an error happened.
fn call<T: Handled>(object: T, code: c_int) -> Result {
    let code = abi::ERROR.from_c(code);
    codes::class_of(code)?;
    call_handler(Owner::new(object.exists()?, T::KIND), code);
    Ok(())
}

mpi! {
    early_fn MPI_Comm_create_errhandler(comm_errhandler_fn: Option<Handler<MPI_Comm>>, errhandler: Out<MPI_Errhandler>) {
        errhandler.put(create(comm_errhandler_fn)?);
    }

    early_fn MPI_Win_create_errhandler(win_errhandler_fn: Option<Handler<MPI_Win>>, errhandler: Out<MPI_Errhandler>) {
        errhandler.put(create(win_errhandler_fn)?);
    }

    early_fn MPI_File_create_errhandler(file_errhandler_fn: Option<Handler<MPI_File>>, errhandler: Out<MPI_Errhandler>) {
        errhandler.put(create(file_errhandler_fn)?);
    }

    early_fn MPI_Session_create_errhandler(
        session_errhandler_fn: Option<Handler<MPI_Session>>, errhandler: Out<MPI_Errhandler>,
    ) {
        errhandler.put(create(session_errhandler_fn)?);
    }

    early_fn MPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) on comm {
        set(comm, errhandler)?;
    }

    early_fn MPI_Win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) on win {
        set(win, errhandler)?;
    }

    early_fn MPI_File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) on file {
        set(file, errhandler)?;
    }

    early_fn MPI_Session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) on session {
        set(session, errhandler)?;
    }

    early_fn MPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: Out<MPI_Errhandler>) on comm {
        errhandler.put(get(comm)?);
    }

    early_fn MPI_Win_get_errhandler(win: MPI_Win, errhandler: Out<MPI_Errhandler>) on win {
        errhandler.put(get(win)?);
    }

    early_fn MPI_File_get_errhandler(file: MPI_File, errhandler: Out<MPI_Errhandler>) on file {
        errhandler.put(get(file)?);
    }

    early_fn MPI_Session_get_errhandler(session: MPI_Session, errhandler: Out<MPI_Errhandler>) on session {
        errhandler.put(get(session)?);
    }

    early_fn MPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) on comm {
        call(comm, errorcode)?;
    }

    early_fn MPI_Win_call_errhandler(win: MPI_Win, errorcode: c_int) on win {
        call(win, errorcode)?;
    }

    early_fn MPI_File_call_errhandler(fh: MPI_File, errorcode: c_int) on fh {
        call(fh, errorcode)?;
    }

    early_fn MPI_Session_call_errhandler(session: MPI_Session, errorcode: c_int) on session {
        call(session, errorcode)?;
    }

    early_fn MPI_Errhandler_free(errhandler: Out<MPI_Errhandler>) {
        errhandler::free(errhandler.get().id())?;
        errhandler.put(MPI_Errhandler::of(MPI_ERRHANDLER_NULL));
    }
}
