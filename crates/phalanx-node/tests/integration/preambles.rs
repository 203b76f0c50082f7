//! A connection for one service that somebody on the way turns into one for another.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::options;
use phalanx_core::level::{Level, Levels};
use phalanx_net::dial::dial;
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_net::preamble::Preamble;
use phalanx_net::socket::Socket;
use phalanx_net::tls::choose_ahead;
use phalanx_node::executor::{Executor, Options};
use phalanx_node::log::Log;
use phalanx_node::space::ServerOptions;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// The services of an executor that do the handshake themselves. A stream needs a copy (`transfer.rs`), a data link an
/// interpreter, and a member of a replicated space one that is kept here.
const SERVICES: [Preamble; 7] = [
    Preamble::Control,
    Preamble::Space { shakes: true },
    Preamble::Ranks,
    Preamble::Transfer,
    Preamble::Executor,
    Preamble::Files,
    Preamble::News,
];

/// The log says so many lines of a cause.
const LINES: usize = 5;

struct Lab {
    executor: Executor,
    user: Member,
    log: Receiver<String>,
}

impl Lab {
    fn new() -> Lab {
        let authority = Authority::create().unwrap();
        let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
        let options = Options { capacity: 2, spaces: Some(ServerOptions::default()), ..options() };
        let (sender, log) = channel();
        let log_to = Log::new(move |_, text| drop(sender.send(text.to_owned())));
        let executor = Executor::start("127.0.0.1:0", member(Role::Executor, "labpc"), options, log_to).unwrap();
        Lab { executor, user: member(Role::User, "ada"), log }
    }

    /// A client that `said` a preamble, which `arrives` as another.
    fn connect(&self, said: Preamble, arrives: Preamble) -> Socket {
        let mut socket = dial(&self.executor.address().into(), PATIENCE).unwrap().socket;
        let mut timed = socket.until(Instant::now() + PATIENCE);
        arrives.write(&mut timed).unwrap();
        let connection = self.user.client_of(Role::Executor).unwrap().connect().unwrap();
        choose_ahead(connection, Levels::all(Level::Private), &said.bound(), &mut timed).unwrap();
        socket
    }

    /// The next line that says that something was changed, or that a user is served.
    fn hear(&self) -> String {
        loop {
            let text = self.log.recv_timeout(PATIENCE).unwrap();
            if ["refused", "serving"].iter().any(|word| text.contains(word)) {
                return text;
            }
        }
    }
}

#[test]
fn a_changed_preamble_is_refused_by_every_service() {
    for arrives in SERVICES {
        let others: Vec<_> = SERVICES.into_iter().filter(|said| *said != arrives).collect();
        for some in others.chunks(LINES) {
            let lab = Lab::new();
            for said in some {
                let _socket = lab.connect(*said, arrives);
                let heard = lab.hear();
                assert!(heard.contains("which was changed on the way"), "{said:?} as {arrives:?}: {heard}");
            }
        }
    }
}
