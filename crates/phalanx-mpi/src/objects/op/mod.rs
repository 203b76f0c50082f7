//! Operations of reductions (MPI 5.0, 5.9) and of accumulation in windows (12.3.4).
//!
//! A result is the same bits again for the same operands in the same order: nothing is computed in another precision,
//! fused or reordered. Which order there is, is the collective's to say.

mod accumulate;
mod functions;
mod half;
mod long_double;
mod loops;
mod pairs;
mod predefined;
mod truth;

pub(crate) use accumulate::combine;
pub use predefined::Predefined;

use crate::error::{Class, Result, fail};
use crate::objects::datatype::Datatype;
use crate::objects::handle::{FIRST, Table};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// `inout[i] = in[i] op inout[i]`, for `count` elements.
pub type Function = unsafe fn(*const u8, *mut u8, usize);

/// A user's: `(in, inout, count, the datatype's handle)`.
pub type UserFunction = dyn Fn(*const u8, *mut u8, usize, u32) + Send + Sync;

/// See the module.
pub enum Op {
    /// One of the standard's.
    Predefined(Predefined),
    /// One of the program's.
    User {
        /// Whether operands may change places.
        commutative: bool,
        /// The program's function.
        function: Box<UserFunction>,
    },
}

impl Op {
    /// An operation of the program's.
    pub fn user(commutative: bool, function: Box<UserFunction>) -> Arc<Op> {
        Arc::new(Op::User { commutative, function })
    }

    /// Operands may change places. All predefined operations may, but for MPI_REPLACE and MPI_NO_OP.
    pub fn is_commutative(&self) -> bool {
        match self {
            Op::Predefined(op) => op.is_commutative(),
            Op::User { commutative, .. } => *commutative,
        }
    }

    /// Whether a reduction may use it with this datatype: to be asked before anything is sent.
    pub fn check(&self, datatype: &Datatype) -> Result<()> {
        match self {
            Op::Predefined(op) => op.for_reduction(datatype).map(|_| ()),
            Op::User { .. } => Ok(()),
        }
    }

    /// `inout[i] = incoming[i] op inout[i]` for `count` elements as they lie in memory.
    ///
    /// # Safety
    /// Both buffers must hold `count` elements of the datatype; they may be equal, but must not overlap otherwise.
    pub unsafe fn apply(
        &self,
        incoming: *const u8,
        inout: *mut u8,
        count: usize,
        datatype: &Arc<Datatype>,
    ) -> Result<()> {
        match self {
            Op::Predefined(op) => {
                let function = op.for_reduction(datatype)?;
                // SAFETY: the caller's promise; the function is for this datatype.
                unsafe { function(incoming, inout, count) };
                Ok(())
            }
            Op::User { function, .. } => datatype.with_handle(|handle| function(incoming, inout, count, handle)),
        }
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Predefined(op) => op.fmt(formatter),
            Op::User { commutative, .. } => write!(formatter, "User {{ commutative: {commutative} }}"),
        }
    }
}

/// Handles' kind; see [`crate::objects::handle`].
const KIND: u32 = 3;
static MADE: Table<Op> = Table::new(KIND);
static PREDEFINED: LazyLock<Vec<Arc<Op>>> =
    LazyLock::new(|| Predefined::ALL.iter().map(|op| Arc::new(Op::Predefined(*op))).collect());

/// MPI_OP_NULL.
const NULL: u32 = 0x20;

impl Op {
    /// The operation with this handle.
    pub fn of(handle: u32) -> Result<Arc<Op>> {
        let predefined = || PREDEFINED.get(Predefined::ALL.iter().position(|op| *op as u32 == handle)?).cloned();
        match if handle < FIRST { predefined() } else { MADE.get(handle) } {
            Some(op) => Ok(op),
            None if handle == NULL => fail(Class::Op, "op is MPI_OP_NULL"),
            None => fail(Class::Op, format!("op {handle:#x} does not exist, or was freed")),
        }
    }

    /// A handle for it: its own if it is predefined, else a new one.
    pub fn put(self: Arc<Op>) -> Result<u32> {
        match *self {
            Op::Predefined(op) => Ok(op as u32),
            Op::User { .. } => MADE.put(self).map_or_else(|| fail(Class::NoMem, "too many operations"), Ok),
        }
    }

    /// Frees the handle; reductions that use the operation go on.
    pub fn free(handle: u32) -> Result<()> {
        match *Op::of(handle)? {
            Op::Predefined(_) => fail(Class::Op, "op is predefined and cannot be freed"),
            Op::User { .. } => {
                MADE.take(handle);
                Ok(())
            }
        }
    }
}
