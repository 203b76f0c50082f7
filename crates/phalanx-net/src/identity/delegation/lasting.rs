//! How long the links of a process that acts for a user last: until the newest delegation ends that the process has shown to the
//! server. A server ends a link then. The process shows a newer delegation in a further handshake, which prolongs its links.

use super::{Acting, Service};
use crate::sync::lock;
use rustls::pki_types::UnixTime;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// The second since 1970 at which a delegation ends, or the one that follows it.
#[derive(Debug, Clone)]
pub struct Until(Arc<AtomicU64>);

impl Until {
    /// Whether its time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) <= UnixTime::now().as_secs()
    }
}

/// The process by its certificate, the user's name, and the service.
type Holding = (String, String, Service);

/// The things of the service that a delegation names at the server. `None`: everything.
type Things = Option<BTreeSet<String>>;

/// The delegations that processes have shown to a server. Links that were opened for the same things share their end.
#[derive(Debug, Default)]
pub struct Lasting(Mutex<BTreeMap<Holding, BTreeMap<Things, Weak<AtomicU64>>>>);

impl Lasting {
    /// Notes what a process has shown for a service to the server with this name. It prolongs the open links that were opened
    /// for the same things or for fewer: a delegation of less takes nothing back, and gives no time to what it does not allow.
    /// Returns the end of the links that are opened with this delegation.
    pub fn note(&self, acting: &Acting, service: Service, server: &str) -> Until {
        let mut known = lock(&self.0);
        known.retain(|_, ends| {
            ends.retain(|_, until| until.strong_count() > 0);
            !ends.is_empty()
        });
        let holding = (acting.delegation.holder.clone(), acting.user.clone(), service);
        let (ends, things) = (known.entry(holding).or_default(), acting.delegation.scope.at(service, server));
        let until = ends.get(&things).and_then(Weak::upgrade).unwrap_or_default();
        ends.insert(things.clone(), Arc::downgrade(&until));
        let prolonged = ends.iter().filter(|(those, _)| allows(&things, those)).filter_map(|(_, end)| end.upgrade());
        for end in prolonged {
            end.fetch_max(acting.delegation.until, Ordering::AcqRel);
        }
        Until(until)
    }
}

/// Whether whoever may use `things` may use `those`.
fn allows(things: &Things, those: &Things) -> bool {
    match (things, those) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(things), Some(those)) => those.is_subset(things),
    }
}

/// Finds the user as a process acts by the newest delegation that it has.
#[derive(Clone)]
pub(in crate::identity) struct Newest(pub Arc<dyn Fn() -> Option<crate::identity::Member> + Send + Sync>);

impl Debug for Newest {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str("Newest")
    }
}
