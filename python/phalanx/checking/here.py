"""Looks at this machine: what phalanx uses of it, what is missing, and what that costs."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import stat
import sys
import sysconfig
import tempfile
from pathlib import Path

from phalanx import _native
from phalanx._grids import DamagedGridError, Joined, read_joined
from phalanx._identities import EXECUTOR, REVOKED, USER, home, joined_names, read_private
from phalanx.checking.findings import Finding, Findings, numpy_version
from phalanx.errors import IdentityError, PhalanxError

#: Programs that commands call, what for, and the Debian packages that bring them.
_PROGRAMS = {
    "ssh": ("phalanx deploy and phalanx doctor USER@HOST", "openssh-client"),
    "cc": ("phalanx mpicc and phalanx bspcc", "gcc libc6-dev"),
}
#: An executor serves one link for 16 open files, so that this many are for 64 links.
_FILES = 1024
#: Threads and processes of the account. An executor takes at most half of them for links.
_PROCESSES = 1024
#: Bytes for temporary files of programs, and for named shared memory of tasks.
_TEMPORARY, _SHARED = 256 << 20, 64 << 20
_KEYS = {"authority.pem": "the grid's authority", USER: "you", EXECUTOR: "this machine's executor"}


def check_here() -> list[Finding]:
    """All findings about this machine."""
    found = Findings("here")
    for check in (_python, _phalanx, _programs, _identities, _cage, _limits, _memory, _kernel, _temporary):
        check(found)
    return found.all


def _python(found: Findings) -> None:
    version = f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        found.warn("Python", f"{version} is free-threaded, for which there are no wheels", "use an ordinary CPython")
    else:
        found.ok("Python", version)
    if numpy := numpy_version():
        found.ok("numpy", numpy)
    else:
        found.warn("numpy", "is not installed; only functions that use arrays need it", "pip install numpy")


def _phalanx(found: Findings) -> None:
    from importlib.metadata import version

    folder = Path(__file__).parents[1]
    found.ok("phalanx", f"{version('phalanx-grid')} ({folder})")
    missing = [name for name in ("libmpi_abi.so.1", "libmpi.so.12", "libphalanx_bsp.so") if not _mpi(folder, name)]
    if missing:
        found.fail(
            "phalanx", f"{folder}/_mpi lacks {', '.join(missing)}: MPI and BSP programs do not run", "make setup"
        )


def _mpi(folder: Path, name: str) -> bool:
    return (folder / "_mpi" / name).exists()


def _programs(found: Findings) -> None:
    for program, (use, package) in _PROGRAMS.items():
        if path := shutil.which(program):
            found.ok(program, path)
        else:
            found.warn(program, f"is not here; {use} call it", f"apt-get install {package}")


def _identities(found: Findings) -> None:
    try:
        folder = home()
        present = [name for name in _KEYS if (folder / name).exists()]
    except (IdentityError, OSError) as error:
        found.fail("identities", str(error), "export PHALANX_HOME=FOLDER")
        return
    joined = joined_names()
    for grid in joined:
        _joined(found, grid)
    if not present:
        if not joined:
            text = f"{folder} has none: spaces and farms of this machine need none"
            found.warn("identities", text, "phalanx grid create")
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o022:
        mend = f"chmod go-w {shlex.quote(str(folder))}"
        found.fail("identities", f"other accounts may replace the files in {folder} (mode {mode:03o})", mend)
    for name in present:
        _identity(found, folder / name)


def _joined(found: Findings, grid: str) -> None:
    """What this account is in a grid with a hub."""
    try:
        joined, names = read_joined(grid), []
        for file in (joined.executor, joined.user):
            if not file.exists():
                continue
            text = read_private(file, "identity", "")
            names.append(_native.certificate_of(text)[1])
            _check_renewed(found, joined, file, text)
    except PhalanxError as error:
        before = "; " if isinstance(error, DamagedGridError) else "; mend that with: "
        words, _, mend = str(error).partition(before)
        found.fail("identities", f"the grid {grid}: {words}", mend)
        return
    found.ok("identities", f"{' and '.join(names) or 'a hub'} of the grid {grid}")


def _check_renewed(found: Findings, joined: Joined, file: Path, text: str) -> None:
    """Warns of a certificate that has ended: its hub renews it as soon as a command asks."""
    try:
        _native.check_member(text, os.fspath(file))
    except IdentityError as error:
        asks = "phalanx members --grid" if file == joined.user else "phalanx join"
        found.warn(file.name, str(error).partition("; ")[0], f"{asks} {joined.name}")


def _identity(found: Findings, file: Path) -> None:
    try:
        text = read_private(file, "identity", "")
        if file.name == "authority.pem":
            locked = "locked" if _native.is_locked_grid(text) else "not locked by a passphrase (phalanx grid lock)"
            found.ok(file.name, f"{_KEYS[file.name]}; only its owner can read it; {locked}")
            return
        role, name, end = _native.check_member(text, os.fspath(file))
        _, _, fingerprint = _native.certificate_of(text)
    except PhalanxError as error:
        words, _, mend = str(error).partition("; mend that with: ")
        found.fail(file.name, words, mend or f"on the machine of the grid's authority: {_renewal(file)}")
        return
    revoked = file.with_name(REVOKED)
    if revoked.exists() and fingerprint in revoked.read_text(encoding="ascii", errors="replace"):
        found.fail(file.name, f"the certificate of {name} is revoked", f"phalanx grid issue --role {role} {name}")
    elif end:
        mend = f"on the machine of the grid's authority: phalanx grid renew {name}"
        found.warn(file.name, f"the certificate of {name} ends on {end}", mend)
    else:
        found.ok(file.name, f"{_KEYS[file.name]}, as {name} in the role {role}; not near its end")


def _renewal(file: Path) -> str:
    """The command for a certificate that has ended, or cannot be read."""
    return f"phalanx grid renew NAME, or phalanx grid issue --role {file.stem} NAME"


def _cage(found: Findings) -> None:
    try:
        kind, lacks = _native.cage_here()
    except PhalanxError as error:
        found.fail("cage", str(error))
        return
    but = f", but {', '.join(lacks)}" if lacks else ""
    if kind in ("files", "full"):
        found.ok("cage", f"{kind}{but}")
    else:
        text = f"{kind}{but}: an executor here serves one user only, unless it has accounts"
        found.warn("cage", text, "use a kernel with Landlock (Linux 5.13 or newer), or phalanx executor --accounts")


def _limits(found: Findings) -> None:
    if sys.platform == "win32":
        return
    import resource

    for about, limit, least, flag in (
        ("open files", resource.RLIMIT_NOFILE, _FILES, "-n"),
        ("processes", resource.RLIMIT_NPROC, _PROCESSES, "-u"),
    ):
        soft, hard = resource.getrlimit(limit)
        words = "no limit" if soft == resource.RLIM_INFINITY else f"at most {soft}"
        if soft == resource.RLIM_INFINITY or soft >= least:
            found.ok(about, words)
        else:
            mend = f"ulimit {flag} {max(least, hard) if hard != resource.RLIM_INFINITY else 8 * least}"
            found.warn(about, f"{words}, which limits an executor's users and a launcher's ranks", mend)


def _memory(found: Findings) -> None:
    try:
        os.close(os.memfd_create("phalanx-doctor"))
    except (AttributeError, OSError) as error:
        found.fail("shared memory", f"memfd_create does not work here ({error}): ranks and long messages need it")
    shared = Path("/dev/shm")
    if not shared.is_dir():
        found.warn("/dev/shm", "is not there: tasks have no named shared memory", "mount -t tmpfs tmpfs /dev/shm")
        return
    size = shutil.disk_usage(shared).total
    if size < _SHARED:
        mend = "mount -o remount,size=50% /dev/shm (in a container: docker run --shm-size=2g)"
        found.warn("/dev/shm", f"has {size >> 20} MB for named shared memory of tasks", mend)
    else:
        found.ok("/dev/shm", f"{size / 1e9:.1f} GB for named shared memory of tasks; phalanx itself needs none of it")


def _kernel(found: Findings) -> None:
    scope = _read("/proc/sys/kernel/yama/ptrace_scope")
    if scope in ("1", "2", "3"):
        text = f"ptrace_scope is {scope}: ranks of one machine copy long messages twice"
        found.warn("ptrace", text, "sysctl kernel.yama.ptrace_scope=0, as root, if that is worth it")
    else:
        found.ok("ptrace", "ranks of one machine read each other's memory, which saves a copy")
    pages = re.search(r"\[(\w+)\]", _read("/sys/kernel/mm/transparent_hugepage/enabled"))
    if pages and pages[1] == "never":
        mend = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, as root"
        found.warn("huge pages", "are switched off: long messages take more time for memory", mend)
    elif pages:
        found.ok("huge pages", f"{pages[1]}, which is enough")


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _temporary(found: Findings) -> None:
    try:
        folder = Path(tempfile.gettempdir())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        found.fail("temporary files", str(error), "export TMPDIR=FOLDER")
        return
    if free < _TEMPORARY:
        found.warn("temporary files", f"{folder} has {free >> 20} MB left", "export TMPDIR=FOLDER, where there is more")
    else:
        found.ok("temporary files", f"{folder} has {free / 1e9:.1f} GB left")
