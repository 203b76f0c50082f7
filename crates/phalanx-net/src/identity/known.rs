//! Sessions with other members, kept by this process so that the first link of the next copy is resumed as well (RFC
//! 8446, section 2.2). A resumed link still has fresh keys. After a day, both ends show their certificates again.

use super::{Client, IdentityError, Member, Role};
use crate::forks;
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// Limit on the members whose sessions are kept.
const MOST: usize = 64;
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The process, the own member, and the peer's role and place. The process is in the key so that a fork starts without
/// sessions: a thread that the fork lacks may have been using them.
type Key = (u32, [CertificateDer<'static>; 2], &'static str, String);

static KNOWN: LazyLock<Mutex<HashMap<Key, (Instant, Client)>>> = LazyLock::new(Mutex::default);

/// The client configuration for links from `member` to the peer at `place`.
pub(super) fn client(member: &Member, role: Role, place: &str) -> Result<Client, IdentityError> {
    if member.acts.is_some() {
        return member.client_of(role); // a kept session would go on with an earlier delegation
    }
    let own = [member.own.certificate.clone(), member.authority.clone()];
    let key = (forks::process(), own, role.name(), place.to_owned());
    // Not waited for, because in a fork the thread that holds the lock may not exist.
    let Ok(mut known) = KNOWN.try_lock() else { return member.client_of(role) };
    known.retain(|_, (since, _)| since.elapsed() < LONGEST);
    if let Some((_, client)) = known.get(&key) {
        return Ok(Client { news: member.news.clone(), ..client.clone() });
    }
    let client = member.client_of(role)?;
    if known.len() >= MOST {
        let oldest = known.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| key.clone());
        oldest.and_then(|oldest| known.remove(&oldest));
    }
    known.insert(key, (Instant::now(), client.clone()));
    Ok(client)
}
