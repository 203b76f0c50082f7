//! Limits of a job that a user submits.

use super::JobRefusal;
use crate::needs::are_words;
use crate::wire::encode_body;
use crate::wire::jobs::{Command, LONGEST_SPEC, MOST_FILES, MOST_SHOWN, Spec, is_inside};

/// Most processes of a job.
pub const MOST_COUNT: u32 = 100_000;
/// Most commands of a job, most patterns of its outputs, and most jobs that it waits for.
const MOST_STEPS: usize = 100;
/// Most places of one process. No machine of today has more cores.
pub const MOST_PLACES: u32 = 4096;
/// Most retries of a failed process.
const MOST_RETRIES: u32 = 100;
/// The highest priority; the lowest is its negative.
pub const HIGHEST: i32 = 1000;

/// Checks a submitted job against the limits.
pub(super) fn check(spec: &Spec) -> Result<(), JobRefusal> {
    let wrong = |what: &str| Err(JobRefusal::Wrong(what.to_owned()));
    if spec.commands.is_empty() || spec.commands.iter().any(|it| it.words.first().is_none_or(String::is_empty)) {
        return wrong("there is no command to run: phalanx submit -- COMMAND");
    }
    if spec.last < spec.first || spec.last - spec.first >= MOST_COUNT || spec.last > i32::MAX as u32 {
        return wrong("an array has 1 to 100000 processes, and its last index is no less than its first one");
    }
    let is_too_much = spec.commands.len() > MOST_STEPS
        || spec.after.len() > MOST_STEPS
        || spec.outputs.len() > MOST_STEPS
        || spec.inputs.len() > MOST_FILES;
    if is_too_much || encode_body(spec).len() > LONGEST_SPEC {
        return wrong(
            "the job is too large: at most 1000 files, 100 patterns and 256 KB of text; put many files into an archive",
        );
    }
    if spec.retries > MOST_RETRIES || !(-HIGHEST..=HIGHEST).contains(&spec.priority) {
        return wrong("a failed process is run again 100 times at most, and priorities are from -1000 to 1000");
    }
    if spec.places > MOST_PLACES {
        return wrong("a process takes 1 to 4096 places");
    }
    if let Some(name) = names(spec).find(|name| !is_inside(name)) {
        let shown: String = name.chars().take(80).filter(|it| !it.is_control()).collect();
        return Err(JobRefusal::Wrong(format!(
            "{shown:?} leads out of the folder of the process: names of files are relative, and without .."
        )));
    }
    check_shown(spec)?;
    if !spec.inputs.iter().all(|it| it.content.is_short()) || spec.commands.iter().any(|it| !has_good_variables(it)) {
        return wrong("a content or a variable of the job is malformed");
    }
    if spec.commands.iter().flat_map(|it| &it.words).any(|word| word.contains('\0')) || spec.name.len() > 200 {
        return wrong("words of a command have no zero byte, and a name has at most 200 bytes");
    }
    match are_words(&spec.needs.software) && are_words(&spec.needs.labels) {
        true => Ok(()),
        false => wrong("a need names a program or a label: letters, digits and ._+-, at most 16 of 64 bytes"),
    }
}

/// Checks the folders that a process sees at other paths. The executor repeats the check, because it does not trust the hub.
fn check_shown(spec: &Spec) -> Result<(), JobRefusal> {
    let wrong = |what: &str| Err(JobRefusal::Wrong(what.to_owned()));
    if spec.shown.len() > MOST_SHOWN || !spec.shown.iter().all(|(at, _)| at.strip_prefix('/').is_some_and(is_inside)) {
        return wrong("a process sees at most 64 folders of its own, each at an absolute path without ..");
    }
    // Between two commands the user's programs can replace one of these folders by a symbolic link.
    if !spec.shown.is_empty() && spec.commands.len() > 1 {
        return wrong("a job that sees folders of its own at other paths has one command");
    }
    Ok(())
}

/// The names of all files and folders of a job.
fn names(spec: &Spec) -> impl Iterator<Item = &String> {
    let commands = spec.commands.iter().flat_map(|it| it.folder.iter().chain(&it.stdin));
    let shown = spec.shown.iter().map(|(_, folder)| folder);
    spec.inputs.iter().map(|it| &it.name).chain(&spec.outputs).chain(commands).chain(shown)
}

fn has_good_variables(command: &Command) -> bool {
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    command.environment.iter().all(|(name, value)| is_name(name) && !value.contains('\0'))
}
