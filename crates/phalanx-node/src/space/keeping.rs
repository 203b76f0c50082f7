//! Durable spaces, kept as files in one folder.

use super::hosted::Hosted;
use super::log::{Durable, Log, LogError};
use phalanx_core::error::SpaceError;
use phalanx_core::space::change::Change;
use phalanx_core::space::{Options, Space};
use phalanx_net::identity::random_number;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// File extension of a space that this server alone keeps.
const EXTENSION: &str = "space";
/// File extension of a replicated space.
const REPLICA: &str = "replica";
/// File extension of a replicated space of which this server is no longer a member.
const FORMER: &str = "former";
/// How long to wait for a file that is still locked, because a space that has just ended here may still be closing it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The folder with one file for each space.
#[derive(Debug, Clone)]
pub struct Directory(PathBuf);

impl Directory {
    /// Creates nothing on the disk until there is a space to keep.
    pub fn new(path: impl Into<PathBuf>) -> Directory {
        Directory(path.into())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.{EXTENSION}"))
    }

    /// Whether there is a file for a space of this name. The name must be valid.
    pub fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    /// The path of a replicated space's file. Creates the folder.
    pub(crate) fn replica(&self, name: &str) -> Result<PathBuf, SpaceError> {
        make(&self.0).map_err(|error| not_kept(format!("{}: {error}", self.0.display())))?;
        Ok(self.0.join(format!("{name}.{REPLICA}")))
    }

    /// Renames the file of a replicated space that the other members keep without this one, so that it is not opened any more.
    pub(super) fn set_aside(&self, name: &str) -> Result<(), SpaceError> {
        let file = self.replica(name)?;
        std::fs::rename(&file, file.with_extension(FORMER))
            .map_err(|error| not_kept(format!("{}: {error}", file.display())))
    }

    /// Whether this server is a member of a replicated space of this name.
    pub fn has_replica(&self, name: &str) -> bool {
        self.0.join(format!("{name}.{REPLICA}")).exists()
    }

    /// The names of all spaces with a file.
    pub fn names(&self) -> Vec<String> {
        self.names_of(EXTENSION)
    }

    /// The names of all replicated spaces of which this server is a member.
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

    /// Opens the space of this name from its file, or creates it if there are options.
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

/// Why no engine could be filled.
#[derive(Debug, Error)]
pub(crate) enum Unfilled {
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

/// Fills a space with the changes that `open` reads from its log. If there are none, a new space is made with these options.
pub(crate) fn fill_from(
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
    engine.identify(random_number());
    let hosted = Hosted::of(engine, Some(log), began);
    let mut locked = hosted.lock();
    locked.tick();
    locked.unlock().flush()?;
    Ok(hosted)
}

/// Applies a change. The first one has the options that the engine is made with; the others fill it.
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
