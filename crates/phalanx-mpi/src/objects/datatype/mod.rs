//! Datatypes: which bytes of memory a message is made of (MPI 5.0, chapter 4).
//!
//! A datatype is made by [`construct`](self) functions named as the standard names them, and never changes then but
//! for being committed and named. Whoever uses one holds an `Arc` of it, so that freeing its handle ends nothing.

mod array;
mod ascend;
mod bounds;
mod construct;
mod contents;
mod elements;
mod external;
pub mod fortran;
mod handles;
mod in_files;
pub mod kind;
mod layout;
mod map;
pub mod number;
mod pack;
mod signature;
mod walk;

pub use array::{DEFAULT_ARGUMENT, Distribution, Order};
pub use contents::{Combiner, Contents};
pub use kind::Kind;

use crate::error::{Class, Result, fail};
use map::Map;
use phalanx_net::sync::lock;
use signature::Only;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const LOWEST_ADDRESS: usize = 1 << 12;

/// See the module.
#[derive(Debug)]
pub struct Datatype {
    map: Map,
    lower_bound: isize,
    extent: isize,
    /// From which datatypes it was made; what the deepest of them counts, and one.
    contents: Contents,
    depth: usize,
    committed: AtomicBool,
    name: Mutex<Option<String>>,
    /// 0 when it has none.
    handle: AtomicU32,
}

impl Datatype {
    /// Bytes of data in one element.
    #[inline]
    pub fn size(&self) -> usize {
        self.map.layout.size
    }

    /// Bytes from one element of an array to the next; may be negative.
    pub fn extent(&self) -> isize {
        self.extent
    }

    /// The lower bound, in bytes.
    pub fn lower_bound(&self) -> isize {
        self.lower_bound
    }

    /// Where the first byte of data lies in memory, from the buffer's address.
    #[inline]
    pub fn true_lower_bound(&self) -> isize {
        self.map.bounds.data.map_or(0, |data| data.low)
    }

    /// From the first byte of data to after the last, gaps included.
    pub fn true_extent(&self) -> isize {
        self.map.bounds.data.map_or(0, |data| data.high - data.low)
    }

    /// `count` elements are one run of `count * size()` bytes that begins at `true_lower_bound()`, for every count.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.size() == 0 || (self.one_run() && self.extent == self.size() as isize)
    }

    /// Where the data of `count` elements begins when it is one run; a single element may be one where two are not.
    pub fn contiguous_at(&self, count: usize) -> Option<isize> {
        (self.is_contiguous() || (count <= 1 && self.one_run())).then(|| self.true_lower_bound())
    }

    fn one_run(&self) -> bool {
        matches!(self.map.layout.shape, layout::Shape::Run)
    }

    /// Bytes of data in `count` elements; None when it is no size.
    #[inline]
    pub fn packed_size(&self, count: usize) -> Option<usize> {
        self.size().checked_mul(count).filter(|size| isize::try_from(*size).is_ok())
    }

    /// How many whole elements `bytes` of data are; None when they are no number of them (MPI_Get_count).
    pub fn count(&self, bytes: usize) -> Option<usize> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => (bytes % size == 0).then_some(bytes / size),
        }
    }

    /// The predefined datatype that all of its leaves are.
    pub fn basic(&self) -> Option<&'static Kind> {
        match self.map.signature.only {
            Only::One(kind) => Some(kind),
            _ => None,
        }
    }

    /// The predefined datatype that it is itself, or a duplicate of.
    pub fn predefined(&self) -> Option<&'static Kind> {
        match (self.contents.combiner, self.contents.types.first()) {
            (Combiner::Dup, Some(original)) => original.predefined(),
            (combiner, _) => self.basic().filter(|_| combiner.is_predefined()),
        }
    }

    /// A number that is the same for the same sequence of basic types, for comparing what several processes pass; None
    /// when there are bytes inside, which programs match with anything.
    pub fn signature(&self, count: usize) -> Option<u64> {
        self.map.signature.repeated(count).number()
    }

    /// How it was made (MPI_Type_get_envelope, MPI_Type_get_contents).
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// From now on it may be used in communication.
    pub fn commit(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }

    /// What communication asks of its arguments.
    pub fn check_committed(&self) -> Result<()> {
        match self.committed.load(Ordering::Relaxed) {
            true => Ok(()),
            false => fail(Class::Type, "datatype is not committed"),
        }
    }

    /// Bytes of a message of `count` elements at `buffer`: what every call that sends, receives or packs asks first.
    #[inline]
    pub fn message(&self, buffer: *const u8, count: usize) -> Result<usize> {
        self.check_committed()?;
        match self.packed_size(count) {
            Some(0) => Ok(0),
            // No process has memory at the lowest addresses, so an invalid buffer is one that is NULL, or stands for
            // something else.
            Some(_) if buffer.wrapping_offset(self.true_lower_bound()).addr().wrapping_add(1) < LOWEST_ADDRESS => {
                fail(Class::Buffer, format!("buffer is {buffer:p}, where there is no memory"))
            }
            Some(bytes) => Ok(bytes),
            None => fail(Class::Count, format!("{count} elements are more than there can be")),
        }
    }

    /// What the program called it, or the standard (MPI_Type_get_name); empty when nobody did.
    pub fn name(&self) -> String {
        let given = lock(&self.name).clone();
        let own = || match self.contents.combiner {
            Combiner::Named => self.basic().map_or("", |kind| kind.name).to_string(),
            _ => String::new(),
        };
        given.unwrap_or_else(own)
    }

    /// Names the datatype.
    pub fn set_name(&self, name: &str) {
        *lock(&self.name) = Some(name.to_string());
    }
}
