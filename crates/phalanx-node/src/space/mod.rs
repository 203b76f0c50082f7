//! Tuple spaces that other processes and machines reach: the server, its sessions, and the client.
//!
//! One thread per session reads a client's requests and answers them itself. A tuple that a request waits for is sent by the
//! thread that put it. So a request is never handed from thread to thread.

pub mod log;

mod access;
mod address;
mod asking;
mod bounds;
mod budget;
mod client;
mod connect;
mod deciding;
mod ending;
mod error;
mod hosted;
mod keeping;
mod leader;
mod members;
mod outlet;
mod replica;
mod seeking;
mod server;
mod session;
mod silence;
mod spaces;
mod takes;
mod visitor;
mod waiting;

pub use access::{Access, Rights, Verb, Who};
pub use address::{Place, SpaceAddress, SpaceAddressError, check_name};
pub use client::{Client, SILENT};
pub use connect::Connect;
pub use deciding::asks;
pub use ending::end_process;
pub use error::ClientError;
pub use hosted::{Hosted, Locked, Outlet, Told};
pub use keeping::Directory;
pub(crate) use keeping::{Unfilled, fill_from};
pub(crate) use replica::FIRST_JOINING;
pub use server::{Server, ServerOptions};
pub(crate) use server::{Service, listen_at_path};
pub use spaces::{Caps, Spaces};
pub use waiting::{Answer, Done, Event, Nudge};
