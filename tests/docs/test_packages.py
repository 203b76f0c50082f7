"""Continuous integration installs the packages of README.md's first line, so that the line cannot rot."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from laboratory.needs import PACKAGES

ROOT = Path(__file__).parents[2]
INSTALL = "install -qq --yes --no-install-recommends"


def calls_of_ci(folder: Path, make: str) -> tuple[int, list[str]]:
    """The exit code of .ci/run, and its calls of apt-get, which does nothing, and of make, which runs `make`."""
    for command in ("apt-get", "make", "cargo-clippy", "cargo-fmt"):
        ends = make if command == "make" else "exit 0"
        (folder / command).write_text(f'#!/bin/sh\necho "{command} $*, CI=$CI" >> "{folder}/calls"\n{ends}\n')
        (folder / command).chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name != "CI"}
    env["PATH"] = f"{folder}:{env['PATH']}"
    done = subprocess.run([ROOT / ".ci" / "run"], env=env, capture_output=True, text=True)
    return done.returncode, (folder / "calls").read_text().splitlines()


def test_integration_installs_all_packages_and_runs_everything_once(tmp_path: Path) -> None:
    title, _, line, *_ = (ROOT / "README.md").read_text().splitlines()
    assert title == "# phalanx"
    assert line.startswith("    apt-get install ")
    needs = sorted({package for packages in PACKAGES.values() for package in packages})
    assert calls_of_ci(tmp_path, "exit 0") == (
        0,
        [
            "apt-get update -qq, CI=",
            f"apt-get {INSTALL} {line.removeprefix('    apt-get install ')}, CI=",
            f"apt-get {INSTALL} {' '.join(needs)}, CI=",
            "make -k check-code test, CI=1",
            "make windows, CI=1",
            "make suites ARGS=--part, CI=1",
        ],
    )


@pytest.mark.parametrize(("goal", "expected"), [("test", 1), ("windows", 0), ("suites", 0)])
def test_integration_fails_when_a_test_of_ours_fails_and_runs_the_others(
    goal: str, expected: int, tmp_path: Path
) -> None:
    code, calls = calls_of_ci(tmp_path, f'case "$*" in *{goal}*) exit 2;; esac')
    assert code == expected
    assert len([call for call in calls if call.startswith("make ")]) == 3
