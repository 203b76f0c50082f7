"""Runs other libraries' own tests against phalanx, and tells what came of them.

``python -m suites.run`` runs all of them, ``python -m suites.run cpython joblib`` some. ``--part`` runs what fits into
ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from suites import distributed_tests

HERE = Path(__file__).parent
TOP = HERE.parents[1]
COUNTS = TOP / "target" / "suites"
CPYTHON = Path(sys.prefix) / "cpython-tests"
KINDS = ("passed", "known failures", "known skips", "own skips", "unexpected")


class Suite(NamedTuple):
    """Tests of others: files of them, those of the part, and the plugin that puts phalanx in."""

    title: str
    files: list[str]
    part: list[str]
    plugin: str | None = None
    #: Which tests of those files are the part, as pytest's -k has it.
    only: str | None = None


def package(name: str) -> Path:
    """The folder of an installed package."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def suites() -> dict[str, Suite]:
    """All suites by their names, which are those of their tables too."""
    dask, joblib = package("dask"), package("joblib")
    bag, delayed = f"{dask}/bag/tests/test_bag.py", f"{dask}/tests/test_delayed.py"
    array = [f"{dask}/array/tests/test_{name}.py" for name in ARRAY.split()]
    frame = [f"{dask}/dataframe/tests/test_{name}.py" for name in FRAME.split()]
    futures = [str(HERE / "executor_tests.py")]
    calls = [f"{joblib}/test/test_parallel.py"]
    comms = distributed_tests.files()
    programs = [str(HERE / "mpich_tests.py")]
    bindings = [str(HERE / "mpi4py_tests.py")]
    return {
        "cpython": Suite(f"CPython {sys.version_info.major}.{sys.version_info.minor}", futures, futures),
        "joblib": Suite(f"joblib {version('joblib')}", calls, calls, "suites.joblib_plugin"),
        "dask": Suite(f"Dask {version('dask')}", [bag, delayed, *array, *frame], [bag, delayed], "suites.dask_plugin"),
        "distributed": Suite(f"distributed {version('distributed')}", comms, comms, "suites.comm_plugin"),
        "mpich": Suite("MPICH", programs, programs, "suites.mpich_plugin", MPICH_PART),
        "mpi4py": Suite(f"mpi4py {version('mpi4py')}", bindings, bindings, None, "collective or windows"),
    }


ARRAY = "array_core atop creation linalg map_blocks overlap random rechunk reductions reshape routines slicing ufunc"
MPICH_PART = "test_program and phalanx and (attr/ or datatype/ or errhan/ or group/ or info/ or topo/) and not errors/"
FRAME = "accessors arithmetics_reduction boolean categorical dataframe hashing indexing map multi rolling ufunc"


def run(name: str, suite: Suite, *, part: bool, more: list[str]) -> tuple[int, dict[str, int]]:
    """Pytest's exit code, and its counts."""
    counts = COUNTS / f"{name}.json"
    counts.unlink(missing_ok=True)
    files = suite.part if part else suite.files
    more = ["-k", suite.only] if part and suite.only and not more else more
    plugin = ["-p", suite.plugin] if suite.plugin else []
    table = ["--table", str(HERE / f"{name}.txt"), "--counts", str(counts), *([] if part or more else ["--whole"])]
    root = [] if suite.plugin is None else ["--rootdir", str(Path(files[0]).parents[2])]
    command = [sys.executable, "-m", "pytest", "-c", str(HERE / "pytest.ini"), *root, *plugin, *table, *more, *files]
    # joblib's tests are made from a set of names: in the same order each time.
    environment = os.environ | {"PYTHONPATH": str(HERE.parent), "CPYTHON_TESTS": str(CPYTHON), "PYTHONHASHSEED": "0"}
    code = subprocess.run(command, env=environment, check=False).returncode
    return code, json.loads(counts.read_text()) if counts.exists() else {}


def main() -> int:
    """Pytest's exit code for the worst of the suites."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="store_true", help="what fits into ten minutes on two cores")
    parser.add_argument("-k", help="as pytest's: only tests with this in their names")
    parser.add_argument("names", nargs="*", metavar="suite", help="cpython, joblib, dask, distributed, mpich or mpi4py")
    options = parser.parse_args()
    known = suites()
    if unknown := set(options.names) - known.keys():
        parser.error(f"{', '.join(sorted(unknown))} is none of {', '.join(known)}")
    worst, lines = 0, ["| suite | " + " | ".join(KINDS) + " |", "|---" * (1 + len(KINDS)) + "|"]
    for name in options.names or known:
        if not known[name].files:
            lines.append(f"| {known[name].title} | its tests are not here |")
            continue
        more = ["-k", options.k] if options.k else []
        code, counts = run(name, known[name], part=options.part, more=more)
        worst = max(worst, code)
        lines.append(f"| {known[name].title} | " + " | ".join(str(counts.get(kind, 0)) for kind in KINDS) + " |")
    print("\n".join(lines))
    return worst


if __name__ == "__main__":
    sys.exit(main())
