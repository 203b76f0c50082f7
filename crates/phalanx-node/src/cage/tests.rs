use super::*;
use std::error::Error;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The output of a script in a caged shell, with the shell's folder as the first argument.
fn says(settings: Settings, script: &str, folder: &Path) -> Result<String, Box<dyn Error>> {
    let cage = Cage::new(settings)?;
    let bars = cage.around(Some(folder), None, None, &[])?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh"]).arg(folder).stdin(Stdio::null());
    bars.furnish(&mut command);
    // SAFETY: between fork and exec, `enter` makes system calls only.
    unsafe { command.pre_exec(move || bars.enter()) };
    let output = command.output()?;
    Ok(String::from_utf8([output.stdout, output.stderr].concat())?)
}

/// Whether this kernel supports the cage. Otherwise the tests say so and pass.
fn can_cage() -> bool {
    landlock::support(false).inspect_err(|why| eprintln!("not tested: {why}")).is_ok()
}

#[test]
fn a_process_reads_the_system_and_writes_in_its_folder_only() {
    if !can_cage() {
        return;
    }
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(other.path().join("secret"), "hidden").unwrap();
    let there = other.path().display();
    let script = format!("echo kept > kept && cat kept /etc/passwd > all && cat {there}/secret; echo x > {there}/new");
    let said = says(Settings::default(), &script, own.path()).unwrap();
    assert!(!said.contains("hidden") && said.matches("Permission denied").count() == 2, "{said}");
    assert!(own.path().join("all").metadata().unwrap().len() > 5 && !other.path().join("new").exists());
}

#[test]
fn a_grant_opens_a_folder_for_reading_or_for_writing() {
    if !can_cage() {
        return;
    }
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(other.path().join("data"), "granted").unwrap();
    let there = other.path().display();
    let with = |how: &str| {
        let settings = Settings { grants: vec![format!("{there}:{how}")], ..Settings::default() };
        says(settings, &format!("cat {there}/data; echo x > {there}/{how}"), own.path()).unwrap()
    };
    assert!(with("ro").contains("granted") && !other.path().join("ro").exists());
    assert!(with("rw").contains("granted") && other.path().join("rw").exists());
}

#[test]
fn a_program_is_found_on_the_path_where_users_may_run_it() {
    use std::os::unix::fs::PermissionsExt;
    let tools = tempfile::tempdir().unwrap();
    let at = tools.path().display();
    for (name, mode) in [("tool", 0o755), ("text", 0o644)] {
        std::fs::write(tools.path().join(name), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(tools.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::fs::create_dir(tools.path().join("folder")).unwrap();
    let finds = |kind, grants: Vec<String>, path: String, program: &str| {
        let variables = vec![("PATH".into(), path.into())];
        Cage::new(Settings { kind, grants, variables, ..Settings::default() }).unwrap().finds(program)
    };
    let both = format!("/no/such/folder:{at}:/usr/bin:/bin");
    for program in ["tool", "sh"] {
        assert!(finds(Some(Kind::None), Vec::new(), both.clone(), program), "{program}");
    }
    for nothing in ["text", "folder", "no-such-program"] {
        assert!(!finds(Some(Kind::None), Vec::new(), both.clone(), nothing), "{nothing}");
    }
    assert!(!finds(Some(Kind::None), Vec::new(), "/no/such/folder".into(), "sh"));
    if can_cage() {
        assert!(!finds(None, Vec::new(), both.clone(), "tool"), "the cage does not open it");
        assert!(finds(None, vec![format!("{at}:ro")], both.clone(), "tool"));
        assert!(finds(None, Vec::new(), both, "sh"));
    }
}

#[test]
fn without_files_a_process_still_has_a_folder_an_environment_and_no_core_dumps() {
    let own = tempfile::tempdir().unwrap();
    let variables = vec![("LICENCE".into(), "42".into())];
    let settings = Settings { kind: Some(Kind::None), variables, ..Settings::default() };
    let said = says(settings, "pwd; echo $HOME $TMPDIR $LICENCE $CARGO_MANIFEST_DIR; ulimit -Hc", own.path()).unwrap();
    let at = own.path().display();
    assert_eq!(said, format!("{at}\n{at} {at} 42\n0\n"));
}

#[test]
fn the_kind_is_said_and_a_wrong_grant_is_refused() {
    let report = |kind| Cage::new(Settings { kind, ..Settings::default() }).map(|cage| cage.report().clone());
    let most = report(None).unwrap();
    assert_eq!(most.kind.parts_users(), can_cage(), "{most}");
    let open = "files, tracing, signals and unix sockets are open";
    assert_eq!(report(Some(Kind::None)).unwrap().to_string(), format!("none: system calls, {open} (--cage none)"));
    if can_cage() {
        assert_eq!(report(Some(Kind::Files)).unwrap(), most);
    }
    match report(Some(Kind::Full)) {
        Ok(full) => assert_eq!((&full, most.kind), (&most, Kind::Full)),
        Err(why) => assert_eq!(why, format!("--cage full is not possible: {}", most.lacks.join(", "))),
    }
    let wrong = Settings { grants: vec!["/there/is/no/such:ro".into()], ..Settings::default() };
    assert!(Cage::new(wrong).unwrap_err().contains("/there/is/no/such"));
}

#[test]
fn the_memory_of_a_process_with_keys_is_closed() {
    use rustix::process::{DumpableBehavior, dumpable_behavior};
    hide_memory().unwrap();
    assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
}

/// The error of each system call in a caged process.
fn refusals(calls: &[(libc::c_long, [libc::c_long; 4])]) -> Result<Vec<i32>, Box<dyn Error>> {
    refusals_in(Settings::default(), calls)
}

fn refusals_in(settings: Settings, calls: &[(libc::c_long, [libc::c_long; 4])]) -> Result<Vec<i32>, Box<dyn Error>> {
    let bars = Cage::new(settings)?.around(None, None, None, &[])?;
    let (answers, answer) = rustix::pipe::pipe()?;
    // SAFETY: the child only makes system calls, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let entered = bars.enter().is_ok();
        for (call, [one, two, three, four]) in calls.iter().filter(|_| entered) {
            // SAFETY: none of the calls has a pointer that the kernel would write to.
            let outcome = unsafe { libc::syscall(*call, *one, *two, *three, *four, 0) };
            let error = if outcome < 0 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 };
            let _ = rustix::io::write(&answer, &error.to_ne_bytes());
        }
        // SAFETY: ends the child without the handlers of its parent.
        unsafe { libc::_exit(0) }
    }
    drop(answer);
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut std::fs::File::from(answers), &mut bytes)?;
    // SAFETY: waits for the child, which only this function knows.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    Ok(bytes.chunks_exact(4).map(|word| word.try_into().map_or(0, i32::from_ne_bytes)).collect())
}

#[test]
fn system_calls_that_no_task_needs_are_refused() {
    if !can_cage() || seccomp::program().is_none() {
        return;
    }
    let flags = |flags: i32| libc::c_long::from(flags);
    let refused = [
        (libc::SYS_mount, [0; 4]),
        (libc::SYS_bpf, [0; 4]),
        (libc::SYS_keyctl, [0; 4]),
        (libc::SYS_userfaultfd, [0; 4]),
        (libc::SYS_open_by_handle_at, [0; 4]),
        (libc::SYS_unshare, [flags(libc::CLONE_NEWUSER), 0, 0, 0]),
        (libc::SYS_clone, [flags(libc::CLONE_NEWUSER | libc::SIGCHLD), 0, 0, 0]),
        (libc::SYS_socket, [flags(libc::AF_VSOCK), flags(libc::SOCK_STREAM), 0, 0]),
        (libc::SYS_ioctl, [0, libc::TIOCSTI as libc::c_long, 0, 0]),
        (libc::SYS_prlimit64, [libc::c_long::from(std::process::id()), libc::RLIMIT_NOFILE as libc::c_long, 0, 0]),
        (libc::SYS_setpriority, [libc::PRIO_USER as libc::c_long, 0, 19, 0]),
    ];
    assert_eq!(refusals(&refused).unwrap(), [libc::EPERM; 11]);
    let absent = [
        (libc::SYS_io_uring_setup, [0; 4]),
        (libc::SYS_clone3, [0; 4]),
        (libc::SYS_inotify_init1, [0; 4]),
        (libc::SYS_openat2, [0; 4]),
    ];
    assert_eq!(refusals(&absent).unwrap(), [libc::ENOSYS; 4]);
    let allowed = [
        (libc::SYS_unshare, [flags(libc::CLONE_FILES), 0, 0, 0]),
        (libc::SYS_socket, [flags(libc::AF_UNIX), flags(libc::SOCK_STREAM), 0, 0]),
        (libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE as libc::c_long, 0, 0]),
        (libc::SYS_getpid, [0; 4]),
    ];
    assert_eq!(refusals(&allowed).unwrap(), [0; 4]);
}

#[test]
fn a_process_in_the_cage_begins_none_beyond_the_limit_and_cannot_raise_it() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let bars = super::Bars {
        processes: Some(1000),
        ..Cage::new(Settings::default()).unwrap().around(None, None, None, &[]).unwrap()
    };
    // SAFETY: the child only makes system calls, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let limits =
            |limit: Rlimit| [limit.current, limit.maximum].iter().all(|it| it.is_some_and(|most| most <= 1000));
        let entered = bars.enter().is_ok() && limits(getrlimit(Resource::Nproc));
        let raised = setrlimit(Resource::Nproc, Rlimit { current: Some(1001), maximum: Some(1001) }).is_ok();
        // SAFETY: ends this process.
        unsafe { libc::_exit(i32::from(!entered || raised)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
}

/// Another account could run such a program with the rights of the cage's account, outside of the cage.
#[test]
fn no_program_gets_the_set_user_id_or_the_set_group_id_bit() {
    if !can_cage() || seccomp::program().is_none() {
        return;
    }
    // The number is no descriptor, so that a call which is not refused fails with EBADF.
    let nothing = 1 << 20;
    let path = c"file".as_ptr() as libc::c_long;
    let create = libc::c_long::from(libc::O_CREAT | libc::O_WRONLY);
    let modes = |mode: libc::c_long| {
        [
            (libc::SYS_fchmod, [nothing, mode, 0, 0]),
            (libc::SYS_fchmodat, [nothing, path, mode, 0]),
            (libc::SYS_mknodat, [nothing, path, mode | libc::c_long::from(libc::S_IFREG), 0]),
            (libc::SYS_openat, [nothing, path, create, mode]),
            (libc::SYS_openat, [nothing, path, libc::c_long::from(libc::O_TMPFILE | libc::O_WRONLY), mode]),
        ]
    };
    assert_eq!(refusals(&modes(0o4755)).unwrap(), [libc::EPERM; 5]);
    // A folder may have the set-group-ID bit. The gate distinguishes files from folders.
    let (there, made) = ([libc::EBADF; 2], [libc::EPERM; 3]);
    assert_eq!(refusals(&modes(0o2755)).unwrap(), [&there[..], &made].concat());
    assert_eq!(refusals(&modes(0o1755)).unwrap(), [libc::EBADF; 5]);
    // The mode has no effect if the call creates no file.
    assert_eq!(refusals(&[(libc::SYS_openat, [nothing, path, 0, 0o4755])]).unwrap(), [libc::EBADF]);
}

#[test]
fn limits_refuse_system_calls_and_rights_but_no_files() {
    let limits = || Settings { kind: Some(Kind::Limits), ..Settings::default() };
    if seccomp::program().is_none() {
        assert!(Cage::new(limits()).unwrap_err().starts_with("--cage limits is not possible: "));
        return;
    }
    assert!(Cage::new(limits()).unwrap().report().to_string().starts_with("limits: files, "));
    let calls = [(libc::SYS_mount, [0; 4]), (libc::SYS_getpid, [0; 4])];
    assert_eq!(refusals_in(limits(), &calls).unwrap(), [libc::EPERM, 0]);
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(other.path().join("file"), "readable\n").unwrap();
    let script = format!("cat {}/file; grep -h -e NoNewPrivs -e CapPrm /proc/self/status", other.path().display());
    let said = says(limits(), &script, own.path()).unwrap();
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(words, ["readable", "CapPrm:", "0000000000000000", "NoNewPrivs:", "1"]);
}

#[test]
fn without_a_network_there_are_unix_sockets_without_datagrams_and_no_routes() {
    let none = |kind| Settings { kind, network: Network::None, ..Settings::default() };
    if seccomp::program().is_none() {
        assert!(Cage::new(none(None)).is_err());
        return;
    }
    let why = Cage::new(none(Some(Kind::None))).unwrap_err();
    assert_eq!(why, "--network none needs a cage that is limits or more");
    let long = |number: i32| libc::c_long::from(number);
    let socket = |family, kind| (libc::SYS_socket, [long(family), long(kind), 0, 0]);
    // The null pointer makes an allowed `socketpair` fail, because the kernel cannot write the descriptors.
    let pair = |family, kind| (libc::SYS_socketpair, [long(family), long(kind), 0, 0]);
    let set = |level, name| (libc::SYS_setsockopt, [-1, long(level), long(name), 0]);
    let refused = [
        socket(libc::AF_UNIX, libc::SOCK_DGRAM),
        socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC),
        socket(libc::AF_UNIX, libc::SOCK_RAW),
        socket(libc::AF_INET, libc::SOCK_STREAM),
        pair(libc::AF_UNIX, libc::SOCK_DGRAM),
        pair(libc::AF_INET, libc::SOCK_STREAM),
        set(libc::IPPROTO_IP, libc::IP_OPTIONS),
        set(libc::IPPROTO_IPV6, libc::IPV6_RTHDR),
    ];
    assert_eq!(refusals_in(none(None), &refused).unwrap(), [libc::EACCES; 8]);
    let allowed = [
        socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK),
        socket(libc::AF_UNIX, libc::SOCK_SEQPACKET),
        pair(libc::AF_UNIX, libc::SOCK_STREAM),
        pair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC),
        set(libc::IPPROTO_TCP, libc::TCP_NODELAY),
        set(libc::IPPROTO_IP, libc::IP_TOS),
    ];
    let outcomes = [0, 0, libc::EFAULT, libc::EFAULT, libc::EBADF, libc::EBADF];
    assert_eq!(refusals_in(none(None), &allowed).unwrap(), outcomes);
    let hosts = || Settings { network: Network::Hosts(vec![("192.0.2.7".to_owned(), None)]), ..Settings::default() };
    if gate::is_possible() {
        let sockets = [
            socket(libc::AF_INET, libc::SOCK_STREAM),
            socket(libc::AF_INET, libc::SOCK_DGRAM),
            socket(libc::AF_UNIX, libc::SOCK_STREAM),
            socket(libc::AF_UNIX, libc::SOCK_DGRAM),
            socket(libc::AF_NETLINK, libc::SOCK_RAW),
        ];
        let outcomes = [0, libc::EACCES, 0, libc::EACCES, libc::EACCES];
        assert_eq!(refusals_in(hosts(), &sockets).unwrap(), outcomes);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_second_interface_of_the_architecture_is_refused() {
    if can_cage() && seccomp::program().is_some() {
        let x32 = |call: libc::c_long| (call | 0x4000_0000, [0; 4]);
        assert_eq!(refusals(&[x32(libc::SYS_mount), x32(libc::SYS_getpid)]).unwrap(), [libc::ENOSYS; 2]);
    }
}
