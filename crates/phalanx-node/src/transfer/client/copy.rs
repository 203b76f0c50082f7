//! The user's end of a transfer: reaches the executor, agrees on a level, opens the streams, and says what came of it.

use super::between;
use super::calling::{Called, Caller, Ran, Terms};
use super::job::{CopyError, Here, Job, Report, Shared, asked};
use crate::dial::agree;
use crate::transfer::disk::exports::split_local;
use crate::transfer::disk::sink::Sink;
use crate::transfer::disk::source::Source;
use crate::transfer::endpoint::common::Common;
use crate::transfer::endpoint::end::End;
use crate::transfer::system::{about, to_bytes};
use phalanx_core::wire::transfer::{Direction, Filter, Message};
use phalanx_net::stream::Protection;
use phalanx_net::sync::lock;
use std::io;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Between two attempts to go on after a cut.
const REST: Duration = Duration::from_millis(300);

/// A copy that goes on in a thread of its own. Dropping it cancels it.
pub struct Copy {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Copy {
    /// Begins.
    pub fn start(job: Job) -> io::Result<Copy> {
        let shared = Arc::new(Shared::default());
        let copying = shared.clone();
        let run = move || {
            let outcome = copy(&job, &copying);
            *lock(&copying.outcome) = Some(outcome);
            copying.ended.notify_all();
        };
        let thread = thread::Builder::new().name("phalanx-copy".into()).spawn(run)?;
        Ok(Copy { shared, thread: Some(thread) })
    }

    /// Bytes that are there, of how many so far, and whether there may be more.
    pub fn progress(&self) -> (u64, u64, bool) {
        self.shared.progress()
    }

    /// Waits up to `patience` for the outcome.
    pub fn wait(&self, patience: Duration) -> Option<Result<Report, CopyError>> {
        let outcome = lock(&self.shared.outcome);
        let waited = self.shared.ended.wait_timeout_while(outcome, patience, |outcome| outcome.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Ends it; what is there is kept.
    pub fn cancel(&self) {
        self.shared.cancel();
    }
}

impl Copy {
    /// Ends it, and waits until nothing of it goes on here.
    pub fn close(&mut self) {
        self.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.close();
    }
}

/// Goes on after cuts, as long as something arrives in between.
fn copy(job: &Job, shared: &Shared) -> Result<Report, CopyError> {
    let (began, mut cuts) = (Instant::now(), 0);
    let (mut last_news, mut most) = (Instant::now(), 0);
    loop {
        let outcome = match &job.here {
            Here::Executor { address, source } => between::attempt(job, address, source, shared),
            _ => attempt(job, shared),
        };
        shared.forget_attempt();
        let outcome = outcome.map(|report| Report { cuts, elapsed: began.elapsed(), ..report });
        if shared.is_cancelled() && outcome.is_err() {
            return Err(CopyError::Cancelled);
        }
        let bytes = shared.progress().0;
        if bytes > most {
            (most, last_news) = (bytes, Instant::now());
        }
        match outcome {
            Err(CopyError::Cut(_)) => cuts += 1,
            Err(CopyError::Unreachable(_)) if cuts > 0 => {}
            outcome => return outcome,
        }
        if last_news.elapsed() >= job.patience {
            return outcome.map_err(|error| match error {
                CopyError::Unreachable(why) => CopyError::Cut(why), // something of it may be there
                error => error,
            });
        }
        thread::sleep(REST);
    }
}

fn attempt(job: &Job, shared: &Shared) -> Result<Report, CopyError> {
    let refused = |error: io::Error| CopyError::Refused(error.to_string());
    let dialler = job.caller()?;
    let mut called = Called::new(&job.address, Caller::User(&dialler), |link| shared.add_link(link))?;
    let agreed = agree(&job.policy, job.level, called.at.ip(), called.levels);
    let (level, why) = agreed.map_err(|why| CopyError::Level(format!("{}: {why}", job.address)))?;
    let common = Arc::new(Common::new(called.link.clone(), true));
    let is_near = called.is_here;
    let end = Arc::new(open_here(job, is_near, common).map_err(refused)?);
    let (links, keeps) = (job.filter.links, job.filter.keeps); // the end that makes them decides too
    let filter =
        if job.direction == Direction::Get { job.filter.clone() } else { Filter { links, keeps, ..Filter::default() } };
    let name = name_here(&job.here).map_err(refused)?;
    let request = job.request(job.direction, job.there.clone(), filter, level, is_near, name);
    let Message::Begun { token } = called.ask(&Message::Begin(request))? else { return Err(called.nonsense()) };
    shared.set_end(&end);
    let protection = Protection { level, checked: job.checked };
    let terms = Terms { protection, streams: job.streams, threads: job.threads };
    let peers = vec![called.name.clone()];
    let Ran { totals, streams, lost, altered, setup } = called.run(&end, token, terms, |_| ())?;
    let (failures, cuts, elapsed) = (end.common().failures(), 0, Duration::ZERO);
    Ok(Report { level, why, peers, streams, totals, failures, lost, altered, cuts, setup, elapsed })
}

/// The name of what is copied from here, as [`Source::open`] gives it.
fn name_here(here: &Here) -> io::Result<Vec<u8>> {
    let Here::Path { path, .. } = here else { return Ok(Vec::new()) };
    Ok(std::path::absolute(path)?.file_name().map(to_bytes).unwrap_or_default())
}

fn open_here(job: &Job, is_near: bool, common: Arc<Common>) -> io::Result<End> {
    let compress = job.compress(is_near);
    match (&job.here, job.direction) {
        (Here::Memory { bytes }, Direction::Put) => {
            End::sending(common, Source::Memory { bytes: *bytes }, job.limit, compress)
        }
        (Here::Memory { .. }, Direction::Get) => End::receiving(common, Sink::Memory, job.share),
        (Here::Executor { .. }, _) => Err(io::ErrorKind::InvalidInput.into()), // nothing of it is here
        (Here::Path { path, .. }, Direction::Put) => {
            let whole = std::path::absolute(path)?;
            let (base, rest) = split_local(&whole)?;
            let source = Source::open(&base, &rest, &whole).map_err(about(path))?.filtered(&job.filter)?;
            let source = source.following_anywhere(&whole)?;
            End::sending(common, source, job.limit, compress)
        }
        (Here::Path { path, into }, Direction::Get) => {
            let (base, rest) = split_local(&std::path::absolute(path)?)?;
            let sink = Sink::tree(base, rest, *into, job.anew).called(&asked(&job.there)?).filtered(&job.filter)?;
            let sink = sink.shared(job.share, job.fresh).comparing(!job.whole_file(is_near));
            End::receiving(common, sink, job.share)
        }
    }
}
