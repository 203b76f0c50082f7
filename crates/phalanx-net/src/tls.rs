//! TLS 1.3 through rustls' unbuffered API: frames are sealed from where they lie into one buffer, and opened in
//! place where they arrived.

use crate::socket::Timed;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use std::io::{self, Read, Write};

/// Plaintext of a full record, in bytes (RFC 8446, section 5.1).
const RECORD_PLAINTEXT: usize = 16 * 1024;
/// Header, content type and tag around a record's plaintext, in bytes (the same for every TLS 1.3 suite).
const RECORD_OVERHEAD: usize = 5 + 1 + 16;
/// Longest record on the wire, in bytes (RFC 8446, section 5.2).
const RECORD_WIRE: usize = 5 + RECORD_PLAINTEXT + 256;
/// What a handshake may send before it must be complete, in bytes; rustls itself stops one message at 64 KiB.
const HANDSHAKE_LIMIT: usize = 256 * 1024;

/// Either side of a connection; rustls has no common name for what both can do.
pub enum Connection {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Connection::Client(_) => "Client",
            Connection::Server(_) => "Server",
        })
    }
}

/// Runs `$body` with the state that processing `$incoming` leads to; the two sides' states are two types.
macro_rules! with_state {
    ($connection:expr, $incoming:expr, |$discard:ident, $state:ident| $body:expr) => {
        match $connection {
            Connection::Client(connection) => {
                let UnbufferedStatus { discard: $discard, state: $state, .. } =
                    connection.process_tls_records($incoming);
                $body
            }
            Connection::Server(connection) => {
                let UnbufferedStatus { discard: $discard, state: $state, .. } =
                    connection.process_tls_records($incoming);
                $body
            }
        }
    };
}

impl Connection {
    fn is_handshaking(&self) -> bool {
        match self {
            Connection::Client(connection) => connection.is_handshaking(),
            Connection::Server(connection) => connection.is_handshaking(),
        }
    }

    fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        match self {
            Connection::Client(connection) => connection.peer_certificates(),
            Connection::Server(connection) => connection.peer_certificates(),
        }
    }
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct Channel {
    connection: Connection,
    /// Small pieces gathered into full records; holds at most one record, empty between calls.
    gathered: Vec<u8>,
}

/// What the handshake read beyond itself. Feed both to the reader before the socket, in this order.
#[derive(Debug, Default)]
pub struct Early {
    /// Application bytes already decrypted.
    pub plaintext: Vec<u8>,
    /// Records, the last perhaps incomplete, not yet decrypted: the start of the receive buffer.
    pub incoming: Vec<u8>,
}

impl Channel {
    /// Drives the handshake to its end over a blocking socket, until its deadline.
    ///
    /// On an error the peer is told by an alert, best effort. Note that a TLS 1.3 client is done before the server
    /// has judged its certificate: a refusal arrives with the client's first `open`.
    pub fn handshake(mut connection: Connection, socket: &mut Timed<'_>) -> io::Result<(Self, Early)> {
        let mut early = Early::default();
        let outcome = drive_handshake(&mut connection, socket, &mut early);
        if let Err(error) = outcome {
            send_alert(&mut connection, socket, &mut early.incoming);
            return Err(error);
        }
        let gathered = Vec::with_capacity(RECORD_PLAINTEXT);
        Ok((Channel { connection, gathered }, early))
    }

    /// The certificate the peer proved to own.
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.connection.peer_certificates()?.first()
    }

    /// Encrypts the concatenation of `plaintext` into records at the beginning of `out`, which grows where needed and
    /// never shrinks; how many bytes they have.
    ///
    /// Long slices are encrypted where they lie, in full records; only what does not fill a record is gathered.
    pub fn seal(&mut self, plaintext: &[&[u8]], out: &mut Vec<u8>) -> io::Result<usize> {
        let total: usize = plaintext.iter().map(|piece| piece.len()).sum();
        let mut sealer = Sealer::new(&mut self.connection, out, total);
        for mut piece in plaintext.iter().copied() {
            if !self.gathered.is_empty() || piece.len() < RECORD_PLAINTEXT {
                let taken = piece.len().min(RECORD_PLAINTEXT - self.gathered.len());
                self.gathered.extend_from_slice(&piece[..taken]);
                piece = &piece[taken..];
            }
            if self.gathered.len() == RECORD_PLAINTEXT {
                sealer.encrypt(&self.gathered)?;
                self.gathered.clear();
            }
            let (records, rest) = piece.split_at(piece.len() - piece.len() % RECORD_PLAINTEXT);
            sealer.encrypt(records)?;
            self.gathered.extend_from_slice(rest);
        }
        sealer.encrypt(&self.gathered)?;
        let filled = sealer.filled;
        self.gathered.clear();
        Ok(filled)
    }

    /// Decrypts, in place, every complete record in `incoming` and gives its plaintext to `on_plaintext`, in order.
    ///
    /// Returns the bytes consumed: keep the rest (less than one record) at the start of the next `incoming`.
    /// Errors: `UnexpectedEof` when the peer closed the connection properly, `InvalidData` when anything was altered.
    pub fn open(&mut self, incoming: &mut [u8], mut on_plaintext: impl FnMut(&[u8])) -> io::Result<usize> {
        let mut consumed = 0;
        loop {
            let (discard, blocked) = with_state!(&mut self.connection, &mut incoming[consumed..], |discard, state| {
                let mut discard = discard;
                match state.map_err(invalid)? {
                    ConnectionState::ReadTraffic(mut traffic) => {
                        while let Some(record) = traffic.next_record() {
                            let record = record.map_err(invalid)?;
                            discard += record.discard;
                            on_plaintext(record.payload);
                        }
                        (discard, false)
                    }
                    ConnectionState::PeerClosed | ConnectionState::Closed => {
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "peer closed the connection"));
                    }
                    // Answers (to a key update) leave with the next `seal`; rustls keeps them until then.
                    ConnectionState::WriteTraffic(_) => (discard, true),
                    _ => return Err(invalid("unexpected state after the handshake")),
                }
            });
            consumed += discard;
            if blocked {
                return check_rest(&incoming[consumed..]).map(|()| consumed);
            }
        }
    }
}

/// Refuses a handshake message split over records after the handshake: rustls would keep offsets into `incoming`,
/// which `seal` (it has no `incoming` at hand) would violate. Our peers send only key updates, 5 bytes each.
fn check_rest(rest: &[u8]) -> io::Result<()> {
    match rest {
        [_, _, _, high, low, body @ ..] if body.len() >= usize::from(u16::from_be_bytes([*high, *low])) => {
            Err(invalid("peer splits a handshake message"))
        }
        _ => Ok(()),
    }
}

/// Encrypts into a buffer, one piece behind the other.
struct Sealer<'a> {
    connection: &'a mut Connection,
    out: &'a mut Vec<u8>,
    filled: usize,
}

impl<'a> Sealer<'a> {
    fn new(connection: &'a mut Connection, out: &'a mut Vec<u8>, plaintext: usize) -> Self {
        let needed = plaintext + plaintext.div_ceil(RECORD_PLAINTEXT) * RECORD_OVERHEAD;
        if out.len() < needed {
            out.resize(needed, 0); // once: zeroing it for every frame would cost as much as a copy
        }
        Sealer { connection, out, filled: 0 }
    }

    /// Encrypts `plaintext` in records of `RECORD_PLAINTEXT` bytes, the last perhaps shorter.
    fn encrypt(&mut self, plaintext: &[u8]) -> io::Result<()> {
        if plaintext.is_empty() {
            return Ok(());
        }
        with_state!(&mut *self.connection, &mut [], |_discard, state| {
            let ConnectionState::WriteTraffic(mut traffic) = state.map_err(invalid)? else {
                return Err(invalid("connection is closed or has unread plaintext"));
            };
            loop {
                match traffic.encrypt(plaintext, &mut self.out[self.filled..]) {
                    Ok(written) => {
                        self.filled += written;
                        return Ok(());
                    }
                    // A key update goes before these records.
                    Err(EncryptError::InsufficientSize(size)) => self.out.resize(self.filled + size.required_size, 0),
                    Err(error) => return Err(invalid(error)),
                }
            }
        })
    }
}

/// Runs the handshake; on success `early` holds whatever arrived after the peer's last handshake message.
fn drive_handshake(connection: &mut Connection, socket: &mut Timed<'_>, early: &mut Early) -> io::Result<()> {
    let mut outgoing = Vec::new();
    loop {
        let mut wants_read = false;
        let mut finished = false;
        let Early { plaintext, incoming } = early;
        let (discard, outcome) = with_state!(&mut *connection, incoming, |discard, state| {
            let mut discard = discard;
            let outcome = state.map(|state| match state {
                ConnectionState::EncodeTlsData(mut encoding) => encode(&mut outgoing, |space| encoding.encode(space)),
                ConnectionState::TransmitTlsData(transmit) => {
                    socket.write_all(&outgoing)?;
                    outgoing.clear();
                    transmit.done();
                    Ok(())
                }
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(invalid)?;
                        discard += record.discard;
                        plaintext.extend_from_slice(record.payload);
                    }
                    Ok(())
                }
                ConnectionState::BlockedHandshake => {
                    wants_read = true;
                    Ok(())
                }
                ConnectionState::WriteTraffic(_) => {
                    finished = true;
                    Ok(())
                }
                _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "peer closed the connection in the handshake")),
            });
            (discard, outcome)
        });
        early.incoming.drain(..discard);
        outcome.map_err(invalid)??;
        if finished && !connection.is_handshaking() {
            return check_rest(&early.incoming);
        }
        if wants_read || finished {
            receive(socket, &mut early.incoming)?;
        }
    }
}

/// Appends what one read gives to `incoming`.
fn receive(socket: &mut impl Read, incoming: &mut Vec<u8>) -> io::Result<()> {
    let filled = incoming.len();
    if filled > HANDSHAKE_LIMIT {
        return Err(invalid("handshake too long"));
    }
    incoming.resize(filled + RECORD_WIRE, 0);
    let read = socket.read(&mut incoming[filled..]);
    incoming.truncate(filled + *read.as_ref().unwrap_or(&0));
    match read {
        Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "peer hung up in the handshake")),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Appends one handshake record to `outgoing`.
fn encode(outgoing: &mut Vec<u8>, mut into: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>) -> io::Result<()> {
    let filled = outgoing.len();
    match into(&mut outgoing[filled..]) {
        Err(EncodeError::InsufficientSize(size)) => outgoing.resize(filled + size.required_size, 0),
        other => return other.map(|_| ()).map_err(invalid),
    }
    into(&mut outgoing[filled..]).map(|_| ()).map_err(invalid)
}

/// Sends the alert that explains a failed handshake, if there is one.
fn send_alert(connection: &mut Connection, socket: &mut Timed<'_>, incoming: &mut [u8]) {
    let mut alert = Vec::new();
    let mut more = true;
    while more {
        more = with_state!(&mut *connection, incoming, |_discard, state| match state {
            Ok(ConnectionState::EncodeTlsData(mut encoding)) => {
                encode(&mut alert, |space| encoding.encode(space)).is_ok()
            }
            _ => false,
        });
    }
    let _ = socket.write_all(&alert);
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
