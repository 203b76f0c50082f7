//! Which versions of phalanx work together.
//!
//! A patch never changes the wire. So two ends work together if their versions have the same `MAJOR.MINOR`. A version
//! that is no release, like `0.2.0-rc.1`, works together with itself only.

use std::cmp::Ordering;

/// The version of this program, which it tells the other end of each link.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version that a server tells its clients, by default its own. Tests let a server tell another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(pub String);

impl Default for Version {
    fn default() -> Version {
        Version(VERSION.to_owned())
    }
}

/// How the version of the other end is to the own one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    /// Both work together.
    Fits,
    /// The other end is to be upgraded.
    Older,
    /// This end is to be upgraded.
    Newer,
    /// One of the two is no version, or is no release.
    Unknown,
}

impl Neighbour {
    /// How `theirs` is to `own`.
    pub fn of(theirs: &str, own: &str) -> Neighbour {
        if theirs == own {
            return Neighbour::Fits;
        }
        let (Some(theirs), Some(own)) = (release(theirs), release(own)) else { return Neighbour::Unknown };
        match theirs.cmp(&own) {
            Ordering::Equal => Neighbour::Fits,
            Ordering::Less => Neighbour::Older,
            Ordering::Greater => Neighbour::Newer,
        }
    }
}

/// The numbers MAJOR and MINOR of `MAJOR.MINOR.PATCH`. `None`: the text is no version of a release.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(|part| {
        let is_number = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| part.parse::<u32>().ok()).flatten()
    });
    let (major, minor, _patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_the_same_major_and_minor_number_work_together() {
        for (theirs, own) in [("0.1.0", "0.1.1"), ("0.1.1", "0.1.0"), ("0.1.10", "0.1.9"), ("1.4.0", "1.4.7")] {
            assert_eq!(Neighbour::of(theirs, own), Neighbour::Fits, "{theirs} and {own}");
        }
    }

    #[test]
    fn the_older_end_is_told_by_numbers_and_not_by_letters() {
        for (older, newer) in [("0.1.9", "0.2.0"), ("0.9.0", "0.10.0"), ("0.30.1", "1.0.0"), ("1.9.0", "1.10.0")] {
            assert_eq!(Neighbour::of(older, newer), Neighbour::Older, "{older} and {newer}");
            assert_eq!(Neighbour::of(newer, older), Neighbour::Newer, "{newer} and {older}");
        }
    }

    #[test]
    fn what_is_no_release_works_together_with_itself_only() {
        assert_eq!(Neighbour::of("0.2.0-rc.1", "0.2.0-rc.1"), Neighbour::Fits);
        for other in ["", "0.1", "0.1.0.0", "0.1.+0", "0.1.x", "0.1.0-rc.1", "99999999999.1.0", "9.9\x1b[31m"] {
            assert_eq!(Neighbour::of(other, "0.1.0"), Neighbour::Unknown, "{other:?}");
        }
    }
}
