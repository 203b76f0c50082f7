//! The first bytes of a connection to an executor, a server of spaces, a hub or a rank, sent in the clear. They say what the
//! connection is for.
//!
//! They only decide which process does the handshake that follows; they are not trusted. They are bound into the keys of
//! that handshake, so that an attacker cannot redirect a connection to another service or to another transfer.

use std::io::{self, Read, Write};

const MAGIC: [u8; 6] = *b"phlnx\x01";
const LENGTH: usize = MAGIC.len() + 17;
const CONTROL: u8 = 0;
const DATA: u8 = 1;
const SPACE: u8 = 2;
const REPLICA: u8 = 3;
const RANKS: u8 = 4;
const TRANSFER: u8 = 5;
const STREAM: u8 = 6;
const EXECUTOR: u8 = 7;
const FILES: u8 = 8;
const RANK: u8 = 9;
const NEWS: u8 = 10;
const JOIN: u8 = 11;
const HUB: u8 = 12;
const RELAY: u8 = 13;
const HUBS: u8 = 14;
const CONTENT: u8 = 15;
const COMM: u8 = 16;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preamble {
    /// A manager's control link, answered by the executor itself.
    Control,
    /// The data link of the interpreter that was started under this token.
    Data {
        /// What the interpreter was started with, so that no other process can be mistaken for it.
        token: [u8; 16],
    },
    /// A client of tuple spaces. With `shakes`, both ends prove their identity and agree on levels. Otherwise the
    /// operating system has confirmed that the client runs as the server's user.
    Space {
        /// Whether a handshake follows.
        shakes: bool,
    },
    /// Another member of a replicated space.
    Replica,
    /// The launcher of a message passing program that wants to start ranks here.
    Ranks,
    /// The control link of a transfer.
    Transfer,
    /// The control link of a transfer from another executor, which has a ticket for it.
    Executor,
    /// A stream, by its number, of the transfer that was begun under the token.
    Stream {
        /// The token of the transfer, from its control link.
        token: [u8; 12],
        /// The number of the stream in the transfer.
        number: u32,
    },
    /// A user's requests about files.
    Files,
    /// The rank that connects to another rank of its program.
    Rank {
        /// The rank that connects.
        rank: u32,
    },
    /// Lists of revoked certificates, and renewed certificates, in both directions.
    News,
    /// A machine or a user that asks a hub for a certificate. It is no member yet, or its certificate has ended.
    Join,
    /// A member's link to a hub.
    Hub,
    /// Another hub of the grid. Hubs keep their state together.
    Hubs,
    /// An end of a link that a hub relays to a member, under a token that the hub gave. No handshake with the hub follows: what follows
    /// is for the other end.
    Relay {
        /// Where the link leads.
        token: [u8; 16],
    },
    /// A member that brings contents of jobs to a hub, or fetches some.
    Content,
    /// A process of a program of Dask that connects to another one. With `shakes`, both ends prove their identity. Otherwise the
    /// operating system has confirmed that both run as the same user.
    Comm {
        /// Whether a handshake follows.
        shakes: bool,
    },
}

impl Preamble {
    /// Writes the 23 bytes.
    pub fn write(self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.bytes())
    }

    /// Whether links for this purpose carry news of the grid themselves.
    pub fn carries_news(self) -> bool {
        matches!(self, Preamble::Control | Preamble::News | Preamble::Hub)
    }

    /// The bytes on which the keys of the handshake depend: all of them, for every service.
    pub fn bound(self) -> Vec<u8> {
        self.bytes()
    }

    /// The 23 bytes.
    pub fn bytes(self) -> Vec<u8> {
        let (kind, token) = match self {
            Preamble::Control => (CONTROL, [0; 16]),
            Preamble::Data { token } => (DATA, token),
            Preamble::Space { shakes } => (SPACE, [u8::from(shakes); 16]),
            Preamble::Replica => (REPLICA, [0; 16]),
            Preamble::Ranks => (RANKS, [0; 16]),
            Preamble::Transfer => (TRANSFER, [0; 16]),
            Preamble::Files => (FILES, [0; 16]),
            Preamble::Executor => (EXECUTOR, [0; 16]),
            Preamble::News => (NEWS, [0; 16]),
            Preamble::Join => (JOIN, [0; 16]),
            Preamble::Hub => (HUB, [0; 16]),
            Preamble::Hubs => (HUBS, [0; 16]),
            Preamble::Content => (CONTENT, [0; 16]),
            Preamble::Comm { shakes } => (COMM, [u8::from(shakes); 16]),
            Preamble::Relay { token } => (RELAY, token),
            Preamble::Stream { token, number } => {
                let bytes = [&token[..], &number.to_le_bytes()].concat();
                (STREAM, bytes.try_into().expect("16 bytes"))
            }
            Preamble::Rank { rank } => {
                let bytes = [&rank.to_le_bytes()[..], &[0; 12]].concat();
                (RANK, bytes.try_into().expect("16 bytes"))
            }
        };
        [&MAGIC[..], &[kind], &token].concat()
    }

    /// Reads the 23 bytes. Anything other than a preamble of this version is an error, and so are bytes without a meaning
    /// that are not 0.
    pub fn read(from: &mut impl Read) -> io::Result<Preamble> {
        let mut bytes = [0; LENGTH];
        from.read_exact(&mut bytes)?;
        let preamble = Preamble::parse(bytes).filter(|preamble| preamble.bytes() == bytes);
        preamble.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak phalanx"))
    }

    fn parse(bytes: [u8; LENGTH]) -> Option<Preamble> {
        let token: [u8; 16] = bytes[MAGIC.len() + 1..].try_into().expect("16 bytes");
        match (bytes[..MAGIC.len()] == MAGIC, bytes[MAGIC.len()]) {
            (true, CONTROL) => Some(Preamble::Control),
            (true, DATA) => Some(Preamble::Data { token }),
            (true, SPACE) => Some(Preamble::Space { shakes: token != [0; 16] }),
            (true, COMM) => Some(Preamble::Comm { shakes: token != [0; 16] }),
            (true, REPLICA) => Some(Preamble::Replica),
            (true, RANKS) => Some(Preamble::Ranks),
            (true, FILES) => Some(Preamble::Files),
            (true, TRANSFER) => Some(Preamble::Transfer),
            (true, EXECUTOR) => Some(Preamble::Executor),
            (true, NEWS) => Some(Preamble::News),
            (true, JOIN) => Some(Preamble::Join),
            (true, HUB) => Some(Preamble::Hub),
            (true, HUBS) => Some(Preamble::Hubs),
            (true, CONTENT) => Some(Preamble::Content),
            (true, RELAY) => Some(Preamble::Relay { token }),
            (true, STREAM) => {
                let (token, number) = token.split_at(12);
                let number = u32::from_le_bytes(number.try_into().expect("4 bytes"));
                Some(Preamble::Stream { token: token.try_into().expect("12 bytes"), number })
            }
            (true, RANK) => {
                let (rank, _) = token.split_at(4);
                Some(Preamble::Rank { rank: u32::from_le_bytes(rank.try_into().expect("4 bytes")) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Preamble; 19] = [
        Preamble::Control,
        Preamble::Data { token: [1; 16] },
        Preamble::Space { shakes: true },
        Preamble::Space { shakes: false },
        Preamble::Replica,
        Preamble::Ranks,
        Preamble::Transfer,
        Preamble::Executor,
        Preamble::Stream { token: [2; 12], number: 3 },
        Preamble::Files,
        Preamble::Rank { rank: 4 },
        Preamble::News,
        Preamble::Join,
        Preamble::Hub,
        Preamble::Relay { token: [7; 16] },
        Preamble::Hubs,
        Preamble::Content,
        Preamble::Comm { shakes: true },
        Preamble::Comm { shakes: false },
    ];

    #[test]
    fn the_keys_depend_on_all_that_is_said_for_every_service() {
        for preamble in ALL {
            let mut said = Vec::new();
            preamble.write(&mut said).expect("a vector takes all");
            assert_eq!(preamble.bound(), said, "{preamble:?}");
            assert_eq!(ALL.iter().filter(|other| other.bound() == said).count(), 1, "{preamble:?}");
        }
    }

    #[test]
    fn every_preamble_is_read_in_one_way_only() {
        for preamble in ALL {
            let bytes = preamble.bytes();
            assert_eq!(Preamble::read(&mut &bytes[..]).expect("was written"), preamble);
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 0x80;
                let read = Preamble::read(&mut &changed[..]).ok();
                assert!(read.is_none_or(|read| read != preamble), "{preamble:?}, byte {at}");
            }
        }
    }
}
