//! Converts errors of the drivers into the exceptions of `phalanx.errors`.

use phalanx_net::identity::IdentityError;
use phalanx_node::recruit::RecruitError;
use pyo3::prelude::*;

/// The exception `phalanx.errors.<name>` with a message.
pub fn raise(name: &str, message: impl ToString) -> PyErr {
    let message = message.to_string();
    Python::attach(|py| {
        let class = py.import("phalanx.errors").and_then(|module| module.getattr(name));
        class.and_then(|class| class.call1((message,))).map_or_else(|error| error, PyErr::from_value)
    })
}

pub fn identity(error: IdentityError) -> PyErr {
    raise("IdentityError", error)
}

pub fn recruit(error: RecruitError) -> PyErr {
    match error {
        RecruitError::Contract { .. } => raise("ContractError", error),
        RecruitError::Level(_) => raise("PolicyError", error),
        RecruitError::Identity(error) => identity(error),
        RecruitError::Unexpected(_) => raise("IdentityError", error),
        RecruitError::Unreachable(_) | RecruitError::Closed(_) | RecruitError::Start(_) => raise("RecruitError", error),
    }
}
