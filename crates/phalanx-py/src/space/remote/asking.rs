//! Sends requests to a space of another process, and converts the answers to Python's.

use super::{Asked, RemoteSpace, SIGNALS};
use crate::errors::raise;
use crate::space::decode::{FOREIGN, decode_foreign, decode_tuple};
use crate::space::encode::{Encoding, encode_tuple};
use crate::space::engine::{Engine, Search};
use crate::space::local::FORKS;
use crate::space::template::to_template;
use crate::space::waiting::uninterrupted;
use crate::space::whole::{Items, to_at, to_item};
use crate::space::{failed, wrong};
use bytes::Bytes;
use phalanx_core::error::SpaceError;
use phalanx_core::ids::TransactionId;
use phalanx_core::space::{OutOptions, RequestId, Tuple};
use phalanx_core::wire::space::{FromSpace, ToSpace, Wait};
use phalanx_node::space::{Answer, ClientError, SILENT};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Engine for RemoteSpace {
    type Encoded = Vec<u8>;
    type Pattern = Bytes;

    fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    fn encode(&self, fields: &Bound<'_, PyTuple>) -> PyResult<Vec<u8>> {
        encode_tuple(fields, &self.encoding)
    }

    fn pattern(&self, template: &Bound<'_, PyTuple>, query: Option<&Bound<'_, PyAny>>) -> PyResult<Bytes> {
        let mut bytes = Vec::with_capacity(64);
        to_template(template, query, &self.encoding)?.encode(&mut bytes);
        Ok(bytes.into())
    }

    fn put<T>(&self, py: Python<'_>, tuples: T, options: OutOptions, transaction: Option<u128>) -> PyResult<u64>
    where
        T: AsRef<[Vec<u8>]> + IntoIterator<Item = Vec<u8>>,
    {
        let (count, mut tuples) = (tuples.as_ref().len() as u32, tuples.into_iter());
        let mut bytes = tuples.next().unwrap_or_default(); // a single tuple is not copied
        tuples.for_each(|tuple| bytes.extend_from_slice(&tuple));
        self.put_bytes(py, bytes, count, options, transaction)
    }
}

impl Search<Bytes> {
    /// The transaction under which it takes tuples, if there is one.
    pub(super) fn takes_under(&self) -> Option<TransactionId> {
        self.transaction.filter(|_| self.get.take)
    }

    /// The body and the message that ask a server for it.
    pub(super) fn request(self, wait: Wait) -> (Bytes, impl FnOnce(RequestId) -> ToSpace + Send) {
        let Search { pattern, get, transaction, .. } = self;
        (pattern, move |request| ToSpace::Get { request, get, wait, transaction })
    }
}

impl RemoteSpace {
    pub(super) fn check(&self) -> PyResult<()> {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            let why = "this connection belongs to the process that made it: make another one after the fork";
            return Err(raise("SpaceError", why));
        }
        Ok(())
    }

    /// Sends a request and waits for its answer. `cancels`: Ctrl-C cancels the request; otherwise it only ends the wait.
    pub(super) fn ask(
        &self,
        py: Python<'_>,
        cancels: bool,
        body: Bytes,
        message: impl FnOnce(RequestId) -> ToSpace + Send,
    ) -> PyResult<Asked> {
        let asked = self.ask_within(py, None, cancels, body, message)?;
        // cannot happen, because there is no time limit
        Ok(asked.unwrap_or(Err(ClientError::Space(SpaceError::TimedOut))))
    }

    /// The same, for `patience`; longer as long as anything arrives from the server. `None`: no answer came by then. Whatever
    /// the request takes later goes back into the space.
    pub(super) fn ask_within(
        &self,
        py: Python<'_>,
        patience: Option<Duration>,
        cancels: bool,
        body: Bytes,
        message: impl FnOnce(RequestId) -> ToSpace + Send,
    ) -> PyResult<Option<Asked>> {
        self.check()?;
        let end = patience.and_then(|patience| Instant::now().checked_add(patience));
        let body = if body.is_empty() { Vec::new() } else { vec![body] };
        let asked = py.detach(|| {
            let request = self.client.ask(message, body)?;
            Ok((request, self.client.wait(request, SIGNALS)))
        });
        let (request, mut answer) = match asked {
            Ok(asked) => asked,
            Err(error) => return Ok(Some(Err(error))),
        };
        loop {
            if answer.is_some() {
                return Ok(answer);
            }
            let silence = self.client.silence();
            if end.is_some_and(|end| Instant::now() >= end) && silence >= patience.unwrap_or_default().min(SILENT) {
                return Ok(py.detach(|| self.give_up_late(request, cancels)));
            }
            if let Err(interrupted) = py.check_signals() {
                py.detach(|| self.give_up(request, cancels));
                return Err(interrupted);
            }
            self.client.look_after();
            answer = py.detach(|| self.client.wait(request, SIGNALS));
        }
    }

    pub(super) fn give_up(&self, request: RequestId, cancels: bool) {
        match cancels {
            true => drop(self.client.cancel(request).map(|_| self.client.tell(&ToSpace::GiveBack { request }))),
            false => self.client.abandon(request),
        }
    }

    /// Gives up a request that the server should have answered by now. Returns the answer if one came first.
    fn give_up_late(&self, request: RequestId, cancels: bool) -> Option<Asked> {
        if !cancels {
            self.client.abandon(request);
            return None;
        }
        match self.client.cancel_soon(request) {
            Some(Err(ClientError::Space(SpaceError::Cancelled))) => Some(Err(SpaceError::TimedOut.into())),
            answer => answer,
        }
    }

    /// The same, but a missing answer is an error. It also dooms the transaction `takes`, under which the request takes tuples.
    pub(super) fn ask_soon(
        &self,
        py: Python<'_>,
        patience: Option<Duration>,
        takes: Option<TransactionId>,
        body: Bytes,
        message: impl FnOnce(RequestId) -> ToSpace + Send,
    ) -> PyResult<Answer> {
        let Some(answer) = self.ask_within(py, patience, false, body, message)? else {
            self.doomed.add(takes);
            return Err(unusable(self.late()));
        };
        answer.map_err(unusable)
    }

    /// Sends a read or take that does not wait, as [`RemoteSpace::ask_soon`] does.
    pub(super) fn get_soon(
        &self,
        py: Python<'_>,
        patience: Option<Duration>,
        search: Search<Bytes>,
    ) -> PyResult<Answer> {
        let takes = search.takes_under();
        let (template, message) = search.request(Wait::No);
        self.ask_soon(py, patience, takes, template, message)
    }

    fn late(&self) -> ClientError {
        ClientError::Late { space: self.client.address().to_string() }
    }

    /// Sends a request whose answer carries no data.
    pub(super) fn order(&self, py: Python<'_>, message: impl FnOnce(RequestId) -> ToSpace + Send) -> PyResult<()> {
        self.ask(py, false, Bytes::new(), message)?.map(drop).map_err(unusable)
    }

    pub(super) fn put_bytes(
        &self,
        py: Python<'_>,
        bytes: Vec<u8>,
        tuples: u32,
        options: OutOptions,
        transaction: Option<u128>,
    ) -> PyResult<u64> {
        let transaction = transaction.map(TransactionId);
        let message = |request| ToSpace::Out { request, tuples, options, transaction };
        match self.ask(py, false, bytes.into(), message)?.map_err(unusable)?.message {
            FromSpace::Done { number, .. } => Ok(number),
            _ => Err(nonsense()),
        }
    }

    /// The tuple of an answer, if it has one.
    pub(super) fn found<'py>(
        &self,
        py: Python<'py>,
        answer: Answer,
        acknowledge: bool,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match answer.message {
            FromSpace::Got { tuples: 0, .. } => Ok(None),
            FromSpace::Got { request, .. } => {
                let decode = || decode_foreign(py, &answer.body, self.encoding.objects);
                self.settled(py, request, acknowledge, decode).map(Some)
            }
            _ => Err(nonsense()),
        }
    }

    /// Acknowledges a taken tuple once it is decoded. If it cannot be decoded, it is given back to the space.
    pub(super) fn settled<T>(
        &self,
        py: Python<'_>,
        request: RequestId,
        acknowledge: bool,
        decode: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        let mut decoded = decode();
        if acknowledge {
            decoded = decoded.and_then(|decoded| uninterrupted(py).map(|()| decoded));
            self.tell_settled(py, request, decoded.is_ok())?;
        }
        decoded
    }

    /// Sends the acknowledgement or the give-back. A kept tuple is returned only after the acknowledgement has left this
    /// process. If the process ended before, the tuple would go back.
    pub(super) fn tell_settled(&self, py: Python<'_>, request: RequestId, kept: bool) -> PyResult<()> {
        let told = self.client.tell(&if kept { ToSpace::Ack { request } } else { ToSpace::GiveBack { request } });
        let has_left = |pause| self.client.has_left(told, pause);
        while kept && !has_left(Duration::ZERO) && !py.detach(|| has_left(SIGNALS)) {
            py.check_signals()?;
        }
        Ok(())
    }

    /// Sends a request whose answer is tuples with their metadata.
    pub(super) fn whole<'py>(
        &self,
        py: Python<'py>,
        message: impl FnOnce(RequestId) -> ToSpace + Send,
    ) -> PyResult<Items<'py>> {
        let answer = self.ask(py, false, Bytes::new(), message)?.map_err(unusable)?;
        let FromSpace::Whole { tuples: beside, next, .. } = answer.message else { return Err(nonsense()) };
        let tuples = Tuple::check_all(&answer.body, beside.len() as u64, &FOREIGN).map_err(wrong)?;
        let items = tuples.iter().zip(beside).map(|(tuple, beside)| to_item(py, tuple, beside)).collect();
        Ok((items, next.map(to_at)))
    }

    pub(super) fn decode_many<'py>(
        &self,
        py: Python<'py>,
        bytes: &Bytes,
        count: u32,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let tuples = Tuple::check_all(bytes, u64::from(count), &FOREIGN).map_err(wrong)?;
        tuples.iter().map(|tuple| decode_tuple(py, tuple.bytes(), self.encoding.objects)).collect()
    }
}

pub(super) fn call(py: Python<'_>, done: &Py<PyAny>, answer: Asked, objects: bool) {
    let outcome = match answer {
        Ok(Answer { message: FromSpace::Got { tuples: 1, .. }, body }) => {
            decode_foreign(py, &body, objects).map(Bound::into_any)
        }
        Ok(Answer { message: FromSpace::Got { .. }, .. }) | Err(ClientError::Space(SpaceError::TimedOut)) => {
            Ok(py.None().into_bound(py))
        }
        Ok(_) => Err(nonsense()),
        Err(error) => Err(unusable(error)),
    };
    let outcome = outcome.unwrap_or_else(|error| error.into_value(py).into_bound(py).into_any());
    if let Err(error) = done.call1(py, (outcome,)) {
        error.write_unraisable(py, Some(done.bind(py)));
    }
}

pub(super) fn unusable(error: ClientError) -> PyErr {
    match error {
        ClientError::Space(error) => failed(error),
        ClientError::Level(error) => raise("PolicyError", error),
        ClientError::Identity(error) | ClientError::Unexpected(error) => raise("IdentityError", error),
        ClientError::Unreachable(_) => raise("SpaceError", error),
        ClientError::Ended { .. } | ClientError::Late { .. } => raise("SpaceLostError", error),
        ClientError::TooLong { .. } => PyOverflowError::new_err(error.to_string()),
    }
}

pub(super) fn nonsense() -> PyErr {
    raise("SpaceError", "the server does not speak this protocol")
}
