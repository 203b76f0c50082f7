//! The file in which ranks, and the processes that they start, find what their user has delegated to them.

use crate::delegated::file::{Kept, VARIABLE};
use crate::delegated::{Papers, Starter};
use crate::scratch::Folder;
use phalanx_core::wire::Given;
use phalanx_net::identity::{KeyedCertificate, Member};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

/// The file of the ranks of one part of a program. Dropping it removes the file, and with it the ranks' key.
#[derive(Debug)]
pub struct DelegatedFile {
    folder: Arc<Folder>,
    name: String,
    kept: Kept,
}

impl DelegatedFile {
    /// Makes a key for ranks at this executor, which the owner of the certificate `user` starts. Returns its certificate too.
    pub fn new(folder: Arc<Folder>, user: &[u8], executor: &Member) -> io::Result<(DelegatedFile, Vec<u8>)> {
        let own = KeyedCertificate::ephemeral().map_err(io::Error::other)?;
        let (machine, papers) = (executor.name.clone(), Papers::new(&own, user, executor));
        let kept = Kept { machine, starter: Starter::Launcher, papers, given: None };
        let file = DelegatedFile { folder, name: Kept::name(), kept };
        file.write()?;
        Ok((file, own.certificate.to_vec()))
    }

    /// The environment variable that names the file.
    pub fn variable(&self) -> (Vec<u8>, Vec<u8>) {
        (VARIABLE.into(), self.folder.path().join(&self.name).into_os_string().into_vec())
    }

    /// Replaces what the user gives to the ranks.
    pub fn give(&mut self, given: Given) -> io::Result<()> {
        self.kept.given = Some(given);
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        self.folder.replace(&self.name, &Kept::name(), &self.kept.to_bytes()?)
    }
}

impl Drop for DelegatedFile {
    fn drop(&mut self) {
        self.folder.remove(&self.name);
    }
}
