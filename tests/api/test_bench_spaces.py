"""The benchmark of tuple spaces runs from end to end: our side alone where there is no Redis."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from laboratory.redis_server import missing

TOP = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("runtime_folder")


@pytest.mark.parametrize("row", ["other", "woken", "blocks"])
def test_a_row_is_measured_beside_redis(row: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.spaces", "--quick", "--only", row, "--json", str(tmp_path / "figures.json")]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "verdict" in done.stdout
    results = json.loads((tmp_path / "figures.json").read_text())["results"][row]
    for ours, theirs in results.values():
        assert all(figure > 0 for figure in ours)
        assert (theirs is None) == (missing() is not None)
