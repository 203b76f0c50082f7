//! All wait for all.

use super::{Call, across, levels};
use crate::error::Result;

/// Nobody returns before all have called, in both groups of an intercommunicator.
pub async fn barrier(call: &Call) -> Result<()> {
    match call.comm.remote.is_some() {
        true => across::barrier(call).await,
        false => levels::barrier(call).await,
    }
    call.outcome()
}
