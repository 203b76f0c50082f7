//! The file `known_members`: which member answered first at each address that a user typed without a name, as `known_hosts` of ssh
//! has it.
//!
//! A line is `NAME GRID ADDRESS`. The name is the one in the member's certificate, the grid is the fingerprint of the authority
//! that issued it, and the address is `host:port` or `unix:path`. The file is replaced under a [lock](Locked), so that processes
//! that write at the same time lose no line and a reader never sees half of one.

mod fingerprint;
mod lines;
mod member;

pub use member::{KnownMember, normal};

use lines::Damage;
use phalanx_net::replace::Locked;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use thiserror::Error;

/// Largest file that is read, in bytes. It has room for about 10 000 members.
const MOST_BYTES: u64 = 1 << 20;

/// Why it cannot be told whether a member is the known one, or why it is not.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum KnownError {
    /// Another member answers than before.
    #[error(
        "{now} answers, but {was} answered there before ({}, line {line}): another machine may have taken its place. If \
         {now} is right, accept it with: phalanx known forget --file {} {address}", .file.display(), .file.display()
    )]
    Changed {
        /// The name of the member that answers.
        now: String,
        /// The name of the known member.
        was: String,
        /// The address at which both answered.
        address: String,
        /// The file of known members.
        file: PathBuf,
        /// The line of the known member.
        line: usize,
    },
    /// A line is none.
    #[error("{}, line {line}: {what}; correct the line, or remove it", .file.display())]
    Damaged {
        /// The file of known members.
        file: PathBuf,
        /// The number of the line.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The file is not one that can be read.
    #[error("{} cannot be used: {why}", .file.display())]
    Unusable {
        /// The file of known members.
        file: PathBuf,
        /// The reason, and what to do.
        why: String,
    },
    /// The file cannot be written.
    #[error(
        "{} cannot be written ({why}), so nothing would remember that {name} answers there: name the machine in a hosts \
         file, with the line: {name} = {address}", .file.display()
    )]
    Unwritable {
        /// The file of known members.
        file: PathBuf,
        /// The reason.
        why: String,
        /// The name of the member that answers.
        name: String,
        /// Where it answers.
        address: String,
    },
}

/// The file of the members that answered first.
#[derive(Debug, Clone)]
pub struct KnownMembers {
    file: PathBuf,
}

/// The file's text, and what its lines say.
struct Contents {
    text: String,
    lines: Vec<(usize, KnownMember)>,
}

impl KnownMembers {
    /// The members that the file at this path names. There need not be one.
    pub fn at(file: PathBuf) -> KnownMembers {
        KnownMembers { file }
    }

    /// All of them.
    pub fn list(&self) -> Result<Vec<KnownMember>, KnownError> {
        Ok(self.read()?.lines.into_iter().map(|(_, member)| member).collect())
    }

    /// Checks that the member is the one that answered at its address before. The first one is remembered.
    pub fn meet(&self, member: &KnownMember) -> Result<(), KnownError> {
        if member.to_string().parse().as_ref() != Ok(member) {
            return Err(self.unusable(format!("{:?} is no address that can be remembered", member.address)));
        }
        if self.knows(&self.read()?, member)? {
            return Ok(());
        }
        let locked = Locked::wait(&self.file).map_err(|error| self.unwritable(&error, member))?;
        let Contents { mut text, lines } = self.read()?; // another process may have added it meanwhile
        if self.knows(&Contents { text: String::new(), lines }, member)? {
            return Ok(());
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("{member}\n"));
        KnownMembers::replace(&locked, &text).map_err(|error| self.unwritable(&error, member))
    }

    /// Forgets the members at an address. Returns them.
    pub fn forget(&self, address: &str) -> Result<Vec<KnownMember>, KnownError> {
        let wrong = || self.unusable(format!("{address:?} is no address: write HOST:PORT or unix:PATH"));
        let address = normal(address).ok_or_else(wrong)?;
        let cannot = |error: io::Error| self.unusable(error.to_string());
        if self.read()?.lines.iter().all(|(_, member)| member.address != address) {
            return Ok(Vec::new());
        }
        let locked = Locked::wait(&self.file).map_err(cannot)?;
        let Contents { text, lines } = self.read()?;
        let (gone, _): (Vec<_>, Vec<_>) = lines.into_iter().partition(|(_, member)| member.address == address);
        let stays = |number: usize| gone.iter().all(|(line, _)| *line != number);
        let left = (1..).zip(text.lines()).filter(|(number, _)| stays(*number));
        let left: String = left.flat_map(|(_, line)| [line, "\n"]).collect();
        KnownMembers::replace(&locked, &left).map_err(cannot)?;
        Ok(gone.into_iter().map(|(_, member)| member).collect())
    }

    /// Whether the member is known. Fails if another one is known at its address.
    fn knows(&self, contents: &Contents, member: &KnownMember) -> Result<bool, KnownError> {
        let is_there = |known: &&(usize, KnownMember)| known.1.address == member.address && known.1.grid == member.grid;
        match contents.lines.iter().find(is_there) {
            None => Ok(false),
            Some((_, known)) if known.name == member.name => Ok(true),
            Some((line, known)) => Err(KnownError::Changed {
                now: member.name.clone(),
                was: known.name.clone(),
                address: member.address.clone(),
                file: self.file.clone(),
                line: *line,
            }),
        }
    }

    fn read(&self) -> Result<Contents, KnownError> {
        let cannot = |error: io::Error| self.unusable(error.to_string());
        let found = match fs::metadata(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Contents { text: String::new(), lines: Vec::new() });
            }
            found => found.map_err(cannot)?,
        };
        if !found.is_file() {
            return Err(self.unusable("it is no file".to_owned()));
        }
        if is_loose(&found) {
            return Err(self.unusable(format!("others may write it; first: chmod 600 {}", self.file.display())));
        }
        let mut bytes = Vec::new();
        File::open(&self.file).map_err(cannot)?.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(self.unusable(format!("it has more than {MOST_BYTES} bytes; remove lines from it")));
        }
        self.parse(&bytes)
    }

    fn parse(&self, bytes: &[u8]) -> Result<Contents, KnownError> {
        let damaged = |Damage { line, what }| KnownError::Damaged { file: self.file.clone(), line, what };
        let lines = lines::parse(bytes).map_err(damaged)?;
        let text = String::from_utf8_lossy(bytes).into_owned(); // each line is UTF-8
        Ok(Contents { text, lines })
    }

    /// Replaces the file.
    fn replace(locked: &Locked, text: &str) -> io::Result<()> {
        if text.len() as u64 > MOST_BYTES {
            return Err(io::Error::other(format!("it would have more than {MOST_BYTES} bytes")));
        }
        locked.replace(text.as_bytes())
    }

    fn unusable(&self, why: String) -> KnownError {
        KnownError::Unusable { file: self.file.clone(), why }
    }

    fn unwritable(&self, error: &io::Error, member: &KnownMember) -> KnownError {
        let KnownMember { name, address, .. } = member.clone();
        KnownError::Unwritable { file: self.file.clone(), why: error.to_string(), name, address }
    }
}

/// Whether other users may write the file.
#[cfg(unix)]
fn is_loose(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    found.permissions().mode() & 0o022 != 0
}

/// Elsewhere the folder's own access list decides.
#[cfg(not(unix))]
fn is_loose(_: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests;
