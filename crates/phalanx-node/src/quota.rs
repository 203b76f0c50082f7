//! Limits how many of something a server has for its users at a time: in total, and for each user.

use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

/// Places for one kind of service.
#[derive(Debug)]
pub struct Quota {
    /// What the places are for, in the plural, as in "64 copies".
    what: &'static str,
    most: usize,
    share: usize,
    taken: Mutex<Places>,
}

/// The places that are taken.
#[derive(Debug, Default)]
struct Places {
    all: usize,
    /// How many places each user has. Users that have none are not listed.
    of: HashMap<String, usize>,
}

/// The error for a peer that is rejected.
pub fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.into())
}

/// A user's place. It is given back when this is dropped.
#[derive(Debug)]
pub struct Entered {
    quota: Arc<Quota>,
    user: String,
}

impl Quota {
    /// `most` places in total, and `share` for one user.
    pub fn new(what: &'static str, most: usize, share: usize) -> Arc<Quota> {
        Arc::new(Quota { what, most, share, taken: Mutex::default() })
    }

    /// Takes a place for the user. The error says which limit is reached.
    pub fn enter(self: &Arc<Quota>, user: &str) -> io::Result<Entered> {
        let Quota { what, most, share, taken } = &**self;
        let mut taken = lock(taken);
        let own = taken.of.get(user).copied().unwrap_or_default();
        if taken.all >= *most {
            return Err(refused(format!("all {most} {what} of this machine are in use")));
        }
        if own >= *share {
            return Err(refused(format!("{user} has {share} {what} here, which is one user's share")));
        }
        taken.all += 1;
        taken.of.insert(user.to_owned(), own + 1);
        Ok(Entered { quota: self.clone(), user: user.to_owned() })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut taken = lock(&self.quota.taken);
        taken.all -= 1;
        if let Some(own) = taken.of.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                taken.of.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(entered: io::Result<Entered>) -> String {
        entered.expect_err("there is no place").to_string()
    }

    #[test]
    fn a_user_has_a_share_and_all_together_have_no_more_than_there_is() {
        let quota = Quota::new("control links", 3, 2);
        let mut adas: Vec<_> = (0..2).map(|_| quota.enter("ada").expect("a share")).collect();
        assert_eq!(refusal(quota.enter("ada")), "ada has 2 control links here, which is one user's share");
        let _bobs = quota.enter("bob").expect("the last one");
        assert_eq!(refusal(quota.enter("eve")), "all 3 control links of this machine are in use");
        adas.pop();
        quota.enter("eve").expect("ada has given one back");
        quota.enter("ada").expect("eve has given it back");
        adas.clear();
        let taken = lock(&quota.taken);
        assert_eq!((taken.of.len(), taken.all), (1, 1));
    }
}
