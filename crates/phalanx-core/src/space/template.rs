//! Templates: what a tuple must look like.
//!
//! ```text
//! template: varint number of fields, patterns, then 0, or 1 and a query over the whole tuple
//! 0 Actual: a field's bytes      1 Any                 2 Type: bit mask of tags, u32 LE; byte 1 dtype | 2 dimensions; [name] [varint]
//! 3 Class: name                  4 Nested: template    5 Where: a query on this field
//! ```

use super::number::nearest;
use super::query::{Query, Scope, Step};
use super::reader::{Limits, MOST_NAME, Reader, mask, tag};
use super::signature::{self, POSITIONS, Signature, each_field, hash_label, positions};
use super::value::{Value, put_number, put_string};
use crate::error::EncodingError;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Limit in bytes on a template without its actuals: formals, names, queries. The actuals have the limit of a tuple.
pub const MOST_TEMPLATE: u64 = 1 << 20;

/// A formal: matches any value of some kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Type {
    /// Bit `1 << tag` for each tag that matches: see [`mask`].
    pub kinds: u32,
    /// An array must be of this dtype, as numpy writes it.
    pub dtype: Option<String>,
    /// An array must have this many dimensions.
    pub dimensions: Option<u8>,
}

/// What one field must look like.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// Exactly this value: its encoding.
    Actual(Vec<u8>),
    /// Anything, including None.
    Any,
    /// A formal: any value of this type.
    Type(Type),
    /// A record or object with this name among its classes' names.
    Class(String),
    /// A tuple that matches.
    Nested(Box<Template>),
    /// A query on the field.
    Where(Query),
}

impl Pattern {
    /// A value as an actual.
    pub fn actual(value: &Value) -> Pattern {
        Pattern::Actual(value.to_bytes())
    }

    /// A formal without more conditions.
    pub fn of(kinds: u32) -> Pattern {
        Pattern::Type(Type { kinds, dtype: None, dimensions: None })
    }

    /// The kinds of fields that can match, as a mask of tags.
    pub(super) fn kinds(&self) -> u32 {
        match self {
            Pattern::Actual(field) => field.first().map_or(0, |kind| 1 << kind),
            Pattern::Any => mask::ALL,
            Pattern::Type(formal) => formal.kinds,
            Pattern::Class(_) => mask::CLASS,
            Pattern::Nested(_) => mask::TUPLE,
            Pattern::Where(query) => query.kinds(),
        }
    }

    /// Whether a field, given with its tag, matches.
    fn matches(&self, field: &[u8]) -> bool {
        match self {
            Pattern::Actual(actual) => actual == field,
            Pattern::Any => true,
            Pattern::Type(formal) => formal.matches(field),
            Pattern::Class(name) => has_class(field, name),
            Pattern::Nested(template) => field[0] == tag::TUPLE && template.matches(&field[1..]),
            Pattern::Where(query) => query.holds(Scope::Field(field)),
        }
    }

    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Pattern::Actual(field) => {
                to.push(0);
                to.extend_from_slice(field);
            }
            Pattern::Any => to.push(1),
            Pattern::Type(formal) => {
                to.push(2);
                to.extend_from_slice(&formal.kinds.to_le_bytes());
                to.push(u8::from(formal.dtype.is_some()) | u8::from(formal.dimensions.is_some()) << 1);
                formal.dtype.iter().for_each(|name| put_string(to, name.as_bytes()));
                formal.dimensions.iter().for_each(|number| put_number(to, u64::from(*number)));
            }
            Pattern::Class(name) => {
                to.push(3);
                put_string(to, name.as_bytes());
            }
            Pattern::Nested(template) => {
                to.push(4);
                template.encode(to);
            }
            Pattern::Where(query) => {
                to.push(5);
                query.encode(to);
            }
        }
    }

    /// `actuals`: bytes of actuals read so far.
    fn decode(reader: &mut Reader, depth: u32, limits: &Limits, actuals: &mut u64) -> Result<Pattern, EncodingError> {
        Ok(match reader.byte()? {
            0 => {
                let start = reader.at();
                reader.check(depth, limits)?;
                *actuals += reader.since(start).len() as u64;
                check_size(reader, *actuals, limits)?;
                Pattern::Actual(reader.since(start).to_vec())
            }
            1 => Pattern::Any,
            2 => {
                let kinds = u32::from_le_bytes(reader.array()?);
                let more = reader.byte()?;
                if more > 3 {
                    return Err(EncodingError::Unknown(more));
                }
                let dtype = (more & 1 > 0).then(|| reader.name().map(str::to_owned)).transpose()?;
                let dimensions = (more & 2 > 0).then(|| reader.count("dimensions", 255)).transpose()?;
                Pattern::Type(Type { kinds, dtype, dimensions: dimensions.map(|number| number as u8) })
            }
            3 => Pattern::Class(reader.name()?.to_owned()),
            4 => Pattern::Nested(Box::new(Template::read(reader, depth + 1, limits, actuals)?)),
            5 => Pattern::Where(Query::read(reader, limits)?),
            other => return Err(EncodingError::Unknown(other)),
        })
    }
}

impl Type {
    fn matches(&self, field: &[u8]) -> bool {
        if self.kinds & 1 << field[0] == 0 {
            return false;
        }
        field[0] != tag::ARRAY || (self.dtype.is_none() && self.dimensions.is_none()) || self.fits(field) == Ok(true)
    }

    fn fits(&self, array: &[u8]) -> Result<bool, EncodingError> {
        let mut reader = Reader::new(&array[1..]);
        let dtype = reader.string()?;
        let dimensions = reader.varint()?;
        Ok(self.dtype.as_ref().is_none_or(|name| name.as_bytes() == dtype)
            && self.dimensions.is_none_or(|number| u64::from(number) == dimensions))
    }
}

fn has_class(field: &[u8], name: &str) -> bool {
    let find = || {
        let mut reader = Reader::new(&field[1..]);
        for _ in 0..reader.varint()? {
            if reader.string()? == name.as_bytes() {
                return Ok(true);
            }
        }
        Ok::<_, EncodingError>(false)
    };
    mask::CLASS & 1 << field[0] != 0 && find() == Ok(true)
}

/// A pattern for each field, and optionally a query on the whole tuple.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Template {
    patterns: Vec<Pattern>,
    query: Option<Query>,
    /// Positions of the actuals among the first fields.
    actuals: u32,
    /// Kinds that can match, for each of the first fields, as signatures tell them apart.
    kinds: Vec<u32>,
    /// The only signature that can match, if there is one.
    exact: Option<Signature>,
    /// The cost of matching a small tuple.
    weight: u64,
}

/// Bytes of a tuple whose comparison costs about as much as one step of a template.
const BYTES_OF_STEP: usize = 1024;
/// Number of patterns with the same cost.
const PATTERNS_OF_STEP: u64 = 8;

impl Template {
    /// A template of patterns, and perhaps a query over the whole tuple. Actuals must be encoded fields.
    pub fn new(patterns: Vec<Pattern>, query: Option<Query>) -> Template {
        let first = || patterns.iter().take(POSITIONS).enumerate();
        let actuals = first().filter(|(_, pattern)| matches!(pattern, Pattern::Actual(_)));
        let actuals = actuals.fold(0, |mask, (position, _)| mask | 1 << position);
        let kinds: Vec<u32> = first().map(|(_, pattern)| signature::kinds(pattern.kinds())).collect();
        let tags = kinds
            .iter()
            .enumerate()
            .fold(0, |tags, (position, kinds)| tags | u64::from(kinds.trailing_zeros() & 15) << (4 * position));
        let single = kinds.iter().all(|kinds| kinds.count_ones() == 1);
        let exact = single.then_some(Signature { arity: patterns.len() as u32, tags });
        let of_pattern = |pattern: &Pattern| match pattern {
            Pattern::Nested(template) => template.weight,
            Pattern::Where(query) => query.weight(),
            _ => 0,
        };
        let weight = 1 + patterns.len() as u64 / PATTERNS_OF_STEP + patterns.iter().map(of_pattern).sum::<u64>();
        let weight = weight + query.as_ref().map_or(0, Query::weight);
        Template { patterns, query, actuals, kinds, exact, weight }
    }

    /// The cost of matching a tuple against the template. 1 is about 50 ns.
    #[inline]
    pub(super) fn cost(&self, tuple: &[u8]) -> u64 {
        self.weight.saturating_mul(1 + (tuple.len() / BYTES_OF_STEP) as u64)
    }

    /// The bytes of the actual at a position.
    pub(super) fn actual(&self, position: usize) -> Option<&[u8]> {
        match self.patterns.get(position) {
            Some(Pattern::Actual(field)) => Some(field),
            _ => None,
        }
    }

    /// A hash of the actuals at the positions of a mask, and of the label if the mask includes it. It equals
    /// `signature::hash_tuple` of a tuple with these fields.
    pub(super) fn hash(&self, state: &RandomState, mask: u32, label: Option<&[u8]>) -> u64 {
        let mut hasher = state.build_hasher();
        positions(mask).filter_map(|position| self.actual(position)).for_each(|field| hasher.write(field));
        hash_label(&mut hasher, mask, label);
        hasher.finish()
    }

    /// Whether a tuple has the actuals at the positions of a mask.
    pub(super) fn has_actuals(&self, mask: u32, tuple: &[u8]) -> bool {
        let mut wanted = positions(mask).map(|position| self.actual(position));
        each_field(mask, tuple, |field| wanted.next() == Some(Some(field))) && wanted.next().is_none()
    }

    /// The positions of actuals, as a mask.
    pub(super) fn actuals(&self) -> u32 {
        self.actuals
    }

    /// The only signature that can match, if there is one.
    pub(super) fn exact(&self) -> Option<Signature> {
        self.exact
    }

    /// Whether tuples of a signature can match.
    pub(super) fn may_match(&self, signature: Signature) -> bool {
        let fits = |(position, kinds): (usize, &u32)| kinds & 1 << signature.kind(position) != 0;
        signature.arity as usize == self.patterns.len() && self.kinds.iter().enumerate().all(fits)
    }

    /// The bounds on the number at a position, if there are any.
    pub(super) fn bounds(&self, position: usize) -> Option<(f64, f64)> {
        let of_field = match self.patterns.get(position)? {
            Pattern::Actual(field) => nearest(field).map(|value| (value, value)),
            Pattern::Where(query) => query.bounds(&[]),
            _ => None,
        };
        of_field.or_else(|| self.query.as_ref()?.bounds(&[Step::Position(position as u64)]))
    }

    /// Approximate bytes of memory.
    pub(super) fn size(&self) -> u64 {
        let of_pattern = |pattern: &Pattern| match pattern {
            Pattern::Actual(field) => field.len() as u64,
            Pattern::Nested(template) => template.size(),
            Pattern::Where(query) => query.size(),
            Pattern::Any | Pattern::Type(_) | Pattern::Class(_) => MOST_NAME,
        };
        let patterns: u64 = self.patterns.iter().map(|pattern| 64 + of_pattern(pattern)).sum();
        256 + patterns + self.query.as_ref().map_or(0, Query::size)
    }

    /// Checks and decodes bytes that should be one template.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Template, EncodingError> {
        let (most, is) = (limits.bytes.saturating_add(MOST_TEMPLATE), bytes.len() as u64);
        if is > most {
            return Err(EncodingError::TooMany { what: "bytes of a template".into(), is, most });
        }
        let mut reader = Reader::new(bytes);
        let template = Template::read(&mut reader, 0, limits, &mut 0)?;
        reader.end()?;
        Ok(template)
    }

    fn read(reader: &mut Reader, depth: u32, limits: &Limits, actuals: &mut u64) -> Result<Template, EncodingError> {
        if depth > limits.nesting {
            let (is, most) = (u64::from(depth), u64::from(limits.nesting));
            return Err(EncodingError::TooMany { what: "templates inside of each other".into(), is, most });
        }
        let count = reader.count("fields", limits.fields)?;
        let mut patterns = Vec::new();
        for _ in 0..count {
            patterns.push(Pattern::decode(reader, depth, limits, actuals)?);
            check_size(reader, *actuals, limits)?;
        }
        let query = match reader.byte()? {
            0 => None,
            1 => Some(Query::read(reader, limits)?),
            other => return Err(EncodingError::Unknown(other)),
        };
        check_size(reader, *actuals, limits)?;
        Ok(Template::new(patterns, query))
    }

    /// Appends the template's bytes.
    pub fn encode(&self, to: &mut Vec<u8>) {
        put_number(to, self.patterns.len() as u64);
        self.patterns.iter().for_each(|pattern| pattern.encode(to));
        to.push(u8::from(self.query.is_some()));
        self.query.iter().for_each(|query| query.encode(to));
    }

    /// One pattern per field.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Whether the bytes of a checked tuple match.
    pub fn matches(&self, tuple: &[u8]) -> bool {
        self.compare(tuple) == Ok(true)
    }

    fn compare(&self, tuple: &[u8]) -> Result<bool, EncodingError> {
        let mut reader = Reader::new(tuple);
        if reader.varint()? != self.patterns.len() as u64 {
            return Ok(false);
        }
        for pattern in &self.patterns {
            if let Pattern::Actual(actual) = pattern {
                // Fields are self-delimiting. If a field begins with all the bytes of an actual, it is that actual.
                if !reader.rest().starts_with(actual) {
                    return Ok(false);
                }
                reader.take(actual.len() as u64)?;
            } else if !pattern.matches(reader.field()?) {
                return Ok(false);
            }
        }
        Ok(self.query.as_ref().is_none_or(|query| query.holds(Scope::Tuple(tuple))))
    }
}

/// Checks, before bytes are copied, that the part of a template read so far is not too long. `actuals` bytes of it are
/// actuals.
fn check_size(reader: &Reader, actuals: u64, limits: &Limits) -> Result<(), EncodingError> {
    let too_many = |what: &str, is, most| Err(EncodingError::TooMany { what: what.into(), is, most });
    let beside = reader.at() as u64 - actuals;
    match () {
        () if actuals > limits.bytes => too_many("bytes of values in a template", actuals, limits.bytes),
        () if beside > MOST_TEMPLATE => too_many("bytes of a template beside its values", beside, MOST_TEMPLATE),
        () => Ok(()),
    }
}
