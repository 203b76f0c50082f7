//! Questions to a space, in as many steps as it takes: between them, the space is others'.

use super::hosted::{Hosted, Told};
use phalanx_core::error::SpaceError;
use phalanx_core::space::{Asker, Outcome, Question};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often who asks is told that the answer is still being looked for.
const BEAT: Duration = Duration::from_secs(5);

impl Hosted {
    /// Asks, until there is an answer; `meanwhile` is called every few seconds until then. What is told must be flushed before
    /// what was found is said.
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

    /// Goes on with a question that is not answered yet; [`Outcome::GoesOn`]: that was not all, and `patience` is over.
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
