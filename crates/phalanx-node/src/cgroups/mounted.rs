//! The mounted hierarchies of control groups, and the group of this process in each.

use super::Controller;
use super::version::Version;
use std::fs;
use std::path::{Path, PathBuf};

/// A hierarchy of groups that has controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    pub version: Version,
    /// The controllers of version 1. Empty for version 2, whose groups list theirs.
    pub controllers: Vec<Controller>,
    /// The topmost visible group.
    pub top: PathBuf,
    /// The group of this process.
    pub own: PathBuf,
}

impl Mounted {
    /// The groups in which an executor may make its own group, the best first: its current group, and then the groups around it. An outer
    /// group counts only if no group on the way has a limit, because moving out would evade that limit.
    pub fn places(&self) -> Vec<PathBuf> {
        let outer = self.own.ancestors().skip(1).take_while(|group| group.starts_with(&self.top));
        let inner = self.own.ancestors();
        let free = inner.zip(outer).take_while(|(within, _)| !self.version.is_bounded(within));
        std::iter::once(self.own.clone()).chain(free.map(|(_, group)| group.to_owned())).collect()
    }
}

/// Reads `/proc/self/mountinfo` and `/proc/self/cgroup`.
pub fn read(mounts: &str, groups: &str) -> Vec<Mounted> {
    let mut found: Vec<Mounted> = Vec::new();
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (before, after): (Vec<&str>, Vec<&str>) = (before.split(' ').collect(), after.split(' ').collect());
        let (Some(root), Some(at), Some(kind), Some(options)) =
            (before.get(3), before.get(4), after.first(), after.get(2))
        else {
            continue;
        };
        let top = PathBuf::from(at);
        let Some(mounted) = (match *kind {
            "cgroup2" => of_version_2(&top, root, groups),
            "cgroup" => of_version_1(&top, root, options, groups),
            _ => None,
        }) else {
            continue;
        };
        let is_known = |it: &Mounted| it.version == mounted.version && it.controllers == mounted.controllers;
        if !found.iter().any(is_known) {
            found.push(mounted);
        }
    }
    found
}

fn of_version_2(top: &Path, root: &str, groups: &str) -> Option<Mounted> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    // The hierarchy of version 2 may have no controllers, because hierarchies of version 1 have them.
    let has_any = fs::read_to_string(top.join("cgroup.controllers")).is_ok_and(|it| !it.trim().is_empty());
    let own = beneath(top, root, own)?;
    has_any.then(|| Mounted { version: Version::Two, controllers: Vec::new(), top: top.to_owned(), own })
}

fn of_version_1(top: &Path, root: &str, options: &str, groups: &str) -> Option<Mounted> {
    let has = |words: &str, word: &str| words.split(',').any(|it| it == word);
    let controllers: Vec<Controller> =
        Controller::ALL.into_iter().filter(|controller| has(options, controller.word())).collect();
    let word = controllers.first()?.word();
    let own = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        parts.next().filter(|words| has(words, word))?;
        parts.next()
    })?;
    let own = beneath(top, root, own)?;
    Some(Mounted { version: Version::One, controllers, top: top.to_owned(), own })
}

/// The folder of a group, if `root` of the hierarchy is mounted at `top`. `None`: the group is not visible there.
fn beneath(top: &Path, root: &str, group: &str) -> Option<PathBuf> {
    let inner = Path::new(group).strip_prefix(root).ok()?;
    let is_inside = inner.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let folder = top.join(inner);
    (is_inside && folder.is_dir()).then_some(folder)
}
