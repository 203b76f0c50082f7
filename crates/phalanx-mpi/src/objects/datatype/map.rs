//! All that construction computes of a datatype: where its bytes lie, how far it reaches, of what it is made.

use super::bounds::{Bounds, Span};
use super::kind::{Form, Kind};
use super::layout::Layout;
use super::signature::Signature;
use crate::error::{Class, Error, Result};

#[derive(Debug, Clone)]
pub(super) struct Map {
    pub layout: Layout,
    pub bounds: Bounds,
    pub signature: Signature,
}

impl Map {
    pub const EMPTY: Map = Map { layout: Layout::EMPTY, bounds: Bounds::EMPTY, signature: Signature::EMPTY };

    pub fn of(kind: &'static Kind) -> Map {
        let layout = match kind.form {
            Form::Pair(value, index) => {
                Layout::list([Layout::run(value.size()), Layout::run(index.size()).shifted(kind.second() as isize)])
            }
            _ => Layout::run(kind.size()),
        };
        let high = match kind.form {
            Form::Pair(_, index) => kind.second() + index.size(),
            _ => kind.size(),
        };
        Map { layout, bounds: Bounds::of(high, kind.align()), signature: Signature::of(kind) }
    }

    /// Bytes from one element of an array to the next.
    pub fn extent(&self) -> isize {
        self.bounds.span().map_or(0, |span| span.high - span.low)
    }

    /// `count` of it, `stride` bytes apart.
    pub fn repeated(&self, count: usize, stride: isize) -> Result<Map> {
        checked_size(self.layout.size.checked_mul(count))?;
        let bounds = self.bounds.repeated(count, stride).ok_or_else(too_large)?;
        Ok(Map { layout: self.layout.repeated(count, stride), bounds, signature: self.signature.repeated(count) })
    }

    pub fn shifted(self, by: isize) -> Result<Map> {
        let bounds = self.bounds.shifted(by).ok_or_else(too_large)?;
        Ok(Map { layout: self.layout.shifted(by), bounds, ..self })
    }

    /// With bounds that hold whatever the data's are.
    pub fn marked(self, lower_bound: isize, extent: isize) -> Result<Map> {
        let high = lower_bound.checked_add(extent).ok_or_else(too_large)?;
        let bounds = Bounds { marked: Some(Span { low: lower_bound, high }), ..self.bounds };
        Ok(Map { bounds, ..self })
    }

    /// Blocks of as many elements as `lengths` says, at `displacements` in bytes.
    pub fn blocks(&self, lengths: &[usize], displacements: &[isize]) -> Result<Map> {
        let (extent, element) = (self.extent(), Map { signature: Signature::EMPTY, ..self.clone() });
        let (mut layouts, mut bounds, mut total) = (Vec::new(), Bounds::EMPTY, 0usize);
        let (mut block, mut block_length) = (element.clone(), 1);
        for (&length, &displacement) in lengths.iter().zip(displacements).filter(|(length, _)| **length > 0) {
            if length != block_length {
                (block, block_length) = (element.repeated(length, extent)?, length);
            }
            bounds =
                block.bounds.shifted(displacement).and_then(|place| bounds.joined(&place)).ok_or_else(too_large)?;
            total = total.checked_add(length).ok_or_else(too_large)?;
            layouts.push(block.layout.shifted(displacement));
        }
        checked_size(self.layout.size.checked_mul(total))?;
        Ok(Map { layout: Layout::list(layouts), bounds, signature: self.signature.repeated(total) })
    }

    /// One after the other in the type map.
    pub fn list(parts: Vec<Map>) -> Result<Map> {
        let (mut size, mut bounds, mut signature) = (Some(0usize), Bounds::EMPTY, Signature::EMPTY);
        for part in &parts {
            size = size.and_then(|size| size.checked_add(part.layout.size));
            bounds = bounds.joined(&part.bounds).ok_or_else(too_large)?;
            signature = signature.followed(part.signature);
        }
        checked_size(size)?;
        Ok(Map { layout: Layout::list(parts.into_iter().map(|part| part.layout)), bounds, signature })
    }
}

fn checked_size(size: Option<usize>) -> Result<()> {
    size.filter(|size| isize::try_from(*size).is_ok()).map(|_| ()).ok_or_else(too_large)
}

pub(super) fn too_large() -> Error {
    Error::new(Class::Arg, "the datatype's size or extent is larger than an address")
}
