use super::*;

#[test]
fn a_file_is_replaced_whole_and_nothing_is_left_of_a_process_that_was_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    fs::write(folder.path().join("file.new"), "half").expect("written");
    let locked = Locked::wait(&path).expect("the lock");
    locked.replace(b"one").expect("replaced");
    locked.replace(b"two").expect("replaced");
    assert_eq!(fs::read(&path).expect("read"), b"two");
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").map(|it| it.expect("an entry").file_name()).collect();
    names.sort();
    assert_eq!(names, [LOCK, "file"]);
}

#[test]
fn of_two_processes_one_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let first = Locked::wait(&path).expect("the lock");
    first.replace(b"1").expect("replaced");
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let locked = Locked::wait(&path).expect("the lock");
            let found = fs::read(&path).expect("read");
            locked.replace(&[&found[..], b"3"].concat()).expect("replaced");
        });
        first.replace(b"12").expect("replaced");
        drop(first);
        second.join().expect("no panic");
    });
    assert_eq!(fs::read(&path).expect("read"), b"123");
}

#[cfg(unix)]
#[test]
fn modes_and_links_are_kept() {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().expect("a folder");
    let [path, link] = ["file", "link"].map(|name| folder.path().join(name));
    let mode = || fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
    Locked::wait(&path).and_then(|locked| locked.replace(b"new")).expect("replaced");
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("set");
    symlink(&path, &link).expect("a link");
    Locked::wait(&link).and_then(|locked| locked.replace(b"newer")).expect("replaced");
    assert_eq!((mode(), fs::read(&path).expect("read")), (0o644, b"newer".to_vec()));
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
}

#[cfg(unix)]
#[test]
fn nothing_else_under_the_name_of_the_lock_is_opened() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    let lock = folder.path().join(LOCK);
    mknodat(CWD, &lock, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    Locked::wait(&folder.path().join("file")).expect_err("a pipe");
    fs::remove_file(&lock).expect("removed");
    symlink(folder.path().join("elsewhere"), &lock).expect("a link");
    Locked::wait(&folder.path().join("file")).expect_err("a link");
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_file_is_refused_at_once() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    let error = read(&path, 10).expect_err("a pipe");
    assert_eq!(error.to_string(), "it is no regular file");
    read(folder.path(), 10).expect_err("a folder");
}

#[cfg(unix)]
#[test]
fn a_locked_folder_keeps_others_from_its_files_and_from_those_that_its_links_lead_to() {
    use std::os::unix::fs::symlink;
    let [folder, elsewhere] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [path, link] = ["file", "link"].map(|name| folder.path().join(name));
    let there = elsewhere.path().join("file");
    symlink(&there, &link).expect("a link");
    fs::write(&there, "old").expect("written");
    let locked = LockedFolder::wait_for(folder.path(), Duration::ZERO).expect("the lock");
    let error = Locked::wait_for(&path, Duration::ZERO).expect_err("is locked");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    locked.replace(&path, b"here").expect("replaced");
    locked.replace(&link, b"there").expect("replaced");
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    assert_eq!([&path, &there].map(|path| fs::read(path).expect("read")), [b"here".to_vec(), b"there".to_vec()]);
    let outside = Locked::wait(&there).expect("the lock");
    locked.replace(&path, b"again").expect("needs no lock of the other folder");
    drop(outside);
}

#[cfg(unix)]
#[test]
fn a_folder_whose_lock_cannot_be_opened_is_not_locked() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join(LOCK)).expect("in the way");
    let error = LockedFolder::wait_for(folder.path(), Duration::ZERO).expect_err("no lock");
    assert!(error.to_string().contains("its lock"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_lock_that_root_makes_belongs_to_the_owner_of_the_folder() {
    use std::os::unix::fs::{MetadataExt, chown};
    let folder = tempfile::tempdir().expect("a folder");
    if chown(folder.path(), Some(4321), Some(4321)).is_err() {
        return; // only root may
    }
    drop(LockedFolder::wait_for(folder.path(), Duration::ZERO).expect("the lock"));
    let made = fs::metadata(folder.path().join(LOCK)).expect("a lock");
    assert_eq!((made.uid(), made.gid()), (4321, 4321));
}

/// A lock that another account has made does not keep files from being written.
#[cfg(unix)]
#[test]
fn a_lock_that_cannot_be_opened_is_done_without() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let (path, lock) = (folder.path().join("file"), folder.path().join(LOCK));
    fs::write(&lock, "").expect("written");
    fs::set_permissions(&lock, Permissions::from_mode(0o000)).expect("set");
    Locked::wait(&path).and_then(|locked| locked.replace(b"new")).expect("replaced");
    assert_eq!(fs::read(&path).expect("read"), b"new");
}
