//! The handshake of a link: mutual TLS 1.3 by rustls, and the keys that result from it.
//!
//! TLS carries the handshake and one message after it, the server's greeting. What follows is protected by
//! [`crate::seal`] with secrets from the handshake's exporter (RFC 8446, section 7.5).

use crate::seal::{Context, SECRET};
use crate::socket::Timed;
use phalanx_core::level::{LevelSet, Levels, Mark};
use phalanx_core::wire::{PREFIX, decode, encode};
use rustls::pki_types::CertificateDer;
use rustls::{Connection, HandshakeKind};
use std::io::{self, Read, Write};

/// Content type, version and length before a record.
pub const RECORD_HEAD: usize = 5;
/// Longest record on the wire, in bytes (RFC 8446, section 5.2).
const RECORD: usize = RECORD_HEAD + 16 * 1024 + 256;
/// Limit in bytes on what a peer may send before the handshake is complete. rustls itself limits one message to 64 KiB.
const HANDSHAKE_LIMIT: usize = 256 * 1024;
const EXPORTED: &[u8] = b"EXPORTER-phalanx-link";
const GREETING: &[u8] = b"welcome";
/// Length in bytes of the server's message with the levels that it accepts, and of the client's message with its
/// choice.
const WORD: usize = 3;

/// The result of a handshake, as a link over the connection needs it.
#[derive(Debug)]
pub struct Shaken {
    pub levels: Levels,
    pub(crate) seal: Context,
    pub(crate) open: Context,
    /// At the client: the greeting that the server has still to send.
    pub(crate) greeting: Option<Greeting>,
    peer: CertificateDer<'static>,
    resumed: bool,
}

impl Shaken {
    /// Derives the keys for a link of these levels after a handshake, without a greeting. `said`: the bytes that both
    /// ends sent in the clear before.
    fn of(connection: &mut Connection, levels: Levels, said: &[u8]) -> io::Result<Shaken> {
        let mut exported = [0; 2 * SECRET];
        let context = [&Mark::ALL.map(|mark| levels.of(mark) as u8), said].concat();
        connection.export_keying_material(&mut exported, EXPORTED, Some(&context)).map_err(invalid)?;
        let (of_client, of_server) = exported.split_at(SECRET);
        let [of_client, of_server] =
            [of_client, of_server].map(|half| Context::new(half.try_into().expect("is a half")));
        let peer = connection.peer_certificates().and_then(|chain| chain.first());
        let peer = peer.ok_or_else(|| invalid("the peer has no certificate"))?.clone();
        let resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        let (seal, open) = match connection {
            Connection::Client(_) => (of_client, of_server),
            Connection::Server(_) => (of_server, of_client),
        };
        Ok(Shaken { levels, seal, open, greeting: None, peer, resumed })
    }

    /// The certificate whose key the peer has proved to hold.
    pub fn peer_certificate(&self) -> &CertificateDer<'static> {
        &self.peer
    }

    /// The contexts that seal and open blocks, for use without a link. Not after [`handshake`], because its client has
    /// still to hear that it was accepted.
    pub fn into_contexts(self) -> (Context, Context) {
        (self.seal, self.open)
    }

    /// Whether the session was resumed, so that no certificates and signatures were exchanged.
    pub fn was_resumed(&self) -> bool {
        self.resumed
    }
}

/// Completes the handshake for a link of these levels over a blocking socket, until its deadline. Reads no byte beyond
/// it.
///
/// On an error, the peer gets an alert, best effort. If the two ends assume different levels, they get different keys.
/// A TLS 1.3 client is done before the server has judged its certificate, so a refusal arrives in place of the
/// greeting.
pub fn handshake(mut connection: Connection, levels: Levels, socket: &mut Timed<'_>) -> io::Result<Shaken> {
    drive(&mut connection, socket)?;
    if let Connection::Server(_) = connection {
        connection.writer().write_all(GREETING)?;
        send(&mut connection, socket)?;
        return Shaken::of(&mut connection, levels, &[]);
    }
    let mut shaken = Shaken::of(&mut connection, levels, &[])?;
    shaken.greeting = Some(Greeting { connection, heard: 0 });
    Ok(shaken)
}

/// A server's handshake for a link whose client chooses the levels, for each mark, among those `offered`. Offer and
/// choice travel inside TLS, so an attacker on the wire can neither see nor change them. `said`: the bytes that both
/// ends sent in the clear before. If the two ends differ in these, they get different keys.
pub fn offer(
    mut connection: Connection,
    offered: [LevelSet; 3],
    said: &[u8],
    socket: &mut Timed<'_>,
) -> io::Result<Shaken> {
    drive(&mut connection, socket)?;
    connection.writer().write_all(&encode(&offered, 0)[PREFIX..])?;
    send(&mut connection, socket)?;
    let levels: Levels = decode(&hear(&mut connection, socket)?).map_err(invalid)?;
    match Mark::ALL.into_iter().find(|mark| !offered[*mark as usize].contains(levels.of(*mark))) {
        Some(mark) => Err(invalid(format!("the peer wants {}, which is not offered", levels.of(mark)))),
        None => Shaken::of(&mut connection, levels, said),
    }
}

/// The client's side of [`offer`]: `choose` decides, from the levels that the server accepts.
pub fn choose<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    mut connection: Connection,
    choose: impl FnOnce([LevelSet; 3]) -> Result<Levels, E>,
    said: &[u8],
    socket: &mut Timed<'_>,
) -> io::Result<Shaken> {
    drive(&mut connection, socket)?;
    let offered = decode(&hear(&mut connection, socket).map_err(refused)?).map_err(invalid)?;
    let levels = choose(offered).map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error))?;
    connection.writer().write_all(&encode(&levels, 0)[PREFIX..])?;
    send(&mut connection, socket)?;
    Shaken::of(&mut connection, levels, said)
}

/// A peer that hangs up after it has shown its certificate has refused this client.
fn refused(error: io::Error) -> io::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    match error.kind() {
        UnexpectedEof | ConnectionReset | BrokenPipe => {
            io::Error::new(ConnectionAborted, "the server refused (its own output says why)")
        }
        _ => error,
    }
}

/// The next message of the peer inside TLS.
fn hear(connection: &mut Connection, socket: &mut Timed<'_>) -> io::Result<[u8; WORD]> {
    let (mut word, mut heard) = ([0; WORD], 0);
    loop {
        match connection.reader().read(&mut word[heard..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => heard += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => take(connection, &receive(socket)?)?,
            Err(error) => return Err(error),
        }
        if heard == WORD {
            return Ok(word);
        }
    }
}

/// Whether a handshake failed because the peer does not speak TLS. Errors that TLS itself reports, such as a bad
/// certificate, do not count.
pub fn is_no_tls(error: &io::Error) -> bool {
    let said = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    error.kind() == io::ErrorKind::InvalidData
        && said.is_none_or(|error| matches!(error, rustls::Error::InvalidMessage(_)))
}

fn drive(connection: &mut Connection, socket: &mut Timed<'_>) -> io::Result<()> {
    let mut received = 0;
    loop {
        send(connection, socket)?;
        if !connection.is_handshaking() {
            return Ok(());
        }
        let record = receive(socket)?;
        received += record.len();
        if received > HANDSHAKE_LIMIT {
            return Err(invalid("handshake too long"));
        }
        if let Err(error) = take(connection, &record) {
            let _ = send(connection, socket); // the alert that explains it
            return Err(error);
        }
    }
}

fn send(connection: &mut Connection, socket: &mut Timed<'_>) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(socket)?;
    }
    Ok(())
}

/// Reads exactly one record, because what follows the handshake is not for TLS.
fn receive(socket: &mut Timed<'_>) -> io::Result<Vec<u8>> {
    let mut record = vec![0; RECORD_HEAD];
    let hung_up = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "peer hung up in the handshake"),
        _ => error,
    };
    socket.read_exact(&mut record).map_err(hung_up)?;
    let length = record_length(record[..].try_into().expect("has this length"))?;
    record.resize(length, 0);
    socket.read_exact(&mut record[RECORD_HEAD..]).map_err(hung_up)?;
    Ok(record)
}

/// The length of a whole record.
fn record_length(head: [u8; RECORD_HEAD]) -> io::Result<usize> {
    let length = RECORD_HEAD + usize::from(u16::from_be_bytes([head[3], head[4]]));
    if length > RECORD { Err(invalid("a record is too long")) } else { Ok(length) }
}

/// Passes a record to TLS.
fn take(connection: &mut Connection, mut record: &[u8]) -> io::Result<()> {
    while !record.is_empty() {
        if connection.read_tls(&mut record)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "peer closed the connection in the handshake"));
        }
        connection.process_new_packets().map_err(invalid)?;
    }
    Ok(())
}

/// The server's message that it accepts the client, the first thing that the client reads.
#[derive(Debug)]
pub struct Greeting {
    connection: Connection,
    heard: usize,
}

impl Greeting {
    /// Takes the record at the start of `bytes`. Returns its length, and whether the greeting is complete. `None`: the
    /// record is incomplete. Fails if the server refuses, or sends something else.
    pub fn hear(&mut self, bytes: &[u8]) -> io::Result<Option<(usize, bool)>> {
        let Some(head) = bytes.first_chunk() else { return Ok(None) };
        let length = record_length(*head)?;
        let Some(record) = bytes.get(..length) else { return Ok(None) };
        take(&mut self.connection, record)?;
        let mut word = [0; GREETING.len()];
        let heard = match self.connection.reader().read(&mut word[self.heard..]) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        if word[self.heard..][..heard] != GREETING[self.heard..][..heard] {
            return Err(invalid("the peer does not speak phalanx"));
        }
        self.heard += heard;
        Ok(Some((length, self.heard == GREETING.len())))
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
