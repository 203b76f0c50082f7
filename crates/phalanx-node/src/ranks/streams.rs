//! Standard output and error of the ranks of one machine. One thread reads them as fast as the output is taken, and no faster.

use phalanx_core::wire::machines::Source;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::fcntl_getpipe_size;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Bytes read from one stream before the next one's turn. It is the capacity of a pipe.
const AT_ONCE: usize = 64 << 10;
/// After this long without output, the beginning of a line is shown, because the user may wait for it.
const PAUSE: Duration = Duration::from_millis(100);

/// The reading end of one stream.
#[derive(Debug)]
pub struct Stream {
    source: Source,
    pipe: OwnedFd,
    /// Readable once the process has ended.
    ended: Arc<OwnedFd>,
    /// Once the process has ended: most bytes in the pipe that can still be the process's own. Other writers of the pipe are
    /// not waited for.
    left: Option<usize>,
}

/// The consumer of output. A call may block; meanwhile the processes wait.
pub trait Taker: Send {
    /// The next bytes of a stream.
    fn take(&mut self, source: Source, bytes: &[u8]);
    /// The stream has ended.
    fn end(&mut self, source: Source);
    /// Called when nothing has come for a moment. Returns whether to call it again before the next bytes.
    fn pause(&mut self) -> bool;
}

impl Stream {
    /// The read end of a rank's pipe. `ended` becomes readable when the rank has ended.
    pub fn new(source: Source, pipe: OwnedFd, ended: Arc<OwnedFd>) -> Stream {
        Stream { source, pipe, ended, left: None }
    }

    /// Reads once. Returns the number of bytes; 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left.is_none() && is_readable(&self.ended)? {
            self.left = Some(fcntl_getpipe_size(&self.pipe)?);
        }
        let most = buffer.len().min(self.left.unwrap_or(usize::MAX));
        let count = loop {
            match rustix::io::read(&self.pipe, &mut buffer[..most]) {
                Err(Errno::INTR) => {}
                outcome => break outcome?,
            }
        };
        self.left = self.left.map(|left| left - count);
        Ok(count)
    }
}

/// Reads the streams until the last has ended. A stream whose process has ended counts as ended when it is empty, even if other
/// processes still hold it open.
pub fn pump(mut streams: Vec<Stream>, mut taker: impl Taker) -> io::Result<()> {
    let (mut buffer, mut waits) = (vec![0; AT_ONCE], false);
    while !streams.is_empty() {
        let ready = wait(&streams, waits)?;
        if !ready.iter().any(|ready| *ready != Ready::No) {
            waits = taker.pause();
            continue;
        }
        waits = true;
        for index in (0..streams.len()).rev().filter(|index| ready[*index] != Ready::No) {
            let stream = &mut streams[index];
            let count = if ready[index] == Ready::Bytes { stream.read(&mut buffer)? } else { 0 };
            if count > 0 {
                taker.take(stream.source, &buffer[..count]);
            } else {
                taker.end(stream.source);
                streams.swap_remove(index);
            }
        }
    }
    Ok(())
}

fn is_readable(fd: &OwnedFd) -> io::Result<bool> {
    Ok(poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&Timespec::default()))? > 0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    No,
    /// There are bytes, or the stream has ended.
    Bytes,
    /// The stream is empty, and its process has ended.
    Ended,
}

fn wait(streams: &[Stream], waits: bool) -> io::Result<Vec<Ready>> {
    let pipes = streams.iter().map(|stream| PollFd::new(&stream.pipe, PollFlags::IN));
    let ends = streams.iter().map(|stream| PollFd::from_borrowed_fd(stream.ended.as_fd(), PollFlags::IN));
    let mut fds: Vec<PollFd<'_>> = pipes.chain(ends).collect();
    let patience = Timespec { tv_sec: 0, tv_nsec: PAUSE.subsec_nanos().into() };
    match poll(&mut fds, waits.then_some(&patience)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let (pipes, ends) = fds.split_at(streams.len());
    let ready = |(pipe, end): (&PollFd<'_>, &PollFd<'_>)| match (pipe.revents(), end.revents()) {
        (pipe, _) if !pipe.is_empty() => Ready::Bytes,
        (_, end) if !end.is_empty() => Ready::Ended,
        _ => Ready::No,
    };
    Ok(pipes.iter().zip(ends).map(ready).collect())
}
