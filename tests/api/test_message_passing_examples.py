"""The programs of paper 001 that examples/ shows, and their benchmark, on one machine. Those of BSP: test_bsp.py."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PROGRAMS = TOP / "examples" / "message_passing"
PHALANX = str(Path(sys.executable).with_name("phalanx"))


def run(processes: int, program: str, *arguments: str) -> str:
    """What it prints."""
    command = [PHALANX, "mpirun", "-n", str(processes), "--no-prefix", str(PROGRAMS / program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("nap", ["0", "0.001"])
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_matrices_are_multiplied(processes: int, nap: str) -> None:
    said = run(processes, "mpi_matrices.py", "101", "--times", "2", "--nap", nap)
    assert len(re.findall(rf"^101 x 101 on {processes} processes: [0-9.]+ s$", said, re.MULTILINE)) == 2


def test_messages_of_all_sizes_are_timed() -> None:
    said = run(2, "mpi_ping_pong.py", "0.001")
    assert re.findall(r"^(\d+) bytes: [0-9.]+ µs$", said, re.MULTILINE) == [str(4**power) for power in range(11)]


def test_the_benchmark_writes_tables_of_what_it_measured(tmp_path: Path) -> None:
    options = ["--quick", "--only", "fig2", "--processes", "2", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "bench.papers.alchemi", *options]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    speedups = json.loads((tmp_path / "fig2.json").read_text())["speedups"]
    assert {"mpi", "bsp"} <= set(speedups)
    assert all(len(found["2"]) == 1 and found["2"][0] > 0 for found in speedups.values())
    assert "| BSP over MPI" in (tmp_path / "fig2.md").read_text()
