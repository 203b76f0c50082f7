//! Files changed by something else must give a clear error: never another state, and never a panic.

use super::*;
use crate::space::log::store::Store;
use std::fs;
use std::path::{Path, PathBuf};

/// A temporary folder, removed with the test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn file(&self) -> PathBuf {
        self.0.path().join("space.redb")
    }
}

/// The state that a file holds.
pub fn state(path: &Path) -> Result<Vec<Change>, LogError> {
    let mut state = Vec::new();
    Durable::open(path, |change| {
        state.push(change);
        Ok(())
    })?;
    Ok(state)
}

fn write(path: &Path) {
    let log = Durable::open(path, ignore).unwrap();
    (0..40).for_each(|n| log.wait(log.append(group(n))).unwrap());
}

#[test]
fn a_file_comes_back_as_it_was_closed() {
    let folder = Folder::new();
    write(&folder.file());
    let state = state(&folder.file()).unwrap();
    assert_eq!(tuples(&state).into_keys().collect::<Vec<_>>(), numbers_after(40));
    assert_eq!(state.last(), Some(&Change::Numbered { next: 40 }));
}

#[test]
fn what_was_appended_is_written_when_the_log_is_dropped() {
    let folder = Folder::new();
    let log = Durable::open(&folder.file(), ignore).unwrap();
    for n in 0..20 {
        log.append(group(n));
    }
    drop(log);
    assert_eq!(tuples(&state(&folder.file()).unwrap()).len(), 9);
}

#[test]
fn damage_is_an_error_or_leaves_the_state_as_it_was() {
    let folder = Folder::new();
    write(&folder.file());
    let before = state(&folder.file()).unwrap();
    let whole = fs::read(folder.file()).unwrap();
    let (mut told, mut seed) = (0, 7usize);
    for round in 0..300 {
        let mut bytes = whole.clone();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The first pages, with the library's own data, are damaged more often than others.
        let within = if round % 2 == 0 { 8192 } else { bytes.len() };
        let at = (seed >> 20) % within;
        bytes[at] ^= 1 << (round % 8);
        fs::write(folder.file(), &bytes).unwrap();
        match state(&folder.file()) {
            Ok(state) => assert_eq!(state, before, "byte {at}"),
            Err(LogError::Damaged { .. } | LogError::Version { .. } | LogError::Disk { .. }) => {
                told += 1;
                let again = state(&folder.file());
                assert!(again.is_err(), "byte {at}: refused once, and then taken: {again:?}");
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    assert!(told > 30, "{told}");
}

#[test]
fn a_file_that_was_cut_is_refused() {
    let folder = Folder::new();
    write(&folder.file());
    let whole = fs::read(folder.file()).unwrap();
    for length in [0, 1, 63, 64, 300, 4095, 4096, 5000, whole.len() / 2, whole.len() - 1] {
        fs::write(folder.file(), &whole[..length]).unwrap();
        let refused = state(&folder.file());
        assert!(matches!(refused, Err(LogError::Damaged { .. })), "{length}: {refused:?}");
    }
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let folder = Folder::new();
    fs::write(folder.file(), vec![b'a'; 100_000]).unwrap();
    let error = state(&folder.file()).unwrap_err();
    assert!(matches!(&error, LogError::Damaged { .. }), "{error}");
    assert_eq!(fs::read(folder.file()).unwrap(), vec![b'a'; 100_000]);
}

#[test]
fn two_cannot_open_one_file() {
    let folder = Folder::new();
    let _first = Durable::open(&folder.file(), ignore).unwrap();
    assert!(matches!(Durable::open(&folder.file(), ignore), Err(LogError::InUse(_))));
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = Durable::open(Path::new("/no/such/folder/space.redb"), ignore).err().unwrap();
    assert!(matches!(&error, LogError::Disk { path, .. } if path.contains("/no/such")), "{error}");
}

#[cfg(unix)]
#[test]
fn only_its_user_reads_a_store() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    drop(Store::open(&folder.file()).unwrap());
    assert_eq!(fs::metadata(folder.file()).unwrap().permissions().mode() & 0o777, 0o600);
}
