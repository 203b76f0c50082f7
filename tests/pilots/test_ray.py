"""Executors in actors of Ray: a cluster of one node, in an environment of its own."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import phalanx as px
import pytest
from conftest import Eventually
from marked import of_this_run
from phalanx.errors import RecruitError
from phalanx.pilots._own_grid import remove_left
from pilots.programs import executors

from laboratory.processes import Process

ROOT = Path(__file__).parents[2]
#: The environment with Ray: requirements/ray.txt.
PYTHON = ROOT / ".venv" / "ray" / "bin" / "python"


@pytest.fixture
def run(tmp_path: Path, home: Path, eventually: Eventually) -> Iterator[Process]:
    """`run(part)` starts a part of the program. Ray's own processes end a little after it."""
    if not PYTHON.exists():
        pytest.skip("needs .venv/ray, which make test makes")
    before, started = running(), []

    def start(part: str) -> Process:
        path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests"), str(ROOT)])
        variables = {"PYTHONPATH": path, "HOME": str(tmp_path)}
        variables |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        # The path of a unix socket has 107 bytes at most.
        variables["RAY_TMPDIR"] = os.environ["TMPDIR"]
        process = Process(
            [str(PYTHON), str(Path(__file__).with_name("ray_program.py")), part],
            title=part,
            files=tmp_path / part,
            cwd=tmp_path,
            env=os.environ | variables,
        )
        started.append(process)
        return process

    yield start  # type: ignore[misc]
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()
    with suppress(AssertionError):
        eventually(lambda: not running() - before, timeout=20, what="the end of Ray")
    for pid in running() - before:  # Ray's agents outlive a program that was killed
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not running() - before, timeout=60, what="the end of Ray's agents")


def running() -> set[int]:
    """The processes of this run of the tests, but for this one."""
    return {int(folder.name) for folder in of_this_run()}


@pytest.mark.parametrize("part", ["computes", "survives_losses", "tells_errors"])
def test_ray(run: object, part: str) -> None:
    assert callable(run)
    process = run(part)
    assert process.wait(timeout=110) == 0, process.report()
    assert "done" in process.lines()


def test_executors_end_when_the_program_is_killed(run: object, eventually: Eventually) -> None:
    assert callable(run)
    process = run("is_killed")
    process.line("ready", timeout=90)
    process.kill()
    eventually(lambda: not executors(), timeout=60, what="the end of the executors")
    # Ray kills those that have not ended yet, so that their folders are left for the next executor that starts. The
    # grid's is left for the next program.
    folder = Path(os.environ["TMPDIR"])
    left = [*folder.glob("phalanx-pilot-*"), *folder.glob("phalanx-grid-*")]
    assert 1 <= len(left) <= 3

    def are_removed() -> bool:
        remove_left(left)
        return not any(one.exists() for one in left)

    eventually(are_removed, what="the removal of what ended processes have left")
    for programs in folder.glob("phalanx-programs-of-user-*"):  # what an executor that starts removes
        shutil.rmtree(programs)


def test_without_ray_the_error_says_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(RecruitError, match=r"px\.Ray needs Ray: pip install ray"):
        px.Manager(px.Ray())
    with pytest.raises(RecruitError, match="is more than executors"):
        px.Ray(1, at_least=2)
