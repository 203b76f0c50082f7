//! Jobs for users who speak to a service in the hub's own process, and not over links. The service has checked who they are.

use super::super::{Hub, HubError};
use crate::contents::{content_of, digest_of};
use phalanx_core::hub::{Asking, Who};
use phalanx_core::jobs::JobRefusal;
use phalanx_core::wire::jobs::{Content, File as Input, FromHubJobs, MOST_HERE, Spec, ToHubJobs};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// An input that a service brings.
pub enum Given {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// A file of this machine.
    File(PathBuf),
}

impl Hub {
    /// The user of a bearer token.
    ///
    /// # Errors
    /// The token does not hold, its user is no member any more, or another hub leads, which knows the members.
    pub fn bearer(&self, token: &str) -> Result<String, HubError> {
        if !self.leads() {
            return Err(HubError::Elsewhere);
        }
        let bearer = self.member.read_bearer(token)?;
        let asking = Asking { who: Who::user(&bearer.user), key: bearer.key };
        self.engine().check_member(&asking)?;
        self.confirm()?;
        Ok(bearer.user)
    }

    /// Answers a request of a user about jobs.
    ///
    /// # Errors
    /// The request is refused, or another hub leads.
    pub fn ask_for(&self, user: &str, request: ToHubJobs) -> Result<FromHubJobs, HubError> {
        if !self.leads() {
            return Err(HubError::Elsewhere);
        }
        let answer = self.answer_user(user, request);
        self.confirm()?;
        answer
    }

    /// Submits a job of a user with these inputs, each with its name in the folder of the process. Returns its number.
    ///
    /// # Errors
    /// A file cannot be read or kept, the job is refused, or another hub leads.
    pub fn submit_for(&self, user: &str, mut spec: Spec, inputs: Vec<(String, Given)>) -> Result<u64, HubError> {
        for (name, given) in inputs {
            let content = self.keep_input(user, given);
            let content = content.map_err(|error| HubError::Other(format!("{name}: {error}")))?;
            spec.inputs.push(Input { name, content, executable: false });
        }
        match self.ask_for(user, ToHubJobs::Submit { spec: Box::new(spec) })? {
            FromHubJobs::Submitted { job } => Ok(job),
            _ => Err(JobRefusal::Wrong("the job was not submitted".to_owned()).into()),
        }
    }

    /// Reads a content of a user: so many bytes at most, from this one on.
    ///
    /// # Errors
    /// The content is not here.
    pub fn read_for(&self, user: &str, content: &Content, from: u64, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match content {
            Content::Here(all) => {
                let mut all = io::Cursor::new(all);
                all.set_position(from);
                all.take(most).read_to_end(&mut bytes)?;
            }
            Content::Kept { digest, .. } => {
                let mut file = self.contents.read(user, digest)?;
                file.seek(SeekFrom::Start(from))?;
                file.take(most).read_to_end(&mut bytes)?;
            }
        }
        Ok(bytes)
    }

    /// Keeps an input as a content of a user.
    fn keep_input(&self, user: &str, given: Given) -> io::Result<Content> {
        match given {
            Given::Bytes(bytes) if bytes.len() <= MOST_HERE => Ok(Content::Here(bytes)),
            Given::Bytes(bytes) => {
                let (digest, count) = digest_of(&mut bytes.as_slice())?;
                self.keep(user, Content::Kept { digest, bytes: count }, || Ok(bytes.as_slice()))
            }
            Given::File(path) => self.keep(user, content_of(&path)?, || File::open(&path)),
        }
    }

    fn keep<R: Read>(&self, user: &str, content: Content, open: impl Fn() -> io::Result<R>) -> io::Result<Content> {
        if let Content::Kept { digest, bytes } = content {
            let mut incoming = self.contents.begin(user, digest, bytes)?;
            incoming.restart()?; // what an earlier attempt has left may be of other bytes
            if !incoming.is_whole() {
                io::copy(&mut open()?, &mut incoming)?;
            }
            if !incoming.is_whole() {
                return Err(io::Error::other("it has changed while it was read"));
            }
        }
        Ok(content)
    }
}
