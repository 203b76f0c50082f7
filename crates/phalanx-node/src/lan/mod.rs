//! Executors without a hub: an executor [announces](Announcing) that it listens, and a user [finds](find) those of a grid, on the local
//! network. [`phalanx_core::lan`] decides; this is its driver.

mod announcing;
mod finding;

pub use announcing::Announcing;
pub use finding::{Found, find};
