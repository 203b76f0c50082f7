//! Spaces that are kept in files of one folder.

use super::hosted::Hosted;
use super::log::{Durable, Log, LogError};
use phalanx_core::error::SpaceError;
use phalanx_core::space::change::Change;
use phalanx_core::space::{Options, Space};
use phalanx_net::identity::random_token;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// What files of spaces are called after the name of their space.
const EXTENSION: &str = "space";
/// The same, of those that other members keep too.
const REPLICA: &str = "replica";
/// Of those of which this is no member any more.
const FORMER: &str = "former";
/// A space that has just ended here may still be closing its file.
const PATIENCE: Duration = Duration::from_secs(5);

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

    /// The file of a replicated space, in a folder that is made.
    pub(super) fn replica(&self, name: &str) -> Result<PathBuf, SpaceError> {
        make(&self.0).map_err(|error| not_kept(format!("{}: {error}", self.0.display())))?;
        Ok(self.0.join(format!("{name}.{REPLICA}")))
    }

    /// The file of a replicated space that others keep without this member is not opened any more.
    pub(super) fn set_aside(&self, name: &str) -> Result<(), SpaceError> {
        let file = self.replica(name)?;
        std::fs::rename(&file, file.with_extension(FORMER))
            .map_err(|error| not_kept(format!("{}: {error}", file.display())))
    }

    /// Whether this is a member of a replicated space of this name.
    pub fn has_replica(&self, name: &str) -> bool {
        self.0.join(format!("{name}.{REPLICA}")).exists()
    }

    /// The names of all that were kept.
    pub fn names(&self) -> Vec<String> {
        self.names_of(EXTENSION)
    }

    /// The names of all replicated spaces of which this is a member.
    pub fn replicas(&self) -> Vec<String> {
        self.names_of(REPLICA)
    }

    fn names_of(&self, kind: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.0) else { return Vec::new() };
        let name = |path: PathBuf| {
            let is_space = path.extension().is_some_and(|extension| extension == kind);
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
#[derive(Debug, Error)]
pub(super) enum Unfilled {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Space(#[from] SpaceError),
}

fn fill(path: &Path, create: Option<Options>) -> Result<Arc<Hosted>, Unfilled> {
    if create.is_none() && !path.exists() {
        return Err(SpaceError::NoSpace("there is none of this name".into()).into());
    }
    fill_from(create, |take| Durable::open(path, take).map(|log| Arc::new(log) as Arc<dyn Log>))
}

/// A space with what `open` hands out of its log; a new one with these options, where that is nothing.
pub(super) fn fill_from(
    create: Option<Options>,
    open: impl FnOnce(&mut dyn FnMut(Change) -> Result<(), LogError>) -> Result<Arc<dyn Log>, LogError>,
) -> Result<Arc<Hosted>, Unfilled> {
    let (began, epoch) = (Instant::now(), since_epoch());
    let mut filling = None;
    let log =
        open(&mut |change| take(&mut filling, epoch, change).map_err(|error| LogError::Misfit(error.to_string())))?;
    let is_new = filling.is_none();
    let mut engine = match (filling, create) {
        (Some(engine), _) => engine,
        (None, Some(options)) => Space::new(Options { durable: true, ..options })?,
        (None, None) => return Err(not_kept("nothing was ever kept in its file").into()),
    };
    engine.keep_changes(epoch, log.most_bytes() as u64);
    if is_new {
        let opened = Change::Opened { options: Box::new(engine.options().clone()) };
        log.wait(log.append(vec![opened]))?;
    }
    engine.filled(began.elapsed());
    engine.identify(u128::from_le_bytes(random_token()));
    let hosted = Hosted::of(engine, Some(log), began);
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
