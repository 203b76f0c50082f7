use super::super::tests::{asking, good, hub};
use super::*;
use crate::hub::Id;
use crate::wire::hub::Status;

const ID: Id = [1; 32];

fn token(grid: &str, role: &str, root: u8) -> String {
    let hubs = vec!["10.0.0.5:7400".to_owned()];
    Token { grid: grid.into(), role: role.into(), hubs, root: [root; 32], secret: [2; 16] }.to_string()
}

fn terms(members: u32) -> LoanTerms {
    LoanTerms {
        token: token("campus", "executor", 1),
        members,
        labels: Vec::new(),
        accepted: vec!["bob".into()],
        places: 4,
    }
}

fn executor(name: &str) -> Who {
    Who::new("executor", name)
}

fn facts(told: &[(&str, &str)]) -> Facts {
    told.iter().map(|(name, fact)| ((*name).to_owned(), (*fact).to_owned())).collect()
}

/// A hub with the executors `ws7`, `ws8` and `ws9` at the links 7, 8 and 9. The first two may be lent, and the first has a label.
fn with_three() -> Hub {
    let mut hub = hub();
    hub.invite(0, "ada", (ID, "executor"), 9, 60).expect("ada is an owner");
    for name in ["ws7", "ws8", "ws9"] {
        hub.join(1, ID, asking("executor", name), good(name, 1 << 40)).expect("is invited");
    }
    hub.enter(2, 7, &executor("ws7"), Vec::new(), facts(&[(MAY_LEND, "2"), ("labels", "gpu")])).expect("is a member");
    hub.enter(2, 8, &executor("ws8"), Vec::new(), facts(&[(MAY_LEND, "8")])).expect("is a member");
    hub.enter(2, 9, &executor("ws9"), Vec::new(), Facts::new()).expect("is a member");
    hub
}

/// The links that are told, with the names and places of guests.
fn told(hub: &mut Hub, now: u64) -> Vec<(u64, Option<(String, u32)>)> {
    let mut told: Vec<_> = hub.look_after_loans(now, "lab").1;
    told.sort_by_key(|(link, _)| *link);
    told.into_iter().map(|(link, terms)| (link, terms.map(|it| (it.name, it.places)))).collect()
}

fn guest(name: &str, places: u32) -> Option<(String, u32)> {
    Some((name.to_owned(), places))
}

fn says(hub: &mut Hub, now: u64, link: u64, name: &str, (is_in, is_over): (bool, bool)) -> usize {
    let state = GuestState { grid: "campus".into(), is_in, is_over, why: "why".into() };
    hub.guest_says(now, link, &executor(name), state).len()
}

fn guests(hub: &Hub) -> Vec<String> {
    hub.loans("ada", "lab", None).expect("ada is an owner")[0].guests.iter().map(|it| it.name.clone()).collect()
}

#[test]
fn executors_are_lent_whose_owners_allow_it_within_both_bounds() {
    let mut hub = with_three();
    assert_eq!(told(&mut hub, 3), [(7, None), (8, None)], "they may have been guests before");
    assert_eq!(hub.lend(4, "ada", terms(5)).expect("ada is an owner").0, "campus");
    assert_eq!(told(&mut hub, 4), [(7, guest("ws7-lab", 2)), (8, guest("ws8-lab", 4))], "ws9 is not lent");
    assert_eq!(told(&mut hub, 5), [], "they know it");
    let rows = hub.loans("ada", "lab", None).expect("ada is an owner");
    assert_eq!((rows[0].terms.token.as_str(), rows[0].terms.members), ("", 5), "no token is told");
    assert!(!format!("{rows:?}{:?}", hub.lending.loans).contains("phalanx1"), "nor logged");
    assert_eq!(hub.end_loan("ada", "campus").expect("ada is an owner"), [Change::Loan("campus".into(), None)]);
    assert_eq!(told(&mut hub, 6), [(7, None), (8, None)]);
}

#[test]
fn only_members_with_the_labels_are_lent_and_idle_ones_first() {
    let mut hub = with_three();
    hub.lend(3, "ada", LoanTerms { labels: vec!["gpu".into()], ..terms(2) }).expect("ada is an owner");
    told(&mut hub, 3);
    assert_eq!(guests(&hub), ["ws7"]);
    hub.runs(7, &executor("ws7"), Status { used: 1, ..Status::default() });
    hub.end_loan("ada", "campus").expect("ada is an owner");
    hub.lend(4, "ada", terms(1)).expect("ada is an owner");
    told(&mut hub, 4);
    assert_eq!(guests(&hub), ["ws8"], "ws7 is in use");
}

#[test]
fn a_guest_that_is_lost_is_replaced_after_a_while_and_one_that_is_expelled_at_once() {
    let mut hub = with_three();
    hub.lend(3, "ada", terms(1)).expect("ada is an owner");
    told(&mut hub, 3);
    assert_eq!(guests(&hub), ["ws7"]);
    hub.go(10, 7, &executor("ws7"));
    assert_eq!(told(&mut hub, 10 + AWAY - 1), [], "it may come back");
    assert_eq!(told(&mut hub, 10 + AWAY), [(8, guest("ws8-lab", 4))]);
    hub.enter(50, 70, &executor("ws7"), Vec::new(), facts(&[(MAY_LEND, "2")])).expect("is a member");
    assert_eq!(told(&mut hub, 50), [(70, None)], "another one has its place");
    hub.expel(51, "ada", "ws8").expect("ada is an owner");
    assert_eq!(told(&mut hub, 51), [(70, guest("ws7-lab", 2))]);
    hub.enter(52, 71, &executor("ws7"), Vec::new(), Facts::new()).expect("is a member");
    assert_eq!(told(&mut hub, 52), [], "its owner lends it no more");
    assert_eq!(guests(&hub), [""; 0]);
}

#[test]
fn a_hub_that_has_just_started_waits_for_its_guests() {
    let mut hub = with_three();
    let mut changes = hub.lend(3, "ada", terms(1)).expect("ada is an owner").1;
    changes.extend(hub.look_after_loans(3, "lab").0);
    let mut again = Hub { members: hub.members.clone(), ..Hub::default() };
    changes.into_iter().for_each(|change| again.fill(change));
    assert_eq!(told(&mut again, 1000), []);
    assert_eq!(guests(&again), ["ws7"]);
    again.enter(1010, 1, &executor("ws8"), Vec::new(), facts(&[(MAY_LEND, "8")])).expect("is a member");
    assert_eq!(told(&mut again, 1000 + AWAY - 1), [(1, None)]);
    assert_eq!(told(&mut again, 1000 + AWAY), [(1, guest("ws8-lab", 4))]);
}

#[test]
fn an_executor_that_cannot_join_is_set_aside_and_others_are_tried_later() {
    let mut hub = with_three();
    hub.lend(3, "ada", terms(1)).expect("ada is an owner");
    told(&mut hub, 3);
    assert_eq!(says(&mut hub, 4, 7, "ws7", (false, true)), 1);
    assert_eq!(told(&mut hub, 4), [(7, None)]);
    assert_eq!(hub.loans("ada", "lab", None).expect("ada is an owner")[0].refused, "ws7: why");
    assert_eq!(told(&mut hub, 4 + PAUSE), [(8, guest("ws8-lab", 4))]);
    assert_eq!(says(&mut hub, 70, 8, "ws8", (false, true)), 1);
    assert_eq!(told(&mut hub, 70 + PAUSE), [(8, None)], "both are set aside");
    hub.lend(200, "ada", terms(1)).expect("ada is an owner");
    assert_eq!(told(&mut hub, 200), [(7, guest("ws7-lab", 2))], "the token is a new one");
}

#[test]
fn the_hub_alone_marks_guests_and_only_while_the_other_grid_knows_them() {
    let mut hub = with_three();
    hub.lend(3, "ada", terms(1)).expect("ada is an owner");
    told(&mut hub, 3);
    let lent = |hub: &Hub, name| hub.row_of(&executor(name)).expect("is a member").facts.get(LENT_TO).cloned();
    assert_eq!(lent(&hub, "ws7"), None);
    assert_eq!(says(&mut hub, 4, 8, "ws7", (true, false)), 0, "over the link of another member");
    assert_eq!(lent(&hub, "ws7"), None);
    says(&mut hub, 4, 7, "ws7", (true, false));
    says(&mut hub, 4, 9, "ws9", (true, false));
    assert_eq!((lent(&hub, "ws7"), lent(&hub, "ws9")), (Some("campus".into()), None));
    hub.enter(5, 90, &executor("ws9"), Vec::new(), facts(&[(LENT_TO, "campus")])).expect("is a member");
    assert_eq!(lent(&hub, "ws9"), None);
}

#[test]
fn an_executor_is_lent_to_one_grid_at_a_time() {
    let mut hub = with_three();
    hub.lend(3, "ada", terms(1)).expect("ada is an owner");
    hub.lend(3, "ada", LoanTerms { token: token("town", "executor", 9), ..terms(2) }).expect("ada is an owner");
    told(&mut hub, 3);
    let rows = hub.loans("ada", "lab", None).expect("ada is an owner");
    let all: Vec<(&str, Vec<&str>)> =
        rows.iter().map(|row| (&row.grid[..], row.guests.iter().map(|it| &it.name[..]).collect())).collect();
    assert_eq!(all, [("campus", vec!["ws7"]), ("town", vec!["ws8"])]);
    assert_eq!(hub.loans("ada", "lab", Some("campus")).expect("ada is an owner").len(), 1);
}

#[test]
fn what_is_no_loan_is_refused() {
    let mut hub = with_three();
    hub.lend(3, "ada", terms(1)).expect("ada is an owner");
    let user = token("campus", "user", 1);
    let long = vec!["a".to_owned(); MOST_ACCEPTED + 1];
    for wrong in [
        LoanTerms { token: "phalanx1-nonsense".into(), ..terms(1) },
        LoanTerms { token: "x".repeat(LONGEST_TOKEN + 1), ..terms(1) },
        LoanTerms { token: user, ..terms(1) },
        LoanTerms { token: token("Campus One", "executor", 1), ..terms(1) },
        LoanTerms { token: token("campus", "executor", 2), ..terms(1) },
        LoanTerms { accepted: long, ..terms(1) },
        LoanTerms { accepted: vec!["bob@lab".into()], ..terms(1) },
        LoanTerms { labels: vec!["../x".into()], ..terms(1) },
        LoanTerms { places: 0, ..terms(1) },
        terms(0),
        terms(MOST_LENT + 1),
    ] {
        assert!(matches!(hub.lend(4, "ada", wrong.clone()), Err(Refusal::Loan(_))), "{wrong:?}");
    }
    assert!(matches!(hub.lend(4, "bob", terms(1)), Err(Refusal::NoOwner { .. })));
    assert!(matches!(hub.end_loan("bob", "campus"), Err(Refusal::NoOwner { .. })));
    assert!(matches!(hub.loans("bob", "lab", None), Err(Refusal::NoOwner { .. })));
    assert!(matches!(hub.end_loan("ada", "town"), Err(Refusal::NoLoan(_))));
    for number in 1..MOST_LOANS {
        hub.lend(5, "ada", LoanTerms { token: token(&format!("g{number}"), "executor", 1), ..terms(1) })
            .expect("has room");
    }
    let one_more = LoanTerms { token: token("more", "executor", 1), ..terms(1) };
    assert!(matches!(hub.lend(6, "ada", one_more), Err(Refusal::Full(_))));
}

#[test]
fn names_of_guests_are_names_of_members() {
    assert_eq!(name_there("ws7", "lab"), "ws7-lab");
    let (long, grid) = ("a".repeat(LONGEST_NAME), "b".repeat(30));
    let there = name_there(&long, &grid);
    assert_eq!((there.len(), is_label(&there)), (LONGEST_NAME, true));
    assert_eq!(name_there(&format!("{}-x", "a".repeat(31)), &grid), format!("{}-{grid}", "a".repeat(31)));
    assert_eq!(name_there(&long, &long).len(), LONGEST_NAME);
}
