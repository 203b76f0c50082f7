//! Servers, clients, and short words for what they say.

use bytes::Bytes;
use phalanx_core::error::SpaceError;
use phalanx_core::level::{Bound, Level, Network, Policy, Rule};
use phalanx_core::space::{Get, Options, OutOptions, Pattern, RequestId, Template, Tuple, Value, mask};
use phalanx_core::wire::space::{FromSpace, ToSpace, Wait};
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_node::dialler::Dialler;
use phalanx_node::space::{Access, Answer, Client, ClientError, Connect, Place, Server, ServerOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Until a test calls something hung: sooner than a server ends a connection of which it hears no more.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// A server at a path of its own; its files are removed with it.
pub struct AtPath {
    pub server: Server,
    folder: TempDir,
}

impl AtPath {
    pub fn start(options: ServerOptions) -> AtPath {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::Path(folder.path().join("server"));
        let server = Server::start(&place, None, options, phalanx_node::log::Log::nowhere()).unwrap();
        AtPath { server, folder }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("server")
    }

    pub fn client(&self, name: &str) -> Arc<Client> {
        self.try_client(name, Some(Options::default())).unwrap()
    }

    pub fn try_client(&self, name: &str, create: Option<Options>) -> Result<Arc<Client>, ClientError> {
        reach(&format!("{}/{name}", self.server.address()), None, Policy::default(), create)
    }
}

impl Drop for AtPath {
    fn drop(&mut self) {
        self.server.close();
    }
}

/// A grid with a server at a port of this machine.
pub struct AtPort {
    pub authority: Authority,
    pub server: Server,
}

impl AtPort {
    pub fn start(policy: Policy, access: Option<&str>) -> AtPort {
        let authority = Authority::create().unwrap();
        let access = access.map(|rules| Access::parse(rules).unwrap());
        AtPort::start_with(authority, ServerOptions { policy, access, ..ServerOptions::default() })
    }

    pub fn start_with(authority: Authority, options: ServerOptions) -> AtPort {
        let member = Member::parse(&authority.issue(Role::Executor, "labpc").unwrap(), Role::Executor).unwrap();
        let place = "127.0.0.1:0".parse().unwrap();
        let server = Server::start(&place, Some(member), options, phalanx_node::log::Log::nowhere()).unwrap();
        AtPort { authority, server }
    }

    /// A user's connection.
    pub fn user(&self, name: &str, policy: Policy, space: &str) -> Result<Arc<Client>, ClientError> {
        self.user_with(name, policy, space, Some(Options::default()))
    }

    pub fn user_with(
        &self,
        name: &str,
        policy: Policy,
        space: &str,
        create: Option<Options>,
    ) -> Result<Arc<Client>, ClientError> {
        self.member_as(Role::User, name, policy, space, create)
    }

    pub fn member_as(
        &self,
        role: Role,
        name: &str,
        policy: Policy,
        space: &str,
        create: Option<Options>,
    ) -> Result<Arc<Client>, ClientError> {
        let member = self.member(role, name);
        reach(&format!("{}/{space}", self.server.address()), Some(member), policy, create)
    }

    pub fn member(&self, role: Role, name: &str) -> Member {
        Member::parse(&self.authority.issue(role, name).unwrap(), role).unwrap()
    }
}

pub fn reach(
    address: &str,
    member: Option<Member>,
    policy: Policy,
    create: Option<Options>,
) -> Result<Arc<Client>, ClientError> {
    Client::connect(
        address.parse().unwrap(),
        &Connect { policy, dialler: member.map(Dialler::from), create, members: Vec::new(), patience: PATIENCE },
    )
}

/// `("name", number)`.
pub fn tuple(name: &str, number: i64) -> Bytes {
    Tuple::of(&[Value::Str(name.into()), Value::Int(number)]).into_bytes()
}

/// `("name", int)`.
pub fn some(name: &str) -> Bytes {
    template(vec![Pattern::actual(&Value::Str(name.into())), Pattern::of(mask::INT)])
}

pub fn template(patterns: Vec<Pattern>) -> Bytes {
    let mut bytes = Vec::new();
    Template::new(patterns, None).encode(&mut bytes);
    bytes.into()
}

pub fn finish(client: &Client, request: RequestId) -> Result<Answer, ClientError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = client.wait(request, Duration::from_millis(50)) {
            return answer;
        }
        assert!(Instant::now() < deadline, "no answer");
    }
}

pub fn out(client: &Client, tuple: Bytes) -> Result<(), ClientError> {
    let message = |request| ToSpace::Out { request, tuples: 1, options: OutOptions::default(), transaction: None };
    finish(client, client.ask(message, vec![tuple])?).map(drop)
}

/// Asks for one tuple; the request's number.
pub fn ask(client: &Client, template: Bytes, take: bool, wait: Wait) -> Result<RequestId, ClientError> {
    let get = Get { take, ..Get::default() };
    client.ask(|request| ToSpace::Get { request, get, wait, transaction: None }, vec![template])
}

/// `inp`, acknowledged, or `rdp`.
pub fn get(client: &Client, template: Bytes, take: bool) -> Result<Option<Bytes>, ClientError> {
    let request = ask(client, template, take, Wait::No)?;
    let answer = finish(client, request)?;
    let FromSpace::Got { tuples, .. } = answer.message else { panic!("{answer:?}") };
    if take {
        client.tell(&ToSpace::Ack { request });
    }
    Ok((tuples > 0).then_some(answer.body))
}

pub fn count(client: &Client, template: Bytes) -> u64 {
    let request = client.ask(|request| ToSpace::Count { request, transaction: None }, vec![template]).unwrap();
    match finish(client, request).unwrap().message {
        FromSpace::Counted { count, .. } => count,
        other => panic!("{other:?}"),
    }
}

pub fn info(client: &Client) -> phalanx_core::space::Info {
    let request = client.ask(|request| ToSpace::Info { request }, Vec::new()).unwrap();
    match finish(client, request).unwrap().message {
        FromSpace::Info { info, .. } => *info,
        other => panic!("{other:?}"),
    }
}

/// Asks until the answer is yes.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every link is private, and so begins with a handshake, also on this machine.
pub fn all_private() -> Policy {
    let private = Rule { network: Network::Any, role: None, mark: None, bound: Bound::Required(Level::Private) };
    Policy { rules: vec![private], ..Policy::default() }
}

pub fn space_error<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> SpaceError {
    match outcome.unwrap_err() {
        ClientError::Space(error) => error,
        other => panic!("{other}"),
    }
}
