//! What this process may do in a user's name, if it runs at an executor for the user.
//!
//! The executor gives an interpreter a key and a certificate of its own when it starts it. The user's manager sends delegations,
//! each of which replaces the one before. Links to other members are opened with the newest. Ranks, and processes that a task
//! or a rank starts, find both in a [`file`].

pub mod file;

use file::Kept;
use phalanx_core::wire::{Given, decode};
use phalanx_net::identity::{IdentityError, KeyedCertificate, Member, Service};
use phalanx_net::sync::lock;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use zeroize::Zeroizing;

/// What a process needs, beside a delegation, to act for a user: its own certificate and key, and the certificates of the user, of
/// its executor, of the grid's authority and of the issuers that the executor knows.
#[derive(Clone, Serialize, Deserialize)]
pub struct Papers {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    user: Vec<u8>,
    executor: Vec<u8>,
    authority: Vec<u8>,
    issuers: Vec<Vec<u8>>,
}

impl fmt::Debug for Papers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Papers")
    }
}

impl Papers {
    /// Of a process with the certificate and key `own`, which the executor `at` runs for the owner of the certificate `user`.
    pub fn new(own: &KeyedCertificate, user: &[u8], at: &Member) -> Papers {
        let (certificate, key) = own.to_parts();
        let (executor, authority) = (at.own().certificate.to_vec(), at.authority().to_vec());
        Papers { certificate, key, user: user.to_vec(), executor, authority, issuers: at.issuers() }
    }

    /// The user, as the process acts by the delegation with this text.
    fn member(&self, text: &str) -> Result<Member, IdentityError> {
        let Papers { certificate, key, user, executor, authority, issuers } = self;
        let own = KeyedCertificate::from_parts(certificate.clone(), key.clone());
        Member::delegated(own, [user, executor, authority], issuers, text)
    }
}

/// How a program's processes at an executor were started, and so what is to be said for their user to delegate more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Starter {
    /// As interpreters, by a manager.
    Manager,
    /// As ranks, by a launcher.
    Launcher,
}

impl Starter {
    /// What a user does to delegate what the word says.
    fn how(self, word: &str) -> String {
        let given = if word == Service::Spaces.name() { "give the program the space itself, or " } else { "" };
        match self {
            Starter::Manager => format!("{given}say in the user's program: px.Manager(..., delegate=\"{word}\")"),
            Starter::Launcher => format!(
                "start the program with px.mpirun(..., delegate=\"{word}\") or phalanx mpirun --delegate {word}, or bsprun \
                 alike"
            ),
        }
    }
}

/// This process at an executor.
struct Here {
    machine: String,
    starter: Starter,
    papers: Papers,
    newest: Option<Newest>,
    /// The file for the processes of the program that have no link to the user's program.
    file: Option<PathBuf>,
    /// The number of the process that has the link. A process that it forks has another number, and no link.
    linked: Option<u32>,
}

/// What the user gave last.
struct Newest {
    given: Given,
    /// The user, as this process acts by this text. It is verified when it is first needed, and once.
    member: Option<Member>,
}

impl Here {
    /// A process that finds a file.
    fn found() -> Option<Here> {
        let file = PathBuf::from(std::env::var_os(file::VARIABLE)?);
        let Kept { machine, starter, papers, given } = Kept::read(&file).ok()?;
        let newest = given.map(|given| Newest { given, member: None });
        Some(Here { machine, starter, papers, newest, file: Some(file), linked: None })
    }

    /// Reads the file again, unless this process has the link. A file that is gone says nothing new.
    fn refresh(&mut self) {
        if self.linked == Some(std::process::id()) {
            return;
        }
        if let Some(Kept { given: Some(given), papers, .. }) = self.file.as_ref().and_then(|it| Kept::read(it).ok()) {
            if self.newest.as_ref().is_none_or(|newest| newest.given != given) {
                (self.papers, self.newest) = (papers, Some(Newest { given, member: None }));
            }
        }
    }

    /// Writes the file. Without it, only processes that a task starts cannot act for the user.
    fn keep(&self) {
        let Here { machine, starter, papers, newest, file, .. } = self;
        let given = newest.as_ref().map(|newest| newest.given.clone());
        let kept = Kept { machine: machine.clone(), starter: *starter, papers: papers.clone(), given };
        let _ = file.as_ref().map(|file| kept.write(file));
    }

    /// The user, by the newest delegation. `None`: there is none.
    fn member(&mut self) -> Result<Option<&Member>, IdentityError> {
        let Some(newest) = &mut self.newest else { return Ok(None) };
        let Some(text) = &newest.given.delegation else { return Ok(None) };
        if newest.member.is_none() {
            let member = self.papers.member(text)?;
            newest.member = Some(member.prolonged_by(|| here().as_mut()?.member().ok()?.cloned()));
        }
        let Some(member) = &newest.member else { return Ok(None) };
        match member.acts() {
            Some(acting) if acting.delegation.has_ended() => Err(IdentityError::DelegationEnded),
            _ => Ok(Some(member)),
        }
    }

    /// Replaces the newest delegation.
    fn receive(&mut self, given: Given) {
        self.newest = Some(Newest { given, member: None });
        self.keep();
    }
}

static HERE: Mutex<Option<Here>> = Mutex::new(None);

/// This process, with the newest delegation.
fn here() -> MutexGuard<'static, Option<Here>> {
    let mut here = lock(&HERE);
    match &mut *here {
        Some(known) => known.refresh(),
        None => *here = Here::found(),
    }
    here
}

/// From now on, this process runs for a user at an executor, and has a link to the user's manager.
pub(crate) fn begin(machine: &str, papers: Papers) {
    let (machine, starter, linked) = (machine.to_owned(), Starter::Manager, Some(std::process::id()));
    let file = std::env::var_os(file::VARIABLE).map(PathBuf::from);
    let here = Here { machine, starter, papers, newest: None, file, linked };
    here.keep();
    *lock(&HERE) = Some(here);
}

/// Takes a delegation from the user's manager.
pub(crate) fn receive(given: &[u8]) {
    if let (Some(here), Ok(given)) = (&mut *lock(&HERE), decode::<Given>(given)) {
        here.receive(given);
    }
}

/// The name of the machine at whose executor this process runs. `None`: it is the user's own process.
pub fn machine() -> Option<String> {
    here().as_ref().map(|here| here.machine.clone())
}

/// What the user's program has given to this process last.
pub fn given() -> Given {
    let newest = here().as_ref().and_then(|here| here.newest.as_ref().map(|newest| newest.given.clone()));
    newest.unwrap_or_default()
}

/// The user, as this process may use a service in the user's name. `None`: that was not delegated to it.
///
/// # Errors
/// The delegation does not hold, or has ended.
pub fn member(service: Service) -> Result<Option<Member>, IdentityError> {
    let mut here = here();
    let Some(here) = &mut *here else { return Ok(None) };
    let knows = |member: &&Member| member.acts().is_some_and(|acting| acting.delegation.scope.knows(service));
    Ok(here.member()?.filter(knows).cloned())
}

/// What a user does to delegate what the word says to processes as this one.
pub fn how(word: &str) -> String {
    here().as_ref().map_or(Starter::Manager, |here| here.starter).how(word)
}

/// What to do where a service was not delegated, for users.
pub fn advice(machine: &str, service: Service) -> String {
    let (service, how) = (service.name(), how(service.name()));
    format!("this process runs at {machine} for a user, who delegated no {service} to it; {how}")
}

#[cfg(test)]
mod tests;
