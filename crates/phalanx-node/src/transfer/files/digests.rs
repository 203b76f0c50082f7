//! What files contain, as BLAKE3, by a few threads at once.

use super::beneath::{Beneath, open_file};
use cap_std::fs::Dir;
use std::io::{self, Read};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Threads at a time.
pub const MOST_THREADS: usize = 8;
/// Read at once, in bytes.
const PIECE: usize = 256 << 10;

pub type Digest = [u8; 32];

/// Of files within `root`, in the order of their names.
pub fn digests(root: &Dir, names: &[Vec<u8>], is_over: &(dyn Fn() -> bool + Sync)) -> Vec<Result<Digest, String>> {
    let (next, cores) = (AtomicUsize::new(0), thread::available_parallelism().map_or(1, NonZero::get));
    let some = || -> Vec<(usize, Result<Digest, String>)> {
        let mut done = Vec::new();
        let mut beneath = match root.try_clone() {
            Ok(root) => Beneath::new(root),
            Err(_) => return done,
        };
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = names.get(number) else { return done };
            let digest = digest(&mut beneath, name, is_over).map_err(|error| error.to_string());
            done.push((number, digest));
        }
    };
    let mut all = vec![Err("it was not read".to_owned()); names.len()];
    let named = || thread::Builder::new().name("phalanx-digests".into());
    thread::scope(|scope| {
        let others = 1..cores.min(MOST_THREADS).min(names.len());
        let threads: Vec<_> = others.filter_map(|_| named().spawn_scoped(scope, some).ok()).collect(); // or fewer
        let mine = some();
        for (number, digest) in threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).chain(mine) {
            all[number] = digest;
        }
    });
    all
}

fn digest(beneath: &mut Beneath, name: &[u8], is_over: &dyn Fn() -> bool) -> io::Result<Digest> {
    let (folder, name) = beneath.find(name)?;
    let file = open_file(folder, &name)?;
    let size = file.metadata()?.len(); // somebody may write on for ever
    let (mut file, mut hasher, mut piece) = (file.take(size), blake3::Hasher::new(), vec![0; PIECE]);
    loop {
        if is_over() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match file.read(&mut piece) {
            Ok(0) => return Ok(hasher.finalize().into()),
            Ok(count) => drop(hasher.update(&piece[..count])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn digests_come_in_order_and_of_files_only() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("d")).expect("is made");
        std::os::unix::fs::symlink("d/0", folder.path().join("link")).expect("is made");
        let mut names: Vec<_> = (0..100).map(|number| format!("d/{number}").into_bytes()).collect();
        for number in 0..100 {
            std::fs::write(folder.path().join(format!("d/{number}")), vec![7; number * 9999]).expect("is written");
        }
        names.extend([b"d".to_vec(), b"link".to_vec(), b"no such".to_vec()]);
        let root = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
        let all = digests(&root, &names, &|| false);
        for (number, digest) in all[..100].iter().enumerate() {
            assert_eq!(*digest, Ok(blake3::hash(&vec![7; number * 9999]).into()), "{number}");
        }
        assert!(all[100..].iter().all(Result::is_err));
        assert!(digests(&root, &names, &|| true).iter().all(Result::is_err));
    }

    #[test]
    fn a_file_that_grows_for_ever_is_read_as_far_as_it_went() {
        use std::io::Write;
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("log"), vec![7; PIECE]).expect("is written");
        let asked = AtomicUsize::new(0);
        let grow = || {
            let mut log = File::options().append(true).open(folder.path().join("log")).expect("is there");
            log.write_all(&vec![7; PIECE]).expect("is written");
            asked.fetch_add(1, Ordering::Relaxed) > 100
        };
        let root = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
        let all = digests(&root, &[b"log".to_vec()], &grow);
        assert_eq!(all, [Ok(blake3::hash(&vec![7; PIECE]).into())]);
    }
}
