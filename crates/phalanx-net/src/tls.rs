//! The handshake of a link: mutual TLS 1.3 by rustls, and the keys that result from it.
//!
//! TLS carries the handshake and one message from each end after it: the server's [`Offer`], with the levels that it accepts,
//! and the client's choice among them. A client that knows the levels already sends its choice without waiting for the offer
//! ([`choose_ahead`]), so the link is ready for it after one round trip. Other clients wait for the offer and decide then
//! ([`choose`]). What follows is protected by [`crate::seal`]. Its private blocks are the next records of the same connection, under the same
//! keys. Safe ones have keys from the handshake's exporter (RFC 8446, section 7.5).

use crate::connection::Connection;
use crate::identity::{Courier, News, Revocations, Teller, Until, Watch, is_delegated};
use crate::seal::{Context, HEAD, SECRET, Secrets};
use phalanx_core::level::{Level, LevelSet, Levels, Mark};
use phalanx_core::wire::{NewsDigest, PREFIX, decode, encode};
use ring::digest::{SHA256, digest};
use rustls::HandshakeKind;
use rustls::pki_types::CertificateDer;
use std::io::{self, Read, Write};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Longest record on the wire, in bytes (RFC 8446, section 5.2).
const LONGEST_RECORD: usize = HEAD + 16 * 1024 + 256;
/// Limit in bytes on what a peer may send before the handshake is complete. rustls itself limits one message to 64 KiB.
const HANDSHAKE_LIMIT: usize = 256 * 1024;
const EXPORTED: &[u8] = b"EXPORTER-phalanx-link";
/// Length in bytes of a level, or a set of levels, for each mark.
const WORD: usize = 3;
/// Length in bytes of an offer: the levels, and the digest of the server's news.
const OFFER: usize = WORD + NewsDigest::LENGTH;
/// Records that a client sends behind the handshake, and before its first block: its choice is in one.
const CHOICES: u64 = 1;
/// Bytes of a choice: the levels, and the digest of what the client sent in the clear.
const CHOICE: usize = WORD + 32;

/// The server's last message of a handshake.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// The levels that it accepts, for each mark.
    pub levels: [LevelSet; 3],
    /// The digest of its news of the grid.
    pub news: NewsDigest,
}

impl From<[LevelSet; 3]> for Offer {
    /// The offer of a server that takes no news.
    fn from(levels: [LevelSet; 3]) -> Offer {
        Offer { levels, news: NewsDigest::NONE }
    }
}

impl Offer {
    fn to_bytes(self) -> Vec<u8> {
        [&encode(&self.levels, 0)[PREFIX..], &self.news.to_bytes()].concat()
    }

    fn parse(bytes: &[u8; OFFER]) -> io::Result<Offer> {
        let (levels, news) = bytes.split_at(WORD);
        let news = NewsDigest::from_bytes(news.try_into().expect("has this length"));
        Ok(Offer { levels: decode(levels).map_err(invalid)?, news })
    }
}

/// The result of a handshake, as a link over the connection needs it.
#[derive(Debug)]
pub struct Shaken {
    /// The levels that both ends have agreed on.
    pub levels: Levels,
    pub(crate) seal: Context,
    pub(crate) open: Context,
    /// At a client that has chosen ahead: the offer that the server has still to send.
    pub(crate) awaited: Option<AwaitedOffer>,
    /// What the peer has shown. The first is its certificate.
    shown: Vec<CertificateDer<'static>>,
    resumed: bool,
    /// By which the link is closed when the peer's certificate is revoked.
    pub(crate) watch: Option<Watch>,
    /// The digest of the server's news. `None`: this end is a client that has still to hear the offer.
    news: Option<NewsDigest>,
    /// Whether this end is the client.
    pub(crate) is_client: bool,
}

impl Shaken {
    /// Derives the keys for a link of these levels after a handshake. `said`: the bytes that the client sent in the
    /// clear before. `sent`, `heard`: how many records went each way behind the handshake.
    fn of(connection: &mut Connection, levels: Levels, said: &[u8], sent: u64, heard: u64) -> io::Result<Shaken> {
        if connection.purpose().is_some() && levels != Levels::all(Level::Private) {
            return Err(invalid("a link for this purpose is private"));
        }
        let mut exported = Zeroizing::new([0; 2 * SECRET]);
        let context = [&Mark::ALL.map(|mark| levels.of(mark) as u8), said].concat();
        connection.export_keying_material(&mut exported[..], EXPORTED, Some(&context)).map_err(invalid)?;
        let (of_client, of_server) = exported.split_at(SECRET);
        let [client, server] = connection.traffic()?;
        let secrets = |traffic, exported: &[u8], number| {
            let exported = Zeroizing::new(exported.try_into().expect("is a half"));
            Context::new(Secrets { traffic, exported, number })
        };
        let (seal, open) = match connection.is_client() {
            true => (secrets(client, of_client, sent), secrets(server, of_server, heard)),
            false => (secrets(server, of_server, sent), secrets(client, of_client, heard)),
        };
        let shown = connection.peer_certificates().filter(|shown| !shown.is_empty());
        let shown = shown.ok_or_else(|| invalid("the peer has no certificate"))?.to_vec();
        let resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        let is_client = connection.is_client();
        Ok(Shaken { levels, seal, open, awaited: None, shown, resumed, watch: None, news: None, is_client })
    }

    /// The certificate whose key the peer has proved to hold.
    pub fn peer_certificate(&self) -> &CertificateDer<'static> {
        &self.shown[0]
    }

    /// Everything that the peer has shown in the handshake, for
    /// [`Member::acting`](crate::identity::Member::acting).
    pub fn shown(&self) -> &[CertificateDer<'static>] {
        &self.shown
    }

    /// Checks that the peer's certificate was not revoked, nor that of a user or an executor in a delegation, nor an issuer of one of
    /// them. A link over this connection ends when one is revoked later.
    pub fn heed(&mut self, revocations: &Arc<Revocations>) -> io::Result<()> {
        let certificates = self.shown.len() - usize::from(is_delegated(&self.shown)); // the last of a delegation is its text
        self.watch = revocations.admit(&self.shown[..certificates])?;
        Ok(())
    }

    /// Gives the digest of the server's news to this courier, which also looks for news while the link is open.
    pub(crate) fn send(&mut self, courier: Arc<dyn Courier>) {
        self.watch = self.watch.take().map(|watch| watch.sending(courier.clone()));
        match (self.news, &mut self.awaited) {
            (Some(news), _) => courier.heard(news),
            (None, Some(awaited)) => awaited.courier = Some(courier),
            (None, None) => {}
        }
    }

    /// At a server, for a process that acts for a user: a link over this connection ends when this time is over.
    pub fn end_after(&mut self, until: Until, revocations: &Arc<Revocations>) {
        self.watch = Some(self.watch.take().unwrap_or_else(|| Watch::new(revocations)).until(until));
    }

    /// At a client that acts for a user: the courier keeps the link open, also where no list of revoked certificates is kept.
    pub(crate) fn prolong(&mut self, courier: Arc<dyn Courier>, revocations: &Arc<Revocations>) {
        self.watch = Some(self.watch.take().unwrap_or_else(|| Watch::new(revocations)).sending(courier));
    }

    /// At a server, for a client that takes news: tells it over the open link when this member's news change.
    pub fn tell(&mut self, news: &News) {
        if let Some(told) = self.news {
            let teller = Arc::new(Teller::new(news.clone(), told));
            self.watch = self.watch.take().map(|watch| watch.sending(teller));
        }
    }

    /// Whether the client has [chosen ahead](choose_ahead), and the server has still to send its offer. Until it was heard,
    /// nothing else that has arrived may be used.
    pub fn awaits_offer(&self) -> bool {
        self.awaited.is_some()
    }

    /// Takes the record at the start of `bytes`, which is the awaited offer or comes before it, for a receiver other than a
    /// link's reader. Returns its length. `None`: it is incomplete.
    pub fn hear_offer(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let Some(awaited) = &mut self.awaited else { return Ok(None) };
        let Some((record, complete)) = awaited.hear(bytes)? else { return Ok(None) };
        if let Some(number) = complete {
            self.open.begin_at(number);
            self.awaited = None;
        }
        Ok(Some(record))
    }

    /// The contexts that seal and open blocks, for use without a link, once no offer [is awaited](Shaken::awaits_offer).
    pub fn into_contexts(self) -> (Context, Context) {
        (self.seal, self.open)
    }

    /// Whether the session was resumed, so that no certificates and signatures were exchanged.
    pub fn was_resumed(&self) -> bool {
        self.resumed
    }
}

/// A server's handshake for a link whose client chooses the levels, for each mark, among those `offered`. It waits for as
/// long as the socket does, and reads no byte beyond the handshake.
///
/// Offer and choice travel inside TLS, so an attacker on the wire can neither see nor change them. `said`: the bytes
/// that the client sent in the clear before. The choice carries their digest, so a connection for one service cannot be
/// turned into one for another, whatever the levels. If TLS fails, the peer gets an alert, best effort.
pub fn offer(
    mut connection: Connection,
    offer: impl Into<Offer>,
    said: &[u8],
    socket: &mut (impl Read + Write),
) -> io::Result<Shaken> {
    check_purpose(&connection, said)?;
    let mut offer = offer.into();
    if connection.purpose().is_some() {
        offer.news = NewsDigest::NONE; // the peer is no member
    }
    let tickets = drive(&mut connection, socket)?;
    connection.writer().write_all(&offer.to_bytes())?;
    let sent = tickets + send(&mut connection, socket)?;
    let (choice, heard): ([u8; CHOICE], u64) = hear(&mut connection, socket)?;
    let levels: Levels = decode(&choice[..WORD]).map_err(invalid)?;
    if let Some(level) = not_offered(levels, offer.levels) {
        return Err(invalid(format!("the peer wants {level}, which is not offered")));
    }
    if choice != choice_of(levels, said) {
        return Err(invalid("the peer began a connection for something else, which was changed on the way"));
    }
    Ok(Shaken { news: Some(offer.news), ..Shaken::of(&mut connection, levels, said, sent, heard)? })
}

/// Checks that what the client says in the clear is the purpose of the connection, if it has only one.
fn check_purpose(connection: &Connection, said: &[u8]) -> io::Result<()> {
    match connection.purpose() {
        Some(preamble) if preamble.bound() != said => Err(invalid("this connection is good for another purpose only")),
        _ => Ok(()),
    }
}

/// What a client that has said this in the clear sends inside TLS, to choose the levels.
fn choice_of(levels: Levels, said: &[u8]) -> [u8; CHOICE] {
    let mut choice = [0; CHOICE];
    choice[..WORD].copy_from_slice(&encode(&levels, 0)[PREFIX..]);
    choice[WORD..].copy_from_slice(digest(&SHA256, said).as_ref());
    choice
}

/// A level that is chosen but not offered.
fn not_offered(chosen: Levels, offered: [LevelSet; 3]) -> Option<Level> {
    let mut missing = Mark::ALL.into_iter().filter(|mark| !offered[*mark as usize].contains(chosen.of(*mark)));
    missing.next().map(|mark| chosen.of(mark))
}

fn check_offered(chosen: Levels, offered: [LevelSet; 3]) -> io::Result<()> {
    match not_offered(chosen, offered) {
        Some(level) => Err(invalid(format!("the peer does not offer {level}"))),
        None => Ok(()),
    }
}

/// The client's side of [`offer`] where the levels are known. The choice is sent with the end of the handshake.
///
/// A TLS 1.3 client is done before the server has judged its certificate. So the link's reader hears the offer, and a
/// refusal arrives in its place. An offer without these levels ends the link.
pub fn choose_ahead(
    mut connection: Connection,
    levels: Levels,
    said: &[u8],
    socket: &mut (impl Read + Write),
) -> io::Result<Shaken> {
    check_purpose(&connection, said)?;
    connection.writer().write_all(&choice_of(levels, said))?; // TLS keeps it until the server is authenticated
    drive(&mut connection, socket)?;
    let mut shaken = Shaken::of(&mut connection, levels, said, CHOICES, 0)?;
    shaken.awaited = Some(AwaitedOffer { connection, levels, bytes: [0; OFFER], heard: 0, records: 0, courier: None });
    Ok(shaken)
}

/// The client's side of [`offer`]: `choose` decides, from the levels that the server accepts.
pub fn choose<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    mut connection: Connection,
    choose: impl FnOnce([LevelSet; 3]) -> Result<Levels, E>,
    said: &[u8],
    socket: &mut (impl Read + Write),
) -> io::Result<Shaken> {
    check_purpose(&connection, said)?;
    drive(&mut connection, socket)?;
    let (offer, heard) = hear(&mut connection, socket).map_err(refused)?;
    let offer = Offer::parse(&offer)?;
    let levels = choose(offer.levels).map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error))?;
    check_offered(levels, offer.levels)?;
    connection.writer().write_all(&choice_of(levels, said))?;
    let sent = send(&mut connection, socket)?;
    if sent != CHOICES {
        return Err(invalid("the peer made this end say more than its choice"));
    }
    Ok(Shaken { news: Some(offer.news), ..Shaken::of(&mut connection, levels, said, sent, heard)? })
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

/// The next message of the peer inside TLS, and the number of records up to its end.
fn hear<const N: usize>(connection: &mut Connection, socket: &mut impl Read) -> io::Result<([u8; N], u64)> {
    let (mut word, mut heard, mut records) = ([0; N], 0, 0);
    loop {
        match connection.reader().read(&mut word[heard..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => heard += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let record = receive(socket)?;
                records += count(&record);
                take(connection, &record)?;
            }
            Err(error) => return Err(error),
        }
        if heard == N {
            check_end(connection)?;
            return Ok((word, records));
        }
    }
}

/// Checks that no byte follows a message in its record.
fn check_end(connection: &mut Connection) -> io::Result<()> {
    match connection.reader().read(&mut [0]) {
        Ok(1..) => Err(invalid("the peer's message is too long")),
        _ => Ok(()),
    }
}

/// Whether a handshake failed because the peer does not speak TLS. Errors that TLS itself reports, such as a bad
/// certificate, do not count.
pub fn is_no_tls(error: &io::Error) -> bool {
    let said = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    error.kind() == io::ErrorKind::InvalidData
        && said.is_none_or(|error| matches!(error, rustls::Error::InvalidMessage(_)))
}

/// Does the handshake. Returns how many records a server has sent behind it: its tickets.
fn drive(connection: &mut Connection, socket: &mut (impl Read + Write)) -> io::Result<u64> {
    let mut received = 0;
    loop {
        let sent = send(connection, socket)?;
        if !connection.is_handshaking() {
            return Ok(sent);
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

/// Sends what TLS has to say. Returns how many records it were.
fn send(connection: &mut Connection, socket: &mut impl Write) -> io::Result<u64> {
    let mut records = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut records)?;
    }
    socket.write_all(&records)?;
    Ok(count(&records))
}

/// The number of these records. Behind the handshake TLS counts each, whatever type it shows.
fn count(mut records: &[u8]) -> u64 {
    let mut count = 0;
    while let Some((head, rest)) = records.split_first_chunk::<HEAD>() {
        count += 1;
        records = rest.get(usize::from(u16::from_be_bytes([head[3], head[4]]))..).unwrap_or_default();
    }
    count
}

/// Reads exactly one record, because what follows the handshake is not for TLS.
fn receive(socket: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut record = vec![0; HEAD];
    let hung_up = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "peer hung up in the handshake"),
        _ => error,
    };
    socket.read_exact(&mut record).map_err(hung_up)?;
    let length = record_length(record[..].try_into().expect("has this length"))?;
    record.resize(length, 0);
    socket.read_exact(&mut record[HEAD..]).map_err(hung_up)?;
    Ok(record)
}

/// The length of a whole record.
fn record_length(head: [u8; HEAD]) -> io::Result<usize> {
    let length = HEAD + usize::from(u16::from_be_bytes([head[3], head[4]]));
    if length > LONGEST_RECORD { Err(invalid("a record is too long")) } else { Ok(length) }
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

/// The server's offer, which a client that has chosen ahead reads before anything else. What TLS would say to it is never
/// sent, because the link's own blocks use the same keys already.
#[derive(Debug)]
pub struct AwaitedOffer {
    connection: Connection,
    /// The client's choice.
    levels: Levels,
    bytes: [u8; OFFER],
    heard: usize,
    /// How many records have come.
    records: u64,
    /// Gets the digest of the server's news.
    courier: Option<Arc<dyn Courier>>,
}

impl AwaitedOffer {
    /// Takes the record at the start of `bytes`. Returns its length and, if the offer is complete, the number of the next
    /// record, where an opener [begins](crate::blocks::Opener::begin_at). `None`: the record is incomplete. Fails if the
    /// server refuses, or does not offer what the client has chosen.
    pub fn hear(&mut self, bytes: &[u8]) -> io::Result<Option<(usize, Option<u64>)>> {
        let Some(head) = bytes.first_chunk() else { return Ok(None) };
        let length = record_length(*head)?;
        let Some(record) = bytes.get(..length) else { return Ok(None) };
        self.records += count(record);
        take(&mut self.connection, record)?;
        match self.connection.reader().read(&mut self.bytes[self.heard..]) {
            Ok(count) => self.heard += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let is_complete = self.heard == OFFER;
        if is_complete {
            check_end(&mut self.connection)?;
            let offer = Offer::parse(&self.bytes)?;
            check_offered(self.levels, offer.levels)?;
            self.courier.iter().for_each(|courier| courier.heard(offer.news));
        }
        Ok(Some((length, is_complete.then_some(self.records))))
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
