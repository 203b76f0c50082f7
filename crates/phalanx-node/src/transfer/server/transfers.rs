//! All transfers that go on at an executor, and whose they are.

use crate::transfer::endpoint::end::End;
use crate::door::refused;
use phalanx_core::level::{Level, LevelSet};
use phalanx_core::wire::transfer::{Request, Totals};
use phalanx_net::stream::Protection;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Transfers at a time.
const MOST: usize = 64;
/// Of these, those of one user.
const SHARE: usize = 16;

pub type Token = [u8; 12];
pub type Ticket = [u8; 16];

/// All transfers that go on here, or are about to.
#[derive(Default)]
pub struct Going {
    pub waiting: HashMap<Token, Arc<Gathering>>,
    pub expected: HashMap<Ticket, Arc<Expected>>,
    /// For each copy to another executor its user.
    pub carrying: Vec<String>,
    /// Certificates of executors that are about to show a ticket.
    pub showing: Vec<Vec<u8>>,
}

impl Going {
    /// Whether there is room for one more of this user.
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

impl Going {
    /// One more executor is about to show a ticket, unless so many of its calls are.
    pub fn enter_showing(&mut self, certificate: &[u8]) -> io::Result<()> {
        if self.showing.iter().filter(|one| *one == certificate).count() >= SHARE {
            return Err(refused("too many calls of one executor that has not shown a ticket"));
        }
        self.showing.push(certificate.to_vec());
        Ok(())
    }

    /// It has, or is gone.
    pub fn leave_showing(&mut self, certificate: &[u8]) {
        if let Some(index) = self.showing.iter().position(|one| one == certificate) {
            self.showing.swap_remove(index);
        }
    }
}

/// A transfer whose streams come.
pub struct Gathering {
    pub from: IpAddr,
    pub user: String,
    /// The other end's, which streams must show too.
    pub certificate: Vec<u8>,
    pub protection: Protection,
    pub request: Request,
    pub end: End,
    pub since: Instant,
}

/// A copy that another executor is to begin here.
pub struct Expected {
    pub user: String,
    /// The other executor's.
    pub certificate: Vec<u8>,
    pub request: Request,
    /// Those that the user takes.
    pub levels: LevelSet,
    /// What the copy is called in a folder, whatever the other executor says.
    pub name: Vec<u8>,
    /// Its user is gone.
    pub gone: AtomicBool,
    /// It has ended.
    pub ended: AtomicBool,
    /// What came of it, where it came to its end.
    pub arrived: Mutex<Option<(Level, Totals)>>,
}
