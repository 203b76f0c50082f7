"""The stub of the native module says exactly what the native module has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


# Before Python 3.12 the buffer protocol has no method that could be seen.
UNSEEN = "" if sys.version_info >= (3, 12) else r"phalanx\._native\..*\.__buffer__"


def test_the_stub_tells_the_truth(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text(UNSEEN)
    options = ["--mypy-config-file", "pyproject.toml", "--allowlist", str(allowed), "--ignore-unused-allowlist"]
    command = [sys.executable, "-m", "mypy.stubtest", *options, "phalanx._native"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
