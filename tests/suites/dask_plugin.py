"""A plugin of pytest: Dask's own tests, computed by two interpreters."""

from __future__ import annotations

import dask
import phalanx as px
import pytest
from dask.base import named_schedulers
from phalanx.adapters.dask import get

_managers: list[px.Manager] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runslow", action="store_true", help="also what Dask calls slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """As the conftest.py of Dask's repository, which its wheel does not have."""
    for item in items:
        for mark in ("slow", "network", "gpu"):
            if mark in item.keywords:
                item.add_marker(pytest.mark.skip(reason=f"{mark}, as in Dask's own runs"))


def pytest_sessionstart(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput") or not session.config.getoption("numprocesses", None):
        _managers.append(px.Manager(contract=px.ParDegree(2)))
        scheduler = get(_managers[0])
        dask.config.set(scheduler=scheduler)
        # What is for processes is for interpreters.
        named_schedulers.update(dict.fromkeys(("processes", "multiprocessing"), scheduler))


def pytest_sessionfinish() -> None:
    for manager in _managers:
        manager.close()
