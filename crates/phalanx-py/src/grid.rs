//! A grid's certificates, as the texts of files, and the members that are expected.

use crate::errors::{identity, raise};
use phalanx_core::wire::Given;
use phalanx_net::dial::finish;
use phalanx_net::identity::{
    Authority, IdentityError, Issued, Member, Revoked, Role, Service, fingerprint, first_certificate, request,
    role_and_name,
};
use phalanx_net::news::take_unwritten;
use phalanx_net::replace::LockedFolder as Folder;
use phalanx_node::delegated;
use phalanx_node::dialler::Dialler as NodeDialler;
use phalanx_node::given;
use phalanx_node::known_members::{KnownError, KnownMember, KnownMembers};
use phalanx_node::recruit::LASTS;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Makes the authority file of a new grid. With a passphrase its key is locked.
#[pyfunction]
#[pyo3(signature = (passphrase = None))]
pub fn create_grid<'py>(py: Python<'py>, passphrase: Option<&str>) -> PyResult<Bound<'py, PyString>> {
    let pem = Authority::create().and_then(|authority| authority.to_pem(passphrase)).map_err(identity)?;
    Ok(PyString::new(py, &pem))
}

/// Whether the text of an authority file needs a passphrase.
#[pyfunction]
pub fn is_locked_grid(authority: &str) -> bool {
    Authority::is_locked(authority)
}

/// The text of an authority file under another passphrase, or none.
#[pyfunction]
#[pyo3(signature = (authority, file, passphrase, new))]
pub fn lock_grid<'py>(
    py: Python<'py>,
    authority: &str,
    file: &str,
    passphrase: Option<&str>,
    new: Option<&str>,
) -> PyResult<Bound<'py, PyString>> {
    let pem = to_authority(authority, file, passphrase)?.to_pem(new).map_err(identity)?;
    Ok(PyString::new(py, &pem))
}

/// Makes the identity file of a new member from the text of the authority file. `file` names that file in errors. Its certificate is
/// good for so many days, or for ever.
#[pyfunction]
#[pyo3(signature = (authority, role, name, file = "authority.pem", passphrase = None, days = None))]
pub fn issue_member<'py>(
    py: Python<'py>,
    authority: &str,
    role: &str,
    name: &str,
    file: &str,
    passphrase: Option<&str>,
    days: Option<f64>,
) -> PyResult<Bound<'py, PyString>> {
    let role = match to_role(role)? {
        Role::Hub => return Err(raise("IdentityError", "phalanx up makes a hub, and no other command does")),
        role => role,
    };
    let pem = to_authority(authority, file, passphrase)?.issue_for(role, name, lasts(days)?).map_err(identity)?;
    Ok(PyString::new(py, &pem))
}

fn lasts(days: Option<f64>) -> PyResult<Option<Duration>> {
    let lasts = |days: f64| Duration::try_from_secs_f64(days * 24.0 * 3600.0);
    days.map(lasts).transpose().map_err(|error| raise("IdentityError", format!("these are no days: {error}")))
}

fn to_role(role: &str) -> PyResult<Role> {
    role.parse().map_err(|error: String| raise("IdentityError", error))
}

fn to_authority(text: &str, file: &str, passphrase: Option<&str>) -> PyResult<Authority> {
    Authority::parse(text, passphrase).map_err(|error| raise("IdentityError", format!("{file}: {error}")))
}

/// Makes a private key and a request for its certificate, both as PEM.
#[pyfunction]
pub fn request_member<'py>(py: Python<'py>, role: &str, name: &str) -> PyResult<(Bound<'py, PyString>, String)> {
    let (key, request) = request(to_role(role)?, name).map_err(identity)?;
    Ok((PyString::new(py, &key), request))
}

/// Signs a request with the text of the authority file. Returns the member's role and name, and its certificates. `file` names the
/// authority file in errors.
#[pyfunction]
#[pyo3(signature = (authority, request, file, passphrase, days = None))]
pub fn sign_member(
    authority: &str,
    request: &str,
    file: &str,
    passphrase: Option<&str>,
    days: Option<f64>,
) -> PyResult<(&'static str, String, String)> {
    let authority = to_authority(authority, file, passphrase)?;
    let (role, name, certificates) = authority.sign(request, lasts(days)?).map_err(identity)?;
    Ok((role.name(), name, certificates))
}

/// Signs the list of revoked certificates, which are given by date, role, name and fingerprint. It follows the `earlier` lists.
#[pyfunction]
pub fn revoke_members(
    authority: &str,
    file: &str,
    passphrase: Option<&str>,
    earlier: Vec<String>,
    revoked: Vec<(String, String, String, String)>,
) -> PyResult<String> {
    let entry = |(when, role, name, fingerprint): (String, String, String, String)| {
        Ok(Revoked { when, role: to_role(&role)?, name, fingerprint, until: None })
    };
    let revoked = revoked.into_iter().map(entry).collect::<PyResult<_>>()?;
    let earlier: Vec<_> = earlier.iter().map(String::as_str).collect();
    to_authority(authority, file, passphrase)?.revoke_after(&earlier, revoked).map_err(identity)
}

/// The role, the name and the fingerprint (SHA-256) of the first certificate in a text.
#[pyfunction]
pub fn certificate_of(text: &str) -> PyResult<(String, String, String)> {
    let certificate = first_certificate(text).map_err(identity)?;
    let (role, name) = role_and_name(&certificate).map_err(identity)?;
    Ok((role, name, fingerprint(&certificate)))
}

/// A certificate that an authority has issued, for Python: the role, the name, the fingerprint, the digest of the public key, the end as
/// a number and as text, whether that is near, and whether it has passed.
type IssuedRow = (&'static str, String, String, String, u64, String, bool, bool);

/// The certificates in a text, which is PEM. `authority` is the text of the authority's file.
#[pyfunction]
pub fn issued_certificates(text: &str, authority: &str) -> PyResult<Vec<IssuedRow>> {
    let row = |it: Issued| {
        let (fingerprint, key, validity) = (fingerprint(&it.certificate), it.key()?, it.validity);
        let (end, is_near, is_over) = (validity.end(), validity.is_near_end(), validity.is_over());
        Ok((it.role.name(), it.name, fingerprint, key, validity.until, end, is_near, is_over))
    };
    let issued = Issued::all(text, authority).map_err(identity)?;
    issued.into_iter().map(row).collect::<Result<_, _>>().map_err(identity)
}

/// Signs the keys of those certificates in a text again that have these fingerprints. They are good for so many days, or each for as
/// long as the one before. Returns the new certificates as PEM, in the order of the text.
#[pyfunction]
#[pyo3(signature = (authority, file, passphrase, issued, fingerprints, days = None))]
pub fn renew_members(
    authority: &str,
    file: &str,
    passphrase: Option<&str>,
    issued: &str,
    fingerprints: HashSet<String>,
    days: Option<f64>,
) -> PyResult<Vec<String>> {
    let (key, lasts) = (to_authority(authority, file, passphrase)?, lasts(days)?);
    let issued = Issued::all(issued, authority).map_err(identity)?;
    let wanted = issued.iter().filter(|it| fingerprints.contains(&fingerprint(&it.certificate)));
    wanted.map(|it| key.renew(it, lasts).map(|new| new.to_pem())).collect::<Result<_, _>>().map_err(identity)
}

/// The text of an identity file with the newest certificate of the same member that is in the files `renewed`. If there is one, the
/// identity file gets it too.
#[pyfunction]
pub fn renew_identity<'py>(
    py: Python<'py>,
    text: &str,
    file: PathBuf,
    renewed: Vec<PathBuf>,
) -> PyResult<Bound<'py, PyString>> {
    let renew = |role| Member::renew(text, role, file.clone(), renewed.clone());
    let text = match renew(Role::User) {
        Err(IdentityError::Role { .. }) => renew(Role::Executor),
        renewed => renewed,
    };
    let text = text.map_err(|error| raise("IdentityError", format!("{}: {error}", file.display())))?;
    Ok(PyString::new(py, &text))
}

/// How long a command waits for others that write in the folder of a grid. Each may have to unlock the authority's key.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time between two checks for Ctrl-C during that wait.
const PAUSE: Duration = Duration::from_millis(100);

/// A folder in which no other process replaces files, within a `with` statement. So what is read there stays true until it is
/// replaced.
#[pyclass(module = "phalanx._native")]
pub struct LockedFolder {
    folder: PathBuf,
    locked: Option<Folder>,
}

#[pymethods]
impl LockedFolder {
    #[new]
    fn new(folder: PathBuf) -> LockedFolder {
        LockedFolder { folder, locked: None }
    }

    fn __enter__(mut this: PyRefMut<'_, Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        let (folder, until) = (this.folder.clone(), Instant::now() + PATIENCE);
        let locked = loop {
            match py.detach(|| Folder::wait_for(&folder, PAUSE)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => py.check_signals()?,
                locked => break locked.map_err(|error| unwritten(&folder, error))?,
            }
        };
        this.locked = Some(locked);
        Ok(this.into())
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&mut self, _args: &Bound<'_, PyTuple>) {
        self.locked = None;
    }

    /// Replaces a file of the folder in one step. It keeps its mode.
    fn replace(&self, file: PathBuf, text: &str) -> PyResult<()> {
        let locked = self.locked.as_ref().ok_or_else(|| unwritten(&file, "its folder is not locked"))?;
        locked.replace(&file, text.as_bytes()).map_err(|error| unwritten(&file, error))
    }
}

fn unwritten(file: &Path, why: impl Display) -> PyErr {
    raise("IdentityError", format!("{} cannot be written: {why}", file.display()))
}

/// Waits until this process has exchanged all news of the grid, at most for so many seconds. Returns a sentence for each kind of news
/// that could not be written.
#[pyfunction]
#[pyo3(signature = (seconds, /))]
pub fn finish_news(py: Python<'_>, seconds: f64) -> Vec<String> {
    py.detach(|| finish(Duration::try_from_secs_f64(seconds).unwrap_or_default()));
    take_unwritten()
}

/// The role and name in the text of an identity file, and when its certificate ends, if that is near. An error if no member of
/// either role could use it. `file` names it in errors.
#[pyfunction]
pub fn check_member(text: &str, file: &str) -> PyResult<(&'static str, String, Option<String>)> {
    let checked = to_member(text).and_then(|(role, member)| Ok((role, member.validity()?, member.name)));
    let (role, validity, name) = checked.map_err(|error| raise("IdentityError", format!("{file}: {error}")))?;
    Ok((role.name(), name, validity.is_near_end().then(|| validity.end())))
}

/// The user's identity, and whom it expects, as Python passes it: the text of the identity file (`None`: what the user has
/// delegated to this process), the names in the certificates
/// of the members by address, the file of the members that answered first at other addresses, the files with lists of revoked
/// certificates, the addresses of the grid's machines by name, and the identity file.
#[derive(FromPyObject)]
pub struct Dialler(
    Option<String>,
    HashMap<String, String>,
    Option<PathBuf>,
    Vec<PathBuf>,
    BTreeMap<String, String>,
    Option<PathBuf>,
);

/// Name of the files with renewed certificates. Each lies beside one with a list of revoked ones.
const RENEWED: &str = "renewed.pem";

/// The member with this identity file, which heeds these lists of revoked certificates, and looks for its newest certificate.
pub fn at_files(member: Member, file: Option<PathBuf>, revoked: Vec<PathBuf>) -> PyResult<Member> {
    let renewed = revoked.iter().map(|list| list.with_file_name(RENEWED)).collect();
    let member = member.heeding(revoked);
    match member.acts() {
        Some(_) => Ok(member), // its user's program does that
        None => member.renewing(file, renewed).map_err(identity),
    }
}

impl Dialler {
    /// The caller, who has this role.
    pub fn read(self, role: Role) -> PyResult<NodeDialler> {
        let text = self.0.as_deref().ok_or_else(|| raise("IdentityError", "this needs the user's own key"))?;
        let member = Member::parse(text, role).map_err(identity)?;
        self.with(member)
    }

    /// The caller for a service that can be delegated: the user, or a process that acts for the user.
    pub fn read_for(self, service: Service) -> PyResult<NodeDialler> {
        if self.0.is_some() {
            return self.read(Role::User);
        }
        let member = delegated::member(service).map_err(identity)?;
        self.with(member.ok_or_else(|| nothing_delegated(service))?)
    }

    /// The caller of a space, who may have any role or act for a user.
    pub fn read_any(self) -> PyResult<NodeDialler> {
        let member = match &self.0 {
            Some(text) => to_member(text).map(|(_, member)| Some(member)),
            None => delegated::member(Service::Spaces),
        };
        let member = member.map_err(identity)?;
        self.with(member.ok_or_else(|| nothing_delegated(Service::Spaces))?)
    }

    /// The caller, who has any role and acts for nobody.
    pub fn read_member(self) -> PyResult<NodeDialler> {
        let text = self.0.as_deref().ok_or_else(|| raise("IdentityError", "this needs the user's own key"))?;
        let (_, member) = to_member(text).map_err(identity)?;
        self.with(member)
    }

    fn with(self, member: Member) -> PyResult<NodeDialler> {
        let Dialler(_, certificates, known, revoked, machines, file) = self;
        Ok(NodeDialler::new(at_files(member, file, revoked)?, certificates, known).naming(machines))
    }
}

/// The error of a process that was to act for a user.
fn nothing_delegated(service: Service) -> PyErr {
    let machine = delegated::machine().unwrap_or_else(|| "an executor".to_owned());
    raise("IdentityError", delegated::advice(&machine, service))
}

/// The name of the machine at whose executor this process runs for a user. None: it is the user's own process.
#[pyfunction]
pub fn acts_at() -> Option<String> {
    delegated::machine()
}

/// What a user does to delegate what the word says (`spaces`, `copies` or `all`) to processes as this one.
#[pyfunction]
#[pyo3(signature = (word, /))]
pub fn how_to_delegate(word: &str) -> String {
    delegated::how(word)
}

/// The machines that the user's program has named to this process: addresses by name, and the names in
/// certificates by address.
#[pyfunction]
pub fn machines_given() -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let Given { machines, certificates, .. } = delegated::given();
    (machines, certificates)
}

/// The mark in a pickle that stands for the spaces with these names, as `ws7/jobs`.
#[pyfunction]
#[pyo3(signature = (spaces, /))]
pub fn mark_given(spaces: BTreeSet<String>) -> String {
    given::mark_of(spaces)
}

/// Whether the user has delegated the service to this process. An error if the delegation has ended.
#[pyfunction]
#[pyo3(signature = (service, /))]
pub fn acts_for(service: &str) -> PyResult<bool> {
    let service = service.parse().map_err(|error: String| raise("IdentityError", error))?;
    delegated::member(service).map(|member| member.is_some()).map_err(identity)
}

/// The seconds for which a delegation is good. It is renewed after a third of them.
#[pyfunction]
pub fn delegation_lasts() -> u64 {
    LASTS.as_secs()
}

/// The members in a file of known members, as name, fingerprint of the grid, and address.
#[pyfunction]
pub fn known_members(file: PathBuf) -> PyResult<Vec<(String, String, String)>> {
    KnownMembers::at(file).list().map(to_rows).map_err(unknown)
}

/// Forgets the members at an address. Returns them.
#[pyfunction]
pub fn forget_member(file: PathBuf, address: &str) -> PyResult<Vec<(String, String, String)>> {
    KnownMembers::at(file).forget(address).map(to_rows).map_err(unknown)
}

fn to_rows(members: Vec<KnownMember>) -> Vec<(String, String, String)> {
    members.into_iter().map(|KnownMember { name, grid, address }| (name, grid, address)).collect()
}

fn unknown(error: KnownError) -> PyErr {
    raise("IdentityError", error)
}

/// Reads an identity file: that of a user, or of another member of the grid.
pub fn to_member(text: &str) -> Result<(Role, Member), IdentityError> {
    match Member::parse(text, Role::User) {
        Err(IdentityError::Role { is, .. }) => {
            let role: Role = is.parse().map_err(IdentityError::Damaged)?;
            Member::parse(text, role).map(|member| (role, member))
        }
        parsed => parsed.map(|member| (Role::User, member)),
    }
}
