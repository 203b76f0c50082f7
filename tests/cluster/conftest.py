"""Fixtures of the tests that need several hosts."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from cluster.grid import Grid

from laboratory.lab import Lab
from laboratory.namespaces import obstacle


@pytest.fixture
def lab() -> Iterator[Lab]:
    """An empty lab. On a machine that cannot have one the test fails in CI and is skipped elsewhere."""
    if reason := obstacle():
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with Lab() as made:
        yield made


@pytest.fixture
def grid(lab: Lab) -> Grid:
    """A new grid, made on the host `desk`."""
    return Grid(lab.host("desk"))
