//! Whether frames are compressed, and how hard: as far as that saves time, which is measured and not guessed.
//!
//! Threads that wait for a line to take bytes could compress meanwhile. So what is looked at is how long they wait: while
//! they do, the line is what limits and compressing harder costs nothing; when they do not, compressing is what limits.

use crate::wire::transfer::Compress;
use core::time::Duration;

/// The hardest level of zstd. Beyond it, blocks of 256 KiB of text get 2 % shorter for four times the time.
const HARDEST: u8 = 9;
/// Level to begin with: zstd's own. Level 1 is 15 % faster, and saves 4 % less of text.
const USUAL: u8 = 3;
/// A line that takes so many bytes/s, 1 Gbit/s, is left alone unless compressing is asked for.
const FAST: f64 = 125e6;
/// What happens is judged after so long: a few frames even on a line of 10 Mbit/s.
const SPAN: Duration = Duration::from_millis(50);
/// Threads wait so much of the time, all together and of one thread's, where the line is what limits, and where it is not. The
/// next level takes about half as long again.
const WAITING: f64 = 0.35;
const BUSY: f64 = 0.1;
/// Bytes count as compressed if they are at most so much of what they were.
const SHORTER: f64 = 0.9;
/// Compressing is worth it if so many times more of the files gets through: less where something else than the line limits, as
/// the other end's disk or its cores.
const WORTH: f64 = 1.05;
/// What compressing does is seen after so long.
const TRIAL: Duration = Duration::from_millis(500);
/// After a trial that gained nothing it is tried again so much later, and each time twice as late up to the latest.
const SOON: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(16);

/// Decides for one sending end.
#[derive(Debug)]
pub struct Compression {
    how: Compress,
    /// 0: frames go as they are.
    level: u8,
    window: Window,
    /// Of the last window in which frames went as they were and the line was what limited, bytes/s.
    line: Option<f64>,
    /// A thread has waited: sockets are full, and take from now on what their line does.
    is_full: bool,
    trial: Trial,
    /// Until then nothing is tried, and for so long after the next trial that fails.
    rests: (Duration, Duration),
}

/// What happened in a short while.
#[derive(Debug, Default)]
struct Window {
    began: Option<Duration>,
    /// All threads together, for the line.
    waited: Duration,
    /// Bytes of the frames, and of what went over the line for them.
    read: u64,
    sent: u64,
}

/// Since compressing began, or was seen to be worth it.
#[derive(Debug, Default)]
struct Trial {
    began: Duration,
    read: u64,
    sent: u64,
}

impl Compression {
    /// The decisions for one transfer.
    pub fn new(how: Compress) -> Compression {
        let level = if how == Compress::Always { USUAL } else { 0 };
        let (window, trial) = (Window::default(), Trial::default());
        Compression { how, level, window, line: None, is_full: false, trial, rests: (Duration::ZERO, SOON) }
    }

    /// How hard the next frame is to be compressed; none: it goes as it is.
    pub fn level(&self) -> Option<i32> {
        (self.level > 0).then_some(i32::from(self.level))
    }

    /// A thread waited so long for the line to take more.
    pub fn on_waited(&mut self, waited: Duration) {
        if !self.is_full {
            (self.is_full, self.window) = (true, Window::default());
        }
        self.window.waited += waited;
    }

    /// There is nothing to send: what was measured says nothing of the line.
    pub fn on_idle(&mut self) {
        (self.is_full, self.window) = (false, Window::default());
    }

    /// By `now`, from any beginning, one more frame is ready: as long as it was read, and as it is sent.
    pub fn on_frame(&mut self, now: Duration, read: usize, sent: usize) {
        if self.how == Compress::Never {
            return;
        }
        let Some(began) = self.window.began else {
            self.window = Window { began: Some(now), ..Window::default() };
            self.trial = Trial { began: now, ..Trial::default() };
            return;
        };
        self.window.read += read as u64;
        self.window.sent += sent as u64;
        self.trial.read += read as u64;
        self.trial.sent += sent as u64;
        let span = now.saturating_sub(began);
        if span >= SPAN {
            let Window { waited, read, sent, .. } = core::mem::take(&mut self.window);
            self.window.began = Some(now);
            let rate = sent as f64 / span.as_secs_f64();
            self.judge(now, waited.as_secs_f64() / span.as_secs_f64(), rate, sent as f64 <= read as f64 * SHORTER);
        }
    }

    /// Threads waited `spare` of the time, and so many bytes/s were sent.
    fn judge(&mut self, now: Duration, spare: f64, rate: f64, is_shorter: bool) {
        let waits = spare >= WAITING;
        if self.how == Compress::BySpeed {
            if waits && rate >= FAST {
                (self.level, self.line) = (0, None);
                return;
            }
            if self.level == 0 && waits {
                self.on_plain(now, rate);
            }
            if self.level == 0 || self.trial.began == now {
                return;
            }
            if now.saturating_sub(self.trial.began) >= TRIAL && !self.is_worth_it(now) {
                return self.rest(now);
            }
        }
        if waits && is_shorter {
            self.level = HARDEST.min(self.level + 1); // what does not get shorter does not by more work either
        } else if spare < BUSY {
            self.level = 1.max(self.level - 1);
        }
    }

    /// The line limits what goes as it is.
    fn on_plain(&mut self, now: Duration, rate: f64) {
        self.line = Some(rate);
        if now >= self.rests.0 {
            self.level = USUAL;
            self.trial = Trial { began: now, ..Trial::default() };
        }
    }

    /// What the trial has shown; the next one begins.
    fn is_worth_it(&mut self, now: Duration) -> bool {
        let Trial { began, read, sent } = core::mem::replace(&mut self.trial, Trial { began: now, ..Trial::default() });
        let is_shorter = sent as f64 <= read as f64 * SHORTER;
        let rate = read as f64 / now.saturating_sub(began).as_secs_f64();
        let gains = !is_shorter || self.line.is_none_or(|line| rate >= line * WORTH);
        if gains {
            self.rests.1 = SOON;
        }
        gains
    }

    /// Compressing gains nothing now.
    fn rest(&mut self, now: Duration) {
        self.level = 0;
        self.rests = (now + self.rests.1, LATEST.min(self.rests.1 * 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line, threads that compress, and an end that writes, as figures.
    struct Model {
        /// Bytes/s that the line carries, and that the receiving end takes of what was read.
        line: f64,
        taken: f64,
        /// Bytes/s that all threads compress at level 1, and at each further one so many times fewer.
        compressed: f64,
        ratio: f64,
    }

    impl Model {
        const FRAME: f64 = 256e3;

        /// The levels of frames, and the seconds that all took.
        fn run(&self, how: Compress, seconds: f64) -> (Vec<u8>, f64) {
            let (mut compression, mut now, mut levels, mut read) = (Compression::new(how), 0.0, Vec::new(), 0.0);
            while now < seconds {
                let level = compression.level().unwrap_or(0);
                let hard = level > 0;
                let length = if hard { Self::FRAME * (self.ratio - 0.01 * f64::from(level)) } else { Self::FRAME };
                let cores = if hard { Self::FRAME / self.compressed * 1.5f64.powi(level - 1) } else { 1e-5 };
                let line = (length / self.line).max(Self::FRAME / self.taken);
                compression.on_waited(Duration::from_secs_f64((line - cores).max(0.0)));
                now += line.max(cores);
                compression.on_frame(Duration::from_secs_f64(now), Self::FRAME as usize, length as usize);
                levels.push(level as u8);
                read += Self::FRAME;
            }
            (levels, read / now)
        }
    }

    const TEXT: Model = Model { line: 12.5e6, taken: 1e12, compressed: 400e6, ratio: 0.3 };

    #[test]
    fn a_slow_line_is_helped_as_hard_as_the_cores_can() {
        let (levels, rate) = TEXT.run(Compress::BySpeed, 10.0);
        assert!(levels.starts_with(&[0]) && levels.last() >= Some(&5), "{levels:?}");
        assert!(rate > 3.5 * TEXT.line, "{rate}");
    }

    #[test]
    fn cores_that_are_slower_than_the_line_compress_less() {
        let slow = Model { compressed: 50e6, ..TEXT };
        let (levels, rate) = slow.run(Compress::BySpeed, 10.0);
        let hardest = levels.iter().skip(levels.len() / 2).max();
        assert!(hardest.is_some_and(|level| (1..=4).contains(level)), "{levels:?}");
        assert!(rate > 2.0 * slow.line, "{rate}");
    }

    #[test]
    fn a_fast_line_is_left_alone() {
        for line in [130e6, 1.2e9] {
            let (levels, _) = Model { line, ..TEXT }.run(Compress::BySpeed, 3.0);
            assert!(levels.iter().all(|level| *level == 0), "{levels:?}");
        }
    }

    #[test]
    fn cores_that_are_slower_than_sending_as_it_is_soon_leave_it() {
        let hopeless = Model { compressed: 10e6, ..TEXT };
        let (levels, rate) = hopeless.run(Compress::BySpeed, 20.0);
        assert!(levels.contains(&USUAL), "it was tried");
        assert!(rate > 0.9 * hopeless.line, "{rate}");
    }

    #[test]
    fn an_end_that_takes_no_more_is_not_sent_compressed() {
        let slow_disk = Model { line: 1.2e9, taken: 50e6, ..TEXT };
        let (levels, _) = slow_disk.run(Compress::BySpeed, 30.0);
        let compressed = levels.iter().filter(|level| **level > 0).count();
        assert!(compressed < levels.len() / 5, "{compressed} of {}", levels.len());
    }

    #[test]
    fn pauses_in_which_there_is_nothing_to_send_say_nothing() {
        let (mut compression, mut now) = (Compression::new(Compress::BySpeed), Duration::ZERO);
        let mut frames = |compression: &mut Compression, count: u32| {
            for _ in 0..count {
                now += Duration::from_millis(20);
                compression.on_waited(Duration::from_millis(19));
                let length = if compression.level().is_some() { 80_000 } else { 250_000 };
                compression.on_frame(now, 250_000, length);
            }
            now += Duration::from_secs(2);
            compression.on_idle();
        };
        frames(&mut compression, 20);
        assert!(compression.level() > Some(1));
        for _ in 0..20 {
            frames(&mut compression, 5);
        }
        assert!(compression.level().is_some());
    }

    #[test]
    fn what_does_not_compress_is_not_tried_harder() {
        let (levels, _) = Model { ratio: 1.0, ..TEXT }.run(Compress::BySpeed, 3.0);
        assert!(levels.iter().all(|level| *level <= USUAL), "{levels:?}");
    }

    #[test]
    fn what_was_asked_for_holds() {
        let fast = Model { line: 5e9, ..TEXT };
        assert!(fast.run(Compress::Always, 2.0).0.iter().all(|level| *level > 0));
        assert!(TEXT.run(Compress::Never, 2.0).0.iter().all(|level| *level == 0));
    }
}
