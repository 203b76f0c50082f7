//! The checker can fail, finds the shortest path, and visits everything.

use super::*;

/// Two clerks add 1 to an account, each by reading it and then writing it.
struct Clerks {
    /// A clerk locks the account before reading it.
    lock: bool,
    /// It also forgets to unlock it.
    forgetful: bool,
}

#[derive(Debug, Clone, Default)]
struct Account {
    value: u32,
    read: [Option<u32>; 2],
    done: [bool; 2],
    locked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    Read(usize),
    Write(usize),
}

impl Model for Clerks {
    type State = Account;
    type Action = Act;

    fn first(&self) -> Account {
        Account::default()
    }

    fn actions(&self, state: &Account) -> Vec<Act> {
        let act = |clerk: usize| match state.read[clerk] {
            _ if state.done[clerk] => None,
            Some(_) => Some(Act::Write(clerk)),
            None => (!self.lock || !state.locked).then_some(Act::Read(clerk)),
        };
        (0..2).filter_map(act).collect()
    }

    fn next(&self, state: &Account, action: &Act) -> Account {
        let mut next = state.clone();
        match *action {
            Act::Read(clerk) => (next.read[clerk], next.locked) = (Some(state.value), true),
            Act::Write(clerk) => {
                next.value = state.read[clerk].expect("it was read") + 1;
                (next.done[clerk], next.locked) = (true, self.forgetful);
            }
        }
        next
    }

    fn write(&self, state: &Account, text: &mut dyn Write) -> fmt::Result {
        write!(text, "{state:?}")
    }

    fn check(&self, state: &Account, end: bool) -> Result<(), String> {
        if !end || state.value == 2 { Ok(()) } else { Err(format!("the end is {}", state.value)) }
    }

    fn notes(&self, state: &Account) -> Vec<&'static str> {
        if state.value == 2 { vec!["both have written"] } else { Vec::new() }
    }
}

#[test]
fn a_lost_update_is_found_by_the_shortest_path() {
    let broken = explore(&Clerks { lock: false, forgetful: false }, 1000).unwrap_err();
    assert_eq!(broken.what, "the end is 1");
    assert_eq!(broken.path, [Act::Read(0), Act::Read(1), Act::Write(0), Act::Write(1)]);
}

#[test]
fn a_deadlock_is_an_end() {
    let broken = explore(&Clerks { lock: true, forgetful: true }, 1000).unwrap_err();
    assert_eq!(broken.path, [Act::Read(0), Act::Write(0)]);
    assert_eq!(format!("{broken:?}"), "the end is 1\n   1. Read(0)\n   2. Write(0)\n");
}

#[test]
fn what_has_the_property_is_visited_as_a_whole() {
    let explored = explore(&Clerks { lock: true, forgetful: false }, 1000).unwrap();
    assert_eq!((explored.states, explored.steps, explored.ends, explored.depth), (9, 8, 2, 4));
    assert_eq!(explored.notes["both have written"], 2);
}

#[test]
fn an_exploration_that_is_not_whole_is_an_error() {
    let broken = explore(&Clerks { lock: true, forgetful: false }, 3).unwrap_err();
    assert_eq!(broken.what, "more than 3 states");
}

/// A model whose step panics.
struct Panics;

impl Model for Panics {
    type State = bool;
    type Action = Act;

    fn first(&self) -> bool {
        false
    }

    fn actions(&self, _: &bool) -> Vec<Act> {
        vec![Act::Read(0)]
    }

    fn next(&self, before: &bool, _: &Act) -> bool {
        assert!(!before, "on purpose");
        true
    }

    fn write(&self, state: &bool, text: &mut dyn Write) -> fmt::Result {
        write!(text, "{state}")
    }

    fn check(&self, _: &bool, _: bool) -> Result<(), String> {
        Ok(())
    }

    fn notes(&self, _: &bool) -> Vec<&'static str> {
        Vec::new()
    }
}

#[test]
fn a_panic_breaks_every_model() {
    let broken = explore(&Panics, 1000).unwrap_err();
    assert_eq!((broken.what.as_str(), broken.path.len()), ("a panic", 2));
}
