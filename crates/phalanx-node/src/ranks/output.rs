//! What the user sees of the ranks' output: whole lines, each with its rank before it, and files.

use super::streams::Taker;
use crate::lines::Lines;
use phalanx_core::wire::machines::{Kind, Source};
use phalanx_net::sync::lock;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Of the terminal, for the prefixes: those that are read well on dark and on light.
const COLOURS: [u8; 6] = [36, 33, 35, 32, 34, 31];

/// How output is shown.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// `[3] ` before each line.
    pub prefix: bool,
    /// Which of standard output and error is a terminal: prefixes have colours there, and a line need not be whole to be
    /// seen, since it may be a question.
    pub terminals: [bool; 2],
    /// Whether terminals show colours.
    pub colours: bool,
    /// Nothing is written to standard output and error, the launcher's own words neither.
    pub hidden: bool,
    /// A folder for one file per rank and stream, like `3.out`, `3.err`.
    pub folder: Option<PathBuf>,
}

/// Told once why output cannot be written; the processes need not wait for it any more.
pub type OnTrouble = Box<dyn Fn(&io::Error) + Send>;

/// Standard output and error of this process, and the files: shared by all that have something to show.
#[derive(Clone)]
pub struct Output {
    screen: Arc<Mutex<Screen>>,
    /// What is to be said as soon as the screen is free.
    said: Arc<Mutex<Vec<String>>>,
}

struct Screen {
    look: Look,
    /// The numbers of the first processes of the worlds that were spawned, in their order.
    worlds: Vec<u32>,
    /// Of lines that are not whole yet.
    begun: Lines<Source>,
    /// Whose line is shown that is not whole, on standard output and error.
    open: [Option<Source>; 2],
    files: HashMap<Source, File>,
    /// Whether standard output and error can no longer be written.
    failed: [bool; 2],
    on_trouble: Option<OnTrouble>,
    text: Vec<u8>,
}

impl Output {
    /// Nothing is written yet.
    pub fn new(look: Look, on_trouble: OnTrouble) -> Output {
        let (begun, files, on_trouble) = (Lines::new(), HashMap::new(), Some(on_trouble));
        let (worlds, open, failed, text) = (Vec::new(), [None; 2], [false; 2], Vec::new());
        let screen = Screen { look, worlds, begun, open, files, failed, on_trouble, text };
        Output { screen: Arc::new(Mutex::new(screen)), said: Arc::default() }
    }

    /// Processes are about to be started, the first ones or a world that is spawned: makes their files, empty, if a folder
    /// for them is wanted.
    pub fn begin(&self, ranks: Range<u32>) -> io::Result<()> {
        let mut screen = lock(&self.screen);
        screen.worlds.extend((ranks.start > 0).then_some(ranks.start));
        let Some(folder) = screen.look.folder.clone() else { return Ok(()) };
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        fs::create_dir_all(&folder).map_err(named)?;
        let names = ranks.map(|rank| screen.name(rank, '-'));
        for name in names.flat_map(|name| [format!("{name}.out"), format!("{name}.err")]) {
            File::create(folder.join(name)).map_err(named)?;
        }
        Ok(())
    }

    /// The launcher's own words, on standard error; does not wait for a screen that is busy.
    pub fn say(&self, text: &str) {
        lock(&self.said).push(format!("phalanx: {text}\n"));
        self.say_rest();
    }

    /// Says what was to be said while the screen was busy, if it is no more.
    pub fn say_rest(&self) {
        if let Ok(mut screen) = self.screen.try_lock() {
            self.say_all(&mut screen);
        }
    }

    fn say_all(&self, screen: &mut Screen) {
        for text in std::mem::take(&mut *lock(&self.said)) {
            screen.say(&text);
        }
    }

    fn show(&self, work: impl FnOnce(&mut Screen)) {
        let mut screen = lock(&self.screen);
        work(&mut screen);
        self.say_all(&mut screen);
    }
}

impl Taker for Output {
    fn take(&mut self, source: Source, bytes: &[u8]) {
        self.show(|screen| screen.take(source, bytes));
    }

    fn end(&mut self, source: Source) {
        self.show(|screen| screen.end(source));
    }

    fn pause(&mut self) -> bool {
        self.show(Screen::show_questions);
        false
    }
}

impl Screen {
    fn take(&mut self, source: Source, bytes: &[u8]) {
        if let Err(error) = self.keep(source, bytes) {
            self.look.folder = None;
            self.fail(&error);
        }
        let lines = self.begun.take(source, bytes);
        self.show(source, &lines);
    }

    fn end(&mut self, source: Source) {
        let line = self.begun.end(source);
        self.show(source, &line);
        if self.look.prefix && self.open[self.place(source.kind)] == Some(source) {
            self.show(source, b"\n");
        }
        self.files.remove(&source);
    }

    /// A line that is not whole may be a question to the user.
    fn show_questions(&mut self) {
        let terminals = self.look.terminals;
        let mut waiting = self.begun.begun();
        waiting.retain(|source| terminals[source.kind as usize]);
        for source in waiting {
            let line = self.begun.end(source);
            self.show(source, &line);
        }
    }

    fn keep(&mut self, source: Source, bytes: &[u8]) -> io::Result<()> {
        let name = self.name(source.rank, '-');
        let Some(folder) = &self.look.folder else { return Ok(()) };
        let file = match self.files.entry(source) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let ending = ["out", "err"][source.kind as usize];
                let path = folder.join(format!("{name}.{ending}"));
                entry.insert(File::options().append(true).open(path)?)
            }
        };
        file.write_all(bytes)
    }

    /// Writes lines of a stream; the last may be not whole.
    fn show(&mut self, source: Source, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        let place = self.place(source.kind);
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let mut goes_on = self.open[place] == Some(source);
        if self.open[place].is_some() && !goes_on {
            text.push(b'\n');
        }
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if !goes_on {
                self.push_prefix(source, &mut text);
            }
            text.extend_from_slice(line);
            goes_on = false;
        }
        self.open[place] = (lines.last() != Some(&b'\n')).then_some(source);
        self.write(source.kind, &text);
        self.text = text;
    }

    fn push_prefix(&self, source: Source, text: &mut Vec<u8>) {
        let Source { rank, kind } = source;
        let name = self.name(rank, ':');
        let colours = self.look.colours && self.look.terminals[kind as usize];
        let written = match (self.look.prefix, colours) {
            (false, _) => Ok(()),
            (true, false) => write!(text, "[{name}] "),
            (true, true) => write!(text, "\x1b[{}m[{name}]\x1b[0m ", COLOURS[rank as usize % COLOURS.len()]),
        };
        written.expect("memory takes all");
    }

    /// `3`, or, of a world that was spawned, its number and the rank there: `1:3`.
    fn name(&self, rank: u32, between: char) -> String {
        match self.worlds.partition_point(|first| *first <= rank) {
            0 => rank.to_string(),
            world => format!("{world}{between}{}", rank - self.worlds[world - 1]),
        }
    }

    fn say(&mut self, text: &str) {
        let place = self.place(Kind::Error);
        let start = if self.open[place].take().is_some() { "\n" } else { "" };
        self.write(Kind::Error, format!("{start}{text}").as_bytes());
    }

    /// Where it is remembered whose line is shown: one terminal shows both streams.
    fn place(&self, kind: Kind) -> usize {
        if self.look.terminals == [true; 2] { 0 } else { kind as usize }
    }

    /// Writes all of it, however long that takes. After an error nothing is written there any more.
    fn write(&mut self, kind: Kind, mut text: &[u8]) {
        // SAFETY: the standard streams stay open as long as the process lives.
        let to = unsafe { BorrowedFd::borrow_raw([libc::STDOUT_FILENO, libc::STDERR_FILENO][kind as usize]) };
        while !text.is_empty() && !self.look.hidden && !self.failed[kind as usize] {
            match rustix::io::write(to, text) {
                Ok(count) => text = &text[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => drop(rustix::event::poll(
                    &mut [rustix::event::PollFd::from_borrowed_fd(to, rustix::event::PollFlags::OUT)],
                    None,
                )),
                Err(error) => {
                    self.failed[kind as usize] = true;
                    self.fail(&error.into());
                }
            }
        }
    }

    fn fail(&mut self, error: &io::Error) {
        if let Some(on_trouble) = self.on_trouble.take() {
            on_trouble(error);
        }
    }
}
