//! Files with several names: the first is copied, and the others become names of it when everything is in its place. Held
//! are only those files, at both ends.

use phalanx_core::wire::transfer::HardLink;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::sync::Mutex;

/// At the sending end: the first entry of each file, by which the system knows the file.
#[derive(Default)]
pub struct Sent(Mutex<HashMap<(u64, u64), u32>>);

impl Sent {
    pub fn note(&self, file: (u64, u64), number: u32) -> HardLink {
        match lock(&self.0).entry(file) {
            Entry::Occupied(first) => HardLink::Same(*first.get()),
            Entry::Vacant(first) => {
                first.insert(number);
                HardLink::First
            }
        }
    }
}

/// Where a file is put, and what it is then: a name is made only of a file that came.
#[derive(Debug, Clone)]
pub struct Place {
    pub parent: Option<u32>,
    pub name: OsString,
    pub size: u64,
    pub modified: (i64, u32),
}

/// At the receiving end.
#[derive(Default)]
pub struct Received(Mutex<Linked>);

#[derive(Default)]
struct Linked {
    firsts: HashMap<u32, Place>,
    /// Number of the entry, its place, and the entry that it is the same as.
    others: Vec<(u32, Place, u32)>,
}

impl Received {
    pub fn note(&self, number: u32, place: Place, link: HardLink) {
        let mut linked = lock(&self.0);
        match link {
            HardLink::First => drop(linked.firsts.insert(number, place)),
            HardLink::Same(first) => linked.others.push((number, place, first)),
        }
    }

    /// What is to be linked: its number and place, and that of its first name if there is one.
    pub fn take(&self) -> Vec<(u32, Place, Option<Place>)> {
        let Linked { firsts, others } = std::mem::take(&mut *lock(&self.0));
        others.into_iter().map(|(number, place, first)| (number, place, firsts.get(&first).cloned())).collect()
    }
}
