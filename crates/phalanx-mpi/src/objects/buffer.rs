//! Memory that a program lends to an operation, as elements of a datatype.

use crate::error::{Class, Result, fail};
use crate::objects::datatype::Datatype;
use crate::process::engine::{Outgoing, Scatter, Target};
use std::sync::Arc;

/// Elements in a program's memory.
#[derive(Clone)]
pub struct Buffer {
    /// The address of the first element.
    pub start: *mut u8,
    /// The number of elements.
    pub count: usize,
    /// The datatype of each.
    pub datatype: Arc<Datatype>,
}

// SAFETY: the memory is lent to the operation, whichever thread works on it.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Checks what communication asks of its arguments. A null buffer may be the beginning of memory (MPI_BOTTOM) where
    /// the datatype has addresses of its own, and anything where there is no data.
    pub fn new(start: *mut u8, count: usize, datatype: Arc<Datatype>) -> Result<Buffer> {
        datatype.check_committed()?;
        let Some(bytes) = datatype.packed_size(count) else {
            return fail(Class::Count, format!("{count} elements of {} bytes are too many", datatype.size()));
        };
        if bytes > 0 && start.is_null() && datatype.true_lower_bound() == 0 {
            return fail(Class::Buffer, format!("the buffer of {bytes} bytes is NULL"));
        }
        Ok(Buffer { start, count, datatype })
    }

    /// Bytes of data.
    pub fn bytes(&self) -> usize {
        self.datatype.size() * self.count
    }

    /// Its data for a send: in place if it is one run, otherwise packed.
    #[inline]
    pub fn outgoing(&self) -> Outgoing {
        match self.datatype.contiguous_at(self.count) {
            Some(offset) => Outgoing::Borrowed(self.start.wrapping_offset(offset), self.bytes()),
            None => {
                let mut packed = vec![0; self.bytes()];
                // SAFETY: the caller of the send lends this memory.
                unsafe { self.datatype.pack(self.start, self.count, 0, &mut packed) };
                Outgoing::Owned(packed)
            }
        }
    }

    /// Where data that is received goes.
    #[inline]
    pub fn target(&self) -> Target {
        match self.datatype.contiguous_at(self.count) {
            Some(offset) => Target::Plain(self.start.wrapping_offset(offset), self.bytes()),
            None => Target::Scattered(Arc::new(self.clone())),
        }
    }
}

impl Scatter for Buffer {
    fn capacity(&self) -> usize {
        self.bytes()
    }

    fn put(&self, position: usize, bytes: &[u8]) {
        // SAFETY: the caller of the receive lends this memory.
        unsafe { self.datatype.unpack(self.start, self.count, position, bytes) };
    }
}
