//! The checkpoints of a program that survives losses, at its launcher: folders `step-120` with a folder `rank-3` for each rank. A
//! checkpoint is gathered in a hidden folder, which is renamed when the files of all ranks are there.

use super::happening::{Happening, Parcel};
use super::job::{LaunchError, Staged};
use crate::dial::printable;
use crate::scratch::Folder;
use crate::scratch::saved::{DEEPEST, MOST_FILES, step_of};
use phalanx_core::wire::machines::FromMachine;
use phalanx_core::wire::ranks::SURVIVE_FOLDER;
use phalanx_net::sync::lock;
use rustix::fs::{FlockOperation, flock, statvfs};
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::Receiver;

/// The file that says which program's checkpoints are in a folder that the user has named. It is locked while the program runs.
const PROGRAM: &str = ".phalanx-program";
/// Where a checkpoint is gathered.
const GATHERED: &str = ".gathered";
/// Longest name of a file, in bytes. With the folders before it, it is a path that the system takes.
const LONGEST_NAME: usize = 1024;
/// The word of [`PROGRAM`] for a folder that is removed with the last checkpoint.
const MADE: &str = "made by phalanx";

/// See the module.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    /// The folder of a program that named none. Dropping it removes it.
    own: Mutex<Option<Folder>>,
    /// The file `PROGRAM`, locked; `None` if the folder is `own`.
    program: Option<File>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    newest: Option<u64>,
    gathered: Option<Gathered>,
}

/// The checkpoint that is gathered.
#[derive(Debug)]
struct Gathered {
    step: u64,
    /// The start of the program whose ranks send it.
    start: u32,
    /// For each machine, the file that it sends, and how many bytes of it are missing.
    files: HashMap<usize, (File, u64)>,
    /// For each machine, the number of its files so far.
    counts: HashMap<usize, usize>,
    /// Why it cannot be written.
    failed: Option<String>,
}

impl Store {
    /// Opens the folder that the user named, or makes one that is removed in the end.
    pub fn open(folder: Option<&Path>) -> Result<Store, LaunchError> {
        let Some(root) = folder else {
            let own = Folder::new()?;
            let root = own.path().join("checkpoints");
            make(&root)?;
            return Ok(Store { root, own: Mutex::new(Some(own)), program: None, state: Mutex::default() });
        };
        let named = |what: &str| {
            LaunchError::Start(io::Error::other(format!("the folder for checkpoints, {}, {what}", root.display())))
        };
        let is_new = !root.exists();
        make(root).map_err(|error| named(&format!("cannot be made: {error}")))?;
        let is_known = root.join(PROGRAM).exists();
        if !is_known && fs::read_dir(root)?.next().is_some() {
            return Err(named("is not empty, and has no checkpoints of phalanx: name another one"));
        }
        let mut how = File::options();
        let program = how.read(true).write(true).create(true).truncate(false).mode(0o600).open(root.join(PROGRAM));
        let mut program = program.map_err(|error| named(&format!("cannot be used: {error}")))?;
        if flock(&program, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(named("is used by a program that runs: name another one, or wait for its end"));
        }
        if is_new {
            writeln!(program, "{MADE}")?;
        }
        let newest = steps(root).into_iter().max();
        let state = Mutex::new(State { newest, gathered: None });
        Ok(Store { root: root.to_owned(), own: Mutex::new(None), program: Some(program), state })
    }

    /// Checks that the checkpoints are of this program, or notes that they will be. `told`: its processes and commands.
    pub fn claim(&self, told: &str) -> Result<(), LaunchError> {
        let Some(mut program) = self.program.as_ref() else { return Ok(()) };
        let known = fs::read_to_string(self.root.join(PROGRAM))?;
        match known.lines().find(|line| *line != MADE) {
            Some(its) if its == told => Ok(()),
            Some(its) if self.newest().is_some() => Err(LaunchError::Start(io::Error::other(format!(
                "the folder for checkpoints, {}, has those of another program, {its}: start that one, or name another folder",
                self.root.display()
            )))),
            _ => Ok(writeln!(program, "{told}")?),
        }
    }

    /// The step of the newest checkpoint.
    pub fn newest(&self) -> Option<u64> {
        lock(&self.state).newest
    }

    /// The files of these ranks in the newest checkpoint, by their names in the program's folder.
    pub fn files(&self, ranks: Range<u32>) -> io::Result<Vec<Staged>> {
        let Some(step) = self.newest() else { return Ok(Vec::new()) };
        let mut files = Vec::new();
        for rank in ranks {
            let path = self.root.join(format!("step-{step}/rank-{rank}"));
            list(&path, &format!("{SURVIVE_FOLDER}/rank-{rank}"), &mut files)?;
        }
        Ok(files)
    }

    /// From now on, files of this step are gathered, from the ranks of this start.
    pub fn begin(&self, step: u64, start: u32) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.gathered = None;
        remove(&self.root.join(GATHERED))?;
        make(&self.root.join(GATHERED))?;
        state.gathered = Some(Gathered { step, start, files: HashMap::new(), counts: HashMap::new(), failed: None });
        Ok(())
    }

    /// Writes what machines send, until no machine can send any more.
    pub fn write(&self, parcels: &Receiver<Parcel>) {
        for parcel in parcels {
            let bytes = parcel.bytes.len() as u32;
            let receipt = parcel.receipt.clone();
            self.take(parcel);
            if bytes > 0 {
                receipt(bytes);
            }
        }
    }

    fn take(&self, Parcel { happenings, machine, ranks, message, bytes, .. }: Parcel) {
        let mut state = lock(&self.state);
        let Some(gathered) = state.gathered.as_mut().filter(|it| it.start == happenings.start) else { return };
        let outcome = match message {
            FromMachine::StepFile { step, .. } if step != gathered.step => {
                gathered.files.remove(&machine); // of a step that was given up, while the machine was sending it
                Ok(())
            }
            FromMachine::StepFile { rank, .. } if !ranks.contains(&rank) => {
                Err(io::Error::other("a machine has sent files of a rank that it does not have"))
            }
            FromMachine::StepFile { rank, name, length, .. } => {
                self.begin_file(gathered, (machine, ranks.len()), (rank, &name), length)
            }
            FromMachine::StepPiece => self.write_piece(gathered, machine, &bytes),
            FromMachine::Fetched { step, outcome } if step == gathered.step => {
                let closed = self.close(gathered, machine);
                let failed = gathered.failed.clone().or(closed.err().map(|error| error.to_string()));
                let outcome = outcome.map_err(|why| printable(&why)).and_then(|()| failed.map_or(Ok(()), Err));
                drop(state);
                happenings.send(Happening::Fetched { machine, step, outcome });
                return;
            }
            _ => Ok(()),
        };
        if let Err(error) = outcome {
            gathered.failed.get_or_insert_with(|| error.to_string());
        }
    }

    /// Begins a file of a rank, which a machine with so many ranks has sent.
    fn begin_file(
        &self,
        gathered: &mut Gathered,
        (machine, count): (usize, usize),
        (rank, name): (u32, &str),
        length: u64,
    ) -> io::Result<()> {
        self.close(gathered, machine)?;
        let path = Path::new(name);
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        let is_deep = path.components().count() > DEEPEST + 1;
        let first = path.components().next().and_then(|first| first.as_os_str().to_str()).and_then(step_of);
        let files = gathered.counts.entry(machine).or_default();
        *files += 1;
        let are_many = *files > count.saturating_mul(MOST_FILES);
        if !is_inside || is_deep || are_many || name.len() > LONGEST_NAME || first != Some(gathered.step) {
            return Err(io::Error::other("a machine has sent a file that no rank can have saved"));
        }
        let space = statvfs(&self.root)?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if gathered.failed.is_none() && length > free {
            let place = self.root.display();
            return Err(io::Error::other(format!(
                "a file of {length} bytes does not fit into {place}, where {free} are free"
            )));
        }
        let to = self.root.join(GATHERED).join(format!("rank-{rank}")).join(path);
        to.parent().map_or(Ok(()), make)?;
        let file = File::options().write(true).create_new(true).mode(0o600).open(to)?;
        gathered.files.insert(machine, (file, length));
        Ok(())
    }

    fn write_piece(&self, gathered: &mut Gathered, machine: usize, bytes: &[u8]) -> io::Result<()> {
        if gathered.failed.is_some() {
            return Ok(());
        }
        let Some((file, left)) = gathered.files.get_mut(&machine) else { return Ok(()) };
        *left = left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| io::Error::other("a machine has sent more than it said"))?;
        file.write_all(bytes)
    }

    /// Closes the file that a machine has sent. In a folder that the user named, it is to outlast a failure of this machine's power.
    fn close(&self, gathered: &mut Gathered, machine: usize) -> io::Result<()> {
        match gathered.files.remove(&machine) {
            Some((_, left)) if left > 0 => Err(io::Error::other("a machine has sent less than it said")),
            Some((file, _)) if self.program.is_some() => file.sync_all(),
            _ => Ok(()),
        }
    }

    /// Makes a checkpoint of what was gathered, if each of the ranks has sent files, and removes older ones.
    pub fn keep(&self, step: u64, ranks: u32) -> Result<(), String> {
        let mut state = lock(&self.state);
        let gathered = state.gathered.take().filter(|it| it.step == step).ok_or("it is not gathered any more")?;
        if let Some(why) = gathered.failed {
            return Err(why);
        }
        let from = self.root.join(GATHERED);
        if let Some(rank) = (0..ranks).find(|rank| !from.join(format!("rank-{rank}")).is_dir()) {
            return Err(format!("nothing of rank {rank} has arrived"));
        }
        let to = self.root.join(format!("step-{step}"));
        let renamed = remove(&to).and_then(|()| fs::rename(from, to)).and_then(|()| self.sync());
        renamed.map_err(|error| error.to_string())?;
        state.newest = Some(step);
        for older in steps(&self.root).into_iter().filter(|its| *its != step) {
            let _ = remove(&self.root.join(format!("step-{older}"))); // it is tried again with the next one
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.program.is_some() { File::open(&self.root)?.sync_all() } else { Ok(()) }
    }

    /// The program has ended with this code. Without a failure the checkpoints are removed. What the user should know is returned.
    pub fn end(&self, code: i32) -> Option<String> {
        let mut state = lock(&self.state);
        state.gathered = None;
        if lock(&self.own).take().is_some() {
            return None;
        }
        let _ = remove(&self.root.join(GATHERED));
        if let (Some(step), true) = (state.newest, code != 0) {
            let place = self.root.display();
            return Some(format!("the checkpoint of step {step} is kept in {place}: the same command goes on from it"));
        }
        let is_made =
            fs::read_to_string(self.root.join(PROGRAM)).is_ok_and(|text| text.lines().any(|line| line == MADE));
        steps(&self.root).into_iter().for_each(|step| drop(remove(&self.root.join(format!("step-{step}")))));
        let _ = fs::remove_file(self.root.join(PROGRAM));
        if is_made {
            let _ = fs::remove_dir(&self.root); // it stays if the user has put something into it
        }
        None
    }
}

/// The steps of the checkpoints in a folder.
fn steps(root: &Path) -> Vec<u64> {
    let names = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let whole = names.filter_map(|name| name.to_str().filter(|name| !name.contains('.')).and_then(step_of));
    whole.collect()
}

/// Adds the files in a folder, whose names begin with `name` elsewhere.
fn list(folder: &Path, name: &str, files: &mut Vec<Staged>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let its = entry.file_name().into_string().map_err(|_| io::Error::other("a name is no UTF-8"))?;
        let its = format!("{name}/{its}");
        match entry.file_type()?.is_dir() {
            true => list(&entry.path(), &its, files)?,
            false => files.push(Staged { name: its, path: entry.path() }),
        }
    }
    Ok(())
}

fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::happening::Teller;
    use super::*;
    use bytes::Bytes;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    /// Messages of a machine with ranks 0 and 1, and what the store says to the launcher.
    struct Conversation {
        store: Store,
        happenings: Teller,
        happened: Receiver<(u32, Happening)>,
    }

    impl Conversation {
        fn with(store: Store) -> Conversation {
            let (to, happened) = channel();
            Conversation { store, happenings: Teller { to, start: 0, parcels: None }, happened }
        }

        fn says(&self, message: FromMachine, bytes: &[u8]) {
            let (happenings, bytes) = (self.happenings.clone(), Bytes::copy_from_slice(bytes));
            self.store.take(Parcel { happenings, machine: 0, ranks: 0..2, message, bytes, receipt: Arc::new(|_| {}) });
        }

        fn sends(&self, rank: u32, step: u64, name: &str, length: u64, bytes: &[u8]) {
            self.says(FromMachine::StepFile { rank, step, name: name.to_owned(), length }, &[]);
            self.says(FromMachine::StepPiece, bytes);
        }

        /// What comes of it when the machine says that it has sent all of a step.
        fn outcome(&self, step: u64) -> Result<(), String> {
            self.says(FromMachine::Fetched { step, outcome: Ok(()) }, &[]);
            match self.happened.try_recv() {
                Ok((_, Happening::Fetched { outcome, .. })) => outcome.and_then(|()| self.store.keep(step, 2)),
                _ => Err("nothing has happened".to_owned()),
            }
        }
    }

    #[test]
    fn a_checkpoint_is_there_when_the_files_of_all_ranks_are() {
        let it = Conversation::with(Store::open(None).expect("there is room"));
        it.store.begin(5, 0).expect("there is room");
        it.sends(0, 5, "step-5", 3, b"abc");
        assert_eq!(it.outcome(5), Err("nothing of rank 1 has arrived".to_owned()));
        assert_eq!(it.store.newest(), None);
        for step in [6, 7] {
            it.store.begin(step, 0).expect("there is room");
            it.sends(0, step, &format!("step-{step}/deep/a.npy"), 3, b"abc");
            it.sends(1, step, &format!("step-{step}.npy"), 0, b"");
            assert_eq!(it.outcome(step), Ok(()));
        }
        assert_eq!((it.store.newest(), steps(&it.store.root)), (Some(7), vec![7]));
        let files: Vec<String> = it.store.files(0..2).expect("they are there").into_iter().map(|it| it.name).collect();
        assert_eq!(files, [".phalanx-survive/rank-0/step-7/deep/a.npy", ".phalanx-survive/rank-1/step-7.npy"]);
        let root = it.store.root.clone();
        assert_eq!((it.store.end(1), root.exists()), (None, false));
    }

    #[test]
    fn what_no_machine_should_send_makes_no_checkpoint() {
        let it = Conversation::with(Store::open(None).expect("there is room"));
        for (rank, name, length, bytes) in [
            (0, "../step-1", 1, &b"a"[..]),
            (0, "/etc/step-1", 1, b"a"),
            (0, "step-2", 1, b"a"),
            (0, "step-1/../../../b", 1, b"a"),
            (0, "step-1", 1, b"more"),
            (0, "step-1", 2, b"l"),
            (0, "step-1", u64::MAX, b""),
            (7, "step-1", 1, b"a"),
            (0, &format!("step-1{}", "/a".repeat(20)), 1, b"a"),
        ] {
            it.store.begin(1, 0).expect("there is room");
            it.sends(rank, 1, name, length, bytes);
            it.sends(1, 1, "step-1", 1, b"a");
            assert!(it.outcome(1).is_err_and(|why| why != "nothing has happened"), "{name}");
        }
        assert_eq!(it.store.newest(), None);
    }

    #[test]
    fn what_comes_late_of_an_earlier_start_or_step_is_ignored() {
        let mut it = Conversation::with(Store::open(None).expect("there is room"));
        it.store.begin(2, 0).expect("there is room");
        it.sends(0, 1, "step-1", 9, b"late");
        it.sends(0, 2, "step-2", 1, b"a");
        it.sends(1, 2, "step-2", 1, b"a");
        assert_eq!(it.outcome(1), Err("nothing has happened".to_owned()));
        assert_eq!(it.outcome(2), Ok(()));
        it.store.begin(3, 1).expect("there is room");
        it.sends(0, 3, "step-3", 1, b"a");
        assert_eq!(it.outcome(3), Err("nothing has happened".to_owned()));
        it.happenings.start = 1;
        assert_eq!(it.outcome(3), Err("nothing of rank 0 has arrived".to_owned()));
    }

    #[test]
    fn a_named_folder_is_for_one_program_at_a_time_and_goes_with_it() {
        let above = tempfile::tempdir().expect("there is room");
        let root = above.path().join("kept");
        let it = Conversation::with(Store::open(Some(&root)).expect("there is room"));
        assert!(Store::open(Some(&root)).is_err(), "it is used");
        it.store.claim("2 processes of a").expect("it is new");
        it.store.begin(4, 0).expect("there is room");
        (0..2).for_each(|rank| it.sends(rank, 4, "step-4", 1, b"a"));
        assert_eq!(it.outcome(4), Ok(()));
        assert!(it.store.end(130).is_some_and(|text| text.contains("step 4")));
        drop(it);
        let again = Store::open(Some(&root)).expect("it is free");
        assert_eq!(again.newest(), Some(4));
        assert!(again.claim("2 processes of b").is_err());
        again.claim("2 processes of a").expect("it is the same");
        assert_eq!((again.end(0), root.exists()), (None, false));
        std::fs::write(above.path().join("mine"), b"").expect("there is room");
        assert!(Store::open(Some(above.path())).is_err(), "it is somebody's");
    }
}
