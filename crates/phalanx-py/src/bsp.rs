//! BSP supersteps for `phalanx.bsp`.

use crate::errors::raise;
use phalanx_mpi::bsp::{self as core, Keeper, Point};
use phalanx_mpi::error::Error;
use phalanx_mpi::operations::collective::Span;
use phalanx_mpi::universe::leaving;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes};
use std::sync::{Mutex, MutexGuard};

/// A message: tag and payload.
type Message<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// This process's part of a BSP program. Memory is passed as contiguous buffers of bytes.
#[pyclass(frozen)]
pub struct Bsp(Mutex<core::Bsp>);

#[pymethods]
impl Bsp {
    /// Joins the program. `None` for a process beyond the number that the program uses.
    #[staticmethod]
    fn begin(py: Python<'_>, processes: Option<u32>, checkpoint: u32) -> PyResult<Option<Bsp>> {
        let begun = py.detach(|| core::Bsp::begin(processes, checkpoint)).map_err(|error| failed("begin", error))?;
        Ok(begun.map(|bsp| Bsp(Mutex::new(bsp))))
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.detached(py, "end", core::Bsp::end)
    }

    fn pid(&self) -> PyResult<usize> {
        Ok(self.get_core()?.pid())
    }

    fn nprocs(&self) -> PyResult<usize> {
        Ok(self.get_core()?.nprocs())
    }

    fn time(&self) -> PyResult<f64> {
        Ok(self.get_core()?.time())
    }

    fn supersteps(&self) -> PyResult<u32> {
        Ok(self.get_core()?.supersteps())
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.detached(py, "sync", core::Bsp::sync)
    }

    /// If the program resumes here from a checkpoint: the saved state. Otherwise: whether a checkpoint must be saved now.
    fn checkpoint<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.detached(py, "checkpoint", core::Bsp::checkpoint)? {
            Point::TakenUp(state) => Ok(PyBytes::new(py, &state).into_any()),
            point => Ok(PyBool::new(py, point == Point::Save).to_owned().into_any()),
        }
    }

    fn save(&self, py: Python<'_>, state: &[u8]) -> PyResult<()> {
        self.detached(py, "checkpoint", |bsp| bsp.save(state))
    }

    fn leave_machine(&self) -> PyResult<()> {
        self.get_core()?.leave_machine().map_err(|error| failed("leave_machine", error))
    }

    fn push_reg(&self, area: PyBuffer<u8>) -> PyResult<()> {
        let (address, memory) = (area.buf_ptr() as usize, span(&area));
        // SAFETY: the buffer is kept alive for as long as it is registered.
        unsafe { self.get_core()?.push_reg(address, memory, keeper(area)) };
        Ok(())
    }

    fn pop_reg(&self, area: PyBuffer<u8>) -> PyResult<()> {
        self.get_core()?.pop_reg(area.buf_ptr() as usize).map_err(|error| failed("pop_reg", error))
    }

    fn put(&self, pid: i64, source: PyBuffer<u8>, area: PyBuffer<u8>, offset: i64) -> PyResult<()> {
        // SAFETY: the buffer is held until the call returns.
        let data = unsafe { span(&source).bytes() };
        let put = self.get_core()?.put(pid, data, area.buf_ptr() as usize, offset);
        put.map_err(|error| failed("put", error))
    }

    fn hpput(&self, pid: i64, source: PyBuffer<u8>, area: PyBuffer<u8>, offset: i64) -> PyResult<()> {
        let (address, data) = (area.buf_ptr() as usize, span(&source));
        // SAFETY: the buffer is kept alive until the next sync has ended.
        let put = unsafe { self.get_core()?.hpput(pid, data, address, offset, keeper(source)) };
        put.map_err(|error| failed("hpput", error))
    }

    fn get(&self, pid: i64, area: PyBuffer<u8>, offset: i64, into: PyBuffer<u8>) -> PyResult<()> {
        let (address, memory) = (area.buf_ptr() as usize, span(&into));
        // SAFETY: as above.
        let get = unsafe { self.get_core()?.get(pid, address, offset, memory, keeper(into)) };
        get.map_err(|error| failed("get", error))
    }

    fn hpget(&self, pid: i64, area: PyBuffer<u8>, offset: i64, into: PyBuffer<u8>) -> PyResult<()> {
        let (address, memory) = (area.buf_ptr() as usize, span(&into));
        // SAFETY: as above.
        let get = unsafe { self.get_core()?.hpget(pid, address, offset, memory, keeper(into)) };
        get.map_err(|error| failed("hpget", error))
    }

    fn tagsize(&self) -> PyResult<u64> {
        Ok(self.get_core()?.tagsize())
    }

    fn set_tagsize(&self, size: u64) -> PyResult<u64> {
        Ok(self.get_core()?.set_tagsize(size))
    }

    fn send(&self, pid: i64, tag: &[u8], payload: &[u8]) -> PyResult<()> {
        self.get_core()?.send(pid, tag, payload).map_err(|error| failed("send", error))
    }

    fn qsize(&self) -> PyResult<(usize, usize)> {
        Ok(self.get_core()?.qsize())
    }

    /// The tag of the first message in the queue.
    fn first_tag<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.get_core()?.first().map(|(tag, _)| PyBytes::new(py, tag)))
    }

    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Message<'py>>> {
        let mut bsp = self.get_core()?;
        Ok(bsp.take().map(|(tag, payload)| (PyBytes::new(py, tag), PyBytes::new(py, payload))))
    }

    fn note_costs(&self, wanted: bool) -> PyResult<()> {
        self.get_core()?.note_costs(wanted);
        Ok(())
    }

    /// For each recorded superstep: seconds of work, seconds in the sync, bytes sent, and bytes received.
    fn costs(&self) -> PyResult<Vec<(f64, f64, u64, u64)>> {
        let bsp = self.get_core()?;
        Ok(bsp.costs().iter().map(|step| (step.work, step.sync, step.sent, step.received)).collect())
    }

    fn everybody_says<'py>(&self, py: Python<'py>, own: Vec<u8>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let all = self.detached(py, "costs", |bsp| bsp.everybody_says(own))?;
        Ok(all.iter().map(|said| PyBytes::new(py, said)).collect())
    }

    /// Ends the program: all its processes, including this one.
    fn abort(&self, text: &str) -> PyResult<()> {
        let bsp = self.get_core()?;
        let text = format!("pid {}: {text}", bsp.pid());
        bsp.tell_abort(1, &text);
        leaving::abort(1, &text)
    }
}

impl Bsp {
    /// Locks the core. The GIL must never be held while waiting for the core's lock, because a thread in a sync holds that lock
    /// without the GIL, but needs the GIL to release buffers.
    fn get_core(&self) -> PyResult<MutexGuard<'_, core::Bsp>> {
        self.0.try_lock().map_err(|_| raise("BspError", "another thread of this process is in sync"))
    }

    fn detached<T: Send>(
        &self,
        py: Python<'_>,
        call: &str,
        act: impl FnOnce(&mut core::Bsp) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut bsp = self.get_core()?;
            act(&mut bsp).map_err(|error| failed(call, error))
        })
    }
}

fn failed(call: &str, error: Error) -> PyErr {
    raise("BspError", format!("{call}: {error}"))
}

fn span(buffer: &PyBuffer<u8>) -> Span {
    // SAFETY: the caller keeps the buffer alive for as long as the span is used.
    unsafe { Span::new(buffer.buf_ptr().cast(), buffer.len_bytes()) }
}

fn keeper(buffer: PyBuffer<u8>) -> Keeper {
    Some(Box::new(buffer))
}
