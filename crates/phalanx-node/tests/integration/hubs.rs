//! A grid with three hubs, of which one is lost: what was accepted is there, and what comes is served.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::options;
use phalanx_core::hub::Token;
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_net::socket::Listener;
use phalanx_node::cage::{Cage, Settings};
use phalanx_node::executor::{Executor, Options};
use phalanx_node::hub::{Founded, Hub, HubServer, LASTS, Place};
use phalanx_node::log::Log;
use phalanx_node::membership::{AtHub, Telling, join, join_as_hub};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

struct Site {
    folder: TempDir,
    /// The hubs that run, by the number of their folder.
    hubs: Vec<Option<HubServer>>,
    /// Where each hub is or was.
    addresses: Vec<String>,
}

/// An address at which nothing listens now.
fn free() -> String {
    Listener::bind("127.0.0.1:0").unwrap().address().unwrap().to_string()
}

fn until<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(done) = done() {
            return done;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Site {
    /// A grid with one hub, `hub0`, and its owner ada.
    fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let founded = Founded::by(&Authority::create().unwrap(), "hub0").unwrap();
        let place = folder.path().join("0");
        fs::create_dir_all(place.join("hub")).unwrap();
        fs::write(place.join("hub/issuer.pem"), founded.issuer.as_str()).unwrap();
        fs::write(place.join("hub/hub.pem"), founded.hub.as_str()).unwrap();
        let issuer = Authority::parse(&founded.issuer, None).unwrap();
        fs::write(place.join("user.pem"), issuer.issue_for(Role::User, "ada", Some(PATIENCE * 60)).unwrap().as_str())
            .unwrap();
        let mut site = Site { folder, hubs: vec![None], addresses: vec![free()] };
        site.start(0);
        site
    }

    /// A grid with three hubs.
    fn of_three() -> Site {
        let mut site = Site::new();
        for number in 1..3 {
            let token = site.invite(Role::Hub, 1);
            let new = join_as_hub(&token, &format!("hub{number}"), LASTS).unwrap();
            let place = site.folder.path().join(number.to_string());
            fs::create_dir_all(place.join("hub")).unwrap();
            fs::write(place.join("hub/issuer.pem"), new.issuer.as_str()).unwrap();
            fs::write(place.join("hub/hub.pem"), new.hub.as_str()).unwrap();
            fs::write(place.join("hub/joined"), new.hubs.join("\n")).unwrap();
            site.hubs.push(None);
            site.addresses.push(free());
            site.start(number);
            until("the hub is taken in", || (site.known().len() == number + 1).then_some(()));
        }
        site
    }

    fn start(&mut self, number: usize) {
        let place = Place::new(self.folder.path().join(number.to_string()));
        let address = self.addresses[number].clone();
        let owners = if number == 0 { vec!["ada".to_owned()] } else { Vec::new() };
        let settings = place.settings("lab", &owners, vec![address.clone()]).unwrap();
        let log = Log::new(move |_, text| println!("hub{number}: {text}"));
        let hub: Arc<Hub> = Hub::open(settings, log.clone()).unwrap();
        let server = until("the address is free", || HubServer::start(&address, hub.clone(), log.clone()).ok());
        self.hubs[number] = Some(server);
    }

    fn member(&self, name: &str, identity: &str, role: Role) -> Member {
        let at = self.folder.path().join(name);
        fs::create_dir_all(&at).unwrap();
        let file = at.join("identity.pem");
        fs::write(&file, identity).unwrap();
        let member = Member::parse(identity, role).unwrap().heeding(vec![at.join("revoked.txt")]);
        member.renewing(Some(file), vec![at.join("renewed.pem")]).unwrap()
    }

    fn ada(&self) -> Member {
        let text = fs::read_to_string(self.folder.path().join("0/user.pem")).unwrap();
        self.member("ada", &text, Role::User)
    }

    fn ask(&self) -> AtHub {
        AtHub::open(&self.ada(), &self.addresses).unwrap()
    }

    fn invite(&self, role: Role, uses: u32) -> Token {
        self.ask().invite(role.name().to_owned(), uses, 600).unwrap().parse().unwrap()
    }

    /// The names of the hubs, the one that leads first.
    fn known(&self) -> Vec<String> {
        let rows = self.ask().members().unwrap().0;
        let mut hubs: Vec<_> = rows.into_iter().filter(|row| row.role == "hub" && row.is_here).collect();
        hubs.sort_by_key(|row| row.facts.get("leads").is_none_or(|it| it != "yes"));
        hubs.into_iter().map(|row| row.name).collect()
    }

    fn leader(&self) -> usize {
        self.known()[0].strip_prefix("hub").unwrap().parse().unwrap()
    }

    fn stop(&mut self, number: usize) {
        drop(self.hubs[number].take());
    }

    fn is_here(&self, name: &str) -> bool {
        let rows = self.ask().members().unwrap().0;
        rows.iter().any(|row| row.name == name && row.is_here)
    }

    fn executor(&self, name: &str) -> Executor {
        let joined = join(&self.invite(Role::Executor, 1), name).unwrap();
        let member = self.member(name, &joined.identity, Role::Executor);
        let options = Options { cage: Cage::new(Settings::default()).unwrap(), ..options() };
        let executor = Executor::start("127.0.0.1:0", member, options, Log::nowhere()).unwrap();
        executor.stay(joined.hubs, None, Telling::default()).unwrap();
        assert!(executor.wait_for_hub(PATIENCE), "{:?}", executor.hub_status());
        executor
    }
}

#[test]
fn any_hub_of_three_may_be_lost_and_nothing_that_was_accepted_is() {
    let mut site = Site::of_three();
    let ws7 = site.executor("ws7");
    let _eve = site.executor("eve");
    site.ask().expel("eve".to_owned()).unwrap();
    let (once, twice) = (site.invite(Role::Executor, 1), site.invite(Role::Executor, 2));
    join(&once, "ws8").unwrap();
    for round in 0..2 {
        let leader = site.leader();
        site.stop(leader);
        join(&twice, &format!("late{round}")).unwrap();
        let refused = join(&once, &format!("thief{round}")).map(drop).unwrap_err().to_string();
        assert!(refused.contains("the token is not good here"), "{refused}");
        until("the executor comes", || site.is_here("ws7").then_some(()));
        let names: Vec<String> = site.ask().members().unwrap().0.into_iter().map(|row| row.name).collect();
        assert!(names.contains(&"ws8".to_owned()) && !names.contains(&"eve".to_owned()), "{names:?}");
        assert_ne!(site.leader(), leader);
        site.start(leader);
        until("the hub is back", || (site.known().len() == 3).then_some(()));
    }
    assert!(join(&twice, "more").is_err());
    assert!(ws7.expelled().is_none());
}

#[test]
fn a_hub_that_is_expelled_leads_no_more_and_its_members_renew_at_another_one() {
    let mut site = Site::of_three();
    let first = site.leader();
    site.stop(first);
    let second = site.leader();
    site.start(first);
    until("the hub is back", || (site.known().len() == 3).then_some(()));
    assert_ne!(first, second);
    let ws7 = site.executor("ws7"); // the second hub has made its certificate
    site.stop(second);
    let name = format!("hub{second}");
    let revoked = site.ask().expel(name.clone()).unwrap();
    assert!(revoked >= 1);
    assert!(!site.known().contains(&name));
    until("the executor comes with a new certificate", || site.is_here("ws7").then_some(()));
    assert!(ws7.expelled().is_none());
    // The others do not hear the hub that was expelled, and it finds out.
    let place = Place::new(site.folder.path().join(second.to_string()));
    let settings = place.settings("lab", &[], vec![site.addresses[second].clone()]);
    let hub = settings.and_then(|settings| Hub::open(settings, Log::nowhere()));
    if let Ok(hub) = hub {
        let server = HubServer::start(&site.addresses[second], hub.clone(), Log::nowhere()).unwrap();
        until("the hub knows that it was expelled", || hub.expelled());
        drop(server);
    }
    assert_eq!(site.known().len(), 2);
}
