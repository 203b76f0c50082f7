//! The worker threads: one for each running process, at most as many as there are places.

use super::{PLACE_PATIENCE, Shared, State, Task, tell_ended};
use crate::door::check_accepted;
use crate::places::known_as;
use phalanx_core::wire::jobs::{Outcome, Run, ToHubJobs};
use phalanx_net::sync::lock;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::running::Running;

/// Idle timeout of a worker thread.
const IDLE: Duration = Duration::from_secs(30);

/// Starts worker threads for waiting runs, and wakes the idle ones.
pub fn wake(shared: &Arc<Shared>, state: &mut State) {
    let lacking = (state.waiting.len() as u32).saturating_sub(state.idle);
    let more = lacking.min(shared.settings.capacity.saturating_sub(state.workers));
    for _ in 0..more {
        let own = shared.clone();
        let started = thread::Builder::new().name("phalanx-job".into()).spawn(move || own.work());
        state.workers += u32::from(started.is_ok());
    }
    shared.changed.notify_all();
}

impl State {
    /// Takes the next run out of the queue, unless it must wait until others have ended. No later run overtakes it, so that a run of
    /// several places does not starve. A run of more places than the machine has is taken too, and returned to the hub.
    fn next_that_fits(&mut self, capacity: u32) -> Option<Task> {
        let taken: u32 = self.running.values().map(|it| it.places).sum();
        let places = self.waiting.front()?.spec.places_each();
        let fits = self.running.is_empty() || taken.saturating_add(places) <= capacity;
        fits.then(|| self.waiting.pop_front())?
    }
}

impl Shared {
    fn work(self: Arc<Shared>) {
        while let Some(task) = self.next() {
            self.take(task);
        }
    }

    /// Waits for the next run. `None`: the thread ends.
    fn next(&self) -> Option<Task> {
        let mut state = lock(&self.state);
        let mut until = Instant::now() + IDLE;
        state.idle += 1;
        loop {
            if !state.waiting.is_empty() {
                until = Instant::now() + IDLE;
            }
            let left = until.saturating_duration_since(Instant::now());
            let task = if state.is_closed { None } else { state.next_that_fits(self.settings.capacity) };
            if task.is_some() || left.is_zero() || state.is_closed {
                state.idle -= 1;
                state.workers -= u32::from(task.is_none());
                // The run moves to `running` under the same lock, so that a report to a hub never misses it.
                if let Some(task) = &task {
                    let running = Running::new(task.run, known_as(&task.user, None), task.spec.places_each());
                    state.running.insert(task.run, running);
                }
                return task;
            }
            state = match self.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    fn take(&self, task: Task) {
        let running = lock(&self.state).running.get(&task.run).cloned();
        let Some(running) = running else { return };
        if check_accepted(&self.settings.accepted, &task.user).is_err() {
            return self.give_back(task.run, true);
        }
        let Some(places) = self.wait_for_places(&running) else { return self.give_back(task.run, false) };
        let outcome = self.run(&task, &running);
        self.end(&running, outcome, places);
    }

    /// Takes all places of a run, or none. So two wide runs never deadlock with some of the places each.
    fn wait_for_places(&self, running: &Running) -> Option<Box<dyn Any + Send>> {
        let until = Instant::now() + PLACE_PATIENCE;
        let share = self.share(&running.user);
        // While this lives, other programs are asked to return places above their shares, and free places are reserved.
        let _wanted = (share.free() < running.places).then(|| share.want(running.places, None));
        loop {
            let places = share.keep(running.places).ok();
            running.is_placed.store(places.is_some(), Ordering::Release);
            let is_vain = running.is_stopped() || self.settings.places.closed().is_some();
            if places.is_some() || is_vain || Instant::now() >= until {
                return places.filter(|_| !running.is_stopped());
            }
        }
    }

    fn give_back(&self, run: Run, refuses: bool) {
        let is_known = lock(&self.state).running.remove(&run).is_some_and(|running| !running.is_stopped());
        self.changed.notify_all();
        if is_known {
            let room = self.room();
            self.tell_room(room);
            self.say(ToHubJobs::Back { runs: vec![run], refuses });
        }
    }

    /// Keeps a result until the hub has counted it, and reports it to the hub. A stopped run has no result.
    fn end(&self, running: &Arc<Running>, outcome: Outcome, places: Box<dyn Any + Send>) {
        running.is_placed.store(false, Ordering::Release);
        drop(places);
        let mut state = lock(&self.state);
        let is_known = state.running.remove(&running.run).is_some();
        self.changed.notify_all(); // several runs may wait for the places of this one
        if !is_known || running.is_stopped() {
            return;
        }
        state.ended.insert(running.run, outcome.clone());
        if let Some((link, _)) = &state.hub {
            tell_ended(link, vec![(running.run, outcome)]);
        }
    }
}
