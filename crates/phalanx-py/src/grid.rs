//! A grid's certificates, as the texts of files.

use crate::errors::{identity, raise};
use phalanx_net::identity::{Authority, IdentityError, Member, Role};
use pyo3::prelude::*;

/// Makes the authority file of a new grid.
#[pyfunction]
pub fn create_grid() -> PyResult<String> {
    Authority::create().map(|authority| authority.to_pem()).map_err(identity)
}

/// Makes the identity file of a new member from the text of the authority file. `file` names that file in errors.
#[pyfunction]
#[pyo3(signature = (authority, role, name, file = "authority.pem"))]
pub fn issue_member(authority: &str, role: &str, name: &str, file: &str) -> PyResult<String> {
    let role = [Role::User, Role::Executor].into_iter().find(|known| known.name() == role);
    let role = role.ok_or_else(|| raise("IdentityError", "a role is user or executor"))?;
    let authority = Authority::parse(authority).map_err(|error| raise("IdentityError", format!("{file}: {error}")))?;
    authority.issue(role, name).map_err(identity)
}

/// Rejects the text of an identity file that no member of either role could use. `file` names it in errors.
#[pyfunction]
pub fn check_member(text: &str, file: &str) -> PyResult<()> {
    to_member(text).map(drop).map_err(|error| raise("IdentityError", format!("{file}: {error}")))
}

/// Reads an identity file: that of a user, or of another member of the grid.
pub fn to_member(text: &str) -> Result<Member, IdentityError> {
    match Member::parse(text, Role::User) {
        Err(IdentityError::Role { .. }) => Member::parse(text, Role::Executor),
        parsed => parsed,
    }
}
