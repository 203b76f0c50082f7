//! The operations of the standard, and to which datatypes they apply.

use super::Function;
use crate::datatype::{Datatype, Kind};
use crate::error::{Class, Result, fail};

/// The numbers are the standard interface's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Predefined {
    Sum = 0x21,
    Min = 0x22,
    Max = 0x23,
    Prod = 0x24,
    Band = 0x28,
    Bor = 0x29,
    Bxor = 0x2a,
    Land = 0x30,
    Lor = 0x31,
    Lxor = 0x32,
    Minloc = 0x38,
    Maxloc = 0x39,
    Replace = 0x3c,
    NoOp = 0x3d,
}

use Predefined::*;

impl Predefined {
    pub const ALL: [Predefined; 14] =
        [Sum, Min, Max, Prod, Band, Bor, Bxor, Land, Lor, Lxor, Minloc, Maxloc, Replace, NoOp];

    /// As C programs spell it.
    pub fn constant(self) -> String {
        match self {
            NoOp => "MPI_NO_OP".to_string(),
            op => format!("MPI_{op:?}").to_uppercase(),
        }
    }

    pub(super) fn is_commutative(self) -> bool {
        !matches!(self, Replace | NoOp)
    }

    /// Its function for a whole datatype: reductions allow predefined datatypes only.
    pub(super) fn for_reduction(self, datatype: &Datatype) -> Result<Function> {
        match datatype.predefined() {
            Some(kind) => self.for_kind(kind),
            None => fail(Class::Op, format!("{} is not defined for derived datatypes", self.constant())),
        }
    }

    /// Its function for one kind of numbers.
    pub fn for_kind(self, kind: &Kind) -> Result<Function> {
        fail(Class::Op, format!("{} is not defined for {}", self.constant(), kind.name))
    }
}
