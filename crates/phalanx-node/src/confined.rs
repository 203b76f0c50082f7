//! Where the interpreters of one manager run on an executor: a folder, and the cage around it.

use crate::cage::{Bars, Cage};
#[cfg(target_os = "linux")]
use crate::scratch::Folder;
use std::io;

/// The folder is removed when this is dropped.
#[derive(Debug)]
pub struct Confined {
    /// What the interpreters are started with.
    pub bars: Bars,
    #[cfg(target_os = "linux")]
    _folder: Folder,
}

impl Confined {
    /// For interpreters of `user`.
    ///
    /// # Errors
    ///
    /// The user gets no account, or the folder or the cage cannot be made.
    #[cfg(target_os = "linux")]
    pub fn new(cage: &Cage, user: &str) -> io::Result<Confined> {
        let folder = Folder::of(cage.account_of(user)?)?;
        Ok(Confined {
            bars: cage.around(Some(folder.path()), folder.account(), folder.memory(), &[])?,
            _folder: folder,
        })
    }

    /// Elsewhere interpreters run in the executor's folder.
    #[cfg(not(target_os = "linux"))]
    pub fn new(cage: &Cage, _: &str) -> io::Result<Confined> {
        Ok(Confined { bars: cage.around(None)? })
    }
}
