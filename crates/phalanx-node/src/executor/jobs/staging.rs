//! Inputs of jobs. A machine fetches each input from the hub once, and copies it into the folder of each run, which may change its copy.

use super::running::{Failure, Running};
use super::{MOST_CACHED, Shared, Task};
use crate::contents::Store;
use crate::scratch::Folder;
use phalanx_core::wire::jobs::{Content, Digest};
use phalanx_net::sync::lock;
use std::fs::File;
use std::io::{self, Read};

/// Bytes per read when a file is copied.
const AT_ONCE: usize = 1 << 20;

impl Shared {
    /// Puts the inputs of a run into its folder.
    pub(super) fn stage(&self, task: &Task, running: &Running, folder: &Folder) -> Result<(), Failure> {
        for input in &task.spec.inputs {
            let named = |error: io::Error| Failure::Machine(format!("the input {}: {error}", input.name));
            folder.begin(&input.name, input.executable).map_err(named)?;
            match &input.content {
                Content::Here(bytes) => folder.write(bytes).map_err(named)?,
                Content::Kept { digest, bytes } => {
                    let mut from = self.cached(task, running, *digest, *bytes)?;
                    copy(&mut from, folder).map_err(named)?;
                }
            }
            if running.is_stopped() {
                break;
            }
        }
        folder.finish();
        Ok(())
    }

    /// Opens an input from the cache, after fetching it from the hub if it is missing.
    fn cached(&self, task: &Task, running: &Running, digest: Digest, bytes: u64) -> Result<File, Failure> {
        let cache = self.cache()?;
        let turn = lock(&self.fetching).entry(digest).or_default().clone();
        let fetched = {
            let _alone = lock(&turn);
            if cache.uses(&task.user, &digest) { Ok(()) } else { self.fetch(task, running, &cache, (digest, bytes)) }
        };
        lock(&self.fetching).remove(&digest);
        fetched?;
        Ok(cache.read(&task.user, &digest)?)
    }
}

impl Shared {
    /// Fetches an input from the hub.
    fn fetch(&self, task: &Task, running: &Running, cache: &Store, input: (Digest, u64)) -> Result<(), Failure> {
        let (digest, bytes) = input;
        if bytes > MOST_CACHED {
            return Err(Failure::User(format!(
                "an input has {bytes} bytes, and a machine keeps {MOST_CACHED} of inputs: divide it into several jobs"
            )));
        }
        cache.shrink(MOST_CACHED - bytes);
        self.bring(running, |contents| {
            let mut incoming = cache.begin(&task.user, digest, bytes)?;
            if incoming.at() > 0 && !incoming.is_whole() {
                incoming.restart()?;
            }
            match incoming.is_whole() {
                true => Ok(()),
                false => contents.get(&task.user, digest, bytes, &mut incoming),
            }
        })
    }
}

fn copy(from: &mut File, folder: &Folder) -> io::Result<()> {
    let mut buffer = vec![0; AT_ONCE];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => folder.write(&buffer[..count])?,
        }
    }
}
