//! Where ranks are: the launcher treats all machines alike.

use super::hosts::Host;
use super::machine::Machine;
use phalanx_core::wire::ranks::{ToRank, frame};
use phalanx_net::address::Address;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// One machine's ranks.
pub enum Site {
    Here(Machine),
    There(Arc<Host>),
}

impl Site {
    /// Of an executor.
    pub fn address(&self) -> Option<&Address> {
        match self {
            Site::Here(_) => None,
            Site::There(host) => Some(&host.address),
        }
    }

    pub fn tell(&self, ranks: Vec<u32>, message: ToRank) {
        match self {
            Site::Here(machine) => machine.tell(ranks, frame(&message)),
            Site::There(host) => host.tell_ranks(ranks, message),
        }
    }

    /// A file goes to a process of this machine only.
    pub fn give(&self, rank: u32, message: &ToRank, file: OwnedFd) {
        if let Site::Here(machine) = self {
            machine.give(rank, frame(message), file);
        }
    }

    pub fn signal(&self, number: i32) {
        match self {
            Site::Here(machine) => machine.signal(number),
            Site::There(host) => host.signal(number),
        }
    }
}
