"""Skipped tests: the last line says how many and what to install. In CI, which installs all, each is a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from laboratory.needs import PACKAGES, lacking, summary

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest
from skips import require


def test_that_runs():
    pass


def test_that_needs_programs():
    require("root", "ip", "nft")


@pytest.fixture
def redis():
    require("redis-server")


def test_that_has_a_fixture_with_needs(redis):
    pass


def test_with_another_reason():
    pytest.skip("of the weather")


@pytest.mark.xfail(reason="known")
def test_that_is_known_to_fail():
    raise AssertionError
"""
SEASON = """
import pytest

pytest.skip("of the season", allow_module_level=True)
"""


WORKERS = pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])


def run(folder: Path, *, ci: bool, options: tuple[str, ...], season: bool = True) -> subprocess.CompletedProcess[str]:
    """The tests above, on a machine that lacks root and all programs."""
    (folder / "test_tests.py").write_text(TESTS)
    if season:
        (folder / "test_season.py").write_text(SEASON)
    (folder / "pytest.ini").touch()
    patch = "import os, shutil; os.geteuid = lambda: 1000; shutil.which = lambda name: None"
    (folder / "sitecustomize.py").write_text(patch)
    env = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST_")}
    env["PYTHONPATH"] = os.pathsep.join(map(str, [folder, ROOT / "tests", ROOT]))
    command = [sys.executable, "-m", "pytest", "-p", "skips", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, env=env | ({"CI": "1"} if ci else {}), capture_output=True, text=True)


@WORKERS
def test_the_last_line_tells_how_many_were_skipped_and_what_to_install(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = run(tmp_path, ci=False, options=options)
    assert done.returncode == 0, done.stdout + done.stderr
    said, _, install = done.stdout.splitlines()[-1].partition("; apt-get install ")
    assert said.startswith("4 tests were skipped: ")
    assert install == "iproute2 nftables redis-server"
    for reason in ("1 × needs root (sudo)", "1 × of the weather", "1 × of the season"):
        assert reason in said


@WORKERS
def test_in_ci_a_skipped_test_is_a_failed_one(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(tmp_path, ci=True, options=options, season=False)
    assert done.returncode == 1
    assert "2 failed, 1 passed, 1 xfailed, 1 error" in done.stdout
    assert "skipped, and CI skips no test: of the weather" in done.stdout


def test_in_ci_a_skipped_file_is_a_failed_one(tmp_path: Path) -> None:
    done = run(tmp_path, ci=True, options=())
    assert done.returncode
    assert "skipped, and CI skips no test: of the season" in done.stdout


def test_a_machine_that_lacks_nothing_skips_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laboratory.needs.is_here", lambda name: True)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert lacking("root", *PACKAGES) is None


def test_packages_are_named_once() -> None:
    assert summary(["apt-get install b a", "needs root (sudo); apt-get install a"]) == (
        "2 tests were skipped: 1 × needs root (sudo); apt-get install a b"
    )
