//! Certificates that a grid's authority has renewed: signed again for the same key, role and name, with a later end.
//!
//! They are no secrets. A member keeps those of all members in a file beside its identity file, and hands them on. One for its own
//! key replaces the certificate in its identity file, and is shown at the next link. A member also looks whether another process
//! has replaced its identity file or has added to the file of renewed certificates.

use super::delegation::Verifier;
use super::members::MOST_SHOWN;
use super::validity::Validity;
use super::{
    IdentityError, KeyedCertificate, SESSIONS, certificates_in, fingerprint, first_certificate, role_and_name, server,
};
use crate::replace::{Locked, Unwritten, read, stamp};
use crate::sync::lock;
use pem::{EncodeConfig, LineEnding, Pem};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ServerConfig;
use rustls::server::danger::ClientCertVerifier;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};
use zeroize::Zeroizing;

/// Time between two reads of the files for a link that is open. A new link always reads them.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest file that is read, in bytes. It has room for the certificates of all members of a large grid.
const LONGEST_FILE: u64 = 16 << 20;
/// Longest certificate of a member, in bytes. Those of the authority have about 500, and names have at most 63 letters.
const LONGEST: usize = 1024;
/// Most members whose renewed certificates are kept.
pub const MOST_RENEWED: usize = 700;

/// The renewed certificates that a member knows.
#[derive(Debug)]
pub struct Renewals {
    own: KeyedCertificate,
    holder: Holder,
    verifier: Arc<Verifier>,
    identity: Option<PathBuf>,
    files: Vec<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    looked: Option<Instant>,
    /// The time and the length of each file when it was looked at last.
    seen: HashMap<PathBuf, Option<(SystemTime, u64)>>,
    /// The newest certificate of each member.
    kept: BTreeMap<Holder, Renewed>,
    /// The number of changes of `kept` so far.
    changes: u64,
    newest: Option<Newest>,
    /// The newest certificate, which is to be written into the identity file.
    identity: Unwritten,
    /// The kept certificates, which are written to the first file.
    file: Unwritten,
    digest: Option<Digest>,
}

/// A cached digest. A server sends it to every peer that connects, and should not hash all certificates each time.
#[derive(Debug, Clone, Copy)]
struct Digest {
    of: [u8; 16],
    changes: u64,
    when: Instant,
}

/// Whose certificate it is. A certificate is renewed by one for the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Holder {
    role: String,
    name: String,
    key: Vec<u8>,
}

/// A certificate of a member, with what is read from it.
#[derive(Debug, Clone)]
struct Renewed {
    certificate: CertificateDer<'static>,
    fingerprint: String,
    validity: Validity,
}

impl Renewed {
    /// Of two certificates of one holder, all members keep the one with the higher rank.
    fn rank(&self) -> (u64, &str) {
        (self.validity.until, &self.fingerprint)
    }
}

/// The member's own newest certificate, ready for use.
#[derive(Debug, Clone)]
pub(super) struct Newest {
    pub own: KeyedCertificate,
    /// The issuers of the certificate, which are shown beside it.
    pub issuers: Vec<CertificateDer<'static>>,
    pub server: Arc<ServerConfig>,
    validity: Validity,
}

/// The result of taking certificates that another member has sent.
#[derive(Debug, Default)]
pub struct Brought {
    /// From when until when the member's own new certificate is good, if there was one.
    pub own: Option<Validity>,
    /// Why something could not be written to a file. It is used until the process ends all the same.
    pub unwritten: Option<io::Error>,
    /// Why the rest was ignored.
    pub refused: Option<IdentityError>,
    /// The fingerprints of the certificates that were not ignored.
    pub fingerprints: Vec<String>,
}

impl Holder {
    /// The holder of a member's certificate.
    ///
    /// # Errors
    /// The certificate has no role and name.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Holder, IdentityError> {
        let (role, name) = role_and_name(certificate)?;
        let parsed = webpki::EndEntityCert::try_from(certificate);
        let parsed = parsed.map_err(|error| IdentityError::Damaged(error.to_string()))?;
        Ok(Holder { role, name, key: parsed.subject_public_key_info().to_vec() })
    }
}

/// Whether two certificates of members, in DER, are the same or are for the same key, role and name. Both must have been
/// verified, or be named by one who has verified them.
pub fn is_same_member(one: &[u8], other: &[u8]) -> bool {
    let holder = |der: &[u8]| Holder::of(&CertificateDer::from(der.to_vec())).ok();
    one == other || holder(one).is_some_and(|it| Some(it) == holder(other))
}

impl Renewals {
    /// For the member with this certificate and key. `identity`: its identity file. `files`: those with renewed certificates, which
    /// need not exist; new ones are written to the first.
    ///
    /// # Errors
    /// The certificate has no role and name.
    pub(super) fn new(
        own: KeyedCertificate,
        verifier: Arc<Verifier>,
        identity: Option<PathBuf>,
        files: Vec<PathBuf>,
    ) -> Result<Renewals, IdentityError> {
        let holder = Holder::of(&own.certificate)?;
        Ok(Renewals { own, holder, verifier, identity, files, state: Mutex::default() })
    }

    /// The member's newest certificate, if it is another one than the first. Looks at the files.
    pub(super) fn newest(&self) -> Option<Newest> {
        let mut state = lock(&self.state);
        self.look(&mut state);
        let newest = state.newest.clone();
        let _ = self.write(state);
        newest
    }

    /// A digest of all certificates that are kept and have not ended. Members with the same ones have the same digest.
    pub fn digest(&self) -> [u8; 16] {
        let mut state = lock(&self.state);
        let changes = state.changes;
        // Certificates end as time goes on, so it does not count for long.
        if let Some(digest) = state.digest.filter(|it| it.changes == changes && it.when.elapsed() < PAUSE) {
            return digest.of;
        }
        let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
        let good = state.kept.values().filter(|it| !it.validity.is_over());
        good.for_each(|it| digest.update(it.fingerprint.as_bytes()));
        let of = *digest.finish().as_ref().first_chunk().expect("is longer");
        state.digest = Some(Digest { of, changes, when: Instant::now() });
        of
    }

    /// The number of changes so far. Looks at the files if the last look was a while ago.
    pub fn changes(&self) -> u64 {
        let mut state = lock(&self.state);
        if state.looked.is_none_or(|looked| looked.elapsed() >= PAUSE) {
            self.look(&mut state);
        }
        let changes = state.changes;
        let _ = self.write(state);
        changes
    }

    /// The next certificates, as PEM, for a member that knows those with the fingerprints in `known`: no more of them once they have
    /// `most` bytes. Adds them to `known`. Empty: there are no more.
    pub fn piece(&self, known: &mut HashSet<String>, most: usize) -> String {
        let state = lock(&self.state);
        let mut piece = String::new();
        for it in state.kept.values().filter(|it| !it.validity.is_over()) {
            if piece.len() < most && known.insert(it.fingerprint.clone()) {
                piece.push_str(&to_pem(&it.certificate));
            }
        }
        piece
    }

    /// The fingerprints of all certificates that are kept.
    pub fn fingerprints(&self) -> HashSet<String> {
        lock(&self.state).kept.values().map(|it| it.fingerprint.clone()).collect()
    }

    /// Takes certificates, as PEM, that another member has sent. Keeps those that are newer than what was known. After the first one
    /// that is not a renewed certificate of this grid, the rest is ignored.
    pub fn take(&self, pem: &[u8]) -> Brought {
        self.learn(pem);
        let (verified, refused) = self.verified(pem);
        let fingerprints = verified.iter().map(|(_, it)| it.fingerprint.clone()).collect();
        let mut state = lock(&self.state);
        self.look(&mut state);
        let (before, own_before) = (state.changes, state.newest.as_ref().map(|it| it.validity));
        let refused = verified.into_iter().try_for_each(|it| self.keep(&mut state, it)).err().or(refused);
        if state.changes != before {
            state.file.set();
        }
        let own = state.newest.as_ref().map(|it| it.validity).filter(|own| Some(*own) != own_before);
        Brought { own, unwritten: self.write(state).err(), refused, fingerprints }
    }

    /// Learns the issuers behind a certificate that a hub has just made. The hub may have an issuer that this member has not met.
    fn learn(&self, pem: &[u8]) {
        let found: Vec<_> = CertificateDer::pem_slice_iter(pem).take(2 + MOST_SHOWN).map_while(Result::ok).collect();
        if let [first, issuers @ ..] = &found[..] {
            self.verifier.members().learn(first, issuers);
        }
    }

    /// The certificates before the first one that is not a member's, signed by the authority, and what is wrong with that one.
    fn verified(&self, pem: &[u8]) -> (Vec<(Holder, Renewed)>, Option<IdentityError>) {
        let mut verified = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            match certificate.map_err(super::damaged).and_then(|certificate| self.verify(certificate)) {
                Ok(it) => verified.push(it),
                Err(error) => return (verified, Some(error)),
            }
        }
        (verified, None)
    }

    /// Reads a certificate. One that has ended counts as well: it may have been on its way.
    ///
    /// # Errors
    /// The authority has not signed it so, or it is no member's.
    fn verify(&self, certificate: CertificateDer<'static>) -> Result<(Holder, Renewed), IdentityError> {
        let (holder, renewed) = self.read(certificate)?;
        let at_end = UnixTime::since_unix_epoch(Duration::from_secs(renewed.validity.until));
        let now = if renewed.validity.is_over() { at_end } else { UnixTime::now() };
        self.verifier.verify_client_cert(&renewed.certificate, &[], now)?;
        Ok((holder, renewed))
    }

    /// Keeps the certificates in the text of a file. Returns those that are left out, unless a later one is kept of the same member: the
    /// file may be of several grids, or of a grid with very many members.
    fn keep_found(&self, state: &mut State, text: &str) -> Vec<CertificateDer<'static>> {
        let found: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes()).map_while(Result::ok).collect();
        let mut holders = Vec::new();
        for certificate in &found {
            let holder = self.verify(certificate.clone()).ok().map(|(holder, renewed)| {
                let is_over = renewed.validity.is_over();
                (self.keep(state, (holder.clone(), renewed)).is_ok(), is_over, holder)
            });
            holders.push(holder);
        }
        // Only now it is known which of them later ones have displaced.
        let is_other = |holder: &Option<(bool, bool, Holder)>| match holder {
            Some((is_taken, is_over, holder)) => !(*is_over || *is_taken && state.kept.contains_key(holder)),
            None => true,
        };
        found.into_iter().zip(&holders).filter(|(_, holder)| is_other(holder)).map(|(other, _)| other).collect()
    }

    /// Keeps a verified certificate if it is newer than the kept one of the same holder. Beyond [`MOST_RENEWED`], the certificates of the
    /// first holders in their order stay, so that members with the same input keep the same certificates.
    fn keep(&self, state: &mut State, (holder, renewed): (Holder, Renewed)) -> Result<(), IdentityError> {
        let is_older = state.kept.get(&holder).is_some_and(|kept| kept.rank() >= renewed.rank());
        if is_older || renewed.validity.is_over() {
            return Ok(());
        }
        let is_own = holder == self.holder;
        if is_own && self.adopt(state, &renewed)? {
            state.identity.set();
        }
        if state.kept.len() >= MOST_RENEWED && !state.kept.contains_key(&holder) {
            state.kept.retain(|_, kept| !kept.validity.is_over());
        }
        let is_full = state.kept.len() >= MOST_RENEWED && !state.kept.contains_key(&holder);
        let last = state.kept.last_key_value().map(|(last, _)| last);
        if is_full && last.is_some_and(|last| *last < holder) {
            return Ok(());
        }
        if is_full {
            state.kept.pop_last();
        }
        state.kept.insert(holder, renewed);
        state.changes += 1;
        Ok(())
    }

    fn read(&self, certificate: CertificateDer<'static>) -> Result<(Holder, Renewed), IdentityError> {
        if certificate.len() > LONGEST {
            return Err(IdentityError::Damaged("it is too long".to_owned()));
        }
        let validity = Validity::of(&certificate, &*self.verifier)?;
        let holder = Holder::of(&certificate)?;
        Ok((holder, Renewed { fingerprint: fingerprint(&certificate), validity, certificate }))
    }

    /// Uses a verified certificate of the member itself from now on, if it ends later than the one that is used. Whether it does.
    fn adopt(&self, state: &mut State, renewed: &Renewed) -> Result<bool, IdentityError> {
        let used = match &state.newest {
            Some(newest) => newest.validity,
            None => Validity::of(&self.own.certificate, &*self.verifier)?,
        };
        if renewed.validity.until <= used.until {
            return Ok(false);
        }
        let own = KeyedCertificate { certificate: renewed.certificate.clone(), key: self.own.key.clone_key() };
        let issuers = self.verifier.members().path(&own.certificate, &[])?;
        let server = server(self.verifier.clone(), &own, &issuers, SESSIONS)?;
        state.newest = Some(Newest { own, issuers, server, validity: renewed.validity });
        Ok(true)
    }

    /// Reads the files that have changed since the last look, and takes this grid's certificates from them.
    fn look(&self, state: &mut State) {
        state.looked = Some(Instant::now());
        for path in self.identity.iter().chain(&self.files) {
            if !has_changed(state, path) {
                continue;
            }
            let Ok(Some(text)) = read(path, LONGEST_FILE) else { continue };
            if self.identity.as_ref() == Some(path) {
                let _ = self.own_in(&text).ok().flatten().map(|own| self.adopt(state, &own));
            } else {
                self.keep_found(state, &text);
            }
        }
    }

    /// The certificate of this member in the text of an identity file. `None`: the file is another member's.
    fn own_in(&self, text: &str) -> Result<Option<Renewed>, IdentityError> {
        let (certificate, issuers, _) = certificates_in(text)?;
        let (holder, renewed) = self.read(certificate)?;
        self.verifier.verify_client_cert(&renewed.certificate, &issuers, UnixTime::now())?;
        Ok((holder == self.holder).then_some(renewed))
    }

    /// Writes the files that are due. A write that fails is retried later.
    fn write(&self, mut state: MutexGuard<'_, State>) -> io::Result<()> {
        let (identity, file) = (state.identity.begin(), state.file.begin());
        drop(state); // a write may take long, and handshakes need the state
        let wrote_identity = identity.map_or(Ok(()), |patience| self.write_identity(patience));
        let wrote_kept = file.map_or(Ok(()), |patience| self.write_kept(patience));
        let mut state = lock(&self.state);
        if identity.is_some() {
            state.identity.end(wrote_identity.is_ok());
        }
        if file.is_some() {
            state.file.end(wrote_kept.is_ok());
        }
        wrote_identity.and(wrote_kept)
    }

    /// Replaces the certificate in the identity file by the newest one, unless another process has done so.
    fn write_identity(&self, patience: Duration) -> io::Result<()> {
        let newest = lock(&self.state).newest.clone();
        let (Some(path), Some(newest)) = (&self.identity, newest) else { return Ok(()) };
        let locked = Locked::wait_for(path, patience)?;
        let text = read(path, LONGEST_FILE)?.ok_or(ErrorKind::NotFound)?;
        let (holder, found) = first_certificate(&text).and_then(|it| self.read(it)).map_err(io::Error::other)?;
        if holder != self.holder {
            return Err(io::Error::other("the identity file is another member's by now"));
        }
        match found.validity.until >= newest.validity.until {
            true => Ok(()),
            false => locked.replace(with_certificate(&text, &newest.own.certificate, &newest.issuers)?.as_bytes()),
        }
    }

    /// Writes what is kept to the first file, with what other processes have added to it.
    fn write_kept(&self, patience: Duration) -> io::Result<()> {
        let Some(path) = self.files.first() else { return Ok(()) };
        let locked = Locked::wait_for(path, patience)?;
        let found = read(path, LONGEST_FILE)?.unwrap_or_default();
        let mut state = lock(&self.state);
        let others = self.keep_found(&mut state, &found);
        let text: String = state.kept.values().map(|it| &it.certificate).chain(&others).map(to_pem).collect();
        drop(state);
        if text == *found { Ok(()) } else { locked.replace(text.as_bytes()) }
    }
}

/// Whether a file has changed since the last look.
fn has_changed(state: &mut State, path: &Path) -> bool {
    let seen = stamp(path);
    state.seen.insert(path.to_owned(), seen).flatten() != seen
}

/// The text of an identity file with another certificate in place of its first. It keeps the issuers that it has. Those of the new
/// certificate that it lacks are put behind that.
pub(super) fn with_certificate(
    text: &str,
    certificate: &CertificateDer<'_>,
    issuers: &[CertificateDer<'_>],
) -> io::Result<Zeroizing<String>> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let part = text.find(BEGIN).and_then(|begin| Some((begin, begin + text[begin..].find(END)? + END.len())));
    let (begin, end) = part.ok_or_else(|| io::Error::other("the identity file has no whole certificate"))?;
    let has: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes()).map_while(Result::ok).collect();
    let lacks = issuers.iter().filter(|issuer| !has.contains(issuer));
    let new: String = std::iter::once(certificate).chain(lacks).map(to_pem).collect();
    Ok([&text[..begin], new.trim_end(), &text[end..]].concat().into())
}

/// A certificate as PEM, with the end of its last line.
pub(super) fn to_pem(certificate: &CertificateDer<'_>) -> String {
    let whole = Pem::new("CERTIFICATE", certificate.to_vec());
    pem::encode_config(&whole, EncodeConfig::new().set_line_ending(LineEnding::LF))
}

#[cfg(test)]
mod tests;
