"""Machines to deploy to, and the wheel that is deployed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from deploying.sshd import Machines, machines, quick_wheel

from laboratory.needs import lacking


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    """Machines, and a user with a grid in a folder of its own."""
    if reason := lacking("sshd", "ssh"):
        pytest.skip(reason)
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path / "identities"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab").mkdir()
    with machines(tmp_path / "lab", os.environ["PHALANX_TEST_RUN"]) as found:
        yield found


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this phalanx."""
    return quick_wheel(tmp_path_factory.mktemp("wheel"))
