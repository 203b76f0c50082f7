//! The seccomp filter: it refuses system calls that no task needs and that have helped programs to escape from sandboxes.
//!
//! The list follows the default profiles of docker, podman and systemd (`@clock @module @mount @obsolete @raw-io @reboot @swap`,
//! `RestrictNamespaces`) for a process without capabilities. It allows calls that numerical libraries and message passing use: memory
//! policies, `process_vm_readv`, and `ptrace`, which Landlock confines to the program.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long, sock_filter,
};
use std::io;

/// The gap of a cage without a filter.
pub const UNFILTERED: &str = "this kernel filters no system calls, or not on this architecture";

/// Calls that fail with EPERM, whatever their arguments.
const REFUSED: &[c_long] = &[
    // file systems
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_umount2,
    // keys of the account, because all its processes share them
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // parts of the kernel that have had many vulnerabilities
    libc::SYS_bpf,
    libc::SYS_fanotify_init,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // the machine
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_vhangup,
];
/// Calls that fail with ENOSYS, as in a kernel without them, so that libraries fall back. They use `clone` instead of `clone3` and `openat`
/// instead of `openat2`, because a filter cannot read flags and modes behind a pointer. They poll instead of using inotify, because
/// Landlock does not restrict inotify, which names files of others in folders that the cage closes.
const ABSENT: &[c_long] = &[
    libc::SYS_clone3,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
    libc::SYS_inotify_init1,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_openat2,
];
/// Calls that fail with EOPNOTSUPP, as in a file system without extended attributes. An access control list is an attribute, and opens a
/// file to other accounts as a mode does.
const ATTRIBUTES: &[c_long] = &[
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_setxattr,
    // `setxattrat` and `removexattrat`. libc has no names for them yet, and their numbers are the same on all architectures.
    463,
    466,
];

/// The set-user-ID and set-group-ID bits. Another account that runs such a file gets the rights of the cage's account or group, outside of
/// the cage.
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;
/// Calls that set the mode of a file, each with the argument that has the mode, and the refused bits. `S_ISGID` is harmless at a folder. So
/// the [gate](super::gate) refuses it for existing files, because the filter cannot tell files from folders.
const MODES: &[(c_long, u32, u32)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1, libc::S_ISUID),
    (libc::SYS_fchmod, 1, libc::S_ISUID),
    (libc::SYS_fchmodat, 2, libc::S_ISUID),
    // `fchmodat2`, whose number is the same on all architectures. libc has no name for it on some of them.
    (452, 2, libc::S_ISUID),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1, SET_ID),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1, SET_ID),
    (libc::SYS_mknodat, 2, SET_ID),
];
/// Calls whose mode counts only if they create a file, each with the arguments that have the flags and the mode.
const OPENS: &[(c_long, u32, u32)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];
/// The flags that create a file. `O_TMPFILE` includes the bit of `O_DIRECTORY`.
const MAKES: u32 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;

const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
/// The flag of `unshare` for a time namespace. `clone` reads the bit as part of a signal's number.
const NEW_TIME: u32 = 0x80;
/// Requests that type into a terminal, such as the terminal from which the owner has started the executor.
const TERMINAL: [u32; 2] = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32];

/// Socket options for source routing, with their level. They send packets by way of other hosts.
const ROUTES: [(i32, i32); 3] = [
    (libc::IPPROTO_IP, libc::IP_OPTIONS),
    (libc::IPPROTO_IPV6, libc::IPV6_RTHDR),
    (libc::IPPROTO_IPV6, libc::IPV6_2292PKTOPTIONS),
];

/// The architecture whose numbers of system calls the lists have, as in `linux/audit.h`.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else if cfg!(all(target_arch = "riscv64", target_endian = "little")) {
    Some(0xc000_00f3)
} else {
    None
};
/// The bit in the numbers of x32, a second interface of x86-64.
const X32: u32 = 0x4000_0000;

// Offsets in `struct seccomp_data`. The architectures above are little-endian, so that the low half of an argument comes first.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// The filter that the kernel runs before each system call. The kernel caches which calls the filter always allows, so that these cost
/// nothing. `None`: the kernel has no seccomp filters, or there is no list for this architecture.
pub fn program() -> Option<Vec<sock_filter>> {
    is_available(libc::SECCOMP_RET_ERRNO).then(filter).flatten()
}

/// A filter that answers these calls with `answer`, and allows all others. `None`: there is no list for this architecture.
pub fn program_for(calls: &[c_long], answer: u32) -> Option<Vec<sock_filter>> {
    // The main filter refuses calls of other architectures.
    let mut program =
        vec![load(ARCH), jump(BPF_JEQ, ARCHITECTURE?, 1, 0), returns(libc::SECCOMP_RET_ALLOW), load(NUMBER)];
    calls.iter().for_each(|call| program.extend([jump(BPF_JEQ, *call as u32, 0, 1), returns(answer)]));
    program.push(returns(libc::SECCOMP_RET_ALLOW));
    Some(program)
}

fn filter() -> Option<Vec<sock_filter>> {
    let (absent, refused) = (refuse(libc::ENOSYS), refuse(libc::EPERM));
    let mut program = vec![load(ARCH), jump(BPF_JEQ, ARCHITECTURE?, 1, 0), absent, load(NUMBER)];
    if cfg!(target_arch = "x86_64") {
        program.extend([jump(BPF_JGE, X32, 0, 1), absent]);
    }
    let mut add = |calls: &[c_long], refuse| {
        calls.iter().for_each(|call| program.extend([jump(BPF_JEQ, *call as u32, 0, 1), refuse]));
    };
    add(ABSENT, absent);
    add(REFUSED, refused);
    add(ATTRIBUTES, refuse(libc::EOPNOTSUPP));
    // Refused conditions: the call, the argument, the comparison, and the value.
    let mut conditions = vec![
        (libc::SYS_clone, 0, BPF_JSET, NAMESPACES),
        (libc::SYS_unshare, 0, BPF_JSET, NAMESPACES | NEW_TIME),
        (libc::SYS_socket, 0, BPF_JEQ, libc::AF_VSOCK as u32),
        // Processes of one account could set each other's limits, and the priorities of all at once. Number 0 is the caller.
        (libc::SYS_prlimit64, 0, BPF_JSET, u32::MAX),
        (libc::SYS_setpriority, 0, BPF_JEQ, libc::PRIO_USER),
    ];
    conditions.extend(TERMINAL.map(|request| (libc::SYS_ioctl, 1, BPF_JEQ, request)));
    conditions.extend(MODES.iter().map(|(call, argument, bits)| (*call, *argument, BPF_JSET, *bits)));
    for (call, argument, comparison, value) in conditions {
        let skip = jump(BPF_JEQ, call as u32, 0, 4);
        program.extend([skip, load(ARGUMENTS + 8 * argument), jump(comparison, value, 0, 1), refused, load(NUMBER)]);
    }
    for (call, flags, mode) in OPENS {
        let (skip, makes) = (jump(BPF_JEQ, *call as u32, 0, 6), jump(BPF_JSET, MAKES, 0, 3));
        let (flags, mode) = (load(ARGUMENTS + 8 * flags), load(ARGUMENTS + 8 * mode));
        program.extend([skip, flags, makes, mode, jump(BPF_JSET, SET_ID, 0, 1), refused, load(NUMBER)]);
    }
    program.push(returns(libc::SECCOMP_RET_ALLOW));
    Some(program)
}

/// The filter for processes whose connections the owner limits. It allows unix sockets, and TCP sockets if `has_sockets`, but no datagrams.
/// Such sockets send nowhere before the [gate](super::gate) has connected them. `None`: there is no list for this architecture.
pub fn network_program(has_sockets: bool) -> Option<Vec<sock_filter>> {
    let (allow, refused) = (returns(libc::SECCOMP_RET_ALLOW), refuse(libc::EACCES));
    let mut program = vec![load(ARCH), jump(BPF_JEQ, ARCHITECTURE?, 1, 0), allow, load(NUMBER)];
    // TCP Fast Open connects without `connect`, so it would bypass the gate.
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        let sends = jump(BPF_JSET, libc::MSG_FASTOPEN as u32, 0, 1);
        let skip = jump(BPF_JEQ, call as u32, 0, 4);
        program.extend([skip, load(ARGUMENTS + 8 * flags), sends, refuse(libc::EOPNOTSUPP), load(NUMBER)]);
    }
    let is = |value: i32, yes, no| jump(BPF_JEQ, value as u32, yes, no);
    for (level, name) in ROUTES {
        program.extend([jump(BPF_JEQ, libc::SYS_setsockopt as u32, 0, 6), load(ARGUMENTS + 8), is(level, 0, 3)]);
        program.extend([load(ARGUMENTS + 16), is(name, 0, 1), refused, load(NUMBER)]);
    }
    let without_flags = sock_filter { code: (BPF_ALU | BPF_AND | BPF_K) as u16, jt: 0, jf: 0, k: 0xf };
    let (stream, packets) = (is(libc::SOCK_STREAM, 2, 0), is(libc::SOCK_SEQPACKET, 1, 0));
    // A datagram carries its own destination, even on a socket of a pair.
    let unix = [load(ARGUMENTS + 8), without_flags, stream, packets, refused, allow];
    program.extend([jump(BPF_JEQ, libc::SYS_socketpair as u32, 0, 9), load(ARGUMENTS)]);
    program.extend([is(libc::AF_UNIX, 1, 0), refused]);
    program.extend(unix);
    let mut socket = vec![load(ARGUMENTS), is(libc::AF_UNIX, 0, 6)];
    socket.extend(unix);
    if has_sockets {
        socket.extend([
            is(libc::AF_INET, 1, 0),
            is(libc::AF_INET6, 0, 6),
            load(ARGUMENTS + 8),
            without_flags,
            is(libc::SOCK_STREAM, 0, 3),
            load(ARGUMENTS + 16),
            is(0, 2, 0),
            is(libc::IPPROTO_TCP, 1, 0),
        ]);
    }
    socket.extend([refused, allow]);
    program.push(jump(BPF_JEQ, libc::SYS_socket as u32, 0, socket.len() as u8));
    program.extend(socket);
    program.push(allow);
    Some(program)
}

/// Whether the kernel supports this action of a filter.
pub fn is_available(action: u32) -> bool {
    // SAFETY: the call reads the action, which lives as long as the call.
    let outcome = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    outcome == 0
}

/// Installs the filter for this process for good. The process has `no_new_privs` already. One system call.
pub fn enter(program: &[sock_filter]) -> io::Result<()> {
    install(program, 0).map(drop)
}

/// Installs a filter with flags. Returns the kernel's result, which is a descriptor for some flags.
pub fn install(program: &[sock_filter], flags: libc::c_ulong) -> io::Result<c_long> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, which lives as long as the call, and does not write to it.
    match unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) } {
        outcome @ 0.. => Ok(outcome),
        _ => Err(io::Error::last_os_error()),
    }
}

fn load(at: u32) -> sock_filter {
    sock_filter { code: (BPF_LD | BPF_W | BPF_ABS) as u16, jt: 0, jf: 0, k: at }
}

/// Skips `yes` instructions if the comparison holds, and `no` if not.
fn jump(comparison: u32, value: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | comparison | BPF_K) as u16, jt: yes, jf: no, k: value }
}

fn refuse(error: i32) -> sock_filter {
    returns(libc::SECCOMP_RET_ERRNO | error as u32)
}

fn returns(answer: u32) -> sock_filter {
    sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: answer }
}
