//! `phalanx._native`: the engines and drivers as Python sees them. Conversions and errors, no logic.

#[cfg(windows)]
mod absent;
mod asked;
#[cfg(unix)]
mod bsp;
mod buffers;
#[cfg(unix)]
mod comm;
mod errors;
mod executor;
mod files;
mod graph;
mod grid;
mod hub;
mod interpreter;
mod jobs;
mod lan;
mod manager;
mod needs;
mod owners;
mod policy;
#[cfg(unix)]
mod ranks;
mod space;
mod text;
mod tokens;
mod transfer;
mod turn;
mod weights;

#[cfg(windows)]
use absent::{Bells, Bsp, Comm, CommDialling, CommListener, CommRules, Launcher};
#[cfg(unix)]
use bsp::Bsp;
#[cfg(unix)]
use comm::{Bells, Comm, CommDialling, CommListener, CommRules};
use pyo3::prelude::*;
#[cfg(unix)]
use ranks::Launcher;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<buffers::Region>()?;
    module.add_class::<Bsp>()?;
    module.add_class::<Bells>()?;
    module.add_class::<Comm>()?;
    module.add_class::<CommDialling>()?;
    module.add_class::<CommListener>()?;
    module.add_class::<CommRules>()?;
    module.add_class::<executor::Executor>()?;
    module.add_function(wrap_pyfunction!(executor::cores, module)?)?;
    module.add_function(wrap_pyfunction!(executor::gpus, module)?)?;
    module.add_function(wrap_pyfunction!(needs::is_word, module)?)?;
    module.add_function(wrap_pyfunction!(needs::meet_needs, module)?)?;
    module.add_function(wrap_pyfunction!(needs::needs_in_words, module)?)?;
    module.add_class::<files::Files>()?;
    module.add_class::<files::Comparison>()?;
    module.add_class::<files::Listing>()?;
    module.add_class::<files::NewFile>()?;
    module.add_class::<files::OpenFile>()?;
    module.add_class::<interpreter::Interpreter>()?;
    module.add_class::<turn::Turn>()?;
    module.add_class::<Launcher>()?;
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
    module.add_class::<hub::Hub>()?;
    module.add_class::<hub::HubServer>()?;
    module.add_function(wrap_pyfunction!(hub::found_grid, module)?)?;
    module.add_function(wrap_pyfunction!(hub::found_member, module)?)?;
    module.add_function(wrap_pyfunction!(hub::token_parts, module)?)?;
    module.add_function(wrap_pyfunction!(hub::join_grid, module)?)?;
    module.add_function(wrap_pyfunction!(hub::become_owner, module)?)?;
    module.add_function(wrap_pyfunction!(hub::join_hub, module)?)?;
    module.add_function(wrap_pyfunction!(hub::hub_members, module)?)?;
    module.add_function(wrap_pyfunction!(hub::hub_status, module)?)?;
    module.add_function(wrap_pyfunction!(hub::hub_history, module)?)?;
    module.add_function(wrap_pyfunction!(hub::hub_invite, module)?)?;
    module.add_function(wrap_pyfunction!(hub::user_token, module)?)?;
    module.add_function(wrap_pyfunction!(hub::hub_lend, module)?)?;
    module.add_function(wrap_pyfunction!(hub::hub_end_loan, module)?)?;
    module.add_function(wrap_pyfunction!(hub::hub_loans, module)?)?;
    module.add_function(wrap_pyfunction!(hub::hub_expel, module)?)?;
    module.add_function(wrap_pyfunction!(hub::hub_leave, module)?)?;
    module.add_function(wrap_pyfunction!(hub::hub_renew, module)?)?;
    module.add_class::<jobs::JobsAtHub>()?;
    module.add_function(wrap_pyfunction!(hub::guide_to, module)?)?;
    module.add_function(wrap_pyfunction!(lan::find_on_lan, module)?)?;
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
    module.add_function(wrap_pyfunction!(asked::ask_statuses, module)?)?;
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
