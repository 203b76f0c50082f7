use super::*;
use std::os::unix::fs::PermissionsExt;
use std::thread;

const GRID: &str = "00112233445566778899aabbccddeeff";

struct Folder {
    _folder: tempfile::TempDir,
    known: KnownMembers,
}

fn folder() -> Folder {
    let folder = tempfile::tempdir().unwrap();
    let known = KnownMembers::at(folder.path().join("known_members"));
    Folder { _folder: folder, known }
}

fn member(name: &str, address: &str) -> KnownMember {
    KnownMember { name: name.to_owned(), grid: GRID.to_owned(), address: address.to_owned() }
}

impl Folder {
    fn write(&self, text: impl AsRef<[u8]>) {
        fs::write(&self.known.file, text).unwrap();
        fs::set_permissions(&self.known.file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.known.file).unwrap()
    }
}

#[test]
fn the_first_member_is_remembered_and_another_is_refused_until_it_is_forgotten() {
    let folder = folder();
    let known = &folder.known;
    assert_eq!(known.list(), Ok(Vec::new()));
    assert_eq!(known.meet(&member("ws7", "lab:7400")), Ok(()));
    assert_eq!(known.meet(&member("ws7", "lab:7400")), Ok(()));
    assert_eq!(folder.text(), format!("ws7 {GRID} lab:7400\n"));
    assert_eq!(fs::metadata(&known.file).unwrap().permissions().mode() & 0o777, 0o600);
    let error = known.meet(&member("ws8", "lab:7400")).unwrap_err().to_string();
    assert!(error.starts_with("ws8 answers, but ws7 answered there before ("), "{error}");
    assert!(error.ends_with(&format!("phalanx known forget --file {} lab:7400", known.file.display())), "{error}");
    assert_eq!(known.meet(&member("ws8", "lab:7401")), Ok(()));
    assert_eq!(known.forget("LAB"), Ok(vec![member("ws7", "lab:7400")]));
    assert_eq!(known.forget("lab"), Ok(Vec::new()));
    assert_eq!(known.meet(&member("ws8", "lab:7400")), Ok(()));
    assert_eq!(known.list(), Ok(vec![member("ws8", "lab:7401"), member("ws8", "lab:7400")]));
}

#[test]
fn a_name_counts_in_its_own_grid_only() {
    let folder = folder();
    assert_eq!(folder.known.meet(&member("ws7", "lab:7400")), Ok(()));
    let other = KnownMember { grid: GRID.replace('0', "f"), ..member("ws8", "lab:7400") };
    assert_eq!(folder.known.meet(&other), Ok(()));
    assert_eq!(folder.known.forget("lab:7400").unwrap().len(), 2);
}

#[test]
fn what_people_wrote_between_the_lines_stays() {
    let folder = folder();
    folder.write(format!("# the lab\n\nWS7\t{GRID}  LAB\nws8 {GRID} unix:/run/a b"));
    let unix = member("ws8", "unix:/run/a b");
    assert_eq!(folder.known.list(), Ok(vec![member("ws7", "lab:7400"), unix]));
    assert_eq!(folder.known.meet(&member("ws9", "lab:7401")), Ok(()));
    assert_eq!(folder.known.forget("lab").unwrap().len(), 1);
    assert_eq!(folder.text(), format!("# the lab\n\nws8 {GRID} unix:/run/a b\nws9 {GRID} lab:7401\n"));
}

#[test]
fn members_that_are_met_at_the_same_time_are_all_remembered() {
    let folder = folder();
    let meet = |number: u32| folder.known.meet(&member(&format!("ws{number}"), &format!("lab{number}:7400")));
    thread::scope(|scope| {
        let meeting: Vec<_> = (0..24).map(|number| scope.spawn(move || meet(number))).collect();
        meeting.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(())));
    });
    assert_eq!(folder.known.list().unwrap().len(), 24);
    let meet = |name: String| folder.known.meet(&member(&name, "one:7400")).is_ok();
    let met: usize = thread::scope(|scope| {
        let meeting: Vec<_> = (0..8).map(|number| scope.spawn(move || meet(format!("ws{number}")))).collect();
        meeting.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
    });
    assert_eq!(met, 1, "one of them is the first");
}

#[test]
fn a_damaged_line_is_named_and_nobody_is_believed() {
    let folder = folder();
    let lines: [&[u8]; 8] = [
        b"ws7",
        b"ws7 lab:7400",
        b"ws7 0011 lab:7400",
        b"w/s 00112233445566778899aabbccddeeff lab:7400",
        b"ws7 00112233445566778899aabbccddeeff lab:port",
        b"ws7 00112233445566778899aabbccddeeff unix:",
        b"ws7 00112233445566778899aabbccddeeff a\x1b[31m:1",
        b"ws7 00112233445566778899aabbccddeeff lab\xff:1",
    ];
    for line in lines {
        folder.write([b"# fine\n", line, b"\n"].concat());
        let error = folder.known.meet(&member("ws9", "other:7400")).unwrap_err().to_string();
        assert!(error.contains("known_members, line 2: "), "{error}");
        assert!(folder.known.list().is_err() && folder.known.forget("lab:7400").is_err());
    }
    folder.write(format!("ws7 {GRID} lab:7400\nws8 {GRID} LAB\n"));
    let error = folder.known.list().unwrap_err().to_string();
    assert!(error.contains("line 2: the address is on an earlier line already"), "{error}");
}

#[test]
fn a_file_that_is_too_large_that_others_may_write_or_that_is_none_is_not_read() {
    let folder = folder();
    let error = || folder.known.meet(&member("ws7", "lab:7400")).unwrap_err().to_string();
    folder.write("#".repeat(MOST_BYTES as usize + 1));
    assert!(error().contains("it has more than 1048576 bytes"), "{}", error());
    folder.write("#".repeat(MOST_BYTES as usize - 1));
    assert!(error().contains("cannot be written (it would have more than 1048576 bytes)"), "{}", error());
    folder.write("");
    fs::set_permissions(&folder.known.file, fs::Permissions::from_mode(0o620)).unwrap();
    assert!(error().contains("others may write it; first: chmod 600 "), "{}", error());
    fs::remove_file(&folder.known.file).unwrap();
    fs::create_dir(&folder.known.file).unwrap();
    assert!(error().contains("it is no file"), "{}", error());
}

#[test]
fn what_cannot_be_remembered_is_an_error_that_says_how_to_do_without() {
    let nowhere = KnownMembers::at("/proc/nowhere/known_members".into());
    let error = nowhere.meet(&member("ws7", "lab:7400")).unwrap_err().to_string();
    assert!(error.contains("cannot be written (") && error.ends_with("with the line: ws7 = lab:7400"), "{error}");
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_members_or_an_error_with_the_number_of_a_line(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        lines in "([a-z0-9 :\\[\\]#\n]|ws7 00112233445566778899aabbccddeeff lab:1\n){0,40}",
    ) {
        for bytes in [bytes, lines.into_bytes()] {
            match KnownMembers::at("f".into()).parse(&bytes) {
                Ok(contents) => contents.lines.iter().for_each(|(_, it)| assert_eq!(it.to_string().parse().as_ref(), Ok(it))),
                Err(KnownError::Damaged { line, .. }) => {
                    assert!((1..=bytes.split(|byte| *byte == b'\n').count()).contains(&line));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
