"""Installs a wheel where nothing of phalanx is, and uses all that it offers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distribution.release.roots import Root
from distribution.release.toolchain import WORK, Machine

_SMOKE = Path(__file__).with_name("smoke.py")
_UV = str(Path(sys.executable).with_name("uv"))
#: Nothing of this repository and of its environment.
_CLEAN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Trial:
    """What became of a wheel somewhere."""

    where: str
    lines: tuple[str, ...]

    def named(self, word: str) -> list[str]:
        """What has `passed`, `failed`, or was `absent`."""
        return [line.removeprefix(f"{word} ") for line in self.lines if line.startswith(f"{word} ")]


def in_environment(wheel: Path, python: Path, version: str) -> Trial:
    """In a new environment of a Python of this machine."""
    with tempfile.TemporaryDirectory(prefix="phalanx-dist-") as folder:
        home = {"HOME": folder}
        environment = Path(folder) / "environment"
        uv("venv", "--quiet", "--python", str(python), str(environment))
        own = environment / "bin" / "python"
        uv("pip", "install", "--quiet", "--python", str(own), str(wheel), "mpi4py")
        return Trial(f"CPython {version}", _smoke([str(own), str(_SMOKE)], _CLEAN | home, folder))


def between(new: Path, old: Path, python: Path) -> Iterator[Trial]:
    """A farm, a space and copies between two versions: each of them has the executor once, and the user once."""
    with tempfile.TemporaryDirectory(prefix="phalanx-dist-") as folder:
        owns = {}
        for name, wheel in (("new", new), ("old", old)):  # before a release both have one file name
            environment = Path(folder) / name
            uv("venv", "--quiet", "--python", str(python), str(environment))
            owns[wheel] = environment / "bin" / "python"
            uv("pip", "install", "--quiet", "--python", str(owns[wheel]), str(wheel))
        for user, executor in ((new, old), (old, new)):
            env = _CLEAN | {"HOME": folder, "PHALANX_SMOKE_EXECUTOR": str(owns[executor])}
            told = [f"the {'new' if it is new else 'old'} {it.name.split('-')[1]}" for it in (user, executor)]
            where = f"a user with {told[0]} and an executor with {told[1]}"
            yield Trial(where, _smoke([str(owns[user]), str(_SMOKE), "grid"], env, folder))


def from_source(source: Path, wheel: Path, python: Path, version: str) -> Trial:
    """From the source distribution, as pip builds it: the same files as in the wheel, and they work.

    cargo compiles without optimization, which takes a third of the time and changes no file's place.
    """
    quick = {
        "CARGO_PROFILE_DIST_OPT_LEVEL": "0",
        "CARGO_PROFILE_DIST_LTO": "off",
        "CARGO_PROFILE_DIST_CODEGEN_UNITS": "16",
    }
    with tempfile.TemporaryDirectory(prefix="phalanx-dist-") as folder:
        built = Path(folder) / "wheels"
        uv("build", "--quiet", "--wheel", "--python", str(python), "--out-dir", str(built), str(source), **quick)
        [made] = built.glob("*.whl")
        if others := _names(made) ^ _names(wheel):
            return Trial("sdist", (f"failed files: only in one of the two: {', '.join(sorted(others))}",))
        return Trial("sdist", ("passed files", *in_environment(made, python, version).lines))


def _names(wheel: Path) -> set[str]:
    """The files of a wheel; the extension without the version of Python."""
    with zipfile.ZipFile(wheel) as archive:
        return {re.sub(r"_native\..*\.so$", "_native.so", name) for name in archive.namelist()}


def in_root(wheel: Path, machine: Machine, root: Root) -> Trial:
    """In a folder of another Debian. Raises Unusable."""
    root.make()
    version = root.python.removeprefix("python")
    shutil.rmtree(root.folder / "opt" / "phalanx", ignore_errors=True)
    chosen = ["--python-platform", f"{machine.name}-manylinux_2_28", "--python-version", version]
    target = ["--target", str(root.folder / "opt" / "phalanx"), "--only-binary", ":all:"]
    uv("pip", "install", "--quiet", *chosen, *target, str(wheel), "mpi4py")
    shutil.copy(_SMOKE, root.folder / "opt" / "smoke.py")
    env = root.environment({"PYTHONPATH": "/opt/phalanx", "PHALANX_SMOKE_SECONDS": "600"})
    where = f"Debian {root.suite}, {machine.name}, CPython {version}" + (", emulated" if root.emulated else "")
    return Trial(where, _smoke(root.command(f"/usr/bin/{root.python}", "/opt/smoke.py"), env, "/"))


def as_one_line(wheel: Path, python: Path) -> Trial:
    """By uvx, which makes an environment for one command."""
    with tempfile.TemporaryDirectory(prefix="phalanx-dist-") as folder:
        command = [_UV, "tool", "run", "--quiet", "--system-certs", "--python", str(python)]
        command += [
            "--from",
            f"phalanx-grid[demo] @ {wheel.resolve().as_uri()}",
            "phalanx-grid",
            "demo",
            "--tasks",
            "4",
        ]
        env = os.environ | {"UV_TOOL_DIR": f"{folder}/tools", "HOME": folder, "UV_CACHE_DIR": str(WORK / "uv")}
        env.pop("VIRTUAL_ENV", None)
        done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        sheet = Path(folder) / "demo-output" / "contact-sheet.png"
        line = "passed demo" if sheet.exists() and done.returncode == 0 else f"failed demo: {done.stdout.strip()}"
        return Trial("uvx phalanx-grid demo", (line,))


def uv(*words: str, **variables: str) -> None:
    """Runs uv; it says what is wrong."""
    more = ["--system-certs"] if words[0] in {"build", "pip"} else []
    env = os.environ | {"UV_CACHE_DIR": str(WORK / "uv"), "CARGO_TARGET_DIR": str(WORK / "sdist")} | variables
    done = subprocess.run([_UV, *words, *more], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"uv {' '.join(words)}: {done.stdout}")


def _smoke(command: Sequence[str], env: Mapping[str, str], folder: str) -> tuple[str, ...]:
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = tuple(done.stdout.splitlines())
    if not any(line.startswith(("passed", "failed")) for line in lines):
        return (f"failed start: {done.stdout.strip()}",)
    return lines
