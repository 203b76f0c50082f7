"""A grid of the benchmark's own: who speaks TCP, also with this machine, has to prove who he is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch


@contextmanager
def own_grid() -> Iterator[None]:
    """This process and those that it starts are of a new grid, as its user and as one of its machines."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder, "home")
        with patch.dict(os.environ, {"PHALANX_HOME": str(home), "PHALANX_ALLOW_ROOT": "1"}):
            _phalanx("grid", "create")
            _phalanx("grid", "issue", "--role", "executor", "bench", "--out", str(home / "executor.pem"))
            yield


def _phalanx(*arguments: str) -> None:
    subprocess.run([Path(sys.executable).with_name("phalanx"), *arguments], check=True, stdout=subprocess.DEVNULL)
