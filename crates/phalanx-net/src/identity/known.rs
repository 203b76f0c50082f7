//! What this process keeps of its links to other members, so that the first link of the next copy is resumed as well (RFC 8446,
//! section 2.2). Its keys are new ones all the same, and after a day both ends show their certificates again.

use super::{Client, IdentityError, Member, Role};
use crate::forks;
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// Members that are kept in mind.
const MOST: usize = 64;
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Who reaches whom: a member of a grid, and where the other one is reached in which role. A fork begins with nothing: a thread
/// that it does not have may have been using what is kept.
type Key = (u32, [CertificateDer<'static>; 2], &'static str, String);

static KNOWN: LazyLock<Mutex<HashMap<Key, (Instant, Client)>>> = LazyLock::new(Mutex::default);

/// What links of `member` to the one that is reached at `place` begin with.
pub(super) fn client(member: &Member, role: Role, place: &str) -> Result<Client, IdentityError> {
    let own = [member.own.certificate.clone(), member.authority.clone()];
    let key = (forks::process(), own, role.name(), place.to_owned());
    // Not waited for: in a fork, whoever holds it may be gone.
    let Ok(mut known) = KNOWN.try_lock() else { return member.client_of(role) };
    known.retain(|_, (since, _)| since.elapsed() < LONGEST);
    if let Some((_, client)) = known.get(&key) {
        return Ok(client.clone());
    }
    let client = member.client_of(role)?;
    if known.len() >= MOST {
        let oldest = known.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| key.clone());
        oldest.and_then(|oldest| known.remove(&oldest));
    }
    known.insert(key, (Instant::now(), client.clone()));
    Ok(client)
}
