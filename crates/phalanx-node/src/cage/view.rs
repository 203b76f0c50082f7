//! A view: paths at which the processes of a program see private folders, because programs that were written for a container expect them.
//!
//! The keeper of the program enters a mount namespace. Its root repeats the machine's root, except at the shown paths, where folders of the
//! program's folder are mounted. So a program can write to `/tmp/results` or `/data`, and the files lie in its own folder, which ends with
//! the program.

use crate::accounts::Account;
use phalanx_core::wire::jobs::MOST_SHOWN;
use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::ptr::null;

/// Folders that programs and users need. A view can replace folders in them, but not the whole folder.
const NEEDED: &[&str] = &["/", "/home", "/opt", "/root", "/srv", "/var"];
/// Folders in which a view can replace nothing.
const WHOLE: &[&str] = &["/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"];
/// The folder, in the program's folder, at which the view builds the new root.
const ROOT: &str = ".view";
/// Most entries that a view lists, over all folders.
const MOST_ENTRIES: usize = 10_000;

/// A folder that a program sees at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The path. It is absolute, and has no `..` and no symbolic link.
    pub at: PathBuf,
    /// The folder, in the program's folder.
    pub folder: PathBuf,
}

/// The view of a program. A process can enter it between fork and exec.
#[derive(Debug)]
pub struct View {
    root: CString,
    steps: Vec<Step>,
    /// The user and group mapping of a user namespace, which a process without root needs to make the mount namespace. `None`: this process
    /// is root.
    mapping: Option<[CString; 2]>,
    /// The paths at which folders are shown, and the folders' paths on the machine.
    folders: Vec<(PathBuf, PathBuf)>,
}

/// A step to build the new root.
#[derive(Debug)]
enum Step {
    Folder(CString),
    File(CString),
    Link { to: CString, at: CString },
    Bind { from: CString, at: CString },
}

impl View {
    /// Creates the folders in the folder of a program, as its account, and lists the machine's root.
    ///
    /// # Errors
    ///
    /// A folder cannot be shown at its path, or cannot be created.
    pub fn new(folder: &Path, shown: &[Shown], account: Option<&Account>) -> io::Result<View> {
        if shown.len() > MOST_SHOWN {
            return Err(io::Error::other(format!("a program sees at most {MOST_SHOWN} folders of its own")));
        }
        shown.iter().try_for_each(check)?;
        let is_in_another = |it: &Shown| shown.iter().any(|other| it.at != other.at && it.at.starts_with(&other.at));
        if let Some(inner) = shown.iter().find(|it| is_in_another(it)) {
            return Err(wrong(format!("{} is in another folder that is shown", inner.at.display())));
        }
        let make = || {
            let made = |it: &Path| DirBuilder::new().recursive(true).mode(0o700).create(folder.join(it));
            shown.iter().map(|it| it.folder.as_path()).chain([Path::new(ROOT)]).try_for_each(made)
        };
        account.map_or_else(make, |account| account.acting(make))?;
        let mut folders: Vec<(PathBuf, PathBuf)> =
            shown.iter().map(|it| (it.at.clone(), folder.join(&it.folder))).collect();
        // The program's own folder, because one of the shown folders may hide it.
        folders
            .extend(shown.iter().any(|it| folder.starts_with(&it.at)).then(|| (folder.to_owned(), folder.to_owned())));
        folders.sort();
        folders.dedup_by(|inner, outer| inner.0 == outer.0);
        let root = folder.join(ROOT);
        let mut plan = Plan { root: &root, folders: &folders, steps: Vec::new(), entries: 0 };
        plan.open(Path::new("/"))?;
        plan.show()?;
        let steps = plan.steps;
        Ok(View { root: text(&root)?, steps, mapping: mapping()?, folders })
    }

    /// The folders that the program sees elsewhere. The Landlock rules must name each of them.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(|(_, folder)| folder.as_path())
    }

    /// The paths at which the program sees them.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(|(path, _)| path.as_path())
    }

    /// Gives this process and its children this view of the machine. It makes system calls only.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: plain system calls; all texts live as long as `self`, and end with a zero.
        unsafe {
            if let Some(mapping) = &self.mapping {
                done(libc::unshare(libc::CLONE_NEWUSER))?;
                // The files in `/proc/self` belong to root while this process is not dumpable.
                done(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0))?;
                let mapped = write(c"/proc/self/setgroups", c"deny")
                    .and_then(|()| write(c"/proc/self/uid_map", &mapping[0]))
                    .and_then(|()| write(c"/proc/self/gid_map", &mapping[1]));
                done(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0))?;
                mapped?;
            }
            done(libc::unshare(libc::CLONE_NEWNS))?;
            let root = self.root.as_ptr();
            done(libc::mount(null(), c"/".as_ptr(), null(), libc::MS_REC | libc::MS_PRIVATE, null()))?;
            let flags = libc::MS_NOSUID | libc::MS_NODEV;
            let options = c"mode=0755,size=4m".as_ptr().cast();
            done(libc::mount(c"phalanx".as_ptr(), root, c"tmpfs".as_ptr(), flags, options))?;
            // Unbindable, so that recursive binds into the new root do not repeat the new root itself.
            done(libc::mount(null(), root, null(), libc::MS_UNBINDABLE, null()))?;
            self.steps.iter().try_for_each(Step::take)?;
            done(libc::chdir(root))?;
            // The old root then lies above the new one at the same path. The next call removes it.
            done(libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) as libc::c_int)?;
            done(libc::umount2(c".".as_ptr(), libc::MNT_DETACH))?;
            done(libc::chdir(c"/".as_ptr()))?;
            let flags = flags | libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
            done(libc::mount(null(), c"/".as_ptr(), null(), flags, null()))
        }
    }
}

/// Collects the steps that build a root.
struct Plan<'a> {
    root: &'a Path,
    /// The paths at which folders are shown, and the folders' paths on the machine. A folder precedes the folders in it.
    folders: &'a [(PathBuf, PathBuf)],
    steps: Vec<Step>,
    entries: usize,
}

impl Plan<'_> {
    /// Repeats a folder of the machine with all its entries, except the replaced ones.
    fn open(&mut self, folder: &Path) -> io::Result<()> {
        let Ok(listed) = fs::read_dir(folder) else { return Ok(()) };
        for entry in listed.filter_map(Result::ok) {
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Err(io::Error::other(format!("{} has too many entries to be shown", folder.display())));
            }
            let (path, kind) = (entry.path(), entry.file_type()?);
            let at = self.within(&path)?;
            if kind.is_symlink() {
                if self.folders.iter().any(|it| it.0.starts_with(&path)) {
                    return Err(io::Error::other(format!("{} is a symbolic link on this machine", path.display())));
                }
                self.steps.push(Step::Link { to: text(&fs::read_link(&path)?)?, at });
            } else if !kind.is_dir() {
                self.steps.extend([Step::File(at.clone()), Step::Bind { from: text(&path)?, at }]);
            } else if self.folders.iter().any(|it| it.0 == path) {
                // `show` mounts it later.
            } else if self.folders.iter().any(|it| it.0.starts_with(&path)) {
                self.steps.push(Step::Folder(at));
                self.open(&path)?;
            } else {
                self.steps.extend([Step::Folder(at.clone()), Step::Bind { from: text(&path)?, at }]);
            }
        }
        Ok(())
    }

    /// Shows the folders. Creates missing folders above them.
    fn show(&mut self) -> io::Result<()> {
        for (at, from) in self.folders {
            let mut above: Vec<&Path> = at.ancestors().filter(|it| it.parent().is_some()).collect();
            above.reverse();
            for folder in above {
                let folder = self.within(folder)?;
                self.steps.push(Step::Folder(folder));
            }
            let bind = Step::Bind { from: text(from)?, at: self.within(at)? };
            self.steps.push(bind);
        }
        Ok(())
    }

    /// The corresponding path in the new root.
    fn within(&self, path: &Path) -> io::Result<CString> {
        text(self.root.join(path.strip_prefix("/").unwrap_or(path)))
    }
}

impl Step {
    /// Carries out the step, by system calls only.
    fn take(&self) -> io::Result<()> {
        // SAFETY: the texts live as long as the calls, and end with a zero.
        unsafe {
            match self {
                Step::Folder(at) => match done(libc::mkdir(at.as_ptr(), 0o755)) {
                    Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
                    outcome => outcome,
                },
                Step::File(at) => done(libc::mknod(at.as_ptr(), libc::S_IFREG | 0o644, 0)),
                Step::Link { to, at } => done(libc::symlink(to.as_ptr(), at.as_ptr())),
                Step::Bind { from, at } => {
                    done(libc::mount(from.as_ptr(), at.as_ptr(), null(), libc::MS_BIND | libc::MS_REC, null()))
                }
            }
        }
    }
}

/// Checks that a folder can be shown at its path.
fn check(shown: &Shown) -> io::Result<()> {
    let plain = |path: &Path| path.components().all(|it| matches!(it, Component::Normal(_)));
    let at = shown.at.strip_prefix("/").unwrap_or(Path::new(".."));
    // A name with a leading dot could be the folder of the new root, and lead to the whole machine.
    let is_hidden = shown.folder.as_os_str().as_bytes().starts_with(b".");
    if !plain(at) || !plain(&shown.folder) || is_hidden {
        let (at, folder) = (shown.at.display(), shown.folder.display());
        return Err(wrong(format!("{folder} cannot be shown at {at}: write a plain folder and path")));
    }
    // The Landlock rules name a folder like /usr as a whole, and would not cover a mount in its place.
    match NEEDED.iter().any(|it| Path::new(it) == shown.at) || WHOLE.iter().any(|it| shown.at.starts_with(it)) {
        true => Err(wrong(format!("{} is needed, and cannot be replaced", shown.at.display()))),
        false => Ok(()),
    }
}

/// An error that the user must correct.
fn wrong(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// This process's user and group as lines for `uid_map` and `gid_map`. `None`: the process is root.
fn mapping() -> io::Result<Option<[CString; 2]>> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let line = |number: u32| text(OsStr::new(&format!("{number} {number} 1")));
    if user == 0 { Ok(None) } else { Ok(Some([line(user)?, line(group)?])) }
}

fn text(path: impl AsRef<OsStr>) -> io::Result<CString> {
    Ok(CString::new(path.as_ref().as_bytes())?)
}

fn done(outcome: libc::c_int) -> io::Result<()> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Writes to a file of the kernel. System calls only.
unsafe fn write(file: &std::ffi::CStr, text: &std::ffi::CStr) -> io::Result<()> {
    // SAFETY: the texts live as long as the calls.
    unsafe {
        let opened = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        done(opened)?;
        let bytes = text.to_bytes();
        let written = libc::write(opened, bytes.as_ptr().cast(), bytes.len());
        let outcome = if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        libc::close(opened);
        outcome
    }
}

#[cfg(test)]
mod tests;
