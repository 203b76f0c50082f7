//! Why a call failed, and whose error handler hears of it.

pub use phalanx_mpi::objects::errhandler::Owner;

use crate::abi::{MPI_Comm, MPI_File, MPI_Session, MPI_Win};
use phalanx_mpi::constants::{MPI_COMM_SELF, MPI_COMM_WORLD};
use phalanx_mpi::error::{Class, Error};
use phalanx_mpi::objects::errhandler::{self, Kind};

/// Why a call failed.
pub enum Failure {
    Error(Error),
    /// The handler of this object hears of it, and not that of an argument.
    Of(Owner, Error),
    /// A function of the program returned this code.
    Code(i32),
}

pub type Result<T = ()> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

/// For `Err(…)` in one line.
pub fn fail<T>(class: Class, text: impl Into<String>) -> Result<T> {
    Err(Error::new(class, text).into())
}

/// Hears of errors that belong to no communicator, window, file or session: MPI_COMM_SELF (MPI 5.0, 9.3). A program that
/// has set no handler there was written for MPI 3, where it was MPI_COMM_WORLD.
pub fn nobody() -> Owner {
    let own = [MPI_COMM_SELF, MPI_COMM_WORLD].into_iter().find(|comm| errhandler::is_set(*comm));
    Owner::comm(own.unwrap_or(MPI_COMM_SELF))
}

/// What fails concerns this object, which no argument names: a request's or a message's.
pub fn concerns<T, E: Into<Failure>>(owner: impl FnOnce() -> Owner, outcome: std::result::Result<T, E>) -> Result<T> {
    outcome.map_err(|failure| match failure.into() {
        Failure::Error(error) => Failure::Of(owner(), error),
        failure => failure,
    })
}

macro_rules! owners {
    ($($handle:ty => $kind:ident,)*) => {
        $(impl From<$handle> for Owner {
            fn from(handle: $handle) -> Owner {
                Owner::new(handle.id(), Kind::$kind)
            }
        })*
    };
}

owners! {
    MPI_Comm => Comm,
    MPI_Win => Win,
    MPI_File => File,
    MPI_Session => Session,
}
