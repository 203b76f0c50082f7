//! Comms of Dask for `phalanx/adapters/distributed.py`.

use crate::buffers::{Region, bytes_of, release};
use crate::errors::{identity, raise};
use crate::grid::{at_files, to_member};
use crate::policy::Words;
use bytes::Bytes;
use phalanx_core::level::Mark;
use phalanx_core::wire::comm::Message;
use phalanx_net::address::{Address, AddressError};
use phalanx_net::identity::{Member, Role};
use phalanx_node::comm::{self as node, CommError, Connect, Ends, Rules};
use phalanx_node::log::{Log, Severity};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyEOFError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMemoryView, PySlice};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Wakes an event loop.
#[pyclass(frozen)]
pub struct Bells(Arc<node::Bells>);

#[pymethods]
impl Bells {
    #[new]
    fn new() -> PyResult<Bells> {
        Ok(Bells(Arc::new(node::Bells::new()?)))
    }

    /// The file descriptor that is readable when there is something to take.
    fn fileno(&self) -> i32 {
        self.0.file()
    }

    /// The numbers of comms, listeners and diallings that have something.
    fn take(&self, py: Python<'_>) -> Vec<u64> {
        release(py);
        py.detach(|| self.0.take())
    }
}

/// Who this process is, and what it keeps to.
#[pyclass(frozen)]
pub struct CommRules {
    member: Option<Member>,
    role: Option<Role>,
    rules: Rules,
}

#[pymethods]
impl CommRules {
    /// `text` and `file`: the identity file. `revoked`: the files with lists of revoked certificates. `members`: the names of the members
    /// of the program. `most`: the most bytes of a message. `silence`: after how many seconds a silent peer is gone.
    #[new]
    #[pyo3(signature = (*, text, file, revoked, policy, members, most, silence))]
    fn new(
        text: Option<&str>,
        file: Option<PathBuf>,
        revoked: Vec<PathBuf>,
        policy: Words,
        members: Vec<String>,
        most: u64,
        silence: f64,
    ) -> PyResult<CommRules> {
        let (role, member) = text.map(to_member).transpose().map_err(identity)?.unzip();
        let member = member.map(|member| at_files(member, file, revoked)).transpose()?;
        let silence = Duration::try_from_secs_f64(silence).map_err(|error| raise("PolicyError", error))?;
        Ok(CommRules { member, role, rules: Rules { policy: policy.read()?, members, most, silence } })
    }

    /// The name in the own certificate.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.member.as_ref().map(|member| &*member.name)
    }
}

/// A link between two processes of a program of Dask.
#[pyclass(frozen)]
pub struct Comm {
    comm: node::Comm,
    #[pyo3(get)]
    number: u64,
    /// The name in the peer's certificate.
    #[pyo3(get)]
    peer: Option<String>,
}

impl From<node::Comm> for Comm {
    fn from(comm: node::Comm) -> Comm {
        Comm { number: comm.number, peer: comm.peer.clone(), comm }
    }
}

#[pymethods]
impl Comm {
    /// The level of messages.
    #[getter]
    fn level(&self) -> &'static str {
        self.comm.level().name()
    }

    /// What decided the level. None: the other end has decided.
    #[getter]
    fn why(&self) -> Option<&str> {
        self.comm.agreed.as_ref().map(|agreed| &*agreed.why[Mark::Data as usize])
    }

    /// The addresses of both ends in a network. None: both are on this machine.
    #[getter]
    fn addresses(&self) -> Option<[(String, u16); 2]> {
        match self.comm.ends {
            Ends::Network(here, there) => {
                Some([here, there].map(|end| (end.ip().to_canonical().to_string(), end.port())))
            }
            Ends::Machine(..) => None,
        }
    }

    /// The processes at both ends. None: they are in a network.
    #[getter]
    fn processes(&self) -> Option<(u32, u32)> {
        match self.comm.ends {
            Ends::Network(..) => None,
            Ends::Machine(here, there) => Some((here, there)),
        }
    }

    /// The bytes written so far.
    #[getter]
    fn written(&self) -> u64 {
        self.comm.written()
    }

    /// Why the link has ended, if it has, and no message is left.
    #[getter]
    fn ended(&self) -> Option<String> {
        self.comm.ended()
    }

    /// The pieces of the next message. None: the bells will tell when there is one. An EOFError says why the link has ended.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        release(py);
        let taken = py.detach(|| self.comm.take()).map_err(PyEOFError::new_err)?;
        taken.map(|message| to_pieces(py, message)).transpose()
    }

    /// Sends a message of pieces. Each part of it has as many pieces as `counts` says; `aligned` is the piece of the first part that lies
    /// aligned at the receiver.
    fn send(
        &self,
        py: Python<'_>,
        pieces: Vec<PyBuffer<u8>>,
        counts: Vec<usize>,
        aligned: Option<usize>,
    ) -> PyResult<()> {
        release(py);
        let pieces = pieces.into_iter().map(|piece| bytes_of(py, piece)).collect::<PyResult<Vec<Bytes>>>()?;
        py.detach(|| self.comm.send(pieces, &counts, aligned)).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Whether at most `most` bytes wait to be written. If not, the bells will tell when there may be fewer.
    fn has_room(&self, py: Python<'_>, most: usize) -> bool {
        py.detach(|| self.comm.has_room(most))
    }

    /// Ends the link.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.comm.close());
        release(py);
    }
}

/// The pieces of a message as views of memory that it alone has.
fn to_pieces(py: Python<'_>, message: Message) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    let layout = message.pieces();
    for (part, pieces) in message.parts.into_iter().zip(layout) {
        let length = part.len();
        let view = PyMemoryView::from(Bound::new(py, Region::new(part))?.as_any())?;
        for piece in pieces {
            match piece.len() == length {
                true => list.append(&view)?,
                false => {
                    list.append(view.get_item(PySlice::new(py, piece.start as isize, piece.end as isize, 1))?)?
                }
            }
        }
    }
    Ok(list)
}

/// Accepts comms.
#[pyclass(frozen)]
pub struct CommListener {
    listener: node::CommListener,
    #[pyo3(get)]
    number: u64,
}

#[pymethods]
impl CommListener {
    /// Listens at `address` (`host:port`). Log lines about refused peers go to standard error if `says` is true. A user's certificate is
    /// none of a server. So with it the listener serves this machine only.
    #[new]
    fn new(py: Python<'_>, address: &str, bells: &Bells, rules: &CommRules, says: bool) -> PyResult<CommListener> {
        let member = rules.member.clone().filter(|_| rules.role == Some(Role::Executor));
        let rules = rules.rules.clone();
        let log = if says { Log::to_standard_error(Severity::Warning) } else { Log::nowhere() };
        let bells = bells.0.clone();
        let listener = py.detach(|| node::CommListener::start(address, member, rules, bells, log))?;
        Ok(CommListener { number: listener.number, listener })
    }

    /// Where it listens.
    #[getter]
    fn address(&self) -> (String, u16) {
        (self.listener.address.ip().to_string(), self.listener.address.port())
    }

    /// The comms since the last call.
    fn take(&self, py: Python<'_>) -> Vec<Comm> {
        py.detach(|| self.listener.take()).into_iter().map(Comm::from).collect()
    }

    /// Stops listening.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.listener.close());
    }
}

/// A comm that is being made.
#[pyclass(frozen)]
pub struct CommDialling {
    dialling: node::Dialling,
    #[pyo3(get)]
    number: u64,
}

#[pymethods]
impl CommDialling {
    /// Begins to connect to `address` (`host:port`).
    #[new]
    fn new(address: &str, bells: &Bells, rules: &CommRules) -> PyResult<CommDialling> {
        let wrong = |error: AddressError| PyValueError::new_err(error.to_string());
        let address: Address = address.parse().map_err(wrong)?;
        let (member, rules) = (rules.member.clone(), rules.rules.clone());
        let dialling = node::Dialling::begin(address, Connect { member, rules }, bells.0.clone())?;
        Ok(CommDialling { number: dialling.number, dialling })
    }

    /// The comm. None: it is not there yet. A RecruitError says that another attempt may succeed.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Comm>> {
        match py.detach(|| self.dialling.take()) {
            None => Ok(None),
            Some(Ok(comm)) => Ok(Some(comm.into())),
            Some(Err(CommError::Unreachable(why))) => Err(raise("RecruitError", why)),
            Some(Err(CommError::Identity(why))) => Err(raise("IdentityError", why)),
            Some(Err(error @ CommError::Level(_))) => Err(raise("PolicyError", error)),
        }
    }
}
