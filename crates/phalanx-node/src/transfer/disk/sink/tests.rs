//! Tests of a target that is a folder.

use super::links::stays_within;
use super::*;
use crate::transfer::disk::unfinished;
use cap_std::fs::MetadataExt;
use phalanx_core::transfer::SPLIT;
use phalanx_core::wire::transfer::{HardLink, Links};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

fn sink(folder: &Path, into: bool) -> Sink {
    let base = Dir::open_ambient_dir(folder, cap_std::ambient_authority()).expect("is there");
    Sink::tree(base, PathBuf::new(), into, false)
}

fn entry(parent: Option<u32>, name: &str, kind: Kind) -> Entry {
    Entry { parent, name: name.into(), kind, mode: Some(0o700), modified: (1, 0), attributes: None }
}

fn names(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = folder.read_dir().expect("is there").map(|one| one.expect("is read").file_name()).collect();
    names.sort();
    names
}

#[test]
fn what_was_not_asked_for_is_not_put_anywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let filter = Filter { only: vec![b"a.csv".into()], exclude: vec!["*.tmp".into()], ..Filter::default() };
    let sink = sink(folder.path(), false).filtered(&filter).expect("is one");
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    sink.begin(1, &entry(Some(0), "a.csv", Kind::Folder)).expect("was asked for");
    for (parent, name) in [(0, ".bashrc"), (0, "b.csv"), (1, "x.tmp")] {
        assert!(sink.begin(2, &entry(Some(parent), name, Kind::File { size: 0 })).is_err(), "{name}");
    }
    assert!(sink.begin(2, &entry(Some(1), "x", Kind::File { size: 0 })).is_ok());
    assert_eq!(names(folder.path()), ["a.csv"]);
}

#[test]
fn a_folder_that_was_changed_before_1970_is_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = sink(folder.path(), false);
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    let old = Entry { modified: (-7, 0), ..entry(Some(0), "old", Kind::Folder) };
    sink.begin(1, &old).expect("begins");
    assert_eq!(sink.end(), []);
    let time = std::fs::metadata(folder.path().join("old")).expect("is there").modified().expect("is known");
    assert_eq!(system::to_time(time), (-7, 0));
}

#[test]
fn the_other_end_does_not_choose_the_name_of_what_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = sink(folder.path(), true).called(OsStr::new("report.txt"));
    sink.begin(0, &entry(None, ".bashrc", Kind::File { size: 1 })).expect("begins");
    sink.whole(0, b"x").expect("is put there");
    assert_eq!(names(folder.path()), ["report.txt"]);
}

#[test]
fn pipes_are_never_replaced_also_those_that_come_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let is_pipe = |name: &str| {
        use std::os::unix::fs::FileTypeExt;
        std::fs::symlink_metadata(folder.path().join(name)).expect("is there").file_type().is_fifo()
    };
    let make = |name: &str| {
        let pipe = folder.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("is made");
    };
    make("there");
    let sink = sink(folder.path(), false);
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    for kind in [Kind::File { size: 0 }, Kind::File { size: 1 << 20 }, Kind::Link { target: b"x".into() }] {
        assert!(sink.begin(1, &entry(Some(0), "there", kind)).is_err());
    }
    sink.begin(2, &entry(Some(0), "late", Kind::File { size: 1 << 20 })).expect("begins");
    sink.part(2, b"x", 0).expect("is written");
    make("late");
    assert!(sink.finish(2).is_err());
    sink.give_up(2);
    assert!(is_pipe("there") && is_pipe("late"));
    assert_eq!(names(folder.path()), [".late.phalanx-part", "late", "there"]); // what came stays, to be resumed
}

#[test]
fn a_file_takes_the_place_of_what_a_named_link_leads_to_within_the_export() {
    let folder = tempfile::tempdir().expect("a folder");
    for (link, target) in [("link", "data/real"), ("nothing", "data/none"), ("out", "/etc/hostname")] {
        std::os::unix::fs::symlink(target, folder.path().join(link)).expect("is linked");
    }
    std::fs::create_dir(folder.path().join("data")).expect("is made");
    std::fs::write(folder.path().join("data/real"), "old").expect("is written");
    let to = |name: &str, into: bool| {
        let base = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
        Sink::tree(base, if into { PathBuf::new() } else { name.into() }, into, false).called(OsStr::new(name))
    };
    for (into, text) in [(false, &b"one"[..]), (true, b"another")] {
        let sink = to("link", into);
        sink.begin(0, &entry(None, "x", Kind::File { size: text.len() as u64 })).expect("begins");
        sink.whole(0, text).expect("is put there");
        assert_eq!(std::fs::read(folder.path().join("data/real")).expect("is there"), text);
    }
    for name in ["nothing", "out"] {
        assert!(to(name, false).begin(0, &entry(None, "x", Kind::File { size: 3 })).is_err(), "{name}");
    }
    for link in ["link", "nothing", "out"] {
        assert!(folder.path().join(link).is_symlink(), "{link}");
    }
}

#[test]
fn a_folders_copy_goes_into_the_folder_that_a_named_link_leads_to() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("data/real")).expect("is made");
    std::fs::create_dir(folder.path().join("links")).expect("is made");
    std::os::unix::fs::symlink("../data/real", folder.path().join("links/link")).expect("is linked");
    let base = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
    let sink = Sink::tree(base, "links/link".into(), false, false);
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    sink.begin(1, &entry(Some(0), "a", Kind::File { size: 1 })).expect("begins");
    sink.whole(1, b"x").expect("is put there");
    assert_eq!(sink.end(), []);
    assert_eq!(names(&folder.path().join("data/real")), ["a"]);
    assert!(folder.path().join("links/link").is_symlink());
}

#[test]
fn a_file_that_is_there_gets_the_mode_of_its_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a");
    let kind = Kind::File { size: 0 };
    for (mode, is_kept) in [(0o755, false), (0o600, true), (0o000, true), (0o640, true)] {
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        let step = sink.begin(1, &Entry { mode: Some(mode), ..entry(Some(0), "a", kind.clone()) }).expect("begins");
        assert_eq!(matches!(step, Step::Kept), is_kept, "{mode:o}");
        assert_eq!(std::fs::metadata(&file).expect("is there").permissions().mode() & 0o777, mode);
    }
}

#[cfg(target_os = "linux")]
fn with(attributes: Attributes, entry: Entry) -> Entry {
    Entry { attributes: Some(Box::new(attributes)), ..entry }
}

#[cfg(target_os = "linux")]
fn keeping(folder: &Path, keeps: phalanx_core::wire::transfer::Keeps) -> Sink {
    let sink = sink(folder, false).filtered(&Filter { keeps, ..Filter::default() }).expect("is one");
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    sink
}

#[cfg(target_os = "linux")]
#[test]
fn attributes_are_set_if_they_were_asked_for_and_give_no_rights() {
    use phalanx_core::wire::transfer::Keeps;
    let names = |path: &Path| {
        let mut list = [0; 1000];
        let length = rustix::fs::listxattr(path, &mut list[..]).expect("is there");
        String::from_utf8(list[..length].to_vec()).expect("is text")
    };
    let told = [&b"user.x"[..], b"security.capability", b"system.posix_acl_access", b"made.up"];
    let attributes = Attributes {
        extended: told.iter().map(|name| (name.to_vec(), b"some".to_vec())).collect(),
        hard_link: Some(HardLink::Same(0)),
        ..Attributes::default()
    };
    for (xattrs, expected) in [(false, ""), (true, "user.x\0")] {
        let folder = tempfile::tempdir().expect("a folder");
        if rustix::fs::setxattr(folder.path(), "user.x", b"", rustix::fs::XattrFlags::empty()).is_err() {
            return; // this file system has none
        }
        let sink = keeping(folder.path(), Keeps { xattrs, ..Keeps::default() });
        let file = with(attributes.clone(), entry(Some(0), "a", Kind::File { size: 1 }));
        assert!(matches!(sink.begin(1, &file), Ok(Step::Wanted(_))), "hard links were not asked for");
        sink.whole(1, b"x").expect("is put there");
        assert_eq!(names(&folder.path().join("a")), expected);
        assert_eq!(sink.end().len(), if xattrs { 3 } else { 0 }, "the others are named");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn names_are_made_only_of_files_that_came() {
    use phalanx_core::wire::transfer::Keeps;
    let (folder, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    std::fs::write(outside.path().join("secret"), "x").expect("is written");
    let sink = keeping(folder.path(), Keeps { hard_links: true, ..Keeps::default() });
    let file = |link, name: &str| {
        let attributes = Attributes { hard_link: Some(link), ..Attributes::default() };
        with(attributes, entry(Some(0), name, Kind::File { size: 1 }))
    };
    for (number, name) in [(1, "good"), (2, "link"), (3, "lost")] {
        sink.begin(number, &file(HardLink::First, name)).expect("begins");
    }
    sink.whole(1, b"x").expect("is put there");
    std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("link")).expect("is linked");
    for first in 0..4 {
        let name = format!("of {first}");
        let step = sink.begin(10 + first, &file(HardLink::Same(first), &name)).expect("begins");
        assert!(matches!(step, Step::Copied));
    }
    let failed: Vec<_> = sink.end().into_iter().map(|(path, _)| path).collect();
    assert_eq!(failed, ["./of 0", "./of 2", "./of 3"].map(PathBuf::from));
    assert_eq!(names(folder.path()), ["good", "link", "of 1"]);
    assert_eq!(std::fs::read(folder.path().join("of 1")).expect("is there"), b"x");
}

#[test]
fn names_of_what_is_not_whole_are_nobodys() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = sink(folder.path(), false);
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    for name in [".x.phalanx-part", ".x.phalanx-state", ".x.PHALANX-state-new"] {
        assert!(sink.begin(1, &entry(Some(0), name, Kind::File { size: 0 })).is_err(), "{name}");
    }
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn small_files_leave_alone_what_others_have_not_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(".a.phalanx-part"), "other").expect("is written");
    let sink = sink(folder.path(), false);
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    sink.begin(1, &entry(Some(0), "a", Kind::File { size: 1 })).expect("begins");
    sink.whole(1, b"x").expect("is put there");
    assert_eq!(std::fs::read(folder.path().join(".a.phalanx-part")).expect("is there"), b"other");
    assert_eq!(names(folder.path()), [".a.phalanx-part", "a"]);
}

#[test]
fn a_copy_removes_what_was_abandoned_in_its_folders_and_nothing_beside_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let part = ".0123456789abcdef-7.phalanx-part";
    for name in ["there", "other"] {
        std::fs::create_dir(folder.path().join(name)).expect("is made");
        std::fs::write(folder.path().join(name).join(part), "x").expect("is written");
    }
    let sink = sink(folder.path(), false);
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    sink.begin(1, &entry(Some(0), "there", Kind::Folder)).expect("begins");
    assert_eq!(sink.end(), []);
    assert_eq!(names(&folder.path().join("there")), [part], "it is new");
    let Sink::Tree(tree) = &sink else { unreachable!() };
    tree.sweep(SystemTime::now() + Duration::from_secs(2 * 24 * 60 * 60));
    assert_eq!(names(&folder.path().join("there")), [""; 0]);
    assert_eq!(names(&folder.path().join("other")), [part]);
}

#[test]
fn files_are_opened_with_their_first_part() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = sink(folder.path(), false);
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    for number in 1..3000 {
        sink.begin(number, &entry(Some(0), &number.to_string(), Kind::File { size: 1 << 20 })).expect("begins");
    }
    assert_eq!(names(folder.path()), [""; 0]);
    sink.part(1, b"x", 0).expect("is written");
    assert_eq!(names(folder.path()), [".1.phalanx-part"]);
}

#[test]
fn a_part_that_somebody_replaced_does_not_get_the_files_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = sink(folder.path(), false);
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    sink.begin(1, &entry(Some(0), "big", Kind::File { size: 1 << 20 })).expect("begins");
    sink.part(1, b"x", 0).expect("is written");
    let part = folder.path().join(".big.phalanx-part");
    std::fs::write(folder.path().join("other"), "other").expect("is written");
    std::fs::rename(folder.path().join("other"), &part).expect("is renamed");
    assert!(sink.finish(1).is_err());
    sink.give_up(1);
    assert_eq!(std::fs::read(part).expect("stays"), b"other");
    assert_eq!(names(folder.path()), [".big.phalanx-part"]);
}

#[test]
fn a_hole_takes_the_place_of_what_an_earlier_copy_left() {
    let (folder, size) = (tempfile::tempdir().expect("a folder"), 1 << 20);
    let begin = || {
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        let step = sink.begin(1, &entry(Some(0), "big", Kind::File { size })).expect("begins");
        (sink, if let Step::Wanted(there) = step { there.pairs() } else { panic!("it is not there") })
    };
    let (first, _) = begin();
    first.part(1, b"kept", 0).expect("is written");
    first.part(1, b"left", 4096).expect("is written");
    first.keep(1, vec![(0, 4)]).expect("is kept");
    drop(first);
    let (second, there) = begin();
    assert_eq!(there, [(0, 4)]);
    second.hole(1, 4, size as u32 - 4).expect("is made");
    second.finish(1).expect("is whole");
    let copied = std::fs::read(folder.path().join("big")).expect("is there");
    assert_eq!((copied.len() as u64, &copied[..4]), (size, &b"kept"[..]));
    assert!(copied[4..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_file_that_is_given_up_while_it_is_kept_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = sink(folder.path(), false);
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    sink.begin(1, &entry(Some(0), "big", Kind::File { size: 1 << 20 })).expect("begins");
    sink.part(1, b"x", 0).expect("is written");
    let Sink::Tree(tree) = &sink else { unreachable!() };
    let coming = tree.coming(1).expect("comes");
    let keeping = lock(&coming.ended); // as who keeps it does
    sink.give_up(1);
    assert_eq!(names(folder.path()), [".big.phalanx-part"], "it did not wait");
    drop(keeping);
    tree.remove_given_up(&coming);
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_file_that_is_given_up_is_not_begun_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = sink(folder.path(), false);
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    sink.begin(1, &entry(Some(0), "big", Kind::File { size: 1 << 20 })).expect("begins");
    sink.part(1, b"x", 0).expect("is written");
    let Sink::Tree(tree) = &sink else { unreachable!() };
    let coming = tree.coming(1).expect("comes"); // as a thread has it that is about to write the next part
    sink.give_up(1);
    assert!(tree.file(&coming).is_err());
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_share_that_failed_leaves_no_word_of_what_came_and_the_others_stay() {
    let (folder, size) = (tempfile::tempdir().expect("a folder"), SPLIT);
    let half = Share { index: 1, count: 2 }.range(size).0;
    let begin = |index| {
        let sink = sink(folder.path(), false).shared(Some(Share { index, count: 2 }), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        let step = sink.begin(1, &entry(Some(0), "big", Kind::File { size })).expect("begins");
        (sink, if let Step::Wanted(there) = step { there.pairs() } else { panic!("it is not there") })
    };
    let ((first, _), (second, _)) = (begin(0), begin(1));
    for (sink, at) in [(&first, 0), (&second, half)] {
        sink.part(1, b"data", at).expect("is written");
        sink.keep(1, vec![(at, at + 4)]).expect("is kept");
    }
    first.give_up(1);
    assert_eq!(begin(0).1, [(half, half + 4)]);
}

#[test]
fn what_is_kept_now_and_then_never_takes_the_place_of_a_share_that_is_there() {
    let (folder, size) = (tempfile::tempdir().expect("a folder"), SPLIT);
    let share = Share { index: 0, count: 2 };
    let (sink, (_, to)) = (sink(folder.path(), false).shared(Some(share), false), share.range(size));
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    sink.begin(1, &entry(Some(0), "big", Kind::File { size })).expect("begins");
    sink.part(1, b"x", to - 1).expect("is written");
    sink.keep_as(1, vec![(0, to)], true).expect("is kept");
    sink.keep(1, vec![(0, 4)]).expect("is left alone");
    let Sink::Tree(tree) = &sink else { unreachable!() };
    let there = unfinished::look(&tree.folder(0).expect("is there"), OsStr::new("big"), (size, (1, 0)));
    assert_eq!(there.pairs(), [(0, to)]);
}

#[test]
fn a_folder_of_a_copy_that_was_cut_gets_its_mode_and_is_private_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |name| std::fs::metadata(folder.path().join(name)).expect("is there").permissions().mode() & 0o777;
    std::fs::create_dir(folder.path().join("there")).expect("is made");
    std::fs::set_permissions(folder.path().join("there"), std::fs::Permissions::from_mode(0o755)).expect("is set");
    let sink = sink(folder.path(), false);
    for (number, parent, name) in [(0, None, "root"), (1, Some(0), "there"), (2, Some(0), "new")] {
        sink.begin(number, &entry(parent, name, Kind::Folder)).expect("begins");
    }
    assert_eq!(mode("new"), 0o700);
    assert_eq!(sink.end(), []);
    assert_eq!((mode("there"), mode("new")), (0o700, 0o700));
    let base = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
    assert_eq!(base.metadata("there").expect("is there").mtime(), 1);
}

#[test]
fn links_that_lead_out_are_kept_where_that_was_asked_for_and_never_followed() {
    let (folder, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let target = || outside.path().as_os_str().as_encoded_bytes().to_vec();
    let begin = |links| {
        let sink = sink(folder.path(), false).filtered(&Filter { links, ..Filter::default() }).expect("is one");
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        sink
    };
    for links in [Links::Within, Links::Skip, Links::Follow] {
        assert!(begin(links).begin(1, &entry(Some(0), "out", Kind::Link { target: target() })).is_err());
    }
    let sink = begin(Links::Keep);
    sink.begin(1, &entry(Some(0), "out", Kind::Link { target: target() })).expect("is kept");
    assert_eq!(std::fs::read_link(folder.path().join("out")).expect("is one"), outside.path());
    for sink in [sink, begin(Links::Keep)] {
        assert!(sink.begin(2, &entry(Some(0), "out", Kind::Folder)).is_err(), "a link is there");
        assert!(sink.begin(3, &entry(Some(2), "x", Kind::File { size: 0 })).is_err());
        assert_eq!(sink.end(), []);
    }
    assert_eq!(names(outside.path()), [""; 0]);
}

#[test]
fn a_link_that_takes_the_place_of_a_folder_meanwhile_is_not_followed() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), OsStr::new("other"));
    let sink = sink(folder.path(), false);
    sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
    sink.begin(1, &entry(Some(0), "a", Kind::Folder)).expect("begins");
    std::fs::rename(folder.path().join("a"), folder.path().join(other)).expect("is renamed");
    std::os::unix::fs::symlink(other, folder.path().join("a")).expect("is linked");
    assert!(sink.begin(2, &entry(Some(1), "x", Kind::File { size: 0 })).is_err());
    assert_eq!(names(&folder.path().join(other)), [""; 0]);
}

#[test]
fn links_stay_within_the_copy() {
    for (target, depth) in [("a", 0), (".", 0), ("../a", 1), ("../../a/b", 2), ("./a", 0)] {
        assert!(stays_within(Path::new(target), depth), "{target}");
    }
    for (target, depth) in
        [("/etc/passwd", 5), ("../a", 0), ("a/../../b", 0), ("../../a", 1), ("b/b/../../x", 2), ("./../a", 0)]
    {
        assert!(!stays_within(Path::new(target), depth), "{target}");
    }
}
