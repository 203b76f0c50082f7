//! One end of a transfer, which sends or receives: its control link and the threads that move the bytes.

use super::common::{Common, TOLD};
use super::receiver::Receiver;
use super::sender::Sender;
use crate::control::Pulse;
use crate::transfer::disk::sink::Sink;
use crate::transfer::disk::source::Source;
use crate::transfer::system;
use phalanx_core::wire::transfer::{Compress, Message, Share};
use phalanx_net::frames::Frame;
use phalanx_net::link::{Link, Reader};
use phalanx_net::socket::Socket;
use phalanx_net::stream::{Incoming, Outgoing, Protection};
use phalanx_net::tls::Shaken;
use std::io;
use std::sync::Arc;
use std::thread::{self, Scope};
use std::time::Duration;

/// Stack size of a thread that moves bytes.
const STACK: usize = 512 << 10;
/// A stream whose peer is silent for this long is given up. The other streams continue. It is longer than for the control
/// link, because a receiving end with a slow disk reads nothing meanwhile, which the system counts as silence.
const SILENCE: Duration = Duration::from_secs(60);

/// Lets all threads return when the thread of the control link returns or panics. Otherwise the scope would wait for ever.
struct Ending<'a>(&'a End);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

pub enum End {
    Sending(Box<Sender>),
    Receiving(Box<Receiver>),
}

impl End {
    /// `limit`: bytes per second; 0: no limit.
    pub fn sending(common: Arc<Common>, source: Source, limit: u64, compress: Compress) -> io::Result<End> {
        Ok(End::Sending(Box::new(Sender::new(common, source, limit, compress)?)))
    }

    /// `share`: the share of the copy that this end receives; `None`: all of it.
    pub fn receiving(common: Arc<Common>, sink: Sink, share: Option<Share>) -> io::Result<End> {
        Ok(End::Receiving(Box::new(Receiver::new(common, sink, share)?)))
    }

    pub fn common(&self) -> &Common {
        match self {
            End::Sending(sender) => &sender.common,
            End::Receiving(receiver) => &receiver.common,
        }
    }

    /// Adds a stream over a connection, after its handshake.
    pub fn add(&self, number: u32, socket: Socket, shaken: Option<Shaken>, protection: Protection) -> io::Result<()> {
        socket.end_when_silent(SILENCE)?;
        socket.give_way();
        match self {
            End::Sending(sender) => {
                socket.bear_losses();
                socket.stay_near();
                if sender.may_compress {
                    socket.keep_unsent_short();
                }
                sender.streams.add(number, Outgoing::new(socket, shaken, protection)?)
            }
            End::Receiving(receiver) => receiver.streams.add(number, Incoming::new(socket, shaken, protection)?),
        }
    }

    /// The number of streams.
    pub fn streams(&self) -> usize {
        match self {
            End::Sending(sender) => sender.streams.count(),
            End::Receiving(receiver) => receiver.streams.count(),
        }
    }

    /// Bytes that crossed streams, as far as this end knows.
    pub fn crossed(&self) -> u64 {
        match self {
            End::Sending(sender) => sender.crossed(),
            End::Receiving(receiver) => receiver.crossed(),
        }
    }

    /// Bytes that have arrived, the bytes that are known so far, and whether more may become known.
    pub fn progress(&self) -> (u64, u64, bool) {
        match self {
            End::Sending(sender) => sender.progress(),
            End::Receiving(receiver) => receiver.progress(),
        }
    }

    /// Whether all bytes have arrived and the transfer waits only for this end's disk.
    pub fn is_ending(&self) -> bool {
        match self {
            End::Sending(_) => false,
            End::Receiving(receiver) => receiver.is_ending(),
        }
    }

    /// Serves the transfer until it is done or cut. `heard`: frames that have been read already. `on_pause` is called often,
    /// and may start threads.
    pub fn run<'env>(
        &'env self,
        reader: Reader,
        heard: Vec<Frame>,
        threads: u16,
        mut on_pause: impl for<'scope> FnMut(&'scope Scope<'scope, 'env>, &Link),
    ) -> io::Result<()> {
        thread::scope(|scope| {
            let _ending = Ending(self);
            on_pause(scope, &self.common().link); // first, because the handshakes of streams take longest
            let started = self.start(scope, threads);
            if started.is_ok() {
                let mut pulse = Pulse::new();
                let on_frame = |frame: Frame| {
                    if let Err(why) = self.on_frame(&frame) {
                        self.common().give_up(format!("the other end broke the protocol: {why}"));
                    }
                };
                heard.into_iter().for_each(on_frame);
                reader.run(TOLD, on_frame, |link| {
                    pulse.pause(link, &Message::Beat);
                    if let End::Receiving(receiver) = self {
                        receiver.pause();
                    }
                    on_pause(scope, link);
                });
            }
            started
        })?;
        if let (End::Receiving(receiver), None) = (self, self.common().totals()) {
            receiver.keep_all();
        }
        Ok(())
    }

    fn start<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>, threads: u16) -> io::Result<()> {
        let named = |name: &str| thread::Builder::new().name(format!("phalanx-{name}")).stack_size(STACK);
        let threads = usize::from(threads.max(1));
        for _ in 0..threads {
            named("stream").spawn_scoped(scope, move || {
                system::give_way();
                match self {
                    End::Sending(sender) => sender.serve(threads),
                    End::Receiving(receiver) => receiver.serve(threads),
                }
            })?;
        }
        named("versions").spawn_scoped(scope, move || {
            system::give_way();
            match self {
                End::Sending(sender) => sender.tell_all_chunks(),
                End::Receiving(receiver) => receiver.compare_all(),
            }
        })?;
        named("plan").spawn_scoped(scope, move || match self {
            End::Sending(sender) => sender.walk(),
            End::Receiving(receiver) => receiver.finish(),
        })?;
        Ok(())
    }

    fn on_frame(&self, frame: &Frame) -> Result<(), String> {
        match self {
            End::Sending(sender) => sender.on_frame(frame),
            End::Receiving(receiver) => receiver.on_frame(frame),
        }
    }

    fn end(&self) {
        match self {
            End::Sending(sender) => sender.end(),
            End::Receiving(receiver) => receiver.end(),
        }
        self.common().cut_all();
        self.common().link.close();
    }
}

/// The number of threads if the user does not choose: one more than cores (paper 003, section IV).
pub fn usual_threads() -> u16 {
    thread::available_parallelism().map_or(2, |cores| cores.get().min(63) as u16 + 1)
}
