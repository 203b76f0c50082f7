//! The watch over interpreters that are children of the user's own process: ends one that uses more memory than the program allows each of
//! them. There is no control group here, because it would have to move the user's own process.

use super::limiter::beyond;
use super::usage;
use phalanx_net::sync::lock;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two looks. An interpreter that fills memory at 4 GB/s gets 0.4 GB more than it may. A look takes about 0.1 ms for each
/// process.
const PAUSE: Duration = Duration::from_millis(100);
/// How often longer the pause is than a look, at least.
const RATIO: u32 = 10;

/// The watch. It ends when it is dropped.
#[derive(Debug)]
pub struct Own {
    /// The bytes that each interpreter may use, with what it has started.
    limit: u64,
    watched: Mutex<Vec<Weak<Watched>>>,
}

/// An interpreter that is watched.
#[derive(Debug)]
pub struct Watched {
    process: Pid,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Runs,
    /// It was ended, for the reason in words.
    Ended(String),
    /// Its parent waits for it, so that its number may be used again.
    Left,
}

impl Own {
    /// Begins to watch interpreters of which each may use so many bytes.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn begin(limit: u64) -> io::Result<Arc<Own>> {
        let own = Arc::new(Own { limit, watched: Mutex::default() });
        let watch = Arc::downgrade(&own);
        thread::Builder::new().name("phalanx-memory".into()).spawn(move || run(&watch))?;
        Ok(own)
    }

    /// Watches a child of this process, until [`Watched::leave`] is called.
    pub fn watch(&self, process: u32) -> Option<Arc<Watched>> {
        let process = Pid::from_raw(i32::try_from(process).ok()?)?;
        let watched = Arc::new(Watched { process, state: Mutex::new(State::Runs) });
        lock(&self.watched).push(Arc::downgrade(&watched));
        Some(watched)
    }

    fn look(&self) {
        let mut watched = lock(&self.watched);
        watched.retain(|it| it.strong_count() > 0);
        let living: Vec<Arc<Watched>> = watched.iter().filter_map(Weak::upgrade).collect();
        drop(watched);
        living.iter().filter(|it| matches!(*lock(&it.state), State::Runs)).for_each(|it| it.look(self.limit));
    }
}

impl Watched {
    /// Ends the interpreter if it uses more than it may.
    fn look(&self, limit: u64) {
        let above = || usage::above(self.process, limit, usage::Root::Interpreter);
        let Some(used) = Some(usage::of_interpreter(self.process)).filter(|used| *used > limit).and_then(|_| above())
        else {
            return;
        };
        let mut state = lock(&self.state);
        if matches!(*state, State::Runs) {
            *state = State::Ended(beyond(Some(used), limit));
            // Its parent has not waited for it, so that the number is its own.
            let _ = kill_process_group(self.process, Signal::KILL);
            let _ = kill_process(self.process, Signal::KILL);
        }
    }

    /// Watches the interpreter no longer, before its parent waits for it. Returns why it was ended, if the watch has ended it.
    pub fn leave(&self) -> Option<String> {
        match std::mem::replace(&mut *lock(&self.state), State::Left) {
            State::Ended(why) => Some(why),
            State::Runs | State::Left => None,
        }
    }
}

fn run(own: &Weak<Own>) {
    while let Some(own) = own.upgrade() {
        let began = Instant::now();
        own.look();
        drop(own);
        thread::sleep((began.elapsed() * RATIO).max(PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    /// Fills as many megabytes as it is told, and waits.
    fn filling(megabytes: u32) -> std::process::Child {
        let code = format!("import time; kept = bytearray(b'x') * ({megabytes} << 20); time.sleep(1000)");
        Command::new("python3").args(["-c", &code]).process_group(0).spawn().unwrap()
    }

    #[test]
    fn the_one_that_uses_too_much_is_ended_and_says_so() {
        let own = Own::begin(128 << 20).unwrap();
        let (mut small, mut large) = (filling(1), filling(400));
        let watched = [own.watch(small.id()).unwrap(), own.watch(large.id()).unwrap()];
        assert_eq!(large.wait().unwrap().signal(), Some(libc::SIGKILL));
        let why = watched[1].leave().unwrap();
        assert!(why.starts_with("it used ") && why.ends_with(" of memory, and its limit is 134.2 MB"), "{why}");
        assert!(small.try_wait().unwrap().is_none());
        assert_eq!(watched[0].leave(), None);
        small.kill().unwrap();
        small.wait().unwrap();
    }

    #[test]
    fn one_that_its_parent_waits_for_is_not_ended() {
        let own = Own { limit: 0, watched: Mutex::default() };
        let mut child = filling(1);
        let watched = own.watch(child.id()).unwrap();
        assert_eq!(watched.leave(), None);
        own.look();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
