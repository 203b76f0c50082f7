//! How processes of one user find each other on one machine: unix sockets in a folder that only this user can enter.
//!
//! A server that listens at an address also listens at a path named after it. The name includes the network namespace,
//! because two containers that share the folder may both have a server at `127.0.0.1:7400`.

use crate::socket::Listener;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

/// The path of a listening server. Dropping it removes the path.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    /// Whether the folder is ours too. It is removed when empty.
    in_folder: bool,
    /// The file at the path when it was ours. Another server may have taken the path since.
    file: Option<FileNumber>,
}

/// Identifies the file at a path, independently of its name.
type FileNumber = (u64, u64);

impl Place {
    /// Listens at the path that belongs to `address`.
    pub fn of(address: &SocketAddr) -> io::Result<(Listener, Place)> {
        let folder = system::folder();
        let path = folder.join(name(*address));
        let listener = system::in_private_folder(&folder, || {
            remove_stale(&folder);
            Listener::bind_path(&path)
        })?;
        let file = system::number_of(&path);
        Ok((listener, Place { path, in_folder: true, file }))
    }

    /// Listens at a path that the user named. Replaces the socket of a dead server, and nothing else.
    pub fn at(path: &Path) -> io::Result<(Listener, Place)> {
        if system::is_stale(path) {
            std::fs::remove_file(path)?;
        }
        let listener = system::bind_private(path)?;
        Ok((listener, Place { path: path.to_owned(), in_folder: false, file: system::number_of(path) }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.file.is_some() && system::number_of(&self.path) == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
        if self.in_folder {
            let _ = std::fs::remove_dir(system::folder());
        }
    }
}

/// The paths at which a server of this machine with this `address` may listen, best first. Empty if `address` is not of
/// this machine, or if the folder is not this user's alone: whatever is there then is another user's.
pub fn paths_to(address: &SocketAddr) -> Vec<PathBuf> {
    if !system::is_private(&system::folder()) || UdpSocket::bind((address.ip(), 0)).is_err() {
        return Vec::new();
    }
    let everywhere: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let ips = std::iter::once(address.ip()).chain(everywhere);
    ips.map(|ip| system::folder().join(name(SocketAddr::new(ip, address.port())))).collect()
}

fn name(address: SocketAddr) -> String {
    format!("{address}@{}", system::namespace())
}

/// Removes the sockets of servers that were killed.
fn remove_stale(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let stale = entries.map(|entry| entry.path()).filter(|path| system::is_stale(path));
    stale.for_each(|path| drop(std::fs::remove_file(path)));
}

#[cfg(unix)]
mod system {
    use crate::private_folder;
    use crate::socket::{Listener, Socket};
    use crate::sync::lock;
    use rustix::fs::{FlockOperation, Mode, flock};
    use rustix::process::{geteuid, umask};
    use std::fs;
    use std::io;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;

    /// How often the folder is made again if another process removes it meanwhile.
    const TRIES: usize = 20;

    pub fn folder() -> PathBuf {
        match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
            Some(folder) => Path::new(&folder).join("phalanx"),
            None => std::env::temp_dir().join(format!("phalanx-of-user-{}", geteuid().as_raw())),
        }
    }

    /// Makes the folder and does the work, while no other process does the same there.
    pub fn in_private_folder<T>(folder: &Path, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for _ in 0..TRIES {
            let outcome = private_folder::make(folder).and_then(|opened| {
                flock(&opened, FlockOperation::LockExclusive)?;
                work()
            });
            match outcome {
                // Its last user removed the folder before we had the lock.
                Err(error) if error.kind() == io::ErrorKind::NotFound => last = error,
                outcome => return outcome,
            }
        }
        Err(last)
    }

    /// Whether sockets in the folder are this user's own.
    pub fn is_private(folder: &Path) -> bool {
        private_folder::find(folder).is_ok()
    }

    /// Whether a socket without a listener is at the path.
    pub fn is_stale(path: &Path) -> bool {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        is_socket && Socket::is_dead(path)
    }

    /// Binds so that, from the first moment on, only this user can connect.
    pub fn bind_private(path: &Path) -> io::Result<Listener> {
        static MASK: Mutex<()> = Mutex::new(()); // the mask belongs to the whole process
        let _alone = lock(&MASK);
        let before = umask(Mode::RWXG | Mode::RWXO);
        let bound = Listener::bind_path(path);
        umask(before);
        bound
    }

    /// The device and inode number of the file at a path.
    pub fn number_of(path: &Path) -> Option<(u64, u64)> {
        fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
    }

    /// A number for the network namespace of this process. 0 on systems without namespaces.
    pub fn namespace() -> u64 {
        fs::metadata("/proc/self/ns/net").map_or(0, |found| found.ino())
    }
}

#[cfg(windows)]
mod system {
    use crate::socket::{Listener, no_unix_sockets};
    use std::io;
    use std::path::{Path, PathBuf};

    pub fn folder() -> PathBuf {
        std::env::temp_dir().join("phalanx")
    }

    pub fn in_private_folder<T>(_: &Path, _: impl Fn() -> io::Result<T>) -> io::Result<T> {
        Err(no_unix_sockets())
    }

    pub fn is_private(_: &Path) -> bool {
        false
    }

    pub fn is_stale(_: &Path) -> bool {
        false
    }

    pub fn bind_private(_: &Path) -> io::Result<Listener> {
        Err(no_unix_sockets())
    }

    pub fn number_of(_: &Path) -> Option<(u64, u64)> {
        None
    }

    pub fn namespace() -> u64 {
        0
    }
}
