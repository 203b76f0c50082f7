//! A user's requests about jobs.

use super::asking::{AtHub, other};
use super::{AskError, open_again};
use crate::contents::{Contents, content_of};
use phalanx_core::wire::hub::{FromHub, ToHub};
use phalanx_core::wire::jobs::{Content, File as Input, FromHubJobs, Spec, Stream, ToHubJobs};
use phalanx_net::identity::{Member, random_token};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an executor may take to tell what a process has written. Then the hub is asked again.
const LOG_PATIENCE: Duration = Duration::from_secs(4);

/// What a process has written from some byte on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Log {
    /// These bytes, and more may follow.
    Part(Vec<u8>),
    /// The process has ended. This is all that it has written.
    All(Content),
    /// It has not begun, and may begin.
    NotYet,
    /// It has ended without a result.
    Nothing,
}

/// A user at the hub, for requests about jobs. A link that has ended is opened again.
pub struct JobsAtHub {
    member: Member,
    hubs: Vec<String>,
    link: Option<AtHub>,
    contents: Option<Contents>,
}

impl JobsAtHub {
    /// For this user.
    pub fn new(member: Member, hubs: Vec<String>) -> JobsAtHub {
        JobsAtHub { member, hubs, link: None, contents: None }
    }

    /// Asks the hub.
    ///
    /// # Errors
    /// The hub refuses, or does not answer.
    pub fn ask(&mut self, request: ToHubJobs) -> Result<FromHubJobs, AskError> {
        match self.ask_with_body(request, None)?.0 {
            FromHub::Jobs(answer) => Ok(answer),
            _ => Err(other()),
        }
    }

    /// Submits a job with these files as inputs: the path here, the name in the folder of the process, and whether it may be executed.
    /// Returns its number.
    ///
    /// # Errors
    /// A file cannot be read, or the hub refuses.
    pub fn submit(&mut self, mut spec: Spec, files: Vec<(PathBuf, String, bool)>) -> Result<u64, AskError> {
        let mut kept = Vec::new();
        for (path, name, executable) in files {
            let content = content_of(&path).map_err(|error| unreadable(&path, &error))?;
            if let Content::Kept { digest, bytes } = content {
                kept.push((digest, bytes, path));
            }
            spec.inputs.push(Input { name, content, executable });
        }
        self.bring(&kept)?;
        spec.key = random_token();
        match self.ask(ToHubJobs::Submit { spec: Box::new(spec) })? {
            FromHubJobs::Submitted { job } => Ok(job),
            _ => Err(other()),
        }
    }

    /// What a process has written to a stream, from this byte on.
    ///
    /// # Errors
    /// There is no such process, or the hub does not answer.
    pub fn log(&mut self, job: u64, index: u32, stream: Stream, from: u64) -> Result<Log, AskError> {
        let request = ToHubJobs::Log { job, index, stream, from };
        let (answer, body) = match self.ask_with_body(request, Some(LOG_PATIENCE)) {
            // The executor is away, or busy.
            Err(AskError::Ended(error)) if error.kind() == io::ErrorKind::TimedOut => return Ok(Log::Part(Vec::new())),
            answer => answer?,
        };
        match answer {
            FromHub::Jobs(FromHubJobs::Log { content: Some(content), .. }) => Ok(Log::All(content)),
            FromHub::Jobs(FromHubJobs::Log { content: None, is_running: true }) if !body.is_empty() => {
                Ok(Log::Part(body))
            }
            FromHub::Jobs(FromHubJobs::Log { content: None, is_running: true }) => Ok(Log::NotYet),
            FromHub::Jobs(FromHubJobs::Log { content: None, is_running: false }) => Ok(Log::Nothing),
            _ => Err(other()),
        }
    }

    /// Writes a content of a user into a file, which gets its name when it is whole.
    ///
    /// # Errors
    /// The file cannot be written, or the hub does not have the content.
    pub fn fetch(&mut self, user: &str, content: &Content, path: &Path, executable: bool) -> Result<(), AskError> {
        let named = |error: io::Error| AskError::Refused(format!("{}: {error}", path.display()));
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".phalanx-").tempfile_in(folder).map_err(named)?;
        match content {
            Content::Here(bytes) => io::Write::write_all(&mut file, bytes).map_err(named)?,
            Content::Kept { digest, bytes } => {
                let (digest, bytes) = (*digest, *bytes);
                let contents = self.contents()?;
                contents.get(user, digest, bytes, &mut file).map_err(|error| {
                    AskError::Refused(format!("the content of {} was not brought: {error}", path.display()))
                })?;
            }
        }
        set_mode(file.as_file(), executable).map_err(named)?;
        file.persist(path).map_err(|error| named(error.error))?;
        Ok(())
    }

    /// Brings the contents that the hub lacks.
    fn bring(&mut self, kept: &[([u8; 32], u64, PathBuf)]) -> Result<(), AskError> {
        if kept.is_empty() {
            return Ok(());
        }
        let user = self.member.name.clone();
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => AskError::Refused(error.to_string()),
            _ => AskError::Ended(error),
        };
        let contents = self.contents()?;
        let digests: Vec<[u8; 32]> = kept.iter().map(|(digest, ..)| *digest).collect();
        let lacking = contents.lacking(&user, &digests).map_err(refused)?;
        for (digest, bytes, path) in kept.iter().filter(|(digest, ..)| lacking.contains(digest)) {
            let mut file = File::open(path).map_err(|error| unreadable(path, &error))?;
            contents.put(&user, *digest, *bytes, &mut file).map_err(refused)?;
        }
        Ok(())
    }

    fn contents(&mut self) -> Result<&mut Contents, AskError> {
        let hub = self.at_hub()?.address().clone();
        let open = match self.contents.take().filter(|it| !it.has_ended()) {
            Some(open) => open,
            None => Contents::open(&self.member, &hub)?,
        };
        Ok(self.contents.insert(open))
    }

    fn at_hub(&mut self) -> Result<&mut AtHub, AskError> {
        let open = match self.link.take().filter(|it| !it.has_ended()) {
            Some(open) => open,
            None => open_again(&self.member, &self.hubs)?,
        };
        Ok(self.link.insert(open))
    }

    fn ask_with_body(
        &mut self,
        request: ToHubJobs,
        patience: Option<Duration>,
    ) -> Result<(FromHub, Vec<u8>), AskError> {
        let (at_hub, request) = (self.at_hub()?, ToHub::Jobs(request));
        let answer = match patience {
            None => at_hub.ask(&request),
            Some(patience) => at_hub.ask_with(&request, Vec::new(), patience),
        };
        if matches!(answer, Err(AskError::Ended(_))) {
            self.link = None; // a late answer would be taken for the next one
        }
        answer
    }
}

/// Reads JSON. The error is for programmers.
///
/// # Errors
/// The text is not of this type.
pub fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Writes JSON.
pub fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("messages of phalanx serialize into memory")
}

fn unreadable(path: &Path, error: &io::Error) -> AskError {
    AskError::Refused(format!("{} cannot be read: {error}", path.display()))
}

#[cfg(unix)]
fn set_mode(file: &File, executable: bool) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mask = rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    rustix::process::umask(mask);
    let mode = (if executable { 0o777 } else { 0o666 }) & !mask.as_raw_mode() as u32;
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &File, _: bool) -> io::Result<()> {
    Ok(())
}
