//! Lists of revoked certificates travel over control links. Each end says the number of its newest list, and sends the list where
//! the other end has an older one, also when a newer list appears while the link is open.

mod renewed;

pub use renewed::Renewing;

use phalanx_core::wire::MAX_CONTROL_BODY;
use phalanx_net::identity::{Revocations, Taken};
use std::io;
use std::sync::Arc;

/// One end of a control link, as a carrier of lists.
#[derive(Debug)]
pub struct Carrier {
    revocations: Arc<Revocations>,
    has_said: bool,
    /// The number of the other end's newest list, once it has said it.
    theirs: Option<u64>,
}

impl Carrier {
    pub fn new(revocations: Arc<Revocations>) -> Carrier {
        Carrier { revocations, has_said: false, theirs: None }
    }

    /// Notes the number of the other end's newest list. If `text` is not empty, it is that list. Returns the list if this member
    /// took it.
    ///
    /// # Errors
    /// The text is no list that the grid's authority has signed.
    pub fn hear(&mut self, number: u64, text: &[u8]) -> io::Result<Option<Taken>> {
        self.theirs = self.theirs.max(Some(number));
        if text.is_empty() {
            return Ok(None);
        }
        self.revocations.take(std::str::from_utf8(text).map_err(io::Error::other)?)
    }

    /// Returns the next message to the other end, if one is due: the number of the newest list, and the list if the other end has
    /// an older one. A list that does not fit into a message is not sent.
    pub fn due(&mut self) -> Option<(u64, Vec<u8>)> {
        let number = self.revocations.number();
        if !std::mem::replace(&mut self.has_said, true) {
            return Some((number, Vec::new()));
        }
        if self.theirs? >= number {
            return None;
        }
        self.theirs = Some(number);
        let text = self.revocations.text().into_bytes();
        (text.len() as u64 <= MAX_CONTROL_BODY).then_some((number, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_net::identity::{Authority, Member, Revoked, Role};
    use std::fs;

    #[test]
    fn the_end_with_an_older_list_gets_the_newer_one_once() {
        let authority = Authority::create().unwrap();
        let pem = authority.issue(Role::User, "ada").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let files = ["here", "there"].map(|name| folder.path().join(name));
        let member = |index: usize| Member::parse(&pem, Role::User).unwrap().heeding(vec![files[index].clone()]);
        let (here, there) = (member(0), member(1));
        let revoked = Revoked {
            when: "2026-01-02T03:04:05Z".to_owned(),
            role: Role::User,
            name: "bob".to_owned(),
            fingerprint: "ab".repeat(32),
        };
        fs::write(&files[0], authority.revoke(None, vec![revoked]).unwrap()).unwrap();
        let mut one = Carrier::new(here.revocations().clone());
        let mut other = Carrier::new(there.revocations().clone());
        assert_eq!(one.due(), Some((1, Vec::new())));
        assert_eq!(one.due(), None, "the other end has not said what it has");
        let (number, text) = other.due().unwrap();
        assert_eq!((number, text.len()), (0, 0));
        assert!(one.hear(number, &text).unwrap().is_none());
        let (number, text) = one.due().unwrap();
        assert_eq!(other.hear(number, &text).unwrap().map(|it| it.number), Some(1));
        assert_eq!((one.due(), other.due()), (None, None));
        assert_eq!(fs::read(&files[1]).unwrap(), text);
        other.hear(2, b"none").unwrap_err();
    }
}
