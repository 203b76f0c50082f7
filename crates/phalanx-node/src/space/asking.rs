//! Questions to a space, in as many steps as it takes: between them, the space is others'.

use super::hosted::{Hosted, Told};
use phalanx_core::error::SpaceError;
use phalanx_core::space::{Asker, Outcome, Question};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Hosted {
    /// Asks, until there is an answer. What is told must be flushed before what was found is said.
    pub fn ask(self: &Arc<Self>, question: &Question) -> (Result<Outcome, SpaceError>, Told) {
        match self.with(|space, now| space.ask(now, question)) {
            (Ok(Outcome::GoesOn), told) => {
                let (outcome, more) = self.go_on(question.asker, Duration::MAX);
                (outcome, told.and(more))
            }
            asked => asked,
        }
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
