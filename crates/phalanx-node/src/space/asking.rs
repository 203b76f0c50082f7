//! Long questions to a space are answered in several steps. Between two steps, other threads may use the space.

use super::hosted::{Hosted, Told};
use phalanx_core::error::SpaceError;
use phalanx_core::space::{Asker, Outcome, Question};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a client is told that the search for its answer still goes on.
const BEAT: Duration = Duration::from_secs(5);

impl Hosted {
    /// Asks until there is an answer, and calls `meanwhile` every few seconds until then. The returned `Told` must be flushed
    /// before the answer is sent.
    pub fn ask(
        self: &Arc<Self>,
        question: &Question,
        mut meanwhile: impl FnMut(),
    ) -> (Result<Outcome, SpaceError>, Told) {
        let (mut outcome, mut told) = self.with(|space, now| space.ask(now, question));
        while outcome == Ok(Outcome::GoesOn) {
            let (next, more) = self.go_on(question.asker, BEAT);
            (outcome, told) = (next, told.and(more));
            if outcome == Ok(Outcome::GoesOn) {
                meanwhile();
            }
        }
        (outcome, told)
    }

    /// Continues an unfinished question for up to `patience`. [`Outcome::GoesOn`]: it is still unfinished.
    pub fn go_on(self: &Arc<Self>, asker: Asker, patience: Duration) -> (Result<Outcome, SpaceError>, Told) {
        let (began, mut told) = (Instant::now(), Told::default());
        loop {
            self.give_way();
            let (outcome, more) = self.with(|space, now| space.go_on(now, asker));
            told = told.and(more);
            if outcome != Ok(Outcome::GoesOn) || began.elapsed() >= patience {
                return (outcome, told);
            }
        }
    }
}
