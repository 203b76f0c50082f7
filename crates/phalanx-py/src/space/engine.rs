//! What a space in this process and a space of another process have in common. Arguments that Python passes to both are converted
//! here.

use super::encode::Encoding;
use super::options::{Numbered, Place, to_cursor, to_get, to_once, to_out_options};
use phalanx_core::ids::TransactionId;
use phalanx_core::space::{Get, OutOptions};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Most bytes of tuples in one page of a bulk read or take.
const PAGE: u64 = 16 << 20;

/// The options of an `out` as Python passes them.
pub struct Out<'a, 'py> {
    pub lease: Option<f64>,
    pub key: Option<&'a Bound<'py, PyAny>>,
    pub label: Option<&'a Bound<'py, PyAny>>,
    pub priority: Option<i64>,
    pub once: Option<Numbered>,
}

/// A read or take, converted.
pub struct Search<P> {
    pub pattern: P,
    pub get: Get,
    pub transaction: Option<TransactionId>,
    /// Whether a taken tuple must be acknowledged. In a transaction it need not, because the commit decides.
    pub acknowledges: bool,
}

impl<P> Search<P> {
    /// Asks for a page of at most `limit` tuples, from the position `after` on.
    pub fn paged(mut self, limit: u32, after: Option<Place>) -> Search<P> {
        (self.get.limit, self.get.page_bytes, self.get.after) = (limit.max(1), PAGE, after.map(to_cursor));
        self
    }
}

/// A space, as `phalanx/space/_engine.py` describes it.
pub trait Engine {
    /// An encoded tuple.
    type Encoded;
    /// An encoded template.
    type Pattern;

    fn encoding(&self) -> &Encoding;

    fn encode(&self, fields: &Bound<'_, PyTuple>) -> PyResult<Self::Encoded>;

    fn pattern(&self, template: &Bound<'_, PyTuple>, query: Option<&Bound<'_, PyAny>>) -> PyResult<Self::Pattern>;

    /// Puts tuples, all of them or none. Returns the number of the first one.
    fn put<T>(&self, py: Python<'_>, tuples: T, options: OutOptions, transaction: Option<u128>) -> PyResult<u64>
    where
        T: AsRef<[Self::Encoded]> + IntoIterator<Item = Self::Encoded>;

    fn put_fields(
        &self,
        py: Python<'_>,
        fields: &Bound<'_, PyTuple>,
        out: Out<'_, '_>,
        transaction: Option<u128>,
    ) -> PyResult<u64> {
        let tuple = self.encode(fields)?;
        self.put(py, [tuple], self.out_options(out)?, transaction)
    }

    fn put_many(
        &self,
        py: Python<'_>,
        tuples: &[Bound<'_, PyTuple>],
        out: Out<'_, '_>,
        transaction: Option<u128>,
    ) -> PyResult<()> {
        let tuples = tuples.iter().map(|fields| self.encode(fields)).collect::<PyResult<Vec<_>>>()?;
        self.put(py, tuples, self.out_options(out)?, transaction).map(drop)
    }

    fn out_options(&self, out: Out<'_, '_>) -> PyResult<OutOptions> {
        let options = to_out_options(out.lease, out.key, out.label, out.priority, self.encoding())?;
        Ok(OutOptions { once: out.once.map(to_once), ..options })
    }

    fn search(
        &self,
        template: &Bound<'_, PyTuple>,
        take: bool,
        select: &Bound<'_, PyTuple>,
        query: Option<&Bound<'_, PyAny>>,
        transaction: Option<u128>,
    ) -> PyResult<Search<Self::Pattern>> {
        let (pattern, get) = (self.pattern(template, query)?, to_get(take, select, self.encoding())?);
        let acknowledges = take && transaction.is_none();
        Ok(Search { pattern, get, transaction: transaction.map(TransactionId), acknowledges })
    }
}
