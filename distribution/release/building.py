"""Builds the wheels and the source distribution, by the backend, into one folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from distribution.release.toolchain import ROOT, WORK, Machine

OUT = ROOT / "dist"
#: Wheels of a machine: arguments of maturin. CPython 3.10's stable interface lacks buffers (decision 0060).
WHEELS = {"cp310-cp310": "--interpreter python3.10", "cp311-abi3": "--interpreter python3.11 --features abi3"}
_INPUTS = ("Cargo.lock", "Cargo.toml", "LICENSE-*", "Makefile", "README.md", "crates", "distribution", "pyproject.toml")
_CALL = (
    "import sys, phalanx_build; print(getattr(phalanx_build, sys.argv[1])(sys.argv[2], {'build-args': sys.argv[3]}))"
)


class BuildError(Exception):
    """What could not be built, and where its log is."""


def state() -> str:
    """A hash of all that wheels are made of, and of what makes and checks them."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_INPUTS, "python"]
    names = subprocess.run([*listed, "requirements/dist.txt"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    digest = hashlib.sha256(subprocess.run(["rustc", "-vV"], stdout=subprocess.PIPE, check=True).stdout)
    for name in sorted(filter(None, names.split(b"\0"))):
        path = ROOT / os.fsdecode(name)
        if path.is_file():
            digest.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def kinds(machine: Machine) -> list[str]:
    """The kinds of wheels; first the one whose extension cargo has linked last, because it need not be linked again."""
    last = _last(machine).read_text() if _last(machine).exists() else ""
    return sorted(WHEELS, key=lambda kind: kind != last)


def wheel(machine: Machine, kind: str) -> Path:
    """Builds a wheel. Raises BuildError."""
    last = _last(machine)
    if not last.exists() or last.read_text() != kind:
        # Both kinds have one name in cargo's folder, and cargo would take one for the other.
        for fingerprint in (last.parent / ".fingerprint").glob("phalanx-py-*"):
            shutil.rmtree(fingerprint)
        last.unlink(missing_ok=True)
    arguments = f"--compatibility {machine.tag.removesuffix(f'_{machine.name}')} {WHEELS[kind]}"
    made = _built("build_wheel", f"{kind}-{machine.name}", arguments, machine.environment())
    last.write_text(kind)
    return made


def _last(machine: Machine) -> Path:
    """The file that names the kind of extension in cargo's folder."""
    return ROOT / "target" / machine.triple / "dist" / "extension-kind"


def source() -> Path:
    """Builds the source distribution. Raises BuildError."""
    return _built("build_sdist", "sdist", "", os.environ | {"SOURCE_DATE_EPOCH": "315532800"})


def _built(hook: str, name: str, arguments: str, env: Mapping[str, str]) -> Path:
    OUT.mkdir(exist_ok=True)
    log = WORK / f"{name}.log"
    bin = str(Path(sys.executable).parent)
    paths = {"PYTHONPATH": str(ROOT / "distribution" / "backend"), "PATH": f"{bin}{os.pathsep}{env['PATH']}"}
    with log.open("w") as out:
        command = [sys.executable, "-c", _CALL, hook, str(OUT), arguments]
        done = subprocess.run(command, cwd=ROOT, env={**env, **paths}, stdout=out, stderr=subprocess.STDOUT)
    told = log.read_text().splitlines()
    if done.returncode:
        raise BuildError(f"{name} cannot be built, see {log.relative_to(ROOT)}: {told[-1] if told else ''}")
    return OUT / told[-1]
