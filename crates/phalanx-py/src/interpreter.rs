//! The interpreter's process for `phalanx/_interpreter.py`: its link, read by a thread of its own that never needs
//! Python, so that an interpreter is heard of however long the user's code keeps Python busy.

use crate::buffers::{Region, release};
use crate::tokens::{Packed, from_python, to_python};
use phalanx_core::ids::FiringId;
use phalanx_core::wire::{FromInterpreter, ToInterpreter, Tokens, decode, encode};
use phalanx_net::frames::Frame;
use phalanx_net::link::{Link, Reader};
use phalanx_node::interpreter::{begin, end_process};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often an interpreter says that it lives.
const BEAT: Duration = Duration::from_millis(300);
/// A manager that is silent for this long is gone; its machine was cut off or switched off.
const SILENCE: Duration = Duration::from_secs(30);

type Inbox = Arc<(Mutex<VecDeque<Frame>>, Condvar)>;

/// The process' one link, from Python's side.
#[pyclass(frozen)]
pub struct Interpreter {
    link: Arc<Link>,
    inbox: Inbox,
    /// The name of this machine.
    #[pyo3(get)]
    machine: String,
    /// Where the user's modules are found.
    #[pyo3(get)]
    path: Vec<String>,
}

#[pymethods]
impl Interpreter {
    /// Waits for what the parent process says, and for the data link.
    #[staticmethod]
    fn begin(py: Python<'_>) -> PyResult<Interpreter> {
        let (begin, link, reader) = py.detach(begin)?;
        let inbox = Inbox::default();
        let arriving = inbox.clone();
        std::thread::Builder::new().name("phalanx-link".into()).spawn(move || read(reader, &arriving))?;
        link.send(encode(&FromInterpreter::Ready { pid: std::process::id() }, 0), Vec::new()).map_err(ended)?;
        Ok(Interpreter { link, inbox, machine: begin.machine, path: begin.path })
    }

    /// The next message: `("stage", program, code)`, `("forget", program)` or
    /// `("fire", program, firing, instruction, first, slice in seconds, tokens, count)`.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loop {
            let frame = py.detach(|| self.wait());
            release(py);
            let message = decode(&frame.header).unwrap_or(ToInterpreter::Beat);
            return Ok(match message {
                ToInterpreter::Beat => continue,
                ToInterpreter::Stage { program } => {
                    ("stage", program.0, Bound::new(py, Region::new(frame.body))?).into_pyobject(py)?.into_any()
                }
                ToInterpreter::Forget { program } => ("forget", program.0).into_pyobject(py)?.into_any(),
                ToInterpreter::Fire { firing, program, instruction, shape, first, count, slice } => {
                    let Ok(tokens) = Tokens::from_wire(shape, frame.body) else { end_process(1) };
                    let slice = Duration::from_nanos(slice).as_secs_f64();
                    let tokens = to_python(py, tokens)?;
                    ("fire", program.0, firing.0, instruction, first, slice, tokens, count).into_pyobject(py)?.into_any()
                }
            });
        }
    }

    /// Results of the firing's next tokens; `busy` in nanoseconds.
    fn fired(&self, py: Python<'_>, firing: u64, results: Packed, busy: u64) -> PyResult<()> {
        let tokens = from_python(py, results)?;
        let protection = self.link.counters().protection.load(Ordering::Relaxed);
        let shape = tokens.shape().clone();
        let message = FromInterpreter::Fired { firing: FiringId(firing), shape, busy, protection };
        py.detach(|| {
            self.link.send(encode(&message, tokens.bytes()), tokens.body())?;
            self.link.settle(); // the next firing may change the arrays that this one gave back
            Ok(())
        })
        .map_err(ended)
    }

    /// The firing's next token raised; `error` is the pickled exception.
    fn failed(&self, py: Python<'_>, firing: u64, error: Vec<u8>, busy: u64) -> PyResult<()> {
        let message = FromInterpreter::Failed { firing: FiringId(firing), busy };
        let bytes = error.len() as u64;
        py.detach(|| self.link.send(encode(&message, bytes), vec![error.into()])).map_err(ended)
    }

    /// The rest of the firing is given back.
    fn returned(&self, py: Python<'_>, firing: u64) -> PyResult<()> {
        let message = FromInterpreter::Returned { firing: FiringId(firing) };
        py.detach(|| self.link.send(encode(&message, 0), Vec::new())).map_err(ended)
    }
}

impl Interpreter {
    fn wait(&self) -> Frame {
        let (frames, arrived) = &*self.inbox;
        let mut frames = frames.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match frames.pop_front() {
                Some(frame) => return frame,
                None => frames = arrived.wait(frames).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Reads the link until it ends; then the process has nothing to live for. The manager bounds what it sends ahead of
/// the answers, so the inbox is bounded too.
fn read(reader: Reader, inbox: &Inbox) {
    let on_frame = |frame| {
        inbox.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(frame);
        inbox.1.notify_one();
    };
    let (mut last_beat, mut last_heard, mut received) = (Instant::now(), Instant::now(), 0);
    reader.run(BEAT, on_frame, |link| {
        let now = Instant::now();
        let so_far = link.counters().received.load(Ordering::Relaxed);
        if std::mem::replace(&mut received, so_far) != so_far {
            last_heard = now;
        }
        if now - last_heard > SILENCE {
            link.close();
        } else if now - last_beat >= BEAT {
            last_beat = now;
            link.queue(encode(&FromInterpreter::Beat, 0), Vec::new());
            link.flush();
        }
    });
    end_process(0);
}

fn ended(error: phalanx_net::link::LinkError) -> PyErr {
    pyo3::exceptions::PyConnectionError::new_err(error.to_string())
}
