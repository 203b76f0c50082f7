//! On Windows: what is not there says so when it is used. Message passing needs shared memory between processes, and Dask's comms pass
//! file descriptors to an event loop; neither has its counterpart on Windows yet.

use crate::errors::raise;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// A class that cannot be made on this system, for the reason given.
macro_rules! absent {
    ($($name:ident: $why:expr;)*) => {$(
        /// Not there on Windows.
        #[pyclass(frozen)]
        pub struct $name;

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (*_arguments, **_options))]
            fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> PyResult<$name> {
                Err($why)
            }
        }
    )*};
}

absent! {
    Bells: no_comms();
    Comm: no_comms();
    CommDialling: no_comms();
    CommListener: no_comms();
    CommRules: no_comms();
    Launcher: no_launcher();
}

/// Not there on Windows.
#[pyclass(frozen)]
pub struct Bsp;

#[pymethods]
impl Bsp {
    #[staticmethod]
    fn begin(_processes: Option<u32>, _checkpoint: u32) -> PyResult<Option<Bsp>> {
        Err(raise("BspError", "begin: BSP programs run on Linux, and this is Windows"))
    }
}

fn no_comms() -> PyErr {
    PyNotImplementedError::new_err("Dask's comms over phalanx's links are not there on Windows: use protocol='tls'")
}

fn no_launcher() -> PyErr {
    raise("LaunchError", "message passing programs (mpirun, bsprun) start from Linux, and this is Windows")
}
