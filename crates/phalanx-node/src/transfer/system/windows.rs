//! Names, positions and locks of files on Windows. It has no permission bits, owners and numbers of files that a copy could keep.

use cap_std::fs::{Dir, OpenOptions};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::windows::fs::FileExt;
use std::time::SystemTime;

use super::Identity;

/// Characters that no name of a file has. With some of them, a name would be a path, or a part of another file (a stream).
const FORBIDDEN: &[char] = &['<', '>', ':', '"', '/', '\\', '|', '?', '*'];
/// Names that belong to devices, in every folder, with or without an extension.
const DEVICES: &[&str] = &["AUX", "CON", "CONIN$", "CONOUT$", "NUL", "PRN"];
/// And these with a digit behind them.
const NUMBERED: &[&str] = &["COM", "LPT"];

/// The bytes of a name, as they travel.
pub fn to_bytes(name: &OsStr) -> Vec<u8> {
    name.to_string_lossy().into_owned().into_bytes()
}

/// The path with these bytes. Fails if this system cannot have it. A name that a peer tells is to be [checked](check_name), too. Users of
/// other systems write `/C:/folder`, because paths begin with a slash there.
pub fn from_bytes(path: Vec<u8>) -> io::Result<OsString> {
    let path = String::from_utf8(path).map_err(|error| impossible(&error.utf8_error().to_string()))?;
    let begins_with_drive = matches!(path.as_bytes(), [b'/', drive, b':', ..] if drive.is_ascii_alphabetic());
    Ok(if begins_with_drive { OsString::from(&path[1..]) } else { path.into() })
}

/// A relative path, with a slash between two names, without a copy of its bytes.
pub fn as_name(path: &[u8]) -> io::Result<&OsStr> {
    let path = std::str::from_utf8(path).map_err(|error| impossible(&error.to_string()))?;
    path.split('/').try_for_each(|name| check_name(OsStr::new(name)))?;
    Ok(OsStr::new(path))
}

/// An error if a file of this name would be something else here: a path, a device, or a part of another file.
pub fn check_name(name: &OsStr) -> io::Result<()> {
    let name = name.to_str().ok_or_else(|| impossible("it is no text"))?;
    check(name).map_or(Ok(()), |why| Err(impossible(why)))
}

fn impossible(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("this name cannot exist on Windows: {why}"))
}

/// Why a name cannot be that of a file in a folder. `None`: it can.
fn check(name: &str) -> Option<&'static str> {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_uppercase();
    let is_numbered = |device: &str| {
        let number = stem.strip_prefix(device);
        number.is_some_and(|it| it.chars().count() == 1 && it.chars().all(|digit| "123456789¹²³".contains(digit)))
    };
    if name.contains(FORBIDDEN) || name.contains(|it: char| it < ' ') {
        return Some("it has a character that no name has there");
    }
    if name.ends_with(['.', ' ']) && !matches!(name, "." | "..") {
        return Some("it ends with a dot or a space");
    }
    let is_device = DEVICES.contains(&stem.as_str()) || NUMBERED.iter().any(|device| is_numbered(device));
    is_device.then_some("it belongs to a device")
}

pub fn read_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.seek_read(buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => (buffer, offset) = (&mut buffer[count..], offset + count as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => (bytes, offset) = (&bytes[count..], offset + count as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

pub fn fit_mode(_: &Dir, _: &OsStr, _: &cap_std::fs::Metadata, _: Option<u32>) -> io::Result<()> {
    Ok(())
}

pub fn mode(_: &cap_std::fs::Metadata) -> Option<u32> {
    None
}

pub fn is_at(_: &File, _: &Dir, _: &OsStr) -> io::Result<bool> {
    Ok(true)
}

pub fn is_own(file: &Metadata) -> bool {
    file.is_file()
}

/// Unknown on this system. Then only a partial file with a state file is recognised as a copy's.
pub fn is_private(_: &Metadata) -> bool {
    false
}

pub fn changed(_: &Metadata) -> Option<SystemTime> {
    None
}

pub fn at_once(_: &mut OpenOptions) {}

pub fn identity(_: &cap_std::fs::Metadata) -> Identity {
    (0, 0, 0, 0)
}

pub fn may_be_sparse(_: &cap_std::fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_systems_that_mean_something_else_here_are_refused() {
        for name in ["a:b", "a\\b", "C:", "nul", "COM1.txt", "lpt9", "x.", "x ", "a\n", "con .txt", "x?"] {
            assert!(as_name(name.as_bytes()).is_err(), "{name:?}");
        }
        for name in ["a", "a.txt", ".hidden", "null", "com", "com10", "é"] {
            assert!(as_name(name.as_bytes()).is_ok(), "{name:?}");
        }
        assert!(as_name(b"\xff").is_err() && as_name(b"a/nul").is_err() && as_name(b"a/b").is_ok());
        assert_eq!(from_bytes(b"/C:/folder".to_vec()).unwrap(), "C:/folder");
    }

    #[test]
    fn bytes_are_read_and_written_at_positions() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::options().read(true).write(true).create_new(true).open(folder.path().join("a")).unwrap();
        write_at(&file, b"world", 6).unwrap();
        write_at(&file, b"hello ", 0).unwrap();
        let mut read = [0; 11];
        read_at(&file, &mut read, 0).unwrap();
        assert_eq!(&read, b"hello world");
        assert!(read_at(&file, &mut read, 1).is_err());
    }
}
