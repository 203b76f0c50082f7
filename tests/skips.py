"""What becomes of skipped tests: one line at the end tells how many and what to install, and in CI each is a failure.

Parts of conftest.py; hooks of pytest.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TypeVar

import pytest

from laboratory.needs import lacking, summary

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def require(*needs: str) -> None:
    """Skip the test that calls it, or that has the fixture that calls it, on a machine that lacks a need.

    The needs are those of `laboratory.needs.lacking`.
    """
    if reason := lacking(*needs):
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The report of a part of a test."""
    return failed_in_ci((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The report of a file, which can be skipped as a whole."""
    return failed_in_ci((yield))


def failed_in_ci(report: Report) -> Report:
    """The report, failed instead of skipped where $CI is set: CI installs all needs, so a skip there hides a gap."""
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and CI skips no test: {reason(report)}"
    return report


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason that a skipped test gave."""
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line of the run."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter and (skipped := reporter.stats.get("skipped")):
        reporter.write_line(summary([reason(report) for report in skipped]), yellow=True)
