use super::*;
use crate::cage::{Cage, Settings};
use crate::ending;
use phalanx_core::cage::Kind;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
/// Starts a daemon in a new session, whose parent ends at once, and waits until it has written its number.
const ESCAPE: &str = "setsid sh -c 'sh -c \"echo \\$\\$ > escaped; sleep 1000 & sleep 1000\" &' & \
    while ! [ -s escaped ]; do :; done; ";

fn bars(kind: Option<Kind>, folder: &Path) -> Bars {
    let grants = vec![format!("{}:rw", folder.display())];
    let cage = Cage::new(Settings { kind, grants, ..Settings::default() }).expect("a cage");
    cage.around(Some(folder), None, None, &[]).expect("bars")
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

#[test]
fn what_a_program_leaves_ends_with_it() {
    for kind in [None, Some(Kind::None)] {
        let folder = tempfile::tempdir().unwrap();
        let (mut keeper, process) = shell(&bars(kind, folder.path()), &format!("{ESCAPE} exit 3"));
        let left = escaped(folder.path());
        until("the end of the program", || keeper.has_news());
        assert!(!ending::lives(left), "{kind:?}: the end is said when nothing is left");
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
        assert!(ending::lives(left) && ending::lives(process));
        let ended = keeper.end();
        assert!(!ending::lives(left) && !ending::lives(process), "{kind:?}");
        assert_eq!(ended.first().and_then(|it| it.status.signal()), Some(libc::SIGKILL));
    }
}

#[test]
fn a_keeper_that_does_not_answer_ends_with_all_that_it_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let (mut keeper, process) = shell(&bars(None, folder.path()), &format!("{ESCAPE} sleep 1000"));
    let left = escaped(folder.path());
    until("the processes that escape", || {
        ending::children(keeper.number(), keeper.number()).any(|it| it == left)
            && ending::children(left, left).count() == 2
    });
    let all: Vec<u32> = ending::children(left, left).chain([left, process, keeper.number()]).collect();
    kill_process(keeper.process, Signal::STOP).unwrap();
    keeper.end_within(Duration::from_millis(500));
    until("their end", || !all.iter().any(|it| ending::lives(*it)));
}

#[test]
fn other_programs_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let bars = bars(None, folder.path());
    let ((other, process), (keeper, _)) = (shell(&bars, "sleep 1000"), shell(&bars, "sleep 1000"));
    drop(keeper);
    assert!(ending::lives(process) && !other.has_news());
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
    assert!(ending::lives(processes[1]) && keeper.news().unwrap().is_none());
}

#[test]
fn a_process_that_goes_into_the_group_of_its_keeper_is_ended_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let hide =
        "import os, time; os.setpgid(0, os.getpgid(os.getppid())); open('hidden', 'w').close(); time.sleep(1000)";
    let mut command = Command::new("python3");
    command.args(["-c", hide]).stdin(std::process::Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let bars = bars(Some(Kind::None), folder.path());
    bars.furnish(&mut command);
    let (mut keeper, mut begun) = Keeper::start(&bars, &mut [command]).unwrap();
    let process = begun.pop().unwrap().unwrap().0;
    until("a process that hides", || folder.path().join("hidden").exists());
    keeper.signal(process, libc::SIGKILL);
    until("its end", || keeper.has_news());
    let ended = keeper.end();
    assert_eq!(ended.first().map(|it| (it.process, it.status.signal())), Some((process, Some(libc::SIGKILL))));
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

/// Runs a script until it ends, in a cage whose folder has the file `own`. Its argument is the path of a file outside. Returns the contents
/// of the file `said`.
fn said_of(outside: &Path, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own"), "mine").unwrap();
    fs::set_permissions(outside, fs::Permissions::from_mode(0o600)).unwrap();
    let script = format!("exec > said 2>&1; outside={}; {script}", outside.display());
    let (keeper, _) = shell(&bars(None, folder.path()), &script);
    until("the end of the script", || keeper.has_news());
    let mode = fs::metadata(outside).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600, "{script}");
    fs::read_to_string(folder.path().join("said")).unwrap()
}

/// A cage of Landlock with a gate, which some systems refuse; the executor says so at its start.
fn has_gate() -> bool {
    bars(None, Path::new("/dev/shm")).has_gate()
}

#[test]
fn a_program_changes_modes_only_where_it_may_write() {
    if !has_gate() {
        return;
    }
    let there = tempfile::tempdir().unwrap();
    let outside = there.path().join("identity.pem");
    fs::write(&outside, "key").unwrap();
    let own = "chmod 640 own; chmod 750 .; mkdir -p a/b; chmod -R g+w a; ln -s own link; chmod 604 link; stat -c %a own . a/b link";
    assert_eq!(said_of(&outside, own), "604\n750\n775\n777\n");
    let by_descriptor = "exec 3<own; chmod 444 /proc/self/fd/3 && chmod 440 /dev/fd/3; stat -c %a own";
    assert_eq!(said_of(&outside, by_descriptor), "440\n");
    for attack in [
        "chmod 644 $outside",
        "chmod 755 $(dirname $outside)",
        "ln -s $outside link; chmod 644 link",
        "ln -s $(dirname $outside) folder; chmod 644 folder/identity.pem",
        "cd /; chmod 644 .$outside",
        "chmod 644 $PWD/../$(basename $(dirname $outside))/identity.pem",
        "chgrp $(id -g) $outside",
        "chown $(id -u) $outside",
        "chmod 755 /proc/$PPID/fd/0",
        "chmod 755 //proc/self/fd/0",
        "cd /proc; chmod 755 self/fd/0",
        "chmod 604 /proc/self/root$PWD/own",
        "chmod 604 /proc/self/cwd/own",
        "chmod 2755 own",
        "install -m 2755 own copy",
    ] {
        let said = said_of(&outside, attack);
        let refusals = ["Operation not permitted", "Permission denied", "Too many levels of symbolic links"];
        assert!(refusals.iter().any(|it| said.contains(it)), "{attack}: {said}");
    }
    assert_eq!(said_of(&outside, "mkdir shared; chmod 2770 shared; stat -c %a shared"), "2770\n");
    assert_eq!(said_of(&outside, "chmod 600 none || chmod 600 /none/there || echo no"), {
        let none = |path| format!("chmod: cannot access '{path}': No such file or directory\n");
        none("none") + &none("/none/there") + "no\n"
    });
}

#[test]
fn a_program_that_ends_while_it_asks_ends_as_always() {
    if !has_gate() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ask = "echo > own; for i in 1 2 3 4; do (while :; do chmod 600 own && echo > asked; done) & done; wait";
    let (mut keeper, process) = shell(&bars(None, folder.path()), ask);
    until("questions", || folder.path().join("asked").exists());
    assert_eq!(keeper.end().first().map(|it| (it.process, it.status.signal())), Some((process, Some(libc::SIGKILL))));
}
