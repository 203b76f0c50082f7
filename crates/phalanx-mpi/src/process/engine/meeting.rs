//! Processes of other worlds: known by their numbers first, connected with later.

use super::{Engine, Path, Peer, watch};
use crate::process::transport::Link;

impl Engine {
    /// There are processes with numbers up to this one. Whether it has no connection with that yet.
    pub fn know(&mut self, process: u32) -> bool {
        let count = self.peers.len().max(process as usize + 1);
        self.peers.resize_with(count, || Peer::new(Path::Unmet));
        matches!(self.peers[process as usize].path, Path::Unmet)
    }

    /// A connection with a process is there: what waits goes.
    pub fn meet(&mut self, process: u32, link: Link) {
        if self.know(process) && !self.is_lost(process) {
            self.peers[process as usize].path = Path::Socket(Box::new(link));
            self.sockets.push(process);
            self.readable = watch(self.peers.iter().map(|peer| &peer.path));
            self.completions += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Class;
    use crate::process::engine::{Mode, Outgoing, Target};
    use phalanx_core::spmd::{Envelope, Pattern};
    use std::os::unix::net::UnixStream;

    const ENVELOPE: Envelope = Envelope { context: 64, source: 0, tag: 1 };

    fn links() -> (Link, Link) {
        let (one, other) = UnixStream::pair().expect("sockets can be made");
        [&one, &other].into_iter().for_each(|end| end.set_nonblocking(true).expect("is a socket"));
        (Link::clear(one.into()), Link::clear(other.into()))
    }

    /// Process 0, which knows of process 2, and has sent it something that waits.
    fn sender() -> (Engine, usize) {
        let mut sender = Engine::new(0, vec![Path::Own], None);
        assert!(sender.know(2) && sender.know(1));
        let sent = sender.send(2, ENVELOPE, Outgoing::Owned(vec![7; 3]), Mode::Standard);
        assert!(sender.is_blocked() && !sender.progress());
        (sender, sent.expect("there is no connection yet"))
    }

    #[test]
    fn what_is_sent_goes_when_there_is_a_connection() {
        let (mut sender, sent) = sender();
        let mut receiver = Engine::new(2, vec![Path::Unmet, Path::Unmet, Path::Own], None);
        let (here, there) = links();
        sender.meet(2, here);
        receiver.meet(0, there);
        sender.progress();
        assert_eq!(sender.outcome(sent).expect("it is gone").error, None);
        let mut bytes = [0; 3];
        let pattern = Pattern { context: 64, source: Some(0), tag: Some(1) };
        let receive = receiver.receive(pattern, Target::Plain(bytes.as_mut_ptr(), bytes.len()));
        receiver.progress();
        assert_eq!(receiver.outcome(receive).map(|status| (status.bytes, status.error)), Some((3, None)));
        assert_eq!(bytes, [7; 3]);
        assert!(!sender.know(2) && !sender.is_blocked());
    }

    #[test]
    fn what_waits_for_who_left_fails_and_a_late_connection_is_none() {
        let (mut sender, sent) = sender();
        sender.part(2);
        assert_eq!(sender.outcome(sent).expect("it failed").error, Some(Class::ProcFailed));
        sender.meet(2, links().0);
        assert!(!sender.is_blocked() && sender.sockets().next().is_none());
    }
}
