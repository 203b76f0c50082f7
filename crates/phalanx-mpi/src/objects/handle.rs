//! Handles: numbers that stand for objects. Predefined ones have the numbers of the standard interface (below
//! [`FIRST`]); those that are made at run time carry their kind, so that a group passed as a communicator is noticed.

use phalanx_net::sync::lock;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

/// The first number that is not a predefined handle. All numbers stay below 2²⁶, where MPICH's predefined ones begin.
pub const FIRST: u32 = 1 << 10;
const KINDS: u32 = 1 << 4;
pub(crate) const MOST: usize = ((1 << 26) - FIRST as usize) / KINDS as usize;

/// An object that a call uses. Predefined ones are there always, so that nobody counts who uses them: that would cost as much as
/// the rest of a short call.
pub enum Held<T: 'static> {
    /// An object that is always there.
    Predefined(&'static Arc<T>),
    /// An object that the program has made.
    Made(Arc<T>),
}

impl<T> Held<T> {
    /// For who keeps it beyond the call.
    pub fn share(self) -> Arc<T> {
        match self {
            Held::Predefined(object) => object.clone(),
            Held::Made(object) => object,
        }
    }
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Held<T> {
        match self {
            Held::Predefined(object) => Held::Predefined(object),
            Held::Made(object) => Held::Made(object.clone()),
        }
    }
}

impl<T> From<Arc<T>> for Held<T> {
    fn from(object: Arc<T>) -> Held<T> {
        Held::Made(object)
    }
}

impl<T> Deref for Held<T> {
    type Target = Arc<T>;

    #[inline]
    fn deref(&self) -> &Arc<T> {
        match self {
            Held::Predefined(object) => object,
            Held::Made(object) => object,
        }
    }
}

/// Objects of one kind by their handles' numbers.
pub struct Table<T> {
    kind: u32,
    slots: Mutex<Slots<T>>,
}

struct Slots<T> {
    objects: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

impl<T> Table<T> {
    /// `kind` tells this table's numbers from the others'; 0..16.
    pub const fn new(kind: u32) -> Table<T> {
        assert!(kind < KINDS);
        Table { kind, slots: Mutex::new(Slots { objects: Vec::new(), free: Vec::new() }) }
    }

    /// A new handle; None when millions are in use.
    pub fn put(&self, object: Arc<T>) -> Option<u32> {
        let mut slots = lock(&self.slots);
        let index = slots.free.pop().unwrap_or(slots.objects.len());
        if index == slots.objects.len() {
            if index == MOST {
                return None;
            }
            slots.objects.push(None);
        }
        slots.objects[index] = Some(object);
        Some(handle_at(index, self.kind))
    }

    /// The object; None for a number that is none of this kind, or was taken away.
    pub fn get(&self, handle: u32) -> Option<Arc<T>> {
        lock(&self.slots).objects.get(self.index(handle)?)?.clone()
    }

    /// Frees the handle.
    pub fn take(&self, handle: u32) -> Option<Arc<T>> {
        let index = self.index(handle)?;
        let mut slots = lock(&self.slots);
        let object = slots.objects.get_mut(index)?.take()?;
        slots.free.push(index);
        Some(object)
    }

    /// All objects that have a handle.
    pub fn all(&self) -> Vec<Arc<T>> {
        lock(&self.slots).objects.iter().flatten().cloned().collect()
    }

    fn index(&self, handle: u32) -> Option<usize> {
        place_of(handle, self.kind)
    }
}

/// The handle at a place among those of its kind; the place must be below [`MOST`].
#[inline]
pub(crate) const fn handle_at(place: usize, kind: u32) -> u32 {
    FIRST + place as u32 * KINDS + kind
}

/// The place of a handle among those of its kind; None for one of another kind.
#[inline]
pub(crate) fn place_of(handle: u32, kind: u32) -> Option<usize> {
    let number = handle.checked_sub(FIRST)?;
    (number % KINDS == kind).then_some((number / KINDS) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_good_until_it_is_freed_and_only_for_its_kind() {
        let (comms, groups) = (Table::new(1), Table::new(2));
        let comm = comms.put(Arc::new("comm")).expect("there is room");
        let group = groups.put(Arc::new("group")).expect("there is room");
        assert_eq!(comms.get(comm).as_deref(), Some(&"comm"));
        assert!(comms.get(group).is_none() && groups.get(comm).is_none() && comms.get(0x101).is_none());
        assert!(comms.take(comm).is_some() && comms.take(comm).is_none() && comms.get(comm).is_none());
        let next = comms.put(Arc::new("next")).expect("there is room");
        assert_eq!(comms.get(next).as_deref(), Some(&"next"));
    }
}
