"""The system's headless Chromium, for tests of pages. Playwright drives it, as for `make check-site`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from skips import require

#: How long the browser may take for a step, in milliseconds: beside other tests it takes long.
PATIENCE = 120_000


@contextmanager
def browser() -> Iterator[Any]:
    """A browser; the test is skipped where there is none."""
    require("chromium")
    library = pytest.importorskip("playwright.sync_api", reason="no playwright: make .venv/browser")
    with library.sync_playwright() as playwright:
        # Chromium has no sandbox for root. All it opens is the page of the test.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments, timeout=PATIENCE)
        try:
            yield found
        finally:
            found.close()
