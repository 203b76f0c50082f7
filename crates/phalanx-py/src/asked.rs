//! Asks executors what they offer, for `phalanx explain --ask`.

use crate::errors::raise;
use crate::grid::Dialler;
use crate::hub::{ToldRow, told};
use crate::manager::interruptibly;
use phalanx_core::cage::Report;
use phalanx_net::address::Address;
use phalanx_net::identity::Role;
use phalanx_node::asked::{self, Asked, ask_all};
use pyo3::prelude::*;

/// The answer of one executor.
#[derive(IntoPyObject)]
pub enum Answer {
    /// Its name, its interpreters, its Python's version, the kind of its cage, whether each user has an account, and what is not
    /// kept apart; its version of phalanx, and the levels of what is not marked.
    Offer(String, u32, String, &'static str, bool, Vec<String>, String, String),
    /// Why there is no answer.
    Failure(String),
}

/// Why a machine with another version of phalanx does not work together with this one; `None`: it does.
#[pyfunction]
pub fn check_version(address: &str, theirs: &str) -> Option<String> {
    asked::check_version(&address, theirs).err()
}

/// What runs at an executor, or why there is no answer.
#[derive(IntoPyObject)]
pub enum Told {
    /// As for `hub_status`.
    Status(ToldRow),
    /// Why there is no answer.
    Failure(String),
}

/// Asks the executors at these addresses what runs there, as the user.
#[pyfunction]
pub fn ask_statuses(py: Python<'_>, addresses: Vec<String>, dialler: Dialler) -> PyResult<Vec<Told>> {
    let (addresses, dialler) = (read(&addresses)?, dialler.read(Role::User)?);
    let answers = interruptibly(py, move || asked::ask_statuses(&addresses, &dialler))?;
    Ok(answers
        .into_iter()
        .map(|answer| answer.map_or_else(Told::Failure, |status| Told::Status(told(status))))
        .collect())
}

fn read(addresses: &[String]) -> PyResult<Vec<Address>> {
    let addresses: Result<Vec<Address>, _> = addresses.iter().map(|text| text.parse()).collect();
    addresses.map_err(|error| raise("RecruitError", error))
}

/// Asks the executors at these addresses, as the user.
#[pyfunction]
pub fn ask_executors(py: Python<'_>, addresses: Vec<String>, dialler: Dialler) -> PyResult<Vec<Answer>> {
    let addresses = read(&addresses)?;
    let dialler = dialler.read(Role::User)?;
    let answers = interruptibly(py, move || ask_all(&addresses, &dialler))?;
    let told = |answer| match answer {
        Ok(Asked { name, phalanx, levels, capacity, python, cage: Report { kind, accounts, lacks } }) => {
            Answer::Offer(name, capacity, python, kind.name(), accounts, lacks, phalanx, levels.to_string())
        }
        Err(why) => Answer::Failure(why),
    };
    Ok(answers.into_iter().map(told).collect())
}
