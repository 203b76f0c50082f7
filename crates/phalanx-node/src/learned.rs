//! Log messages of a server about news that another member has brought.

use crate::log::{Log, Severity};
use phalanx_net::identity::{Brought, Taken};
use phalanx_net::news::Learned;

/// Logs the news that the member of this name has brought, and those that could not be written.
pub fn log_learned(log: &Log, learned: &Learned, from: &str) {
    learned.list.iter().for_each(|taken| log_taken(log, taken, from));
    log_brought(log, &learned.brought, from);
}

fn log_taken(log: &Log, taken: &Taken, from: &str) {
    let Taken { number, unwritten } = taken;
    let what = format!("{from} brought list {number} of revoked certificates");
    match unwritten {
        None => log.info(what),
        Some(why) => {
            let cause = "a list of revoked certificates cannot be written here";
            log.limited(Severity::Warning, cause, format!("{what}, which cannot be written here: {why}"));
        }
    }
}

fn log_brought(log: &Log, brought: &Brought, from: &str) {
    let Brought { own, unwritten, refused, .. } = brought;
    if let Some(validity) = own {
        log.info(format!("{from} brought a new certificate of this machine, good until {}", validity.end()));
    }
    if let Some(why) = unwritten {
        let what = "renewed certificates cannot be written here";
        log.limited(Severity::Warning, what, format!("{what}: {why}"));
    }
    if let Some(why) = refused {
        let what = "a certificate that a user brought is ignored";
        log.limited(Severity::Warning, what, format!("a certificate that {from} brought is ignored: {why}"));
    }
}
