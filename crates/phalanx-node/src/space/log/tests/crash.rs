//! Cuts the power at every step of a write. Writes that were not synced are kept, torn or lost. Everything promised must
//! survive.

use super::disk::{Disk, Kept, Step, after_cut};
use super::*;
use crate::space::log::store::Store;

const GROUPS: u64 = 14;

/// A disk after the program's writes. Also, for each number of steps, how many groups were promised to be stable by then.
fn written() -> (Vec<Step>, Vec<(usize, u64)>) {
    let disk = Disk::default();
    let log = Durable::start(Store::on(disk.clone()).unwrap(), ignore).unwrap();
    let mut promised = vec![(0, 0)];
    for n in 0..GROUPS {
        let position = log.append(group(n));
        log.wait(position).unwrap();
        promised.push((disk.count(), n + 1));
    }
    (disk.steps(), promised)
}

fn recovered(bytes: Vec<u8>) -> Result<Vec<Change>, LogError> {
    let mut state = Vec::new();
    let log = Durable::start(Store::on(Disk::of(bytes))?, |change| {
        state.push(change);
        Ok(())
    })?;
    // The store must accept further changes.
    let next = state.iter().find_map(|change| if let Change::Numbered { next } = change { Some(*next) } else { None });
    log.wait(log.append(vec![put(next.unwrap_or(0), "more")]))?;
    Ok(state)
}

/// Pseudo-random choices, the same in every run.
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> Kept {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        [Kept::Whole, Kept::Half, Kept::Not][(self.0 >> 40) as usize % 3]
    }
}

#[test]
fn a_cut_at_any_step_loses_nothing_that_was_promised() {
    let (steps, promised) = written();
    assert!(steps.len() > 3 * GROUPS as usize);
    for cut in 0..=steps.len() {
        let least = promised.iter().rev().find(|(step, _)| *step <= cut).unwrap().1;
        let mut choices = Choices(cut as u64);
        for round in 0..6 {
            let keep = || match round {
                0 => Kept::Whole,
                1 => Kept::Not,
                2 => Kept::Half,
                _ => choices.next(),
            };
            let state = recovered(after_cut(&steps, cut, keep));
            // No promise was made for a store whose creation was interrupted.
            let Ok(state) = state else {
                assert!(least == 0 && cut < first_commit(&steps), "step {cut}, round {round}: {state:?}");
                continue;
            };
            let numbers: Vec<u64> = tuples(&state).into_keys().collect();
            // The group in progress may be there as a whole, or not at all.
            let possible = [numbers_after(least), numbers_after(least + 1)];
            assert!(possible.contains(&numbers), "step {cut}, round {round}: {numbers:?} after {least} groups");
            assert!(numbers.iter().all(|number| tuples(&state)[number] == tuples(&group(*number))[number]));
        }
    }
}

/// The step by which the library has created its file, and this program its tables.
fn first_commit(steps: &[Step]) -> usize {
    steps.iter().enumerate().filter(|(_, step)| **step == Step::Sync).nth(4).unwrap().0
}

#[test]
fn a_disk_that_fails_is_told_to_who_waits_and_to_all_later() {
    let disk = Disk::default();
    let log = Durable::start(Store::on(disk.clone()).unwrap(), ignore).unwrap();
    let first = log.append(group(0));
    log.wait(first).unwrap();
    disk.fail_at(disk.count() + 1);
    let second = log.append(group(1));
    let error = log.wait(second).unwrap_err();
    assert!(matches!(&error, LogError::Disk { why, .. } if why.contains("no space left")), "{error}");
    assert_eq!(log.wait(log.append(group(2))), Err(error));
    assert_eq!(log.wait(first), Ok(()), "what was stable stays so");
}

#[test]
fn changes_that_do_not_fit_are_not_half_done() {
    let disk = Disk::default();
    let log = Durable::start(Store::on(disk.clone()).unwrap(), ignore).unwrap();
    log.wait(log.append(vec![put(0, "a")])).unwrap();
    let error = log.wait(log.append(vec![put(1, "b"), gone(7)])).unwrap_err();
    assert!(matches!(error, LogError::Misfit(_)), "{error}");
    drop(log);
    assert_eq!(tuples(&recovered(disk.bytes()).unwrap()).into_keys().collect::<Vec<_>>(), [0]);
}
