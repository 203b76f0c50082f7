//! BLAKE3 digests of files, computed by several threads. Each thread hashes a small file alone; all threads share a large
//! file.

use super::beneath::{Beneath, open_file, open_listed};
use crate::transfer::system;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};
use cap_std::fs::Dir;
use phalanx_net::sync::lock;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

/// Most threads.
pub const MOST_THREADS: usize = 8;
/// Bytes that are read at once. They stay in a core's cache until they are hashed.
const PIECE: usize = 256 << 10;
/// Largest file whose digest a listing tells. If the other end has no file of the same size, the digest is in vain, and reading
/// 64 KiB takes about 20 µs.
pub const SMALL: u64 = 64 << 10;
/// Bytes of a large file that a thread hashes at a time. A power of two, so that they are a subtree of BLAKE3's tree.
const BLOCK: u64 = 16 << 20;

pub type Digest = [u8; 32];

/// The number of cores. The system reads files for it, so it is asked once.
static CORES: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));

/// A file of several blocks: its index among the names, the file, and its size.
type Large = (usize, File, u64);

/// The digests of files within `root`, in the order of `names`.
pub fn digests(root: &Dir, names: &[Vec<u8>], is_over: &(dyn Fn() -> bool + Sync)) -> Vec<Result<Digest, String>> {
    let (next, large) = (AtomicUsize::new(0), Mutex::new(Vec::<Large>::new()));
    let some = || -> Vec<(usize, Result<Digest, String>)> {
        let mut done = Vec::new();
        let mut beneath = match root.try_clone() {
            Ok(root) => Beneath::new(root),
            Err(_) => return done,
        };
        let mut piece = vec![0; PIECE];
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = names.get(number) else { return done };
            let digest = open(&mut beneath, name).and_then(|(file, size)| match size {
                // Bounds the number of open files. A request has few large files.
                size if size > BLOCK && lock(&large).len() < MOST_LARGE => {
                    lock(&large).push((number, file, size));
                    Ok(None)
                }
                size => whole(&file, size, &mut piece, is_over).map(Some),
            });
            done.extend(digest.map_err(|error| error.to_string()).transpose().map(|digest| (number, digest)));
        }
    };
    let mut all = vec![Err("it was not read".to_owned()); names.len()];
    for (number, digest) in by_threads(names.len(), &some) {
        all[number] = digest;
    }
    for (number, file, size) in large.into_inner().unwrap_or_default() {
        all[number] = of_large(&file, size, is_over).map_err(|error| error.to_string());
    }
    all
}

/// The digests of files within `root` that were just listed with these sizes, of which none is above [`SMALL`]. `None`: the
/// file could not be read, or has become shorter.
pub fn of_listed(root: &Dir, files: &[(&[u8], u64)], is_over: &(dyn Fn() -> bool + Sync)) -> Vec<Option<Digest>> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        let mut beneath = match root.try_clone() {
            Ok(root) => Beneath::new(root),
            Err(_) => return done,
        };
        let mut piece = vec![0; SMALL as usize];
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((path, size)) = files.get(number).filter(|_| !is_over()) else { return done };
            let file = beneath.find(path).and_then(|(folder, name)| open_listed(folder, name));
            let digest = file.and_then(|file| whole(&file, *size, &mut piece, is_over));
            done.extend(digest.ok().map(|digest| (number, digest)));
        }
    };
    let mut all = vec![None; files.len()];
    for (number, digest) in by_threads(files.len(), &some) {
        all[number] = Some(digest);
    }
    all
}

/// Most large files that are open at a time.
const MOST_LARGE: usize = 16;

/// Runs `act` in several threads, and returns all their results.
fn by_threads<T: Send>(most: usize, act: &(dyn Fn() -> Vec<T> + Sync)) -> Vec<T> {
    let named = || thread::Builder::new().name("phalanx-digests".into());
    thread::scope(|scope| {
        let others = 1..CORES.min(MOST_THREADS).min(most);
        let threads: Vec<_> = others.filter_map(|_| named().spawn_scoped(scope, act).ok()).collect(); // fewer if the system starts no more
        let mine = act();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).chain(mine).collect()
    })
}

/// Opens a file. Its size is fixed here, because another program may append to it for ever.
fn open(beneath: &mut Beneath, name: &[u8]) -> io::Result<(File, u64)> {
    let (folder, name) = beneath.find(name)?;
    open_file(folder, name)
}

fn whole(file: &File, size: u64, piece: &mut [u8], is_over: &dyn Fn() -> bool) -> io::Result<Digest> {
    if size <= piece.len() as u64 && !is_over() {
        let content = &mut piece[..size as usize];
        read(file, content, 0)?;
        return Ok(blake3::hash(content).into());
    }
    let mut hasher = blake3::Hasher::new();
    hash(file, 0, size, piece, &mut hasher, is_over)?;
    Ok(hasher.finalize().into())
}

/// Hashes a part of a file.
fn hash(
    file: &File,
    from: u64,
    to: u64,
    piece: &mut [u8],
    hasher: &mut blake3::Hasher,
    is_over: &dyn Fn() -> bool,
) -> io::Result<()> {
    let (mut at, over) = (from, || io::Error::from(io::ErrorKind::Interrupted));
    if is_over() {
        return Err(over());
    }
    while at < to {
        let length = (to - at).min(piece.len() as u64) as usize;
        read(file, &mut piece[..length], at)?;
        hasher.update(&piece[..length]);
        at += length as u64;
        if is_over() {
            return Err(over());
        }
    }
    Ok(())
}

fn read(file: &File, piece: &mut [u8], at: u64) -> io::Result<()> {
    system::read_at(file, piece, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("it was changed while it was read"),
        _ => error,
    })
}

/// The digest of a file of several blocks. All threads hash its blocks.
fn of_large(file: &File, size: u64, is_over: &(dyn Fn() -> bool + Sync)) -> io::Result<Digest> {
    let (count, next) = (size.div_ceil(BLOCK) as usize, AtomicUsize::new(0));
    let some = || {
        let (mut done, mut piece) = (Vec::new(), vec![0; PIECE]);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return done;
            }
            let (from, mut hasher) = (number as u64 * BLOCK, blake3::Hasher::new());
            hasher.set_input_offset(from);
            let hashed = hash(file, from, size.min(from + BLOCK), &mut piece, &mut hasher, is_over);
            let is_wrong = hashed.is_err();
            done.push((number, hashed.map(|()| hasher.finalize_non_root())));
            if is_wrong {
                return done;
            }
        }
    };
    let mut blocks = vec![None; count];
    for (number, block) in by_threads(count, &some) {
        blocks[number] = Some(block?);
    }
    let blocks: Option<Vec<_>> = blocks.into_iter().collect();
    let blocks = blocks.ok_or_else(|| io::Error::other("it was not read"))?;
    let (left, right) = blocks.split_at(left_of(count));
    Ok(merge_subtrees_root(&merged(left), &merged(right), Mode::Hash).into())
}

/// The chaining value of adjacent blocks in BLAKE3's tree.
fn merged(blocks: &[ChainingValue]) -> ChainingValue {
    if let [one] = blocks {
        return *one;
    }
    let (left, right) = blocks.split_at(left_of(blocks.len()));
    merge_subtrees_non_root(&merged(left), &merged(right), Mode::Hash)
}

/// The number of blocks in the left subtree.
fn left_of(blocks: usize) -> usize {
    (left_subtree_len(blocks as u64 * BLOCK) / BLOCK) as usize
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
    fn large_files_have_the_digest_of_one_who_reads_them_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
        let sizes = [BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK - 5, 5 * BLOCK + 1025, 8 * BLOCK];
        for size in sizes {
            let content: Vec<u8> = (0..size as u32).map(|at| (at.wrapping_mul(7919) >> 11) as u8).collect();
            std::fs::write(folder.path().join("f"), &content).expect("is written");
            let all = digests(&root, &[b"f".to_vec()], &|| false);
            assert_eq!(all, [Ok(blake3::hash(&content).into())], "{size}");
        }
        let over = digests(&root, &[b"f".to_vec()], &|| true);
        assert!(over[0].is_err());
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

    #[test]
    fn a_file_that_shrinks_while_it_is_read_has_no_digest() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
        let path = folder.path().join("f");
        // The file shrinks after its size was found out: small files before they are read, others after the first piece too.
        for (size, calls) in [(4096, 0), (PIECE, 0), (3 * PIECE, 0), (3 * PIECE, 1), (2 * BLOCK as usize, 0)] {
            std::fs::write(&path, vec![7; size]).expect("is written");
            let asked = AtomicUsize::new(0);
            let shrink = || {
                if asked.fetch_add(1, Ordering::Relaxed) == calls {
                    let file = File::options().write(true).open(&path).expect("is there");
                    file.set_len(size as u64 / 2 - 1).expect("is cut");
                }
                false
            };
            let all = digests(&root, &[b"f".to_vec()], &shrink);
            assert_eq!(all, [Err("it was changed while it was read".to_owned())], "{size} {calls}");
        }
    }
}
