//! Revoked communicators (ULFM, MPIX_Comm_revoke): nothing goes or comes in their contexts any more.

use super::arriving::Into;
use super::losing::USES;
use super::request::Request;
use super::{Engine, Path};
use crate::error::Class;
use crate::process::transport::Kind;

impl Engine {
    /// Whether a context is that of a revoked communicator.
    #[inline]
    pub fn is_revoked(&self, context: u64) -> bool {
        !self.revoked.is_empty() && self.revoked.contains(&(context & !USES))
    }

    /// Everything that is under way in a communicator fails, and everything that is begun later.
    pub fn revoke(&mut self, context: u64) {
        if !self.revoked.insert(context) {
            return;
        }
        self.completions += 1;
        for of in 0..=USES {
            let (_, messages) = self.matching.forget(context | of); // its receives are found below
            messages.into_iter().for_each(|message| self.drop_message(message));
        }
        let taken = self.messages.iter().filter(|(_, it)| it.context & !USES == context && it.taken.is_some());
        let taken: Vec<usize> = taken.map(|(id, _)| id).collect();
        taken.into_iter().for_each(|message| self.drop_message(message));
        self.release_held_back(context);
        let begun = self.stop_frames(context);
        let requests: Vec<usize> = self.requests.iter().map(|(id, _)| id).collect();
        for id in requests.into_iter().filter(|id| !begun.contains(id)) {
            match &self.requests[id] {
                Request::Send(it) if it.context & !USES == context && it.left > 0 => self.revoke_send(id),
                Request::Receive(it) if it.context & !USES == context && !it.done => {
                    self.leave_memory(id);
                    self.fail_receive(id, Class::Revoked);
                }
                _ => {}
            }
        }
    }

    /// Nobody will receive a message.
    pub(super) fn drop_message(&mut self, message: usize) {
        self.redirect(|into| matches!(into, Into::Message(its) if *its == message));
        let message = self.messages.remove(message);
        if message.taken.is_none() {
            self.release(&message); // that of a receive is released already
        }
    }

    /// The memory of a receive is lent no longer.
    pub(super) fn leave_memory(&mut self, receive: usize) {
        for peer in 0..self.peers.len() as u32 {
            let arriving = self.peers[peer as usize].arriving.as_ref();
            if !arriving.is_some_and(|it| matches!(it.into, Into::Receive(its) if its == receive)) {
                continue;
            }
            let place = self.place(peer);
            if let (Some(place), Path::Socket(link)) = (&place, &mut self.peers[peer as usize].path) {
                link.leave_place(place);
            }
        }
        self.redirect(|into| matches!(into, Into::Receive(its) if *its == receive));
    }

    /// What still arrives goes nowhere.
    fn redirect(&mut self, is_it: impl Fn(&Into) -> bool) {
        for arriving in self.peers.iter_mut().filter_map(|peer| peer.arriving.as_mut()) {
            if is_it(&arriving.into) {
                arriving.into = Into::Nowhere;
            }
        }
    }

    /// Sends of which nothing has gone out end with their frames. What has begun to go out goes on, since the other end waits
    /// for the rest of the frame: the sends of that, at most one for each peer.
    fn stop_frames(&mut self, context: u64) -> Vec<usize> {
        let (mut stopped, mut begun) = (Vec::new(), Vec::new());
        for (to, peer) in (0..).zip(&mut self.peers) {
            let was_blocked = !peer.waiting.is_empty();
            peer.waiting.retain(|it| match it.of.filter(|_| it.header.context & !USES == context) {
                Some(send) if it.sent.is_none() => {
                    let is_eager = it.header.kind == Kind::Eager as u16;
                    stopped.push((to, send, is_eager.then_some(it.header.length as usize)));
                    false
                }
                of => {
                    begun.extend(of);
                    true
                }
            });
            self.blocked -= usize::from(was_blocked && peer.waiting.is_empty());
        }
        for (to, send, eager) in stopped {
            self.fail(send, Class::Revoked);
            eager.into_iter().for_each(|length| self.take_back(to, length));
        }
        for send in &begun {
            if let Some(Request::Send(sending)) = self.requests.get_mut(*send) {
                (sending.error, sending.left) = (Some(Class::Revoked), 1);
                (sending.awaits_match, sending.asked_back) = (false, false);
            }
        }
        begun
    }

    fn revoke_send(&mut self, id: usize) {
        let Some(Request::Send(sending)) = self.requests.get_mut(id) else { return };
        let to = sending.to;
        // Who may read this process's memory says first that it does not.
        if sending.data.is_some() && matches!(self.peers[to as usize].path, Path::Shared { .. }) {
            sending.error = Some(Class::Revoked);
            return self.ask_back(id);
        }
        self.fail(id, Class::Revoked);
    }
}
