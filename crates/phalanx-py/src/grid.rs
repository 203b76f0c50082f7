//! A grid's certificates, as texts of files.

use crate::errors::{identity, raise};
use phalanx_net::identity::{Authority, IdentityError, Member, Role};
use pyo3::prelude::*;

/// A new grid's authority file.
#[pyfunction]
pub fn create_grid() -> PyResult<String> {
    Authority::create().map(|authority| authority.to_pem()).map_err(identity)
}

/// A new member's identity file, from the text of the authority's, which `file` names.
#[pyfunction]
#[pyo3(signature = (authority, role, name, file = "authority.pem"))]
pub fn issue_member(authority: &str, role: &str, name: &str, file: &str) -> PyResult<String> {
    let role = [Role::User, Role::Executor].into_iter().find(|known| known.name() == role);
    let role = role.ok_or_else(|| raise("IdentityError", "a role is user or executor"))?;
    let authority = Authority::parse(authority).map_err(|error| raise("IdentityError", format!("{file}: {error}")))?;
    authority.issue(role, name).map_err(identity)
}

/// Refuses the text of an identity file, which `file` names, that a member of neither role could use.
#[pyfunction]
pub fn check_member(text: &str, file: &str) -> PyResult<()> {
    to_member(text).map(drop).map_err(|error| raise("IdentityError", format!("{file}: {error}")))
}

/// A user, or another member of the grid.
pub fn to_member(text: &str) -> Result<Member, IdentityError> {
    match Member::parse(text, Role::User) {
        Err(IdentityError::Role { .. }) => Member::parse(text, Role::Executor),
        parsed => parsed,
    }
}
