//! Writes the ranks' output for the user: whole lines, each prefixed with its rank, and files.

use super::streams::Taker;
use crate::lines::Lines;
use phalanx_core::text::escaped_lines;
use phalanx_core::wire::machines::{Kind, Source};
use phalanx_net::sync::lock;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Terminal colours of the prefixes. They are readable on dark and on light backgrounds.
const COLOURS: [u8; 6] = [36, 33, 35, 32, 34, 31];

/// How output is shown.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Whether `[3] ` precedes each line.
    pub prefix: bool,
    /// Whether standard output and standard error are terminals. On a terminal prefixes have colours, and an incomplete line is
    /// shown, because it may be a question to the user.
    pub terminals: [bool; 2],
    /// Whether terminals show colours.
    pub colours: bool,
    /// Whether the processes run on other machines. What they print is then escaped on terminals and in lines with a prefix,
    /// because it must not steer the user's terminal, nor look like the output of another rank.
    pub foreign: bool,
    /// Nothing is written to standard output and error, not even the launcher's own lines.
    pub hidden: bool,
    /// A folder for one file per rank and stream, like `3.out`, `3.err`.
    pub folder: Option<PathBuf>,
}

/// Called once with the reason why output cannot be written. The processes need not wait for it any more.
pub type OnTrouble = Box<dyn Fn(&io::Error) + Send>;

/// Standard output and error of this process, and the files, shared by all threads that write output.
#[derive(Clone)]
pub struct Output {
    screen: Arc<Mutex<Screen>>,
    /// Lines of the launcher that wait until the screen is free.
    said: Arc<Mutex<Vec<String>>>,
}

struct Screen {
    look: Look,
    /// The first rank of each spawned world, in the order of the worlds.
    worlds: Vec<u32>,
    /// The beginnings of incomplete lines.
    begun: Lines<Source>,
    /// For standard output and error: the source whose incomplete line is on the screen.
    open: [Option<Source>; 2],
    files: HashMap<Source, File>,
    /// The system's flags for opening them.
    flags: i32,
    /// Whether writing to standard output and error has failed.
    failed: [bool; 2],
    on_trouble: Option<OnTrouble>,
    text: Vec<u8>,
}

impl Output {
    /// No file is created and nothing is written yet.
    pub fn new(look: Look, on_trouble: OnTrouble) -> Output {
        let (begun, files, on_trouble) = (Lines::new(), HashMap::new(), Some(on_trouble));
        let (worlds, open, failed, text) = (Vec::new(), [None; 2], [false; 2], Vec::new());
        let screen = Screen { look, worlds, begun, open, files, flags: 0, failed, on_trouble, text };
        Output { screen: Arc::new(Mutex::new(screen)), said: Arc::default() }
    }

    /// Call this before processes start, the first ones or a spawned world. Creates their empty output files, if a folder for
    /// them is wanted.
    pub fn begin(&self, ranks: Range<u32>) -> io::Result<()> {
        let mut screen = lock(&self.screen);
        screen.worlds.extend((ranks.start > 0).then_some(ranks.start));
        let Some(folder) = screen.look.folder.clone() else { return Ok(()) };
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        fs::create_dir_all(&folder).map_err(named)?;
        let flags = flags_in(&folder).map_err(named)?;
        screen.flags = flags;
        let names = ranks.map(|rank| screen.name(rank, '-'));
        for name in names.flat_map(|name| [format!("{name}.out"), format!("{name}.err")]) {
            let mut how = File::options();
            how.write(true).create(true).truncate(true).custom_flags(flags).open(folder.join(name)).map_err(named)?;
        }
        Ok(())
    }

    /// Prints a line of the launcher on standard error. Does not wait for a busy screen.
    pub fn say(&self, text: &str) {
        lock(&self.said).push(format!("phalanx: {text}\n"));
        self.say_rest();
    }

    /// Prints the lines that had to wait for the screen, if it is free now.
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

/// The flags with which files in the folder are opened. In another user's folder, which may be in a shared place, no link is
/// followed and no pipe is waited for: its owner could lead the output over a file of this user.
fn flags_in(folder: &Path) -> io::Result<i32> {
    let is_own = fs::metadata(folder)?.uid() == rustix::process::geteuid().as_raw();
    Ok(if is_own { 0 } else { libc::O_NOFOLLOW | libc::O_NONBLOCK })
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

    /// Shows incomplete lines on a terminal, because they may be questions to the user.
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
                entry.insert(File::options().append(true).custom_flags(self.flags).open(path)?)
            }
        };
        file.write_all(bytes)
    }

    /// Writes lines of a stream. The last one may be incomplete.
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
            text.extend_from_slice(&self.shown(source.kind, line));
            goes_on = false;
        }
        self.open[place] = (lines.last() != Some(&b'\n')).then_some(source);
        self.write(source.kind, &text);
        self.text = text;
    }

    /// A line as it is shown. Output without prefixes that goes to a file or to another program may be of any bytes.
    fn shown<'a>(&self, kind: Kind, line: &'a [u8]) -> Cow<'a, [u8]> {
        let is_read = self.look.prefix || self.look.terminals[kind as usize];
        if self.look.foreign && is_read { escaped_lines(line) } else { Cow::Borrowed(line) }
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

    /// The name of a rank: `3`, or, in a spawned world, the world's number and the rank in it: `1:3`.
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

    /// The index in `open` for a stream. One terminal may show both streams, which then share an index.
    fn place(&self, kind: Kind) -> usize {
        if self.look.terminals == [true; 2] { 0 } else { kind as usize }
    }

    /// Writes the whole text, however long that takes. After an error nothing more is written to that stream.
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

#[cfg(test)]
mod tests {
    use super::*;

    const TITLE: &[u8] = "\x1b]0;title\x07\u{202e}[1] forged\r[1] ä\t✓\n".as_bytes();

    #[test]
    fn the_owner_of_a_folder_leads_no_output_over_a_file_of_this_user() {
        if !rustix::process::geteuid().is_root() {
            return; // only root can make a folder of another user
        }
        let (theirs, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(own.path().join("file"), "kept").unwrap();
        std::os::unix::fs::symlink(own.path().join("file"), theirs.path().join("0.out")).unwrap();
        let begin = || {
            let folder = Some(theirs.path().to_owned());
            Output::new(Look { folder, ..Look::default() }, Box::new(|_| ())).begin(0..1)
        };
        std::os::unix::fs::chown(theirs.path(), Some(65534), None).unwrap();
        begin().unwrap_err();
        assert_eq!(fs::read(own.path().join("file")).unwrap(), b"kept");
        std::os::unix::fs::chown(theirs.path(), Some(0), None).unwrap();
        begin().unwrap(); // in the user's own folder it is the user's own link
    }

    fn shown(look: Look) -> Vec<u8> {
        let output = Output::new(look, Box::new(|_| ()));
        let screen = lock(&output.screen);
        screen.shown(Kind::Output, TITLE).into_owned()
    }

    #[test]
    fn what_ranks_elsewhere_print_steers_no_terminal_and_forges_no_line() {
        let safe = "\\x1b]0;title\\x07\\u{202e}[1] forged\\x0d[1] ä\t✓\n".as_bytes();
        let elsewhere = Look { foreign: true, ..Look::default() };
        assert_eq!(shown(Look { prefix: true, ..elsewhere.clone() }), safe);
        assert_eq!(shown(Look { terminals: [true, false], ..elsewhere.clone() }), safe);
        assert_eq!(shown(elsewhere), TITLE, "what another program reads may be of any bytes");
        assert_eq!(
            shown(Look { prefix: true, ..Look::default() }),
            TITLE,
            "the user's own processes are at their terminal"
        );
    }
}
