//! Where ranks are: the launcher treats all machines alike.

use super::hosts::Host;
use super::machine::Machine;
use phalanx_core::wire::ranks::{ToRank, frame};

/// One machine's ranks.
pub enum Site {
    Here(Machine),
    There(Host),
}

impl Site {
    pub fn tell(&self, ranks: Vec<u32>, message: ToRank) {
        match self {
            Site::Here(machine) => machine.tell(ranks, frame(&message)),
            Site::There(host) => host.tell_ranks(ranks, message),
        }
    }

    pub fn signal(&self, number: i32) {
        match self {
            Site::Here(machine) => machine.signal(number),
            Site::There(host) => host.signal(number),
        }
    }
}
