//! Opens a space at several of its members at the same time, so that a member that does not answer delays nothing.

use super::connect::Connect;
use super::{Client, ClientError, Place, SpaceAddress};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// What came of an attempt to open the space at a member.
pub(super) type Answer = Result<Arc<Client>, ClientError>;

/// The members that are being asked. A thread asks each; it ends when the member has answered, or at the latest after the
/// patience of a connection. A connection that nobody waits for any more is closed.
pub(super) struct Seeking {
    name: String,
    connect: Connect,
    open: Vec<Place>,
    tell: Sender<(Place, Answer)>,
    answers: Receiver<(Place, Answer)>,
}

impl Seeking {
    /// Asks nobody yet.
    pub fn new(name: &str, connect: &Connect) -> Seeking {
        let (tell, answers) = channel();
        Seeking { name: name.to_owned(), connect: connect.clone(), open: Vec::new(), tell, answers }
    }

    /// Asks a member in a thread of its own, unless the member has not answered yet to the last time.
    pub fn ask(&mut self, place: Place) {
        if self.open.contains(&place) {
            return;
        }
        self.open.push(place.clone());
        let (name, connect, tell, at) = (self.name.clone(), self.connect.clone(), self.tell.clone(), place.clone());
        let ask = move || _ = tell.send((at.clone(), open(&at, &name, &connect)));
        if let Err(error) = thread::Builder::new().name("phalanx-seeking".into()).spawn(ask) {
            let error = ClientError::Unreachable(format!("{place}: no thread could be started: {error}"));
            let _ = self.tell.send((place, Err(error)));
        }
    }

    /// Asks a member, and waits for its answer, which is the next one.
    pub fn ask_here(&mut self, place: Place) {
        let answer = open(&place, &self.name, &self.connect);
        self.open.push(place.clone());
        let _ = self.tell.send((place, answer));
    }

    /// The next answer; `None` when there is none within `patience`, or nobody is asked.
    pub fn next(&mut self, patience: Duration) -> Option<Answer> {
        if self.open.is_empty() {
            return None;
        }
        match self.answers.recv_timeout(patience) {
            Ok((place, answer)) => {
                self.open.retain(|asked| *asked != place);
                Some(answer)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }
}

fn open(place: &Place, name: &str, connect: &Connect) -> Answer {
    let address = SpaceAddress { place: place.clone(), name: name.to_owned() };
    Client::reach(address, connect)?.open(connect.create.clone())
}
