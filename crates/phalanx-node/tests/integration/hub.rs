//! A grid with a hub: who joins, who is known, who is expelled, and how members reach each other through it.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::{next_line, options};
use phalanx_core::hub::{Needs, Token};
use phalanx_core::level::Policy;
use phalanx_core::space::Options as SpaceOptions;
use phalanx_core::wire::VERSION;
use phalanx_core::wire::hub::{FromHub, Running, Status, StatusRow, ToHub, What};
use phalanx_net::address::Address;
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_node::asked::ask_all;
use phalanx_node::cage::{Cage, Settings};
use phalanx_node::dialler::Dialler;
use phalanx_node::executor::{Executor, Options};
use phalanx_node::hub::{Founded, Hub, HubServer, Place};
use phalanx_node::log::Log;
use phalanx_node::membership::{AskError, AtHub, Joined, Paths, Telling, become_owner, join};
use phalanx_node::space::{Client, Connect, ServerOptions};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// A hub that listens, and its owner ada.
pub struct Lab {
    pub folder: TempDir,
    server: Option<HubServer>,
    hubs: Vec<String>,
    log: Receiver<String>,
}

fn write(path: PathBuf, text: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

impl Lab {
    pub fn new() -> Lab {
        let folder = tempfile::tempdir().unwrap();
        let founded = Founded::by(&Authority::create().unwrap(), "labpc").unwrap();
        write(folder.path().join("lab/hub/issuer.pem"), &founded.issuer);
        write(folder.path().join("lab/hub/hub.pem"), &founded.hub);
        let issuer = Authority::parse(&founded.issuer, None).unwrap();
        write(folder.path().join("lab/user.pem"), &issuer.issue_for(Role::User, "ada", Some(PATIENCE)).unwrap());
        let mut lab = Lab { folder, server: None, hubs: vec!["127.0.0.1:0".to_owned()], log: channel().1 };
        lab.start();
        lab
    }

    fn open(&self, log: Log) -> Arc<Hub> {
        let place = Place::new(self.folder.path().join("lab"));
        let settings = place.settings("lab", &["ada".to_owned()], self.hubs.clone()).unwrap();
        Hub::open(settings, log).unwrap()
    }

    /// Starts the hub, at the same port as before.
    fn start(&mut self) {
        let (sender, log) = channel();
        let log_to = Log::new(move |_, text| drop(sender.send(text.to_owned())));
        let hub = self.open(log_to.clone());
        let until = Instant::now() + PATIENCE;
        let server = loop {
            match HubServer::start(&self.hubs[0], hub.clone(), log_to.clone()) {
                Ok(server) => break server,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
        };
        self.hubs = hub.addresses();
        (self.server, self.log) = (Some(server), log);
    }

    /// A member, as its identity file says, that keeps news of the grid beside it.
    pub fn member(&self, folder: &str, identity: &str, role: Role) -> Member {
        let at = |name: &str| self.folder.path().join(folder).join(name);
        let file = write(at("identity.pem"), identity);
        let member = Member::parse(identity, role).unwrap().heeding(vec![at("revoked.txt")]);
        member.renewing(Some(file), vec![at("renewed.pem")]).unwrap()
    }

    pub fn ada(&self) -> Member {
        let text = fs::read_to_string(self.folder.path().join("lab/user.pem")).unwrap();
        self.member("ada", &text, Role::User)
    }

    pub fn at_hub(&self, member: &Member) -> AtHub {
        AtHub::open(member, &self.hubs).unwrap()
    }

    pub fn invite(&self, role: Role, uses: u32) -> Token {
        self.invite_as(role.name(), uses)
    }

    fn invite_as(&self, role: &str, uses: u32) -> Token {
        let asked = ToHub::Invite { role: role.to_owned(), uses, seconds: 60 };
        match self.at_hub(&self.ada()).ask(&asked).unwrap().0 {
            FromHub::Invited { token } => token.parse().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// An executor that has joined.
    fn executor(&self, name: &str, telling: Telling) -> (Executor, Member) {
        let joined = join(&self.invite(Role::Executor, 1), name).unwrap();
        let member = self.member(name, &joined.identity, Role::Executor);
        let cage = Cage::new(Settings::default()).unwrap();
        let options = Options { spaces: Some(ServerOptions::default()), cage, ..options() };
        let executor = Executor::start("127.0.0.1:0", member.clone(), options, Log::nowhere()).unwrap();
        executor.stay(joined.hubs, None, telling).unwrap();
        assert!(executor.wait_for_hub(PATIENCE), "{:?}", executor.hub_status());
        (executor, member)
    }
}

fn refusal<T>(asked: Result<T, AskError>) -> String {
    match asked {
        Err(error) => error.to_string(),
        Ok(_) => panic!("was not refused"),
    }
}

#[test]
fn a_token_makes_one_member_with_a_key_of_its_own() {
    let lab = Lab::new();
    let token = lab.invite(Role::Executor, 1);
    let Joined { identity, grid, hubs } = join(&token, "ws7").unwrap();
    assert_eq!((grid.as_str(), &hubs), ("lab", &lab.hubs));
    assert_eq!(Member::parse(&identity, Role::Executor).unwrap().name, "ws7");
    assert!(refusal(join(&token, "ws8")).contains("the token is not good here"));
    assert!(refusal(join(&lab.invite(Role::Executor, 1), "ws7")).contains("ws7 is a member already"));
    let (rows, _) = lab.at_hub(&lab.ada()).members().unwrap();
    let names: Vec<_> = rows.iter().map(|row| (row.role.as_str(), row.name.as_str())).collect();
    assert_eq!(names, [("executor", "ws7"), ("hub", "labpc"), ("user", "ada")]);
}

#[test]
fn a_token_of_another_grid_or_with_another_root_meets_nobody() {
    let (lab, attic) = (Lab::new(), Lab::new());
    let token = Token { hubs: attic.hubs.clone(), ..lab.invite(Role::Executor, 1) };
    assert!(refusal(join(&token, "ws7")).contains("no hub of the grid answers"));
    let guessed = Token { secret: [7; 16], ..lab.invite(Role::User, 1) };
    assert!(refusal(join(&guessed, "eve")).contains("the token is not good here"));
    let other = Token { role: "user".to_owned(), ..lab.invite(Role::Executor, 1) };
    assert!(refusal(join(&other, "eve")).contains("the token is for the role executor"));
}

#[test]
fn only_owners_invite_and_expel() {
    let lab = Lab::new();
    let bob = join(&lab.invite(Role::User, 1), "bob").unwrap();
    let bob = lab.member("bob", &bob.identity, Role::User);
    let invite = ToHub::Invite { role: "user".to_owned(), uses: 1, seconds: 60 };
    assert!(refusal(lab.at_hub(&bob).ask(&invite)).contains("only owners of the grid may"));
    assert!(refusal(lab.at_hub(&bob).ask(&ToHub::Expel { name: "ada".to_owned() })).contains("only owners"));
    let (_executor, ws7) = lab.executor("ws7", Telling::default());
    assert!(refusal(lab.at_hub(&ws7).ask(&invite)).contains("only users"), "an executor is no user");
    let owner = ToHub::Invite { role: "owner".to_owned(), uses: 1, seconds: 60 };
    assert!(refusal(lab.at_hub(&bob).ask(&owner)).contains("only owners of the grid may"));
    let none = ToHub::Invite { role: "king".to_owned(), uses: 1, seconds: 60 };
    assert!(refusal(lab.at_hub(&lab.ada()).ask(&none)).contains("king"));
}

#[test]
fn a_token_makes_one_person_an_owner_who_is_new_or_a_user() {
    let mut lab = Lab::new();
    let (user, first, second) = (lab.invite(Role::User, 1), lab.invite_as("owner", 1), lab.invite_as("owner", 1));
    let bob = join(&user, "bob").unwrap();
    let key = |identity: &str| identity[identity.find("PRIVATE KEY").unwrap()..].to_owned();
    let owner = become_owner(&first, &bob.identity).unwrap();
    assert_eq!(key(&owner.identity), key(&bob.identity), "the key stays");
    assert!(refusal(join(&first, "eve")).contains("the token is not good here"));
    become_owner(&first, &owner.identity).unwrap(); // the answer may have been lost
    let carol = join(&second, "carol").unwrap();
    drop(lab.server.take());
    lab.start();
    for (name, identity) in [("bob", &owner.identity), ("carol", &carol.identity)] {
        let member = lab.member(name, identity, Role::User);
        lab.at_hub(&member).invite("owner".to_owned(), 1, 60).unwrap();
    }
    let bob = lab.member("bob", &owner.identity, Role::User);
    lab.at_hub(&bob).expel("ada".to_owned()).unwrap();
    assert!(AtHub::open(&lab.ada(), &lab.hubs).and_then(|mut hub| hub.members()).is_err());
    let (rows, _) = lab.at_hub(&bob).members().unwrap();
    let owners: Vec<_> = rows.iter().filter(|row| row.facts.contains_key("owner")).map(|row| &row.name).collect();
    assert_eq!(owners, ["bob", "carol"]);
}

#[test]
fn the_hub_and_not_the_token_says_who_becomes_an_owner() {
    let lab = Lab::new();
    let altered = |token: &Token, role: &str| Token { role: role.to_owned(), ..token.clone() };
    let users = lab.invite(Role::User, 9);
    assert!(refusal(join(&altered(&users, "owner"), "eve")).contains("the token is for the role user"));
    let eve = join(&users, "eve").unwrap();
    assert!(refusal(become_owner(&altered(&users, "owner"), &eve.identity)).contains("the token is for the role user"));
    let owners = lab.invite_as("owner", 1);
    for role in ["user", "executor"] {
        assert!(refusal(join(&altered(&owners, role), "eve2")).contains("the token is for the role owner"));
    }
    let ws7 = join(&lab.invite(Role::Executor, 1), "ws7").unwrap();
    assert!(refusal(become_owner(&owners, &ws7.identity)).contains("the token is for the role owner"));
    // A certificate proves nothing without its key, and another grid's is none.
    let attic = Lab::new();
    let stranger = join(&attic.invite(Role::User, 1), "eve").unwrap();
    assert!(refusal(become_owner(&owners, &stranger.identity)).contains("no hub of the grid answers"));
    assert!(
        refusal(
            lab.at_hub(&lab.member("eve", &eve.identity, Role::User))
                .ask(&ToHub::JoinAsOwner { secret: owners.secret, phalanx: VERSION.to_owned() })
        )
        .contains("no joining link")
    );
    become_owner(&owners, &eve.identity).unwrap(); // nothing of this has used it
}

#[test]
fn what_the_hub_has_answered_survives_its_end() {
    let mut lab = Lab::new();
    let (used, open) = (lab.invite(Role::User, 1), lab.invite(Role::User, 1));
    join(&used, "bob").unwrap();
    let (executor, _) = lab.executor("ws7", Telling::default());
    drop(lab.server.take());
    lab.start();
    assert!(refusal(join(&used, "eve")).contains("the token is not good here"));
    join(&open, "carol").unwrap();
    let (rows, _) = lab.at_hub(&lab.ada()).members().unwrap();
    assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["ws7", "labpc", "ada", "bob", "carol"]);
    next_line(&lab.log, "the executor ws7 is here"); // it has come back by itself
    drop(executor);
}

#[test]
fn who_is_expelled_is_out_everywhere_and_for_good() {
    let lab = Lab::new();
    let (executor, ws7) = lab.executor("ws7", Telling::default());
    let (_other, ws8) = lab.executor("ws8", Telling::default());
    let mut staying = lab.at_hub(&ws7);
    match lab.at_hub(&lab.ada()).ask(&ToHub::Expel { name: "ws7".to_owned() }).unwrap().0 {
        FromHub::Expelled { certificates } => assert_eq!(certificates, 1),
        other => panic!("{other:?}"),
    }
    let fingerprint = phalanx_net::identity::fingerprint(&ws7.own().certificate);
    let until = Instant::now() + PATIENCE;
    while !ws8.revocations().newer_than(0).is_some_and(|(_, list)| list.contains(&fingerprint)) {
        assert!(Instant::now() < until, "the other member has not heard");
        std::thread::yield_now();
    }
    assert!(staying.ask(&ToHub::Members { after: None }).is_err(), "its open link has ended");
    assert!(AtHub::open(&ws7, &lab.hubs).and_then(|mut hub| hub.members()).is_err(), "its certificate opens no other");
    assert!(refusal(phalanx_node::membership::come_back(&ws7, &lab.hubs)).contains("revoked"));
    drop(executor);
    join(&lab.invite(Role::Executor, 1), "ws7").unwrap(); // the name is free for another key
}

#[test]
fn members_are_reached_by_name_directly_and_through_the_hub() {
    let lab = Lab::new();
    let unreachable = Telling { addresses: vec!["127.0.0.1:1".to_owned()], ..Telling::default() };
    let (direct, _) = lab.executor("near", Telling::default());
    let (_relayed, _) = lab.executor("far", unreachable);
    let ada = lab.ada();
    Paths::register("lab", ada.clone(), lab.hubs.clone(), HashMap::new());
    let at = |name: &str| Address { host: format!("{name}.lab.phalanx"), port: 7400 };
    for name in ["near", "far"] {
        let named = HashMap::from([(at(name).to_string(), name.to_owned())]);
        let dialler = Dialler::new(ada.clone(), named, None);
        ask_all(&[at(name)], &dialler).remove(0).unwrap();
        let (create, members) = (Some(SpaceOptions::default()), Vec::new());
        let (policy, patience) = (Policy::default(), PATIENCE);
        let connect = Connect { policy, dialler: Some(dialler), create, members, patience };
        let space = format!("{}/todo", at(name)).parse().unwrap();
        let client = Client::connect(space, &connect).unwrap();
        assert_eq!(client.peer(), Some(name));
        client.close();
    }
    assert!(direct.hub_status().unwrap().contains("127.0.0.1:"));
    let nobody = ask_all(&[at("nobody")], &Dialler::from(ada)).remove(0).unwrap_err();
    assert!(nobody.contains("no member is called nobody"), "{nobody}");
}

#[test]
fn a_hub_that_says_where_a_member_is_not_leads_to_nobody_else() {
    let lab = Lab::new();
    let (other, _) = lab.executor("ws8", Telling::default());
    let false_address = Telling { addresses: vec![other.address().to_string()], ..Telling::default() };
    let (meant, _) = lab.executor("ws7", false_address);
    let (ada, at) = (lab.ada(), Address { host: "ws7.club.phalanx".to_owned(), port: 7400 });
    Paths::register("club", ada.clone(), lab.hubs.clone(), HashMap::new());
    let named = HashMap::from([(at.to_string(), "ws7".to_owned())]);
    let dialler = Dialler::new(ada, named, None);
    let (create, members, policy) = (Some(SpaceOptions::default()), Vec::new(), Policy::default());
    let connect = Connect { policy, dialler: Some(dialler.clone()), create, members, patience: PATIENCE };
    let client = Client::connect(format!("{at}/todo").parse().unwrap(), &connect).unwrap();
    assert_eq!(client.peer(), Some("ws7"), "ws8 has not proved the name, and the hub carries the link");
    client.close();
    drop(meant);
    let gone = ask_all(&[at], &dialler).remove(0).unwrap_err();
    assert!(gone.contains("ws7"), "{gone}");
}

#[test]
fn a_member_is_found_where_it_was_while_no_hub_answers() {
    let mut lab = Lab::new();
    let (executor, _) = lab.executor("near", Telling::default());
    let last = HashMap::from([("near".to_owned(), executor.address().to_string())]);
    let ada = lab.ada();
    drop(lab.server.take());
    Paths::register("attic", ada.clone(), lab.hubs.clone(), last);
    let at = |name: &str| Address { host: format!("{name}.attic.phalanx"), port: 7400 };
    ask_all(&[at("near")], &Dialler::from(ada.clone())).remove(0).unwrap();
    let unknown = ask_all(&[at("far")], &Dialler::from(ada)).remove(0).unwrap_err();
    assert!(unknown.contains("no hub of the grid answers"), "{unknown}");
}

#[test]
fn an_executor_is_where_the_hub_sees_it_and_where_its_own_network_does() {
    let lab = Lab::new();
    let (_executor, ws7) = lab.executor("ws7", Telling::default());
    let enter = |addresses: &[&str], port| {
        let addresses = addresses.iter().map(|it| (*it).to_owned()).collect();
        let entering = ToHub::Enter { addresses, port, facts: BTreeMap::new(), phalanx: VERSION.to_owned() };
        match lab.at_hub(&ws7).ask(&entering).unwrap().0 {
            FromHub::Entered { addresses, .. } => addresses,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(enter(&["10.0.0.2:7400"], 7400), ["127.0.0.1:7400", "10.0.0.2:7400"]);
    assert_eq!(enter(&["127.0.0.1:7400"], 7400), ["127.0.0.1:7400"]);
    assert_eq!(enter(&["ws7.example.org:7500"], 0), ["ws7.example.org:7500"], "it knows better");
}

#[test]
fn executors_say_which_programs_they_find_and_users_alone_ask() {
    let lab = Lab::new();
    let (_executor, ws7) = lab.executor("ws7", Telling::default());
    let programs = ["sh", "no-such-program"].map(str::to_owned);
    let mut hub = lab.at_hub(&lab.ada());
    let rows = hub.seek_and_wait(&programs).unwrap();
    let facts = &rows.iter().find(|row| row.name == "ws7").unwrap().facts;
    let told = ["has sh", "has no-such-program"].map(|name| facts.get(name).map(String::as_str));
    assert_eq!(told, [Some("yes"), Some("no")]);
    for wrong in [vec!["/bin/sh".to_owned()], vec!["x".to_owned(); 17]] {
        assert!(refusal(hub.seek(&wrong)).contains("no names of programs"));
    }
    assert!(refusal(lab.at_hub(&ws7).seek(&programs)).contains("only users"), "an executor is no user");
}

#[test]
fn a_watcher_sees_the_executors_that_have_what_is_needed() {
    let lab = Lab::new();
    let telling = |label: &str| Telling {
        facts: [("labels".to_owned(), label.to_owned()), ("cores".to_owned(), "2".to_owned())].into(),
        ..Telling::default()
    };
    let _both = ["one", "two"].map(|name| lab.executor(name, telling(&format!("lab-{name} all"))));
    Paths::register("cellar", lab.ada(), lab.hubs.clone(), HashMap::new());
    let seen = |label: &str, cores| {
        let needs = Needs { cores, labels: vec![label.to_owned()], ..Needs::default() };
        phalanx_net::dial::watch("cellar", &needs).unwrap()()
    };
    assert_eq!(seen("all", 2).unwrap(), ["one", "two"]);
    assert_eq!(seen("lab-two", 1).unwrap(), ["two"]);
    let none = seen("lab-two", 3).unwrap_err();
    assert_eq!(none.kind(), std::io::ErrorKind::NotFound);
    assert!(none.to_string().starts_with("no executor of the grid cellar has 3 cores: one lacks 3 cores"), "{none}");
}

/// Opens a space at a member, whose name leads there.
fn open_space(grid: &str, name: &str, ada: &Member) -> Arc<Client> {
    let at = Address { host: format!("{name}.{grid}.phalanx"), port: 7400 };
    let named = HashMap::from([(at.to_string(), name.to_owned())]);
    let (dialler, create) = (Some(Dialler::new(ada.clone(), named, None)), Some(SpaceOptions::default()));
    let connect = Connect { policy: Policy::default(), dialler, create, members: Vec::new(), patience: PATIENCE };
    Client::connect(format!("{at}/todo").parse().unwrap(), &connect).unwrap()
}

#[test]
fn members_see_what_executors_run_and_what_the_hub_relays() {
    let lab = Lab::new();
    let unreachable = Telling { addresses: vec!["127.0.0.1:1".to_owned()], ..Telling::default() };
    let (_far, far) = lab.executor("far", unreachable);
    let (_near, _) = lab.executor("near", Telling::default());
    let ada = lab.ada();
    Paths::register("loft", ada.clone(), lab.hubs.clone(), HashMap::new());
    let mut hub = lab.at_hub(&ada);
    let mut wait = |what: &str, is_so: &dyn Fn(&[StatusRow]) -> bool| {
        let until = Instant::now() + PATIENCE;
        loop {
            let found = hub.statuses().unwrap();
            if is_so(&found.executors) {
                return found;
            }
            assert!(Instant::now() < until, "{what}: {found:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let idle = Status { capacity: 1, ..Status::default() };
    let are_idle = |rows: &[StatusRow]| rows.iter().all(|row| row.is_here && row.status.as_ref() == Some(&idle));
    assert_eq!(wait("nothing runs", &are_idle).relays, 0);
    let clients = ["far", "near"].map(|name| open_space("loft", name, &ada));
    let running = |row: &StatusRow| row.status.as_ref().map(|it| it.running.clone()).unwrap_or_default();
    let found = wait("two clients", &|rows| rows.iter().all(|row| !running(row).is_empty()));
    for (row, is_relayed) in found.executors.iter().zip([true, false]) {
        let [Running { user, what, level, is_relayed: is, count, .. }] = &running(row)[..] else { panic!("{row:?}") };
        assert_eq!((user.as_str(), *what, *is, *count), ("ada", What::Spaces, is_relayed, 1), "{row:?}");
        assert!(level.is_some());
    }
    let who = |role: &str, name: &str| (role.to_owned(), name.to_owned());
    let relay = &found.relayed[0];
    assert_eq!((found.relays, &relay.ends), (1, &[who("user", "ada"), who("executor", "far")]));
    assert!(relay.bytes > 0);
    clients.iter().for_each(|client| client.close());
    wait("the end of both", &are_idle);
    let until = Instant::now() + PATIENCE;
    while wait("the end of both", &are_idle).relays > 0 {
        assert!(Instant::now() < until, "the relayed link has not ended");
    }
    assert!(wait("the end", &are_idle).bytes > 0, "what was relayed is remembered");
    assert!(refusal(lab.at_hub(&far).statuses()).contains("may not do this"), "an executor is no user");
    let long = Status { last_loss: "x".repeat(201), ..Status::default() };
    assert!(refusal(lab.at_hub(&far).ask(&ToHub::Status(long))).contains("tell little"));
    assert!(refusal(lab.at_hub(&ada).ask(&ToHub::Status(Status::default()))).contains("only executors"));
}

#[test]
fn a_stranger_gets_nothing_carried() {
    let lab = Lab::new();
    let dialled = phalanx_net::dial::dial(&(&lab.hubs[0].parse::<Address>().unwrap()).into(), PATIENCE).unwrap();
    dialled.socket.set_patience(Some(PATIENCE)).unwrap();
    let mut socket = dialled.through([7; 16], PATIENCE).unwrap();
    next_line(&lab.log, "a link that nobody has arranged");
    use std::io::Read;
    assert_eq!(socket.until(Instant::now() + PATIENCE).read(&mut [0]).unwrap_or_default(), 0);
}

#[test]
fn a_hub_without_its_files_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let error = Place::new(Path::new(folder.path())).settings("lab", &[], Vec::new()).unwrap_err();
    assert!(error.to_string().contains("issuer.pem"), "{error}");
}
