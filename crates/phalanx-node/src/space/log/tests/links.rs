//! Members that talk as they would in different processes: TLS over TCP, with certificates and names.

use super::damage::Folder;
use super::wire::until;
use super::*;
use crate::door::{Door, Wanted, refused};
use crate::space::log::replicated::{Kept, Leader, Leading, Links, Replicated, Timing, serve};
use phalanx_core::space::Replica;
use phalanx_net::identity::{Authority, Member, Role};
use phalanx_net::socket::Listener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Longer than in [`super::wire`], because the handshakes of these members cost more.
const TIMING: Timing = Timing { beat: Duration::from_millis(200) };
const NAMES: [&str; 3] = ["one", "two", "three"];

struct Machine {
    door: Arc<Door>,
    replicated: Arc<Replicated>,
    name: String,
    address: String,
    log: Arc<Mutex<Vec<String>>>,
    closed: Arc<AtomicBool>,
    _folder: Folder,
}

/// A machine of the grid with the name `name`. It keeps the space for members with these names.
fn machine(authority: &Authority, number: u64, name: &str, names: &[&str]) -> Machine {
    let own = Arc::new(Member::parse(&authority.issue(Role::Executor, name).unwrap(), Role::Executor).unwrap());
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap().to_string();
    let (kept, log) = (Arc::new(OnceLock::<Arc<Kept>>::new()), Arc::new(Mutex::new(Vec::new())));
    let (found, told, member) = (kept.clone(), log.clone(), own.clone());
    let over = Arc::new(AtomicBool::new(false));
    let closed = over.clone();
    let find = move |space: &str| found.get().filter(|_| space == "lab").cloned();
    let serve = move |peer, wanted| match wanted {
        Wanted::Replica => serve(peer, &member, &find, || over.load(Ordering::Relaxed)),
        _ => Err(refused("members only")),
    };
    let log_line = crate::log::Log::new(move |_, line| told.lock().unwrap().push(line.to_owned()));
    let door = Door::open(vec![listener], None, Box::new(serve), log_line).unwrap();
    let folder = Folder::new();
    let network = Arc::new(Links::new(own, "lab"));
    let replicated = Replicated::start(number, &folder.file(), TIMING, network).unwrap();
    assert!(kept.set(Arc::new(Kept::new(replicated.clone(), names))).is_ok());
    let name = name.to_owned();
    Machine { door, replicated, name, address, log, closed, _folder: folder }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        self.replicated.stop();
        self.door.close();
    }
}

fn member(machine: &Machine) -> Replica {
    Replica { name: machine.name.clone(), address: machine.address.clone() }
}

fn members(machines: &[Machine]) -> BTreeMap<u64, Replica> {
    (1..).zip(machines.iter().map(member)).collect()
}

fn found(machines: &[Machine]) {
    machines[0].replicated.found(&members(machines)).unwrap();
}

fn leader(machines: &[Machine]) -> Option<usize> {
    machines.iter().position(|machine| machine.replicated.leader() == Leader::Here)
}

/// Waits for a member that leads. Returns its index, its log, and the state.
fn lead(machines: &[Machine]) -> (usize, Leading, Vec<Change>) {
    let mut led = None;
    until("somebody leads", || {
        let mut state = Vec::new();
        let take = |change| {
            state.push(change);
            Ok(())
        };
        let leading = leader(machines).and_then(|it| Some((it, machines[it].replicated.lead(take).ok()?)));
        led = leading.map(|(it, log)| (it, log, state));
        led.is_some()
    });
    led.unwrap()
}

/// Another member may lead: on a busy machine, a leader's beats can come too late. Returns the state.
fn lead_again(machines: &[Machine], led: &mut (usize, Leading)) -> Vec<Change> {
    let (index, log, state) = lead(machines);
    *led = (index, log);
    state
}

/// Keeps changes that put the tuple `number`. When the leader changes, the state of the next one tells whether they were
/// kept.
fn keep(machines: &[Machine], led: &mut (usize, Leading), number: u64, changes: Vec<Change>) {
    while let Err(error) = led.1.wait(led.1.append(changes.clone())) {
        assert!(matches!(error, LogError::NotLeading { .. }), "{error}");
        if tuples(&lead_again(machines, led)).contains_key(&number) {
            return;
        }
    }
}

#[test]
fn members_keep_a_space_over_links() {
    let authority = Authority::create().unwrap();
    let mut machines: Vec<_> =
        NAMES.iter().zip(1..).map(|(name, number)| machine(&authority, number, name, &NAMES)).collect();
    found(&machines);
    let (first, log, _) = lead(&machines);
    let mut led = (first, log);
    for n in 0..30 {
        keep(&machines, &mut led, n, group(n));
    }
    keep(&machines, &mut led, 1000, vec![put(1000, &"z".repeat(8 << 20))]);
    while led.1.confirm(led.1.position()).is_err() {
        lead_again(&machines, &mut led);
    }
    let (first, log) = led;
    drop(log);
    drop(machines.remove(first));
    let (second, log, state) = lead(&machines);
    assert_eq!(tuples(&state).into_keys().collect::<Vec<_>>(), [numbers_after(30), vec![1000]].concat());
    keep(&machines, &mut (second, log), 30, group(30));
}

#[test]
fn an_executor_that_is_no_member_is_not_heard_and_hears_nothing() {
    let authority = Authority::create().unwrap();
    // The third machine believes that it is a member; the others do not.
    let machines: Vec<_> = (1..=3)
        .zip([("one", &NAMES[..2]), ("two", &NAMES[..2]), ("three", &NAMES[..])])
        .map(|(number, (name, names))| machine(&authority, number, name, names))
        .collect();
    machines[2].replicated.found(&members(&machines)).unwrap();
    until("it is refused", || {
        machines[0].log.lock().unwrap().iter().any(|line| line.contains("three is no member of a space lab"))
    });
    assert_eq!(leader(&machines), None);
    // Neither does a member ask a stranger that has got a member's address.
    found(&machines[..2]);
    until("the members lead without it", || leader(&machines[..2]).is_some());
    let strangers = Authority::create().unwrap();
    let stranger = machine(&strangers, 9, "one", &NAMES);
    let known = [(9, member(&stranger)), (1, member(&machines[0]))];
    stranger.replicated.found(&known.into()).unwrap();
    let line = |log: &str| log.contains("refused 127.0.0.1") && !log.contains("no member of a space");
    until("a stranger is refused by the handshake", || machines[0].log.lock().unwrap().iter().any(|log| line(log)));
    assert_eq!(leader(std::slice::from_ref(&stranger)), None);
}
