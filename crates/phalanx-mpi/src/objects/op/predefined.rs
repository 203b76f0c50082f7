//! The operations of the standard, and to which datatypes they apply.

use super::{Function, loops, pairs};
use crate::error::{Class, Result, fail};
use crate::objects::datatype::Datatype;
use crate::objects::datatype::kind::{Family, Form, Kind};

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

    /// The operation with this handle.
    pub fn of(handle: u32) -> Option<Predefined> {
        Predefined::ALL.into_iter().find(|op| *op as u32 == handle)
    }

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
            _ if matches!(self, Replace | NoOp) => {
                fail(Class::Op, format!("{} is for windows, not for reductions", self.constant()))
            }
            Some(kind) => self.for_kind(kind),
            None => fail(Class::Op, format!("{} is not defined for derived datatypes", self.constant())),
        }
    }

    /// Its function for elements of one kind, as they lie in memory.
    pub fn for_kind(self, kind: &Kind) -> Result<Function> {
        if !self.is_defined_for(kind.family) {
            return fail(Class::Op, format!("{} is not defined for {}", self.constant(), kind.name));
        }
        let function = match kind.form {
            Form::One(_) if kind.family == Family::Logical => loops::of_logical(self, kind.size()),
            Form::One(number) => loops::of_numbers(self, number),
            Form::Complex(number) => loops::of_complex(self, number),
            Form::Pair(value, index) => pairs::of_pairs(self, value, index),
        };
        match function {
            Some(function) => Ok(function),
            None => fail(
                Class::UnsupportedOperation,
                format!("{} of {} is not computed on this machine", self.constant(), kind.name),
            ),
        }
    }

    /// MPI 5.0, 5.9.2 and 5.9.4. Logical operations are also allowed on what MPICH and Open MPI allow them on.
    fn is_defined_for(self, family: Family) -> bool {
        use Family::*;
        match self {
            Max | Min => matches!(family, Integer | FortranInteger | Floating | Address),
            Sum | Prod => matches!(family, Integer | FortranInteger | Floating | Complex | Address),
            Land | Lor | Lxor => matches!(family, Integer | FortranInteger | Logical | Floating | Address | Byte),
            Band | Bor | Bxor => matches!(family, Integer | FortranInteger | Byte | Address),
            Minloc | Maxloc => family == Pair,
            Replace | NoOp => false,
        }
    }
}
