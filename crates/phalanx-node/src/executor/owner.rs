//! The machine's owner: while a machine is closed to users, nothing of theirs runs on it.
//!
//! The engine ([`phalanx_core::voluntary`]) decides when a machine is closed. When it closes, interpreters, ranks and jobs end at once, whatever
//! they do, and their places are given to nobody. Managers are told first, so that they fire the instructions elsewhere and blame no
//! task. Spaces go on, because programs on other machines keep their state there.

use super::{Executor, Service, Session};
use crate::control::tell;
use crate::metering::Use;
use phalanx_core::voluntary::{Reason, Rules, Seen, Voluntary};
use phalanx_core::wire::FromExecutor;
use phalanx_net::sync::lock;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long the looks at what interpreters have used may keep the owner waiting, all together.
const LOOKS: Duration = Duration::from_millis(100);

/// What the owner wants, and when it began.
pub(super) struct Owner {
    engine: Mutex<Voluntary>,
    began: Instant,
}

impl Owner {
    pub(super) fn new(rules: Rules) -> Owner {
        Owner { engine: Mutex::new(Voluntary::new(rules)), began: Instant::now() }
    }

    /// Why the machine is closed.
    pub(super) fn closed(&self) -> Option<String> {
        lock(&self.engine).closed().map(Reason::to_string)
    }
}

impl Executor {
    /// The sensors have seen this. Ends what users run here, or serves them again, as the rules say. Returns after all has ended.
    pub fn observe(&self, seen: &Seen) {
        self.decide(|engine, now| engine.on_seen(now, seen));
    }

    /// Closes the machine if its sensors say nothing any more. Call it from time to time.
    pub fn look_at_owner(&self) {
        self.decide(Voluntary::on_time);
    }

    /// Why nobody is served now. `None`: users are.
    pub fn closed(&self) -> Option<String> {
        self.service.common.places.closed()
    }

    /// What users' processes use, and have used since the executor started; and the processor time of all of them together.
    pub fn used(&self) -> (Vec<Use>, Duration) {
        let meter = &self.service.common.meter;
        (meter.used(), meter.all())
    }

    fn decide(&self, decide: impl FnOnce(&mut Voluntary, Duration) -> bool) {
        let owner = &self.service.common.owner;
        let mut engine = lock(&owner.engine); // held until the decision is carried out, so that the next one is carried out after it
        if decide(&mut engine, owner.began.elapsed()) {
            self.service.obey_owner(engine.closed().map(Reason::to_string));
        }
    }
}

impl Service {
    /// Closes the machine to users, for this reason, or opens it.
    fn obey_owner(&self, why: Option<String>) {
        let was_closed = self.common.places.closed().is_some();
        self.common.places.close(why.clone());
        self.transfers.iter().for_each(|transfers| transfers.pause(why.clone()));
        let said = why.as_ref().map_or("open: users are served".to_owned(), |why| format!("closed: {why}"));
        self.log.info(said);
        let sessions: Vec<Arc<Session>> = lock(&self.common.sessions).values().cloned().collect();
        for session in &sessions {
            tell(&session.link, &FromExecutor::Closed { why: why.clone() });
        }
        if why.is_some() && !was_closed {
            #[cfg(target_os = "linux")]
            self.jobs.iter().for_each(super::jobs::Jobs::give_all_back);
            self.end_for_owner(&sessions);
        }
    }

    /// Ends all interpreters. Ranks are ended by the threads of their launchers' links, which look ten times a second.
    fn end_for_owner(&self, sessions: &[Arc<Session>]) {
        let requests = |session: &Arc<Session>| -> Vec<u32> { lock(&session.interpreters).keys().copied().collect() };
        let all: Vec<(&Arc<Session>, u32)> = sessions
            .iter()
            .flat_map(|session| requests(session).into_iter().map(move |request| (session, request)))
            .collect();
        // All are killed before the first is waited for: a keeper needs some milliseconds to find that nothing is left.
        let looks_end = Instant::now() + LOOKS;
        for (session, request) in &all {
            tell(&session.link, &FromExecutor::Taken { request: *request });
            if let Some(started) = lock(&session.interpreters).get(request) {
                if Instant::now() < looks_end {
                    started.metered.look();
                }
                lock(&started.process).begin_end();
            }
        }
        // Each wait has a thread, because a keeper that hangs is waited for for 30 s.
        thread::scope(|waits| {
            for (session, request) in &all {
                let wait = move || drop(self.end(session, *request));
                if thread::Builder::new().spawn_scoped(waits, wait).is_err() {
                    wait();
                }
            }
        });
    }
}
