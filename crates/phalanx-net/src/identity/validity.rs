//! From when until when a certificate is good.

use super::IdentityError;
use rcgen::date_time_ymd;
use rustls::CertificateError::{ExpiredContext, NotValidYetContext};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use std::time::Duration;

/// A certificate is renewed when less than 1 in so many parts of its life is left.
const PARTS: u64 = 3;
/// Later than the end of any certificate, and the last second that has a date: the end of the year 9999.
const LAST: u64 = 253_402_300_799;

/// From when until when a certificate is good, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub from: u64,
    /// The last second.
    pub until: u64,
}

impl Validity {
    /// That of a certificate, which may be anybody's.
    ///
    /// # Errors
    /// It is no certificate that any member could have.
    pub(super) fn of(
        certificate: &CertificateDer<'_>,
        members: &dyn ClientCertVerifier,
    ) -> Result<Validity, IdentityError> {
        let judged = |now| {
            let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
            members.verify_client_cert(certificate, &[], now).err()
        };
        // The verifier reads the certificate, and says why it is not good at the beginning and at the end of all times.
        match (judged(0), judged(LAST)) {
            (
                Some(rustls::Error::InvalidCertificate(NotValidYetContext { not_before, .. })),
                Some(rustls::Error::InvalidCertificate(ExpiredContext { not_after, .. })),
            ) => Ok(Validity { from: not_before.as_secs(), until: not_after.as_secs() }),
            (Some(error), _) | (None, Some(error)) => Err(error.into()),
            (None, None) => Err(IdentityError::Missing("end of the certificate")),
        }
    }

    /// Whether it is over now.
    pub fn is_over(&self) -> bool {
        self.is_over_at(UnixTime::now().as_secs())
    }

    /// Whether less than a third of its life is left now, or nothing.
    pub fn is_near_end(&self) -> bool {
        self.is_near_end_at(UnixTime::now().as_secs())
    }

    fn is_over_at(&self, now: u64) -> bool {
        now > self.until
    }

    fn is_near_end_at(&self, now: u64) -> bool {
        self.until.saturating_sub(now) < self.until.saturating_sub(self.from) / PARTS
    }

    /// The last day and time, like `2027-11-27 14:58 UTC`.
    pub fn end(&self) -> String {
        let end = date_time_ymd(1970, 1, 1) + Duration::from_secs(self.until.min(LAST));
        format!("{} {:02}:{:02} UTC", end.date(), end.hour(), end.minute())
    }
}

/// A time in seconds since 1970, as lists of revoked certificates have it, like `2027-11-27T14:58:03Z`.
pub fn date_and_time(seconds: u64) -> String {
    let then = date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds.min(LAST));
    format!("{}T{:02}:{:02}:{:02}Z", then.date(), then.hour(), then.minute(), then.second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::members::Members;
    use crate::identity::{Authority, Role, first_certificate};

    const DAY: u64 = 24 * 3600;

    #[test]
    fn the_end_of_a_certificate_is_read_whoever_has_signed_it() {
        let authorities = [Authority::create().expect("a grid"), Authority::create().expect("a grid")];
        let root = authorities[0].certificate().expect("a certificate");
        let members = Members::new(&root, Vec::new()).expect("a verifier");
        for authority in &authorities {
            let before = UnixTime::now().as_secs();
            let pem = authority.issue_for(Role::User, "ada", Some(Duration::from_secs(10 * DAY))).expect("a member");
            let certificate = first_certificate(&pem).expect("a certificate");
            let validity = Validity::of(&certificate, &*members).expect("is a certificate");
            assert!((before + 10 * DAY - 1..=before + 10 * DAY + 60).contains(&validity.until), "{validity:?}");
            assert_eq!(validity.until - validity.from, 11 * DAY);
        }
        Validity::of(&vec![0x30, 3, 2, 1, 1].into(), &*members).expect_err("is none");
    }

    #[test]
    fn the_last_third_of_a_life_is_near_its_end() {
        let validity = Validity { from: 1000, until: 4000 };
        assert_eq!(
            [1000, 3000, 3001, 4000, 9000].map(|now| validity.is_near_end_at(now)),
            [false, false, true, true, true]
        );
        assert_eq!([4000, 4001].map(|now| validity.is_over_at(now)), [false, true]);
    }

    #[test]
    fn an_end_is_shown_as_a_date() {
        assert_eq!(Validity { from: 0, until: 1_795_791_491 }.end(), "2026-11-27 14:58 UTC");
        assert_eq!(Validity { from: 0, until: u64::MAX }.end(), "9999-12-31 23:59 UTC");
        assert_eq!(date_and_time(1_795_791_491), "2026-11-27T14:58:11Z");
    }
}
