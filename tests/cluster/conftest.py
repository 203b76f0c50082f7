"""Fixtures of the tests that need several hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster.grid import Grid
from skips import require

from laboratory.lab import Lab
from laboratory.namespaces import LAB


@pytest.fixture
def lab() -> Iterator[Lab]:
    """An empty lab."""
    require(*LAB)
    with Lab() as made:
        yield made


@pytest.fixture
def grid(lab: Lab) -> Grid:
    """A new grid, made on the host `desk`."""
    return Grid(lab.host("desk"))
