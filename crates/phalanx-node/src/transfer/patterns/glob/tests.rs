use super::*;
use proptest::prelude::*;

struct All(Vec<PathPattern>, Patterns);

impl All {
    fn have(&self, path: &Path, shows_hidden: bool) -> bool {
        self.0.iter().any(|parts| parts.have(&self.1.names(path), shows_hidden))
    }

    fn look_into(&self, folder: &Path) -> bool {
        self.0.iter().any(|parts| parts.look_into(&self.1.names(folder)))
    }
}

fn read(pattern: &str) -> io::Result<All> {
    let mut reading = Reading::default();
    let parts = reading.read(pattern, |text, reader| reader.parts(text))?;
    Ok(All(parts, reading.patterns()?))
}

fn parts(pattern: &str) -> All {
    read(pattern).expect("is one")
}

#[test]
fn letters_of_several_bytes_in_brackets_are_refused_and_as_alternatives_taken() {
    for pattern in ["[é]*", "a{b,[!é]}", "[!!é]", "[]é]", "x/[a-é]"] {
        assert!(read(pattern).err().expect("is none").to_string().contains(pattern), "{pattern}");
    }
    assert!(parts("{é,ü}*").have(Path::new("éa"), true) && !parts("{é,ü}*").have(Path::new("àb"), true));
    assert!(parts("[!!]{a,é}").have(Path::new("xé"), true));
}

#[test]
fn all_patterns_of_a_question_are_bounded_together() {
    assert!(read(&format!("{}{}", "{a,b}".repeat(8), "/?".repeat(127))).is_err());
    let mut reading = Reading::default();
    let one = |reading: &mut Reading, pattern: &str| reading.read(pattern, |text, reader| reader.parts(text)).map(drop);
    for _ in 0..400 {
        one(&mut reading, "{a?,b?}/*/**/c/?").expect("ten parts of 4096, of three kinds");
    }
    assert!(one(&mut reading, &"x/".repeat(100)).is_err());
}

#[test]
fn whatever_stands_in_a_part_is_about_one_name() {
    for (pattern, path) in [("**/a[!b]c", "x/a/c"), ("a[+-9]c", "a/c"), ("a?c", "a/c"), ("a*c", "a/c")] {
        assert!(!parts(pattern).have(Path::new(path), true), "{pattern} {path}");
    }
    for (pattern, path) in [
        ("a/**/c", "a/c"),
        ("a/**/c", "a/b/b/c"),
        ("**/b/**/c", "a/b/x/b/y/c"),
        ("**", "a/b"),
        ("a/**", "a/b/c"),
        ("{a,b}/c", "b/c"),
        ("**/a/b", "a/a/a/b"),
    ] {
        assert!(parts(pattern).have(Path::new(path), true), "{pattern} {path}");
    }
    assert!(!parts("a/**").have(Path::new("a"), true));
}

#[test]
fn a_dot_is_named_where_it_is_meant() {
    let pattern = parts("*/.cache/*");
    assert!(pattern.have(Path::new("a/.cache/x"), false));
    for path in [".git/.cache/x", "a/.cache/.keep"] {
        assert!(!pattern.have(Path::new(path), false), "{path}");
    }
    assert!(parts("{.a,b}").have(Path::new(".a"), false));
    assert!(!parts("[.a]b").have(Path::new(".b"), false));
    assert!(pattern.look_into(Path::new("a")) && pattern.look_into(Path::new("a/.cache")));
    assert!(!pattern.look_into(Path::new(".git")) && !pattern.look_into(Path::new("a/.cache/x")));
    assert!(parts("**/.cache/*").look_into(Path::new("a/.cache")));
    assert!(!parts("**/x").look_into(Path::new(".git")));
}

proptest! {
    #[test]
    fn a_pattern_is_the_same_whatever_stands_beside_it(
        patterns in proptest::collection::vec("[a.*?\\[\\]!-]{1,6}", 1..20),
        // No folder has other files of these names.
        name in "[a.é]{1,6}".prop_filter("a folder itself", |name| name != "." && name != ".."),
    ) {
        let mut reading = Reading::default();
        let read = |one: &String| reading.read(one, |text, reader| reader.parts(text)).ok().map(|it| (one.clone(), it));
        let all: Vec<_> = patterns.iter().filter_map(read).collect();
        let together = reading.patterns().expect("are few");
        for (pattern, parts) in all {
            let alone = GlobBuilder::new(&pattern).literal_separator(true).backslash_escape(true).build();
            let alone = alone.expect("was read").compile_matcher().is_match(&name);
            prop_assert_eq!(parts[0].have(&together.names(Path::new(&name)), true), alone, "{}", pattern);
        }
    }

    #[test]
    fn no_pattern_hangs_or_panics_and_it_looks_into_what_it_has(pattern in "[a.*?/{},\\[\\]!\\\\-]{0,20}", path in "[a.]{1,3}(/[a.]{1,3}){0,4}") {
        if let Ok(parts) = read(&pattern) {
            let path = Path::new(&path);
            if parts.have(path, false) {
                for folder in path.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()) {
                    prop_assert!(parts.look_into(folder), "{pattern} {path:?} {folder:?}");
                }
            }
        }
    }
}
