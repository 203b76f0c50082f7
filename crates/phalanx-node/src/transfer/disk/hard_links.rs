//! Hard links. The first name of a file is copied. When all files are in place, the receiving end links the other names to
//! it. Both ends keep only files with several names in memory.

use phalanx_core::wire::transfer::HardLink;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::sync::Mutex;

/// At the sending end: the first entry of each file, by the file's device and inode number.
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

/// The place of a file at the receiving end, and its size and time. Another name is linked to it only if the file there has
/// them, so that it is surely the file that was copied.
#[derive(Debug, Clone)]
pub struct FilePlace {
    pub parent: Option<u32>,
    pub name: OsString,
    pub size: u64,
    pub modified: (i64, u32),
}

/// At the receiving end: the files with several names that have been announced.
#[derive(Default)]
pub struct Received(Mutex<Linked>);

#[derive(Default)]
struct Linked {
    firsts: HashMap<u32, FilePlace>,
    /// The number of each entry, its place, and the number of the entry that names the same file.
    others: Vec<(u32, FilePlace, u32)>,
}

impl Received {
    pub fn note(&self, number: u32, place: FilePlace, link: HardLink) {
        let mut linked = lock(&self.0);
        match link {
            HardLink::First => drop(linked.firsts.insert(number, place)),
            HardLink::Same(first) => linked.others.push((number, place, first)),
        }
    }

    /// The names to link: the number and place of each, and the place of the file's first name, if that was announced.
    pub fn take(&self) -> Vec<(u32, FilePlace, Option<FilePlace>)> {
        let Linked { firsts, others } = std::mem::take(&mut *lock(&self.0));
        others.into_iter().map(|(number, place, first)| (number, place, firsts.get(&first).cloned())).collect()
    }
}
