//! Identifies a folder and the folders above it by their positions in their file systems. All processes of a machine see the
//! same positions, even through a bind mount or from a container.

use crate::transfer::system;
use phalanx_core::wire::files::Place;
use phalanx_net::identity::random_token;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A mount: the folder `root` of a file system is visible at `point`.
struct Mount {
    device: String,
    root: PathBuf,
    point: PathBuf,
}

/// The identities of a folder, given by its path without links, and of the folders above it. Folders of its file system above
/// the mount's root are included. If the system does not list its mounts, the identities are valid only in this process.
pub fn places(path: &Path) -> Vec<Place> {
    places_by(path, system_tells())
}

/// The same, from the boot's identity and the mounts.
fn places_by(path: &Path, told: Option<(String, Vec<Mount>)>) -> Vec<Place> {
    static PROCESS: OnceLock<String> = OnceLock::new();
    let path: PathBuf = path.components().collect(); // `a/` and `a` are the same folder
    let found = told.map(|(boot, mounts)| (boot, above(&path, &mounts)));
    let (key, folders) = found.filter(|(_, folders)| !folders.is_empty()).unwrap_or_else(|| {
        let process = PROCESS.get_or_init(|| format!("{:?}", random_token()));
        (process.clone(), path.ancestors().map(|path| (String::new(), path.to_owned())).collect())
    });
    let hashed = |(device, path): &(String, PathBuf)| {
        let mut hasher = blake3::Hasher::new();
        for part in [key.as_bytes(), device.as_bytes(), &system::to_bytes(path.as_os_str())] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let mut place = Place::default();
        place.copy_from_slice(&hasher.finalize().as_bytes()[..size_of::<Place>()]);
        place
    };
    folders.iter().map(hashed).collect()
}

/// The identity of the machine's boot, and its mounts.
fn system_tells() -> Option<(String, Vec<Mount>)> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some((boot, mounts(&std::fs::read("/proc/self/mountinfo").ok()?)))
}

/// Parses a line as in proc(5): mount ID, parent ID, device, root, mount point and more, separated by spaces.
fn mounts(table: &[u8]) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == b' ').skip(2);
        let device = String::from_utf8(words.next()?.to_vec()).ok()?;
        Some(Mount { device, root: unescaped(words.next()?)?, point: unescaped(words.next()?)? })
    };
    table.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// Decodes the escapes of spaces and similar characters, such as `\040`.
fn unescaped(word: &[u8]) -> Option<PathBuf> {
    let (mut bytes, mut rest) = (Vec::new(), word);
    while let Some((first, after)) = rest.split_first() {
        let octal = rest.get(1..4).and_then(|digits| std::str::from_utf8(digits).ok());
        let sign = octal.filter(|_| *first == b'\\').and_then(|octal| u8::from_str_radix(octal, 8).ok());
        bytes.push(sign.unwrap_or(*first));
        rest = if sign.is_some() { &rest[4..] } else { after };
    }
    system::from_bytes(bytes).ok().map(PathBuf::from)
}

/// A folder and the folders above it, each by its device and its path there.
fn above(path: &Path, mounts: &[Mount]) -> Vec<(String, PathBuf)> {
    let (mut all, mut next) = (Vec::new(), Some(path));
    while let Some(seen) = next {
        // Of several mounts at one point, the last one is visible.
        let length = |mount: &&Mount| mount.point.as_os_str().len();
        let Some(mount) = mounts.iter().filter(|mount| seen.starts_with(&mount.point)).max_by_key(length) else {
            break;
        };
        let rest = seen.strip_prefix(&mount.point).unwrap_or(seen);
        let whole = if rest.as_os_str() == OsStr::new("") { mount.root.clone() } else { mount.root.join(rest) };
        all.extend(whole.ancestors().map(|path| (mount.device.clone(), path.to_owned())));
        next = mount.point.parent();
    }
    all
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const TABLE: &str = "\
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
22 21 8:2 / /srv rw - ext4 /dev/sda2 rw
23 22 8:2 /lab/my\\040data /data rw - ext4 /dev/sda2 rw
24 21 0:5 / /data/tmp rw - tmpfs tmpfs rw
nonsense
";

    fn told(path: &str) -> Vec<String> {
        let mounts = mounts(TABLE.as_bytes());
        above(Path::new(path), &mounts).iter().map(|(device, path)| format!("{device} {}", path.display())).collect()
    }

    #[test]
    fn what_a_mount_shows_lies_also_in_what_it_does_not_show() {
        let shown = told("/data/x");
        assert_eq!(shown, ["8:2 /lab/my data/x", "8:2 /lab/my data", "8:2 /lab", "8:2 /", "8:1 /"]);
        assert_eq!(told("/srv/lab/my data/x"), shown, "the same folder");
        assert!(shown.contains(&told("/srv/lab")[0]) && shown.contains(&told("/")[0]));
        assert_eq!(told("/data")[0], told("/srv/lab/my data")[0]);
        assert_eq!(told("/data/tmp/x")[..3], ["0:5 /x", "0:5 /", "8:2 /lab/my data"]);
    }

    #[test]
    fn a_folder_is_the_same_with_a_slash_behind_it_also_where_the_system_tells_nothing() {
        // In a chroot, the mount that contains its root may not be listed.
        for told in [system_tells, || None, || Some(("boot".into(), Vec::new()))] {
            let [plain, slash] = ["/a/b", "/a/b/"].map(|path| places_by(Path::new(path), told()));
            assert_eq!(plain, slash);
        }
    }

    #[test]
    fn a_folder_lies_in_those_above_it() {
        let (one, other) = (places(Path::new("/a/b")), places(Path::new("/a")));
        assert!(one.contains(&other[0]) && !other.contains(&one[0]));
    }
}
