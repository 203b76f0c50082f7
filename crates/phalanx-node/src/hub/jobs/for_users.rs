//! Jobs for users who speak to a service in the hub's own process, and not over links. The service has checked who they are.

use super::super::{Hub, HubError};
use crate::contents::digest_of;
use phalanx_core::hub::{Asking, Who};
use phalanx_core::wire::jobs::{Content, FromHubJobs, MOST_HERE, ToHubJobs};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

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
        self.engine().check_user(user)?; // it may have been expelled since its token was checked
        let answer = self.answer_user(user, request);
        self.confirm()?;
        answer
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

    /// Keeps bytes as a content of a user.
    ///
    /// # Errors
    /// There is no room.
    pub fn keep_bytes(&self, user: &str, bytes: &[u8]) -> io::Result<Content> {
        if bytes.len() <= MOST_HERE {
            return Ok(Content::Here(bytes.to_vec()));
        }
        let (digest, count) = digest_of(&mut { bytes })?;
        self.keep(user, Content::Kept { digest, bytes: count }, || Ok(bytes))
    }

    /// Keeps an opened file as a content of a user.
    ///
    /// # Errors
    /// It is no file, cannot be read, or there is no room.
    pub fn keep_file(&self, user: &str, file: &File) -> io::Result<Content> {
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
        }
        if about.len() <= MOST_HERE as u64 {
            let mut bytes = Vec::new();
            file.take(MOST_HERE as u64 + 1).read_to_end(&mut bytes)?;
            return self.keep_bytes(user, &bytes);
        }
        self.contents.check_room(user, about.len())?; // before all of it is read
        let from_start = || {
            let mut file = file;
            file.rewind()?;
            Ok(file)
        };
        let (digest, bytes) = digest_of(&mut from_start()?)?;
        self.keep(user, Content::Kept { digest, bytes }, from_start)
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
