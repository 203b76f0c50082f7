"""A plugin of pytest: counts MPICH's programs by folder, beside MPICH's own run."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

#: Of a test's name: the top folder of the program, and what runs it.
PROGRAM = re.compile(r"test_program\[(?P<folder>[^/]+)/.*-(?P<how>phalanx|debian)\]")
ITSELF = re.compile(r"test_mpich_itself\[(?P<folder>[^/]+)/.*\]")
HOWS = {"phalanx": "built with phalanx mpicc", "debian": "built by Debian, unchanged", "mpich": "MPICH itself"}

_passed: Counter[tuple[str, str]] = Counter()
_run: Counter[tuple[str, str]] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts."""
    match = PROGRAM.search(report.nodeid) or ITSELF.search(report.nodeid)
    if match is None or (report.when != "call" and report.outcome == "passed"):
        return
    key = match["folder"], match.groupdict().get("how", "mpich")
    if report.when == "call" or report.outcome == "failed":
        _run[key] += 1
        _passed[key] += report.outcome == "passed"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the table."""
    folders = list(dict.fromkeys(folder for folder, _ in _run))
    terminalreporter.line("| folder | " + " | ".join(HOWS.values()) + " |")
    terminalreporter.line("|---" * (1 + len(HOWS)) + "|")
    for folder in [*folders, "all"]:
        cells = []
        for how in HOWS:
            of = folders if folder == "all" else [folder]
            passed, run = (sum(counts[one, how] for one in of) for counts in (_passed, _run))
            cells.append(f"{passed} of {run}" if run else "-")
        terminalreporter.line(f"| {folder} | " + " | ".join(cells) + " |")
