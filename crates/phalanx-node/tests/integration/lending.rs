//! A grid that lends an executor to another one: what the owner of the machine allows holds, whatever a hub says.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use crate::hub::Lab;
use crate::options;
use phalanx_core::hub::MAY_LEND;
use phalanx_core::wire::hub::{Facts, LoanRow, LoanTerms};
use phalanx_net::identity::Role;
use phalanx_node::cage::{Cage, Settings};
use phalanx_node::executor::{Executor, Lendable, Options};
use phalanx_node::log::Log;
use phalanx_node::membership::{Telling, join};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "no {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An executor of the lab that tells that four places may be lent, whatever its owner says.
fn executor(lab: &Lab, lendable: Option<Lendable>, log: Log) -> Executor {
    let joined = join(&lab.invite(Role::Executor, 1), "ws7").unwrap();
    let member = lab.member("ws7", &joined.identity, Role::Executor);
    let cage = Cage::new(Settings::default()).unwrap();
    let options = Options { cage, capacity: 8, lendable, ..options() };
    let executor = Executor::start("127.0.0.1:0", member, options, log).unwrap();
    let facts = Facts::from([(MAY_LEND.to_owned(), "4".to_owned())]);
    executor.stay(joined.hubs, None, Telling { facts, ..Telling::default() }).unwrap();
    assert!(executor.wait_for_hub(PATIENCE), "{:?}", executor.hub_status());
    executor
}

fn lend(lab: &Lab, campus: &Lab) {
    let token = campus.invite(Role::Executor, 1).to_string();
    let terms = LoanTerms { token, members: 1, labels: Vec::new(), accepted: Vec::new(), places: 4 };
    // Both hubs call their grid lab. A grid is known by its root, and the name is what the token says.
    assert_eq!(lab.at_hub(&lab.ada()).lend(terms).unwrap(), "lab");
}

fn loan(lab: &Lab) -> LoanRow {
    lab.at_hub(&lab.ada()).loans().unwrap().remove(0)
}

#[test]
fn the_owner_of_a_machine_decides_and_not_the_hub() {
    let (lab, campus) = (Lab::new(), Lab::new());
    let (sender, log) = channel();
    let _executor = executor(&lab, None, Log::new(move |_, text| drop(sender.send(text.to_owned()))));
    lend(&lab, &campus);
    until("refusal", || log.try_iter().find(|line| line.contains("its owner does not let it")));
    assert_eq!(loan(&lab).guests[0].why, "", "it has said nothing");
    let (rows, _) = campus.at_hub(&campus.ada()).members().unwrap();
    assert!(rows.iter().all(|row| row.role != "executor"), "{rows:?}");
}

#[test]
fn an_executor_is_lent_with_no_more_places_than_its_owner_says() {
    let (lab, campus) = (Lab::new(), Lab::new());
    let cage = Cage::new(Settings::default());
    let lendable = Lendable { places: 1, cage, folder: lab.folder.path().join("guest") };
    let _executor = executor(&lab, Some(lendable), Log::nowhere());
    lend(&lab, &campus);
    until("guest", || loan(&lab).guests.iter().find(|guest| guest.is_in).map(drop));
    let row = until("member", || {
        let (rows, _) = campus.at_hub(&campus.ada()).members().unwrap();
        rows.into_iter().find(|row| row.name == "ws7-lab" && row.is_here)
    });
    assert_eq!((row.facts["interpreters"].as_str(), row.facts.get(MAY_LEND)), ("1", None), "it is not lent further");
    assert_eq!(campus.at_hub(&campus.ada()).statuses().unwrap().executors[0].name, "ws7-lab");
    let status = until("status", || campus.at_hub(&campus.ada()).statuses().unwrap().executors[0].status.clone());
    assert_eq!((status.capacity, status.used), (1, 0));
    lab.at_hub(&lab.ada()).end_loan("lab".to_owned()).unwrap();
    until("end", || {
        let (rows, _) = campus.at_hub(&campus.ada()).members().unwrap();
        rows.iter().all(|row| row.name != "ws7-lab").then_some(())
    });
}

#[test]
fn a_cage_that_does_not_keep_users_apart_is_not_lent() {
    let (lab, campus) = (Lab::new(), Lab::new());
    let cage = Err("the cage does not keep users of two grids apart".to_owned());
    let lendable = Lendable { places: 1, cage, folder: lab.folder.path().join("guest") };
    let _executor = executor(&lab, Some(lendable), Log::nowhere());
    lend(&lab, &campus);
    until("refusal", || loan(&lab).refused.contains("does not keep users of two grids apart").then_some(()));
}
