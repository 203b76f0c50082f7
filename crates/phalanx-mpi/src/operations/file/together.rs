//! What the processes of a file do together.

use crate::error::{Class, Result, fail};
use crate::operations::collective::{Call, everyone};

/// Waits for everybody. The first failure is everybody's, and `own`, the arguments that must be the same everywhere, must
/// be so.
pub async fn agree(call: &Call, own: Result<Vec<u8>>) -> Result<()> {
    let said = everyone(call, &own).await?;
    let own = own?; // what it says itself needs no rank
    for (rank, said) in said.into_iter().enumerate() {
        match said {
            Ok(arguments) if arguments == own => {}
            Ok(_) => return fail(Class::NotSame, format!("rank {rank} has other arguments")),
            Err(error) => return fail(error.class, format!("at rank {rank}: {}", error.text)),
        }
    }
    Ok(())
}

/// When all are there the first process does the work; the outcome is everybody's.
pub async fn first_does(call: &Call, arguments: Result<Vec<u8>>, work: impl FnOnce() -> Result<()>) -> Result<()> {
    agree(call, arguments).await?;
    let outcome = if call.rank() == 0 { work() } else { Ok(()) };
    agree(call, outcome.map(|()| Vec::new())).await
}
