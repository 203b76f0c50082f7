//! Processes that are no longer there.

use super::request::{Receiving, Request};
use super::{Engine, Path};
use crate::error::Class;
use crate::process::transport::{Bell, Header, Kind};
use phalanx_core::spmd::Pattern;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The bits of a context that say what a message is for.
pub(super) const USES: u64 = 3;

/// Longest time to read on from a process that is said to be lost.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A process that nothing more comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The number of the process.
    pub peer: u32,
    /// It has said farewell.
    pub left: bool,
}

impl Engine {
    /// Lets it ring when frames begin to wait for room in a socket.
    pub fn set_bell(&mut self, bell: Arc<Bell>) {
        self.bell = Some(bell);
    }

    /// What is sent in a context is protected as marked data is.
    pub fn mark(&mut self, context: u64) {
        self.marked.insert(context);
    }

    /// Tells the others that this process leaves, after all that it has sent.
    pub fn bid_farewell(&mut self) {
        for peer in [self.shared.clone(), self.sockets.clone()].concat() {
            let header = Header { kind: Kind::Farewell as u16, ..Header::default() };
            self.tell(peer, header, [0; 2]);
        }
    }

    /// A process has left the program, as it should. Who still waits for it has made a mistake, and is to hear of it.
    pub fn part(&mut self, peer: u32) {
        if matches!(self.peers[peer as usize].path, Path::Gone) {
            return;
        }
        self.close(peer, Path::Gone);
        self.end_with(peer);
        self.ended.push(Ended { peer, left: true });
    }

    /// Frames that will never go.
    fn drop_waiting(&mut self, peer: u32) {
        let held_back = std::mem::take(&mut self.peers[peer as usize].held_back);
        held_back.into_iter().flatten().filter_map(|it| it.of).for_each(|id| self.fail(id, Class::ProcFailed));
        let waiting = std::mem::take(&mut self.peers[peer as usize].waiting);
        self.blocked -= usize::from(!waiting.is_empty());
        waiting.into_iter().filter_map(|it| it.of).for_each(|id| self.fail(id, Class::ProcFailed));
    }

    /// A connection has ended without a farewell.
    pub(super) fn end_connection(&mut self, peer: u32) {
        self.close(peer, Path::Ended);
        self.ended.push(Ended { peer, left: false });
    }

    fn close(&mut self, peer: u32, path: Path) {
        if let Path::Socket(link) = std::mem::replace(&mut self.peers[peer as usize].path, path) {
            link.shut_down(); // who sleeps on it keeps it open until then
            self.readable.iter().for_each(|readable| readable.forget(link.as_fd()));
        }
        self.sockets.retain(|other| *other != peer);
        self.shared.retain(|other| *other != peer);
        self.look_for_pending();
    }

    /// Whether a part of a frame waits for room in a socket: in none that is closed.
    pub(super) fn look_for_pending(&mut self) {
        self.pending = self.sockets.iter().any(|peer| match &self.peers[*peer as usize].path {
            Path::Socket(link) => link.is_pending(),
            _ => false,
        });
    }

    /// Gives up connections with machines that do not answer any more.
    pub fn look_for_cuts(&mut self, now: Instant) {
        let is_cut = |peer: &u32| match &mut self.peers[*peer as usize].path {
            Path::Socket(link) => link.is_cut(now),
            _ => false,
        };
        let cut: Vec<u32> = self.sockets.iter().copied().filter(is_cut).collect();
        cut.into_iter().for_each(|peer| self.end_connection(peer));
    }

    /// Processes that nothing more comes from, and of which nobody has said yet that they were lost.
    pub fn ended(&self) -> &[Ended] {
        &self.ended
    }

    /// A process will not be heard of again: what waits for it fails.
    pub fn lose(&mut self, peer: u32) {
        if peer == self.me || self.is_lost(peer) {
            return;
        }
        self.take_last_words(peer);
        self.close(peer, Path::Gone);
        self.ended.retain(|other| other.peer != peer);
        self.lost.push(peer);
        self.end_with(peer);
    }

    /// What it sent before it ended: the word of its end may have come sooner. It may also still be there and go on sending.
    fn take_last_words(&mut self, peer: u32) {
        while self.arrive(peer, u64::MAX) {}
        let begun = Instant::now();
        while matches!(self.peers[peer as usize].path, Path::Socket(_)) && self.read(peer) {
            if begun.elapsed() > LAST_WORDS {
                return;
            }
        }
    }

    /// What is under way with a process fails: nothing more goes to it or comes from it.
    fn end_with(&mut self, peer: u32) {
        self.completions += 1;
        self.peers[peer as usize].arriving = None;
        self.drop_waiting(peer);
        self.fail_messages(peer);
        let requests: Vec<usize> = self.requests.iter().map(|(id, _)| id).collect();
        for id in requests {
            match self.requests.get(id) {
                Some(Request::Send(sending)) if sending.to == peer && sending.left > 0 => {
                    self.fail(id, Class::ProcFailed);
                }
                Some(Request::Receive(it)) if !it.done && it.from.is_some_and(|(from, _)| from == peer) => {
                    self.fail_receive(id, Class::ProcFailed);
                }
                _ => {}
            }
        }
    }

    /// Messages of which not all came.
    fn fail_messages(&mut self, peer: u32) {
        let cut = self.messages.iter().filter(|(_, it)| it.from == peer && it.content.is_cut(it.length));
        let cut: Vec<(usize, u64)> = cut.map(|(id, it)| (id, it.context)).collect();
        for (id, context) in cut {
            // One that was taken out by a probe is received later: as nothing.
            if self.matching.withdraw(context, |message| *message == id).is_some() || self.messages[id].taken.is_some()
            {
                self.messages.remove(id);
            }
        }
    }

    /// Of a communicator with this context, the process with that rank is lost: receives of its messages fail, and those of
    /// anybody's are interrupted.
    pub fn lose_source(&mut self, context: u64, rank: i32) {
        if !self.lost_sources.insert((context, rank)) {
            return;
        }
        self.unacknowledged.insert(context);
        for of in 0..=USES {
            let failed = self.matching.fail(context | of, |source| source == Some(rank));
            failed.into_iter().for_each(|receive| self.fail_receive(receive, Class::ProcFailed));
        }
        self.completions += 1;
    }

    /// The program knows of all losses in a communicator: receives of anybody's messages go on without the lost ones.
    pub fn acknowledge(&mut self, context: u64) {
        self.unacknowledged.remove(&context);
    }

    /// Whether a receive from anybody has no message yet, and may wait for somebody who was lost.
    #[inline]
    pub(super) fn is_interrupted(&self, id: usize) -> bool {
        !self.unacknowledged.is_empty() && self.waits_for_anybody(id)
    }

    #[cold]
    fn waits_for_anybody(&self, id: usize) -> bool {
        let waits = |it: &Receiving| it.any_source && !it.done && it.from.is_none();
        match self.requests.get(id) {
            Some(Request::Receive(it)) => waits(it) && self.unacknowledged.contains(&(it.context & !USES)),
            _ => false,
        }
    }

    /// An interrupted receive does not go on.
    pub(super) fn give_up(&mut self, id: usize) {
        let Some(Request::Receive(it)) = self.requests.get(id) else { return };
        if self.matching.cancel(it.context, |receive| *receive == id).is_some() {
            self.fail_receive(id, Class::ProcFailed);
        }
    }

    /// Why nothing that this receive asks for can come any more, or, where it asks for anybody's, not from everybody.
    pub fn obstacle(&self, pattern: &Pattern) -> Option<Class> {
        let context = pattern.context & !USES;
        let is_lost = |source| self.lost_sources.contains(&(context, source));
        match pattern.source {
            _ if self.is_revoked(context) => Some(Class::Revoked),
            _ if self.lost_sources.is_empty() => None,
            Some(source) => is_lost(source).then_some(Class::ProcFailed),
            None => self.unacknowledged.contains(&context).then_some(Class::ProcFailedPending),
        }
    }

    pub(super) fn fail_receive(&mut self, id: usize, class: Class) {
        if let Some(Request::Receive(receiving)) = self.requests.get_mut(id) {
            receiving.status.error = Some(class);
            self.complete_receive(id);
        }
    }

    /// Whether this process was lost.
    pub fn is_lost(&self, peer: u32) -> bool {
        self.lost.contains(&peer)
    }

    /// Whether anybody was lost.
    #[inline]
    pub fn has_losses(&self) -> bool {
        !self.lost.is_empty()
    }

    /// All connections with other machines.
    pub fn connections(&self) -> Vec<Arc<OwnedFd>> {
        let of = |peer: &u32| match &self.peers[*peer as usize].path {
            Path::Socket(link) => Some(link.socket().clone()),
            _ => None,
        };
        self.sockets.iter().filter_map(of).collect()
    }

    /// Files that can be read when something has come over a socket, and whether something waits to be written to each.
    pub fn sockets(&self) -> impl Iterator<Item = (&Arc<OwnedFd>, bool)> {
        let of = |peer: &u32| {
            let peer = &self.peers[*peer as usize];
            let Path::Socket(link) = &peer.path else { return None };
            Some((link.socket(), link.is_pending() || !peer.waiting.is_empty()))
        };
        let all = self.sockets.iter().filter_map(of).filter(|(_, blocked)| self.readable.is_none() || *blocked);
        all.chain(self.readable.iter().map(|readable| (readable.file(), false)))
    }
}
