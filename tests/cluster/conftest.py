"""Fixtures of the tests that need several hosts."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.grid import Grid
from skips import require

from laboratory.lab import Lab
from laboratory.namespaces import LAB


@pytest.fixture
def lab() -> Iterator[Lab]:
    """An empty lab. Executors that an earlier test has killed have left folders to the next one, which removes them
    once they are a minute old; here they are gone, so that tests see only what their own programs leave."""
    require(*LAB)
    for left in Path(tempfile.gettempdir()).glob("phalanx-programs-of-user-*"):
        shutil.rmtree(left, ignore_errors=True)  # an executor that ends removes its own at this moment
    with Lab() as made:
        yield made


@pytest.fixture
def grid(lab: Lab) -> Grid:
    """A new grid, made on the host `desk`."""
    return Grid(lab.host("desk"))
