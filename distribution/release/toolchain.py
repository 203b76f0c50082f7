"""The compilers and variables by which wheels are built for old systems, and for other machines than this one.

zig links against the functions of glibc 2.28 and needs nothing of the system. cargo-zigbuild's wrapper of it leaves out
options of rustc that zig does not know.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

#: The oldest glibc that wheels run with: that of Debian 10, RHEL 8 and Ubuntu 18.10.
GLIBC = "2.28"
ROOT = Path(__file__).parents[2]
#: Everything that `make dist` makes, but for what cargo builds.
WORK = ROOT / "target" / "make-dist"
_BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Machine:
    """A kind of machine."""

    name: str

    @property
    def triple(self) -> str:
        """How Rust calls it."""
        return f"{self.name}-unknown-linux-gnu"

    @property
    def tag(self) -> str:
        """How wheels call it."""
        return f"manylinux_{GLIBC.replace('.', '_')}_{self.name}"

    def lacks(self) -> str | None:
        """Why nothing can be built for it here; None where it can."""
        sysroot = Path(_told("rustc", "--print", "sysroot"))
        if not (sysroot / "lib" / "rustlib" / self.triple / "lib").is_dir():
            return f"Rust has no library for {self.name}: rustup target add {self.triple}"
        return None

    def environment(self) -> dict[str, str]:
        """The variables for cargo, maturin and C compilers.

        Those of each machine are always the same. Else cargo would build anew what runs on this one during a build.
        """
        own = {"CARGO_BUILD_TARGET": self.triple, "CARGO_TARGET_DIR": str(ROOT / "target")}
        own |= {"PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}", "SOURCE_DATE_EPOCH": "315532800"}
        for machine in MACHINES.values():
            own |= machine._compilers()
        return os.environ | own

    def _compilers(self) -> dict[str, str]:
        compiler, archiver = self._wrappers()
        triple = self.triple.replace("-", "_")
        return {
            f"CARGO_TARGET_{triple.upper()}_LINKER": str(compiler),
            f"CARGO_TARGET_{triple.upper()}_RUSTFLAGS": " ".join(f"--remap-path-prefix={it}" for it in _short_names()),
            f"CC_{triple}": str(compiler),
            f"AR_{triple}": str(archiver),
        }

    def _wrappers(self) -> tuple[Path, Path]:
        folder = WORK / "tools" / self.name
        folder.mkdir(parents=True, exist_ok=True)
        zig = f'CARGO_ZIGBUILD_ZIG_COMMAND="{sys.executable}" CARGO_ZIGBUILD_ZIG_COMMAND_ARGS="-m ziglang" '
        zig += f'exec "{_BIN}/cargo-zigbuild" zig'
        names = " ".join(f'"-ffile-prefix-map={it}"' for it in _short_names())
        flags = f"-g -fno-sanitize=all -target {self.name}-linux-gnu.{GLIBC} {names}"
        return _script(folder / "cc", f"{zig} cc -- {flags}"), _script(folder / "ar", f"{zig} ar --")


MACHINES = {name: Machine(name) for name in ("x86_64", "aarch64")}


def _script(path: Path, command: str) -> Path:
    text = f'#!/bin/sh\n{command} "$@"\n'
    if not path.exists() or path.read_text() != text:  # cargo builds anew what is newer
        path.write_text(text)
        path.chmod(0o755)
    return path


def _short_names() -> list[str]:
    """What libraries say instead of folders of this machine: equal builds elsewhere are equal, and tell no name."""
    cargo = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    return [f"{ROOT}=/phalanx", f"{cargo}=/cargo"]


def _told(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
