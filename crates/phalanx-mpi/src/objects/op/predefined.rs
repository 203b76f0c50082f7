//! The operations of the standard, and to which datatypes they apply.

use crate::objects::datatype::kind::Family;

/// The numbers are the standard interface's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Predefined {
    /// MPI_SUM.
    Sum = 0x21,
    /// MPI_MIN.
    Min = 0x22,
    /// MPI_MAX.
    Max = 0x23,
    /// MPI_PROD.
    Prod = 0x24,
    /// MPI_BAND.
    Band = 0x28,
    /// MPI_BOR.
    Bor = 0x29,
    /// MPI_BXOR.
    Bxor = 0x2a,
    /// MPI_LAND.
    Land = 0x30,
    /// MPI_LOR.
    Lor = 0x31,
    /// MPI_LXOR.
    Lxor = 0x32,
    /// MPI_MINLOC.
    Minloc = 0x38,
    /// MPI_MAXLOC.
    Maxloc = 0x39,
    /// MPI_REPLACE.
    Replace = 0x3c,
    /// MPI_NO_OP.
    NoOp = 0x3d,
}

use Predefined::*;

impl Predefined {
    /// All of them.
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

    /// MPI 5.0, 5.9.2 and 5.9.4. Logical operations are also allowed on what MPICH and Open MPI allow them on.
    pub(super) fn is_defined_for(self, family: Family) -> bool {
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
