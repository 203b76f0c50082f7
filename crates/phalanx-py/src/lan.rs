//! Executors on the local network.

use crate::errors::raise;
use crate::grid::Dialler;
use crate::manager::interruptibly;
use phalanx_node::lan::find;
use pyo3::prelude::*;
use std::time::Duration;

/// What was found, for Python: the name of the grid in addresses, each executor's name and address, the number of strangers, and why the
/// network cannot be asked.
type FoundRow = (String, Vec<(String, String)>, usize, Option<String>);

/// Finds executors of the user's grid on the local network: at least so many, or those that are found in so many seconds.
#[pyfunction]
pub fn find_on_lan(py: Python<'_>, dialler: Dialler, at_least: usize, patience: f64) -> PyResult<FoundRow> {
    let dialler = dialler.read_member()?;
    let patience = Duration::from_secs_f64(patience.clamp(0.0, 3600.0));
    let found = interruptibly(py, move || find(dialler.member(), at_least, patience))?;
    let found = found.map_err(|error| raise("RecruitError", error))?;
    let members = found.members.into_iter().map(|(name, at)| (name, at.to_string())).collect();
    Ok((found.grid, members, found.strangers, found.trouble))
}
