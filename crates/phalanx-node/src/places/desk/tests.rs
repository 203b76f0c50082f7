use super::*;
use crate::quota::Quota;
use phalanx_core::level::Level;

/// A machine, and the interpreters that managers' links have there.
struct Machine {
    places: Arc<Places>,
    quota: Arc<Quota>,
    began: Instant,
    running: HashMap<u64, Vec<Given>>,
    numbers: u32,
}

fn user(session: u64) -> &'static str {
    ["ada", "bob", "eve", "bob@campus", "carol@campus"][session as usize / 10]
}

impl Machine {
    fn new(capacity: u32) -> Machine {
        Machine::with(capacity, &[])
    }

    fn with(capacity: u32, weights: &[(&str, u32)]) -> Machine {
        let weights = weights.iter().map(|(user, weight)| ((*user).to_owned(), *weight)).collect();
        let (places, quota) = (Places::new(capacity, weights), Quota::new("requests", 1000, 1000));
        Machine { places, quota, began: Instant::now(), running: HashMap::new(), numbers: 0 }
    }

    /// Links 0 to 9 are ada's, 10 to 19 bob's, 20 to 29 eve's; 30 to 49 are of users of another grid. Each is a program of its own.
    fn request(&mut self, session: u64, count: u32, at: u64) {
        self.request_with(session, count, at, true);
    }

    fn request_with(&mut self, session: u64, count: u32, at: u64, waits: bool) {
        for _ in 0..count {
            self.numbers += 1;
            let holder = holder(session);
            let (number, levels, since) = (self.numbers, Levels::all(Level::Safe), self.at(at));
            let entered = self.quota.enter(&holder.user).unwrap();
            self.places.request(Request {
                session,
                number,
                holder,
                levels,
                memory: None,
                gpus: 0,
                waits,
                since,
                entered,
            });
        }
    }

    fn at(&self, milliseconds: u64) -> Instant {
        self.began + Duration::from_millis(milliseconds)
    }

    /// Looks for a link, and returns how many it may keep, how many were refused, and what is overdue.
    fn look(&mut self, session: u64, at: u64) -> (Option<u32>, usize, Vec<(u64, u32)>) {
        let look = self.places.look(session, self.at(at));
        self.running.entry(session).or_default().extend(look.given);
        (look.keep, look.refused.len(), look.overdue.iter().map(|it| (it.session, it.interpreters)).collect())
    }

    fn has(&self, session: u64) -> usize {
        self.running.get(&session).map_or(0, Vec::len)
    }

    fn give_back(&mut self, session: u64) {
        self.running.get_mut(&session).and_then(Vec::pop).expect("it has one");
    }
}

fn holder(session: u64) -> Holder {
    Holder { user: user(session).to_owned(), program: [session as u8; 16] }
}

#[test]
fn a_user_alone_has_all_places_and_gives_half_of_them_to_another() {
    let mut machine = Machine::new(4);
    machine.request(0, 4, 0);
    assert_eq!(machine.look(0, 0), (None, 0, vec![]));
    assert_eq!(machine.has(0), 4);
    machine.request(10, 4, 100);
    assert_eq!(machine.look(10, 100), (None, 0, vec![]));
    assert_eq!(machine.look(0, 100).0, Some(2));
    machine.give_back(0);
    machine.request(0, 1, 150); // ada wants it again
    machine.look(10, 200);
    assert_eq!((machine.has(10), machine.look(0, 200).0), (1, Some(2)));
    machine.give_back(0);
    machine.look(10, 300);
    assert_eq!((machine.has(10), machine.look(0, 300).0), (2, None));
    assert_eq!((machine.look(0, 1200).1, machine.look(10, 1200).1), (1, 2), "what is above the shares is refused");
    machine.running.remove(&10);
    machine.request(0, 2, 2000);
    machine.look(0, 2000);
    assert_eq!(machine.has(0), 4, "ada has all again");
    assert!(machine.quota.enter("ada").is_ok());
}

#[test]
fn what_is_not_given_back_is_taken_and_not_before() {
    let mut machine = Machine::new(4);
    machine.request(0, 3, 0);
    machine.request(1, 1, 0);
    machine.look(0, 0);
    machine.look(1, 0);
    machine.request(10, 2, 100);
    machine.look(10, 100);
    let patience = SHARE_PATIENCE.as_millis() as u64;
    assert_eq!((machine.look(0, 200).0, machine.look(1, 200).0), (Some(1), None), "of a user, the link with most");
    assert_eq!(machine.look(10, 99 + patience).2, []);
    machine.give_back(0);
    machine.look(10, 99 + patience);
    assert_eq!(machine.look(10, 100 + patience).2, [(0, 1)]);
    assert_eq!(machine.look(10, 101 + patience).2, [], "it is taken once");
    machine.give_back(0);
    assert_eq!(machine.look(10, 300 + patience), (None, 0, vec![]));
    assert_eq!(machine.has(10), 2);
}

#[test]
fn nobody_is_asked_for_a_request_that_does_not_wait() {
    let mut machine = Machine::new(2);
    machine.request(0, 2, 0);
    machine.look(0, 0);
    machine.request_with(10, 1, 0, false);
    assert_eq!((machine.look(10, 500), machine.look(0, 500)), ((None, 0, vec![]), (None, 0, vec![])));
    assert_eq!(machine.look(10, 1000).1, 1);
}

#[test]
fn ranks_keep_their_places_and_take_none_that_another_user_waits_for() {
    let mut machine = Machine::new(2);
    let ranks = machine.places.share(holder(0), Model::Ranks).keep(2).unwrap();
    machine.request(10, 1, 0);
    assert_eq!(machine.look(10, 999), (None, 0, vec![]));
    assert_eq!(machine.look(10, 1000).1, 1, "it does not wait for what cannot be moved");
    drop(ranks);
    machine.request(0, 2, 0);
    machine.look(0, 0);
    machine.request(10, 1, 0);
    machine.look(10, 0);
    assert_eq!(machine.places.share(holder(20), Model::Ranks).free(), 0);
    machine.give_back(0);
    assert_eq!(machine.places.share(holder(20), Model::Ranks).free(), 0, "bob waits for it");
    machine.look(10, 100);
    assert_eq!(machine.has(10), 1);
}

#[test]
fn a_link_that_has_ended_waits_for_nothing() {
    let mut machine = Machine::new(2);
    machine.request(0, 2, 0);
    machine.look(0, 0);
    machine.request(10, 2, 0);
    machine.look(11, 0);
    machine.places.leave(10);
    assert_eq!(machine.look(0, 0).0, None);
    machine.running.clear();
    machine.request(10, 2, 0);
    machine.look(11, 0); // gives bob's places to link 10, which does not look
    machine.places.leave(10);
    let state = lock(&machine.places.state);
    assert!(state.used.is_empty() && state.desk.links.is_empty() && state.desk.given.is_empty());
}

#[test]
fn a_request_that_is_withdrawn_gets_no_place() {
    let mut machine = Machine::new(1);
    machine.request(0, 1, 0);
    machine.look(0, 0);
    machine.request(10, 1, 0);
    assert!(machine.places.is_open(10, 2) && machine.places.withdraw(10, 2) && !machine.places.withdraw(10, 2));
    machine.running.clear();
    machine.request(10, 1, 0);
    machine.look(0, 0);
    assert!(machine.places.is_open(10, 3), "its number is in use");
    assert!(
        machine.places.withdraw(10, 3) && !machine.places.is_open(10, 3),
        "it has a place, and bob's link has not seen it"
    );
    assert!(lock(&machine.places.state).used.is_empty());
}

/// A link that never looks cannot keep what it has got.
#[test]
fn places_that_were_not_used_yet_are_taken_first() {
    let mut machine = Machine::new(4);
    machine.request(0, 2, 0);
    machine.look(0, 0);
    machine.request(0, 2, 0);
    machine.look(1, 0); // gives them to link 0, which does not look
    machine.request(10, 2, 0);
    machine.look(10, 0);
    let patience = SHARE_PATIENCE.as_millis() as u64;
    let look = machine.places.look(10, machine.at(patience));
    assert_eq!(
        look.overdue.iter().map(|it| (it.session, it.interpreters, it.unused.len())).collect::<Vec<_>>(),
        [(0, 0, 2)]
    );
    drop(look);
    machine.look(10, patience);
    assert_eq!((machine.has(10), machine.has(0)), (2, 2));
}

/// Ranks wait for a place that is kept for another user's request. They hear when that request is given up, however it is.
#[test]
fn who_waits_for_a_place_hears_that_a_request_was_given_up() {
    let give_up: [fn(&mut Machine); 3] = [
        |machine| assert!(machine.places.withdraw(10, 3)),
        |machine| machine.places.leave(10),
        |machine| assert_eq!(machine.look(10, 30_000).1, 1),
    ];
    for give_up in give_up {
        let mut machine = Machine::new(2);
        machine.request(0, 2, 0);
        machine.look(0, 0);
        machine.request(10, 1, 0);
        machine.look(10, 0);
        let (places, (begun, begins)) = (machine.places.clone(), std::sync::mpsc::channel());
        let waiting = std::thread::spawn(move || {
            let state = lock(&places.state);
            begun.send(()).unwrap();
            let (_state, waited) = places.given_back.wait_timeout(state, Duration::from_secs(60)).unwrap();
            !waited.timed_out()
        });
        begins.recv().unwrap(); // it holds the lock until it waits
        give_up(&mut machine);
        assert!(waiting.join().unwrap());
    }
}

#[test]
fn requests_of_each_user_get_places_in_the_order_in_which_they_came() {
    let mut machine = Machine::new(1);
    machine.request(0, 1, 0);
    machine.look(0, 0);
    for (session, count) in [(1, 2), (10, 1), (0, 1), (20, 1), (10, 1)] {
        machine.request(session, count, 0);
    }
    machine.running.clear();
    let mut order = Vec::new();
    for _ in 0..6 {
        for session in [0, 1, 10, 20] {
            let look = machine.places.look(session, machine.at(0));
            order.extend(look.given.into_iter().map(|given| given.request.number)); // and given back at once
        }
    }
    assert_eq!(order, [2, 3, 4, 5, 6, 7]);
}

/// ada has all four places, and bob's launcher waits for some.
fn launcher_beside_a_manager(wants: u32) -> (Machine, crate::places::Share, Wanted) {
    let mut machine = Machine::new(4);
    machine.request(0, 4, 0);
    machine.look(0, 0);
    let ranks = machine.places.share(holder(10), Model::Ranks);
    assert_eq!((ranks.free(), ranks.fair()), (0, 2));
    let wanted = ranks.want(wants, None);
    (machine, ranks, wanted)
}

#[test]
fn a_launcher_gets_its_share_of_places_that_a_manager_has() {
    let (mut machine, ranks, wanted) = launcher_beside_a_manager(2);
    assert_eq!(machine.look(0, 0).0, Some(2));
    machine.give_back(0);
    machine.request(0, 1, 50); // ada wants it again
    assert_eq!((machine.look(0, 50).0, machine.has(0), ranks.free()), (Some(2), 3, 1), "it is kept for bob");
    machine.give_back(0);
    assert_eq!((machine.look(0, 60).0, machine.has(0), ranks.free()), (None, 2, 2));
    let kept = ranks.keep(2).expect("both are free");
    drop(wanted);
    assert_eq!((machine.look(0, 70), machine.has(0)), ((None, 0, vec![]), 2));
    drop(kept);
    machine.look(0, 80);
    assert_eq!(machine.has(0), 3, "ada's request was waiting");
}

#[test]
fn a_launcher_gets_no_more_than_its_share() {
    let (mut machine, ranks, _wanted) = launcher_beside_a_manager(4);
    assert_eq!((machine.look(0, 0).0, ranks.fair()), (Some(2), 2));
    let eves = machine.places.share(holder(20), Model::Ranks);
    assert_eq!(eves.fair(), 1, "three users, four places, and ada keeps what cannot be divided");
}

#[test]
fn places_are_taken_for_a_launcher_also_when_no_manager_looks() {
    let (mut machine, ranks, _wanted) = launcher_beside_a_manager(2);
    machine.look(0, 0);
    let patience = SHARE_PATIENCE.as_millis() as u64;
    assert!(machine.places.overdue(machine.at(patience - 1)).is_empty());
    let overdue = machine.places.overdue(machine.at(patience));
    assert_eq!(overdue.iter().map(|it| (it.session, it.interpreters)).collect::<Vec<_>>(), [(0, 2)]);
    machine.give_back(0);
    machine.give_back(0);
    assert_eq!(ranks.free(), 2);
}

#[test]
fn a_launcher_that_asks_again_waits_once() {
    let (mut machine, ranks, wanted) = launcher_beside_a_manager(1);
    assert_eq!(machine.look(0, 0).0, Some(3));
    let wanted = ranks.want(2, Some(wanted));
    assert_eq!(machine.look(0, 0).0, Some(2));
    let wanted = ranks.want(1, Some(wanted));
    assert_eq!((machine.look(0, 0).0, lock(&machine.places.state).desk.wanted.len()), (Some(3), 1));
    drop(wanted);
    assert_eq!(machine.look(0, 0).0, None);
}

#[test]
fn a_launcher_that_is_gone_waits_for_nothing() {
    let (mut machine, _ranks, wanted) = launcher_beside_a_manager(2);
    machine.look(0, 0);
    machine.give_back(0);
    machine.request(0, 1, 50);
    drop(wanted);
    assert_eq!((machine.look(0, 60).0, machine.has(0)), (None, 4));
    assert!(lock(&machine.places.state).desk.is_quiet());
}

/// A program's ranks use the places of its own interpreters: only what is missing beside these is asked for.
#[test]
fn a_program_waits_only_for_places_beside_those_of_its_interpreters() {
    let mut machine = Machine::new(4);
    machine.request(10, 1, 0);
    machine.look(10, 0);
    machine.request(0, 3, 0);
    machine.look(0, 0);
    let ranks = machine.places.share(holder(10), Model::Ranks);
    assert_eq!((ranks.free(), ranks.fair()), (1, 2));
    let _wanted = ranks.want(2, None);
    assert_eq!(machine.look(0, 10).0, Some(2));
}

/// A machine of four places, two of which are lent to the grid campus.
fn lent() -> Machine {
    let machine = Machine::new(4);
    machine.places.lend("campus", Some(2));
    machine
}

#[test]
fn users_of_another_grid_share_what_is_lent_and_get_no_more() {
    let mut machine = lent();
    machine.request(30, 3, 0);
    machine.look(30, 0);
    assert_eq!(machine.has(30), 2, "two are free, and not lent");
    assert_eq!(machine.places.in_use_by("campus"), 2);
    machine.request(40, 1, 100);
    assert_eq!(machine.look(40, 100).0, None);
    assert_eq!(machine.look(30, 100).0, Some(1), "carol of the same grid has a share of what is lent");
    machine.give_back(30);
    machine.look(40, 200);
    assert_eq!((machine.has(30), machine.has(40)), (1, 1));
    assert_eq!(machine.look(30, 300).0, None, "the division is fair");
    machine.request(0, 4, 400);
    machine.look(0, 400);
    assert_eq!(machine.has(0), 2, "what is not lent is ada's");
    for session in [30, 40] {
        assert_eq!(machine.look(session, 500).0, None, "each has no more than a share of the machine");
    }
}

#[test]
fn nobody_is_asked_for_what_is_not_lent() {
    let mut machine = lent();
    machine.request(0, 4, 0);
    machine.look(0, 0);
    machine.request(30, 4, 100);
    machine.look(30, 100);
    assert_eq!(machine.look(0, 100).0, Some(2), "two are lent");
    (0..2).for_each(|_| machine.give_back(0));
    machine.look(30, 200);
    assert_eq!((machine.has(0), machine.has(30)), (2, 2));
    assert_eq!(machine.look(0, 300).0, None, "bob of campus waits for more than is lent");
}

#[test]
fn a_user_of_another_grid_is_another_user() {
    let mut machine = lent();
    machine.request(10, 4, 0);
    machine.look(10, 0);
    machine.request(30, 2, 100);
    machine.look(30, 100);
    assert_eq!(machine.look(10, 100).0, Some(2), "bob of campus is not the bob who has all places");
}

#[test]
fn ranks_of_users_of_another_grid_get_no_more_than_is_lent() {
    let mut machine = lent();
    let ranks = machine.places.share(holder(30), Model::Ranks);
    assert_eq!((ranks.free(), ranks.fair()), (2, 2));
    assert_eq!(ranks.take(3), Err(2), "of four places, two are not lent");
    let _kept = ranks.keep(1).expect("is lent");
    machine.request(40, 2, 0);
    machine.look(40, 0);
    assert_eq!((machine.has(40), ranks.free()), (1, 0));
    machine.places.lend("campus", None);
    assert_eq!(machine.places.share(holder(31), Model::Ranks).free(), 0, "nothing is lent any more");
}

#[test]
fn a_user_with_twice_the_weight_gets_twice_the_places() {
    let mut machine = Machine::with(3, &[("bob", 2)]);
    machine.request(0, 3, 0);
    machine.look(0, 0);
    assert_eq!(machine.has(0), 3);
    machine.request(10, 3, 100);
    machine.look(10, 100);
    assert_eq!(machine.look(0, 100).0, Some(1), "ada keeps one of three");
    machine.give_back(0);
    machine.give_back(0);
    machine.request(0, 2, 150); // ada wants them again
    machine.look(0, 200);
    machine.look(10, 200);
    assert_eq!((machine.has(0), machine.has(10)), (1, 2));
    assert_eq!(machine.look(10, 300).0, None, "it is divided");
}

#[test]
fn a_link_whose_requests_wait_is_told_who_holds_the_places() {
    let mut machine = Machine::new(2);
    machine.request(0, 2, 0);
    assert_eq!(machine.places.look(10, machine.at(0)).usage, None);
    machine.look(0, 0);
    machine.request(10, 1, 100);
    machine.request(20, 1, 100);
    let look = machine.places.look(20, machine.at(100));
    let told = "2 of 2 places are taken, 2 by another user; of 2 users who wait you are number 2";
    assert_eq!((look.waits, look.usage.map(|usage| usage.to_string()).as_deref()), (true, Some(told)));
    let look = machine.places.look(10, machine.at(100));
    assert_eq!(look.usage.map(|usage| usage.turn), Some(1));
    let look = machine.places.look(0, machine.at(100));
    assert_eq!((look.waits, look.usage), (false, None), "it does not wait");
    machine.request_with(1, 1, 100, false);
    let look = machine.places.look(1, machine.at(1200));
    assert_eq!((look.waits, look.refused.len()), (false, 1));
    let told = "2 of 2 places are taken, 2 by your own programs";
    assert_eq!(look.usage.map(|usage| usage.to_string()).as_deref(), Some(told), "another program of ada's");
}
