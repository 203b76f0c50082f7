//! Finds and takes places for spawned processes as if in one step. Between the two steps, another program that spawns may take
//! the same places. Then the search is repeated, so that a spawn fails for lack of room only if there is none.

use super::placement::{Choice, Miss, Offer};
use phalanx_net::identity::random_token;
use phalanx_net::sync::lock;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Shortens the waits in tests.
const SCALE: u32 = if cfg!(test) { 5 } else { 1 };
/// How long to retry while there is no room. Places of an earlier world may be about to become free, because its processes end
/// only after they are released.
const PATIENCE: Duration = Duration::from_millis((5000 / SCALE) as u64);
/// How long to retry in all. It bounds the case that other programs are always faster, or that an executor refuses its free
/// places for another reason.
const LONG_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis((100 / SCALE) as u64);

/// Takes places on machines. `look` reaches all machines, `choose` decides how many processes each gets, and `take` asks them
/// for the places: either all are taken, or none. Callers with the same `turn` do this one after the other. `is_over`: the
/// places are not wanted any more.
pub fn claim<H, T>(
    turn: &Mutex<()>,
    look: impl Fn() -> Result<Vec<(Offer, H)>, Miss>,
    choose: impl Fn(&[Offer]) -> Result<Choice, Miss>,
    take: impl Fn(Vec<(H, u32)>) -> Result<T, Miss>,
    is_over: impl Fn() -> bool,
) -> Result<T, String> {
    let attempt = || {
        let (offers, hosts): (Vec<Offer>, Vec<H>) = look()?.into_iter().unzip();
        let choice = choose(&offers)?;
        let mut hosts: Vec<Option<H>> = hosts.into_iter().map(Some).collect();
        let chosen: Option<_> = choice.into_iter().map(|(index, count)| Some((hosts[index].take()?, count))).collect();
        take(chosen.ok_or_else(|| Miss::Never("a machine was chosen twice".to_owned()))?)
    };
    let (mut began, mut full) = (None, None);
    loop {
        let attempted = {
            let _turn = lock(turn);
            if is_over() {
                return Err("the program is being ended".to_owned());
            }
            began.get_or_insert_with(Instant::now); // the time of other callers' turns does not count
            attempt()
        };
        let (why, is_full) = match attempted {
            Ok(taken) => return Ok(taken),
            Err(Miss::Never(why)) => return Err(why),
            Err(Miss::Full(why)) => (why, full.get_or_insert_with(Instant::now).elapsed() >= PATIENCE),
            Err(Miss::TooLate(why)) => {
                full = None;
                (why, false)
            }
        };
        if is_full || began.is_some_and(|began| began.elapsed() >= LONG_PATIENCE) {
            return Err(why);
        }
        // Backoff with random jitter. Two programs that took places from each other, which both need, should not retry at the
        // same moment.
        thread::sleep(PAUSE + PAUSE * u32::from(random_token()[0]) / 128);
    }
}

#[cfg(test)]
mod tests {
    use super::super::placement::fill;
    use super::*;
    use crate::places::{Holder, Model, Places, Share};
    use std::any::Any;
    use std::cell::Cell;
    use std::collections::HashMap;
    use std::sync::Barrier;

    type Executors = [Share];
    type Taken = Vec<Box<dyn Any + Send>>;

    fn executors(capacities: &[u32]) -> Vec<Share> {
        let holder = Holder { user: "ada".to_owned(), program: [0; 16] };
        capacities
            .iter()
            .map(|capacity| Places::new(*capacity, HashMap::new()).share(holder.clone(), Model::Ranks))
            .collect()
    }

    fn look(executors: &Executors) -> Result<Vec<(Offer, Share)>, Miss> {
        let offer = |it: &Share| (Offer { free: it.free(), ..Offer::default() }, it.clone());
        Ok(executors.iter().map(offer).collect())
    }

    fn choose(count: u64) -> impl Fn(&[Offer]) -> Result<Choice, Miss> {
        move |offers| fill(Some(count), offers).map_err(Miss::Full)
    }

    fn take(hosts: Vec<(Share, u32)>) -> Result<Taken, Miss> {
        let kept = hosts.into_iter().map(|(places, count)| places.keep(count));
        kept.collect::<Result<_, _>>().map_err(|error| Miss::TooLate(error.to_string()))
    }

    fn free(executors: &Executors) -> Vec<u32> {
        executors.iter().map(|it| it.free()).collect()
    }

    #[test]
    fn places_that_somebody_else_takes_after_they_were_found_are_looked_for_elsewhere() {
        let all = executors(&[2, 2]);
        let other = Cell::new(None);
        let look = || {
            let found = look(&all);
            other.set(other.take().or_else(|| all[0].keep(2).ok()));
            found
        };
        let taken = claim(&Mutex::new(()), look, choose(2), take, || false).expect("there is room on the second");
        assert_eq!(free(&all), [0, 0]);
        drop(taken);
        assert_eq!(free(&all), [0, 2]);
    }

    /// Two claims that look at the same moment, and each find the same places.
    fn two_at_once(all: &Executors, counts: [u64; 2]) -> Vec<Result<Taken, String>> {
        let both = Barrier::new(2);
        let one = |count: u64| {
            let first = Cell::new(true);
            let look = || {
                let found = look(all);
                if first.replace(false) {
                    both.wait();
                }
                found
            };
            claim(&Mutex::new(()), look, choose(count), take, || false)
        };
        thread::scope(|scope| {
            let working = counts.map(|count| scope.spawn(move || one(count)));
            working.into_iter().map(|it| it.join().expect("it does not panic")).collect()
        })
    }

    #[test]
    fn two_programs_that_spawn_at_once_both_get_what_there_is() {
        let all = executors(&[2, 1, 1]);
        let taken = two_at_once(&all, [2, 2]);
        assert!(taken.iter().all(Result::is_ok), "{:?}", taken.iter().map(Result::is_ok).collect::<Vec<_>>());
        assert_eq!(free(&all), [0, 0, 0]);
    }

    #[test]
    fn of_two_for_whom_there_is_no_room_together_one_gets_it() {
        let all = executors(&[2, 1]);
        let taken = two_at_once(&all, [2, 3]);
        let failed: Vec<&String> = taken.iter().filter_map(|it| it.as_ref().err()).collect();
        assert_eq!(failed.len(), 1, "all or none");
        assert!(failed[0].contains("processes were asked for, but"), "{failed:?}");
    }

    #[test]
    fn the_spawns_of_one_program_take_turns() {
        let (all, turn) = (executors(&[1, 1, 1, 1]), Mutex::new(()));
        let inside = Mutex::new(());
        let look = || {
            let _alone = inside.try_lock().expect("nobody else looks");
            look(&all)
        };
        thread::scope(|scope| {
            let one = || claim(&turn, look, choose(2), take, || false).expect("there is room for both");
            let working = [(); 2].map(|()| scope.spawn(one));
            let taken = working.map(|it| it.join().expect("it does not panic"));
            assert_eq!(free(&all), [0, 0, 0, 0]);
            drop(taken);
        });
    }

    #[test]
    fn places_that_become_free_meanwhile_count() {
        let all = executors(&[2]);
        let kept = Cell::new(all[0].keep(1).ok());
        let rounds = Cell::new(0);
        let look = || {
            rounds.set(rounds.get() + 1);
            let found = look(&all);
            drop(kept.take());
            found
        };
        assert!(claim(&Mutex::new(()), look, choose(2), take, || false).is_ok());
        assert_eq!(rounds.get(), 2);
    }

    #[test]
    fn what_will_never_be_is_not_waited_for() {
        let rounds = Cell::new(0);
        let look = || {
            rounds.set(rounds.get() + 1);
            look(&executors(&[2]))
        };
        let never = |_: &[Offer]| Err(Miss::Never("no executor is called lab9".into()));
        let error = claim(&Mutex::new(()), look, never, take, || false).map(drop);
        assert_eq!((error, rounds.get()), (Err("no executor is called lab9".to_owned()), 1));
    }
}
