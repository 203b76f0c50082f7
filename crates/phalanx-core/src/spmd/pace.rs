//! Finds slow machines in a program of supersteps. In each superstep, all processes wait for the last one (the w of the
//! BSP cost model, paper 001, 2).
//!
//! Machines are compared, not processes. If only one of several processes on a machine takes longer, it has more work
//! to do. So a machine counts as fast as its fastest process.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Seconds that a slow machine must have cost all others before it is replaced. The restart takes about as long.
const WORTH: f64 = 1.0;

/// When a machine counts as slow, as set by the user.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// The machine takes this many times the others' median; more than 1.
    pub times: f64,
    /// For this many steps in a row; at least 1. A step lasts from one checkpoint place to the next.
    pub steps: u32,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.times, self.steps)
    }
}

impl FromStr for Limit {
    type Err = String;

    /// Reads what `Display` wrote.
    fn from_str(text: &str) -> Result<Limit, String> {
        let read = || {
            let (times, steps) = text.split_once(':')?;
            let limit = Limit { times: times.parse().ok()?, steps: steps.parse().ok()? };
            (limit.times > 1.0 && limit.times.is_finite() && limit.steps > 0).then_some(limit)
        };
        read().ok_or_else(|| format!("{text:?} does not say how slow a machine may be"))
    }
}

/// A machine that is slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slow {
    /// The first process on the machine.
    pub process: u32,
    /// For this many steps in a row, it took `times` as long as the others.
    pub steps: u32,
    /// How many times as long.
    pub times: f64,
}

/// The measured times of a program's processes.
#[derive(Debug)]
pub struct Pace {
    limit: Limit,
    /// The machine of each process.
    machines: Vec<u32>,
    /// Seconds of work of each process in the current step.
    work: Vec<f64>,
    /// The machines that are slow at present.
    streaks: BTreeMap<u32, Streak>,
}

/// Consecutive slow steps, and the seconds that the machine and the others worked in them.
#[derive(Debug, Clone, Copy, Default)]
struct Streak {
    steps: u32,
    own: f64,
    others: f64,
}

impl Pace {
    /// Starts without measurements, with the machine of each process.
    pub fn new(limit: Limit, machines: Vec<u32>) -> Pace {
        let work = vec![0.0; machines.len()];
        Pace { limit, machines, work, streaks: BTreeMap::new() }
    }

    /// Adds one superstep: the seconds that each process worked in it.
    pub fn add(&mut self, work: impl Iterator<Item = f64>) {
        self.work.iter_mut().zip(work).for_each(|(sum, work)| *sum += work);
    }

    /// Ends a step. Returns the slowest machine, if one has been slow for long enough. A machine that stays slow is
    /// returned again after as many further steps.
    pub fn step(&mut self) -> Option<Slow> {
        let mut machines = self.machines.clone();
        machines.sort_unstable();
        machines.dedup();
        for machine in machines {
            match self.compare(machine) {
                Some((own, others)) if own > others && own >= self.limit.times * others => {
                    let streak = self.streaks.entry(machine).or_default();
                    *streak = Streak { steps: streak.steps + 1, own: streak.own + own, others: streak.others + others };
                }
                _ => drop(self.streaks.remove(&machine)),
            }
        }
        self.work.fill(0.0);
        let cost = |streak: &Streak| streak.own - streak.others;
        let is_slow = |streak: &Streak| streak.steps >= self.limit.steps && cost(streak) >= WORTH;
        let slow = self.streaks.iter().filter(|(_, streak)| is_slow(streak));
        let (&machine, _) = slow.max_by(|(_, one), (_, other)| cost(one).total_cmp(&cost(other)))?;
        let streak = self.streaks.remove(&machine)?;
        let process = self.machines.iter().position(|its| *its == machine)? as u32;
        Some(Slow { process, steps: streak.steps, times: streak.own / streak.others.max(1e-6) })
    }

    /// Seconds of the machine's fastest process in this step, and the median over all processes of other machines.
    /// `None`: there are no others.
    fn compare(&self, machine: u32) -> Option<(f64, f64)> {
        let all = self.machines.iter().zip(&self.work);
        let (here, there): (Vec<_>, Vec<_>) = all.partition(|(its, _)| **its == machine);
        let own = here.into_iter().map(|(_, work)| *work).min_by(f64::total_cmp)?;
        let mut others: Vec<f64> = there.into_iter().map(|(_, work)| *work).collect();
        others.sort_unstable_by(f64::total_cmp);
        Some((own, *others.get(others.len() / 2)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(machines: &[u32]) -> Pace {
        Pace::new(Limit { times: 2.0, steps: 3 }, machines.to_vec())
    }

    /// Runs `count` steps of one superstep each, and returns the slow machines that were reported.
    fn steps(pace: &mut Pace, count: usize, work: &[f64]) -> Vec<Slow> {
        let step = |_| {
            pace.add(work.iter().copied());
            pace.step()
        };
        (0..count).filter_map(step).collect()
    }

    #[test]
    fn a_machine_is_slow_that_was_so_for_several_steps_in_a_row() {
        let mut it = pace(&[0, 1, 1, 2]);
        assert_eq!(steps(&mut it, 2, &[1.0, 4.0, 5.0, 1.0]), []);
        assert_eq!(steps(&mut it, 1, &[1.0, 1.0, 1.0, 1.0]), [], "it begins again");
        assert_eq!(steps(&mut it, 2, &[1.0, 4.0, 5.0, 1.0]), []);
        assert_eq!(steps(&mut it, 1, &[1.0, 4.0, 5.0, 1.0]), [Slow { process: 1, steps: 3, times: 4.0 }]);
        assert_eq!(steps(&mut it, 3, &[1.0, 4.0, 5.0, 1.0]).len(), 1, "and is named again when it stays so");
    }

    #[test]
    fn it_must_have_cost_something() {
        let mut it = pace(&[0, 1]);
        assert_eq!(steps(&mut it, 7, &[0.125, 0.25]), []);
        assert_eq!(steps(&mut it, 1, &[0.125, 0.25]).len(), 1, "a second in all");
        assert_eq!(steps(&mut pace(&[0, 1]), 1000, &[0.0, 0.0]), []);
    }

    #[test]
    fn who_has_more_to_do_than_its_neighbours_is_not_slow() {
        assert_eq!(steps(&mut pace(&[0, 0, 1, 1]), 50, &[9.0, 1.0, 1.0, 1.0]), []);
        assert_eq!(steps(&mut pace(&[0, 1, 2]), 50, &[1.9, 1.0, 1.0]), []);
    }

    #[test]
    fn there_must_be_others() {
        assert_eq!(steps(&mut pace(&[0, 0, 0]), 50, &[9.0, 9.0, 9.0]), []);
        assert_eq!(steps(&mut pace(&[]), 1, &[]), []);
    }

    #[test]
    fn supersteps_between_two_places_for_checkpoints_count_together() {
        let mut it = pace(&[0, 1]);
        let mut said = Vec::new();
        for _ in 0..3 {
            [[0.0, 1.0], [1.0, 2.0]].iter().for_each(|work| it.add(work.iter().copied()));
            said.extend(it.step());
        }
        assert_eq!(said, [Slow { process: 1, steps: 3, times: 3.0 }]);
    }

    #[test]
    fn of_several_the_slowest_is_named_first() {
        let named: Vec<u32> =
            steps(&mut pace(&[0, 1, 2, 3, 4]), 6, &[1.0, 3.0, 1.0, 5.0, 1.0]).iter().map(|it| it.process).collect();
        assert_eq!(named[..2], [3, 1]);
    }

    #[test]
    fn a_limit_is_read_as_it_was_written() {
        let limit = Limit { times: 2.5, steps: 10 };
        assert_eq!(limit.to_string().parse(), Ok(limit));
        for text in ["", "2", "2:", ":3", "1:3", "0.5:3", "2:0", "inf:3", "nan:3", "2:-1", "x:3"] {
            assert!(text.parse::<Limit>().is_err(), "{text:?}");
        }
    }
}
