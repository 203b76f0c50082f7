//! A site is where ranks run. It lets the launcher treat this machine and executors alike.

use super::hosts::Host;
use super::machine::Machine;
use super::saving::{Order, Saving};
use phalanx_core::wire::ranks::{ToRank, frame};
use phalanx_net::address::Address;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// One machine with its ranks.
pub enum Site {
    /// The saving thread is there if the program survives losses. It ends after the ranks.
    Here(Machine, Option<Saving>),
    There(Arc<Host>),
}

impl Site {
    /// The address, if this is an executor.
    pub fn address(&self) -> Option<&Address> {
        match self {
            Site::Here(..) => None,
            Site::There(host) => Some(&host.address),
        }
    }

    pub fn tell(&self, ranks: Vec<u32>, message: ToRank) {
        match self {
            Site::Here(machine, _) => machine.tell(ranks, frame(&message)),
            Site::There(host) => host.tell_ranks(ranks, message),
        }
    }

    /// Sends a process a message with a file descriptor. Only processes of this machine can get one.
    pub fn give(&self, rank: u32, message: &ToRank, file: OwnedFd) {
        if let Site::Here(machine, _) = self {
            machine.give(rank, frame(message), file);
        }
    }

    /// Asks for the ranks' files of a step.
    pub fn fetch(&self, step: u64) {
        match self {
            Site::Here(_, saving) => saving.iter().for_each(|saving| saving.order(Order::Fetch(step))),
            Site::There(host) => host.fetch(step),
        }
    }

    /// The ranks' files of older steps may be removed.
    pub fn release(&self, step: u64) {
        match self {
            Site::Here(_, saving) => saving.iter().for_each(|saving| saving.order(Order::Release(step))),
            Site::There(host) => host.release(step),
        }
    }

    pub fn signal(&self, number: i32) {
        match self {
            Site::Here(machine, _) => machine.signal(number),
            Site::There(host) => host.signal(number),
        }
    }
}
