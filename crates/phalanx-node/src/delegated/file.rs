//! The file by which a program's processes at an executor find what their user has delegated to them.
//!
//! Ranks, and processes that tasks and ranks start, have no link to the user's program. An environment variable names a file in
//! the folder of their program. Other accounts cannot enter that folder, and cages that keep files apart close it to other
//! programs. The file is replaced when the delegation is renewed, and removed with the program.
//!
//! An inherited descriptor would need no file. But programs close descriptors that they do not know before they start
//! another one, as Python's `subprocess` does.

use super::{Papers, Starter};
use phalanx_core::wire::Given;
use phalanx_net::identity::random_number;
use phalanx_net::replace::Locked;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use zeroize::Zeroizing;

/// The environment variable with the path of the file.
pub const VARIABLE: &str = "PHALANX_DELEGATED";
/// Beginning of the file's name. A random number follows, because a folder may have several.
const NAME: &str = ".phalanx-delegated-";
/// Longest file, in bytes: a few certificates, and the names of a grid's machines.
const MOST: u64 = 2 << 20;

/// What the file holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kept {
    /// The name of the machine.
    pub machine: String,
    /// How the program was started.
    pub starter: Starter,
    /// With which its processes act for their user.
    pub papers: Papers,
    /// What the user gave them last. `None`: nothing.
    pub given: Option<Given>,
}

impl Kept {
    /// A new name for a file.
    pub fn name() -> String {
        format!("{NAME}{:032x}", random_number())
    }

    /// The contents of the file.
    ///
    /// # Errors
    /// They are too long.
    pub fn to_bytes(&self) -> io::Result<Zeroizing<Vec<u8>>> {
        let bytes = Zeroizing::new(postcard::to_stdvec(self).map_err(io::Error::other)?);
        match bytes.len() as u64 <= MOST {
            true => Ok(bytes),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "the names of the grid's machines are too long")),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// There is none, or it is not one of these.
    pub fn read(path: &Path) -> io::Result<Kept> {
        let mut bytes = Zeroizing::new(Vec::new());
        File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
        postcard::from_bytes(&bytes).map_err(io::Error::other)
    }

    /// Writes the file, or replaces it at once.
    ///
    /// # Errors
    /// The system cannot write there.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        Locked::wait(path)?.replace_unsynced(&self.to_bytes()?)
    }
}
