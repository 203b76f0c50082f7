//! Where the hubs of a grid are, in a file beside an executor's identity. An executor that starts again while the hub of its token is
//! lost finds the other ones.

use super::seeking::hub_address;
use phalanx_core::wire::hub::MOST_ADDRESSES;
use phalanx_net::replace::LockedFolder;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of the file.
pub const HUBS: &str = "hubs.txt";
/// Most bytes that are read of it.
const LONGEST: u64 = 1 << 16;
/// How long to wait for another process that writes in the folder.
const PATIENCE: Duration = Duration::from_secs(5);

/// The file, and the addresses in it: one a line.
#[derive(Debug)]
pub struct HubsFile {
    path: PathBuf,
    kept: Vec<String>,
}

impl HubsFile {
    /// The file beside an identity. One that is missing or damaged has no addresses.
    #[must_use]
    pub fn beside(identity: &Path) -> HubsFile {
        let path = identity.with_file_name(HUBS);
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
        let lines = if read.is_ok() { text.lines() } else { "".lines() };
        let kept = merged(lines.filter(|line| hub_address(line).is_ok()).map(str::to_owned), []);
        HubsFile { path, kept }
    }

    /// These addresses, and behind them those of the file.
    #[must_use]
    pub fn after(&self, told: &[String]) -> Vec<String> {
        merged(told.iter().cloned(), self.kept.iter().cloned())
    }

    /// Writes these addresses, unless the file has them in whatever order.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn keep(&mut self, hubs: &[String]) -> io::Result<()> {
        let are_kept = hubs.len() == self.kept.len() && hubs.iter().all(|hub| self.kept.contains(hub));
        if are_kept {
            return Ok(());
        }
        let folder = self.path.parent().unwrap_or(Path::new(""));
        self.keep_in(&LockedFolder::wait_for(folder, PATIENCE)?, hubs)
    }

    /// Writes these addresses into the folder of the file, which this process has locked.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn keep_in(&mut self, folder: &LockedFolder, hubs: &[String]) -> io::Result<()> {
        let mut text = hubs.join("\n");
        text.push('\n');
        folder.replace(&self.path, text.as_bytes())?;
        hubs.clone_into(&mut self.kept);
        Ok(())
    }
}

/// Addresses of hubs in this order, each once, and as many as are kept.
pub fn merged(first: impl IntoIterator<Item = String>, then: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut all = Vec::new();
    for hub in first.into_iter().chain(then) {
        if !hub.is_empty() && !all.contains(&hub) && all.len() < MOST_ADDRESSES {
            all.push(hub);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn texts<const N: usize>(hubs: [&str; N]) -> Vec<String> {
        hubs.map(str::to_owned).into()
    }

    #[test]
    fn what_was_kept_comes_behind_what_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("executor.pem");
        let mut file = HubsFile::beside(&identity);
        assert_eq!(file.after(&texts(["a:1"])), ["a:1"]);
        file.keep(&texts(["b:1", "a:1", "c:1"])).unwrap();
        assert_eq!(HubsFile::beside(&identity).after(&texts(["a:1"])), ["a:1", "b:1", "c:1"]);
    }

    #[test]
    fn another_order_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("executor.pem");
        let mut file = HubsFile::beside(&identity);
        file.keep(&texts(["a:1", "b:1"])).unwrap();
        fs::write(folder.path().join(HUBS), "").unwrap();
        file.keep(&texts(["b:1", "a:1"])).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join(HUBS)).unwrap(), "");
        file.keep(&texts(["b:1"])).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join(HUBS)).unwrap(), "b:1\n");
    }

    #[test]
    fn a_damaged_file_is_read_as_far_as_it_has_addresses() {
        let folder = tempfile::tempdir().unwrap();
        let identity = folder.path().join("executor.pem");
        for (bytes, addresses) in [
            (&b"\xff\xfe:1\n"[..], vec![]),
            (b"no address\n\na:1\na:1\n", texts(["a:1"])),
            (&b"a:1\n".repeat(1 << 15), texts(["a:1"])),
        ] {
            fs::write(folder.path().join(HUBS), bytes).unwrap();
            assert_eq!(HubsFile::beside(&identity).after(&[]), addresses);
        }
        let many: String = (0..99).map(|port| format!("a:{}\n", port + 1)).collect();
        fs::write(folder.path().join(HUBS), many).unwrap();
        assert_eq!(HubsFile::beside(&identity).after(&[]).len(), MOST_ADDRESSES);
    }
}
