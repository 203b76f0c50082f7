//! An executor's part in transfers: whom it serves, which transfers go on, and copies from one executor to another.

mod admission;
mod carrying;
mod requests;
pub(super) mod service;
mod transfers;
