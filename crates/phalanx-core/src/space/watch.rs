//! Watches: a numbered event for each matching tuple that is put, delivered at least once.

use super::register::{Interest, Kind};
use super::{Asker, Command, RequestId, Space, Template, Tuple, Watching};
use crate::error::SpaceError;
use crate::ids::SessionId;
use std::sync::Arc;

impl Space {
    /// Begins a watch. It gets events for matching tuples that are put from now on. With `since`, it also gets, at
    /// once, the known events after that number. A watch counts as a waiter and uses a request number.
    pub fn watch(
        &mut self,
        session: SessionId,
        watch: RequestId,
        template: Arc<Template>,
        since: Option<u64>,
    ) -> Result<Watching, SpaceError> {
        let asker = Asker { session, request: watch, acknowledges: false };
        let (key, label, transaction, deadline) = (None, None, None, None);
        let interest = Interest { asker, template: template.clone(), key, label, transaction, deadline, peeks: false };
        let last = self.log.last();
        if let Some(since) = since.filter(|since| *since > last) {
            return Err(SpaceError::NoEvent { since, last });
        }
        self.enrol(Kind::Watch, interest)?;
        self.log.keep();
        let Some(since) = since else { return Ok(Watching { last, missed: 0 }) };
        let (missed, known) = self.log.since(since);
        let matching = known.filter(|(_, tuple)| template.matches(tuple.bytes()));
        let events =
            matching.map(|(sequence, tuple)| Command::Notify { session, watch, sequence, tuple: tuple.clone() });
        self.commands.extend(events);
        Ok(Watching { last, missed })
    }

    /// Ends a watch. `false`: there was none.
    pub fn unwatch(&mut self, session: SessionId, watch: RequestId) -> bool {
        match self.asked.get(&(session, watch)) {
            Some((Kind::Watch, _)) => self.leave(session, watch).is_some(),
            _ => false,
        }
    }

    /// Records the event that a tuple was put and is visible to all. Returns the number of the event.
    pub(super) fn note_event(&mut self, tuple: &Tuple) -> u64 {
        let room = self.options.most_bytes.saturating_sub(self.bytes() - self.log.bytes());
        self.log.add(tuple, room)
    }
}
