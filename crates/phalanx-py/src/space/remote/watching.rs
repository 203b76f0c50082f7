//! Watches of a space of another process.

use super::asking::{nonsense, unusable};
use super::{RemoteSpace, SIGNALS, Watch, lock};
use crate::space::decode::decode_foreign;
use crate::space::local::forgotten;
use crate::space::waiting::decode_events;
use bytes::Bytes;
use phalanx_core::wire::space::{FromSpace, ToSpace};
use phalanx_node::space::Event;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

impl RemoteSpace {
    pub(super) fn begin_watch(&self, py: Python<'_>, mut watch: Watch, since: Option<u64>) -> PyResult<Watch> {
        self.check()?;
        let (template, nudge) = (watch.template.clone(), watch.nudge.clone());
        let begin = || self.client.watch(|request| ToSpace::Watch { request, since }, vec![template], nudge);
        watch.request = py.detach(begin).map_err(unusable)?;
        let answer = loop {
            match py.detach(|| self.client.wait(watch.request, SIGNALS)) {
                Some(answer) => break answer,
                None => py.check_signals().inspect_err(|_| self.client.forget(watch.request))?,
            }
        };
        let answer = answer.inspect_err(|_| self.client.forget(watch.request)).map_err(unusable)?;
        match answer.message {
            FromSpace::Watching { last, missed: 0, .. } => {
                watch.last = last;
                Ok(watch)
            }
            FromSpace::Watching { missed, .. } => {
                self.client.forget(watch.request);
                self.order(py, |request| ToSpace::Unwatch { request, watch: watch.request })?;
                Err(forgotten(missed))
            }
            _ => Err(nonsense()),
        }
    }

    pub(super) fn came<'py>(
        &self,
        py: Python<'py>,
        watch: u64,
        events: Vec<Event>,
    ) -> PyResult<Vec<(u64, Bound<'py, PyTuple>)>> {
        let decode = |tuple: &Bytes| match tuple.is_empty() {
            true => {
                Err(PyOverflowError::new_err(format!("the tuple has more than {} bytes", self.client.most_answer())))
            }
            false => decode_foreign(py, tuple, self.encoding.objects),
        };
        let (decoded, rest) = decode_events(events.into(), decode);
        let last = decoded.as_ref().map_or_else(|(last, _)| Some(*last), |events| events.last().map(|it| it.0));
        let request = lock(&self.watches).get_mut(&watch).map(|watch| {
            watch.last = last.unwrap_or(watch.last);
            watch.request
        });
        if let Some(request) = request.filter(|_| !rest.is_empty()) {
            py.detach(|| self.client.put_back(request, rest));
        }
        decoded.map_err(|(_, error)| error)
    }

    /// Called after events were dropped because too many waited. The events that the space remembers are delivered again.
    pub(super) fn watch_again(&self, py: Python<'_>, number: u64, watch: Watch) -> PyResult<()> {
        self.client.forget(watch.request);
        let (before, last) = (watch.request, watch.last);
        self.order(py, |request| ToSpace::Unwatch { request, watch: before })?;
        let again = self.begin_watch(py, watch, Some(last))?;
        if let Some(watch) = lock(&self.watches).get_mut(&number) {
            *watch = Watch { last, ..again };
        }
        Ok(())
    }
}

/// A Python function that is called when there are events. The thread that drops it last releases it at once, and not at the
/// next call into this library, because it may keep the connection alive.
pub(super) struct Nudging(Option<Py<PyAny>>);

impl Nudging {
    pub fn new(nudge: Py<PyAny>) -> Nudging {
        Nudging(Some(nudge))
    }

    pub fn call(&self) {
        // If Python is shutting down, there is no one left to notify.
        let _ = Python::try_attach(|py| {
            let Some(nudge) = &self.0 else { return };
            if let Err(error) = nudge.call0(py) {
                error.write_unraisable(py, Some(nudge.bind(py)));
            }
        });
    }
}

impl Drop for Nudging {
    fn drop(&mut self) {
        let nudge = self.0.take();
        let _ = Python::try_attach(|_| drop(nudge));
    }
}
