//! Data for which both ends know their buffers beforehand. It is not matched with a receive, and neither end copies it. The receiver
//! registers its buffer under a number and sends the number to the sender. The frame with the data names that number.

use super::request::Request;
use super::{Engine, Envelope, Outgoing, Path, Target, Waiting};
use crate::process::transport::{Header, Kind};
use phalanx_net::copy::copied;

impl Engine {
    /// Whether frames go to and come from another process.
    pub fn is_connected(&self, process: u32) -> bool {
        matches!(self.peers[process as usize].path, Path::Shared { .. } | Path::Socket(_))
    }

    /// Awaits `length` bytes from another process. None: it cannot be reached, or the context was revoked.
    pub fn await_data(&mut self, from: u32, context: u64, target: Target) -> Option<usize> {
        if !self.is_connected(from) || self.is_revoked(context) {
            return None;
        }
        let length = target.capacity() as u64;
        let id = self.insert_receive(context, false, target);
        self.begin_receive(id, from, &Envelope { context, source: 0, tag: 0 }, length);
        Some(id)
    }

    /// Awaits data no longer: its memory is not written from now on. Whether all of it has come.
    pub fn end_await(&mut self, id: usize) -> bool {
        let Some(Request::Receive(receiving)) = self.requests.get(id) else { return false };
        let has_come = receiving.done && receiving.status.error.is_none();
        if !receiving.done {
            self.leave_memory(id);
        }
        self.requests.remove(id);
        has_come
    }

    /// Sends data that a process awaits under this number. A borrowed buffer must stay valid until the receiver has acknowledged the
    /// data, or until [`Engine::keep_data`].
    pub fn send_awaited(&mut self, to: u32, context: u64, number: u64, data: Outgoing) {
        let length = data.length() as u64;
        let header = Header { kind: Kind::Data as u16, context, id: number, length, ..Header::default() };
        self.transmit(to, header, data, None);
    }

    /// Copies the part of borrowed data for a process that was not sent yet, so that the buffer may be reused. `number` selects one
    /// transfer; None selects all in this context.
    pub fn keep_data(&mut self, to: u32, context: u64, number: Option<u64>) {
        let is_it = |it: &&mut Waiting| {
            let of_number = number.is_none_or(|number| it.header.id == number);
            it.header.kind == Kind::Data as u16 && it.header.context == context && of_number
        };
        for it in self.peers[to as usize].waiting.iter_mut().filter(is_it) {
            if let (Outgoing::Borrowed(..), None) = (&it.data, it.of) {
                // SAFETY: it was lent until now.
                it.data = Outgoing::Owned(copied(unsafe { it.data.bytes() }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::process::engine::tests::{apart, engines};
    use crate::process::engine::{Engine, Outgoing, Target};
    use phalanx_core::level::{Level, Levels};

    const LENGTH: usize = 3 << 20;

    fn pairs() -> [Vec<Engine>; 3] {
        [engines(2), apart(2, Levels::all(Level::Clear)), apart(2, Levels::all(Level::Private))]
    }

    fn bytes() -> Vec<u8> {
        (0..LENGTH).map(|index| (index % 251) as u8).collect()
    }

    #[test]
    fn data_goes_to_the_memory_that_awaits_it() {
        for mut pair in pairs() {
            let (sent, mut got) = (bytes(), vec![0; LENGTH]);
            let [one, other] = &mut pair[..] else { unreachable!() };
            let number = other.await_data(0, 4, Target::Plain(got.as_mut_ptr(), LENGTH)).expect("connected");
            one.send_awaited(1, 4, number as u64, Outgoing::Borrowed(sent.as_ptr(), LENGTH));
            while other.peek(number).is_none() {
                one.progress();
                other.progress();
            }
            assert!(other.end_await(number));
            assert_eq!(got, sent);
        }
    }

    #[test]
    fn memory_that_is_lent_no_longer_is_neither_read_nor_written() {
        for mut pair in pairs() {
            let (mut sent, mut got) = (bytes(), vec![0; LENGTH]);
            let [one, other] = &mut pair[..] else { unreachable!() };
            let numbers: [_; 2] = std::array::from_fn(|_| {
                other.await_data(0, 4, Target::Plain(got.as_mut_ptr(), LENGTH)).expect("connected")
            });
            for number in numbers {
                one.send_awaited(1, 4, number as u64, Outgoing::Borrowed(sent.as_ptr(), LENGTH));
            }
            one.keep_data(1, 4, Some(numbers[0] as u64));
            one.keep_data(1, 4, None);
            sent.fill(255);
            other.progress();
            assert!(!other.end_await(numbers[0]), "a part of it has come at most");
            got.fill(0);
            while other.peek(numbers[1]).is_none() {
                one.progress();
                other.progress();
            }
            assert!(other.end_await(numbers[1]));
            assert_eq!(got, bytes());
        }
    }

    #[test]
    fn nothing_is_awaited_from_a_process_that_is_gone() {
        let mut pair = apart(2, Levels::all(Level::Clear));
        let mut got = [0; 8];
        let mut target = || Target::Plain(std::ptr::from_mut(&mut got).cast(), 8);
        let number = pair[0].await_data(1, 4, target()).expect("connected");
        pair[0].lose(1);
        assert!(!pair[0].end_await(number));
        assert_eq!(pair[0].await_data(1, 4, target()), None);
    }
}
