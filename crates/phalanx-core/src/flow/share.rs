//! Interpreters that are given back because their executor asks for them: another user waits there.

use super::Engine;
use crate::event::Fact;
use crate::ids::InterpreterId;
use std::cmp::Reverse;
use std::time::Duration;

impl Engine {
    /// Of the interpreters in `among`, all of one executor, keeps `keep`. The others leave as soon as nothing is in flight
    /// there. Idle ones leave first, then the newest, which the executor would take too. If more may be kept than before, some
    /// that were to leave stay.
    pub(super) fn on_share(&mut self, now: Duration, among: &[InterpreterId], keep: u32) {
        let (mut staying, mut asked) = (Vec::new(), Vec::new());
        for id in among {
            match self.interpreters.get(id) {
                Some(it) if !it.leaving => staying.push((!it.in_flight.is_empty(), Reverse(*id))),
                Some(it) if it.asked_back => asked.push(*id),
                _ => {}
            }
        }
        let have = staying.len();
        staying.sort_unstable();
        let leaving = staying.into_iter().take(have.saturating_sub(keep as usize));
        let leaving: Vec<InterpreterId> = leaving.map(|(_, Reverse(id))| id).collect();
        if !leaving.is_empty() {
            self.record(Fact::AskedBack { interpreters: leaving.len() as u32 });
        }
        for id in leaving {
            self.interpreters.entry(id).and_modify(|it| it.asked_back = true);
            self.begin_leaving(id);
        }
        for id in asked.into_iter().take((keep as usize).saturating_sub(have)) {
            self.interpreters.entry(id).and_modify(|it| (it.leaving, it.asked_back) = (false, false));
        }
        self.release_idle_leavers();
        self.fire(now);
    }
}
