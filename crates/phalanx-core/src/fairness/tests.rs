use super::*;
use proptest::prelude::*;

fn demand(held: u32, waiting: u32) -> Demand {
    Demand { held, movable: held, waiting, ..Demand::default() }
}

fn weighted(weight: u32, held: u32, waiting: u32) -> Demand {
    Demand { weight, ..demand(held, waiting) }
}

/// Users that together hold no more than the capacity.
fn executor() -> impl Strategy<Value = (u32, Vec<Demand>)> {
    let user = (0u32..12, 0u32..12, 0u32..12, 1u32..5);
    (1u32..24, proptest::collection::vec(user, 1..7)).prop_map(|(capacity, users)| {
        let mut free = capacity;
        let users = users.into_iter().map(|(held, fixed, waiting, weight)| {
            let held = held.min(free);
            free -= held;
            Demand { weight, held, movable: held.saturating_sub(fixed), waiting }
        });
        (capacity, users.collect())
    })
}

/// A free place goes to the waiting user that holds fewest for its weight.
fn give_free(capacity: u32, users: &mut [Demand]) -> u32 {
    let mut given = 0;
    while users.iter().map(|it| it.held).sum::<u32>() < capacity {
        let Some(next) = users.iter_mut().filter(|it| it.waiting > 0).min_by_key(|it| standing(it.held, it.weight))
        else {
            break;
        };
        (next.held, next.movable, next.waiting) = (next.held + 1, next.movable + 1, next.waiting - 1);
        given += 1;
    }
    given
}

#[test]
fn a_user_with_all_places_is_asked_for_half_when_another_comes() {
    assert_eq!(asked(4, &[demand(4, 0), demand(0, 4)]), [2, 0]);
    assert_eq!(asked(4, &[demand(4, 0), demand(0, 1)]), [1, 0]);
    assert_eq!(asked(4, &[demand(2, 2), demand(2, 2)]), [0, 0]);
    assert_eq!(asked(6, &[demand(4, 0), demand(2, 3), demand(0, 9)]), [2, 0, 0]);
    assert_eq!(asked(6, &[demand(3, 0), demand(3, 0), demand(0, 2)]), [1, 1, 0]);
}

#[test]
fn a_place_that_cannot_be_divided_stays_where_it_is() {
    assert_eq!(asked(3, &[demand(3, 0), demand(0, 3)]), [1, 0]);
    assert_eq!(asked(3, &[demand(2, 1), demand(1, 2)]), [0, 0]);
    assert_eq!(asked(3, &[demand(1, 2), demand(2, 1)]), [0, 0]);
    assert_eq!(asked(1, &[demand(1, 0), demand(0, 1)]), [0, 0]);
}

#[test]
fn a_user_with_twice_the_weight_gets_twice_the_places() {
    assert_eq!(shares(6, &[weighted(2, 0, 9), weighted(1, 0, 9)]), [4, 2]);
    assert_eq!(asked(6, &[weighted(1, 6, 0), weighted(2, 0, 9)]), [4, 0]);
    assert_eq!(asked(6, &[weighted(2, 4, 2), weighted(1, 2, 4)]), [0, 0], "it is divided");
    for (one, other) in [(2, 3), (1, 4)] {
        assert_eq!(asked(5, &[weighted(1, one, 9), weighted(2, other, 9)]), [0, 0], "both are fair");
    }
    assert_eq!(shares(6, &[weighted(2, 0, 1), weighted(1, 0, 9)]), [1, 5], "what a user does not want others get");
    assert_eq!(shares(9, &[weighted(3, 0, 9), weighted(2, 0, 9), weighted(1, 0, 9)]), [5, 3, 1]);
}

#[test]
fn a_large_weight_leaves_no_user_without_a_place() {
    assert_eq!(shares(4, &[weighted(MOST_WEIGHT, 0, 9), weighted(1, 0, 9)]), [3, 1]);
    assert_eq!(shares(1, &[weighted(1, 1, 0), weighted(MOST_WEIGHT, 0, 9)]), [1, 0], "a user keeps its only place");
    assert!(standing(MOST_WEIGHT - 2, MOST_WEIGHT - 1) > standing(MOST_WEIGHT - 3, MOST_WEIGHT - 1));
    assert_eq!(standing(1, 2), standing(2, 3));
}

#[test]
fn ranks_keep_their_places() {
    let ranks = Demand { movable: 0, ..demand(4, 0) };
    assert_eq!(asked(4, &[ranks, demand(0, 2)]), [0, 0]);
    assert_eq!(asked(6, &[ranks, demand(2, 0), demand(0, 2)]), [0, 0, 0]);
    assert_eq!(asked(4, &[Demand { movable: 1, ..ranks }, demand(0, 2)]), [1, 0]);
}

#[test]
fn a_user_reaches_what_is_free_and_what_others_have_above_their_share() {
    assert_eq!(reach(4, &[demand(4, 0), demand(0, 0)], 1, 4), 2);
    assert_eq!(reach(4, &[demand(1, 0), demand(0, 0)], 1, 4), 3);
    assert_eq!(reach(4, &[Demand { movable: 1, ..demand(4, 0) }, demand(0, 0)], 1, 4), 1);
    assert_eq!(reach(4, &[Demand { movable: 0, ..demand(4, 0) }, demand(0, 0)], 1, 4), 0, "ranks keep their places");
    assert_eq!(reach(4, &[demand(4, 0), demand(0, 4), demand(0, 0)], 2, 4), 1, "another user waits too");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_a_user_reaches_is_within_its_share_and_all_of_it_where_no_place_is_fixed(
        (capacity, mut users) in executor(), wanted in 0u32..24,
    ) {
        let reached = reach(capacity, &users, 0, wanted);
        users[0].waiting = wanted;
        let claim = claims(capacity, &users)[0];
        prop_assert!(reached <= claim);
        users.iter_mut().for_each(|it| it.movable = it.held);
        prop_assert_eq!(reach(capacity, &users, 0, wanted), claim);
    }

    #[test]
    fn shares_are_max_min_fair((capacity, users) in executor()) {
        let shares = shares(capacity, &users);
        let wanted: u32 = users.iter().map(|it| it.all()).sum();
        prop_assert_eq!(shares.iter().sum::<u32>(), wanted.min(capacity), "no place is left while a user wants one");
        for (one, share) in users.iter().zip(&shares) {
            prop_assert!(*share <= one.all());
            let next = standing(*share, one.weight);
            let last = |(it, share): (&Demand, &u32)| if *share > 1 { standing(share - 1, it.weight) } else { 0 };
            let most = users.iter().zip(&shares).map(last).max().unwrap_or_default();
            prop_assert!(*share == one.all() || most <= next || *share == 0, "{:?}", shares);
            prop_assert!(*share > 0 || one.all() == 0 || shares.iter().all(|it| *it <= 1), "{:?}", shares);
        }
        let wanting = users.iter().filter(|it| it.all() > 0).count() as u32;
        for (one, share) in users.iter().zip(&shares).filter(|_| wanting <= capacity) {
            prop_assert!(one.all() == 0 || *share >= 1, "each user that wants places gets one: {:?}", shares);
        }
    }

    #[test]
    fn only_what_is_above_a_share_is_asked_and_only_for_others((capacity, users) in executor()) {
        let (shares, claims, asked) = (shares(capacity, &users), claims(capacity, &users), asked(capacity, &users));
        prop_assert!(asked.iter().sum::<u32>() <= claims.iter().sum::<u32>());
        for (user, it) in users.iter().enumerate() {
            prop_assert!(asked[user] <= it.movable && asked[user] <= it.held.saturating_sub(shares[user]));
            prop_assert!(asked[user] == 0 || claims[user] == 0, "no user is asked for itself");
            prop_assert!(it.held == 0 || asked[user] < it.held, "each user keeps a place");
        }
    }

    /// Users give what they are asked for, and want it back at once. Each user ends with its share, and then all is quiet.
    #[test]
    fn it_comes_to_rest((capacity, mut users) in executor()) {
        users.iter_mut().for_each(|it| it.movable = it.held);
        give_free(capacity, &mut users);
        let (mut moved, claimed) = (0, claims(capacity, &users).iter().sum::<u32>());
        for round in 0.. {
            let asked = asked(capacity, &users);
            if asked.iter().all(|count| *count == 0) {
                break;
            }
            prop_assert!(round < 3, "asks again and again: {:?}", users);
            for (it, count) in users.iter_mut().zip(&asked) {
                (it.held, it.movable) = (it.held - count, it.movable - count);
            }
            moved += give_free(capacity, &mut users);
            for (it, count) in users.iter_mut().zip(&asked) {
                it.waiting += count;
            }
        }
        prop_assert_eq!(moved, claimed, "no place moves twice");
        prop_assert!(claims(capacity, &users).iter().all(|claim| *claim == 0), "{:?}", users);
        for it in users.iter().filter(|it| it.waiting > 0) {
            let last = |it: &Demand| if it.held > 1 { standing(it.held - 1, it.weight) } else { 0 };
            let most = users.iter().map(last).max().unwrap_or_default();
            prop_assert!(it.held == 0 || most <= standing(it.held, it.weight), "{:?}", users);
            prop_assert!(it.held > 0 || users.iter().all(|it| it.held <= 1), "{:?}", users);
        }
    }
}
