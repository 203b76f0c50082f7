//! All transfers at an executor, and the limits per user.

use crate::door::refused;
use crate::transfer::endpoint::end::End;
use phalanx_core::level::{Level, LevelSet};
use phalanx_core::wire::transfer::{Request, Totals};
use phalanx_net::stream::Protection;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Most transfers at a time.
const MOST: usize = 64;
/// Most transfers of one user.
const SHARE: usize = 16;

pub type Token = [u8; 12];
pub type Ticket = [u8; 16];

/// All transfers here, also those that are about to begin.
#[derive(Default)]
pub struct Transfers {
    pub waiting: HashMap<Token, Arc<Gathering>>,
    pub expected: HashMap<Ticket, Arc<Expected>>,
    /// The user of each copy to another executor.
    pub carrying: Vec<String>,
    /// Certificates of executors that have called and not shown a ticket yet.
    pub showing: Vec<Vec<u8>>,
}

impl Transfers {
    /// An error if the user may not begin another transfer now.
    pub fn room(&self, user: &str) -> io::Result<()> {
        let gathering = self.waiting.values().map(|one| one.user.as_str());
        let expected = self.expected.values().map(|one| one.user.as_str());
        let users: Vec<_> = gathering.chain(expected).chain(self.carrying.iter().map(String::as_str)).collect();
        match () {
            () if users.len() >= MOST => Err(refused(format!("{MOST} copies go on here"))),
            () if users.iter().filter(|other| **other == user).count() >= SHARE => {
                Err(refused(format!("{SHARE} copies of {user} go on here, which is one user's share")))
            }
            () => Ok(()),
        }
    }
}

impl Transfers {
    /// Counts a call of an executor that is to show a ticket. An error if it has too many such calls.
    pub fn enter_showing(&mut self, certificate: &[u8]) -> io::Result<()> {
        if self.showing.iter().filter(|one| *one == certificate).count() >= SHARE {
            return Err(refused("too many calls of one executor that has not shown a ticket"));
        }
        self.showing.push(certificate.to_vec());
        Ok(())
    }

    /// The call has shown its ticket, or has ended.
    pub fn leave_showing(&mut self, certificate: &[u8]) {
        if let Some(index) = self.showing.iter().position(|one| one == certificate) {
            self.showing.swap_remove(index);
        }
    }
}

/// A transfer that streams can join.
pub struct Gathering {
    pub from: IpAddr,
    pub user: String,
    /// The certificate of the other end. Streams must show it too.
    pub certificate: Vec<u8>,
    pub protection: Protection,
    pub request: Request,
    pub end: End,
    pub since: Instant,
}

/// A copy that another executor is to begin here with a ticket.
pub struct Expected {
    pub user: String,
    /// The certificate of the other executor.
    pub certificate: Vec<u8>,
    pub request: Request,
    /// The levels that the user accepts.
    pub levels: LevelSet,
    /// The name of the copy in a folder, instead of the name that the other executor gives.
    pub name: Vec<u8>,
    /// Whether its user is gone.
    pub gone: AtomicBool,
    /// Whether it has ended.
    pub ended: AtomicBool,
    /// Its level and totals, if it was completed.
    pub arrived: Mutex<Option<(Level, Totals)>>,
}
