//! Standard input for rank 0.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;

const AT_ONCE: usize = 64 << 10;
/// How often a background program checks whether it has come to the terminal's foreground.
const BACKGROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Starts a thread that passes standard input on to `give`, until `give` returns false or the input ends. The end is passed as
/// an empty slice. The thread stops when the other end of `stopped` is closed, but not while `give` blocks.
pub fn pump(stopped: OwnedFd, mut give: impl FnMut(&[u8]) -> bool + Send + 'static) -> io::Result<()> {
    let work = move || {
        let mut buffer = vec![0; AT_ONCE];
        while let Some(count) = read(&stopped, &mut buffer) {
            if !give(&buffer[..count]) || count == 0 {
                return;
            }
        }
    };
    thread::Builder::new().name("phalanx-input".into()).spawn(work).map(drop)
}

/// Reads once. Returns the number of bytes, or `None` if the thread must stop.
fn read(stopped: &OwnedFd, buffer: &mut [u8]) -> Option<usize> {
    let input = io::stdin();
    loop {
        let may_read = !is_in_background(&input);
        let mut fds = vec![PollFd::new(stopped, PollFlags::IN)];
        fds.extend(may_read.then(|| PollFd::new(&input, PollFlags::IN)));
        match poll(&mut fds, (!may_read).then_some(&BACKGROUND)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Some(0),
        }
        if !fds[0].revents().is_empty() {
            return None;
        }
        if fds.get(1).is_none_or(|input| input.revents().is_empty()) {
            continue;
        }
        match rustix::io::read(input.as_fd(), &mut *buffer) {
            Ok(count) => return Some(count),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return Some(0),
        }
    }
}

/// Whether this process is in the background. The system stops a background process that reads its terminal.
fn is_in_background(input: &impl AsFd) -> bool {
    rustix::termios::tcgetpgrp(input).is_ok_and(|group| group != rustix::process::getpgrp())
}
