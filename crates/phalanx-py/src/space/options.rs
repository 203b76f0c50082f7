//! Converts Python's options of a space, of a put, and of a read or take.

use super::encode::{Encoding, encode_field};
use crate::errors::raise;
use phalanx_core::space::{Cursor, Get, Once, Options, Order, OutOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::time::Duration;

/// Longest time in seconds, about 1000 years. Longer ones make no practical difference, and Rust could not add them to an
/// instant.
const LONGEST: f64 = 3e10;

/// Converts seconds. `what` names the value in the error if it is no valid time.
pub fn to_duration(seconds: f64, what: &str) -> PyResult<Duration> {
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!("{what} is a number of seconds from 0 on, not {seconds}")));
    }
    Ok(Duration::from_secs_f64(seconds.min(LONGEST)))
}

/// Converts a space's options from a dictionary with their names.
pub fn to_options(words: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::default();
    for (name, value) in words.iter() {
        match name.extract::<&str>()? {
            "indexes" => options.indexes = value.extract()?,
            "boxes" => options.boxes = value.extract()?,
            "automatic_indexes" => options.automatic = value.extract()?,
            "order" => options.order = to_order(&value.extract::<String>()?)?,
            "lease" => options.lease = Some(to_duration(value.extract()?, "lease=")?),
            "most_tuples" => options.most_tuples = value.extract()?,
            "most_bytes" => options.most_bytes = value.extract()?,
            "most_tuple_bytes" => options.most_tuple_bytes = value.extract()?,
            "most_waiters" => options.most_waiters = value.extract()?,
            "most_session_waiters" => options.most_session_waiters = value.extract()?,
            "most_transactions" => options.most_transactions = value.extract()?,
            "longest_transaction" => {
                options.longest_transaction = to_duration(value.extract()?, "longest_transaction=")?
            }
            "log_events" => options.log_events = value.extract()?,
            "log_bytes" => options.log_bytes = value.extract()?,
            "secure" => options.secure = value.extract()?,
            "durable" => options.durable = value.extract()?,
            "group" => options.group = Some(value.extract()?),
            other => return Err(PyTypeError::new_err(format!("a space has no option {other}"))),
        }
    }
    Ok(options)
}

fn to_order(name: &str) -> PyResult<Order> {
    Ok(match name {
        "any" => Order::Any,
        "fifo" => Order::Fifo,
        "lifo" => Order::Lifo,
        "priority" => Order::Priority,
        other => return Err(raise("SpaceError", format!("{other} is no order: any, fifo, lifo or priority"))),
    })
}

/// A request that must happen only once: the client, the request's number, and the oldest number that is still open.
pub type Numbered = (u128, u64, u64);

/// Converts it for the space.
pub fn to_once((client, number, open_from): Numbered) -> Once {
    Once { client, number, open_from }
}

/// Converts the options of an `out`.
pub fn to_out_options(
    lease: Option<f64>,
    key: Option<&Bound<'_, PyAny>>,
    label: Option<&Bound<'_, PyAny>>,
    priority: Option<i64>,
    encoding: &Encoding,
) -> PyResult<OutOptions> {
    let field = |value: &Bound<'_, PyAny>| to_field(value, encoding);
    Ok(OutOptions {
        lease: lease.map(|seconds| to_duration(seconds, "lease=")).transpose()?,
        key: key.map(field).transpose()?,
        label: label.map(field).transpose()?,
        priority,
        once: None,
    })
}

/// Converts the options of a read or take, apart from the template.
pub fn to_get(take: bool, select: &Bound<'_, PyTuple>, encoding: &Encoding) -> PyResult<Get> {
    let mut get = Get { take, ..Get::default() };
    for selector in select.iter_borrowed() {
        let (kind, value) = selector.extract::<(String, Bound<'_, PyAny>)>().map_err(|_| no_selector(&selector))?;
        let twice = match kind.as_str() {
            "peek" => std::mem::replace(&mut get.peeks, true),
            "key" => get.key.replace(to_field(&value, encoding)?).is_some(),
            "label" => get.label.replace(to_field(&value, encoding)?).is_some(),
            order => get.order.replace(to_order(order)?).is_some(),
        };
        if twice {
            return Err(raise("SpaceError", "select= names two orders, two keys or two labels"));
        }
    }
    Ok(get)
}

fn no_selector(what: &Bound<'_, PyAny>) -> PyErr {
    let what = what.repr().map_or_else(|_| "this".to_owned(), |text| text.to_string());
    PyTypeError::new_err(format!(
        "{what} is no selector: write px.fifo, px.lifo, px.priority, px.key(…) or px.label(…)"
    ))
}

fn to_field(value: &Bound<'_, PyAny>, encoding: &Encoding) -> PyResult<Vec<u8>> {
    let mut field = Vec::new();
    encode_field(&mut field, value, encoding, 0)?;
    Ok(field)
}

/// The position between two pages, as Python stores it.
pub type Place = (u32, u32, u64, i64, u64);

pub fn to_cursor((partition, slot, number, priority, end): Place) -> Cursor {
    Cursor { partition, slot, number, priority, end }
}

pub fn to_place(cursor: Cursor) -> Place {
    (cursor.partition, cursor.slot, cursor.number, cursor.priority, cursor.end)
}
