use super::super::tests::{asking, good, hub};
use super::*;
use crate::hub::{MOST_USES, State};

const ID: Id = [1; 32];
const OTHER: Id = [2; 32];

/// A hub with an invitation that makes an owner, by ada, until second 60.
fn inviting() -> Hub {
    let mut hub = hub();
    hub.invite(0, "ada", (ID, OWNER), 1, 60).expect("ada is an owner");
    hub
}

/// A hub with the owners ada and bob.
fn two_owners() -> Hub {
    let mut hub = inviting();
    hub.join_as_owner(1, ID, asking("user", "bob"), good("bob 1", 1000)).expect("is invited");
    hub
}

/// A hub with the owner ada, and the user bob.
fn with_a_user() -> Hub {
    let mut hub = hub();
    hub.invite(0, "ada", (OTHER, "user"), 1, 60).expect("ada is an owner");
    hub.join(1, OTHER, asking("user", "bob"), good("bob 1", 1000)).expect("is invited");
    hub
}

fn is_marked(hub: &Hub, name: &str) -> bool {
    hub.row_of(&Who::user(name)).expect("is a member").facts.contains_key(OWNER)
}

#[test]
fn an_owner_that_joins_may_do_what_the_first_one_may() {
    let mut hub = two_owners();
    assert!(is_marked(&hub, "bob") && is_marked(&hub, "ada"));
    hub.invite(2, "bob", (OTHER, "executor"), 2, 60).expect("bob is an owner");
    hub.join(3, OTHER, asking("executor", "ws7"), good("ws7", 1000)).expect("is invited");
    hub.expel(4, "bob", "ws7").expect("bob is an owner");
    hub.invite(5, "bob", ([3; 32], OWNER), 1, 60).expect("bob is an owner");
    hub.join_as_owner(6, [3; 32], asking("user", "eve"), good("eve", 1000)).expect("is invited");
    assert_eq!(hub.check_owner("eve"), Ok(()));
}

#[test]
fn an_invitation_makes_one_person_an_owner() {
    let mut hub = two_owners();
    assert_eq!(hub.check_join_as_owner(2, &ID, &asking("user", "eve")), Err(Refusal::Token));
    assert_eq!(hub.invite(2, "ada", (OTHER, OWNER), 2, 60), Err(Refusal::OneOwner));
    assert_eq!(hub.invite(2, "ada", (OTHER, OWNER), MOST_USES + 1, 60), Err(Refusal::Bounds));
    hub.invite(2, "ada", (OTHER, OWNER), 1, 60).expect("ada is an owner");
    assert_eq!(hub.check_join_as_owner(62, &OTHER, &asking("user", "eve")), Err(Refusal::Late));
}

#[test]
fn only_owners_invite_owners() {
    let mut hub = with_a_user();
    assert!(matches!(hub.invite(2, "bob", (ID, OWNER), 1, 60), Err(Refusal::NoOwner { .. })));
    assert_eq!(hub.check_join_as_owner(2, &ID, &asking("user", "bob")), Err(Refusal::Token));
}

#[test]
fn the_hubs_record_says_what_an_invitation_is_good_for() {
    let mut hub = inviting();
    hub.invite(0, "ada", (OTHER, "user"), 9, 60).expect("ada is an owner");
    for name in ["eve", "bob"] {
        let altered = hub.check_join_as_owner(1, &OTHER, &asking("user", name));
        assert_eq!(altered, Err(Refusal::Role("user".into())), "it is for users who are no owners");
        hub.join(1, OTHER, asking("user", name), good(name, 1000)).expect("is invited");
        assert!(!is_marked(&hub, name) && hub.check_owner(name).is_err());
    }
    let altered = hub.check_join_as_owner(2, &OTHER, &asking("user", "eve"));
    assert_eq!(altered, Err(Refusal::Role("user".into())), "also for those that have joined by it");
    assert_eq!(hub.check_join(2, &ID, &asking("user", "mallory")), Err(Refusal::Role(OWNER.into())));
    for role in ["executor", "hub"] {
        assert_eq!(hub.check_join(2, &ID, &asking(role, "ws7")), Err(Refusal::Role(OWNER.into())));
        assert_eq!(hub.check_join_as_owner(2, &ID, &asking(role, "ws7")), Err(Refusal::Role(OWNER.into())));
    }
    hub.join_as_owner(3, ID, asking("user", "mallory"), good("mallory", 1000)).expect("the invitation was not used");
}

#[test]
fn a_user_becomes_an_owner_and_keeps_the_key() {
    let mut hub = with_a_user();
    hub.invite(2, "ada", (ID, OWNER), 1, 60).expect("ada is an owner");
    let thief = Asking { key: "another".into(), ..asking("user", "bob") };
    assert_eq!(hub.check_join_as_owner(3, &ID, &thief), Err(Refusal::Taken("bob".into())));
    hub.join_as_owner(3, ID, asking("user", "bob"), good("bob 2", 1100)).expect("is invited");
    assert_eq!(hub.check_owner("bob"), Ok(()));
    assert_eq!(hub.check_join_as_owner(4, &ID, &asking("user", "eve")), Err(Refusal::Token), "it is used");
    let (revoked, _) = hub.expel(4, "ada", "bob").expect("ada is an owner");
    let all: Vec<Good> = revoked.into_iter().map(|(_, good)| good).collect();
    assert_eq!(all, [good("bob 1", 1000), good("bob 2", 1100)], "all that were handed out");
}

#[test]
fn an_owner_that_asks_again_is_answered_and_uses_no_invitation() {
    let mut hub = two_owners();
    hub.join_as_owner(2, ID, asking("user", "bob"), good("bob 2", 1000)).expect("the answer may have been lost");
    hub.invite(2, "ada", (OTHER, OWNER), 1, 60).expect("ada is an owner");
    hub.join_as_owner(3, OTHER, asking("user", "bob"), good("bob 3", 1000)).expect("bob is an owner");
    hub.join_as_owner(4, OTHER, asking("user", "eve"), good("eve", 1000)).expect("the invitation was not used");
    let again = |number| hub.join_as_owner(5, ID, asking("user", "bob"), good(&format!("{number}"), 1000)).is_ok();
    assert_eq!((0..100).map(again).filter(|is_ok| *is_ok).count(), 5, "a member has at most 8 good certificates");
}

#[test]
fn an_owner_whose_certificate_is_renewed_stays_one() {
    let mut hub = two_owners();
    let bob = asking("user", "bob");
    hub.renew(600, &bob, 1000, good("bob 2", 1600)).expect("is a member");
    hub.replace(601, &bob, good("bob 3", 1601)).expect("is a member");
    assert_eq!(hub.check_owner("bob"), Ok(()));
}

#[test]
fn owners_expel_each_other_and_one_is_always_left() {
    let mut hub = two_owners();
    hub.expel(2, "bob", "ada").expect("bob is an owner");
    assert_eq!(hub.check_owner("ada"), Err(Refusal::NoOwner { name: "ada".into(), owners: "bob".into() }));
    assert!(matches!(hub.expel(3, "ada", "bob"), Err(Refusal::NoOwner { .. })), "ada is none any more");
    assert_eq!(hub.expel(3, "bob", "bob"), Err(Refusal::LastOwner("bob".into())));
    assert_eq!(hub.leave(3, &Who::user("bob")), Err(Refusal::LastOwner("bob".into())));
}

#[test]
fn an_owner_that_leaves_ceases_to_be_one() {
    let mut hub = two_owners();
    hub.leave(2, &Who::user("bob")).expect("ada stays");
    assert!(hub.check_owner("bob").is_err());
    assert!(matches!(hub.leave(3, &Who::user("ada")), Err(Refusal::LastOwner(_))));
    hub.invite(3, "ada", (OTHER, "user"), 1, 60).expect("ada is an owner");
    hub.join(4, OTHER, asking("user", "bob"), good("bob 2", 1000)).expect("is invited");
    assert!(hub.check_owner("bob").is_err() && !is_marked(&hub, "bob"), "only as a user");
}

#[test]
fn the_invitations_of_an_owner_end_with_the_membership() {
    let end = [
        |hub: &mut Hub| hub.expel(3, "ada", "bob").map(|(_, changes)| changes),
        |hub: &mut Hub| hub.leave(3, &Who::user("bob")).map(|(_, changes)| changes),
    ];
    for end in end {
        let mut hub = two_owners();
        hub.invite(2, "bob", ([3; 32], OWNER), 1, 60).expect("bob is an owner");
        hub.invite(2, "bob", ([4; 32], "executor"), 9, 60).expect("bob is an owner");
        hub.invite(2, "ada", (OTHER, OWNER), 1, 60).expect("ada is an owner");
        let changes = end(&mut hub).expect("ada stays");
        let withdrawn = changes.iter().filter(|it| matches!(it, Change::Invitation(_, None))).count();
        assert_eq!(withdrawn, 2, "they are stored: {changes:?}");
        assert_eq!(hub.check_join_as_owner(4, &[3; 32], &asking("user", "bob")), Err(Refusal::Token));
        assert_eq!(hub.check_join(4, &[4; 32], &asking("executor", "ws7")), Err(Refusal::Token));
        assert_eq!(hub.check_join_as_owner(4, &OTHER, &asking("user", "eve")), Ok(()), "ada's is good");
    }
}

#[test]
fn the_machine_of_the_first_hub_brings_no_owner_back() {
    let new_key = Asking { key: "made anew".into(), ..asking("user", "ada") };
    let mut hub = two_owners();
    hub.found(0, asking("hub", "labpc"), good("labpc", 1000), false);
    assert_eq!(hub.found(2, new_key.clone(), good("ada 2", 2000), true).len(), 1, "its certificate had ended");
    assert_eq!(hub.check_owner("ada"), Ok(()));
    hub.expel(3, "bob", "ada").expect("bob is an owner");
    let newer_key = Asking { key: "once more".into(), ..new_key };
    assert_eq!(hub.found(4, newer_key.clone(), good("ada 3", 3000), true), []);
    assert_eq!(hub.bring(4, "labpc", newer_key.clone(), good("ada 3", 3000)), Ok(Vec::new()));
    assert!(matches!(hub.row_of(&Who::user("ada")), Err(Refusal::NoName(_))));
    // Nor does it take the place of another person of this name.
    hub.invite(5, "bob", (OTHER, "user"), 1, 60).expect("bob is an owner");
    hub.join(6, OTHER, Asking { key: "of a namesake".into(), ..asking("user", "ada") }, good("x", 1000))
        .expect("is invited");
    assert_eq!(hub.found(7, newer_key.clone(), good("ada 3", 3000), true), []);
    assert_eq!(hub.bring(7, "labpc", newer_key, good("ada 3", 3000)), Err(Refusal::Taken("ada".into())));
    assert!(hub.check_owner("ada").is_err());
}

#[test]
fn the_first_hub_leaves_when_another_owner_and_another_hub_stay() {
    let mut hub = hub();
    hub.found(0, asking("hub", "labpc"), good("labpc", 1000), false);
    hub.invite(0, "ada", (OTHER, "hub"), 1, 60).expect("ada is an owner");
    hub.join(1, OTHER, asking("hub", "pc2"), good("pc2", 1000)).expect("is invited");
    assert!(matches!(hub.leave(2, &Who::user("ada")), Err(Refusal::LastOwner(_))));
    hub.invite(2, "ada", (ID, OWNER), 1, 60).expect("ada is an owner");
    hub.join_as_owner(3, ID, asking("user", "bob"), good("bob", 1000)).expect("is invited");
    for who in [Who::user("ada"), Who::new("hub", "labpc")] {
        hub.leave(4, &who).expect("others stay");
    }
    hub.invite(5, "bob", (ID, "executor"), 1, 60).expect("bob is an owner");
    assert!(matches!(hub.leave(6, &Who::new("hub", "pc2")), Err(Refusal::LastHub(_))));
}

#[test]
fn another_hub_that_leads_knows_the_owners() {
    let (mut hub, mut next) = (Hub::default(), Hub::default());
    let mut changes = hub.found(0, asking("user", "ada"), good("ada", 1000), true);
    changes.extend(hub.invite(0, "ada", (ID, OWNER), 1, 60).expect("ada is an owner"));
    changes.extend(hub.join_as_owner(1, ID, asking("user", "bob"), good("bob", 1000)).expect("is invited"));
    changes.extend(hub.invite(2, "bob", (OTHER, OWNER), 1, 60).expect("bob is an owner"));
    changes.into_iter().for_each(|change| next.fill(change));
    assert_eq!(next.check_owner("bob"), Ok(()));
    assert_eq!(next.check_join_as_owner(3, &ID, &asking("user", "eve")), Err(Refusal::Token));
    assert_eq!(next.check_join_as_owner(3, &OTHER, &asking("user", "eve")), Ok(()));
    next.expel(3, "bob", "ada").expect("bob is an owner");
    assert!(matches!(next.members[&Who::user("ada")].state, State::Expelled { .. }));
}

#[test]
fn no_executor_marks_itself_as_an_owner() {
    let mut hub = hub();
    hub.invite(0, "ada", (OTHER, "executor"), 1, 60).expect("ada is an owner");
    let ws7 = asking("executor", "ws7");
    hub.join(1, OTHER, ws7.clone(), good("ws7", 1000)).expect("is invited");
    let claims = Facts::from([(OWNER.to_owned(), "yes".to_owned())]);
    hub.enter(2, 1, &ws7.who, Vec::new(), claims).expect("is a member");
    assert!(!hub.row_of(&ws7.who).expect("is a member").facts.contains_key(OWNER));
}

/// The bytes are from a version in which a grid had one owner. A record must keep the number and the order of its fields.
#[test]
fn the_records_of_a_store_have_not_changed() {
    let invitation = super::super::Invitation { role: "user".into(), uses: 2, until: 60, by: "ada".into() };
    let invited = crate::wire::encode_body(&Change::Invitation(ID, Some(invitation)));
    let before = [&[0][..], &ID, &[1, 4], b"user", &[2, 60, 3], b"ada"].concat();
    assert_eq!(invited, before);
    let member = Member { is_owner: true, ..Member::new(5, "key".into(), good("ada", 9), "by".into()) };
    let stored = crate::wire::encode_body(&Change::Member(Who::user("ada"), Box::new(member)));
    let before = [
        &[1, 4][..],
        b"user",
        &[3],
        b"ada",
        &[3],
        b"key",
        &[1, 3],
        b"ada",
        &[9, 0, 1, 0, 0, 5, 2], // until, none revoked, an owner, no founder, in, since 5, by
        b"by",
        &[0, 5, 0, 0],
    ];
    assert_eq!(stored, before.concat());
}
