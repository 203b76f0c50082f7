//! The text of a delegation. A user's key signs nothing else that begins with its title.

use super::super::{IdentityError, fingerprint, from_hex, to_hex};
use super::{Delegation, Scope, wrong};
use rustls::pki_types::CertificateDer;

/// The first words. A key signs handshakes as well, whose signed text begins with 64 spaces, and requests, which are DER.
pub(super) const TITLE: &str = "phalanx delegation of ";
const SIGNATURE: &str = "signature ";

impl Delegation {
    /// Parses a text. Returns the signed part and the signature too, which the caller checks.
    pub(super) fn parse<'a>(
        text: &'a str,
        authority: &CertificateDer<'_>,
    ) -> Result<(Delegation, &'a str, Vec<u8>), IdentityError> {
        let whole = || wrong("it is none, or not whole");
        let end = text.rfind(SIGNATURE).ok_or_else(whole)?;
        let (signed, signature) = (&text[..end], &text[end + SIGNATURE.len()..]);
        let signature = signature.strip_suffix('\n').and_then(from_hex).ok_or_else(whole)?;
        let delegation = Delegation::read(signed).ok_or_else(whole)?;
        // There is one way only to write a delegation.
        match delegation.to_sign(authority) == signed {
            true => Ok((delegation, signed, signature)),
            false => Err(wrong("it is another grid's, or not written as one")),
        }
    }

    /// The end of the delegation with this text, which is not checked, in seconds since 1970.
    pub fn end_of(text: &str) -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix("until ")?.parse().ok())
    }

    fn read(signed: &str) -> Option<Delegation> {
        let mut lines = signed.lines();
        lines.next()?.strip_prefix(TITLE)?;
        let mut next = |word: &str| lines.next()?.strip_prefix(word)?.strip_prefix(' ').map(str::to_owned);
        let (user, executor, holder) = (next("user")?, next("executor")?, next("holder")?);
        let program = from_hex(&next("program")?)?.try_into().ok()?;
        let until = next("until")?.parse().ok()?;
        let mut scope = Scope::default();
        for line in lines {
            scope.read(line)?;
        }
        Some(Delegation { holder, user, executor, program, until, scope })
    }

    /// The text that the user signs.
    fn to_sign(&self, authority: &CertificateDer<'_>) -> String {
        let Delegation { holder, user, executor, program, until, scope } = self;
        let (grid, program) = (fingerprint(authority), to_hex(program));
        format!(
            "{TITLE}{grid}\nuser {user}\nexecutor {executor}\nholder {holder}\nprogram {program}\nuntil {until}\n{scope}"
        )
    }

    /// The text of the delegation, signed by `sign`.
    pub(in crate::identity) fn signed<E>(
        &self,
        authority: &CertificateDer<'_>,
        sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<String, E> {
        let text = self.to_sign(authority);
        let signature = to_hex(&sign(text.as_bytes())?);
        Ok(format!("{text}{SIGNATURE}{signature}\n"))
    }
}
