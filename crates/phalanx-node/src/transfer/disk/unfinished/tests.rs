use super::*;

const SIZE: u64 = 1 << 20;

fn folder() -> (tempfile::TempDir, Dir) {
    let folder = tempfile::tempdir().expect("a folder");
    let opened = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
    (folder, opened)
}

#[test]
fn what_is_there_of_one_source_is_never_taken_for_anothers() {
    let (_path, folder) = folder();
    let (name, one, other) = (OsStr::new("big"), (1, 0), (2, 0));
    let file = open(&folder, name, (SIZE, one), &Ranges::default()).expect("is opened");
    system::write_at(&file, b"one", 0).expect("is written");
    keep(&folder, name, &file, (SIZE, one), None, vec![(0, 3)]).expect("is kept");
    drop(file);
    let found = look(&folder, name, (SIZE, one));
    assert_eq!(found.pairs(), [(0, 3)]);
    drop(open(&folder, name, (SIZE, one), &found).expect("goes on"));
    let file = open(&folder, name, (SIZE, other), &look(&folder, name, (SIZE, other))).expect("is opened");
    system::write_at(&file, b"two", 0).expect("is written");
    drop(file); // and killed
    assert_eq!(look(&folder, name, (SIZE, one)), Ranges::default());
    assert!(open(&folder, name, (SIZE, one), &found).is_err(), "what was told to be there is there no more");
}

#[test]
fn one_who_waited_does_not_get_the_file_that_is_whole_now() {
    let (path, folder) = folder();
    let name = OsStr::new("big");
    let first = open(&folder, name, (SIZE, (1, 0)), &Ranges::default()).expect("is opened");
    system::write_at(&first, b"whole", 0).expect("is written");
    thread::scope(|scope| {
        let second = scope.spawn(|| open(&folder, name, (SIZE, (1, 0)), &Ranges::default()).expect("is opened"));
        thread::sleep(OFTEN); // so that it waits, mostly
        folder.rename(beside(name, "part"), &folder, name).expect("is renamed");
        drop(first);
        second.join().expect("ends");
    });
    assert_eq!(std::fs::read(path.path().join("big")).expect("is there"), b"whole");
}

#[test]
fn pipes_and_other_names_of_a_file_are_no_parts() {
    let (path, folder) = folder();
    let pipe = path.path().join(".pipe.phalanx-part");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("is made");
    assert!(open(&folder, OsStr::new("pipe"), (SIZE, (1, 0)), &Ranges::default()).is_err());
    std::fs::write(path.path().join("precious"), "precious").expect("is written");
    std::fs::hard_link(path.path().join("precious"), path.path().join(".file.phalanx-part")).expect("is linked");
    assert!(open(&folder, OsStr::new("file"), (SIZE, (1, 0)), &Ranges::default()).is_err());
    assert_eq!(std::fs::read(path.path().join("precious")).expect("is there"), b"precious");
}

#[test]
fn a_state_is_bounded() {
    let (_path, folder) = folder();
    let (name, ranges) = (OsStr::new("big"), (0..1000).map(|number| (number * 4, number * 4 + 2)).collect());
    let file = open(&folder, name, (SIZE, (1, 0)), &Ranges::default()).expect("is opened");
    file.set_len(SIZE).expect("is set");
    keep(&folder, name, &file, (SIZE, (1, 0)), None, ranges).expect("is kept");
    assert_eq!(look(&folder, name, (SIZE, (1, 0))).pairs().len(), MOST_RANGES);
}

const LARGE: u64 = phalanx_core::transfer::SPLIT;

fn share(index: u16) -> Share {
    Share { index, count: 4 }
}

fn together(folder: &Dir, source: Source, found: &Ranges) -> PartialFile {
    open_shared(folder, OsStr::new("big"), source, found).expect("is opened")
}

#[test]
fn a_file_that_comes_in_shares_is_of_one_source_while_anybody_writes_it() {
    let (_path, folder) = folder();
    let (name, one, other) = (OsStr::new("big"), (LARGE, (1, 0)), (LARGE, (2, 0)));
    let (first, second) = (together(&folder, one, &Ranges::default()), together(&folder, one, &Ranges::default()));
    system::write_at(&first, b"one", 0).expect("is written");
    keep(&folder, name, &first, one, Some(share(0)), vec![(0, 3)]).expect("is kept");
    system::write_at(&second, b"two", 3).expect("is written");
    keep(&folder, name, &second, one, Some(share(1)), vec![(3, 6)]).expect("is kept");
    drop(first);
    assert!(open_shared(&folder, name, other, &Ranges::default()).is_err(), "the second writes it still");
    assert_eq!(look(&folder, name, one).pairs(), [(0, 6)], "and nothing was lost");
    drop(second);
    drop(together(&folder, other, &Ranges::default()));
    assert_eq!(look(&folder, name, one), Ranges::default(), "it is another's now");
    assert_eq!(look(&folder, name, other), Ranges::default());
}

#[test]
fn what_shares_brought_into_one_file_is_never_believed_of_another() {
    let (path, folder) = folder();
    let (name, source) = (OsStr::new("big"), (LARGE, (1, 0)));
    let file = together(&folder, source, &Ranges::default());
    system::write_at(&file, b"data", 0).expect("is written");
    keep(&folder, name, &file, source, Some(share(3)), vec![(0, 4)]).expect("is kept");
    drop(file);
    std::fs::remove_file(path.path().join(".big.phalanx-part")).expect("is removed");
    let file = together(&folder, source, &Ranges::default());
    system::write_at(&file, b"data", 4).expect("is written");
    drop(file);
    assert_eq!(look(&folder, name, source), Ranges::default(), "the first bytes are not there");
    // A smaller file of the same name came in between.
    let file = together(&folder, source, &Ranges::default());
    keep(&folder, name, &file, source, Some(share(3)), vec![(4, 8)]).expect("is kept");
    drop(file);
    drop(open(&folder, name, (SIZE, (2, 0)), &Ranges::default()).expect("is opened"));
    assert_eq!(look(&folder, name, source), Ranges::default());
}

#[test]
fn the_copy_of_all_finds_what_shares_brought_and_leaves_none_of_their_states() {
    let (path, folder) = folder();
    let (name, source) = (OsStr::new("big"), (LARGE, (1, 0)));
    let file = together(&folder, source, &Ranges::default());
    file.set_len(LARGE).expect("is set");
    for index in 0..2 {
        let from = u64::from(index) * 100;
        keep(&folder, name, &file, source, Some(share(index)), vec![(from, from + 50)]).expect("is kept");
    }
    drop(file);
    let found = look(&folder, name, source);
    assert_eq!(found.pairs(), [(0, 50), (100, 150)]);
    let file = open(&folder, name, source, &found).expect("goes on");
    remove(&folder, name, &file);
    assert_eq!(std::fs::read_dir(path.path()).expect("is there").count(), 0);
}

#[test]
fn a_share_that_others_begin_anew_under_it_is_believed_no_more() {
    let (_path, folder) = folder();
    let (name, source) = (OsStr::new("big"), (LARGE, (1, 0)));
    let first = together(&folder, source, &Ranges::default());
    system::write_at(&first, b"data", 0).expect("is written");
    // Another machine, whose locks the first does not see.
    let other = open_part(&folder, &beside(name, "part")).expect("is opened");
    let other = begin(&folder, name, other, true).expect("is begun");
    keep(&folder, name, &other, source, None, Vec::new()).expect("is kept");
    system::write_at(&other, b"data", 4).expect("is written");
    keep(&folder, name, &first, source, Some(share(0)), vec![(0, 4)]).expect("is kept");
    keep(&folder, name, &other, source, Some(share(1)), vec![(4, 8)]).expect("is kept");
    assert_eq!(look(&folder, name, source).pairs(), [(4, 8)], "the first bytes were cut off");
}

#[test]
fn a_share_keeps_its_own_ranges_before_those_of_others() {
    let (_path, folder) = folder();
    let (name, source) = (OsStr::new("big"), (LARGE, (1, 0)));
    let file = together(&folder, source, &Ranges::default());
    file.set_len(LARGE).expect("is set");
    let islands = (0..20).map(|number| (number * 4096, number * 4096 + 2048));
    let own = (share(2).range(LARGE).0, share(2).range(LARGE).0 + 1000);
    keep(&folder, name, &file, source, Some(share(2)), islands.chain([own]).collect()).expect("is kept");
    let kept = look(&folder, name, source).pairs();
    assert_eq!((kept.len(), kept.last()), (MOST_RANGES, Some(&own)));
}

#[test]
fn shares_go_on_from_what_one_alone_brought_and_a_smaller_file_leaves_none_of_their_states() {
    let (path, folder) = folder();
    let (name, source) = (OsStr::new("big"), (LARGE, (1, 0)));
    let alone = open(&folder, name, source, &Ranges::default()).expect("is opened");
    system::write_at(&alone, b"data", 0).expect("is written");
    keep(&folder, name, &alone, source, None, vec![(0, 4)]).expect("is kept");
    drop(alone);
    let found = look(&folder, name, source);
    let shared = together(&folder, source, &found);
    system::write_at(&shared, b"data", 8).expect("is written");
    keep(&folder, name, &shared, source, Some(share(1)), vec![(8, 12)]).expect("is kept");
    drop(shared);
    assert_eq!(look(&folder, name, source).pairs(), [(0, 4), (8, 12)]);
    drop(open(&folder, name, (SIZE, (2, 0)), &Ranges::default()).expect("is opened"));
    let left: Vec<_> =
        std::fs::read_dir(path.path()).expect("is there").map(|it| it.expect("is read").file_name()).collect();
    assert_eq!(left, [".big.phalanx-part"]);
}
