//! Tests of comparisons of two folders of this machine.

use super::same_size::FILES;
use super::*;
use std::fs;
use std::path::PathBuf;

fn how() -> How {
    How { most: 1000, ..How::default() }
}

/// Two folders, and what of them is told.
struct Ends(tempfile::TempDir);

impl Ends {
    fn new() -> Ends {
        let ends = Ends(tempfile::tempdir().expect("a folder"));
        fs::create_dir(ends.at("0")).expect("is made");
        fs::create_dir(ends.at("1")).expect("is made");
        ends
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str, seconds: u64) {
        fs::write(self.at(name), text).expect("is written");
        let file = fs::File::options().write(true).open(self.at(name)).expect("is there");
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).expect("is set");
    }

    /// Paths, with a letter for why they are told; and how many contents were compared.
    fn compare(&self, how: How) -> (Vec<String>, u64) {
        let side = |name: &str| Side {
            session: Arc::new(Session::own().expect("begins")),
            path: crate::transfer::system::to_bytes(self.at(name).as_os_str()),
        };
        let go_on: &mut GoesOn<'_> = &mut || true;
        let mut comparison = Comparison::new(side("0"), Some(side("1")), how, go_on).expect("begins");
        let mut all = Vec::new();
        while let Some(page) = comparison.page(go_on).expect("goes on") {
            for Told { path, ends, verdict, .. } in page {
                let path = String::from_utf8(path).expect("is text");
                let letter = match (verdict, ends) {
                    (Verdict::Listed, [Some(_), None]) => "new",
                    (Verdict::Listed, [None, _]) => "old",
                    (Verdict::Listed, _) => "other",
                    (Verdict::SameContent, _) => "same content",
                    (Verdict::OtherContent, _) => "other content",
                    (Verdict::Unread(_) | Verdict::Unknown(..), _) => "failed",
                };
                all.push(format!("{path}: {letter}"));
            }
        }
        assert!(comparison.told.iter().all(HashMap::is_empty) && comparison.bytes == 0);
        all.sort();
        (all, comparison.compared())
    }
}

#[test]
fn what_is_alike_is_not_told() {
    let ends = Ends::new();
    for number in 0..3 * FILES {
        ends.write(&format!("0/{number}"), "x", 7);
        ends.write(&format!("1/{number}"), "x", 7);
    }
    ends.write("0/new", "x", 7);
    ends.write("1/old", "x", 7);
    ends.write("1/.x.phalanx-part", "x", 7);
    ends.write("1/.x.phalanx-statement", "x", 7);
    for (name, text, time) in [("0/time", "x", 7), ("1/time", "x", 8), ("0/size", "x", 7), ("1/size", "xx", 7)] {
        ends.write(name, text, time);
    }
    for end in ["0/link", "1/link"] {
        std::os::unix::fs::symlink("there", ends.at(end)).expect("is linked");
    }
    let mut expected = vec![".x.phalanx-statement: old", "new: new", "old: old", "size: other", "time: other"];
    assert_eq!(ends.compare(how()).0, expected);
    expected.insert(1, "link: other");
    assert_eq!(ends.compare(How { tells_special: true, ..how() }).0, expected);
}

#[test]
fn contents_decide_where_they_are_asked_for() {
    let ends = Ends::new();
    for number in 0..5 * FILES {
        let other = if number % 100 == 0 { "y" } else { "x" };
        ends.write(&format!("0/{number}"), "x", 7);
        ends.write(&format!("1/{number}"), other, if number % 100 == 1 { 8 } else { 7 });
    }
    let (told, compared) = ends.compare(How { contents: true, ..how() });
    let count = |what: &str| told.iter().filter(|one| one.ends_with(what)).count();
    let some = (5 * FILES).div_ceil(100);
    assert_eq!((compared, told.len()), (5 * FILES as u64, 2 * some));
    assert_eq!((count(": other content"), count(": same content")), (some, some));
}
