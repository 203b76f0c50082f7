//! Jobs for users of a service in the hub's own process. The service authenticates them, because they have no links.

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
    /// The token is invalid, its user is no longer a member, or another hub leads, which knows the members.
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
    /// The hub refuses the request, or another hub leads.
    pub fn ask_for(&self, user: &str, request: ToHubJobs) -> Result<FromHubJobs, HubError> {
        if !self.leads() {
            return Err(HubError::Elsewhere);
        }
        self.engine().check_user(user)?; // the user may have been expelled since the check of the token
        let answer = self.answer_user(user, request);
        self.confirm()?;
        answer
    }

    /// Reads at most `most` bytes of a user's content, from the byte `from` on.
    ///
    /// # Errors
    /// The hub does not have the content.
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

    /// Stores bytes as a content of a user.
    ///
    /// # Errors
    /// The store has no room.
    pub fn keep_bytes(&self, user: &str, bytes: &[u8]) -> io::Result<Content> {
        if bytes.len() <= MOST_HERE {
            return Ok(Content::Here(bytes.to_vec()));
        }
        let (digest, count) = digest_of(&mut { bytes })?;
        self.keep(user, Content::Kept { digest, bytes: count }, || Ok(bytes))
    }

    /// Stores an open file as a content of a user.
    ///
    /// # Errors
    /// It is not a regular file, cannot be read, or the store has no room.
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
        self.contents.check_room(user, about.len())?; // before reading the whole file
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
            incoming.restart()?; // the partial file of an earlier attempt may have other bytes
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
