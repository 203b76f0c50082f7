//! Names and numbers of users and groups, as this machine knows them.

use phalanx_core::wire::transfer::Owner;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{LazyLock, Mutex};

/// Most users and groups whose names or numbers are cached.
const MOST_KNOWN: usize = 4096;

type Known<K, V> = LazyLock<Mutex<HashMap<(bool, K), Option<V>>>>;
static NAMES: Known<u32, Vec<u8>> = LazyLock::new(Mutex::default);
static NUMBERS: Known<Vec<u8>, u32> = LazyLock::new(Mutex::default);

/// This machine's number for a user or a group: the number with the same name, or else the same number.
pub fn number(owner: &Owner, numeric: bool, is_group: bool) -> u32 {
    if numeric || owner.name.is_empty() {
        return owner.number;
    }
    let key = (is_group, owner.name.clone());
    if let Some(known) = lock(&NUMBERS).get(&key) {
        return known.unwrap_or(owner.number);
    }
    let found = CString::new(owner.name.clone()).ok().and_then(|name| ask_number(&name, is_group));
    let mut known = lock(&NUMBERS);
    if known.len() >= MOST_KNOWN {
        known.clear();
    }
    known.insert(key, found);
    found.unwrap_or(owner.number)
}

/// This machine's name of a user or a group; empty if it has none.
pub fn name(number: u32, is_group: bool) -> Vec<u8> {
    if let Some(known) = lock(&NAMES).get(&(is_group, number)) {
        return known.clone().unwrap_or_default();
    }
    let found = ask_name(number, is_group);
    let mut known = lock(&NAMES);
    if known.len() >= MOST_KNOWN {
        known.clear();
    }
    known.insert((is_group, number), found.clone());
    found.unwrap_or_default()
}

/// Size of the buffer for the system's data about a user or a group.
const ROOM: usize = 64 << 10;

fn ask_name(number: u32, is_group: bool) -> Option<Vec<u8>> {
    let mut room = vec![0 as libc::c_char; ROOM];
    // SAFETY: all pointers are to memory that is ours and of the lengths given; the name that was found lies in `room`.
    unsafe {
        let name = if is_group {
            let (mut entry, mut found) = (std::mem::zeroed::<libc::group>(), std::ptr::null_mut());
            let code = libc::getgrgid_r(number, &raw mut entry, room.as_mut_ptr(), ROOM, &raw mut found);
            (code == 0 && !found.is_null()).then_some(entry.gr_name)
        } else {
            let (mut entry, mut found) = (std::mem::zeroed::<libc::passwd>(), std::ptr::null_mut());
            let code = libc::getpwuid_r(number, &raw mut entry, room.as_mut_ptr(), ROOM, &raw mut found);
            (code == 0 && !found.is_null()).then_some(entry.pw_name)
        };
        name.map(|name| CStr::from_ptr(name).to_bytes().to_vec())
    }
}

fn ask_number(name: &CString, is_group: bool) -> Option<u32> {
    let mut room = vec![0 as libc::c_char; ROOM];
    // SAFETY: all pointers are to memory that is ours and of the lengths given, and the name ends with a zero.
    unsafe {
        if is_group {
            let (mut entry, mut found) = (std::mem::zeroed::<libc::group>(), std::ptr::null_mut());
            let code = libc::getgrnam_r(name.as_ptr(), &raw mut entry, room.as_mut_ptr(), ROOM, &raw mut found);
            (code == 0 && !found.is_null()).then_some(entry.gr_gid)
        } else {
            let (mut entry, mut found) = (std::mem::zeroed::<libc::passwd>(), std::ptr::null_mut());
            let code = libc::getpwnam_r(name.as_ptr(), &raw mut entry, room.as_mut_ptr(), ROOM, &raw mut found);
            (code == 0 && !found.is_null()).then_some(entry.pw_uid)
        }
    }
}
