//! Which of many sockets have something to read. Linux tells by one call; elsewhere each is asked.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Sockets up to which asking each is as cheap.
#[cfg(target_os = "linux")]
const FEW: usize = 4;

/// Watches the sockets of a process.
#[derive(Debug)]
pub struct Readable {
    epoll: Arc<OwnedFd>,
}

#[cfg(target_os = "linux")]
impl Readable {
    /// For these sockets, each with a number. None where they are few, or the system has no room for it.
    pub fn of(sockets: &[(u32, BorrowedFd<'_>)]) -> Option<Readable> {
        use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create};
        if sockets.len() <= FEW {
            return None;
        }
        let epoll = create(CreateFlags::CLOEXEC).ok()?;
        let add = |(number, socket): &(u32, BorrowedFd<'_>)| {
            add(&epoll, socket, EventData::new_u64(u64::from(*number)), EventFlags::IN).ok()
        };
        sockets.iter().map(add).collect::<Option<Vec<()>>>()?;
        Some(Readable { epoll: Arc::new(epoll) })
    }

    /// The numbers of some of those that can be read now.
    pub fn look(&self) -> impl Iterator<Item = u32> + use<> {
        use rustix::event::{Timespec, epoll};
        let mut events = Vec::with_capacity(16);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now));
        events.into_iter().map(|event| event.data.u64() as u32)
    }

    /// Nothing comes from this socket any more.
    pub fn forget(&self, socket: BorrowedFd<'_>) {
        let _ = rustix::event::epoll::delete(&self.epoll, socket);
    }
}

#[cfg(not(target_os = "linux"))]
impl Readable {
    /// None: each is asked.
    pub fn of(_: &[(u32, BorrowedFd<'_>)]) -> Option<Readable> {
        None
    }

    /// Never called.
    pub fn look(&self) -> impl Iterator<Item = u32> + use<> {
        std::iter::empty()
    }

    /// Never called.
    pub fn forget(&self, _: BorrowedFd<'_>) {}
}

impl Readable {
    /// Can be read while one of the sockets can.
    pub fn file(&self) -> &Arc<OwnedFd> {
        &self.epoll
    }
}
