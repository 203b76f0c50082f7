"""A plugin of pytest: compares a run with a table of what is known to fail, and counts.

A line of the table is ``fails`` or ``left-out``, the name of a test, in which ``*`` stands for anything, and why. A
test that fails and is not in the table makes the run red; so does one that is in the table and passes, and, in a run of
the whole suite, a line that is of no test, unless its first word ends in ``?``: only some versions have the test.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

LINE = re.compile(r"(?P<kind>fails|left-out)(?P<rare>\??)\s+(?P<name>\S+)\s+(?P<reason>\S.*)")
PROPERTY = "line of the table"


class Entry(NamedTuple):
    """What is known of some tests."""

    number: int
    kind: str
    name: re.Pattern[str]
    reason: str
    #: Only some versions have the test.
    rare: bool


def read(path: Path) -> Iterator[Entry]:
    """The entries of a table. Raises ValueError for a line that is none."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            match = LINE.fullmatch(line.strip())
            if match is None:
                raise ValueError(f"{path}, line {number}: write fails or left-out, the test's name and the reason")
            name = re.compile(re.escape(match["name"]).replace(r"\*", ".*"))
            yield Entry(number, match["kind"], name, match["reason"], bool(match["rare"]))


def name_of(item: pytest.Item) -> str:
    """The name of a test in a table: its file, as it is imported, and the rest of pytest's name."""
    file = str(item.path)
    for root in ("site-packages/", "suites/", "distributed-tests/"):
        file = file.rpartition(root)[2]
    return f"{file}::{item.nodeid.partition('::')[2]}"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("suites")
    group.addoption("--table", type=Path, required=True, help="what is known to fail")
    group.addoption("--counts", type=Path, help="where the counts go, as JSON")
    group.addoption("--whole", action="store_true", help="a line that is of no test is an error")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Table(config), "suites-table")


class Table:
    """What is known, and what came of it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._entries = list(read(config.getoption("--table")))
        self._unseen = {entry.number: entry for entry in self._entries if not entry.rare}
        self._counts: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Marks what is known."""
        for item in items:
            name = name_of(item)
            for entry in self._entries:
                if entry.name.fullmatch(name):
                    known = pytest.mark.skip if entry.kind == "left-out" else pytest.mark.xfail(strict=True)
                    item.add_marker(known(reason=entry.reason))
                    item.user_properties.append((PROPERTY, entry.number))
                    break

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts."""
        numbers = [value for name, value in report.user_properties if name == PROPERTY]
        for number in numbers:
            self._unseen.pop(int(str(number)), None)
        if report.when == "call" or report.outcome != "passed":
            known = "known" if numbers else "own"
            if report.outcome == "skipped":
                self._counts[f"{known} {'failures' if hasattr(report, 'wasxfail') else 'skips'}"] += 1
            elif report.outcome == "failed":
                self._counts["unexpected"] += 1
            elif report.when == "call":
                self._counts["passed"] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes the counts."""
        whole, counts = self._config.getoption("--whole"), self._config.getoption("--counts")
        if hasattr(self._config, "workerinput"):
            return
        if whole and self._unseen and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if counts is not None:
            counts.parent.mkdir(parents=True, exist_ok=True)
            counts.write_text(json.dumps(self._counts))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Says what it compared."""
        if self._config.getoption("--whole"):
            for entry in self._unseen.values():
                terminalreporter.line(f"line {entry.number} of the table is of no test: {entry.name.pattern}", red=True)
        terminalreporter.line(", ".join(f"{count} {what}" for what, count in sorted(self._counts.items())))
