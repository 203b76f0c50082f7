//! The way out over a transport of the test's own: a seam that any transport fits into.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use phalanx_core::level::{Level, LevelSet, Levels, Mark};
use phalanx_core::wire::{MAX_BODY, ToInterpreter, encode};
use phalanx_net::dial::{Dialled, Expected, Failure, Introduced, Judge, Target, Transport, dial, dial_by};
use phalanx_net::identity::{Authority, Client, Member, Role, role_and_name};
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use phalanx_net::socket::{Listener, Socket};
use phalanx_net::tls::offer;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const PRIVATE: Levels = Levels::all(Level::Private);

/// A transport that leads to the hosts of one domain, through pipes to a server in this process.
struct Pipes {
    server: Arc<Member>,
    offered: LevelSet,
    /// What the server has heard on each connection: the preamble, and the client's name.
    heard: Arc<Mutex<Vec<(Preamble, String)>>>,
}

impl Transport for Pipes {
    fn dial(&self, target: &Target, _: Duration) -> Option<io::Result<Dialled>> {
        match target {
            Target::Host(address) if address.host.ends_with(".pipes") => Some(self.pipe(target)),
            _ => None,
        }
    }
}

impl Pipes {
    fn pipe(&self, target: &Target) -> io::Result<Dialled> {
        let (socket, other) = Socket::pair()?;
        let (server, offered, heard) = (self.server.clone(), self.offered, self.heard.clone());
        thread::spawn(move || serve(other, &server, offered, &heard));
        Ok(Dialled { socket, address: None, again: target.clone() })
    }
}

/// Answers one frame with a frame. A client that is refused, or that hangs up, ends it.
fn serve(mut socket: Socket, own: &Member, offered: LevelSet, heard: &Mutex<Vec<(Preamble, String)>>) -> Option<()> {
    let mut timed = socket.until(Instant::now() + PATIENCE);
    let preamble = Preamble::read(&mut timed).ok()?;
    let shaken = offer(own.server().unwrap(), [offered; 3], &preamble.bound(), &mut timed).ok()?;
    let (_, name) = role_and_name(shaken.peer_certificate()).unwrap();
    heard.lock().unwrap().push((preamble, name));
    let (link, mut reader) = Link::new(socket, Some(shaken), MAX_BODY).ok()?;
    hear(&mut reader).ok()?;
    link.send(Mark::None, encode(&ToInterpreter::Beat, 0), Vec::new()).ok()
}

fn hear(reader: &mut Reader) -> io::Result<()> {
    let (mut heard, until) = (false, Instant::now() + PATIENCE);
    while !heard && Instant::now() < until {
        reader.poll(Duration::from_secs(1), &mut |_| heard = true).map_err(io::Error::other)?;
    }
    Ok(())
}

struct Grid {
    pipes: Pipes,
    client: Client,
}

/// A user and the executor `ws7`, which offers these levels.
fn grid(offered: LevelSet) -> Grid {
    let authority = Authority::create().unwrap();
    let member = |role, name| Member::parse(&authority.issue(role, name).unwrap(), role).unwrap();
    let server = Arc::new(member(Role::Executor, "ws7"));
    let pipes = Pipes { server, offered, heard: Arc::default() };
    Grid { pipes, client: member(Role::User, "ada").client_of(Role::Executor).unwrap() }
}

impl Grid {
    fn dial(&self) -> Dialled {
        let target = Target::Host("ws7.pipes:7400".parse().unwrap());
        dial_by(&[&self.pipes], &target, PATIENCE).unwrap()
    }

    fn introduce(&self, expected: Expected<'_>) -> io::Result<Introduced> {
        self.dial().introduce(Preamble::Control, expected, PRIVATE, PATIENCE)
    }
}

/// Sends a frame and waits for the answer.
fn talk(introduced: Introduced) -> io::Result<Levels> {
    let (link, mut reader) = introduced.link(MAX_BODY)?;
    link.send(Mark::None, encode(&ToInterpreter::Beat, 0), Vec::new()).map_err(io::Error::other)?;
    hear(&mut reader)?;
    Ok(link.levels())
}

#[test]
fn a_link_comes_of_any_transport_and_the_same_target_leads_there_again() {
    let grid = grid(LevelSet::from(Level::Safe));
    let introduced = grid.introduce(Expected::Named(&grid.client, "ws7")).unwrap();
    assert_eq!((introduced.name().unwrap().as_str(), introduced.address), ("ws7", None));
    let (certificate, again) = (introduced.certificate(), introduced.again.clone());
    assert_eq!(talk(introduced).unwrap(), PRIVATE);
    let stream = Preamble::Stream { token: [7; 12], number: 3 };
    let safe = |offered: [LevelSet; 3]| match offered[0].contains(Level::Safe) {
        true => Ok((Levels::all(Level::Safe), "as offered")),
        false => Err("not offered"),
    };
    let dialled = dial_by(&[&grid.pipes], &again, PATIENCE).unwrap();
    let (introduced, why) = dialled.agree(stream, Expected::Same(&grid.client, &certificate), safe, PATIENCE).unwrap();
    assert_eq!(why, "as offered");
    assert_eq!(talk(introduced).unwrap(), Levels::all(Level::Safe));
    let heard = grid.pipes.heard.lock().unwrap();
    assert_eq!(*heard, [(Preamble::Control, "ada".to_owned()), (stream, "ada".to_owned())]);
}

#[test]
fn another_member_than_the_expected_one_is_refused() {
    let grid = grid(LevelSet::EVERY);
    assert!(grid.introduce(Expected::Named(&grid.client, "WS7")).is_ok());
    let error = grid.introduce(Expected::Named(&grid.client, "ws8")).unwrap_err();
    assert_eq!(error.to_string(), "the executor ws7 answers in place of ws8");
    let error = grid.introduce(Expected::Same(&grid.client, b"another certificate")).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (io::ErrorKind::PermissionDenied, "another executor answers now")
    );
}

/// Accepts one name, from a server that is on this machine.
#[derive(Debug)]
struct Only(&'static str);

impl Judge for Only {
    fn judge(&self, name: &str, at: Option<SocketAddr>) -> io::Result<()> {
        assert_eq!(at, None, "pipes lead to this machine");
        if name == self.0 { Ok(()) } else { Err(io::Error::other(format!("{name} is not {}", self.0))) }
    }
}

#[test]
fn a_judge_accepts_a_member_by_its_name_before_the_link_is_used() {
    let grid = grid(LevelSet::EVERY);
    assert!(talk(grid.introduce(Expected::Judged(&grid.client, &Only("ws7"))).unwrap()).is_ok());
    let error = grid.introduce(Expected::Judged(&grid.client, &Only("ws8"))).unwrap_err();
    assert_eq!(error.to_string(), "ws7 is not ws8");
    let stream = Preamble::Stream { token: [7; 12], number: 3 };
    let only = Only("ws8");
    let outcome = grid.dial().introduce_and_wait(stream, Expected::Judged(&grid.client, &only), PRIVATE, PATIENCE);
    assert_eq!(outcome.unwrap_err().to_string(), "ws7 is not ws8");
}

#[test]
#[cfg(target_os = "linux")]
fn an_own_process_is_one_that_the_system_confirms() {
    let own = grid(LevelSet::EVERY);
    assert!(own.introduce(Expected::OwnProcess(&own.client)).is_ok(), "it answers over a socket pair of this process");
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let at = listener.address().unwrap();
    let server = own.pipes.server.clone();
    let serving =
        thread::spawn(move || serve(listener.accept().unwrap().0, &server, LevelSet::EVERY, &Mutex::default()));
    let dialled = dial(&at.into(), PATIENCE).unwrap();
    let error = dialled.introduce(Preamble::Control, Expected::OwnProcess(&own.client), PRIVATE, PATIENCE).unwrap_err();
    assert_eq!(error.to_string(), "a process of another user answers", "TCP does not tell the user");
    serving.join().unwrap();
}

#[test]
fn a_caller_that_cannot_accept_the_offer_gets_its_own_error() {
    let grid = grid(LevelSet::only(Level::Clear));
    let decide = |offered: [LevelSet; 3]| Err::<(Levels, ()), _>(offered);
    let outcome = grid.dial().agree(Preamble::Files, Expected::Named(&grid.client, "ws7"), decide, PATIENCE);
    assert!(matches!(outcome, Err(Failure::Disagreed(offered)) if offered == [LevelSet::only(Level::Clear); 3]));
}

#[test]
fn each_transport_takes_its_own_targets() {
    let grid = grid(LevelSet::EVERY);
    let error = dial_by(&[&grid.pipes], &Target::from(Path::new("/tmp/here")), PATIENCE).unwrap_err();
    assert_eq!(error.to_string(), "nothing leads to /tmp/here");
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let at = listener.address().unwrap();
    let named = Target::Host(at.to_string().parse().unwrap());
    let dialled = dial(&named, PATIENCE).unwrap();
    assert_eq!((dialled.address, dialled.again), (Some(at), Target::At(at)));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server");
    let _listener = Listener::bind_path(&path).unwrap();
    let dialled = dial(&Target::from(path.as_path()), PATIENCE).unwrap();
    assert_eq!((dialled.address, dialled.again), (None, Target::Path(path)));
}
