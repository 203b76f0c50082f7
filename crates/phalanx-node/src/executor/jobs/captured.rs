//! The captured output of a standard stream. It lies outside of the folder of the process, so that the process cannot change it.

use phalanx_core::wire::jobs::MOST_HERE;
use phalanx_net::sync::lock;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

/// Most bytes that are kept of one stream of one process. The rest is read and discarded.
const MOST: u64 = 256 << 20;

/// The bytes of a stream.
#[derive(Debug, Default)]
pub struct Captured(Mutex<Bytes>);

#[derive(Debug, Default)]
struct Bytes {
    /// All bytes, while they are few.
    here: Vec<u8>,
    /// All bytes, once they are many, in a file without a name.
    file: Option<File>,
    count: u64,
    dropped: u64,
}

impl Captured {
    /// Adds bytes. If the disk is full, the rest is discarded.
    pub fn add(&self, bytes: &[u8]) {
        let mut all = lock(&self.0);
        let room = MOST.saturating_sub(all.count).min(bytes.len() as u64) as usize;
        let kept = if all.dropped == 0 { all.keep(&bytes[..room]).map_or(0, |()| room) } else { 0 };
        all.count += kept as u64;
        all.dropped += (bytes.len() - kept) as u64;
    }

    /// At most `most` bytes, from the byte `from` on.
    pub fn read(&self, from: u64, most: usize) -> Vec<u8> {
        let all = lock(&self.0);
        let count = all.count.saturating_sub(from).min(most as u64) as usize;
        let mut bytes = Vec::new();
        match &all.file {
            // The result is empty after `take`.
            None => bytes.extend_from_slice(all.here.get(from as usize..from as usize + count).unwrap_or_default()),
            Some(file) => {
                bytes.resize(count, 0);
                if file.read_exact_at(&mut bytes, from).is_err() {
                    bytes.clear();
                }
            }
        }
        bytes
    }

    /// Takes all bytes: inline if they are few, or the file with them, and the number of discarded bytes.
    pub fn take(&self) -> (Vec<u8>, Option<File>, u64) {
        let mut all = lock(&self.0);
        (std::mem::take(&mut all.here), all.file.take(), all.dropped)
    }
}

impl Bytes {
    fn keep(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.here.len() + bytes.len() > MOST_HERE {
            let mut file = tempfile::tempfile()?;
            file.write_all(&self.here)?;
            (self.file, self.here) = (Some(file), Vec::new());
        }
        match &self.file {
            None => self.here.extend_from_slice(bytes),
            Some(file) => file.write_all_at(bytes, self.count)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bytes_and_many_are_read_from_anywhere() {
        let captured = Captured::default();
        captured.add(b"few");
        assert_eq!((captured.read(1, 9), captured.read(3, 9), captured.read(9, 9)), (b"ew".to_vec(), vec![], vec![]));
        captured.add(&[b'x'; MOST_HERE]);
        captured.add(b"end");
        assert_eq!(captured.read(0, 4), b"fewx");
        assert_eq!(captured.read(MOST_HERE as u64 + 3, 9), b"end");
        let (here, file, dropped) = captured.take();
        assert_eq!(captured.read(0, 9), b"", "was taken");
        assert_eq!((here, file.expect("are many").metadata().expect("is open").len(), dropped), (vec![], 518, 0));
    }
}
