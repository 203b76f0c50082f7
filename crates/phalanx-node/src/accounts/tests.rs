use super::*;
use std::error::Error;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::thread;
use std::time::{Duration, Instant};

/// A range of accounts for one test: `at` tells the tests of this process apart, and its number those of other processes.
fn numbers(at: u32, count: u32) -> RangeInclusive<u32> {
    let first = 300_000_000 + (std::process::id() % 100_000) * 1000 + at * 10;
    first..=first + count - 1
}

fn register(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("home/accounts.txt")
}

/// The accounts of an executor that may have succeeded another. A process that another test starts holds the lock of one
/// that was dropped for an instant longer, until it runs its program.
fn open(numbers: RangeInclusive<u32>, folder: &tempfile::TempDir, grid: &[u8]) -> Result<Accounts, String> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match Accounts::new(numbers.clone(), &register(folder), grid) {
            Err(error) if error.starts_with("another executor") && Instant::now() < end => thread::yield_now(),
            outcome => return outcome,
        }
    }
}

/// Whether this process is root. Where it is not, which is told, there is nothing to test.
fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("not tested: this process is not root");
    }
    is_root
}

#[test]
fn each_user_has_one_account_and_keeps_it() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let numbers = numbers(0, 2);
    let first = *numbers.start();
    {
        let accounts = open(numbers.clone(), &folder, b"grid").unwrap();
        let of = |user: &str| accounts.of(user, None).map(|it| it.number());
        assert_eq!((of("ada").unwrap(), of("bob").unwrap(), of("ada").unwrap()), (first, first + 1, first));
        let refused = of("eve").unwrap_err().to_string();
        let range =
            format!("all 2 accounts that this executor may use are other users' (--accounts {first}-{})", first + 1);
        assert!(refused.starts_with(&range), "{refused}");
        assert_eq!(of("bob").unwrap(), first + 1, "others are served");
    }
    let later = open(first..=first + 2, &folder, b"grid").unwrap();
    assert_eq!(later.of("bob", None).unwrap().number(), first + 1, "after another start too");
    let guest = later.of("bob", Some(b"another grid")).unwrap().number();
    assert_eq!(guest, first + 2, "bob of a grid to which the executor is lent is another user");
    drop(later);
    let other = open(first..=first + 2, &folder, b"another grid").unwrap();
    assert_eq!(other.of("bob", None).unwrap().number(), first + 2, "bob of another grid is another user");
}

#[test]
fn no_two_executors_have_one_account() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let numbers = numbers(1, 4);
    let (first, last) = (*numbers.start(), *numbers.end());
    let taken = open(numbers, &folder, b"grid").unwrap();
    for overlapping in [first..=last, last..=last + 1, first - 1..=first] {
        let refused = Accounts::new(overlapping, &register(&folder), b"grid").unwrap_err();
        assert!(refused.starts_with("another executor of this machine has some of the accounts"), "{refused}");
    }
    assert!(open(last + 1..=last + 1, &folder, b"grid").is_ok());
    drop(taken);
    assert!(open(last..=last + 1, &folder, b"grid").is_ok());
}

#[test]
fn wrong_ranges_and_a_damaged_register_are_refused() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let new = |numbers| open(numbers, &folder, b"grid").map(drop);
    for wrong in [0..=5, RangeInclusive::new(5, 4), 5..=u32::MAX] {
        assert!(new(wrong.clone()).is_err_and(|it| it.ends_with("is no range of accounts")), "{wrong:?}");
    }
    fs::create_dir_all(folder.path().join("home")).unwrap();
    let numbers = numbers(2, 4);
    let first = numbers.start();
    let grid = "0123456789abcdef";
    for text in [
        "ada",
        &format!("x ada {grid}"),
        &format!("{first} ada grid"),
        &format!("{first} ada"),
        &format!("{first} ada {grid}\n{first} bob {grid}"),
        &format!("1000{first} ada {grid}"),
    ] {
        fs::write(register(&folder), format!("{text}\n")).unwrap();
        assert!(new(numbers.clone()).is_err_and(|it| it.contains("is no line `ACCOUNT USER GRID`")), "{text}");
    }
    fs::write(register(&folder), format!("{first} ada {grid}")).unwrap();
    assert!(new(numbers.clone()).is_err_and(|it| it.contains("its last line has no end")));
    fs::write(register(&folder), format!("7 ada {grid}\n7 bob {grid}\n")).unwrap();
    assert_eq!(new(numbers), Ok(()), "accounts of another range are another executor's");
}

#[test]
fn a_register_that_others_can_change_or_that_has_no_end_is_refused() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let numbers = numbers(6, 2);
    let new = || open(numbers.clone(), &folder, b"grid").map(drop);
    let home = folder.path().join("home");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(numbers.clone(), &folder, b"grid").unwrap().of("ada", None).unwrap();
    assert_eq!(new(), Ok(()));
    for (path, loose, own) in [(register(&folder), 0o620, 0o600), (home.clone(), 0o777, 0o700)] {
        mode(&path, loose);
        assert!(new().is_err_and(|it| it.contains("could be changed by others")), "{path:?}");
        mode(&path, own);
    }
    std::os::unix::fs::chown(register(&folder), Some(65534), None).unwrap();
    assert!(new().is_err_and(|it| it.contains("could be changed by others")));
    fs::remove_file(register(&folder)).unwrap();
    symlink("/dev/zero", register(&folder)).unwrap();
    assert!(new().is_err_and(|it| it.contains("could be changed by others")), "it is no file");
    fs::remove_file(register(&folder)).unwrap();
    fs::File::create(register(&folder)).unwrap().set_len(LONGEST + 1).unwrap();
    assert!(new().is_err_and(|it| it.contains("is longer than the")));
}

#[test]
fn a_user_of_two_ranges_that_become_one_keeps_the_first_account() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let numbers = numbers(5, 4);
    let first = *numbers.start();
    for half in [first..=first + 1, first + 2..=first + 3] {
        let accounts = open(half.clone(), &folder, b"grid").unwrap();
        assert_eq!(accounts.of("ada", None).unwrap().number(), *half.start());
    }
    let whole = open(numbers, &folder, b"grid").unwrap();
    assert_eq!(whole.of("ada", None).unwrap().number(), first);
    assert_eq!(whole.of("bob", None).unwrap().number(), first + 1, "her other account stays hers");
}

#[test]
fn work_on_files_has_the_rights_of_the_account() {
    if !is_root() {
        return;
    }
    let account = Account { number: *numbers(3, 1).start(), user: "ada".into() };
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (path, mode) in [(folder.path(), 0o777), (other.path(), 0o700)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(other.path().join("secret"), "hidden").unwrap();
    symlink(other.path().join("secret"), folder.path().join("link")).unwrap();
    let parent = fs::File::open(folder.path()).unwrap(); // the folder around it need not let the account pass
    let there = PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd()));
    account.acting(|| fs::write(there.join("file"), "made")).unwrap();
    let refused = account.acting(|| fs::read(there.join("link"))).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    let made = fs::metadata(folder.path().join("file")).unwrap();
    assert_eq!((made.uid(), made.gid()), (account.number(), account.number()));
    assert_eq!(fs::read(other.path().join("secret")).unwrap(), b"hidden", "and root's again afterwards");
}

/// Forks a process that enters the account. Returns 1 or 0 for each of its checks: it entered, all its user numbers and all its
/// group numbers are the account's, it has no other groups, and it cannot become root again.
fn inside(account: &Account) -> Result<Vec<i64>, Box<dyn Error>> {
    let (answers, answer) = rustix::pipe::pipe()?;
    // SAFETY: the child only makes system calls, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain system calls, with pointers to values that live as long as the calls.
        let found = unsafe {
            let entered = account.enter().is_ok();
            let (mut user, mut group) = ([0; 3], [0; 3]);
            libc::getresuid(&raw mut user[0], &raw mut user[1], &raw mut user[2]);
            libc::getresgid(&raw mut group[0], &raw mut group[1], &raw mut group[2]);
            let groups = libc::getgroups(0, std::ptr::null_mut());
            let again = libc::syscall(libc::SYS_setresuid, 0, 0, 0);
            let all = |ids: [u32; 3]| ids.iter().all(|id| *id == account.number());
            [entered, all(user), all(group), groups == 0, again == -1]
        };
        let _ = rustix::io::write(&answer, &found.map(u8::from));
        // SAFETY: ends the child without the handlers of its parent.
        unsafe { libc::_exit(0) }
    }
    drop(answer);
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut fs::File::from(answers), &mut bytes)?;
    // SAFETY: waits for the child, which only this function knows.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    Ok(bytes.into_iter().map(i64::from).collect())
}

#[test]
fn a_process_enters_an_account_for_good() {
    if is_root() {
        let account = Account { number: *numbers(4, 1).start(), user: "ada".into() };
        assert_eq!(inside(&account).unwrap(), [1; 5]);
    }
}
