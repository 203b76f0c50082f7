//! A site is where ranks run. It lets the launcher treat this machine and executors alike.

use super::hosts::Host;
use super::machine::Machine;
use phalanx_core::wire::ranks::{ToRank, frame};
use phalanx_net::address::Address;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// One machine with its ranks.
pub enum Site {
    Here(Machine),
    There(Arc<Host>),
}

impl Site {
    /// The address, if this is an executor.
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

    /// Sends a process a message with a file descriptor. Only processes of this machine can get one.
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
