//! What the processes of a file do together.

use crate::collective::{Call, everybody_says};
use crate::error::{Class, Error, Result, fail};

/// Waits for everybody. The first failure is everybody's, and `own`, the arguments that must be the same everywhere, must
/// be so.
pub async fn agree(call: &Call, own: Result<Vec<u8>>) -> Result<()> {
    let word = match &own {
        Ok(arguments) => [&[0, 0], arguments.as_slice()].concat(),
        Err(error) => [&[1, error.class as i32 as u8], error.text.as_bytes()].concat(),
    };
    let words = everybody_says(call, word).await?;
    let own = own?; // what it says itself needs no rank
    for (rank, word) in words.iter().enumerate() {
        match word.split_first_chunk() {
            Some(([0, _], arguments)) if arguments == own => {}
            Some(([0, _], _)) => return fail(Class::NotSame, format!("rank {rank} has other arguments")),
            Some(([_, class], text)) => {
                let class = Class::ALL.iter().find(|known| **known as i32 == i32::from(*class));
                let text = format!("at rank {rank}: {}", String::from_utf8_lossy(text));
                return Err(Error::new(class.copied().unwrap_or(Class::Other), text));
            }
            None => return fail(Class::Intern, format!("rank {rank} says nothing")),
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
