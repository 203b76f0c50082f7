//! Groups of both versions, in folders that imitate the kernel's, and in real groups if this process may make them.

use super::mounted::{Mounted, read};
use super::version::Version;
use super::*;
use std::process::Command;
use tempfile::TempDir;

const ALL: [Controller; 3] = Controller::ALL;
const BOUNDS: Bounds = Bounds { memory: Some(1 << 30), cpu: Some(150), weight: Some(20), processes: Some(64) };

fn folder(files: &[(&str, &str)]) -> TempDir {
    let made = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = made.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    made
}

fn written(made: &TempDir, files: &[&str]) -> Vec<String> {
    files.iter().map(|file| fs::read_to_string(made.path().join(file)).unwrap()).collect()
}

#[test]
fn bounds_are_written_as_version_2_reads_them() {
    let files = ["memory.max", "memory.swap.max", "cpu.max", "cpu.weight", "pids.max"];
    let made = folder(&files.map(|file| (file, "")));
    Version::Two.write(made.path(), &ALL, BOUNDS).unwrap();
    assert_eq!(written(&made, &files), ["1073741824", "0", "150000 100000", "20", "64"]);
}

#[test]
fn bounds_are_written_as_version_1_reads_them() {
    let memory = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"];
    let files = [memory[0], memory[1], "cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.shares", "pids.max"];
    let made = folder(&files.map(|file| (file, "")));
    Version::One.write(made.path(), &ALL, BOUNDS).unwrap();
    assert_eq!(written(&made, &files), ["1073741824", "1073741824", "100000", "150000", "204", "64"]);
    fs::remove_file(made.path().join(memory[1])).unwrap();
    Version::One.write(made.path(), &ALL, BOUNDS).expect("kernels without accounts of swap have no such file");
    Version::One.write(made.path(), &ALL, Bounds::default()).expect("nothing is written");
}

#[test]
fn controllers_of_version_2_are_turned_on_that_are_not_on() {
    let made = folder(&[("cgroup.controllers", "cpuset cpu memory pids\n"), ("cgroup.subtree_control", "memory\n")]);
    // A plain folder keeps only the last write, so that no controller is on.
    let on = Version::Two.enable(made.path(), &[], true).unwrap();
    assert_eq!(on, []);
    assert!(written(&made, &["cgroup.subtree_control"])[0].starts_with("+pids"), "the last of those that were not on");
    let one = Version::One.enable(made.path(), &[Controller::Memory], true).unwrap();
    assert_eq!(one, [Controller::Memory]);
}

#[test]
fn the_group_of_this_process_is_found_where_it_is_mounted() {
    let made = folder(&[("two/cgroup.controllers", "memory pids\n"), ("two/user/app/x", ""), ("one/docker/x", "")]);
    let at = |path: &str| made.path().join(path);
    let (two, one) = (at("two").display().to_string(), at("one").display().to_string());
    let mounts = format!(
        "31 24 0:26 / {two} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n32 24 0:27 /lab {one} rw - cgroup cgroup \
         rw,pids,memory\n33 24 0:28 / /nowhere rw - cgroup cgroup rw,freezer\nnonsense\n34 1 8:1 / / rw - ext4 /dev/sda rw\n"
    );
    let found = read(&mounts, "0::/user/app\n4:memory,pids:/lab/docker\n3:freezer:/\n");
    let two = Mounted { version: Version::Two, controllers: vec![], top: at("two"), own: at("two/user/app") };
    let controllers = vec![Controller::Memory, Controller::Processes];
    let one = Mounted { version: Version::One, controllers, top: at("one"), own: at("one/docker") };
    assert_eq!(found, [two.clone(), one]);
    assert_eq!(two.places(), [at("two/user/app"), at("two/user"), at("two")]);
    fs::write(at("two/user/memory.max"), "max\n").unwrap();
    assert_eq!(two.places().len(), 3);
    fs::write(at("two/user/memory.max"), "1048576\n").unwrap();
    assert_eq!(two.places(), [at("two/user/app"), at("two/user")], "the bound of its owner is not left");
    for wrong in ["0::/../../etc\n", "0::/gone\n", ""] {
        assert_eq!(read(&mounts, wrong), [], "{wrong}");
    }
}

#[test]
fn kills_for_memory_are_read_in_both_versions() {
    let made = folder(&[
        ("memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n"),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"),
        ("memory.peak", "4096\n"),
    ]);
    assert_eq!(Version::Two.kills(made.path()), Some(2));
    assert_eq!(Version::One.kills(made.path()), Some(7));
    assert_eq!((Version::Two.peak(made.path()), Version::One.peak(made.path())), (Some(4096), None));
}

/// Real control groups. `None`: this process cannot make any.
fn real(bounds: Bounds) -> Option<Groups> {
    let groups = Groups::new(bounds).inspect_err(|why| eprintln!("not tried: {why}")).ok()?;
    let all = ALL.into_iter().all(|controller| groups.bound(controller));
    all.then_some(groups)
}

/// Runs a command in a group. Returns whether it ended well.
fn run_in(group: &Group, words: &[&str]) -> bool {
    use std::os::unix::process::CommandExt;
    let entries: Vec<_> = group.entries().iter().map(|it| it.try_clone_to_owned().unwrap()).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    // SAFETY: the closure makes system calls only.
    unsafe {
        command.pre_exec(move || {
            let mut borrowed = [const { None }; 3];
            for (entry, slot) in entries.iter().zip(&mut borrowed) {
                *slot = Some(entry.as_fd());
            }
            borrowed.iter().flatten().try_for_each(|entry| Group::enter(std::slice::from_ref(entry)))
        });
    }
    command.status().unwrap().success()
}

#[test]
fn the_kernel_ends_what_uses_more_memory_than_its_group_has() {
    let Some(groups) = real(Bounds { memory: Some(256 << 20), ..Bounds::default() }) else { return };
    let group = groups.program(Bounds { memory: Some(32 << 20), ..Bounds::default() }).unwrap();
    let fill = "import sys; x = bytearray(int(sys.argv[1]) << 20)";
    assert!(run_in(&group, &["python3", "-c", fill, "1"]) && group.ran_out().is_none());
    assert!(!run_in(&group, &["python3", "-c", fill, "100"]));
    assert_eq!(group.ran_out(), Some(Some(32 << 20)));
    let wide = groups.program(Bounds::default()).unwrap();
    assert!(!run_in(&wide, &["python3", "-c", fill, "600"]));
    assert_eq!(wide.ran_out(), Some(None), "all programs have reached theirs");
}

#[test]
fn processes_end_and_groups_are_gone_when_their_owner_is() {
    let Some(groups) = real(Bounds { processes: Some(100), ..Bounds::default() }) else { return };
    let group = groups.program(Bounds { processes: Some(3), ..Bounds::default() }).unwrap();
    assert!(!run_in(&group, &["sh", "-c", "sleep 1000 & sleep 1000 & sleep 1000 & sleep 1000 & true"]));
    let (paths, all) = (group.parts.clone(), groups.parts.iter().map(|part| part.path.clone()).collect::<Vec<_>>());
    let inside = || fs::read_to_string(paths[0].1.join("cgroup.procs")).unwrap().lines().count();
    assert!((1..=3).contains(&inside()), "sleeping ones stay");
    drop(group);
    assert!(paths.iter().all(|(_, path)| !path.exists()));
    assert!(all.iter().all(|path| path.exists()));
    drop(groups);
    assert!(all.iter().all(|path| !path.exists()));
}

#[test]
fn what_a_killed_executor_left_is_removed_and_what_a_living_one_has_is_not() {
    let Some(groups) = real(Bounds::default()) else { return };
    let place = groups.parts[0].path.parent().unwrap().to_owned();
    let left = place.join("phalanx-0-9");
    fs::create_dir_all(left.join("program-1")).unwrap();
    let next = real(Bounds::default()).unwrap();
    assert!(!left.exists() && groups.parts.iter().chain(&next.parts).all(|part| part.path.exists()));
}

#[test]
fn only_groups_that_an_executor_has_made_are_its_own() {
    let name = free_name(Path::new("/no/such/folder"));
    assert!(name.file_name().and_then(|it| it.to_str()).is_some_and(is_ours), "{name:?}");
    for other in
        [OWN, "phalanx-lab.service", "phalanx-7", "phalanx-7-", "phalanx--7", "phalanx-7-1.scope", "phalanx-7-1-1"]
    {
        assert!(!is_ours(other), "{other}");
    }
}
