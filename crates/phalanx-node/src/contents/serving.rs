//! The hub's end of a link for contents.

use super::{Incoming, Store};
use crate::control::{tell, tell_with};
use phalanx_core::wire::decode;
use phalanx_core::wire::jobs::{Digest, FromContent, MOST_BYTES, MOST_FILES, PIECE, ToContent};
use phalanx_net::frames::Frame;
use phalanx_net::link::{Link, Reader};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::{Duration, Instant};

/// Interval at which the hub checks whether the link should close.
const PAUSE: Duration = Duration::from_secs(1);
/// Idle timeout: the hub closes a link without requests for this long.
const IDLE: Duration = Duration::from_secs(120);
/// Most bytes of answers that wait for a peer. The hub closes the link of a peer that sends requests without reading answers.
const MOST_WAITING: usize = 16 << 20;

/// The rights of the peer to contents of a user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed {
    /// The peer may read contents whose digest it knows.
    pub reads: bool,
    /// The peer may send contents, and ask which ones the hub lacks.
    pub writes: bool,
}

/// Serves a link until it ends.
pub fn serve(
    link: &Link,
    reader: Reader,
    store: &Store,
    allowed: impl Fn(&str) -> Allowed,
    is_closed: impl Fn() -> bool,
) {
    let serving = RefCell::new(Serving { store, incoming: None, opened: None, heard: Instant::now() });
    let on_frame = |frame: Frame| {
        if link.waiting_bytes() > MOST_WAITING {
            return link.close();
        }
        let Ok(message) = decode::<ToContent>(&frame.header) else { return link.close() };
        let mut serving = serving.borrow_mut();
        serving.heard = Instant::now();
        match serving.answer(message, &frame.body, &allowed) {
            Ok((answer, body)) if body.is_empty() => tell(link, &answer),
            Ok((answer, body)) => tell_with(link, &answer, body),
            Err(error) => {
                serving.incoming = None;
                tell(link, &FromContent::Refused { reason: error.to_string() });
            }
        }
    };
    reader.run(PAUSE, on_frame, |link| {
        if is_closed() || serving.borrow().heard.elapsed() > IDLE {
            link.close();
        }
    });
}

struct Serving<'a> {
    store: &'a Store,
    incoming: Option<Incoming<'a>>,
    /// The content of the latest read, with its open file.
    opened: Option<(String, Digest, File)>,
    heard: Instant,
}

impl Serving<'_> {
    fn answer(
        &mut self,
        message: ToContent,
        body: &[u8],
        allowed: &impl Fn(&str) -> Allowed,
    ) -> io::Result<(FromContent, Vec<u8>)> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned());
        let check =
            |is_allowed: bool| is_allowed.then_some(()).ok_or_else(|| refused("these are another user's contents"));
        Ok(match message {
            ToContent::Lacking { user, digests } => {
                check(allowed(&user).writes && digests.len() <= MOST_FILES)?;
                let digests = digests.into_iter().filter(|it| !self.store.uses(&user, it)).collect();
                (FromContent::Lacking { digests }, Vec::new())
            }
            ToContent::Put { user, digest, bytes } => {
                check(allowed(&user).writes && bytes <= MOST_BYTES)?;
                self.incoming = None; // dropped before the next one begins, which may be the same content
                self.incoming = Some(self.store.begin(&user, digest, bytes)?);
                self.taken()
            }
            ToContent::Piece => {
                let incoming = self.incoming.as_mut().ok_or_else(|| refused("no content was begun"))?;
                incoming.write(body)?;
                self.taken()
            }
            ToContent::Get { user, digest, from } => {
                check(allowed(&user).reads)?;
                (FromContent::Piece, self.read(user, digest, from)?)
            }
        })
    }

    fn taken(&mut self) -> (FromContent, Vec<u8>) {
        let byte = self.incoming.as_ref().map_or(0, Incoming::at);
        if self.incoming.as_ref().is_some_and(Incoming::is_whole) {
            self.incoming = None;
        }
        (FromContent::From { byte }, Vec::new())
    }

    fn read(&mut self, user: String, digest: Digest, from: u64) -> io::Result<Vec<u8>> {
        let is_open = self.opened.as_ref().is_some_and(|(of, it, _)| *of == user && *it == digest);
        if !is_open {
            let gone = |_| io::Error::new(io::ErrorKind::NotFound, "the hub does not have this content any more");
            let file = self.store.read(&user, &digest).map_err(gone)?;
            self.opened = Some((user, digest, file));
        }
        let (.., file) = self.opened.as_mut().expect("was opened");
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::with_capacity(PIECE);
        Read::by_ref(file).take(PIECE as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
