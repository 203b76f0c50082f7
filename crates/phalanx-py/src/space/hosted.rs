//! A space in this process, which can be served to others too.

pub use phalanx_node::space::{Hosted, Locked, Outlet};
