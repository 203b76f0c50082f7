use super::*;
use crate::cage::{Cage, Settings};
use crate::ending;
use phalanx_core::cage::Kind;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
/// Starts a process in a session of its own whose parent ends at once, and waits until it has written its number.
const ESCAPE: &str = "setsid sh -c 'sh -c \"echo \\$\\$ > escaped; sleep 1000 & sleep 1000\" &' & \
    while ! [ -s escaped ]; do :; done; ";

fn bars(kind: Option<Kind>, folder: &Path) -> Bars {
    let grants = vec![format!("{}:rw", folder.display())];
    let cage = Cage::new(Settings { kind, grants, ..Settings::default() }).expect("a cage");
    cage.around(Some(folder), None).expect("bars")
}

/// A shell with a script, and its keeper.
fn shell(bars: &Bars, script: &str) -> (Keeper, u32) {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).stdin(std::process::Stdio::null());
    bars.furnish(&mut command);
    let (keeper, mut begun) = Keeper::start(bars, &mut [command]).expect("a keeper");
    let (process, _) = begun.pop().expect("one outcome").expect("a process");
    (keeper, process)
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for the number of the process that has left its session.
fn escaped(folder: &Path) -> u32 {
    let read = || fs::read_to_string(folder.join("escaped")).ok().and_then(|text| text.trim().parse().ok());
    until("a process that escapes", || read().is_some());
    read().expect("was there")
}

fn lives(process: u32) -> bool {
    ending::state(process).is_some_and(|state| state != 'Z')
}

#[test]
fn what_a_program_leaves_ends_with_it() {
    for kind in [None, Some(Kind::None)] {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, process) = shell(&bars(kind, folder.path()), &format!("{ESCAPE} exit 3"));
        let left = escaped(folder.path());
        until("the end of the program", || keeper.has_news());
        assert!(!lives(left), "{kind:?}: the end is said when nothing is left");
        let ended = keeper.end();
        assert_eq!(ended.iter().map(|it| (it.process, it.status.code())).collect::<Vec<_>>(), [(process, Some(3))]);
    }
}

#[test]
fn a_program_that_is_ended_takes_along_what_left_its_session() {
    for kind in [None, Some(Kind::None)] {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, process) = shell(&bars(kind, folder.path()), &format!("{ESCAPE} sleep 1000"));
        let left = escaped(folder.path());
        assert!(lives(left) && lives(process));
        let ended = keeper.end();
        assert!(!lives(left) && !lives(process), "{kind:?}");
        assert_eq!(ended.first().and_then(|it| it.status.signal()), Some(libc::SIGKILL));
    }
}

#[test]
fn other_programs_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let bars = bars(None, folder.path());
    let ((other, process), (keeper, _)) = (shell(&bars, "sleep 1000"), shell(&bars, "sleep 1000"));
    drop(keeper);
    assert!(lives(process) && !other.has_news());
}

#[test]
fn a_signal_reaches_the_group_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let bars = bars(None, folder.path());
    let command = |script: &str| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(std::process::Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        bars.furnish(&mut command);
        command
    };
    let mut commands = [command("sleep 1000; true"), command("sleep 1000; true")];
    let (keeper, begun) = Keeper::start(&bars, &mut commands).unwrap();
    let processes: Vec<u32> = begun.into_iter().map(|it| it.unwrap().0).collect();
    keeper.signal(processes[0], libc::SIGTERM);
    until("the end of the first process", || keeper.has_news());
    let ended = keeper.news().unwrap().unwrap();
    assert_eq!((ended.process, ended.status.signal()), (processes[0], Some(libc::SIGTERM)));
    assert!(lives(processes[1]) && keeper.news().unwrap().is_none());
}

#[test]
fn a_program_that_cannot_be_started_is_an_error_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let bars = bars(None, folder.path());
    let mut commands = [Command::new("/there/is/none"), Command::new("/bin/true")];
    let (keeper, begun) = Keeper::start(&bars, &mut commands).unwrap();
    assert_eq!(begun[0].as_ref().unwrap_err().kind(), io::ErrorKind::NotFound);
    let process = begun[1].as_ref().unwrap().0;
    until("the end of the other one", || keeper.has_news());
    let ended = keeper.news().unwrap().unwrap();
    assert_eq!((ended.process, ended.status.code()), (process, Some(0)));
}
