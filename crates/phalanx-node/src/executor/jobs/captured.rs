//! What a process writes to a standard stream. It lies outside of the folder of the process, which cannot change it.

use phalanx_core::wire::jobs::MOST_HERE;
use phalanx_net::sync::lock;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

/// Most bytes that are kept of one stream of one process. The rest is read and dropped.
const MOST: u64 = 256 << 20;

/// The bytes of a stream.
#[derive(Debug, Default)]
pub struct Captured(Mutex<Bytes>);

#[derive(Debug, Default)]
struct Bytes {
    /// All, as long as they are few.
    here: Vec<u8>,
    /// All, once they are many: a file without a name.
    file: Option<File>,
    count: u64,
    dropped: u64,
}

impl Captured {
    /// Adds bytes. A disk that is full loses the rest.
    pub fn add(&self, bytes: &[u8]) {
        let mut all = lock(&self.0);
        let room = MOST.saturating_sub(all.count).min(bytes.len() as u64) as usize;
        let kept = if all.dropped == 0 { all.keep(&bytes[..room]).map_or(0, |()| room) } else { 0 };
        all.count += kept as u64;
        all.dropped += (bytes.len() - kept) as u64;
    }

    /// The bytes from this one on, so many at most.
    pub fn read(&self, from: u64, most: usize) -> Vec<u8> {
        let all = lock(&self.0);
        let count = all.count.saturating_sub(from).min(most as u64) as usize;
        let mut bytes = Vec::new();
        match &all.file {
            // Nothing is here any more once it was taken.
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

    /// All bytes, if they are few, or the file with them.
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
