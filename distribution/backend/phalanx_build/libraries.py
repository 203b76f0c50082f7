"""The libraries beside the extension: those of MPI's two interfaces and of BSP, built by cargo like the extension."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: Each crate, and the name by which programs ask for its library.
CRATES = {
    "phalanx-mpi-standard": "libmpi_abi.so.1",
    "phalanx-mpi-mpich": "libmpi.so.12",
    "phalanx-bsp": "libphalanx_bsp.so",
}
#: As Debian calls MPICH's library.
DEBIAN = "libmpich.so.12"


@dataclass(frozen=True)
class Options:
    """How cargo builds: for which machine (None: this one), and by which profile."""

    target: str | None
    profile: str

    @classmethod
    def read(cls, arguments: Sequence[str], profile: str = "dist") -> Options:
        """The options among maturin's arguments and in cargo's variables."""
        target = _value(arguments, "--target") or os.environ.get("CARGO_BUILD_TARGET")
        return cls(target, _value(arguments, "--profile") or profile)


def _value(arguments: Sequence[str], option: str) -> str | None:
    for at, word in enumerate(arguments):
        if word == option:
            return arguments[at + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def build(root: Path, options: Options) -> dict[str, Path]:
    """Builds the libraries; returns where each is, by the name by which programs ask for it."""
    command = ["cargo", "build", "--locked", "--message-format=json-render-diagnostics", "--profile", options.profile]
    command += [word for crate in CRATES for word in ("-p", crate)]
    if options.target:
        command += ["--target", options.target]
    print("Running", shlex.join(command), flush=True)
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit("phalanx: the libraries of MPI and BSP cannot be built; cargo says why, above")
    return _artifacts(done.stdout)


def _artifacts(messages: str) -> dict[str, Path]:
    """The libraries that cargo's messages name."""
    found = {}
    for line in messages.splitlines():
        message = json.loads(line)
        if message["reason"] != "compiler-artifact" or message["target"]["kind"] != ["cdylib"]:
            continue
        crate = Path(message["manifest_path"]).parent.name
        if crate in CRATES:
            found[CRATES[crate]] = Path(message["filenames"][0])
    if missing := set(CRATES.values()) - set(found):
        raise SystemExit(f"phalanx: cargo has built no {', '.join(sorted(missing))}")
    return found


def link_debian_name(mpich: Path, options: Options, folder: Path) -> Path:
    """Makes Debian's name of MPICH's library: an empty library that loads the other from its own folder.

    A wheel cannot hold a link, and a copy would be 6 MB.
    """
    made, empty = folder / DEBIAN, folder / "empty.c"
    empty.write_text("\n")  # some compilers link nothing without a source
    command = [*_linker(options), "-shared", "-nostdlib", f"-Wl,-soname,{DEBIAN}", "-Wl,-rpath,$ORIGIN", "-Wl,-s"]
    command += [str(empty), "-Wl,--no-as-needed", str(mpich), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"phalanx: {shlex.join(command)} cannot make {DEBIAN}: {done.stderr.strip()}")
    return made


def _linker(options: Options) -> list[str]:
    """The command that cargo links with for a machine."""
    names = ["CC"]
    if options.target:
        triple = options.target.replace("-", "_")
        names = [f"CARGO_TARGET_{triple.upper()}_LINKER", f"CC_{triple}", "CC"]
    return shlex.split(next((value for name in names if (value := os.environ.get(name))), "cc"))
