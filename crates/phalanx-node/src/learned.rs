//! Log messages of a server about news that another member has brought.

use crate::log::{Log, Severity};
use phalanx_net::news::Learned;

/// Logs the news that the member of this name has brought, and those that could not be written.
pub fn log_learned(log: &Log, learned: &Learned, from: &str) {
    if let Some(taken) = &learned.list {
        log.info(format!("{from} brought list {} of revoked certificates", taken.number));
    }
    if let Some(validity) = &learned.brought.own {
        log.info(format!("{from} brought a new certificate of this machine, good until {}", validity.end()));
    }
    if let Some(why) = &learned.brought.refused {
        let what = "a certificate that a user brought is ignored";
        log.limited(Severity::Warning, what, format!("a certificate that {from} brought is ignored: {why}"));
    }
    for (what, sentence) in learned.unwritten() {
        log.limited(Severity::Warning, what, sentence);
    }
}
