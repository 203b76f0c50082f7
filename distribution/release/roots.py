"""Folders with the files of another Debian: of a newer one, or of another machine, which QEMU emulates.

Nothing is installed on this machine. A process sees such a folder as its root, in namespaces of its own, where also
QEMU is registered.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from distribution.release.toolchain import WORK

_QEMU = "qemu-aarch64-static"
#: The first bytes of programs for aarch64, and which of their bits count.
_MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
_MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
#: Runs in new namespaces: $1 the folder, $2 the line that registers QEMU, or nothing.
_ENTER = """
set -e
mount --rbind /dev "$1/dev"
mount -t tmpfs none "$1/tmp"
mount -t proc none "$1/proc"
if [ -n "$2" ]; then
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    printf '%s' "$2" > /proc/sys/fs/binfmt_misc/register
fi
folder=$1
shift 2
exec chroot "$folder" "$@"
"""


class Unusable(Exception):
    """Why a folder cannot be made or entered here."""


@dataclass(frozen=True)
class Root:
    """A Debian of a suite for an architecture (amd64, arm64), with a version of Python."""

    architecture: str
    suite: str
    python: str

    @property
    def folder(self) -> Path:
        """Where it is."""
        return WORK / "roots" / f"{self.suite}-{self.architecture}"

    @property
    def emulated(self) -> bool:
        """Whether QEMU runs its programs."""
        return self.architecture == "arm64"

    def make(self) -> None:
        """Makes it, unless it is there. Raises Unusable."""
        if self.emulated and shutil.which(_QEMU) is None:
            raise Unusable(f"there is no {_QEMU}: apt-get install qemu-user-static")
        if (self.folder / "made").exists():
            return
        if shutil.which("debootstrap") is None:
            raise Unusable("there is no debootstrap: apt-get install debootstrap")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        options = ["--foreign", "--variant=minbase", f"--arch={self.architecture}", f"--include={self.python}"]
        _run(["debootstrap", *options, self.suite, str(self.folder), _mirror()], f"Debian's {self.suite}")
        # Only unpacked: Python needs none of what the packages' own scripts do.
        for package in sorted((self.folder / "var" / "cache" / "apt" / "archives").glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(package), str(self.folder)], package.name)
            package.unlink()
        (self.folder / "made").touch()

    def command(self, *words: str) -> list[str]:
        """What runs a command in it."""
        inside = shutil.which(_QEMU) if self.emulated else None
        register = f":phalanx:M::{_MAGIC}:{_MASK}:{inside}:F" if inside else ""
        namespaces = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]
        return [*namespaces, "sh", "-c", _ENTER, "sh", str(self.folder), register, *words]

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """The variables of a process in it."""
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", **more}


def _mirror() -> str:
    """Where this machine has its packages from."""
    told = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"], stdout=subprocess.PIPE, text=True)
    if not told.stdout:
        raise Unusable("apt-get knows no Debian: apt-get update")
    return told.stdout.splitlines()[0]


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["it says nothing"])[-1]
        raise Unusable(f"{what} cannot be had: {last}")
