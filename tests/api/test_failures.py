"""Going on after losses: the functions of ULFM in C and from mpi4py, with ranks that are killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PHALANX = str(Path(sys.executable).with_name("phalanx"))
PROGRAM = Path(__file__).with_name("failures_program.py")
SUITE = Path(sys.prefix) / "mpi4py-tests"
STRICT = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
TRANSPORTS = ["shared", "sockets"]


def mpirun(ranks: int, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [PHALANX, "mpirun", "-n", str(ranks), "--keep-going", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=folder, env=dict(os.environ))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("ranks", [4, 6])
def test_a_program_in_c_goes_on_without_a_rank(ranks: int, transport: str, tmp_path: Path) -> None:
    program, source = tmp_path / "failures", Path(__file__).with_name("mpi") / "failures.c"
    subprocess.run([PHALANX, "mpicc", *STRICT, str(source), "-o", str(program)], check=True, timeout=60)
    done = mpirun(ranks, "--transport", transport, str(program))
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    assert re.fullmatch(r"phalanx: rank 1 on .* was killed by signal 9 \(SIGKILL\); the others go on\n", done.stderr)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_ranks_die_one_after_the_other_and_those_left_agree_on_all(transport: str) -> None:
    """Each dies at another point of the recovery from the one before."""
    done = mpirun(6, "--transport", transport, "--no-prefix", sys.executable, str(PROGRAM), "dwindle")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 of 2 is left", "1 of 2 is left"], done.stderr
    assert len(re.findall("was killed by signal 9", done.stderr)) == 4


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("flavor", ["allocate", "create"])
def test_one_sided_operations_with_a_lost_rank_fail(flavor: str, transport: str) -> None:
    done = mpirun(3, "--transport", transport, "--no-prefix", sys.executable, str(PROGRAM), "windows", flavor)
    assert done.returncode == 0, done.stdout + done.stderr
    what = ["put", "unlock all", "lock", "get", "complete", "post", "wait", "fence"]
    if (flavor, transport) != ("allocate", "shared"):
        what.append("request")  # where memory is shared, nobody waits for a rank that has stopped
    said = [f"{name} True True" for name in what for _ in range(2)]
    assert sorted(done.stdout.splitlines()) == sorted([*said, "done", "done"])


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_ranks_die_while_they_hold_what_guards_a_window(transport: str) -> None:
    """The lock, and the guard of numbers that are being added: nobody waits for ever."""
    done = mpirun(5, "--transport", transport, "--no-prefix", sys.executable, str(PROGRAM), "guards")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(["lock all True True", "unlock all True True", "sum 2"] * 2)
    assert len(re.findall("was killed by signal 9", done.stderr)) == 3


def test_mpi4pys_own_tests_of_it(tmp_path: Path) -> None:
    """With communicators that have its methods, which those of its wheel have not."""
    for ranks in (1, 2, 3):
        done = mpirun(ranks, "--no-prefix", sys.executable, str(PROGRAM), "suite", str(SUITE), folder=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"Ran \d\d tests", done.stderr)
