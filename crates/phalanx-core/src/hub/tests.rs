use super::*;
use proptest::prelude::*;

const ID: Id = [7; 32];

pub(super) fn good(name: &str, until: u64) -> Good {
    Good { fingerprint: name.to_owned(), until }
}

pub(super) fn asking(role: &str, name: &str) -> Asking {
    Asking { who: Who::new(role, name), key: format!("key of {name}") }
}

/// A hub whose owner is ada.
pub(super) fn hub() -> Hub {
    let mut hub = Hub::default();
    hub.found(0, asking("user", "ada"), good("ada 1", 1000), true);
    hub
}

/// The same hub, with an invitation for one executor until second 60.
fn inviting() -> Hub {
    let mut hub = hub();
    hub.invite(0, "ada", (ID, "executor"), 1, 60).expect("ada is an owner");
    hub
}

#[test]
fn an_invitation_is_good_once_for_its_role_and_its_time() {
    let mut hub = inviting();
    assert_eq!(hub.check_join(10, &[8; 32], &asking("executor", "ws7")), Err(Refusal::Token));
    assert_eq!(hub.check_join(10, &ID, &asking("user", "ws7")), Err(Refusal::Role("executor".into())));
    assert_eq!(hub.check_join(60, &ID, &asking("executor", "ws7")), Err(Refusal::Late));
    hub.join(59, ID, asking("executor", "ws7"), good("ws7 1", 100)).expect("is invited");
    assert_eq!(hub.join(59, ID, asking("executor", "ws8"), good("ws8 1", 100)), Err(Refusal::Token));
}

#[test]
fn the_key_that_has_joined_may_ask_again_because_its_answer_may_be_lost() {
    let mut hub = inviting();
    hub.join(1, ID, asking("executor", "ws7"), good("ws7 1", 100)).expect("is invited");
    hub.join(2, ID, asking("executor", "ws7"), good("ws7 2", 100)).expect("the same key");
    let thief = Asking { key: "another".into(), ..asking("executor", "ws7") };
    assert_eq!(hub.check_join(2, &ID, &thief), Err(Refusal::Token));
    let (revoked, _) = hub.expel(3, "ada", "ws7").expect("ada is an owner");
    assert_eq!(revoked.len(), 2, "both certificates that were handed out are revoked");
    assert_eq!(hub.check_join(4, &ID, &asking("executor", "ws7")), Err(Refusal::Token));
}

#[test]
fn nobody_takes_the_name_of_a_member() {
    let mut hub = hub();
    hub.invite(0, "ada", (ID, "user"), 9, 60).expect("ada is an owner");
    let thief = Asking { key: "another".into(), ..asking("user", "ADA") };
    assert_eq!(hub.check_join(1, &ID, &thief), Err(Refusal::Taken("ada".into())));
}

#[test]
fn only_owners_invite_and_expel_and_one_is_always_left() {
    let mut hub = hub();
    hub.invite(0, "ada", (ID, "user"), 1, 60).expect("ada is an owner");
    hub.join(1, ID, asking("user", "bob"), good("bob 1", 100)).expect("is invited");
    assert_eq!(
        hub.invite(1, "bob", ([1; 32], "user"), 1, 60),
        Err(Refusal::NoOwner { name: "bob".into(), owners: "ada".into() })
    );
    assert!(matches!(hub.expel(1, "bob", "ada"), Err(Refusal::NoOwner { .. })));
    assert!(matches!(hub.expel(1, "ada", "ada"), Err(Refusal::LastOwner(_))));
    assert!(matches!(hub.leave(1, &Who::user("ada")), Err(Refusal::LastOwner(_))));
    assert!(matches!(hub.expel(1, "ada", "nobody"), Err(Refusal::NoName(_))));
    hub.leave(2, &Who::user("bob")).expect("bob may leave");
    for (uses, seconds) in [(0, 60), (MOST_USES + 1, 60), (1, 0), (1, LONGEST_INVITATION + 1)] {
        assert_eq!(hub.invite(3, "ada", ([2; 32], "user"), uses, seconds), Err(Refusal::Bounds));
    }
}

#[test]
fn who_was_expelled_gets_no_new_certificate_and_is_not_here() {
    let mut hub = inviting();
    let ws7 = asking("executor", "ws7");
    hub.join(1, ID, ws7.clone(), good("ws7 1", 100)).expect("is invited");
    hub.enter(2, 1, &ws7.who, vec!["10.0.0.7:7400".into()], Facts::new()).expect("is a member");
    let later = CLOCKS + 200;
    hub.renew(60, &ws7, 100, good("ws7 2", later)).expect("half of the first one's life is over");
    let (revoked, _) = hub.expel(CLOCKS + 150, "ada", "ws7").expect("ada is an owner");
    assert_eq!(revoked, [(ws7.who.clone(), good("ws7 2", later))], "the first one has ended, by every clock");
    assert_eq!(hub.to_revoke(CLOCKS + 150), revoked);
    assert_eq!(hub.to_revoke(later), revoked, "other clocks may be behind");
    assert_eq!(hub.to_revoke(later + CLOCKS), []);
    assert!(matches!(hub.check_renew(later, &ws7, 0, 100), Err(Refusal::NoMember(_))));
    assert!(matches!(hub.enter(later, 2, &ws7.who, Vec::new(), Facts::new()), Err(Refusal::NoMember(_))));
    assert_eq!(hub.rows(None).0.len(), 1, "only ada");
}

#[test]
fn a_member_gets_no_more_certificates_than_it_needs() {
    let mut hub = hub();
    let ada = asking("user", "ada");
    let renew =
        |hub: &mut Hub, now, shown| hub.renew(now, &ada, shown, good(&format!("at {now}"), now + 1000)).map(drop);
    assert_eq!(renew(&mut hub, 400, 1000), Err(Refusal::Early("ada".into())));
    assert_eq!(renew(&mut hub, 600, 1000), Ok(()));
    assert_eq!(renew(&mut hub, 601, 1600), Err(Refusal::Early("ada".into())));
    assert_eq!(renew(&mut hub, 602, 1000), Ok(()), "the answer may have been lost");
    assert_eq!((603..700).filter(|now| renew(&mut hub, *now, 1000).is_ok()).count(), 5, "no more than 8");
    hub.invite(0, "ada", (ID, "executor"), 1, 60).expect("ada is an owner");
    let again = |number| hub.join(1, ID, asking("executor", "ws7"), good(&format!("{number}"), 100)).is_ok();
    assert_eq!((0..100).map(again).filter(|is_ok| *is_ok).count(), 8, "none that is good is forgotten");
}

#[test]
fn the_hub_is_not_expelled_and_nobody_else_has_its_name() {
    let mut hub = hub();
    hub.found(0, asking("hub", "labpc"), good("hub", 1000), false);
    hub.found(0, asking("executor", "labpc"), good("its executor", 1000), false);
    hub.invite(0, "ada", (ID, "user"), 9, 60).expect("ada is an owner");
    assert_eq!(hub.check_join(1, &ID, &asking("user", "labpc")), Err(Refusal::Taken("labpc".into())));
    let (revoked, _) = hub.expel(2, "ada", "labpc").expect("ada is an owner");
    assert_eq!(revoked, [(Who::new("executor", "labpc"), good("its executor", 1000))]);
    assert!(matches!(hub.expel(3, "ada", "labpc"), Err(Refusal::NoName(_))));
}

/// A hub `labpc` and a further one, `pc2`, which has an issuer.
fn two_hubs() -> Hub {
    let mut hub = hub();
    hub.found(0, asking("hub", "labpc"), good("labpc", 1000), false);
    hub.invite(0, "ada", (ID, "hub"), 1, 60).expect("ada is an owner");
    hub.join(1, ID, asking("hub", "pc2"), good("pc2", 1000)).expect("is invited");
    let (pc2, issuer) = (asking("hub", "pc2"), good("issuer of pc2", 5000));
    assert_eq!(hub.has_issuer("pc2", &issuer), Ok(false));
    assert_eq!(hub.issued(&pc2, issuer.clone()).map(|it| it.len()), Ok(1));
    assert_eq!(hub.issued(&pc2, issuer.clone()), Ok(Vec::new()), "was told before");
    assert_eq!(hub.has_issuer("pc2", &issuer), Ok(true));
    assert_eq!(hub.has_issuer("pc2", &good("issuer of labpc", 5000)), Ok(false), "it is another hub's");
    assert!(hub.is_first_hub("labpc") && !hub.is_first_hub("pc2"));
    hub
}

#[test]
fn a_further_hub_is_expelled_together_with_its_issuer() {
    let mut hub = two_hubs();
    let until = |hub: &Hub, name: &str| hub.row_of(&Who::new("hub", name)).expect("is a hub").until;
    assert_eq!(until(&hub, "pc2"), 1000, "of its own certificate, and not of its issuer");
    let (revoked, _) = hub.expel(2, "ada", "pc2").expect("ada is an owner");
    let who = Who::new("hub", "pc2");
    assert_eq!(revoked, [(who.clone(), good("issuer of pc2", 5000)), (who, good("pc2", 1000))]);
    assert!(!hub.hub_in("pc2"));
    assert!(matches!(hub.issued(&asking("hub", "pc2"), good("another", 5000)), Err(Refusal::NoMember(_))));
    assert!(matches!(hub.has_issuer("pc2", &good("issuer of pc2", 5000)), Err(Refusal::NoMember(_))));
    assert!(matches!(hub.expel(3, "ada", "labpc"), Err(Refusal::NoName(_))), "it is the only hub now");
    assert!(matches!(hub.leave(3, &Who::new("hub", "labpc")), Err(Refusal::LastHub(_))));
}

#[test]
fn the_first_hub_leaves_when_there_is_another_one() {
    let mut hub = two_hubs();
    let own = hub.issued(&asking("hub", "labpc"), good("issuer of labpc", 5000));
    assert_eq!(own, Ok(Vec::new()), "only the root revokes that one");
    let (revoked, _) = hub.leave(2, &Who::new("hub", "labpc")).expect("pc2 stays");
    assert_eq!(revoked, [(Who::new("hub", "labpc"), good("labpc", 1000))]);
}

#[test]
fn a_hub_and_another_member_have_no_name_in_common() {
    let mut hub = two_hubs();
    hub.invite(2, "ada", ([1; 32], "executor"), 9, 60).expect("ada is an owner");
    hub.invite(2, "ada", ([2; 32], "hub"), 9, 60).expect("ada is an owner");
    hub.join(3, [1; 32], asking("executor", "ws7"), good("ws7", 100)).expect("is invited");
    assert_eq!(hub.check_join(4, &[1; 32], &asking("executor", "pc2")), Err(Refusal::Taken("pc2".into())));
    assert_eq!(hub.check_join(4, &[2; 32], &asking("hub", "ws7")), Err(Refusal::Taken("ws7".into())));
    let thief = Asking { key: "another".into(), ..asking("hub", "PC2") };
    assert_eq!(hub.check_join(4, &[2; 32], &thief), Err(Refusal::Taken("pc2".into())));
    assert_eq!(hub.check_join(4, &[1; 32], &asking("hub", "pc3")), Err(Refusal::Role("executor".into())));
}

#[test]
fn a_hub_brings_members_of_its_own_machine_and_takes_no_names() {
    let mut hub = two_hubs();
    let own = asking("executor", "pc2");
    assert_eq!(hub.bring(2, "pc2", own.clone(), good("its executor", 100)).map(|it| it.len()), Ok(1));
    assert_eq!(hub.bring(3, "pc2", own.clone(), good("its executor", 100)), Ok(Vec::new()), "is known");
    let renewed = Asking { key: "another".into(), ..own.clone() };
    assert_eq!(hub.bring(4, "pc2", renewed, good("another", 100)).map(|it| it.len()), Ok(1), "it is its own");
    let ada = Asking { key: "another".into(), ..asking("user", "ada") };
    assert_eq!(hub.bring(5, "pc2", ada, good("ada 2", 100)), Err(Refusal::Taken("ada".into())));
    let hubs = hub.bring(5, "pc2", asking("hub", "pc3"), good("pc3", 100));
    assert_eq!(hubs, Err(Refusal::Role("executor".into())), "a hub makes no hubs");
    let other = hub.bring(5, "pc2", asking("executor", "labpc"), good("labpc 2", 100));
    assert_eq!(other, Err(Refusal::Taken("labpc".into())));
    assert!(matches!(hub.bring(5, "nobody", own, good("x", 100)), Err(Refusal::NoMember(_))));
    assert!(matches!(hub.check_owner("pc2"), Err(Refusal::NoOwner { .. })));
}

#[test]
fn a_member_whose_issuer_was_revoked_gets_another_certificate_at_once() {
    let mut hub = inviting();
    let ws7 = asking("executor", "ws7");
    hub.join(1, ID, ws7.clone(), good("ws7 1", 1000)).expect("is invited");
    assert_eq!(hub.check_renew(2, &ws7, 1000, 1000), Err(Refusal::Early("ws7".into())));
    hub.replace(2, &ws7, good("ws7 2", 1000)).expect("is a member");
    let thief = Asking { key: "another".into(), ..ws7.clone() };
    assert!(matches!(hub.check_replace(3, &thief), Err(Refusal::NoMember(_))));
    hub.expel(3, "ada", "ws7").expect("ada is an owner");
    assert!(matches!(hub.check_replace(4, &ws7), Err(Refusal::NoMember(_))), "whoever was expelled stays so");
}

#[test]
fn the_addresses_of_hubs_begin_with_the_one_that_leads() {
    use crate::wire::hub::{HubAt, MOST_ADDRESSES, addresses_of};
    let at = |name: &str, leads| HubAt {
        name: name.to_owned(),
        addresses: (1..=4).map(|number| format!("{name}:{number}")).collect(),
        leads,
    };
    let hubs = [at("a", false), at("b", true), at("c", false)];
    assert_eq!(addresses_of(&hubs)[..4], ["b:1", "a:1", "c:1", "b:2"]);
    assert_eq!(addresses_of(&hubs).len(), MOST_ADDRESSES);
    let mut hub = two_hubs();
    hub.tell_hubs(vec![at("pc2", true), at("labpc", false)], [("labpc".to_owned(), 77)].into());
    let row = hub.row_of(&Who::new("hub", "pc2")).expect("is a hub");
    assert_eq!((row.is_here, row.facts[LEADS].as_str(), row.addresses.len()), (true, "yes", 4));
    let row = hub.row_of(&Who::new("hub", "labpc")).expect("is a hub");
    assert_eq!((row.is_here, row.since), (false, 77), "it does not answer");
}

#[test]
fn who_was_expelled_does_not_come_back_with_the_same_token() {
    let mut hub = hub();
    hub.invite(0, "ada", (ID, "user"), 9, 60).expect("ada is an owner");
    hub.join(1, ID, asking("user", "eve"), good("eve", 100)).expect("is invited");
    hub.expel(2, "ada", "eve").expect("ada is an owner");
    for name in ["eve", "another"] {
        assert_eq!(hub.check_join(3, &ID, &asking("user", name)), Err(Refusal::Token));
    }
}

#[test]
fn only_the_hub_says_which_executor_is_its_own() {
    let mut hub = inviting();
    hub.found(0, asking("executor", "labpc"), good("own", 1000), false);
    hub.join(1, ID, asking("executor", "ws7"), good("ws7", 100)).expect("is invited");
    let claims = Facts::from([(AT_HUB.to_owned(), "yes".to_owned())]);
    for name in ["labpc", "ws7"] {
        hub.enter(2, 1, &Who::new("executor", name), Vec::new(), claims.clone()).expect("is a member");
    }
    let own: Vec<_> = hub.rows(None).0.into_iter().filter(|row| row.facts.contains_key(AT_HUB)).collect();
    assert_eq!(own.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["labpc"]);
}

#[test]
fn the_end_of_an_earlier_link_does_not_remove_who_is_here_again() {
    let mut hub = inviting();
    let ws7 = asking("executor", "ws7");
    hub.join(1, ID, ws7.clone(), good("ws7 1", 100)).expect("is invited");
    for link in [1, 2] {
        hub.enter(1 + link, link, &ws7.who, Vec::new(), Facts::new()).expect("is a member");
    }
    hub.go(5, 1, &ws7.who);
    assert!(hub.rows(None).0.iter().any(|row| row.name == "ws7" && row.is_here && row.since == 3));
    hub.go(6, 2, &ws7.who);
    assert!(hub.rows(None).0.iter().any(|row| row.name == "ws7" && !row.is_here && row.since == 6));
}

#[test]
fn rows_come_in_pages() {
    let mut hub = hub();
    hub.invite(0, "ada", (ID, "executor"), 1000, 60).expect("ada is an owner");
    for number in 0..MOST_ROWS * 2 {
        hub.join(1, ID, asking("executor", &format!("ws{number}")), good("x", 100)).expect("is invited");
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let (rows, goes_on) = hub.rows(after.as_ref());
        after = rows.last().map(|row| Who::new(&row.role, &row.name));
        seen.extend(rows.into_iter().map(|row| row.name));
        if !goes_on {
            break;
        }
    }
    assert_eq!(seen.len(), MOST_ROWS * 2 + 1);
    assert_eq!(seen.iter().collect::<std::collections::BTreeSet<_>>().len(), seen.len());
}

#[derive(Debug, Clone)]
enum Step {
    Invite { id: u8, uses: u32 },
    Join { id: u8, name: u8, key: u8 },
    Expel { name: u8 },
    Leave { name: u8 },
    Renew { name: u8, key: u8 },
    InviteUser { by: u8, id: u8 },
    InviteOwner { by: u8, id: u8 },
    User { id: u8, name: u8, key: u8 },
    Own { id: u8, name: u8, key: u8 },
    ExpelUser { by: u8, name: u8 },
    LeaveUser { name: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4u8, 1..3u32).prop_map(|(id, uses)| Step::Invite { id, uses }),
        (0..4u8, 0..4u8, 0..3u8).prop_map(|(id, name, key)| Step::Join { id, name, key }),
        (0..4u8).prop_map(|name| Step::Expel { name }),
        (0..4u8).prop_map(|name| Step::Leave { name }),
        (0..4u8, 0..3u8).prop_map(|(name, key)| Step::Renew { name, key }),
        (0..4u8, 4..8u8).prop_map(|(by, id)| Step::InviteOwner { by, id }),
        (0..4u8, 4..8u8).prop_map(|(by, id)| Step::InviteUser { by, id }),
        (4..8u8, 0..4u8, 0..2u8).prop_map(|(id, name, key)| Step::User { id, name, key }),
        (4..8u8, 0..4u8, 0..2u8).prop_map(|(id, name, key)| Step::Own { id, name, key }),
        (0..4u8, 0..4u8).prop_map(|(by, name)| Step::ExpelUser { by, name }),
        (0..4u8).prop_map(|name| Step::LeaveUser { name }),
    ]
}

proptest! {
    /// After each step, the stored changes make the same hub again. No invitation admits more members than it is for. Each
    /// certificate whose membership has ended is among those to revoke. At least one owner is left. A user becomes an owner
    /// only by an unused invitation of the role `owner`, which an owner has made.
    #[test]
    fn a_hub_that_is_filled_from_its_store_is_the_same(steps in proptest::collection::vec(step(), 0..60)) {
        let (mut hub, mut stored) = (Hub::default(), Hub::default());
        // The first owner is called as the first of four users.
        hub.found(0, asking("user", "u0"), good("u0", 1 << 40), true).into_iter().for_each(|it| stored.fill(it));
        let (mut invited, mut joined, mut handed_out) = (0u32, 0u32, Vec::new());
        for (now, step) in (1..).zip(steps) {
            let who = |name: u8, key: u8| Asking { who: Who::new("executor", &format!("ws{name}")), key: format!("{key}") };
            let user = |name: u8| format!("u{name}");
            let person = |name: u8, key: u8| match (name, key) {
                (0, 0) => asking("user", "u0"),
                _ => Asking { who: Who::user(&user(name)), key: format!("{key}") },
            };
            let owner = hub.owners.first().expect("is left").name.clone();
            let (owners, open) = (hub.owners.clone(), hub.invitations.clone());
            let fresh = good(&format!("certificate {now}"), 1 << 40);
            let changes = match step {
                Step::Invite { id, uses } => {
                    let replaced = hub.invitations.get(&[id; 32]).map_or(0, |it| it.uses);
                    invited = invited + uses - replaced;
                    hub.invite(now, &owner, ([id; 32], "executor"), uses, 1000).map(|it| (it, None))
                }
                Step::Join { id, name, key } => {
                    let asking = who(name, key);
                    let is_new = hub.members.get(&asking.who).is_none_or(|it| !it.state.is_in());
                    let done = hub.join(now, [id; 32], asking.clone(), fresh.clone());
                    joined += u32::from(done.is_ok() && is_new);
                    done.map(|it| (it, Some((asking.who, fresh))))
                }
                Step::Expel { name } => {
                    hub.expel(now, &owner, &format!("ws{name}")).map(|(_, it)| (it, None))
                }
                Step::Leave { name } => hub.leave(now, &who(name, 0).who).map(|(_, it)| (it, None)),
                Step::Renew { name, key } => {
                    let asking = who(name, key);
                    hub.renew(now, &asking, now, fresh.clone()).map(|it| (it, Some((asking.who, fresh))))
                }
                Step::InviteOwner { by, id } => {
                    let done = hub.invite(now, &user(by), ([id; 32], OWNER), 1, 1000);
                    prop_assert_eq!(done.is_ok(), owners.contains(&Who::user(&user(by))));
                    done.map(|it| (it, None))
                }
                Step::InviteUser { by, id } => {
                    hub.invite(now, &user(by), ([id; 32], "user"), 2, 1000).map(|it| (it, None))
                }
                Step::User { id, name, key } => {
                    let asking = person(name, key);
                    let done = hub.join(now, [id; 32], asking.clone(), fresh.clone());
                    prop_assert_eq!(&hub.owners, &owners);
                    done.map(|it| (it, Some((asking.who, fresh))))
                }
                Step::Own { id, name, key } => {
                    let asking = person(name, key);
                    let done = hub.join_as_owner(now, [id; 32], asking.clone(), fresh.clone());
                    if hub.owners != owners {
                        prop_assert_eq!(open.get(&[id; 32]).map(|it| it.role.as_str()), Some(OWNER));
                        prop_assert!(!hub.invitations.contains_key(&[id; 32]));
                    }
                    done.map(|it| (it, Some((asking.who, fresh))))
                }
                Step::ExpelUser { by, name } => hub.expel(now, &user(by), &user(name)).map(|(_, it)| (it, None)),
                Step::LeaveUser { name } => hub.leave(now, &Who::user(&user(name))).map(|(_, it)| (it, None)),
            };
            let new = hub.owners.difference(&owners).count();
            prop_assert!(!hub.owners.is_empty() && new <= 1);
            prop_assert!(hub.invitations.values().all(|it| hub.check_owner(&it.by).is_ok()));
            if let Ok((changes, handed)) = changes {
                changes.into_iter().for_each(|change| stored.fill(change));
                handed_out.extend(handed);
            }
            prop_assert_eq!(&hub.members, &stored.members);
            prop_assert_eq!(&hub.invitations, &stored.invitations);
            prop_assert_eq!((&hub.owners, &hub.with_revoked), (&stored.owners, &stored.with_revoked));
            prop_assert!(joined <= invited);
            let revoked = hub.to_revoke(now);
            for (who, it) in &handed_out {
                let is_good = hub.members[who].good.contains(it) && hub.members[who].state.is_in();
                prop_assert!(is_good || revoked.contains(&(who.clone(), it.clone())), "{:?} of {:?}", it, who);
            }
        }
    }

    #[test]
    fn a_token_is_read_as_it_was_written(
        grid in "[a-z0-9-]{1,63}", role in "user|executor|hub", hubs in proptest::collection::vec("[a-z0-9.:]{1,60}", 0..8),
        root: [u8; 32], secret: [u8; 16],
    ) {
        let token = Token { grid, role, hubs, root, secret };
        prop_assert_eq!(token.to_string().parse(), Ok(token.clone()));
        let (shown, hidden) = (format!("{token:?}"), format!("{secret:?}"));
        prop_assert!(!shown.contains(&hidden));
    }

    #[test]
    fn a_token_that_is_altered_in_any_letter_is_none(at in 0..200usize, letter in "[A-Za-z0-9_-]") {
        let (hubs, role) = (vec!["10.0.0.5:7400".to_owned()], "executor".to_owned());
        let text = Token { grid: "lab".into(), role, hubs, root: [1; 32], secret: [2; 16] }.to_string();
        let at = at % text.len();
        let altered = format!("{}{letter}{}", &text[..at], &text[at + 1..]);
        prop_assert_eq!(altered.parse::<Token>().is_ok(), altered == text);
    }

    #[test]
    fn no_text_makes_reading_a_token_panic(text in "(phalanx1-)?[ -~]{0,300}") {
        let _ = text.parse::<Token>();
    }
}
