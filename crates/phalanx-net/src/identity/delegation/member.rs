//! A member that delegates, and a process that acts for one.

use super::super::{IdentityError, KeyedCertificate, Member, Role, fingerprint, role_and_name};
use super::lasting::Newest;
use super::{Acting, Delegation, Scope, check_nameless, wrong};
use rustls::pki_types::{CertificateDer, UnixTime};
use std::sync::Arc;
use std::time::Duration;

/// What makes a process act for a user: the user's word, and the certificates and the text that show it.
#[derive(Debug, Clone)]
pub(in crate::identity) struct Acts {
    pub acting: Acting,
    pub shown: [CertificateDer<'static>; 3],
    /// `None`: there is never a newer delegation.
    pub newest: Option<Newest>,
}

impl Member {
    /// The user, as the process with the certificate and key `own` acts for the user by a delegation. `user`, `executor`,
    /// `authority` and `issuers` are certificates in DER. The issuers are those that the executor knows.
    ///
    /// # Errors
    /// The delegation does not hold, or has ended.
    pub fn delegated(
        own: KeyedCertificate,
        [user, executor, authority]: [&[u8]; 3],
        issuers: &[Vec<u8>],
        delegation: &str,
    ) -> Result<Member, IdentityError> {
        let der = |bytes: &[u8]| CertificateDer::from(bytes.to_vec());
        let shown = [der(user), der(executor), der(delegation.as_bytes())];
        let whole = [std::slice::from_ref(&own.certificate), &shown[..]].concat();
        let member = Member::of(own, Vec::new(), der(authority), String::new())?;
        let issuers: Vec<_> = issuers.iter().map(|issuer| der(issuer)).collect();
        [&shown[0], &shown[1]].into_iter().for_each(|it| member.verifier.members().learn(it, &issuers));
        let acting = member.acting(&whole)?.ok_or_else(|| wrong("it is none"))?;
        Ok(Member { name: acting.user.clone(), acts: Some(Acts { acting, shown, newest: None }), ..member })
    }

    /// The same, for a process that acts for a user: `newest` returns the user as the process acts by its newest delegation. Links
    /// that are open for longer than this delegation are prolonged with it.
    pub fn prolonged_by(self, newest: impl Fn() -> Option<Member> + Send + Sync + 'static) -> Member {
        let newest = Some(Newest(Arc::new(newest)));
        Member { acts: self.acts.map(|acts| Acts { newest, ..acts }), ..self }
    }

    /// Delegates to the process with the certificate `holder`, which runs at the member with the certificate `executor`.
    /// Both are DER. Returns the text of the delegation.
    ///
    /// # Errors
    /// This member is no user, or is itself a process that acts for one; or the process's certificate names somebody.
    pub fn delegate(
        &self,
        [holder, executor]: [&[u8]; 2],
        scope: &Scope,
        program: [u8; 16],
        lasts: Duration,
    ) -> Result<String, IdentityError> {
        if self.acts.is_some() || role_and_name(&self.own.certificate)?.0 != Role::User.name() {
            return Err(wrong("only a user delegates, with the user's own key"));
        }
        let [holder, executor] = [holder, executor].map(CertificateDer::from);
        check_nameless(&holder)?;
        let until = UnixTime::now().as_secs() + lasts.as_secs();
        let [holder, executor] = [fingerprint(&holder), fingerprint(&executor)];
        let (user, scope) = (fingerprint(&self.own.certificate), scope.clone());
        let delegation = Delegation { holder, user, executor, program, until, scope };
        delegation.signed(&self.authority, |text| self.own.sign(text))
    }

    /// Who has shown these certificates in a handshake: the user and the executor of a process that acts for a user. `None`: a
    /// member itself, whose [`role_and_name`] is in the first certificate.
    ///
    /// # Errors
    /// The delegation does not hold, or has ended.
    pub fn acting(&self, shown: &[CertificateDer<'_>]) -> Result<Option<Acting>, IdentityError> {
        self.verifier.acting(shown, UnixTime::now())
    }

    /// Whether this is a process that acts for a user, and what it was given.
    pub fn acts(&self) -> Option<&Acting> {
        self.acts.as_ref().map(|acts| &acts.acting)
    }
}
