//! Tests of listings.

use super::*;
use phalanx_core::wire::files::decode_found;
use phalanx_core::wire::transfer::Filter;
use std::collections::BTreeMap;
use std::path::Path;

fn walk(folder: &Path, depth: u32, filter: &Filter, matching: &[&str]) -> Walk {
    let root = Dir::open_ambient_dir(folder, cap_std::ambient_authority()).expect("is there");
    let matching: Vec<_> = matching.iter().map(|one| (*one).to_owned()).collect();
    let matching = Matching::new(&matching).expect("are patterns");
    Walk::new(root, depth, PathFilter::new(filter).expect("is one"), matching, &Room::endless()).expect("is a folder")
}

fn all(mut walk: Walk) -> BTreeMap<String, Result<About, String>> {
    let mut all = BTreeMap::new();
    loop {
        let (count, body, more) = walk.page(&|| false);
        for found in decode_found(count, &body).expect("is whole") {
            all.insert(String::from_utf8(found.path).expect("is text"), found.about);
        }
        if !more {
            return all;
        }
    }
}

fn names(walk: Walk) -> Vec<String> {
    all(walk).into_keys().collect()
}

fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("a/b/c")).expect("is made");
    for name in ["x.csv", "a/y.csv", "a/b/z.txt", "a/b/c/w.csv", ".hidden.csv"] {
        std::fs::write(folder.path().join(name), name).expect("is written");
    }
    std::os::unix::fs::symlink("..", folder.path().join("a/up")).expect("is made");
    folder
}

#[test]
fn a_walk_is_as_deep_as_asked_and_follows_no_link() {
    let folder = tree();
    let filter = Filter::default();
    assert_eq!(names(walk(folder.path(), 0, &filter, &[])), [".hidden.csv", "a", "x.csv"]);
    assert_eq!(names(walk(folder.path(), 1, &filter, &[])), [".hidden.csv", "a", "a/b", "a/up", "a/y.csv", "x.csv"]);
    let whole = all(walk(folder.path(), u32::MAX, &filter, &[]));
    assert_eq!(whole.len(), 9);
    let link = whole["a/up"].as_ref().expect("is told");
    assert_eq!(link.kind, Kind::Link { target: b"..".into() });
}

#[test]
fn patterns_choose_what_is_told() {
    let folder = tree();
    let every = |patterns: &[&str]| names(walk(folder.path(), u32::MAX, &Filter::default(), patterns));
    assert_eq!(every(&["*.csv"]), ["x.csv"]);
    assert_eq!(every(&["**/*.csv"]), ["a/b/c/w.csv", "a/y.csv", "x.csv"]);
    assert_eq!(every(&["a/*"]), ["a/b", "a/up", "a/y.csv"]);
    let filter = Filter { exclude: vec!["b/".into(), ".*".into()], ..Filter::default() };
    assert_eq!(names(walk(folder.path(), u32::MAX, &filter, &[])), ["a", "a/up", "a/y.csv", "x.csv"]);
}

#[test]
fn a_folder_of_many_comes_in_pages_that_are_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..MOST_FOUND + 10 {
        std::fs::write(folder.path().join(format!("{number:0200}")), "").expect("is written");
    }
    let mut walk = walk(folder.path(), 0, &Filter::default(), &[]);
    let (mut pages, mut total) = (0, 0);
    loop {
        let (count, body, more) = walk.page(&|| false);
        assert!(body.len() as u64 <= MOST_BODY && count <= MOST_FOUND);
        (pages, total) = (pages + 1, total + count);
        if !more {
            break;
        }
    }
    assert_eq!(total, MOST_FOUND + 10);
    assert!(pages > 1);
}

#[test]
fn what_comes_after_a_folder_is_told_after_the_way_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut at = folder.path().to_owned();
    let mut expected = 0;
    for _ in 0..4 {
        for number in 0..3 * BATCH {
            std::fs::write(at.join(format!("{number}")), "").expect("is written");
            std::os::unix::fs::symlink("..", at.join(format!("link {number}"))).expect("is made");
        }
        for name in ["a", "b", "c"] {
            std::fs::create_dir(at.join(name)).expect("is made");
            std::fs::write(at.join(name).join("in"), "").expect("is written");
        }
        expected += 6 * BATCH + 6;
        at.push("b");
    }
    let all = all(walk(folder.path(), u32::MAX, &Filter::default(), &[]));
    assert_eq!(all.len(), expected);
    assert!(all.values().all(Result::is_ok));
}

#[test]
fn folders_that_are_too_deep_are_named_and_end_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep: PathBuf = std::iter::repeat_n("d", MOST_DEEP + 5).collect();
    std::fs::create_dir_all(folder.path().join(deep)).expect("is made");
    std::fs::write(folder.path().join("z"), "").expect("is written");
    let all = all(walk(folder.path(), u32::MAX, &Filter::default(), &[]));
    assert!(all.contains_key("z"));
    assert_eq!(all.values().filter(|about| about.is_err()).count(), 1);
}

#[test]
fn digests_of_small_files_are_told_where_they_are_asked_for() {
    let folder = tree();
    let large = vec![7; SMALL as usize + 1];
    for (name, content) in [("empty", &[][..]), ("small", &large[1..]), ("large", &large)] {
        std::fs::write(folder.path().join("a").join(name), content).expect("is written");
    }
    let listed = |contents| {
        let mut walk = walk(folder.path(), u32::MAX, &Filter::default(), &[]);
        walk.tell_contents(contents);
        all(walk)
    };
    let digest = |content: &[u8]| Some(Box::new(blake3::hash(content).into()));
    let found = listed(true);
    let content = |path: &str| found[path].as_ref().expect("is told").content.clone();
    assert_eq!(content("a/b/c/w.csv"), digest(b"a/b/c/w.csv"));
    assert_eq!(content("a/small"), digest(&large[1..]));
    for path in ["a", "a/empty", "a/large", "a/up"] {
        assert_eq!(content(path), None, "{path}");
    }
    assert!(listed(false).values().flatten().all(|about| about.content.is_none()));
}

#[test]
fn a_file_that_shrinks_before_it_is_read_gets_no_digest() {
    let folder = tree();
    let mut walk = walk(folder.path(), u32::MAX, &Filter::default(), &[]);
    walk.tell_contents(true);
    let path = folder.path().join("x.csv");
    // Called before each file is read, when all of the page are listed.
    let (_, body, _) = walk.page(&|| std::fs::write(&path, "").is_err());
    let found = decode_found(9, &body).expect("is whole");
    let content = |path: &[u8]| found.iter().find(|one| one.path == path).map(|one| one.about.clone());
    let about = content(b"x.csv").expect("is listed").expect("is described");
    assert_eq!((about.kind, about.content), (Kind::File { size: 5 }, None));
    assert!(content(b"a/y.csv").expect("is listed").expect("is described").content.is_some());
}
