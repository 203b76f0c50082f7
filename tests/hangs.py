"""What becomes of a test that hangs: its process says where, and ends with all that it started.

A child that lives on would hold the pipe to pytest-xdist open, which would wait for the process for ever. A hook of
pytest, for conftest.py.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

#: Gives the processes that this one has started, by what they are called.
Processes = Callable[[], dict[str, int]]


def set_timer(item: pytest.Item, seconds: float, processes: Processes) -> bool:
    """Ends this process if the test, or what belongs to it, is not over in time. For `pytest_timeout_set_timer`."""
    timer = threading.Timer(seconds, _end, (item, seconds, processes))
    timer.daemon = True
    item.cancel_timeout = timer.cancel  # type: ignore[attr-defined]  # pytest-timeout calls it
    timer.start()
    return True


def _end(item: pytest.Item, seconds: float, processes: Processes) -> None:
    try:
        capture: Any = item.config.pluginmanager.getplugin("capturemanager")
        capture.suspend_global_capture(item)
        print(f"\n{item.nodeid} took more than {seconds:g} s, here:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback()
        for pid in processes().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    finally:
        os._exit(1)
