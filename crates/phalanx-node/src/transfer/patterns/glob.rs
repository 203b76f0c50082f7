//! One glob pattern, segment by segment. A segment matches one name of a path, or it is `**` and matches any number of names.

use super::braces::expand;
use globset::{Glob, GlobBuilder, GlobSet};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Most segments of one pattern.
const MOST_PARTS: usize = 128;
/// Most segments of all patterns of one request.
const MOST_IN_ALL: usize = 4096;
/// Most different patterns for names of one request, apart from `*` and plain names. Each takes 5 KB or more when compiled.
const MOST_KINDS: usize = 1024;
/// Most bytes of these patterns.
const MOST_BYTES: usize = 32 << 10;

/// A pattern for paths whose braces are expanded.
pub struct PathPattern(Vec<Arc<Segment>>);

enum Segment {
    /// `**`: any number of names.
    Any,
    /// One name. A name that begins with a dot matches only if the pattern begins with a dot (`has_dot`), as in a shell.
    Name { look: NamePattern, has_dot: bool },
}

enum NamePattern {
    Every,
    Exact(String),
    /// The index of a pattern in [`Patterns`].
    Pattern(usize),
}

/// All patterns for names in one request. A name is matched against all of them at once.
#[derive(Default)]
pub struct Patterns(GlobSet);

/// A name of a path, and the patterns that it matches.
pub struct Name<'a> {
    text: &'a OsStr,
    /// Indexes in [`Patterns`], in ascending order.
    like: Vec<usize>,
}

/// Parses the patterns of one request, which share one limit. Equal segments are stored once.
#[derive(Default)]
pub struct Reading {
    known: HashMap<String, Arc<Segment>>,
    parts: usize,
    patterns: Vec<Glob>,
    bytes: usize,
}

impl Reading {
    /// Parses a pattern: calls `make` with the text of each alternative.
    pub fn read<T>(
        &mut self,
        pattern: &str,
        mut make: impl FnMut(&str, &mut Reader<'_>) -> io::Result<T>,
    ) -> io::Result<Vec<T>> {
        let mut alternatives = Vec::new();
        expand(pattern, &mut alternatives).map_err(|why| wrong(format!("{pattern:?} is no pattern: {why}")))?;
        let mut reader = Reader { reading: self, pattern };
        alternatives.iter().map(|text| make(text, &mut reader)).collect()
    }

    /// Compiles all patterns for names that were parsed.
    pub fn patterns(self) -> io::Result<Patterns> {
        let built = GlobSet::new(self.patterns);
        Ok(Patterns(built.map_err(|error| wrong(format!("these patterns are too much together: {}", error.kind())))?))
    }
}

impl Patterns {
    /// The names of a path, for [`PathPattern::have`].
    pub fn names<'a>(&self, path: &'a Path) -> Vec<Name<'a>> {
        path.iter().map(|text| Name { text, like: self.0.matches(text) }).collect()
    }
}

/// Parses the alternatives of one pattern. Errors quote `pattern`.
pub struct Reader<'a> {
    reading: &'a mut Reading,
    pattern: &'a str,
}

impl Reader<'_> {
    pub fn parts(&mut self, text: &str) -> io::Result<PathPattern> {
        let count = text.split('/').count();
        self.reading.parts += count;
        if count > MOST_PARTS || self.reading.parts > MOST_IN_ALL {
            let what = format!("{:?}: more than {MOST_PARTS} names, or {MOST_IN_ALL} in all patterns", self.pattern);
            return Err(wrong(what));
        }
        Ok(PathPattern(text.split('/').map(|part| self.part(part)).collect::<io::Result<_>>()?))
    }

    fn part(&mut self, part: &str) -> io::Result<Arc<Segment>> {
        if let Some(known) = self.reading.known.get(part) {
            return Ok(known.clone());
        }
        let has_dot = part.strip_prefix('\\').unwrap_or(part).starts_with('.');
        let made = Arc::new(match part {
            "**" => Segment::Any,
            "*" => Segment::Name { look: NamePattern::Every, has_dot },
            _ if !part.contains(['*', '?', '[', ']', '{', '}', '\\']) => {
                Segment::Name { look: NamePattern::Exact(part.to_owned()), has_dot }
            }
            _ => Segment::Name { look: NamePattern::Pattern(self.pattern(part)?), has_dot },
        });
        self.reading.known.insert(part.to_owned(), made.clone());
        Ok(made)
    }

    fn pattern(&mut self, part: &str) -> io::Result<usize> {
        let number = self.reading.patterns.len();
        self.reading.bytes += part.len();
        if number >= MOST_KINDS || self.reading.bytes > MOST_BYTES {
            let what = format!("more than {MOST_KINDS} different patterns for names, or {MOST_BYTES} bytes of them");
            return Err(wrong(format!("{:?}: {what}", self.pattern)));
        }
        let built = GlobBuilder::new(part).literal_separator(true).backslash_escape(true).build();
        let glob = built.map_err(|error| wrong(format!("{:?} is no pattern: {}", self.pattern, error.kind())))?;
        self.reading.patterns.push(glob);
        Ok(number)
    }
}

impl PathPattern {
    /// Whether a whole path matches. `shows_hidden`: names that begin with a dot are treated like all others.
    pub fn have(&self, names: &[Name<'_>], shows_hidden: bool) -> bool {
        matches(&self.0, names, shows_hidden)
    }

    /// Whether anything in a folder, at any depth, may match.
    pub fn look_into(&self, names: &[Name<'_>]) -> bool {
        may_begin(&self.0, names)
    }
}

impl Segment {
    fn has(&self, name: &Name<'_>, shows_hidden: bool) -> bool {
        let is_shown = |has_dot| shows_hidden || has_dot || !name.text.as_encoded_bytes().starts_with(b".");
        match self {
            Segment::Any => is_shown(false),
            Segment::Name { look, has_dot } => look.has(name) && is_shown(*has_dot),
        }
    }
}

impl NamePattern {
    fn has(&self, name: &Name<'_>) -> bool {
        match self {
            NamePattern::Every => true,
            NamePattern::Exact(text) => name.text == OsStr::new(text),
            NamePattern::Pattern(number) => name.like.binary_search(number).is_ok(),
        }
    }
}

/// Matches greedily: the segments between two `**` are matched as early as possible. If the rest does not match then, no
/// later place can make it match, so only the last `**` is ever tried again.
fn matches(parts: &[Arc<Segment>], names: &[Name<'_>], shows_hidden: bool) -> bool {
    let (mut part, mut name, mut last_any) = (0, 0, None);
    // A `**` at the end matches at least one name.
    let is_end = |part: usize| part + 1 == parts.len();
    while name < names.len() {
        match parts.get(part).map(Arc::as_ref) {
            Some(Segment::Any) if is_end(part) => {
                return names[name..].iter().all(|one| Segment::Any.has(one, shows_hidden));
            }
            Some(Segment::Any) => {
                last_any = Some((part, name));
                part += 1;
            }
            Some(one) if one.has(&names[name], shows_hidden) => (part, name) = (part + 1, name + 1),
            _ => match last_any {
                Some((any, from)) if Segment::Any.has(&names[from], shows_hidden) => {
                    last_any = Some((any, from + 1));
                    (part, name) = (any + 1, from + 1);
                }
                _ => return false,
            },
        }
    }
    part == parts.len()
}

/// Whether a pattern may match a path that begins with these names.
fn may_begin(parts: &[Arc<Segment>], names: &[Name<'_>]) -> bool {
    for (number, name) in names.iter().enumerate() {
        match parts.get(number).map(Arc::as_ref) {
            // A later segment may name hidden names explicitly. Then they are distinguished once the whole path is known.
            Some(Segment::Any) => {
                let rest = &parts[number..];
                let names_hidden = rest.iter().any(|part| matches!(**part, Segment::Name { has_dot: true, .. }));
                return names_hidden || names[number..].iter().all(|name| Segment::Any.has(name, false));
            }
            Some(part) if part.has(name, false) => {}
            _ => return false,
        }
    }
    parts.len() > names.len()
}

pub fn wrong(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.into())
}

#[cfg(test)]
mod tests;
