//! The two ends, as phalanx runs them, and what must hold of them.

use super::attack::{Attack, Network, Records};
use super::wire::{Pipe, Side, Wire};
use phalanx_core::level::{Level, LevelSet, Levels, Mark, Place, Policy, Reach};
use phalanx_net::blocks::{Cut, Opener, Sealer, carried};
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_net::preamble::Preamble;
use phalanx_net::tls::{Shaken, choose, choose_ahead, offer};
use std::io::{self, Read};
use std::sync::LazyLock;
use std::thread;

/// A grid with one user and one executor.
static GRID: LazyLock<(Member, Member)> = LazyLock::new(|| {
    let authority = Authority::create().expect("a new grid");
    let member = |role, name| Member::parse(&authority.issue(role, name).expect("a member"), role).expect("its file");
    (member(Role::User, "ada"), member(Role::Executor, "ws7"))
});

/// How a client comes to its levels.
pub enum Asks {
    /// It waits for the offer, and its policy decides.
    ByPolicy(Policy),
    /// It knows them beforehand.
    Ahead(Levels),
}

pub struct Client {
    pub preamble: Preamble,
    pub asks: Asks,
}

/// How a server comes to its offer.
pub enum Server {
    /// By its policy.
    ByPolicy(Policy),
    /// It was agreed on over another link.
    Exactly(Levels),
    Offers([LevelSet; 3]),
}

/// Both ends.
pub struct Ends {
    client: Client,
    offered: [LevelSet; 3],
}

/// The outcome of a handshake at one end: the levels, and the service that it takes the connection to be for.
pub type Ready = (Levels, Preamble);

/// The outcomes at both ends. `None`: the handshake has failed there.
pub struct Met {
    pub client: Option<Ready>,
    pub server: Option<Ready>,
    /// Whether each of them opens what the other protects.
    talk: bool,
}

impl Ends {
    pub fn new(client: Client, server: Server) -> Ends {
        let offered = match server {
            Server::ByPolicy(policy) => Mark::ALL.map(|mark| policy.offered(&place("user"), mark)),
            Server::Exactly(levels) => levels.exactly(),
            Server::Offers(offered) => offered,
        };
        Ends { client, offered }
    }

    /// Lets both ends meet on a network with these attacks. Returns what they have then, and what they have sent.
    pub fn meet(&self, attacks: &[Attack], earlier: &Records) -> (Met, Records) {
        let wire = Wire::default();
        thread::scope(|scope| {
            let client = scope.spawn(|| self.client(wire.end(Side::Client)));
            let server = scope.spawn(|| self.server(wire.end(Side::Server)));
            let records = Network::new(&wire, attacks, earlier).run();
            let [client, server] = [client, server].map(|end| end.join().expect("an end never panics").ok());
            let ready = |end: &Option<(Shaken, Preamble)>| end.as_ref().map(|(shaken, said)| (shaken.levels, *said));
            let (of_client, of_server) = (ready(&client), ready(&server));
            let talk = client.zip(server).is_some_and(|(client, server)| talk(client.0, server.0));
            (Met { client: of_client, server: of_server, talk }, records)
        })
    }

    fn client(&self, mut pipe: Pipe<'_>) -> io::Result<(Shaken, Preamble)> {
        let connection =
            GRID.0.client_of(Role::Executor).and_then(|client| client.connect()).map_err(io::Error::other)?;
        let Client { preamble, asks } = &self.client;
        preamble.write(&mut pipe)?;
        let said = preamble.bound();
        let mut shaken = match asks {
            Asks::Ahead(levels) => choose_ahead(connection, *levels, &said, &mut pipe)?,
            Asks::ByPolicy(policy) => choose(connection, |offered| decide(policy, offered), &said, &mut pipe)?,
        };
        hear_offer(&mut shaken, &mut pipe)?;
        Ok((shaken, *preamble))
    }

    fn server(&self, mut pipe: Pipe<'_>) -> io::Result<(Shaken, Preamble)> {
        let connection = GRID.1.server().map_err(io::Error::other)?;
        let preamble = Preamble::read(&mut pipe)?;
        let shaken = offer(connection, self.offered, &preamble.bound(), &mut pipe)?;
        Ok((shaken, preamble))
    }

    /// The property. Without an attacker, and with ends that fit, both ends have agreed.
    pub fn check(&self, met: &Met, agree: bool) -> Result<(), String> {
        let wanted = match &self.client.asks {
            Asks::Ahead(levels) => *levels,
            Asks::ByPolicy(policy) => decide(policy, self.offered)?,
        };
        for (levels, preamble) in [met.client, met.server].into_iter().flatten() {
            for mark in Mark::ALL {
                let (level, wanted) = (levels.of(mark), wanted.of(mark));
                if level != wanted || !self.offered[mark as usize].contains(level) {
                    return Err(format!("{mark:?} frames are {level} in place of {wanted} of {:?}", self.offered));
                }
            }
            if preamble != self.client.preamble {
                return Err(format!("the server serves {preamble:?}"));
            }
        }
        match (&met.client, &met.server) {
            (Some(_), Some(_)) if !met.talk => Err("the ends have other keys".to_owned()),
            (Some(_), Some(_)) => Ok(()),
            _ if agree => Err("the ends do not agree".to_owned()),
            _ => Ok(()),
        }
    }
}

fn place(role: &'static str) -> Place<'static> {
    Place { reach: Reach::Untrusted, address: Some([10, 1, 2, 3].into()), role }
}

fn decide(policy: &Policy, offered: [LevelSet; 3]) -> Result<Levels, String> {
    policy.agree(&place("executor"), offered).map(|agreed| agreed.levels).map_err(|error| error.to_string())
}

/// Hears the offer before anything else, as the reader of a link does.
fn hear_offer(shaken: &mut Shaken, pipe: &mut Pipe<'_>) -> io::Result<()> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1024]);
    while shaken.awaits_offer() {
        if let Some(record) = shaken.hear_offer(&bytes)? {
            bytes.drain(..record);
            continue;
        }
        match pipe.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(())
}

/// Whether each end opens what the other protects at every level of the link.
fn talk(client: Shaken, server: Shaken) -> bool {
    let (of_client, of_server) = (client.levels, server.levels);
    let ((client_seals, client_opens), (server_seals, server_opens)) = (client.into_contexts(), server.into_contexts());
    arrives(Sealer::new(Some(client_seals), carried(of_client)), Opener::new(Some(server_opens), carried(of_server)))
        && arrives(
            Sealer::new(Some(server_seals), carried(of_server)),
            Opener::new(Some(client_opens), carried(of_client)),
        )
}

fn arrives(mut sealer: Sealer, mut opener: Opener) -> bool {
    [Level::Safe, Level::Private].into_iter().all(|level| {
        let mut block = Vec::new();
        // A link whose base is private carries nothing below it.
        if sealer.append(level, std::iter::once(&b"payload"[..]), &mut block).is_err() {
            return true;
        }
        match opener.cut(&block) {
            Ok(Cut::Whole(cut)) => opener.open_at(cut, &mut block).is_ok_and(|payload| block[payload] == *b"payload"),
            _ => false,
        }
    })
}
