"""The stub of the native module says exactly what the native module has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_stub_tells_the_truth() -> None:
    command = [
        sys.executable,
        "-m",
        "mypy.stubtest",
        "--mypy-config-file",
        "pyproject.toml",
        "phalanx._native",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
