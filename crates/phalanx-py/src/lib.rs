//! `phalanx._native`: the engines and drivers as Python sees them. Conversions and errors, no logic.

mod asked;
mod bsp;
mod buffers;
mod errors;
mod executor;
mod files;
mod graph;
mod grid;
mod interpreter;
mod manager;
mod owners;
mod policy;
mod ranks;
mod space;
mod text;
mod tokens;
mod transfer;
mod turn;
mod weights;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<buffers::Region>()?;
    module.add_class::<bsp::Bsp>()?;
    module.add_class::<executor::Executor>()?;
    module.add_function(wrap_pyfunction!(executor::cores, module)?)?;
    module.add_class::<files::Files>()?;
    module.add_class::<files::Comparison>()?;
    module.add_class::<files::Listing>()?;
    module.add_class::<files::NewFile>()?;
    module.add_class::<files::OpenFile>()?;
    module.add_class::<interpreter::Interpreter>()?;
    module.add_class::<turn::Turn>()?;
    module.add_class::<ranks::Launcher>()?;
    module.add_class::<manager::Mailbox>()?;
    module.add_class::<manager::Manager>()?;
    module.add_class::<space::LocalSpace>()?;
    module.add_class::<space::SealedTuple>()?;
    module.add_class::<space::SealingKey>()?;
    module.add_class::<space::RemoteSpace>()?;
    module.add_class::<space::SpaceServer>()?;
    module.add_class::<transfer::Copy>()?;
    module.add_function(wrap_pyfunction!(asked::check_version, module)?)?;
    module.add_function(wrap_pyfunction!(executor::cage_here, module)?)?;
    module.add_function(wrap_pyfunction!(grid::create_grid, module)?)?;
    module.add_function(wrap_pyfunction!(grid::is_locked_grid, module)?)?;
    module.add_function(wrap_pyfunction!(grid::lock_grid, module)?)?;
    module.add_function(wrap_pyfunction!(grid::issue_member, module)?)?;
    module.add_function(wrap_pyfunction!(grid::request_member, module)?)?;
    module.add_function(wrap_pyfunction!(grid::revoke_members, module)?)?;
    module.add_function(wrap_pyfunction!(grid::sign_member, module)?)?;
    module.add_function(wrap_pyfunction!(grid::issued_certificates, module)?)?;
    module.add_function(wrap_pyfunction!(grid::renew_members, module)?)?;
    module.add_function(wrap_pyfunction!(grid::renew_identity, module)?)?;
    module.add_function(wrap_pyfunction!(grid::finish_news, module)?)?;
    module.add_class::<grid::LockedFolder>()?;
    module.add_function(wrap_pyfunction!(grid::certificate_of, module)?)?;
    module.add_function(wrap_pyfunction!(grid::check_member, module)?)?;
    module.add_function(wrap_pyfunction!(grid::acts_at, module)?)?;
    module.add_function(wrap_pyfunction!(grid::acts_for, module)?)?;
    module.add_function(wrap_pyfunction!(grid::delegation_lasts, module)?)?;
    module.add_function(wrap_pyfunction!(grid::how_to_delegate, module)?)?;
    module.add_function(wrap_pyfunction!(grid::machines_given, module)?)?;
    module.add_function(wrap_pyfunction!(grid::mark_given, module)?)?;
    module.add_function(wrap_pyfunction!(grid::known_members, module)?)?;
    module.add_function(wrap_pyfunction!(grid::forget_member, module)?)?;
    module.add_function(wrap_pyfunction!(text::escape, module)?)?;
    module.add_function(wrap_pyfunction!(weights::bytes_if_alone, module)?)?;
    module.add_function(wrap_pyfunction!(asked::ask_executors, module)?)?;
    module.add_function(wrap_pyfunction!(policy::explain, module)?)?;
    module.add_function(wrap_pyfunction!(policy::weaker, module)?)?;
    module.add_function(wrap_pyfunction!(space::decode_fields, module)?)?;
    module.add_function(wrap_pyfunction!(space::encode_fields, module)?)?;
    module.add_function(wrap_pyfunction!(space::split_fields, module)?)?;
    module.add_function(wrap_pyfunction!(space::record_head, module)?)?;
    module.add_function(wrap_pyfunction!(space::end_spaces, module)?)?;
    module.add_function(wrap_pyfunction!(space::space_was_forked, module)?)?;
    Ok(())
}
