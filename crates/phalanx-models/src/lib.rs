//! A checker of models. It visits every state that a model can reach, and stops at the first one that breaks a property.
//!
//! The models are in `tests/models`. They run the engines and handshakes that users run, and see only what these crates
//! make public. `docs/security/models.md` says what they prove, and how to see the checker fail.

#![deny(missing_docs)]

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::{self, Debug, Write};
use std::hash::Hasher;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A system whose states follow from each other by actions.
pub trait Model {
    /// A state of everything that the model is about.
    type State;
    /// One of the things that can happen next.
    type Action: Clone + Debug;

    /// The state in which everything begins.
    fn first(&self) -> Self::State;

    /// The actions that are possible in a state.
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;

    /// The state after an action. It depends on nothing else. A panic breaks the property that there are none.
    fn next(&self, state: &Self::State, action: &Self::Action) -> Self::State;

    /// Writes the state. States with the same text are the same state: only one of them is checked. So the text must have
    /// everything that [`check`](Model::check) looks at.
    fn write(&self, state: &Self::State, text: &mut dyn Write) -> fmt::Result;

    /// The property. An error says how the state breaks it. In an `end` nothing can happen any more.
    fn check(&self, state: &Self::State, end: bool) -> Result<(), String>;

    /// Events of the step that led here. They show afterwards that the model got where the property is in danger.
    fn notes(&self, state: &Self::State) -> Vec<&'static str>;
}

/// The counts of a search in which every visited state has the property.
#[derive(Debug, Default)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// Steps from one state to another, or to itself.
    pub steps: usize,
    /// States in which nothing can happen any more.
    pub ends: usize,
    /// Length of the longest of the shortest paths to a state, in steps.
    pub depth: usize,
    /// How many steps had each event.
    pub notes: BTreeMap<&'static str, usize>,
}

/// How a property is broken: the shortest path to a state that breaks it.
pub struct Broken<A> {
    /// How the last state of the path breaks the property.
    pub what: String,
    /// The actions from the first state to that one.
    pub path: Vec<A>,
}

impl<A: Debug> Debug for Broken<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        (1..).zip(&self.path).try_for_each(|(step, action)| writeln!(f, "{step:4}. {action:?}"))
    }
}

/// Visits every state, breadth first. More than `most` states are an error, because then not all were visited.
pub fn explore<M: Model>(model: &M, most: usize) -> Result<Explored, Broken<M::Action>> {
    let (mut explored, mut found) = (Explored::default(), Found::<M::Action>::default());
    let first = model.first();
    found.is_new(model, &first);
    let mut waiting = VecDeque::from([(found.add(None), first)]);
    while let Some((number, state)) = waiting.pop_front() {
        let actions = model.actions(&state);
        explored.ends += usize::from(actions.is_empty());
        let broken = |what, last: Option<M::Action>| Err(Broken { what, path: found.path(number, last) });
        if let Err(what) = model.check(&state, actions.is_empty()) {
            return broken(what, None);
        }
        for action in actions {
            explored.steps += 1;
            let next = match catch_unwind(AssertUnwindSafe(|| model.next(&state, &action))) {
                Ok(next) => next,
                Err(_) => return Err(Broken { what: "a panic".to_owned(), path: found.path(number, Some(action)) }),
            };
            model.notes(&next).into_iter().for_each(|note| *explored.notes.entry(note).or_default() += 1);
            if found.is_new(model, &next) {
                waiting.push_back((found.add(Some((number, action))), next));
            }
        }
        if found.origins.len() > most {
            return Err(Broken { what: format!("more than {most} states"), path: found.path(number, None) });
        }
    }
    explored.states = found.origins.len();
    explored.depth = found.path(explored.states - 1, None).len();
    Ok(explored)
}

/// The states that were found, by their digests and in their order.
struct Found<A> {
    /// 64 bits of SipHash for each state. That two of a million states have the same digest, so that one of them is not
    /// visited, has a probability of 3 in 10⁸.
    digests: HashSet<u64>,
    /// From which state and by which action each one was reached first.
    origins: Vec<Option<(usize, A)>>,
}

impl<A> Default for Found<A> {
    fn default() -> Found<A> {
        Found { digests: HashSet::new(), origins: Vec::new() }
    }
}

impl<A: Clone> Found<A> {
    fn is_new<M: Model>(&mut self, model: &M, state: &M::State) -> bool {
        let mut digest = Digest(DefaultHasher::new());
        model.write(state, &mut digest).expect("a digest takes every text");
        self.digests.insert(digest.0.finish())
    }

    fn add(&mut self, origin: Option<(usize, A)>) -> usize {
        self.origins.push(origin);
        self.origins.len() - 1
    }

    fn path(&self, mut number: usize, last: Option<A>) -> Vec<A> {
        let mut path: Vec<A> = last.into_iter().collect();
        while let Some((before, action)) = &self.origins[number] {
            path.push(action.clone());
            number = *before;
        }
        path.reverse();
        path
    }
}

struct Digest(DefaultHasher);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
