"""A plugin of pytest: joblib's own tests with phalanx in loky's place."""

from __future__ import annotations

import re

import joblib.parallel
import pytest
from phalanx.adapters.joblib import PhalanxBackend

# The tests name loky, and it is the default: so all that they ask of loky, they ask of phalanx.
joblib.parallel.BACKENDS["loky"] = PhalanxBackend

#: Backends of which a test may be; the others' tests would say nothing about phalanx.
OTHERS = re.compile(r"threading|multiprocessing|sequential|Threading|Multiprocessing|Sequential|spawn|back_compat")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is of other backends only."""
    ours = [it for it in items if "loky" in it.name or "phalanx" in it.name or not OTHERS.search(it.name)]
    config.hook.pytest_deselected(items=[it for it in items if it not in set(ours)])
    items[:] = ours
