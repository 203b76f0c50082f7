//! Standard output and error of the ranks of one machine, read by one thread as fast as they are taken, and no faster.

use phalanx_core::wire::machines::Source;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::fcntl_getpipe_size;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Bytes read of one stream before it is the next one's turn: as many as a pipe holds.
const AT_ONCE: usize = 64 << 10;
/// Without output for so long, what has come of a line is shown to whoever waits for it.
const PAUSE: Duration = Duration::from_millis(100);

/// The reading end of one stream.
#[derive(Debug)]
pub struct Stream {
    source: Source,
    pipe: OwnedFd,
    /// Readable once the process has ended.
    ended: Arc<OwnedFd>,
    /// Bytes that can still be of the process, once it has ended: who else writes there is not waited for.
    left: Option<usize>,
}

/// Where output goes. Each call may take its time: meanwhile the processes wait.
pub trait Taker: Send {
    /// The next bytes of a stream.
    fn take(&mut self, source: Source, bytes: &[u8]);
    /// The stream has ended.
    fn end(&mut self, source: Source);
    /// Nothing has come for a moment; whether that is of interest again before the next bytes.
    fn pause(&mut self) -> bool;
}

impl Stream {
    pub fn new(source: Source, pipe: OwnedFd, ended: Arc<OwnedFd>) -> Stream {
        Stream { source, pipe, ended, left: None }
    }

    /// How many bytes were read; 0 at the end.
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

/// Reads the streams until the last has ended. One whose process has ended ends when it is empty, whoever else may still
/// hold it.
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
    /// Bytes, or the end.
    Bytes,
    /// It is empty, and its process has ended.
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
