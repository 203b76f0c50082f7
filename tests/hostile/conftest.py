"""Fixtures of the tests in which others attack."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from skips import require


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every account may enter; that of the tests is closed to others."""
    require("root")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def shared(place: Path) -> Iterator[Path]:
    """A folder as ``/tmp`` is."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)
