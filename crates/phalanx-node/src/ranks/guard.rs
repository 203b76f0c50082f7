//! The guard: a process that waits for this process to end, and then ends everything that this one has started. It works even
//! after a `kill -9`.

use crate::keeper::close_all_but;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Most process groups at a time.
const MOST: usize = 1 << 16;

/// The guard process lives as long as this value. Then it ends the process groups that it was told of.
#[derive(Debug)]
pub struct Guard {
    words: Option<OwnedFd>,
    process: libc::pid_t,
}

impl Guard {
    /// Starts the process.
    pub fn start() -> io::Result<Guard> {
        let (ears, words) = pipe_with(PipeFlags::CLOEXEC)?;
        let groups = vec![0; MOST]; // allocated before the fork, because the child must not allocate
        // SAFETY: the child calls nothing but functions that are safe after a fork, and never returns.
        match unsafe { libc::fork() } {
            // SAFETY: this is the child.
            0 => unsafe { watch(ears.as_raw_fd(), groups) },
            process if process > 0 => Ok(Guard { words: Some(words), process }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Makes the guard end this process group when this process ends.
    pub fn add(&self, group: u32) -> io::Result<()> {
        self.tell(group as i32)
    }

    /// Forgets a process group that is about to end, because its number may soon belong to another group.
    pub fn forget(&self, group: u32) {
        let _ = self.tell(-(group as i32));
    }

    fn tell(&self, word: i32) -> io::Result<()> {
        let Some(words) = &self.words else { return Ok(()) };
        loop {
            match rustix::io::write(words, &word.to_ne_bytes()) {
                Err(Errno::INTR) => {}
                outcome => return outcome.map(drop).map_err(io::Error::from),
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.words = None;
        // SAFETY: waits for a child of ours that nobody else waits for.
        while unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

/// The child's loop: keeps the list of groups until the pipe ends, and then kills them.
///
/// # Safety
/// Only to be called right after a fork, in the child.
unsafe fn watch(ears: RawFd, mut groups: Vec<i32>) -> ! {
    // SAFETY: every call is async-signal-safe; the memory was there before the fork.
    unsafe {
        libc::setpgid(0, 0); // signals for the terminal's foreground group must not reach the guard
        close_all_but(&[ears]);
        for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            libc::signal(number, libc::SIG_IGN);
        }
        let mut word = [0u8; 4];
        loop {
            match libc::read(ears, word.as_mut_ptr().cast(), word.len()) {
                4 => note(&mut groups, i32::from_ne_bytes(word)),
                -1 if *libc::__errno_location() == libc::EINTR => {}
                _ => break,
            }
        }
        for group in groups.iter().filter(|group| **group != 0) {
            libc::kill(-group, libc::SIGKILL);
        }
        libc::_exit(0)
    }
}

fn note(groups: &mut [i32], word: i32) {
    let (is, becomes) = if word > 0 { (0, word) } else { (-word, 0) };
    if let Some(group) = groups.iter_mut().find(|group| **group == is) {
        *group = becomes;
    }
}
