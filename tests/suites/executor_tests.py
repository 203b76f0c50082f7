"""CPython's own tests of concurrent.futures.ProcessPoolExecutor, with a manager in its place.

Not named as tests are: only ``make suites`` runs it.
"""

from __future__ import annotations

import os
import pkgutil
import unittest
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from suites import cpython

FOLDER = os.environ["CPYTHON_TESTS"]
cpython.install(FOLDER)

# What the tests run in a Python of its own begins with this.
BEGIN = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parents[1])]!r}
from suites import cpython
cpython.install({FOLDER!r})
"""


def _modules() -> list[ModuleType]:
    whole = import_module(f"test.{cpython.NAME}")
    if not hasattr(whole, "__path__"):  # a module before Python 3.12
        return [whole]
    names = [it.name for it in pkgutil.iter_modules(whole.__path__) if it.name.startswith("test_")]
    return [import_module(f"{whole.__name__}.{name}") for name in names]


def _with_beginning(assert_python_ok: Any) -> Any:
    def begun(option: str, code: str, **environment: str) -> Any:
        return assert_python_ok(option, f"{BEGIN}\n{code}", **environment)

    return begun


# Managers know no contexts of multiprocessing: the classes for "spawn" stand for all three.
for _module in _modules():
    if hasattr(_module, "assert_python_ok"):
        _module.assert_python_ok = _with_beginning(_module.assert_python_ok)  # type: ignore[attr-defined]
    for _name, _class in vars(_module).copy().items():
        if _name.startswith("ProcessPoolSpawn") and isinstance(_class, type) and issubclass(_class, unittest.TestCase):
            globals()[_name] = _class
