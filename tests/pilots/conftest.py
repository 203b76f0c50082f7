"""Engines that place executors: real ones, on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest
from deploying.sshd import Machines, machines
from pilots import programs

from laboratory.needs import lacking

# Executors do not have the tests' modules.
cloudpickle.register_pickle_by_value(programs)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of identities, which has none."""
    folder = tmp_path / "home"
    monkeypatch.setenv("PHALANX_HOME", str(folder))
    return folder


@pytest.fixture
def lab(tmp_path: Path, home: Path) -> Iterator[Machines]:
    """Machines that ssh reaches."""
    if reason := lacking("sshd", "ssh"):
        pytest.skip(reason)
    (tmp_path / "lab").mkdir()
    with machines(tmp_path / "lab", os.environ["PHALANX_TEST_RUN"]) as found:
        yield found
