//! Invariants of an engine, checked after every event.

use super::reader::Reader;
use crate::event::Fact;
use crate::flow::Engine;
use crate::flow::groups::Groups;
use crate::flow::interpreter::{Interpreter, Race};
use crate::flow::repository::Work;
use crate::ids::TaskId;

/// Limit on the firings that are sent ahead to one interpreter.
const MOST_IN_FLIGHT: usize = 64;

#[derive(Default)]
pub struct Check {
    tasks: Vec<(u32, u16, TaskId)>,
}

impl Check {
    /// Panics if a task is in two places, if work waits while an interpreter is idle, if too much is in flight, if a
    /// run waits for nothing, or if something waits for a run that has ended.
    pub fn check(&mut self, engine: &Engine, readers: &[Reader]) {
        self.no_task_twice(engine);
        let mut interpreters = engine.interpreters.values();
        let fits = |it: &Interpreter| engine.repository.firsts().any(|work| it.suits(work.needs));
        let idle = interpreters.any(|it| it.in_flight.is_empty() && !it.leaving && fits(it));
        assert!(!idle, "an interpreter is idle beside fireable work");
        let most = engine.interpreters.values().map(|interpreter| interpreter.in_flight.len()).max();
        assert!(most.unwrap_or_default() <= MOST_IN_FLIGHT, "too much is in flight");
        for run in engine.runs.values().filter(|run| run.is_done()) {
            assert!(run.groups.as_ref().is_none_or(Groups::is_empty), "something is left of a run that has ended");
        }
        for reader in readers.iter().filter(|reader| !reader.is_done()) {
            self.waits_for_something(engine, reader);
        }
    }

    fn no_task_twice(&mut self, engine: &Engine) {
        let in_flight = engine.interpreters.values().flat_map(|interpreter| &interpreter.in_flight);
        let owners = in_flight.filter(|firing| match firing.race {
            Race::Alone => true,
            Race::Against(_, other) => firing.id < other, // one of the two represents both
            Race::Lost => false,
        });
        self.races(engine);
        let works = owners.flat_map(|firing| std::iter::once(&firing.work).chain(&firing.more));
        let open = works.chain(engine.repository.works()).filter(|work| engine.runs.contains_key(&work.run));
        self.tasks.clear();
        // A task of a graph may be at several instructions at once, and its parts have their own numbers.
        let is_graph = |work: &Work| engine.runs[&work.run].groups.is_some();
        self.tasks.extend(open.flat_map(|work| tasks_of(work, if is_graph(work) { work.instruction } else { 0 })));
        self.tasks.sort_unstable();
        assert!(self.tasks.windows(2).all(|pair| pair[0] < pair[1]), "a task is at two places");
    }

    /// Both firings of a race must refer to each other and to the same tasks.
    fn races(&self, engine: &Engine) {
        for (id, interpreter) in &engine.interpreters {
            for firing in &interpreter.in_flight {
                let Race::Against(other_id, other) = firing.race else { continue };
                let other = engine.interpreters[&other_id].in_flight.iter().find(|it| it.id == other);
                let other = other.expect("both are in flight");
                assert_eq!(other.race, Race::Against(*id, firing.id), "both know of each other");
                assert_eq!(
                    (other.work.task, other.work.count),
                    (firing.work.task, firing.work.count),
                    "the same tasks"
                );
            }
        }
    }

    fn waits_for_something(&self, engine: &Engine, reader: &Reader) {
        let delivered = reader.got.len() as u64;
        let under_way = self.tasks.iter().any(|(run, ..)| *run == reader.run.0);
        assert!(under_way || reader.fed == delivered, "tasks were lost: {delivered} of {} came", reader.fed);
        let ended = reader.fed == reader.stream.tasks && reader.fed == delivered;
        assert!(!ended, "all was delivered, and the run has not ended");
        let busy = engine.interpreters.values().any(|interpreter| !interpreter.in_flight.is_empty());
        let room = !under_way && !engine.interpreters.is_empty(); // the reader reads, and then there is room
        let lacks = engine.repository.firsts().any(|it| it.needs > 0); // it is looked for again after a pause
        let waits = engine.recruiting > 0 || engine.waits_for_machines() || lacks;
        assert!(busy || room || waits, "the run waits for nothing");
    }

    /// Panics if a closed run is fired or delivered.
    pub fn record(&self, fact: &Fact, readers: &[Reader]) {
        if let Fact::Fired { run, .. } | Fact::Delivered { run, .. } = fact {
            let closed = readers.iter().any(|reader| reader.run == *run && reader.closed);
            assert!(!closed, "a closed run goes on: {fact:?}");
        }
    }
}

fn tasks_of(work: &Work, instruction: u16) -> impl Iterator<Item = (u32, u16, TaskId)> + use<> {
    let run = work.run.0;
    (work.task..work.task + u64::from(work.count)).map(move |task| (run, instruction, task))
}
