//! Which function computes an operation of the standard.

use super::{Function, Predefined, loops, pairs};
use crate::error::{Class, Result, fail};
use crate::objects::datatype::Datatype;
use crate::objects::datatype::kind::{Family, Form, Kind};

impl Predefined {
    /// Its function for a whole datatype: reductions allow predefined datatypes only.
    pub(super) fn for_reduction(self, datatype: &Datatype) -> Result<Function> {
        match datatype.predefined() {
            _ if matches!(self, Predefined::Replace | Predefined::NoOp) => {
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
}
