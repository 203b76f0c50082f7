//! Attributes that programs attach to communicators, datatypes and windows (MPI 5.0, 7.7).
//!
//! They are kept beside the objects, by handle. Functions of the program are called without a lock, since they may call
//! MPI.

use crate::error::{Class, Error, Result, fail};
use crate::objects::codes;
use crate::objects::handle::FIRST;
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering};
use std::sync::{Arc, Mutex};

/// What may have attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Communicators.
    Comm,
    /// Datatypes.
    Type,
    /// Windows.
    Win,
}

/// What an attribute is.
#[derive(Debug, Clone)]
pub enum Value {
    /// C's: the address of anything.
    Address(usize),
    /// Fortran's: a number as wide as an address, which C finds at an address (MPI 5.0, 19.3.7).
    Wide(Arc<AtomicIsize>),
    /// The same of MPI 1: an int.
    Narrow(Arc<AtomicI32>),
}

impl Value {
    /// As C sees it.
    pub fn address(&self) -> usize {
        match self {
            Value::Address(address) => *address,
            Value::Wide(number) => number.as_ptr().expose_provenance(),
            Value::Narrow(number) => number.as_ptr().expose_provenance(),
        }
    }

    /// As Fortran sees it.
    pub fn number(&self) -> isize {
        match self {
            Value::Address(address) => *address as isize,
            Value::Wide(number) => number.load(Ordering::Relaxed),
            Value::Narrow(number) => number.load(Ordering::Relaxed) as isize,
        }
    }

    /// A number as wide as an address.
    pub fn wide(number: isize) -> Value {
        Value::Wide(Arc::new(AtomicIsize::new(number)))
    }

    /// An int.
    pub fn narrow(number: i32) -> Value {
        Value::Narrow(Arc::new(AtomicI32::new(number)))
    }

    /// Another one, at another address.
    pub fn copied(&self) -> Value {
        self.of_kind(self.number())
    }

    /// Another one of the same kind, which Fortran sees as this number.
    pub fn of_kind(&self, number: isize) -> Value {
        match self {
            Value::Address(_) => Value::Address(number as usize),
            Value::Wide(_) => Value::wide(number),
            Value::Narrow(_) => Value::narrow(number as i32),
        }
    }
}

/// Called with an object, a key and a value when the object is duplicated: the value that the duplicate gets, or none;
/// or the code of an error.
pub type Copy = Box<dyn Fn(u32, i32, &Value) -> std::result::Result<Option<Value>, i32> + Send + Sync>;
/// Called with an object, a key and a value when the attribute ends; fails with the code of an error.
pub type Delete = Box<dyn Fn(u32, i32, &Value) -> std::result::Result<(), i32> + Send + Sync>;

struct Key {
    kind: Kind,
    copy: Copy,
    delete: Delete,
}

#[derive(Clone)]
struct Attribute {
    keyval: i32,
    /// Stays after the key was freed.
    key: Arc<Key>,
    value: Value,
}

static STATE: Mutex<State> =
    Mutex::new(State { keys: BTreeMap::new(), next: FIRST as i32, attributes: BTreeMap::new() });
/// MPICH's predefined keys begin here.
pub const MOST: i32 = 1 << 26;

struct State {
    keys: BTreeMap<i32, Arc<Key>>,
    /// Numbers are not used again: attributes outlive their keys.
    next: i32,
    /// By the objects' handles, in the order in which they were set first.
    attributes: BTreeMap<u32, Vec<Attribute>>,
}

impl State {
    fn key(&self, kind: Kind, keyval: i32) -> Result<Arc<Key>> {
        match self.keys.get(&keyval) {
            Some(key) if key.kind == kind => Ok(key.clone()),
            Some(key) => fail(Class::Keyval, format!("keyval {keyval} is one of a {:?}, not of a {kind:?}", key.kind)),
            None => fail(Class::Keyval, format!("keyval {keyval} does not exist, or was freed")),
        }
    }

    /// Whether any object has an attribute of the key.
    fn has_attribute(&self, kind: Kind, keyval: i32) -> bool {
        let mut all = self.attributes.values().flatten();
        all.any(|attribute| attribute.keyval == keyval && attribute.key.kind == kind)
    }

    fn find(&mut self, object: u32, keyval: i32) -> Option<&mut Attribute> {
        self.attributes.get_mut(&object)?.iter_mut().find(|attribute| attribute.keyval == keyval)
    }
}

/// A new key.
pub fn create(kind: Kind, copy: Copy, delete: Delete) -> Result<i32> {
    let mut state = lock(&STATE);
    let keyval = state.next;
    if keyval == MOST {
        return fail(Class::NoMem, "too many attribute keys");
    }
    state.next += 1;
    state.keys.insert(keyval, Arc::new(Key { kind, copy, delete }));
    Ok(keyval)
}

/// Frees a key; attributes that have it stay. While there are such, freeing it again does nothing: delete functions do.
pub fn free(kind: Kind, keyval: i32) -> Result<()> {
    let mut state = lock(&STATE);
    if !state.has_attribute(kind, keyval) {
        state.key(kind, keyval)?;
    }
    state.keys.remove(&keyval);
    Ok(())
}

/// Sets an attribute; the one that was there is deleted first.
pub fn set(object: u32, kind: Kind, keyval: i32, value: Value) -> Result<()> {
    let key = lock(&STATE).key(kind, keyval)?;
    let old = lock(&STATE).find(object, keyval).cloned();
    if let Some(old) = old {
        end(object, &old)?;
    }
    let mut state = lock(&STATE);
    match state.find(object, keyval) {
        Some(attribute) => attribute.value = value,
        None => state.attributes.entry(object).or_default().push(Attribute { keyval, key, value }),
    }
    Ok(())
}

/// The value of an attribute, if the object has it.
pub fn get(object: u32, kind: Kind, keyval: i32) -> Result<Option<Value>> {
    let mut state = lock(&STATE);
    if let Some(attribute) = state.find(object, keyval) {
        return Ok(Some(attribute.value.clone()));
    }
    state.key(kind, keyval).map(|_| None)
}

/// Deletes an attribute.
pub fn delete(object: u32, kind: Kind, keyval: i32) -> Result<()> {
    let found = lock(&STATE).find(object, keyval).cloned();
    let Some(attribute) = found else {
        lock(&STATE).key(kind, keyval)?;
        return fail(Class::Keyval, format!("the object has no attribute of keyval {keyval}"));
    };
    end(object, &attribute)?;
    remove(object, keyval);
    Ok(())
}

/// Gives a duplicate its attributes, as the keys' copy functions say.
pub fn copy_all(from: u32, to: u32) -> Result<()> {
    let attributes = lock(&STATE).attributes.get(&from).cloned().unwrap_or_default();
    for Attribute { keyval, key, value } in attributes {
        let copied = (key.copy)(from, keyval, &value);
        if let Some(value) = copied.map_err(|code| stopped("copy", keyval, code))? {
            lock(&STATE).attributes.entry(to).or_default().push(Attribute { keyval, key, value });
        }
    }
    Ok(())
}

/// Deletes all attributes of an object that is to be freed, the latest first.
pub fn delete_all(object: u32) -> Result<()> {
    loop {
        let latest = lock(&STATE).attributes.get(&object).and_then(|all| all.last().cloned());
        let Some(attribute) = latest else {
            lock(&STATE).attributes.remove(&object);
            return Ok(());
        };
        end(object, &attribute)?;
        remove(object, attribute.keyval);
    }
}

fn end(object: u32, attribute: &Attribute) -> Result<()> {
    let ended = (attribute.key.delete)(object, attribute.keyval, &attribute.value);
    ended.map_err(|code| stopped("delete", attribute.keyval, code))
}

fn remove(object: u32, keyval: i32) {
    if let Some(attributes) = lock(&STATE).attributes.get_mut(&object) {
        attributes.retain(|attribute| attribute.keyval != keyval);
    }
}

/// A program's function has failed.
fn stopped(function: &str, keyval: i32, code: i32) -> Error {
    let class = codes::class_of(code).ok();
    let class = Class::ALL.iter().copied().find(|known| class == Some(*known as i32)).unwrap_or(Class::Other);
    let words = codes::text_of(code).unwrap_or_default();
    let text = format!("the {function} function of keyval {keyval} returned error {code} ({words})");
    Error { code: Some(code), ..Error::new(class, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: Kind, log: &Arc<Mutex<Vec<usize>>>) -> i32 {
        let log = log.clone();
        let delete = move |_: u32, _: i32, value: &Value| {
            lock(&log).push(value.address());
            if value.address() == 13 { Err(Class::Arg as i32) } else { Ok(()) }
        };
        let copy = |_: u32, _: i32, value: &Value| match value.address() {
            0 => Ok(None),
            value => Ok(Some(Value::Address(value + 1))),
        };
        create(kind, Box::new(copy), Box::new(delete)).expect("room")
    }

    #[test]
    fn attributes_live_with_their_objects() {
        let log = Arc::default();
        let (one, two, three) = (key(Kind::Comm, &log), key(Kind::Comm, &log), key(Kind::Comm, &log));
        let (object, duplicate) = (FIRST + 1, FIRST + 17);
        for (keyval, value) in [(one, 1), (two, 2), (three, 0), (one, 10)] {
            set(object, Kind::Comm, keyval, Value::Address(value)).expect("the keys are good");
        }
        free(Kind::Comm, one).expect("it is there");
        copy_all(object, duplicate).expect("nothing fails");
        let found =
            |keyval| get(duplicate, Kind::Comm, keyval).expect("the object has it").map(|value| value.address());
        assert_eq!((found(one), found(three)), (Some(11), None));
        delete_all(object).expect("nothing fails");
        assert_eq!(*lock(&log), [1, 0, 2, 10]);
        assert_eq!(get(object, Kind::Comm, one).expect_err("freed").class, Class::Keyval);
        assert_eq!(delete(object, Kind::Comm, two).expect_err("gone").class, Class::Keyval);
    }

    #[test]
    fn what_cannot_be_deleted_stays() {
        let log = Arc::default();
        let keyval = key(Kind::Win, &log);
        let set = |kind, keyval, value| set(FIRST + 8, kind, keyval, Value::Address(value));
        assert_eq!(set(Kind::Type, keyval, 1).expect_err("of windows").class, Class::Keyval);
        set(Kind::Win, keyval, 13).expect("the key is good");
        assert_eq!(delete(FIRST + 8, Kind::Win, keyval).expect_err("the function fails").class, Class::Arg);
        let found = get(FIRST + 8, Kind::Win, keyval).expect("the key is good");
        assert_eq!(found.map(|value| value.address()), Some(13));
        assert!(set(Kind::Win, keyval, 14).is_err());
        assert!(set(Kind::Win, -5, 14).is_err());
    }

    #[test]
    fn numbers_of_fortran_are_at_addresses_in_c() {
        for value in [Value::wide(-7), Value::narrow(-7)] {
            let copy = value.copied();
            assert_eq!((value.number(), copy.number()), (-7, -7));
            assert_ne!(value.address(), copy.address());
            // SAFETY: the value is still there.
            let seen = unsafe {
                match value {
                    Value::Wide(_) => *std::ptr::with_exposed_provenance::<isize>(value.address()),
                    _ => *std::ptr::with_exposed_provenance::<i32>(value.address()) as isize,
                }
            };
            assert_eq!(seen, -7);
        }
        assert_eq!(Value::Address(4096).number(), 4096);
    }
}
