//! What processes tell each other about a call that they make together. It is decoded as what the call says: processes that
//! make different calls get an error.

use super::allgather::allgather;
use super::{Blocks, Call, Span};
use crate::error::{Class, Result, fail};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of memory that are allocated without a question whether there is so much.
const ALWAYS_THERE: usize = 16 << 20;

/// What the root says; the others need not know it.
pub async fn tell_all<T: Serialize + DeserializeOwned>(call: &Call, root: usize, word: Option<&T>) -> Result<T> {
    let own = word.filter(|_| call.rank() == root).map(packed).unwrap_or_default();
    unpacked(&everybody_says(call, own).await?[root])
}

/// What everybody says, by rank.
pub async fn everyone<T: Serialize + DeserializeOwned>(call: &Call, own: &T) -> Result<Vec<T>> {
    everybody_says(call, packed(own)).await?.iter().map(|bytes| unpacked(bytes)).collect()
}

/// What each has to say, by rank; each alone knows how long that is.
pub async fn everybody_says(call: &Call, own: Vec<u8>) -> Result<Vec<Vec<u8>>> {
    let (rank, size) = (call.rank(), call.size());
    let mut lengths = vec![0u8; 8 * size];
    lengths[8 * rank..][..8].copy_from_slice(&(own.len() as u64).to_le_bytes());
    let all = Span::of(&mut lengths);
    allgather(call, all.part(8 * rank, 8), &Blocks::Equal { all, each: 8 }).await;
    call.outcome()?;
    let length = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let mut all = lengths.chunks_exact(8).map(|bytes| zeroed(length(bytes))).collect::<Result<Vec<_>>>()?;
    all[rank] = own;
    let blocks = Blocks::Each(all.iter_mut().map(|bytes| Span::of(bytes)).collect());
    allgather(call, blocks.at(rank), &blocks).await;
    call.outcome().map(|()| all)
}

/// Memory for as many bytes as another process announces.
///
/// # Errors
/// There is not so much memory. Most often the bytes are no length, because the other process makes another call. An allocation that
/// fails would end this process.
pub fn zeroed(length: u64) -> Result<Vec<u8>> {
    let is_there = |length: &usize| *length <= ALWAYS_THERE || Vec::<u8>::new().try_reserve_exact(*length).is_ok();
    match usize::try_from(length).ok().filter(is_there) {
        Some(length) => Ok(vec![0; length]), // the system clears its pages when they are used
        None => {
            let text = format!("another process announces {length} bytes, for which there is no memory");
            fail(Class::NotSame, format!("{text}: do all processes make the same call?"))
        }
    }
}

/// A word as bytes.
pub fn packed(word: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(word).expect("words serialize into memory")
}

/// The word in these bytes. Fails if another call has sent them.
pub fn unpacked<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let different = |_| fail(Class::NotSame, "the processes do not make the same call");
    postcard::from_bytes(bytes).or_else(different)
}
