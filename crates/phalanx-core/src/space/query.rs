//! Queries: conditions on a field or on a tuple, as a small program over encoded bytes. They run no user code and
//! allocate nothing.
//!
//! ```text
//! query: varint number of operations, each
//! 0 Compare: path, byte 0 < 1 <= 2 == 3 != 4 > 5 >=, field   1 Between: path, field, field (both ends belong to it)
//! 2 StartsWith: path, field        3 Contains: path, field    4 In: path, varint number, fields
//! 5 And   6 Or   7 Not: of the answers before (postfix)
//! path: varint number of steps, each 0 and a varint position in a tuple or list, or 1 and a name of a record's field
//! ```
//!
//! The empty path is the field itself. `==`, `!=`, In and Contains (of a list) compare exactly, as templates do. `<`
//! and the other order operations compare numbers by value, whatever their kind; strings by code points; bytes by byte;
//! False before True. Between values of different kinds they are false. Every comparison is false if its path leads to
//! nothing. NaN has no order.

use super::number::{nearest, order};
use super::reader::{Limits, Reader, inside, mask, tag};
use super::value::{put_number, put_string};
use crate::error::EncodingError;
use std::cmp::Ordering;

/// Limit on the operations of a query. A query may run on every tuple while other requests wait.
const MOST_OPERATIONS: u64 = 64;
const MOST_WAITING: u32 = 64;
const MOST_STEPS: u64 = 32;
/// Number of actuals whose comparison costs about as much as one operation.
const ACTUALS_OF_STEP: u64 = 8;

/// A step from a value to one of its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Field of a tuple or list, from 0.
    Position(u64),
    /// Field of a record by name. On a whole tuple: the field of the first record in it that has this name.
    Name(String),
}

/// How a field is compared with an actual. Numbers have an order, whatever their kind. Other values of different kinds
/// have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    More,
    /// `>=`
    AtLeast,
}

const COMPARISONS: [Comparison; 6] = [
    Comparison::Less,
    Comparison::AtMost,
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::More,
    Comparison::AtLeast,
];

impl Comparison {
    fn holds(self, field: &[u8], actual: &[u8]) -> bool {
        match self {
            Comparison::Equal => field == actual,
            Comparison::NotEqual => field != actual,
            Comparison::Less => order(field, actual) == Some(Ordering::Less),
            Comparison::AtMost => order(field, actual).is_some_and(Ordering::is_le),
            Comparison::More => order(field, actual) == Some(Ordering::Greater),
            Comparison::AtLeast => order(field, actual).is_some_and(Ordering::is_ge),
        }
    }
}

/// Actuals are encoded fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Operation {
    /// Whether the field compares so with `actual`.
    Compare { path: Vec<Step>, comparison: Comparison, actual: Vec<u8> },
    /// Whether the field is at least `low` and at most `high`.
    Between { path: Vec<Step>, low: Vec<u8>, high: Vec<u8> },
    /// Whether the text or the bytes begin with `start`.
    StartsWith { path: Vec<Step>, start: Vec<u8> },
    /// Whether a text or bytes have `part` in them, or whether a list or tuple has it as an element.
    Contains { path: Vec<Step>, part: Vec<u8> },
    /// Whether the field equals one of `actuals`.
    In { path: Vec<Step>, actuals: Vec<Vec<u8>> },
    /// Whether both of the last two answers are true.
    And,
    /// Whether one of the last two answers is true, or both.
    Or,
    /// Whether the last answer is false.
    Not,
}

/// What a query is evaluated on.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// The bytes of a field, including its tag.
    Field(&'a [u8]),
    /// The bytes of a tuple.
    Tuple(&'a [u8]),
}

/// A program that leaves exactly one truth value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    operations: Vec<Operation>,
}

impl Query {
    /// Operations in postfix order. And, Or and Not consume the truth values before them.
    pub fn new(operations: Vec<Operation>) -> Result<Query, EncodingError> {
        let wrong = |what: &str| Err(EncodingError::Query(what.into()));
        if operations.len() as u64 > MOST_OPERATIONS {
            return wrong("it has more than 64 operations");
        }
        let mut waiting = 0u32;
        for operation in &operations {
            let takes = match operation {
                Operation::And | Operation::Or => 2,
                Operation::Not => 1,
                _ => 0,
            };
            if waiting < takes {
                return wrong("an operation lacks what it connects");
            }
            waiting = waiting - takes + 1;
            if waiting > MOST_WAITING {
                return wrong("more than 64 answers wait to be connected");
            }
            if !operation.is_sound() {
                return wrong("these values have no order, or are no text to be looked for");
            }
        }
        match waiting {
            1 => Ok(Query { operations }),
            _ => wrong("it does not come to one answer"),
        }
    }

    /// The operations, in postfix order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Whether the query holds.
    pub fn holds(&self, scope: Scope) -> bool {
        let mut answers = 0u64;
        for operation in &self.operations {
            answers = match operation {
                Operation::And => answers >> 1 & (answers | !1),
                Operation::Or => answers >> 1 | (answers & 1),
                Operation::Not => answers ^ 1,
                asked => answers << 1 | u64::from(asked.holds(scope)),
            };
        }
        answers & 1 == 1
    }

    /// For a query on a field: the kinds of fields for which it can hold, as a mask of tags.
    pub(super) fn kinds(&self) -> u32 {
        match &self.operations[..] {
            [only] => only.kinds(),
            _ => mask::ALL,
        }
    }

    /// The bounds that the query puts on the number at a path, if there are any.
    pub(super) fn bounds(&self, path: &[Step]) -> Option<(f64, f64)> {
        if self.operations.iter().any(|operation| matches!(operation, Operation::Or | Operation::Not)) {
            return None;
        }
        let asked = self.operations.iter().filter(|operation| operation.path() == Some(path));
        let both = asked.filter_map(Operation::bounds);
        both.reduce(|(low, high), (lower, higher)| (f64::max(low, lower), f64::min(high, higher)))
    }

    /// The cost of evaluating the query on a small tuple: its operations, plus the actuals that some of them compare
    /// with.
    pub(super) fn weight(&self) -> u64 {
        let of = |operation: &Operation| match operation {
            Operation::In { actuals, .. } => 1 + actuals.len() as u64 / ACTUALS_OF_STEP,
            _ => 1,
        };
        self.operations.iter().map(of).sum()
    }

    /// Approximate bytes of memory.
    pub(super) fn size(&self) -> u64 {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        (bytes.len() + self.operations.len() * size_of::<Operation>()) as u64
    }

    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        put_number(to, self.operations.len() as u64);
        self.operations.iter().for_each(|operation| operation.encode(to));
    }

    pub(super) fn read(reader: &mut Reader, limits: &Limits) -> Result<Query, EncodingError> {
        let count = reader.count("operations of a query", MOST_OPERATIONS)?;
        Query::new((0..count).map(|_| Operation::read(reader, limits)).collect::<Result<_, _>>()?)
    }
}

impl Operation {
    fn path(&self) -> Option<&[Step]> {
        match self {
            Operation::Compare { path, .. }
            | Operation::Between { path, .. }
            | Operation::StartsWith { path, .. }
            | Operation::Contains { path, .. }
            | Operation::In { path, .. } => Some(path),
            Operation::And | Operation::Or | Operation::Not => None,
        }
    }

    fn is_sound(&self) -> bool {
        let ordered = |field: &[u8]| order(field, field).is_some() || field[0] == tag::FLOAT;
        match self {
            Operation::Compare { comparison: Comparison::Equal | Comparison::NotEqual, .. } => true,
            Operation::Compare { actual, .. } => ordered(actual),
            Operation::Between { low, high, .. } => ordered(low) && ordered(high),
            Operation::StartsWith { start, .. } => matches!(start[0], tag::STR | tag::BYTES),
            _ => true,
        }
    }

    fn bounds(&self) -> Option<(f64, f64)> {
        match self {
            Operation::Between { low, high, .. } => Some((nearest(low)?, nearest(high)?)),
            Operation::Compare { comparison, actual, .. } => match (comparison, nearest(actual)?) {
                (Comparison::Less | Comparison::AtMost, high) => Some((f64::NEG_INFINITY, high)),
                (Comparison::More | Comparison::AtLeast, low) => Some((low, f64::INFINITY)),
                (Comparison::Equal, value) => Some((value, value)),
                (Comparison::NotEqual, _) => None,
            },
            _ => None,
        }
    }

    fn kinds(&self) -> u32 {
        const NUMBERS: u32 = mask::INT | mask::FLOAT;
        let ordered = |actual: &[u8]| match actual[0] {
            tag::INT | tag::BIG | tag::FLOAT => NUMBERS,
            tag::FALSE | tag::TRUE => mask::BOOL,
            kind => 1 << kind,
        };
        match self {
            asked if asked.path() != Some(&[]) => mask::ALL,
            Operation::Compare { comparison: Comparison::Equal, actual, .. } => 1 << actual[0],
            Operation::Compare { comparison: Comparison::NotEqual, .. } => mask::ALL,
            Operation::Compare { actual, .. } => ordered(actual),
            Operation::Between { low, high, .. } => ordered(low) & ordered(high),
            Operation::StartsWith { start, .. } => 1 << start[0],
            Operation::In { actuals, .. } => actuals.iter().fold(0, |kinds, actual| kinds | 1 << actual[0]),
            _ => mask::ALL,
        }
    }

    fn holds(&self, scope: Scope) -> bool {
        let Some(Ok(Some(field))) = self.path().map(|path| follow(scope, path)) else { return false };
        match self {
            Operation::Compare { comparison, actual, .. } => comparison.holds(field, actual),
            Operation::Between { low, high, .. } => {
                Comparison::AtLeast.holds(field, low) && Comparison::AtMost.holds(field, high)
            }
            Operation::StartsWith { start, .. } => {
                field[0] == start[0] && inside(field).zip(inside(start)).is_some_and(|(is, part)| is.starts_with(part))
            }
            Operation::Contains { part, .. } => contains(field, part).unwrap_or(false),
            Operation::In { actuals, .. } => actuals.iter().any(|actual| actual == field),
            Operation::And | Operation::Or | Operation::Not => false,
        }
    }

    fn encode(&self, to: &mut Vec<u8>) {
        let mut begin = |number: u8, path: &[Step]| {
            to.push(number);
            put_number(to, path.len() as u64);
            path.iter().for_each(|step| step.encode(to));
        };
        match self {
            Operation::Compare { path, comparison, actual } => {
                begin(0, path);
                to.push(*comparison as u8);
                to.extend_from_slice(actual);
            }
            Operation::Between { path, low, high } => {
                begin(1, path);
                to.extend_from_slice(low);
                to.extend_from_slice(high);
            }
            Operation::StartsWith { path, start } => {
                begin(2, path);
                to.extend_from_slice(start);
            }
            Operation::Contains { path, part } => {
                begin(3, path);
                to.extend_from_slice(part);
            }
            Operation::In { path, actuals } => {
                begin(4, path);
                put_number(to, actuals.len() as u64);
                actuals.iter().for_each(|actual| to.extend_from_slice(actual));
            }
            Operation::And => to.push(5),
            Operation::Or => to.push(6),
            Operation::Not => to.push(7),
        }
    }

    fn read(reader: &mut Reader, limits: &Limits) -> Result<Operation, EncodingError> {
        let field = |reader: &mut Reader| {
            let start = reader.at();
            reader.check(0, limits)?;
            Ok::<_, EncodingError>(reader.since(start).to_vec())
        };
        Ok(match reader.byte()? {
            0 => {
                let path = read_path(reader)?;
                let number = reader.byte()?;
                let comparison = COMPARISONS.get(usize::from(number)).ok_or(EncodingError::Unknown(number))?;
                Operation::Compare { path, comparison: *comparison, actual: field(reader)? }
            }
            1 => Operation::Between { path: read_path(reader)?, low: field(reader)?, high: field(reader)? },
            2 => Operation::StartsWith { path: read_path(reader)?, start: field(reader)? },
            3 => Operation::Contains { path: read_path(reader)?, part: field(reader)? },
            4 => {
                let path = read_path(reader)?;
                let count = reader.count("values", limits.fields)?;
                Operation::In { path, actuals: (0..count).map(|_| field(reader)).collect::<Result<_, _>>()? }
            }
            5 => Operation::And,
            6 => Operation::Or,
            7 => Operation::Not,
            other => return Err(EncodingError::Unknown(other)),
        })
    }
}

impl Step {
    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Step::Position(position) => {
                to.push(0);
                put_number(to, *position);
            }
            Step::Name(name) => {
                to.push(1);
                put_string(to, name.as_bytes());
            }
        }
    }
}

fn read_path(reader: &mut Reader) -> Result<Vec<Step>, EncodingError> {
    let steps = reader.count("steps", MOST_STEPS)?;
    let step = |_| match reader.byte()? {
        0 => Ok(Step::Position(reader.varint()?)),
        1 => Ok(Step::Name(reader.name()?.to_owned())),
        other => Err(EncodingError::Unknown(other)),
    };
    (0..steps).map(step).collect()
}

/// The field to which a path leads, if there is one.
fn follow<'a>(scope: Scope<'a>, path: &[Step]) -> Result<Option<&'a [u8]>, EncodingError> {
    let (mut at, rest) = match (scope, path) {
        (Scope::Field(field), _) => (Some(field), path),
        (Scope::Tuple(tuple), [first, rest @ ..]) => (of_tuple(tuple, first)?, rest),
        (Scope::Tuple(_), []) => (None, path),
    };
    for step in rest {
        let Some(field) = at else { return Ok(None) };
        at = match (field[0], step) {
            (tag::TUPLE | tag::LIST, Step::Position(position)) => at_position(&field[1..], *position)?,
            (tag::RECORD, Step::Name(name)) => named(field, name)?,
            _ => None,
        };
    }
    Ok(at)
}

fn of_tuple<'a>(tuple: &'a [u8], step: &Step) -> Result<Option<&'a [u8]>, EncodingError> {
    match step {
        Step::Position(position) => at_position(tuple, *position),
        Step::Name(name) => {
            let mut reader = Reader::new(tuple);
            for _ in 0..reader.varint()? {
                let field = reader.field()?;
                if let (tag::RECORD, Some(found)) = (field[0], named(field, name).ok().flatten()) {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
    }
}

fn at_position(fields: &[u8], position: u64) -> Result<Option<&[u8]>, EncodingError> {
    let mut reader = Reader::new(fields);
    if position >= reader.varint()? {
        return Ok(None);
    }
    (0..position).try_for_each(|_| reader.skip())?;
    reader.field().map(Some)
}

fn named<'a>(record: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, EncodingError> {
    if record[0] != tag::RECORD {
        return Ok(None);
    }
    let mut reader = Reader::new(&record[1..]);
    reader.skip_names()?;
    for _ in 0..reader.varint()? {
        let found = reader.string()? == name.as_bytes();
        let field = reader.field()?;
        if found {
            return Ok(Some(field));
        }
    }
    Ok(None)
}

fn contains(field: &[u8], part: &[u8]) -> Result<bool, EncodingError> {
    match field[0] {
        tag::TUPLE | tag::LIST => {
            let mut reader = Reader::new(&field[1..]);
            for _ in 0..reader.varint()? {
                if reader.field()? == part {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        tag::STR | tag::BYTES if field[0] == part[0] => {
            let (Some(is), Some(part)) = (inside(field), inside(part)) else { return Ok(false) };
            Ok(memchr::memmem::find(is, part).is_some())
        }
        _ => Ok(false),
    }
}
