//! Interpreters that are silent, because they are frozen, cut off, or only starved of processor time.

use super::Engine;
use super::interpreter::Interpreter;
use crate::event::{Cause, Command};
use crate::ids::InterpreterId;
use std::time::Duration;

/// Divisor of the allowed silence: between two ticks, at most this part of it counts as silence. A manager that was
/// starved or suspended therefore needs several ticks to find an interpreter silent.
const HEEDED: u32 = 4;
/// An interpreter whose process is seen to live may be silent this many times longer, because it may be starved or
/// copying gigabytes.
const ALIVE: u32 = 20;

impl Engine {
    pub(super) fn on_heard(&mut self, now: Duration, id: InterpreterId) {
        if let Some(interpreter) = self.interpreters.get_mut(&id) {
            interpreter.heard = now;
        }
    }

    /// The driver has just seen that the interpreter's process lives.
    pub(super) fn on_alive(&mut self, id: InterpreterId) {
        if let Some(interpreter) = self.interpreters.get_mut(&id) {
            interpreter.alive = true;
        }
    }

    /// The manager may have been starved or suspended since the last tick. That time does not count as the
    /// interpreters' silence.
    pub(super) fn excuse_silence(&mut self, now: Duration, since: Duration) {
        let excused = since.saturating_sub(self.config.silence / HEEDED);
        if !excused.is_zero() {
            let interpreters = self.interpreters.values_mut();
            interpreters.for_each(|interpreter| interpreter.heard = (interpreter.heard + excused).min(now));
        }
    }

    pub(super) fn drop_silent(&mut self, now: Duration) {
        let silence = |interpreter: &Interpreter| now.saturating_sub(interpreter.heard);
        let most = |it: &Interpreter| self.config.silence * if it.alive { ALIVE } else { 1 };
        let silent = self.interpreters.iter().filter(|(_, it)| silence(it) >= most(it));
        let silent: Vec<_> = silent.map(|(id, it)| (*id, silence(it).as_millis() as u64)).collect();
        for (id, milliseconds) in silent {
            self.commands.push_back(Command::Dismiss { id });
            self.on_lost(now, id, Cause::Silent { milliseconds });
        }
        self.interpreters.values_mut().for_each(|interpreter| interpreter.alive = false); // set anew before each tick
    }
}
