//! Include and exclude patterns of a copy or a listing, with the syntax of a shell.
//!
//! `*` and `?` match within one name, `**` matches across folders. A pattern that begins with `/` is anchored at the top
//! folder. Any other pattern matches the end of a path. A pattern that ends with `/` matches only folders.

use super::glob::{Name, PathPattern, Patterns, Reader, Reading, wrong};
use crate::transfer::system;
use phalanx_core::wire::transfer::{Filter, Keeps, Links};
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// A compiled filter.
#[derive(Default)]
pub struct PathFilter {
    only: HashSet<Vec<u8>>,
    include: Option<PatternList>,
    exclude: Option<PatternList>,
    patterns: Patterns,
    links: Links,
    keeps: Keeps,
}

/// A list of patterns.
struct PatternList(Vec<Pattern>);

struct Pattern {
    parts: PathPattern,
    is_of_folders: bool,
}

/// Patterns for whole paths: a listing contains the paths that match one of them. A name that begins with a dot matches only
/// a segment that begins with a dot, as in a shell.
pub struct Matching(Vec<PathPattern>, Patterns);

impl PathFilter {
    /// Compiles a filter. The error quotes the invalid pattern.
    pub fn new(filter: &Filter) -> io::Result<PathFilter> {
        filter.check().map_err(|_| wrong("too many patterns, or too long ones"))?;
        let only = filter.only.iter().cloned().collect();
        let mut reading = Reading::default();
        let include = PatternList::new(&filter.include, &mut reading)?;
        let exclude = PatternList::new(&filter.exclude, &mut reading)?;
        Ok(PathFilter {
            only,
            include,
            exclude,
            patterns: reading.patterns()?,
            links: filter.links,
            keeps: filter.keeps,
        })
    }

    /// Whether the filter accepts every path.
    pub fn is_empty(&self) -> bool {
        self.only.is_empty() && self.include.is_none() && self.exclude.is_none()
    }

    /// How symbolic links are treated.
    pub fn links(&self) -> Links {
        self.links
    }

    /// The attributes that are kept besides contents, permissions and times.
    pub fn keeps(&self) -> Keeps {
        self.keeps
    }

    /// Whether only some names of the top folder are accepted.
    pub fn is_of_some(&self) -> bool {
        !self.only.is_empty()
    }

    /// Whether the entry at this path, relative to the top folder, is accepted. A folder that is not accepted is not walked.
    pub fn takes(&self, path: &Path, is_folder: bool) -> bool {
        let names = self.patterns.names(path);
        if self.exclude.as_ref().is_some_and(|exclude| exclude.have(&names, is_folder)) {
            return false;
        }
        if !self.only.is_empty() && !self.only.contains(&first(path)) {
            return false;
        }
        let above = || (1..names.len()).map(|count| &names[..count]);
        let is_included = |it: &PatternList| it.have(&names, false) || above().any(|folder| it.have(folder, true));
        is_folder || self.include.as_ref().is_none_or(is_included)
    }
}

fn first(path: &Path) -> Vec<u8> {
    path.components().next().map(|part| system::to_bytes(part.as_os_str())).unwrap_or_default()
}

impl PatternList {
    fn new(patterns: &[String], reading: &mut Reading) -> io::Result<Option<PatternList>> {
        let mut all = Vec::new();
        for pattern in patterns {
            all.extend(reading.read(pattern, Pattern::new)?);
        }
        Ok(if all.is_empty() { None } else { Some(PatternList(all)) })
    }

    fn have(&self, names: &[Name<'_>], is_folder: bool) -> bool {
        self.0.iter().any(|one| (is_folder || !one.is_of_folders) && one.parts.have(names, true))
    }
}

impl Pattern {
    fn new(text: &str, reader: &mut Reader<'_>) -> io::Result<Pattern> {
        let (text, is_of_folders) = text.strip_suffix('/').map_or((text, false), |text| (text, true));
        let parts = match text.strip_prefix('/') {
            Some(anchored) => reader.parts(anchored),
            None if text.starts_with("**/") => reader.parts(text),
            None => reader.parts(&format!("**/{text}")),
        };
        Ok(Pattern { parts: parts?, is_of_folders })
    }
}

impl Matching {
    pub fn new(patterns: &[String]) -> io::Result<Option<Matching>> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let (mut all, mut reading) = (Vec::new(), Reading::default());
        for pattern in patterns {
            all.extend(reading.read(pattern, |text, reader| reader.parts(text))?);
        }
        Ok(Some(Matching(all, reading.patterns()?)))
    }

    /// Whether anything in this folder may match.
    pub fn looks_into(&self, folder: &Path) -> bool {
        let names = self.1.names(folder);
        self.0.iter().any(|parts| parts.look_into(&names))
    }

    pub fn has(&self, path: &Path) -> bool {
        let names = self.1.names(path);
        self.0.iter().any(|parts| parts.have(&names, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_filter(include: &[&str], exclude: &[&str]) -> PathFilter {
        let texts = |of: &[&str]| of.iter().map(|text| (*text).to_owned()).collect();
        PathFilter::new(&Filter { include: texts(include), exclude: texts(exclude), ..Filter::default() })
            .expect("are patterns")
    }

    #[test]
    fn what_is_excluded_is_left_out_also_if_it_is_included() {
        let path_filter = path_filter(&["*.csv", "docs/"], &["tmp/", "/top.csv", "a/b.csv"]);
        for path in ["x.csv", "far/away/x.csv", "docs/x.txt", "far/docs/a/x.txt", "far/top.csv", "a/c.csv"] {
            assert!(path_filter.takes(Path::new(path), false), "{path}");
        }
        for path in ["x.txt", "top.csv", "a/b.csv", "z/a/b.csv", "docs"] {
            assert!(!path_filter.takes(Path::new(path), false), "{path}");
        }
        assert!(path_filter.takes(Path::new("far"), true));
        assert!(!path_filter.takes(Path::new("far/tmp"), true), "and with it all in it");
        assert!(!path_filter.takes(Path::new("tmp"), false), "it is not included");
    }

    #[test]
    fn stars_stay_within_a_name_and_double_stars_do_not() {
        let matching = |pattern: &str| Matching::new(&[pattern.to_owned()]).expect("is one").expect("is one");
        assert!(matching("*.csv").has(Path::new("a.csv")));
        assert!(!matching("*.csv").has(Path::new("b/a.csv")));
        assert!(matching("*/a.csv").has(Path::new("b/a.csv")));
        assert!(matching("**/*.csv").has(Path::new("a.csv")));
        assert!(matching("**/*.csv").has(Path::new("c/b/a.csv")));
        assert!(matching("data-[0-9].csv").has(Path::new("data-7.csv")));
        assert!(!matching("*").has(Path::new(".hidden")));
        assert!(matching(".*").has(Path::new(".hidden")));
        assert!(!matching("**/x").has(Path::new(".git/x")));
    }

    #[test]
    fn what_is_no_pattern_is_refused_by_its_name() {
        for wrong in ["[", "a{b", "[z-a]"] {
            let error = Matching::new(&[wrong.to_owned()]).err().expect("is none").to_string();
            assert!(error.contains(wrong), "{error}");
        }
        assert!(PathFilter::new(&Filter { exclude: vec![String::new()], ..Filter::default() }).is_err());
    }

    #[test]
    fn each_alternative_is_a_pattern_also_an_empty_one() {
        let path_filter = path_filter(&[], &["precious{,.bak}", "{/top,cache/}", "{*.a,*.b}{,c}"]);
        for path in ["precious", "far/precious.bak", "top", "x.a", "x.bc"] {
            assert!(!path_filter.takes(Path::new(path), false), "{path}");
        }
        assert!(!path_filter.takes(Path::new("far/cache"), true) && path_filter.takes(Path::new("cache"), false));
        assert!(path_filter.takes(Path::new("far/top"), false));
    }

    #[test]
    fn only_some_of_the_top_folder_with_all_in_them() {
        let filter = Filter { only: vec![b"a".into()], ..Filter::default() };
        let path_filter = PathFilter::new(&filter).expect("is one");
        assert!(path_filter.takes(Path::new("a"), false) && path_filter.takes(Path::new("a/b/c"), false));
        assert!(!path_filter.takes(Path::new("b"), true) && !path_filter.takes(Path::new("b/a"), false));
    }
}
