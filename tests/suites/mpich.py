"""Where MPICH's own tests are, and how they are built.

``python -m suites.mpich FOLDER`` fetches the folder ``test/mpi`` of Debian's source package of MPICH.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

TOP = Path(__file__).parents[2]
#: The fetched sources.
SUITE = Path(sys.prefix) / "mpich-tests"
#: The built programs: ``phalanx`` and ``debian``.
BUILDS = TOP / "target" / "suites" / "mpich"
#: The folders of the suite that are built and run, in the order of MPICH's own list.
FOLDERS = (
    *("attr", "coll", "comm", "datatype", "errhan", "group", "info", "init", "mpi_t", "pt2pt", "part", "rma", "spawn"),
    *("topo", "io", "errors", "threads", "impls"),
)
#: Folders in them that are not: of other languages, and those that MPICH leaves out by itself.
LEFT_OUT = ("errors/cxx", "errors/f77", "errors/f90", "errors/f08", "errors/faults", "threads/perf")
#: Debian's compiler for MPICH.
DEBIAN = "mpicc.mpich"


def fetch(folder: Path) -> None:
    """Makes the folder from Debian's source package, through this machine's own settings of apt.

    Raises
    ------
    subprocess.CalledProcessError
        Where apt has no such package.
    """
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        options = _source_lists(work)
        subprocess.run(["apt-get", *options, "update"], cwd=work, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["apt-get", *options, "source", "--download-only", "mpich"], cwd=work, check=True)
        (archive,) = work.glob("mpich_*.orig.tar.*")
        with tarfile.open(archive) as sources:
            inside = re.compile(r"[^/]*/test/mpi/(?P<path>.*)")
            for member in sources:
                if (match := inside.fullmatch(member.name)) and match["path"]:
                    member.name = match["path"]
                    sources.extract(member, folder, filter="data")


def _source_lists(work: Path) -> list[str]:
    """Options with which apt looks into source packages too, without a change to this machine."""
    parts = work / "parts"
    for path in (parts, work / "lists" / "partial", work / "cache" / "archives" / "partial"):
        path.mkdir(parents=True)
    there = Path("/etc/apt")
    for path in [there / "sources.list", *(there / "sources.list.d").glob("*")]:
        if path.suffix in (".list", ".sources") and path.exists():
            text = re.sub(r"(?m)^deb\s", "deb-src ", path.read_text())
            text = re.sub(r"(?m)^Types:\s*deb\s*$", "Types: deb-src", text)
            (parts / path.name).write_text(text)
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": parts,
        "Dir::State::Lists": work / "lists",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def build(name: str, folder: str) -> None:
    """Builds the programs of a folder, with ``phalanx mpicc`` or Debian's. make goes on after those that cannot be."""
    top = BUILDS / name
    if (top / folder / "built").exists():
        return
    (top / "bin").mkdir(parents=True, exist_ok=True)
    with (BUILDS.parent / f"mpich-{name}.log").open("a") as log:
        if not (top / "configured").exists():
            compiler = top / "bin" / "mpicc"
            phalanx = Path(sys.executable).with_name("phalanx")
            compiler.write_text(f'#!/bin/sh\nexec {f"{phalanx} mpicc" if name == "phalanx" else DEBIAN} "$@"\n')
            compiler.chmod(0o755)
            configure = [str(SUITE / "configure"), f"--with-mpi={top}", "--disable-fortran", "--disable-cxx"]
            environment = os.environ | {"CFLAGS": "-O0 -w"}
            subprocess.run(configure, cwd=top, env=environment, check=True, stdout=log, stderr=log)
            (top / "configured").touch()
        for part in ("util", "dtpools", folder):
            command = ["make", "--keep-going", f"--jobs={os.cpu_count()}", "-C", part]
            subprocess.run(command, cwd=top, check=False, stdout=log, stderr=log)
    (top / folder / "built").touch()


if __name__ == "__main__":
    fetch(Path(sys.argv[1]).absolute())
