//! Logs of processes. The hub has the logs of ended processes. It asks the executor for the log of a running one.

use super::super::serving::Linked;
use super::super::{Hub, HubError};
use super::Answer;
use crate::control::{tell, tell_with};
use phalanx_core::jobs::{Asker, Written};
use phalanx_core::wire::hub::FromHub;
use phalanx_core::wire::jobs::{FromHubJobs, MOST_TAIL, Stream};
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Timeout for an answer of an executor. The user's client retries.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most pending requests to executors.
const MOST: usize = 1024;

/// The pending requests to executors.
#[derive(Default)]
pub struct Tails(Mutex<Asked>);

#[derive(Default)]
struct Asked {
    last: u64,
    waiting: HashMap<u64, Waiting>,
}

struct Waiting {
    /// The number of the user's link.
    link: u64,
    executor: String,
    since: Instant,
}

impl Tails {
    /// Registers a request. `None`: too many are pending.
    fn add(&self, link: u64, executor: &str) -> Option<u64> {
        let mut asked = lock(&self.0);
        asked.waiting.retain(|_, it| it.since.elapsed() < PATIENCE);
        if asked.waiting.len() >= MOST {
            return None;
        }
        asked.last += 1;
        let (ticket, executor, since) = (asked.last, executor.to_owned(), Instant::now());
        asked.waiting.insert(ticket, Waiting { link, executor, since });
        Some(ticket)
    }

    /// The link of the user who waits for this answer of an executor.
    fn take(&self, ticket: u64, executor: &str) -> Option<u64> {
        let mut asked = lock(&self.0);
        asked.waiting.get(&ticket).filter(|it| it.executor == executor)?;
        asked.waiting.remove(&ticket).map(|it| it.link)
    }
}

impl Hub {
    /// Answers with the log of a process, or asks its executor. The hub forwards the executor's answer.
    pub(super) fn log_of(&self, linked: &Linked, (job, index): (u64, u32), stream: Stream, from: u64) -> Answer {
        let user = &linked.who().name;
        let asker = Asker { user, is_owner: self.engine().check_owner(user).is_ok() };
        let log = |content, is_running| Ok(Some((FromHub::Jobs(FromHubJobs::Log { content, is_running }), Vec::new())));
        let written = self.jobs().written(asker, job, index)?;
        match written {
            Written::All([output, error]) => log(Some(if stream == Stream::Out { output } else { error }), false),
            Written::Nothing { may_begin } => log(None, may_begin),
            Written::There { executor, run } => {
                let Some(ticket) = self.at_jobs.tails.add(linked.number(), &executor) else {
                    return Err(HubError::Other("too many users look at logs now: try again".to_owned()));
                };
                self.tell_executor(&executor, FromHubJobs::Tail { ticket, run, stream, from });
                Ok(None)
            }
        }
    }

    /// Forwards an executor's answer to the user.
    pub(super) fn pass_tail(&self, executor: &str, ticket: u64, is_running: bool, body: &[u8]) {
        let Some(number) = self.at_jobs.tails.take(ticket, executor) else { return };
        let linked = lock(&self.linked).get(&number).cloned();
        let Some(linked) = linked.filter(|_| body.len() <= MOST_TAIL) else { return };
        let message = FromHub::Jobs(FromHubJobs::Log { content: None, is_running });
        match body.is_empty() {
            true => tell(linked.link(), &message),
            false => tell_with(linked.link(), &message, body.to_vec()),
        }
    }
}
