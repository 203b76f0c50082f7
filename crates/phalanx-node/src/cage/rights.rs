//! What accounts may do with files of this machine, and whether this process may do everything.

pub use system::is_program;
pub(super) use system::{is_readable, is_root, others_may_read};

#[cfg(unix)]
mod system {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    use std::fs::{self, Metadata};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// Whether this is an executable file, for any account, because users' processes may have another account than this process.
    pub fn is_program(path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    }

    /// Whether every account may read the file, or list and enter the folder.
    pub fn others_may_read(found: &Metadata) -> bool {
        let needed = if found.is_dir() { 0o005 } else { 0o004 };
        found.permissions().mode() & needed == needed
    }

    /// Whether this account may read the file, or enter the folder.
    pub fn is_readable(path: &Path) -> bool {
        [Access::READ_OK, Access::EXEC_OK].into_iter().any(|how| accessat(CWD, path, how, AtFlags::EACCESS).is_ok())
    }

    /// Whether this process runs as root.
    pub fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }
}

#[cfg(windows)]
mod system {
    use std::fs::{self, Metadata};
    use std::path::Path;
    use windows_sys::Win32::UI::Shell::IsUserAnAdmin;

    /// Whether this is a file. Its extension, and not its rights, say whether it is a program.
    pub fn is_program(path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|it| it.is_file())
    }

    /// Not looked at: no cage opens single files here.
    pub fn others_may_read(_: &Metadata) -> bool {
        true
    }

    /// Not looked at: no cage opens single files here.
    pub fn is_readable(_: &Path) -> bool {
        false
    }

    /// Whether this process has an administrator's rights. It has not if its account is one and it was not elevated.
    pub fn is_root() -> bool {
        // SAFETY: a plain call.
        unsafe { IsUserAnAdmin() != 0 }
    }
}
