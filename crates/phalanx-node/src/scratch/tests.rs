use super::*;
use rustix::fs::{AtFlags, CWD, FileType, Timespec, Timestamps, UTIME_OMIT, mknodat, utimensat};
use std::os::unix::fs::{chown, symlink};

const NOBODY: u32 = 65534;

fn pipe(at: &Path) {
    mknodat(CWD, at, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

/// Makes a folder look as if an executor had been killed an hour ago.
fn age(folder: &Path) {
    let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let long_ago = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
    let times = Timestamps { last_access: omitted, last_modification: long_ago };
    utimensat(CWD, folder, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn all(shared: &Path) -> PathBuf {
    shared.join(format!("{ALL}{}", geteuid().as_raw()))
}

#[test]
fn what_others_put_into_a_shared_place_is_not_looked_at() {
    let shared = tempfile::tempdir().unwrap();
    let shared = shared.path();
    let left = shared.join("phalanx-2-program-left");
    fs::create_dir(&left).unwrap();
    age(&left);
    pipe(&shared.join("phalanx-1-program-pipe")); // opening it would wait for a writer for ever
    let folder = Folder::within(shared, None).unwrap();
    assert!(folder.path().starts_with(all(shared)) && left.exists());
}

#[test]
fn what_killed_executors_left_is_removed_and_nothing_else() {
    let shared = tempfile::tempdir().unwrap();
    let all = all(shared.path());
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("kept"), "").unwrap();
    drop(private_folder::make(&all).unwrap());
    let named = |name: &str| all.join(format!("phalanx-1-program-{name}"));
    for name in ["left", "fresh", "anothers"] {
        fs::create_dir(named(name)).unwrap();
    }
    fs::write(named("left").join("file"), "").unwrap();
    symlink(other.path(), named("left").join("link")).unwrap();
    symlink(other.path(), named("link")).unwrap();
    pipe(&named("pipe"));
    let chowned = geteuid().is_root() && chown(named("anothers"), Some(NOBODY), None).is_ok();
    ["left", "anothers", "link", "pipe"].iter().for_each(|name| age(&named(name)));
    let used = Folder::within(shared.path(), None).unwrap();
    age(used.path());
    let _later = Folder::within(shared.path(), None).unwrap();
    assert!(!named("left").exists() && used.path().exists() && named("fresh").exists());
    assert!(!chowned || named("anothers").exists());
    assert!(named("pipe").exists() && named("link").exists() && other.path().join("kept").exists());
}

#[test]
fn another_user_who_takes_the_name_stops_no_program() {
    for taken in [symlink_to_tmp as fn(&Path), pipe, open_folder, folder_of_nobody] {
        let shared = tempfile::tempdir().unwrap();
        taken(&all(shared.path()));
        let folder = Folder::within(shared.path(), None).unwrap();
        assert_eq!(folder.path().parent(), Some(shared.path()));
        let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}

fn symlink_to_tmp(at: &Path) {
    symlink("/tmp", at).unwrap();
}

fn open_folder(at: &Path) {
    fs::create_dir(at).unwrap();
    fs::set_permissions(at, Permissions::from_mode(0o777)).unwrap();
}

fn folder_of_nobody(at: &Path) {
    match geteuid().is_root() {
        true => {
            fs::create_dir(at).unwrap();
            chown(at, Some(NOBODY), None).unwrap();
        }
        false => open_folder(at),
    }
}

#[test]
fn no_link_in_the_folder_leads_a_file_out_of_it() {
    let (folder, other) = (Folder::new().unwrap(), tempfile::tempdir().unwrap());
    fs::write(other.path().join("file"), "kept").unwrap();
    symlink(other.path(), folder.path().join("bin")).unwrap();
    symlink(other.path().join("file"), folder.path().join("file")).unwrap();
    folder.open_again();
    assert!(folder.begin("bin/new", true).is_err() && folder.begin("bin/file", true).is_err());
    folder.begin("file", false).unwrap();
    folder.write(b"own").unwrap();
    assert_eq!(fs::read(other.path().join("file")).unwrap(), b"kept");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"own");
}

#[test]
fn files_are_this_users_alone_and_go_with_the_folder() {
    let folder = Folder::new().unwrap();
    folder.begin("bin/a.out", true).unwrap();
    folder.write(b"one").unwrap();
    folder.write(b"two").unwrap();
    folder.begin("data", false).unwrap();
    folder.finish();
    let path = folder.path().to_owned();
    let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("bin/a.out"), mode("data")), (0o700, 0o700, 0o600));
    assert_eq!(fs::read(path.join("bin/a.out")).unwrap(), b"onetwo");
    drop(folder);
    assert!(!path.exists());
}

#[test]
fn a_file_is_replaced_at_once_and_no_link_leads_it_out() {
    let (folder, other) = (Folder::new().unwrap(), tempfile::tempdir().unwrap());
    let (outside, path) = (other.path().join("file"), folder.path().join("file"));
    fs::write(&outside, "kept").unwrap();
    symlink(&outside, &path).unwrap();
    symlink(&outside, folder.path().join("beside")).unwrap();
    assert!(folder.replace("file", "beside", b"x").is_err(), "another file is there");
    folder.replace("file", "beside", b"one").unwrap();
    folder.replace("file", "beside", b"two").unwrap();
    assert_eq!((fs::read(&outside).unwrap(), fs::read(&path).unwrap()), (b"kept".to_vec(), b"two".to_vec()));
    assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!folder.path().join("beside").exists());
    folder.remove("file");
    assert!(!path.exists());
}

#[test]
fn folders_in_folders_go_however_many_they_are_and_links_lead_nowhere() {
    let (folder, other) = (Folder::new().unwrap(), tempfile::tempdir().unwrap());
    fs::write(other.path().join("kept"), "").unwrap();
    let mut at = folder.opened.try_clone().unwrap();
    for _ in 0..20_000 {
        at.create_dir("a").unwrap();
        at = at.open_dir("a").unwrap(); // a path to all of them is longer than the system takes
    }
    at.write("file", "x").unwrap();
    symlink(other.path(), folder.path().join("a/link")).unwrap();
    pipe(&folder.path().join("a/pipe"));
    fs::create_dir(folder.path().join("closed")).unwrap();
    fs::create_dir(folder.path().join("closed/in")).unwrap();
    fs::set_permissions(folder.path().join("closed"), Permissions::from_mode(0o000)).unwrap();
    let path = folder.path().to_owned();
    drop((at, folder));
    assert!(!path.exists() && other.path().join("kept").exists());
}

#[test]
fn no_name_leads_out() {
    let folder = Folder::new().unwrap();
    for name in ["", "/etc/passwd", "../x", "a/../../x", ".", "a\0b", &"a/".repeat(3000)] {
        assert!(folder.begin(name, false).is_err(), "{name:?}");
    }
    folder.begin("a", false).unwrap();
    assert!(folder.begin("a", true).is_err(), "it is there already");
    assert!(folder.begin("a/b", true).is_err(), "a file is no folder");
    folder.open_again();
    assert!(folder.begin("a", true).is_ok(), "it is sent once more");
    assert!(folder.begin("../a", true).is_err());
}

#[test]
fn an_executor_that_starts_removes_what_killed_ones_left() {
    let shared = tempfile::tempdir().unwrap();
    let (own, accounts) = (all(shared.path()), shared.path().join(ALL_OF_ACCOUNTS));
    drop((private_folder::make(&own).unwrap(), private_folder::make_passable(&accounts).unwrap()));
    let left = [own.join("phalanx-1-program-left"), accounts.join("phalanx-1-program-left")];
    for (folder, account) in left.iter().zip([None, Some(NOBODY)]) {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        let _ = chown(folder, account.filter(|_| geteuid().is_root()), None);
        age(folder);
    }
    clean_within(shared.path());
    assert_eq!(fs::read_dir(shared.path()).unwrap().count(), 0, "and the folders around them, which are empty now");
    clean_within(shared.path());
    assert_eq!(fs::read_dir(shared.path()).unwrap().count(), 0, "it makes none");
}
