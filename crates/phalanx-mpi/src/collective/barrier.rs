use super::Call;
use crate::error::Result;

/// Nobody returns before all have called: in rounds of growing distance, each hears of twice as many ("dissemination").
pub async fn barrier(call: &Call) -> Result<()> {
    let (rank, size) = (call.rank(), call.size());
    let mut distance = 1;
    while distance < size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        call.exchange(to, &[], from, &mut []).await?;
        distance *= 2;
    }
    Ok(())
}
