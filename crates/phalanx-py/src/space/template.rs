//! Converts Python's templates for the engine: values become actuals, types become formals.

use super::encode::{Encoding, encode_field};
use super::wrong;
use phalanx_core::space::put_number;
use phalanx_core::space::tag;
use phalanx_core::space::{Comparison, Operation, Query, Step};
use phalanx_core::space::{Pattern, Template, Type, mask};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

/// Most actuals fit into this many bytes, so that one allocation is enough.
const SMALL: usize = 32;

/// Converts a template, with a query over the whole tuple.
pub fn to_template(
    elements: &Bound<'_, PyTuple>,
    query: Option<&Bound<'_, PyAny>>,
    encoding: &Encoding,
) -> PyResult<Template> {
    let query = query.map(|query| to_query(query, encoding, true)).transpose()?;
    Ok(Template::new(to_patterns(elements, encoding, 0)?, query))
}

fn to_patterns(elements: &Bound<'_, PyTuple>, encoding: &Encoding, depth: u32) -> PyResult<Vec<Pattern>> {
    let mut patterns = Vec::with_capacity(elements.len());
    for element in elements.iter_borrowed() {
        patterns.push(to_pattern(&element, encoding, depth)?);
    }
    Ok(patterns)
}

fn to_pattern(element: &Bound<'_, PyAny>, encoding: &Encoding, depth: u32) -> PyResult<Pattern> {
    if element.is_exact_instance_of::<PyString>()
        || element.is_exact_instance_of::<PyInt>()
        || element.is_exact_instance_of::<PyFloat>()
        || element.is_exact_instance_of::<PyBytes>()
        || element.is_exact_instance_of::<PyBool>()
        || element.is_exact_instance_of::<PyList>()
        || element.is_none()
    {
        return to_actual(element, encoding, depth);
    }
    if let Ok(element) = element.cast_exact::<PyTuple>() {
        return to_nested(element, encoding, depth);
    }
    if let Ok(class) = element.cast_exact::<PyType>() {
        if let Some(kinds) = plain(class) {
            return Ok(Pattern::of(kinds));
        }
    }
    let py = element.py();
    if element.is(words(py)?.any.bind(py)) {
        return Ok(Pattern::Any);
    }
    if element.is_exact_instance(words(py)?.query.bind(py)) {
        return Ok(Pattern::Where(to_query(element, encoding, false)?));
    }
    to_formal(element, encoding.objects)?.map_or_else(|| to_actual(element, encoding, depth), Ok)
}

fn to_actual(element: &Bound<'_, PyAny>, encoding: &Encoding, depth: u32) -> PyResult<Pattern> {
    let mut field = Vec::with_capacity(SMALL);
    encode_field(&mut field, element, encoding, depth)?;
    Ok(Pattern::Actual(field))
}

/// Converts a tuple within a template: it is a value if all its elements are values.
fn to_nested(elements: &Bound<'_, PyTuple>, encoding: &Encoding, depth: u32) -> PyResult<Pattern> {
    let most = encoding.limits.nesting;
    if depth >= most {
        return Err(PyTypeError::new_err(format!("more than {most} tuples inside of each other")));
    }
    let patterns = to_patterns(elements, encoding, depth + 1)?;
    let mut field = vec![tag::TUPLE];
    put_number(&mut field, patterns.len() as u64);
    for pattern in &patterns {
        match pattern {
            Pattern::Actual(inner) => field.extend_from_slice(inner),
            _ => return Ok(Pattern::Nested(Box::new(Template::new(patterns, None)))),
        }
    }
    Ok(Pattern::Actual(field))
}

fn plain(class: &Bound<'_, PyType>) -> Option<u32> {
    let known = [
        (&raw const ffi::PyUnicode_Type, mask::STR),
        (&raw const ffi::PyLong_Type, mask::INT),
        (&raw const ffi::PyFloat_Type, mask::FLOAT),
        (&raw const ffi::PyBytes_Type, mask::BYTES),
        (&raw const ffi::PyBool_Type, mask::BOOL),
        (&raw const ffi::PyTuple_Type, mask::TUPLE),
        (&raw const ffi::PyList_Type, mask::LIST),
    ];
    let class = class.as_type_ptr().cast_const();
    known.into_iter().find_map(|(plain, kinds)| (plain == class).then_some(kinds))
}

/// Converts what is no plain type; Python examines it (`phalanx/space/_template.py`).
fn to_formal(element: &Bound<'_, PyAny>, objects: bool) -> PyResult<Option<Pattern>> {
    let py = element.py();
    let found = words(py)?.formal_of.bind(py).call1((element, objects))?;
    if found.is_none() {
        return Ok(None);
    }
    if let Ok(name) = found.extract::<String>() {
        return Ok(Some(Pattern::Class(name)));
    }
    let (kinds, dtype, dimensions): (Vec<String>, Option<String>, Option<u8>) = found.extract()?;
    if kinds.iter().any(|kind| kind == "any") {
        return Ok(Some(Pattern::Any));
    }
    let kinds = kinds.iter().map(|kind| match kind.as_str() {
        "bool" => mask::BOOL,
        "int" => mask::INT,
        "float" => mask::FLOAT,
        "str" => mask::STR,
        "bytes" => mask::BYTES,
        "tuple" => mask::TUPLE,
        "list" => mask::LIST,
        "array" => mask::ARRAY,
        "sealed" => 1 << tag::SEALED,
        _ => 1 << tag::NONE,
    });
    Ok(Some(Pattern::Type(Type { kinds: kinds.fold(0, |all, kind| all | kind), dtype, dimensions })))
}

/// Converts a `px.where(…)` with a comparison. `whole`: it applies to the whole tuple.
fn to_query(query: &Bound<'_, PyAny>, encoding: &Encoding, whole: bool) -> PyResult<Query> {
    let py = query.py();
    if !query.is_exact_instance(words(py)?.query.bind(py)) {
        return Err(PyTypeError::new_err(format!("{} is no query: compare px.where(…) with a value", query.repr()?)));
    }
    let mut operations = Vec::new();
    for step in query.getattr("steps")?.cast::<PyTuple>()?.iter_borrowed() {
        operations.push(to_operation(&step, encoding, whole)?);
    }
    Query::new(operations).map_err(wrong)
}

fn to_operation(step: &Bound<'_, PyAny>, encoding: &Encoding, whole: bool) -> PyResult<Operation> {
    let (operator, steps, values) = step.extract::<(String, Bound<'_, PyTuple>, Bound<'_, PyTuple>)>()?;
    let mut path = Vec::new();
    for step in steps.iter_borrowed() {
        path.push(match step.extract::<u64>() {
            Ok(position) => Step::Position(position),
            Err(_) => Step::Name(step.extract()?),
        });
    }
    let mut actuals = Vec::new();
    for value in values.iter_borrowed() {
        let mut field = Vec::new();
        encode_field(&mut field, &value, encoding, 0)?;
        actuals.push(field);
    }
    let connects = match operator.as_str() {
        "&" => Some(Operation::And),
        "|" => Some(Operation::Or),
        "~" => Some(Operation::Not),
        _ => None,
    };
    if let Some(connects) = connects {
        return Ok(connects);
    }
    if whole && path.is_empty() {
        return Err(PyTypeError::new_err("where= is about the whole tuple: name a field, as in where=px.where(1) > 3"));
    }
    let comparison = match operator.as_str() {
        "<" => Comparison::Less,
        "<=" => Comparison::AtMost,
        "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        ">" => Comparison::More,
        ">=" => Comparison::AtLeast,
        "in_" => return Ok(Operation::In { path, actuals }),
        other => return to_search(other, path, actuals),
    };
    let [actual] = one(actuals)?;
    Ok(Operation::Compare { path, comparison, actual })
}

fn to_search(operator: &str, path: Vec<Step>, actuals: Vec<Vec<u8>>) -> PyResult<Operation> {
    match operator {
        "between" => {
            let [low, high] = one(actuals)?;
            Ok(Operation::Between { path, low, high })
        }
        "starts_with" => {
            let [start] = one(actuals)?;
            Ok(Operation::StartsWith { path, start })
        }
        "contains" => {
            let [part] = one(actuals)?;
            Ok(Operation::Contains { path, part })
        }
        other => Err(PyTypeError::new_err(format!("a query has no test {other}"))),
    }
}

fn one<const N: usize>(actuals: Vec<Vec<u8>>) -> PyResult<[Vec<u8>; N]> {
    actuals.try_into().map_err(|_| PyTypeError::new_err(format!("a test of a query takes {N} values")))
}

/// The Python objects that templates are made of.
struct Words {
    any: Py<PyAny>,
    query: Py<PyType>,
    formal_of: Py<PyAny>,
}

fn words(py: Python<'_>) -> PyResult<&'static Words> {
    static WORDS: PyOnceLock<Words> = PyOnceLock::new();
    WORDS.get_or_try_init(py, || {
        let template = py.import("phalanx.space._template")?;
        let query = py.import("phalanx.space._where")?.getattr("Query")?.cast_into::<PyType>()?;
        let (any, formal_of) = (template.getattr("ANY")?, template.getattr("formal_of")?);
        Ok(Words { any: any.unbind(), query: query.unbind(), formal_of: formal_of.unbind() })
    })
}
