//! A server of spaces for `phalanx space serve` and `Space.serve`.

use super::local::LocalSpace;
use super::options::to_options;
use crate::errors::{identity, raise};
use crate::grid::at_files;
use crate::policy::Words;
use phalanx_core::wire::Version;
use phalanx_net::identity::{Member, Role};
use phalanx_node::log::{Log, Severity};
use phalanx_node::space as node;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Serves spaces of this process to other processes.
#[pyclass(frozen)]
pub struct SpaceServer {
    server: node::Server,
    #[pyo3(get)]
    name: Option<String>,
}

/// A server's options, as Python passes them: the policy, the accepted users, the text of an access rules file, whether a space
/// is created when it is first named, the most spaces, the most clients at a time, the percentage of all limits that one user
/// may have, the most bytes of all spaces together and of unfinished messages, the folder of durable spaces, and the upper limits of
/// a space's options.
#[derive(FromPyObject)]
pub struct Serving<'py> {
    #[pyo3(item)]
    accepted: Vec<String>,
    #[pyo3(item)]
    access: Option<String>,
    #[pyo3(item)]
    creates: bool,
    #[pyo3(item)]
    spaces: usize,
    #[pyo3(item)]
    sessions: usize,
    #[pyo3(item)]
    user_share: u8,
    #[pyo3(item)]
    memory: u64,
    #[pyo3(item)]
    unfinished: u64,
    #[pyo3(item)]
    directory: Option<PathBuf>,
    #[pyo3(item)]
    most: Bound<'py, PyDict>,
}

impl Serving<'_> {
    pub fn read(self, policy: phalanx_core::level::Policy) -> PyResult<node::ServerOptions> {
        let access = self.access.map(|text| node::Access::parse(&text)).transpose();
        let (spaces, options, bytes, share) = (self.spaces, to_options(&self.most)?, self.memory, self.user_share);
        Ok(node::ServerOptions {
            policy,
            accepted: self.accepted,
            access: access.map_err(|error| raise("PolicyError", format!("access rules: {error}")))?,
            creates: self.creates,
            directory: self.directory.map(node::Directory::new),
            caps: node::Caps { spaces, options, bytes, share },
            sessions: self.sessions,
            unfinished: self.unfinished,
            phalanx: Version::default(),
        })
    }
}

#[pymethods]
impl SpaceServer {
    /// Listens at `address`: `host:port` or `unix:path`. Log lines for its owner go to standard error if `says` is true.
    #[new]
    #[pyo3(signature = (address, *, identity_file, file=None, revoked, policy, serving, says))]
    fn new(
        address: &str,
        identity_file: Option<&str>,
        file: Option<PathBuf>,
        revoked: Vec<PathBuf>,
        policy: Words,
        serving: Serving<'_>,
        says: bool,
    ) -> PyResult<SpaceServer> {
        let place: node::Place = address.parse().map_err(|error| raise("SpaceError", error))?;
        let member = identity_file.map(|text| Member::parse(text, Role::Executor)).transpose().map_err(identity)?;
        let member = member.map(|member| at_files(member, file, revoked)).transpose()?;
        let name = member.as_ref().map(|member| member.name.clone());
        let options = serving.read(policy.read()?)?;
        let log = if says { Log::to_standard_error(Severity::Info) } else { Log::nowhere() };
        let server = node::Server::start(&place, member, options, log);
        let server = server.map_err(|error| raise("SpaceError", format!("cannot listen at {address}: {error}")))?;
        Ok(SpaceServer { server, name })
    }

    /// Where the server listens, as `host:port` or `unix:path`.
    #[getter]
    fn address(&self) -> String {
        self.server.address().to_string()
    }

    /// Serves a space of this process under this name.
    fn add(&self, name: &str, space: &LocalSpace) -> PyResult<()> {
        node::check_name(name).map_err(|error| raise("SpaceError", error))?;
        match self.server.add(name, space.hosted()) {
            true => Ok(()),
            false => Err(raise("SpaceError", format!("another space is served as {name}"))),
        }
    }

    /// Ends every session and stops serving.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.server.close());
    }
}
