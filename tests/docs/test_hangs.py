"""A test that hangs ends its process and all that it started, says where, and does not keep `make test` waiting."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A process forked off the worker holds the worker's pipe to pytest-xdist open.
TESTS = """
import os
import time


def test_that_hangs():
    if os.fork() == 0:
        time.sleep(1000)
        os._exit(0)
    time.sleep(1000)


def test_that_runs():
    pass
"""


def test_a_test_that_hangs_fails_with_the_place_where_it_does(tmp_path: Path) -> None:
    (tmp_path / "test_tests.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 3\ntimeout_method = thread\n")
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    line = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "--numprocesses" in line)
    options = line.partition("-m pytest ")[2].replace("$(ARGS)", "").split()
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env["PYTHONPATH"] = os.pathsep.join(map(str, [ROOT / "tests", ROOT]))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    said = done.stdout + done.stderr
    assert "test_that_hangs took more than 3 s, here:" in said
    assert 'test_tests.py", line 10 in test_that_hangs' in said
