"""The benchmark of message passing runs from end to end: our side alone where its peers are not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.mpi.libraries import MEMORY
from bench.mpi.rows import ROWS

TOP = Path(__file__).parents[2]


@pytest.mark.parametrize("row", ["object", "sync", "one-sided", "pairs"])
def test_a_row_is_measured_beside_its_peers(row: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.mpi", "--quick", "--only", row, "--json", str(tmp_path / "figures.json")]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "verdict" in done.stdout
    expected = {"phalanx", *(peer.title for peer in ROWS[row].peers if not peer.missing(MEMORY))}
    for samples in json.loads((tmp_path / "figures.json").read_text())["results"][row].values():
        assert set(samples) == expected
        assert all(figure > 0 for figures in samples.values() for figure in figures)
