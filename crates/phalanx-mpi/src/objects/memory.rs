//! Memory that programs ask MPI for (MPI 5.0, 9.2).

use crate::error::{Class, Result, fail};
use phalanx_net::sync::lock;
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Every allocation begins at a cache line.
const ALIGNMENT: usize = 64;
/// What was given out, by address, so that nothing else is freed.
static GIVEN: Mutex<BTreeMap<usize, Layout>> = Mutex::new(BTreeMap::new());

/// Memory of this many bytes (MPI_Alloc_mem).
pub fn allocate(bytes: usize) -> Result<*mut u8> {
    let Ok(layout) = Layout::from_size_align(bytes.max(1), ALIGNMENT) else {
        return fail(Class::NoMem, format!("{bytes} bytes are more than there can be"));
    };
    // SAFETY: the layout has at least one byte.
    let memory = unsafe { alloc(layout) };
    if memory.is_null() {
        return fail(Class::NoMem, format!("there are no {bytes} bytes of memory"));
    }
    lock(&GIVEN).insert(memory.expose_provenance(), layout);
    Ok(memory)
}

/// Gives the memory at an address back (MPI_Free_mem).
pub fn free(address: usize) -> Result<()> {
    if address == 0 {
        return Ok(());
    }
    match lock(&GIVEN).remove(&address) {
        // SAFETY: it came from `allocate` with this layout, and is not given out any more.
        Some(layout) => unsafe {
            dealloc(std::ptr::with_exposed_provenance_mut(address), layout);
            Ok(())
        },
        None => fail(Class::Base, "base is no memory of MPI_Alloc_mem"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_freed_once_and_only_if_it_was_given_out() {
        let memory = allocate(100).expect("there is memory").addr();
        assert_eq!(free(memory + 1).expect_err("inside").class, Class::Base);
        assert!(free(memory).is_ok() && free(memory).is_err() && free(0).is_ok());
        assert_eq!(allocate(isize::MAX as usize).expect_err("too much").class, Class::NoMem);
    }
}
