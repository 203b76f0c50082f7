//! How long the links of a process that acts for a user last: until the newest delegation ends that the process has shown to the
//! server. A server ends a link then. The process shows a newer delegation in a further handshake, which prolongs its links.

use super::{Acting, Service};
use crate::sync::lock;
use rustls::pki_types::UnixTime;
use std::collections::BTreeMap;
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

/// The delegations that processes have shown to a server.
#[derive(Debug, Default)]
pub struct Lasting(Mutex<BTreeMap<Holding, Weak<AtomicU64>>>);

impl Lasting {
    /// Notes what a process has shown for a service. Returns the end of all its links for the service that are open.
    pub fn note(&self, acting: &Acting, service: Service) -> Until {
        let mut known = lock(&self.0);
        known.retain(|_, until| until.strong_count() > 0);
        let holding = (acting.delegation.holder.clone(), acting.user.clone(), service);
        let before = known.get(&holding).and_then(Weak::upgrade);
        let until = before.unwrap_or_default();
        until.fetch_max(acting.delegation.until, Ordering::AcqRel);
        known.insert(holding, Arc::downgrade(&until));
        Until(until)
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
