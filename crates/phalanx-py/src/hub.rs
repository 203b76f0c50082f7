//! Hubs, and members at their hub.

use crate::errors::{identity, raise};
use crate::grid::{Dialler, at_files};
use phalanx_core::hub::Token;
use phalanx_core::level::Level;
use phalanx_core::wire::hub::{
    DayRow, Facts, GuestRow, LoanRow, LoanTerms, RelayedRow, Row, Running, Status, StatusRow, UsedBy,
};
use phalanx_net::identity::{Authority, Member, Role, first_certificate, role_and_name, to_hex};
use phalanx_node::hub as node;
use phalanx_node::log::{Log, Severity};
use phalanx_node::membership::{
    self, AskError, AtHub, Joined, NewHub, Paths, come_back, from_json, join, join_as_hub, open_again, to_json, why,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::collections::HashMap;
#[cfg(unix)]
use std::fs::File;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The exception for what this process's own hub does not do.
fn refused(error: node::HubError) -> PyErr {
    match error {
        node::HubError::Job(_) => raise("ContractError", error),
        node::HubError::Elsewhere | node::HubError::Full(_) | node::HubError::Store(_) => raise("RecruitError", error),
        _ => raise("IdentityError", error),
    }
}

/// The exception for a request that has failed.
pub fn asked(error: AskError) -> PyErr {
    match error {
        AskError::Unreachable(_) | AskError::Ended(_) | AskError::Elsewhere(_) => raise("RecruitError", error),
        AskError::Refused(_) | AskError::NoMember(_) | AskError::Identity(_) => raise("IdentityError", error),
    }
}

fn to_token(text: &str) -> PyResult<Token> {
    text.parse().map_err(|error| raise("IdentityError", error))
}

/// Makes what a new hub needs, of the text of the authority file of the grid's root: the text of the issuer's file, and the hub's
/// identity file. `file` names the authority file in errors.
#[pyfunction]
#[pyo3(signature = (authority, file, passphrase, hub))]
pub fn found_grid<'py>(
    py: Python<'py>,
    authority: &str,
    file: &str,
    passphrase: Option<&str>,
    hub: &str,
) -> PyResult<(Bound<'py, PyString>, Bound<'py, PyString>)> {
    let named = |error| raise("IdentityError", format!("{file}: {error}"));
    let root = Authority::parse(authority, passphrase).map_err(named)?;
    let founded = node::Founded::by(&root, hub).map_err(identity)?;
    Ok((PyString::new(py, &founded.issuer), PyString::new(py, &founded.hub)))
}

/// Makes the identity file of a member of the hub's own machine, with the text of the issuer's file. Its certificate is good for so
/// many hours.
#[pyfunction]
pub fn found_member<'py>(
    py: Python<'py>,
    issuer: &str,
    role: &str,
    name: &str,
    hours: f64,
) -> PyResult<Bound<'py, PyString>> {
    let role: Role = role.parse().map_err(|error: String| raise("IdentityError", error))?;
    let lasts =
        Duration::try_from_secs_f64(hours * 3600.0).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let issuer = Authority::parse(issuer, None).map_err(identity)?;
    Ok(PyString::new(py, &issuer.issue_for(role, name, Some(lasts)).map_err(identity)?))
}

/// A hub. It serves once an executor or a [`HubServer`] has it.
#[pyclass(frozen)]
pub struct Hub(pub Arc<node::Hub>);

#[pymethods]
impl Hub {
    /// Opens the hub in the folder of a grid. `owners` are the names of users who may invite and expel. Others reach it at these
    /// `addresses`.
    #[new]
    #[pyo3(signature = (folder, *, grid, owners, addresses, least_cage = None, log_level = "info"))]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        grid: &str,
        owners: Vec<String>,
        addresses: Vec<String>,
        least_cage: Option<&str>,
        log_level: &str,
    ) -> PyResult<Hub> {
        let least_cage = least_cage.map(str::parse).transpose().map_err(PyValueError::new_err::<String>)?;
        let least: Severity = log_level.parse().map_err(PyValueError::new_err::<String>)?;
        let open = || {
            let settings = node::Place::new(&folder).settings(grid, &owners, addresses)?;
            node::Hub::open(node::Settings { least_cage, ..settings }, Log::to_standard_error(least))
        };
        let named = |error| raise("IdentityError", format!("the hub in {} does not open: {error}", folder.display()));
        py.detach(open).map(Hub).map_err(named)
    }

    /// An invitation, as the token that is typed, for so many members in this role and so many seconds.
    fn invite(&self, py: Python<'_>, by: &str, role: &str, uses: u32, seconds: u64) -> PyResult<String> {
        let token = py.detach(|| self.0.invite(by, role, uses, seconds));
        token.map(|token| token.to_string()).map_err(|error| raise("IdentityError", error))
    }

    /// The user of a bearer token.
    fn bearer(&self, py: Python<'_>, token: &str) -> PyResult<String> {
        py.detach(|| self.0.bearer(token)).map_err(|error| raise("IdentityError", error))
    }

    /// Answers a request of a user about jobs: a message of `ToHubJobs` as JSON. Returns one of `FromHubJobs`.
    fn ask_for(&self, py: Python<'_>, user: &str, request: &str) -> PyResult<String> {
        let request = from_json(request).map_err(PyValueError::new_err)?;
        let answer = py.detach(|| self.0.ask_for(user, request)).map_err(refused)?;
        Ok(to_json(&answer))
    }

    /// Keeps bytes as a content of a user. Returns the content as JSON.
    fn keep_bytes(&self, py: Python<'_>, user: &str, bytes: &[u8]) -> PyResult<String> {
        Ok(to_json(&py.detach(|| self.0.keep_bytes(user, bytes))?))
    }

    /// Keeps the file of a descriptor as a content of a user. Returns the content as JSON.
    #[cfg(unix)]
    fn keep_file(&self, py: Python<'_>, user: &str, descriptor: i32) -> PyResult<String> {
        // SAFETY: Python keeps the descriptor open during the call.
        let file = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned()?;
        Ok(to_json(&py.detach(|| self.0.keep_file(user, &File::from(file)))?))
    }

    /// Reads a content of a user, which is JSON: so many bytes at most, from this one on.
    fn read_for<'py>(
        &self,
        py: Python<'py>,
        user: &str,
        content: &str,
        start: u64,
        most: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let content = from_json(content).map_err(PyValueError::new_err)?;
        let bytes = py.detach(|| self.0.read_for(user, &content, start, most))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The certificates and the key with which it speaks HTTPS under these names for so many days, as PEM.
    fn serving<'py>(&self, py: Python<'py>, names: Vec<String>, days: u32) -> PyResult<Bound<'py, PyString>> {
        let lasts = Duration::from_secs(u64::from(days) * 24 * 3600);
        let pem = self.0.serving(&names, lasts).map_err(|error| raise("IdentityError", error))?;
        Ok(PyString::new(py, &pem))
    }

    /// Whether the hub has ended because it could not store a change.
    #[getter]
    fn has_failed(&self) -> bool {
        self.0.has_failed()
    }

    /// Why the hub is no member of its grid any more. None: it is one, as far as it knows.
    #[getter]
    fn expelled(&self) -> Option<String> {
        self.0.expelled()
    }

    /// Ends all links of members.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

/// A hub that is no executor.
#[pyclass(frozen)]
pub struct HubServer(node::HubServer);

#[pymethods]
impl HubServer {
    /// Listens at `address`.
    #[new]
    #[pyo3(signature = (address, hub, log_level = "info"))]
    fn new(address: &str, hub: &Hub, log_level: &str) -> PyResult<HubServer> {
        let least: Severity = log_level.parse().map_err(PyValueError::new_err::<String>)?;
        let server = node::HubServer::start(address, hub.0.clone(), Log::to_standard_error(least));
        server.map(HubServer).map_err(|error| raise("RecruitError", format!("cannot listen at {address}: {error}")))
    }

    /// Where it listens, as `host:port`.
    #[getter]
    fn address(&self) -> String {
        self.0.address().to_string()
    }

    /// Stops serving.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

/// The hubs of an executor, its addresses, and what it tells them about its machine, as Python passes it.
pub type AtGrid = (Vec<String>, Vec<String>, Facts);

/// What the token says: the grid, the role, where its hubs are, and the digest of the root's certificate.
#[pyfunction]
#[pyo3(signature = (token, /))]
pub fn token_parts(token: &str) -> PyResult<(String, String, Vec<String>, String)> {
    let Token { grid, role, hubs, root, .. } = to_token(token)?;
    Ok((grid, role, hubs, to_hex(&root)))
}

/// A new member, for Python.
type JoinedRow<'py> = (Bound<'py, PyString>, String, Vec<String>, String, String);

/// Joins a grid under this name. Returns the text of the identity file, the name of the grid, where its hubs are, the digest of the
/// root's certificate, and the role.
#[pyfunction]
#[pyo3(signature = (token, name))]
pub fn join_grid<'py>(py: Python<'py>, token: &str, name: &str) -> PyResult<JoinedRow<'py>> {
    let token = to_token(token)?;
    let joined = py.detach(|| join(&token, name)).map_err(asked)?;
    Ok(joined_row(py, joined, token))
}

/// Makes the user with this identity file an owner of the grid, by a token for that. Returns what [`join_grid`] returns.
#[pyfunction]
#[pyo3(signature = (token, identity))]
pub fn become_owner<'py>(py: Python<'py>, token: &str, identity: &str) -> PyResult<JoinedRow<'py>> {
    let token = to_token(token)?;
    let joined = py.detach(|| membership::become_owner(&token, identity)).map_err(asked)?;
    Ok(joined_row(py, joined, token))
}

fn joined_row(py: Python<'_>, Joined { identity, grid, hubs }: Joined, token: Token) -> JoinedRow<'_> {
    (PyString::new(py, &identity), grid, hubs, to_hex(&token.root), token.role)
}

/// A new hub, for Python.
type HubFiles<'py> = (Bound<'py, PyString>, Bound<'py, PyString>, String, Vec<String>, String);

/// Joins the grid of this token as a further hub of this name. Returns the text of its issuer's file, its identity file, the name of the
/// grid, where the other hubs are, and the digest of the root's certificate.
#[pyfunction]
#[pyo3(signature = (token, name))]
pub fn join_hub<'py>(py: Python<'py>, token: &str, name: &str) -> PyResult<HubFiles<'py>> {
    let token = to_token(token)?;
    let NewHub { issuer, hub, grid, hubs } = py.detach(|| join_as_hub(&token, name, node::LASTS)).map_err(asked)?;
    Ok((PyString::new(py, &issuer), PyString::new(py, &hub), grid, hubs, to_hex(&token.root)))
}

/// A member, for Python: the name, the role, the address, whether it is here, since when, when its certificate ends, and facts.
type MemberRow = (String, String, Option<String>, bool, u64, u64, Facts);

fn row(row: Row) -> MemberRow {
    let Row { role, name, addresses, is_here, since, until, facts } = row;
    (name, role, addresses.into_iter().next(), is_here, since, until, facts)
}

/// Asks a hub as a user.
fn at_hub<T: Send>(
    py: Python<'_>,
    dialler: Dialler,
    hubs: &[String],
    ask: impl FnOnce(&mut AtHub) -> Result<T, AskError> + Send,
) -> PyResult<T> {
    let dialler = dialler.read_member()?;
    let member = dialler.member();
    let done = py.detach(|| match open_again(member, hubs).and_then(|mut at_hub| ask(&mut at_hub)) {
        Err(AskError::Ended(error)) => Err(why(member, hubs).unwrap_or(AskError::Ended(error))),
        done => done,
    });
    done.map_err(asked)
}

/// The members of a grid. The facts of executors that run tell which of these programs they find.
#[pyfunction]
#[pyo3(signature = (dialler, hubs, programs = Vec::new()))]
pub fn hub_members(
    py: Python<'_>,
    dialler: Dialler,
    hubs: Vec<String>,
    programs: Vec<String>,
) -> PyResult<Vec<MemberRow>> {
    let rows = at_hub(py, dialler, &hubs, |hub| hub.seek_and_wait(&programs))?;
    Ok(rows.into_iter().map(row).collect())
}

/// What an executor runs of one kind, for Python: the user, what it is, the level of the links, whether they are relayed, how many there
/// are, and bytes a second.
type RunningRow = (String, &'static str, Option<&'static str>, bool, u32, u64);
/// What an executor has told, for Python: its places, those in use, what it runs, how many kinds were left out, losses, and why it is
/// closed.
pub type ToldRow = (u32, u32, Vec<RunningRow>, u32, u64, String, String);
/// An executor, for Python: its name, whether it is here, since when, and what it has told.
type ExecutorRow = (String, bool, u64, Option<ToldRow>);
/// A relayed link, for Python: the role and name of both ends, bytes, and seconds.
type RelayRow = ((String, String), (String, String), u64, u64);

fn running(Running { user, what, level, is_relayed, count, rate }: Running) -> RunningRow {
    (user, what.name(), level.map(Level::name), is_relayed, count, rate)
}

/// What an executor has told, for Python.
pub fn told(Status { capacity, used, running: all, more, lost, last_loss, closed }: Status) -> ToldRow {
    (capacity, used, all.into_iter().map(running).collect(), more, lost, last_loss, closed)
}

/// What the executors of a grid run; the links that the hub relays, those with most bytes first; how many it relays; and the bytes
/// that it has relayed.
#[pyfunction]
pub fn hub_status(
    py: Python<'_>,
    dialler: Dialler,
    hubs: Vec<String>,
) -> PyResult<(Vec<ExecutorRow>, Vec<RelayRow>, u32, u64)> {
    let found = at_hub(py, dialler, &hubs, AtHub::statuses)?;
    let executor = |StatusRow { name, is_here, since, status }: StatusRow| (name, is_here, since, status.map(told));
    let relay = |RelayedRow { ends: [one, other], bytes, seconds }: RelayedRow| (one, other, bytes, seconds);
    let executors = found.executors.into_iter().map(executor).collect();
    Ok((executors, found.relayed.into_iter().map(relay).collect(), found.relays, found.bytes))
}

/// What a user has used of an executor, for Python: the user, the kind of work, milliseconds of places and of processors, millijoules, and
/// how many processes were started.
type UsedRow = (String, &'static str, u64, u64, u64, u64);
/// What an executor has worked on a day, for Python: the day, in days since 1970, the executor, the milliseconds of places that it has
/// offered, and what each user has used.
type WorkedRow = (u32, String, u64, Vec<UsedRow>);

/// The work of executors since this day, in days since 1970.
#[pyfunction]
pub fn hub_history(py: Python<'_>, dialler: Dialler, hubs: Vec<String>, since: u32) -> PyResult<Vec<WorkedRow>> {
    let rows = at_hub(py, dialler, &hubs, |hub| hub.history(since))?;
    let used = |UsedBy { user, what, sums }: UsedBy| {
        (user, what.name(), sums.places, sums.processor, sums.energy, sums.started)
    };
    let row = |DayRow { day, executor, offered, uses }: DayRow| {
        (day, executor, offered, uses.into_iter().map(used).collect())
    };
    Ok(rows.into_iter().map(row).collect())
}

/// A bearer token of the user, for so many seconds. No hub is asked.
#[pyfunction]
pub fn user_token(dialler: Dialler, seconds: u64) -> PyResult<String> {
    let token = dialler.read_member()?.member().bearer(Duration::from_secs(seconds));
    token.map_err(|error| raise("IdentityError", error))
}

/// An invitation for so many members in this role, for so many seconds, as the token that is typed.
#[pyfunction]
pub fn hub_invite(
    py: Python<'_>,
    dialler: Dialler,
    hubs: Vec<String>,
    role: String,
    uses: u32,
    seconds: u64,
) -> PyResult<String> {
    at_hub(py, dialler, &hubs, |hub| hub.invite(role, uses, seconds))
}

/// Expels the members of this name. Returns how many certificates were revoked.
#[pyfunction]
pub fn hub_expel(py: Python<'_>, dialler: Dialler, hubs: Vec<String>, name: String) -> PyResult<u32> {
    at_hub(py, dialler, &hubs, |hub| hub.expel(name))
}

/// Lends executors of the grid to the grid of this token. `places`: of each executor. Returns the name of the other grid.
#[pyfunction]
#[pyo3(signature = (dialler, hubs, token, *, members, labels, accepted, places))]
#[expect(clippy::too_many_arguments)]
pub fn hub_lend(
    py: Python<'_>,
    dialler: Dialler,
    hubs: Vec<String>,
    token: String,
    members: u32,
    labels: Vec<String>,
    accepted: Vec<String>,
    places: u32,
) -> PyResult<String> {
    let terms = LoanTerms { token: to_token(&token)?.to_string(), members, labels, accepted, places };
    at_hub(py, dialler, &hubs, |hub| hub.lend(terms))
}

/// Ends the loan to a grid.
#[pyfunction]
pub fn hub_end_loan(py: Python<'_>, dialler: Dialler, hubs: Vec<String>, grid: String) -> PyResult<()> {
    at_hub(py, dialler, &hubs, |hub| hub.end_loan(grid))
}

/// A loan, for Python: the other grid, the owner who lends, since when, how many members, their labels, the accepted users, the places of
/// each, the guests, and why the last executor that was to be one is none.
type LoanTuple = (String, String, u64, u32, Vec<String>, Vec<String>, u32, Vec<GuestTuple>, String);
/// A guest, for Python: its name here and there, whether the other grid knows it, and how it is in words.
type GuestTuple = (String, String, bool, String);

/// The loans of a grid.
#[pyfunction]
pub fn hub_loans(py: Python<'_>, dialler: Dialler, hubs: Vec<String>) -> PyResult<Vec<LoanTuple>> {
    let guest = |GuestRow { name, there, is_in, why }: GuestRow| (name, there, is_in, why);
    let loan = |row: LoanRow| {
        let LoanRow { grid, by, since, terms, guests, refused } = row;
        let LoanTerms { members, labels, accepted, places, .. } = terms;
        let guests = guests.into_iter().map(guest).collect();
        (grid, by, since, members, labels, accepted, places, guests, refused)
    };
    Ok(at_hub(py, dialler, &hubs, AtHub::loans)?.into_iter().map(loan).collect())
}

/// Leaves the grid for good.
#[pyfunction]
pub fn hub_leave(py: Python<'_>, dialler: Dialler, hubs: Vec<String>) -> PyResult<()> {
    let member = dialler.read_member()?;
    let member = member.member();
    let leave = || match AtHub::open(member, &hubs).and_then(|mut hub| hub.leave()) {
        // The link of who has left ends, perhaps before the answer is read.
        Err(AskError::Ended(error)) => match why(member, &hubs) {
            Some(AskError::NoMember(_)) => Ok(()),
            _ => Err(AskError::Ended(error)),
        },
        left => left,
    };
    py.detach(leave).map_err(asked)
}

/// Renews the certificate in an identity file, also after its end. Returns the new text of the file. None: it is good for longer than
/// a third of its life.
#[pyfunction]
pub fn hub_renew<'py>(
    py: Python<'py>,
    identity_text: &str,
    file: PathBuf,
    hubs: Vec<String>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    let role = role_and_name(&first_certificate(identity_text).map_err(identity)?).map_err(identity)?.0;
    let role: Role = role.parse().map_err(|error: String| raise("IdentityError", error))?;
    let member = Member::parse_ended(identity_text, role).map_err(identity)?;
    let revoked = vec![file.with_file_name("revoked.txt")];
    let member = at_files(member, Some(file.clone()), revoked)?;
    let validity = member.validity().map_err(identity)?;
    if !validity.is_near_end() && !validity.is_over() {
        return Ok(None);
    }
    let renew = || match validity.is_over() {
        true => come_back(&member.newest(), &hubs),
        false => AtHub::open(&member, &hubs).and_then(|mut hub| hub.renew()),
    };
    let pem = py.detach(renew).map_err(asked)?;
    if let Some(renewals) = member.renewals() {
        renewals.take(pem.as_bytes());
    }
    let renewed = vec![file.with_file_name("renewed.pem")];
    let text = Member::renew(identity_text, role, file, renewed).map_err(identity)?;
    Ok(Some(PyString::new(py, &text)))
}

/// From now on, this process reaches the members of the grid by name (`ws7.lab.phalanx`), directly or through a hub. `last`: where each
/// was reached last, for when no hub answers.
#[pyfunction]
pub fn guide_to(dialler: Dialler, grid: &str, hubs: Vec<String>, last: HashMap<String, String>) -> PyResult<()> {
    let dialler = dialler.read_member()?;
    Paths::register(grid, dialler.member().clone(), hubs, last);
    Ok(())
}
