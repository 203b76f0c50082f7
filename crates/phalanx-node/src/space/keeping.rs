//! Spaces that are kept in files of one folder.

use super::hosted::Hosted;
use super::log::{Durable, Log, LogError};
use phalanx_core::error::SpaceError;
use phalanx_core::space::change::Change;
use phalanx_core::space::{Options, Space};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What files of spaces are called after the name of their space.
const EXTENSION: &str = "space";
/// A space that has just ended here may still be closing its file.
const PATIENCE: Duration = Duration::from_secs(2);

/// A folder with a file for each space.
#[derive(Debug, Clone)]
pub struct Directory(PathBuf);

impl Directory {
    /// Nothing is made before there is a space to be kept.
    pub fn new(path: impl Into<PathBuf>) -> Directory {
        Directory(path.into())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.{EXTENSION}"))
    }

    /// Whether a space of this name, which must be one, was kept.
    pub fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// The names of all that were kept.
    pub fn names(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.0) else { return Vec::new() };
        let name = |path: PathBuf| {
            let is_space = path.extension().is_some_and(|extension| extension == EXTENSION);
            path.file_stem().filter(|_| is_space)?.to_str().map(str::to_owned)
        };
        let mut names: Vec<String> = entries.flatten().filter_map(|entry| name(entry.path())).collect();
        names.sort();
        names
    }

    /// The space that was kept under this name; or a new one with these options, if there are some.
    pub fn open(&self, name: &str, create: Option<Options>) -> Result<Arc<Hosted>, SpaceError> {
        make(&self.0).map_err(|error| not_kept(format!("{}: {error}", self.0.display())))?;
        open_file(&self.file(name), create)
    }
}

fn make(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

fn not_kept(why: impl ToString) -> SpaceError {
    SpaceError::NotKept(why.to_string())
}

fn open_file(path: &Path, create: Option<Options>) -> Result<Arc<Hosted>, SpaceError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match fill(path, create.clone()) {
            Err(Unfilled::Log(LogError::InUse(_))) if Instant::now() < end => thread::sleep(Duration::from_millis(20)),
            Err(Unfilled::Log(error)) => return Err(not_kept(error)),
            Err(Unfilled::Space(error)) => return Err(error),
            Ok(hosted) => return Ok(hosted),
        }
    }
}

/// Why there is no engine.
enum Unfilled {
    Log(LogError),
    Space(SpaceError),
}

impl From<LogError> for Unfilled {
    fn from(error: LogError) -> Unfilled {
        Unfilled::Log(error)
    }
}

impl From<SpaceError> for Unfilled {
    fn from(error: SpaceError) -> Unfilled {
        Unfilled::Space(error)
    }
}

fn fill(path: &Path, create: Option<Options>) -> Result<Arc<Hosted>, Unfilled> {
    if create.is_none() && !path.exists() {
        return Err(SpaceError::NoSpace("there is none of this name".into()).into());
    }
    let (began, epoch) = (Instant::now(), since_epoch());
    let mut filling = None;
    let log = Durable::open(path, |change| {
        take(&mut filling, epoch, change).map_err(|error| LogError::Misfit(error.to_string()))
    })?;
    let is_new = filling.is_none();
    let mut engine = match (filling, create) {
        (Some(engine), _) => engine,
        (None, Some(options)) => Space::new(Options { durable: true, ..options })?,
        (None, None) => return Err(not_kept(format!("{}: nothing was ever kept in it", path.display())).into()),
    };
    engine.keep_changes(epoch, log.most_bytes() as u64);
    if is_new {
        let opened = Change::Opened { options: Box::new(engine.options().clone()) };
        log.wait(log.append(vec![opened]))?;
    }
    engine.filled(began.elapsed());
    let hosted = Hosted::of(engine, Some(Arc::new(log)), began);
    let mut locked = hosted.lock();
    locked.tick();
    locked.unlock().flush()?;
    Ok(hosted)
}

/// The first change has the options, with which there is an engine; the others fill it.
fn take(filling: &mut Option<Space>, epoch: u64, change: Change) -> Result<(), SpaceError> {
    match (filling, change) {
        (Some(engine), change) => engine.fill(change),
        (none, Change::Opened { options }) => {
            none.insert(Space::new(*options)?).keep_changes(epoch, u64::MAX);
            Ok(())
        }
        (None, _) => Err(not_kept("it does not say what the space is like")),
    }
}

fn since_epoch() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
