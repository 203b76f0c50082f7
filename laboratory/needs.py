"""Programs and rights that some tests and benchmarks need, beyond the packages of README's first line.

`python3 -m laboratory.needs` prints the Debian packages of all of them, for a machine that shall skip no test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

#: What C code includes that is to become a module of Python's.
HEADER = "Python.h"
#: The compiler of C for Windows, what runs its programs here, and how Rust calls it.
MINGW, WINE, WINDOWS = "x86_64-w64-mingw32-gcc", "/usr/lib/wine/wine64", "x86_64-pc-windows-gnu"
#: Programs and headers of C, and the Debian packages that bring them.
PACKAGES = {
    HEADER: ["python3-dev"],
    MINGW: ["gcc-mingw-w64-x86-64-win32"],
    WINE: ["wine64"],
    "Xvfb": ["xvfb"],
    "bridge": ["iproute2"],
    "c++": ["g++"],
    "chromium": ["chromium"],
    "cjson/cJSON.h": ["libcjson-dev"],
    "curl-config": ["libcurl4-openssl-dev"],
    "dbus-daemon": ["dbus-daemon", "python3-dbusmock"],
    "groff": ["groff-base"],
    "ip": ["iproute2"],
    "javac": ["default-jdk-headless"],
    "mpifort.mpich": ["gfortran", "libmpich-dev"],
    "munged": ["munge"],
    "nft": ["nftables"],
    "redis-server": ["redis-server"],
    "rsync": ["rsync"],
    "sbatch": ["slurm-client"],
    "slurmctld": ["slurmctld"],
    "slurmd": ["slurmd"],
    "ssh": ["openssh-client"],
    "sshd": ["openssh-server"],
    "strace": ["strace"],
    "systemd-analyze": ["systemd"],
    "xdotool": ["xdotool"],
}
ROOT, NAMESPACES, RUST_FOR_WINDOWS = "root", "user namespaces", "Rust's library for Windows"
REMEDIES = {
    ROOT: " (sudo)",
    NAMESPACES: "",
    RUST_FOR_WINDOWS: f" (rustup target add {WINDOWS}, or Debian's libstd-rust-dev-windows)",
}
INSTALL = "apt-get install "
SEPARATOR = "; "


def lacking(*needs: str) -> str | None:
    """All that the machine lacks of some needs, and the remedy.

    Parameters
    ----------
    needs
        Names in `PACKAGES`, and rights: `ROOT`, `NAMESPACES`.

    Returns
    -------
    str | None
        None where nothing is lacking.

    Example
    -------
    >>> lacking("root", "ip", "nft")
    'needs root (sudo); apt-get install iproute2 nftables'
    """
    rights = [f"needs {name}{REMEDIES[name]}" for name in needs if name not in PACKAGES and not RIGHTS[name]()]
    packages = packages_of(name for name in needs if name in PACKAGES and not is_here(name))
    return SEPARATOR.join([*rights, *([INSTALL + " ".join(packages)] if packages else [])]) or None


def is_here(name: str) -> bool:
    """Whether the machine has a program, a header of the system, or that of this Python."""
    if name == HEADER:
        return Path(sysconfig.get_path("include"), HEADER).exists()
    if name.endswith(".h"):
        return Path("/usr/include", name).exists()
    return shutil.which(name) is not None


def packages_of(names: Iterable[str]) -> list[str]:
    """The packages that bring what has these names in `PACKAGES`, each once."""
    return sorted({package for name in names for package in PACKAGES[name]})


def summary(reasons: list[str]) -> str:
    """One line that tells how many tests were skipped, for their reasons, and how to have none skipped."""
    parts = Counter(part for reason in reasons for part in re.split(SEPARATOR, reason))
    packages = sorted({name for part in parts if part.startswith(INSTALL) for name in part.split()[2:]})
    others = [f"{count} × {part}" for part, count in parts.items() if not part.startswith(INSTALL)]
    install = [INSTALL + " ".join(packages)] if packages else []
    plural = "test was" if len(reasons) == 1 else "tests were"
    return f"{len(reasons)} {plural} skipped: " + SEPARATOR.join(others + install)


def _can_have_namespaces() -> bool:
    """Whether a user may have a mount namespace; not in a chroot, and not in many containers."""
    unshare = shutil.which("unshare")
    return unshare is not None and not subprocess.run([unshare, "-rm", "true"], capture_output=True).returncode


def _has_rust_for_windows() -> bool:
    if shutil.which("rustc") is None:
        return False
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], stdout=subprocess.PIPE, text=True).stdout.strip()
    return Path(sysroot, "lib", "rustlib", WINDOWS, "lib").is_dir()


RIGHTS = {
    ROOT: lambda: os.geteuid() == 0,
    NAMESPACES: _can_have_namespaces,
    RUST_FOR_WINDOWS: _has_rust_for_windows,
}


if __name__ == "__main__":
    print(*packages_of(PACKAGES))
