//! Files at an executor, or here, for `phalanx/transfer/_files.py`.

use crate::errors::raise;
use crate::grid::Dialler;
use crate::policy::Words;
use crate::transfer::keeps_of;
use phalanx_core::wire::files::{About, Answer, Ask, Dated, Failure, Found, Kind, Why};
use phalanx_core::wire::transfer::Filter;
use phalanx_net::address::Address;
use phalanx_net::identity::Service;
use phalanx_net::sync::lock;
use phalanx_node::transfer::files::{
    self, Counts, FilesError, GoesOn, How, Reach, Session, Side, Told, Verdict, Wanted,
};
use phalanx_node::transfer::{from_bytes, to_bytes};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Kind, size, mode, time in nanoseconds, what a link says.
type Facts = (&'static str, u64, Option<u32>, i128, Option<OsString>);
/// Its path and what it is, or why that cannot be told.
type Row = (OsString, Option<Facts>, String);
/// A path, what it is at the source and at the target, which verdict that is, with a reason, and whether what is kept differs.
type Difference = (OsString, Option<Facts>, Option<Facts>, &'static str, String, bool);
/// A file's size, and its time in nanoseconds.
type Seen = (u64, i128);
/// How many were done, how many failed, and some of these: path, reason, its name in Python's module `errno`.
type Tried = (u64, u64, Vec<(OsString, String, Option<&'static str>)>);

/// A link for questions about files.
#[pyclass(frozen)]
pub struct Files {
    /// None: it was closed. What was opened over it holds it no longer than it asks.
    session: Mutex<Option<Arc<Session>>>,
}

#[pymethods]
impl Files {
    /// Of the executor at `address`; of this machine, without one.
    #[new]
    #[pyo3(signature = (address, *, dialler, policy, level))]
    fn new(
        py: Python<'_>,
        address: Option<&str>,
        dialler: Option<Dialler>,
        policy: Words,
        level: Option<&str>,
    ) -> PyResult<Files> {
        let session = match address {
            None => Session::own().map_err(|error| raise("TransferError", error))?,
            Some(address) => {
                let address: Address = address.parse().map_err(|error| raise("TransferError", error))?;
                let level = level.map(str::parse).transpose().map_err(|error: String| raise("PolicyError", error))?;
                let dialler = dialler.ok_or_else(|| raise("IdentityError", "executors need an identity"))?;
                let to = Reach { address, dialler: dialler.read_for(Service::Copies)?, policy: policy.read()?, level };
                patiently(py, |go_on| Session::open(to, go_on))?
            }
        };
        Ok(Files { session: Mutex::new(Some(Arc::new(session))) })
    }

    /// The link's level, and what decided it.
    #[getter]
    fn level(&self) -> PyResult<(&'static str, String)> {
        let session = self.session()?;
        Ok((session.level.name(), session.why.clone()))
    }

    /// The name in the executor's certificate; none of this machine.
    #[getter]
    fn peer(&self) -> PyResult<Option<String>> {
        Ok(self.session()?.peer.clone())
    }

    #[getter]
    fn closed(&self) -> bool {
        lock(&self.session).as_ref().is_none_or(|session| session.is_closed())
    }

    fn close(&self, py: Python<'_>) {
        let session = lock(&self.session).take();
        py.detach(|| {
            session.iter().for_each(|session| session.close());
            drop(session);
        });
    }

    /// Begins to list a folder: `depth` folders in it, without what the patterns leave out.
    fn entries(
        &self,
        py: Python<'_>,
        path: PathBuf,
        depth: u32,
        include: Vec<String>,
        exclude: Vec<String>,
        matching: Vec<String>,
    ) -> PyResult<Listing> {
        let filter = Filter { include, exclude, ..Filter::default() };
        let wanted = Wanted { path: bytes(path), depth, filter, matching, contents: false };
        let session = self.session()?;
        Ok(Listing(patiently(py, |go_on| files::Listing::new(&session, wanted, go_on))?))
    }

    /// What lies there; None where nothing does.
    fn look(&self, py: Python<'_>, path: PathBuf, follows: bool) -> PyResult<Option<Facts>> {
        match self.answer(py, &Ask::Look { path: bytes(path), follows })? {
            Answer::Found(found) => found.map(facts).transpose(),
            _ => Err(nonsense()),
        }
    }

    /// Whether something is there; and by what it and each folder above it is known, where the system tells.
    fn locate<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<(bool, Vec<Bound<'py, PyBytes>>)> {
        match self.answer(py, &Ask::Locate { path: bytes(path) })? {
            Answer::Located { exists, folders } => {
                Ok((exists, folders.iter().map(|place| PyBytes::new(py, place)).collect()))
            }
            _ => Err(nonsense()),
        }
    }

    /// Removes names within a folder; `whole`: folders with all in them.
    fn remove(&self, py: Python<'_>, folder: PathBuf, names: Vec<PathBuf>, whole: bool) -> PyResult<Tried> {
        let names = names.into_iter().map(bytes).collect();
        tried(self.answer(py, &Ask::Remove { folder: bytes(folder), names, all: whole })?)
    }

    fn make_folder(&self, py: Python<'_>, path: PathBuf, above: bool) -> PyResult<()> {
        self.tell(py, &Ask::MakeFolder { path: bytes(path), above })
    }

    fn rename(&self, py: Python<'_>, old: PathBuf, new: PathBuf) -> PyResult<()> {
        self.tell(py, &Ask::Rename { from: bytes(old), to: bytes(new) })
    }

    /// Sets times of files within a folder, in nanoseconds since 1970; of those only that still have the size and the time
    /// that are given as well.
    fn set_times(&self, py: Python<'_>, folder: PathBuf, times: Vec<(PathBuf, i128, Option<Seen>)>) -> PyResult<Tried> {
        let dated = |time, seen: Option<Seen>| {
            let seen = seen.map(|(size, time)| (size, to_time(time)));
            Dated { time: to_time(time), seen }
        };
        let (names, times) = times.into_iter().map(|(name, time, seen)| (bytes(name), dated(time, seen))).unzip();
        tried(self.answer(py, &Ask::SetTimes { folder: bytes(folder), names, times })?)
    }

    /// BLAKE3 of files within a folder: for each the digest, or why there is none.
    fn digests<'py>(
        &self,
        py: Python<'py>,
        folder: PathBuf,
        names: Vec<PathBuf>,
    ) -> PyResult<Vec<(Option<Bound<'py, PyBytes>>, String)>> {
        let count = names.len();
        let names = names.into_iter().map(bytes).collect();
        let one = |digest: Result<[u8; 32], String>| match digest {
            Ok(digest) => (Some(PyBytes::new(py, &digest)), String::new()),
            Err(reason) => (None, reason),
        };
        match self.answer(py, &Ask::Digests { folder: bytes(folder), names })? {
            Answer::Digests(digests) if digests.len() == count => Ok(digests.into_iter().map(one).collect()),
            _ => Err(nonsense()),
        }
    }

    fn open(&self, py: Python<'_>, path: PathBuf) -> PyResult<OpenFile> {
        let session = self.session()?;
        let file = patiently(py, |go_on| files::OpenFile::new(&session, bytes(path), go_on))?;
        Ok(OpenFile { facts: facts(file.about.clone())?, file })
    }

    /// `new`: nothing may be there, now and when it is whole.
    fn create(&self, py: Python<'_>, path: PathBuf, new: bool) -> PyResult<NewFile> {
        let session = self.session()?;
        Ok(NewFile(patiently(py, |go_on| files::NewFile::new(&session, bytes(path), new, go_on))?))
    }
}

impl Files {
    fn session(&self) -> PyResult<Arc<Session>> {
        lock(&self.session).clone().ok_or_else(|| raised(FilesError::Closed))
    }

    fn answer(&self, py: Python<'_>, ask: &Ask) -> PyResult<Answer> {
        let session = self.session()?;
        patiently(py, |go_on| session.ask(ask, go_on))
    }

    fn tell(&self, py: Python<'_>, ask: &Ask) -> PyResult<()> {
        let session = self.session()?;
        patiently(py, |go_on| session.tell(ask, go_on))
    }
}

/// A folder that comes in pages.
#[pyclass(frozen)]
pub struct Listing(files::Listing);

#[pymethods]
impl Listing {
    /// The next page; None after the last.
    fn page(&self, py: Python<'_>) -> PyResult<Option<Vec<Row>>> {
        let page = patiently(py, |go_on| self.0.page(go_on))?;
        page.map(|found| found.into_iter().map(row).collect()).transpose()
    }
}

/// What differs between two folders, in pages.
#[pyclass(frozen)]
pub struct Comparison(Mutex<files::Comparison>);

#[pymethods]
impl Comparison {
    /// Of a folder at the source with one at the target, if that is there. `keeps`: also of what a copy keeps beside contents,
    /// permissions and times; `contents`: also of what is in files; `special`: also of links that are alike. `most`: held at
    /// a time.
    #[new]
    #[pyo3(signature = (source, target, *, include, exclude, keeps, skips_links, contents, special, most))]
    #[expect(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        source: (PyRef<'_, Files>, PathBuf),
        target: Option<(PyRef<'_, Files>, PathBuf)>,
        include: Vec<String>,
        exclude: Vec<String>,
        keeps: Vec<String>,
        skips_links: bool,
        contents: bool,
        special: bool,
        most: usize,
    ) -> PyResult<Comparison> {
        let side = |(files, path): (PyRef<'_, Files>, PathBuf)| -> PyResult<Side> {
            Ok(Side { session: files.session()?, path: bytes(path) })
        };
        let (source, target) = (side(source)?, target.map(side).transpose()?);
        let filter = Filter { include, exclude, keeps: keeps_of(&keeps)?, ..Filter::default() };
        let how = How { filter, contents, skips_links, tells_special: special, most };
        let comparison = patiently(py, |go_on| files::Comparison::new(source, target, how, go_on))?;
        Ok(Comparison(Mutex::new(comparison)))
    }

    /// The next page; None after the last.
    fn page(&self, py: Python<'_>) -> PyResult<Option<Vec<Difference>>> {
        let page = patiently(py, |go_on| lock(&self.0).page(go_on))?;
        page.map(|told| told.into_iter().map(difference).collect()).transpose()
    }

    /// Files whose contents were compared; and of the source: files, folders, what else, bytes of files, and folders that have
    /// another time at the target.
    fn counts(&self) -> (u64, u64, u64, u64, u64, u64) {
        let comparison = lock(&self.0);
        let Counts { files, folders, others, bytes, dated } = comparison.counts;
        (comparison.compared(), files, folders, others, bytes, dated)
    }
}

fn difference(Told { path, ends: [source, target], verdict, other_kept }: Told) -> PyResult<Difference> {
    let (verdict, reason) = match verdict {
        Verdict::Listed => ("listed", String::new()),
        Verdict::SameContent => ("same", String::new()),
        Verdict::OtherContent => ("other", String::new()),
        Verdict::Unread(reason) => ("unread", reason),
        Verdict::Unknown(0, reason) => ("no source", reason),
        Verdict::Unknown(_, reason) => ("no target", reason),
    };
    let (source, target) = (source.map(facts).transpose()?, target.map(facts).transpose()?);
    Ok((path_of(path)?, source, target, verdict, reason, other_kept))
}

/// A file that is read.
#[pyclass(frozen)]
pub struct OpenFile {
    file: files::OpenFile,
    facts: Facts,
}

#[pymethods]
impl OpenFile {
    #[getter]
    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    /// Up to `length` bytes; fewer at the end.
    fn read<'py>(&self, py: Python<'py>, offset: u64, length: u64) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = patiently(py, |go_on| self.file.read(offset, length, go_on))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The next piece from the beginning to the end; None there, once it is known that the file is as it was.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let piece = patiently(py, |go_on| self.file.next(go_on))?;
        Ok(piece.map(|piece| PyBytes::new(py, &piece)))
    }

    /// Raises if the file is not as it was when it was opened.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        patiently(py, |go_on| self.file.settle(go_on))
    }
}

/// A file that is written, and has its name when it is whole.
#[pyclass(frozen)]
pub struct NewFile(files::NewFile);

#[pymethods]
impl NewFile {
    /// Sends bytes on; waits while too many are on their way.
    fn write(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        patiently(py, |go_on| self.0.write(bytes, go_on))
    }

    /// It is whole.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        patiently(py, |go_on| self.0.commit(go_on))
    }
}

/// Does what may wait, while others have the interpreter; ends it where Ctrl-C raises.
fn patiently<T: Send>(
    py: Python<'_>,
    act: impl FnOnce(&mut GoesOn<'_>) -> Result<T, FilesError> + Send,
) -> PyResult<T> {
    let mut interrupted = None;
    let outcome = py.detach(|| {
        act(&mut || match Python::attach(|py| py.check_signals()) {
            Ok(()) => true,
            Err(error) => {
                interrupted = Some(error);
                false
            }
        })
    });
    match interrupted {
        Some(error) => Err(error),
        None => outcome.map_err(raised),
    }
}

fn tried(answer: Answer) -> PyResult<Tried> {
    let Answer::Tried { done, failed, failures } = answer else { return Err(nonsense()) };
    let one = |Failure { path, why, reason }| Ok((path_of(path)?, reason, name_of(why)));
    let failures: PyResult<Vec<_>> = failures.into_iter().map(one).collect();
    Ok((done, failed, failures?))
}

fn row(found: Found) -> PyResult<Row> {
    let path = path_of(found.path)?;
    match found.about {
        Ok(about) => Ok((path, Some(facts(about)?), String::new())),
        Err(reason) => Ok((path, None, reason)),
    }
}

fn facts(about: About) -> PyResult<Facts> {
    let (kind, size, target) = match about.kind {
        Kind::File { size } => ("file", size, None),
        Kind::Folder => ("folder", 0, None),
        Kind::Link { target } => ("link", 0, Some(path_of(target)?)),
        Kind::Other => ("other", 0, None),
    };
    let (seconds, nanoseconds) = about.modified;
    Ok((kind, size, about.mode, i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds), target))
}

fn to_time(nanoseconds: i128) -> (i64, u32) {
    let seconds = nanoseconds.div_euclid(1_000_000_000);
    (seconds.clamp(i64::MIN.into(), i64::MAX.into()) as i64, nanoseconds.rem_euclid(1_000_000_000) as u32)
}

fn bytes(path: PathBuf) -> Vec<u8> {
    to_bytes(path.as_os_str())
}

fn path_of(path: Vec<u8>) -> PyResult<OsString> {
    from_bytes(path).map_err(|error| raise("TransferError", error))
}

fn nonsense() -> PyErr {
    raised(FilesError::Nonsense)
}

fn raised(error: FilesError) -> PyErr {
    match &error {
        FilesError::Level(_) => raise("PolicyError", error),
        FilesError::Identity(_) => raise("IdentityError", error),
        FilesError::Unreachable(_) | FilesError::Lost(_) => called(raise("TransferError", error), "EHOSTUNREACH"),
        FilesError::Failed(why, _) => numbered(raise("TransferError", &error), *why),
        _ => raise("TransferError", error),
    }
}

/// Gives an error the number that the system has for why.
fn numbered(error: PyErr, why: Why) -> PyErr {
    match name_of(why) {
        Some(name) => called(error, name),
        None => error,
    }
}

/// Gives it the number that the module `errno` calls so.
fn called(error: PyErr, name: &str) -> PyErr {
    Python::attach(|py| {
        let number = py.import("errno").and_then(|module| module.getattr(name));
        let set = number.and_then(|number| error.value(py).setattr("errno", number));
        set.err().unwrap_or(error)
    })
}

fn name_of(why: Why) -> Option<&'static str> {
    match why {
        Why::Missing => Some("ENOENT"),
        Why::Exists => Some("EEXIST"),
        Why::Denied => Some("EACCES"),
        Why::NoFolder => Some("ENOTDIR"),
        Why::IsFolder => Some("EISDIR"),
        Why::NotEmpty => Some("ENOTEMPTY"),
        Why::Full => Some("ENOSPC"),
        Why::Other => None,
    }
}
