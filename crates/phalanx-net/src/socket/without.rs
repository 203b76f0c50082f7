//! For systems that cannot pass files over sockets.

use super::Socket;
use crate::memory::File;
use std::io;

impl Socket {
    pub(crate) fn passes_files(&self) -> bool {
        false
    }

    pub(crate) fn send_with(&self, _: &[u8], file: &File) -> io::Result<usize> {
        match *file {}
    }

    pub(crate) fn receive_with(&self, _: &mut [u8]) -> io::Result<(usize, Option<File>)> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
