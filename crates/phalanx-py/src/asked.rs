//! Asks executors what they offer, for `phalanx explain --ask`.

use crate::errors::raise;
use crate::grid::Dialler;
use crate::manager::interruptibly;
use phalanx_net::address::Address;
use phalanx_net::identity::Role;
use phalanx_node::asked::{Asked, ask_all};
use pyo3::prelude::*;

/// The answer of one executor.
#[derive(IntoPyObject)]
pub enum Answer {
    /// Its name, its interpreters, its Python's version, the kind of its cage, whether each user has an account, and what is not
    /// kept apart.
    Offer(String, u32, String, &'static str, bool, Vec<String>),
    /// Why there is no answer.
    Failure(String),
}

/// Asks the executors at these addresses, as the user.
#[pyfunction]
pub fn ask_executors(py: Python<'_>, addresses: Vec<String>, dialler: Dialler) -> PyResult<Vec<Answer>> {
    let addresses: Result<Vec<Address>, _> = addresses.iter().map(|text| text.parse()).collect();
    let addresses = addresses.map_err(|error| raise("RecruitError", error))?;
    let dialler = dialler.read(Role::User)?;
    let answers = interruptibly(py, move || ask_all(&addresses, &dialler))?;
    let told = |answer| match answer {
        Ok(Asked { name, capacity, python, cage }) => {
            Answer::Offer(name, capacity, python, cage.kind.name(), cage.accounts, cage.lacks)
        }
        Err(why) => Answer::Failure(why),
    };
    Ok(answers.into_iter().map(told).collect())
}
