//! How a datatype was made, for MPI_Type_get_envelope and MPI_Type_get_contents (MPI 5.0, 4.1.13).

use super::Datatype;
use std::sync::Arc;

/// The call that made it; the numbers are the standard interface's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Combiner {
    /// MPI_COMBINER_NAMED: a predefined datatype.
    Named = 101,
    /// MPI_COMBINER_DUP.
    Dup = 102,
    /// MPI_COMBINER_CONTIGUOUS.
    Contiguous = 103,
    /// MPI_COMBINER_VECTOR.
    Vector = 104,
    /// MPI_COMBINER_HVECTOR.
    Hvector = 105,
    /// MPI_COMBINER_INDEXED.
    Indexed = 106,
    /// MPI_COMBINER_HINDEXED.
    Hindexed = 107,
    /// MPI_COMBINER_INDEXED_BLOCK.
    IndexedBlock = 108,
    /// MPI_COMBINER_HINDEXED_BLOCK.
    HindexedBlock = 109,
    /// MPI_COMBINER_STRUCT.
    Struct = 110,
    /// MPI_COMBINER_SUBARRAY.
    Subarray = 111,
    /// MPI_COMBINER_DARRAY.
    Darray = 112,
    /// MPI_COMBINER_F90_REAL.
    F90Real = 113,
    /// MPI_COMBINER_F90_COMPLEX.
    F90Complex = 114,
    /// MPI_COMBINER_F90_INTEGER.
    F90Integer = 115,
    /// MPI_COMBINER_RESIZED.
    Resized = 116,
    /// MPI_COMBINER_VALUE_INDEX.
    ValueIndex = 117,
}

impl Combiner {
    /// Datatypes that are there without being made: they cannot be freed.
    pub fn is_predefined(self) -> bool {
        matches!(self, Combiner::Named | Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer)
    }
}

/// The arguments of the call, in the order in which the standard gives them back.
#[derive(Debug, Clone)]
pub struct Contents {
    /// The call.
    pub combiner: Combiner,
    /// Its arguments of type int.
    pub integers: Vec<i64>,
    /// Its arguments of type MPI_Aint.
    pub addresses: Vec<isize>,
    /// Only when the call was one for large counts (MPI_Type_vector_c, ...).
    pub counts: Vec<i64>,
    /// Its datatypes.
    pub types: Vec<Arc<Datatype>>,
}

impl Contents {
    pub(super) fn new(combiner: Combiner, types: &[&Arc<Datatype>]) -> Contents {
        let types = types.iter().map(|&datatype| datatype.clone()).collect();
        Contents { combiner, integers: Vec::new(), addresses: Vec::new(), counts: Vec::new(), types }
    }

    pub(super) fn integers(self, integers: impl IntoIterator<Item = i64>) -> Contents {
        Contents { integers: integers.into_iter().collect(), ..self }
    }

    pub(super) fn addresses(self, addresses: impl IntoIterator<Item = isize>) -> Contents {
        Contents { addresses: addresses.into_iter().collect(), ..self }
    }

    /// Of a structure.
    pub(super) fn blocklengths(&self) -> impl Iterator<Item = usize> {
        let given = if self.counts.is_empty() { &self.integers } else { &self.counts };
        given.iter().skip(1).map(|length| *length as usize)
    }

    /// As the call for large counts gives them back.
    pub(super) fn large(self) -> Contents {
        let Contents { combiner, mut integers, addresses, types, .. } = self;
        let counts = match combiner {
            Combiner::Subarray => integers.drain(1..integers.len() - 1).collect(),
            Combiner::Darray => integers.drain(3..3 + integers[2] as usize).collect(),
            _ => integers.drain(..).chain(addresses.into_iter().map(|address| address as i64)).collect(),
        };
        Contents { combiner, integers, addresses: Vec::new(), counts, types }
    }

    /// Integers and addresses as the call without large counts has them.
    pub(super) fn arguments(&self) -> (Vec<i64>, Vec<isize>) {
        let mut integers = self.integers.clone();
        if self.counts.is_empty() {
            return (integers, self.addresses.clone());
        }
        let place = match self.combiner {
            Combiner::Subarray => 1,
            Combiner::Darray => 3,
            _ => integers.len(),
        };
        integers.splice(place..place, self.counts.iter().copied());
        let addresses = match self.combiner {
            Combiner::Hvector | Combiner::HindexedBlock => integers.split_off(2),
            Combiner::Hindexed | Combiner::Struct => integers.split_off(1 + integers[0] as usize),
            Combiner::Resized => std::mem::take(&mut integers),
            _ => Vec::new(),
        };
        (integers, addresses.into_iter().map(|address| address as isize).collect())
    }
}
