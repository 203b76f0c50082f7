"""What another local user puts into the folder for temporary files stops nobody's work and leads nowhere."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import phalanx as px
import pytest
from api.executors import Executors
from skips import require

from laboratory.processes import until

NOBODY = 65534


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder as ``/tmp`` is, in one that every user may enter."""
    require("root")
    with tempfile.TemporaryDirectory(dir="/tmp") as outer:  # that of the tests is closed to other users
        Path(outer).chmod(0o755)
        folder = Path(outer, "tmp")
        folder.mkdir()
        folder.chmod(0o1777)
        yield folder


def as_nobody(*command: str | Path) -> None:
    """Runs a command as another user."""
    subprocess.run(["setpriv", f"--reuid={NOBODY}", "--clear-groups", *command], check=True, timeout=30)


@pytest.fixture
def grid(tmp_path: Path, shared: Path) -> Executors:
    grid = Executors(tmp_path)
    env = {"TMPDIR": str(shared), "XDG_RUNTIME_DIR": ""}
    grid.start("labpc", interpreters=4, env=env)
    return grid


def address(grid: Executors) -> str:
    return grid.started[0].line("listening on ").split()[2]


def hello(grid: Executors) -> str | None:
    done = px.mpirun(
        ["echo", "hello"], n=1, hosts=address(grid), identity=grid.identity, capture_output=True, timeout=60
    )
    return done.stdout


def test_a_pipe_takes_no_places(grid: Executors, shared: Path) -> None:
    """Opening it to see whether a killed executor had left it waited for a writer, with the lock of all programs."""
    with grid:
        as_nobody("mkfifo", "-m", "666", shared / "phalanx-1-program-pipe")
        for _ in range(6):  # more than there are places
            assert hello(grid) == "hello\n"


@pytest.mark.parametrize("taken", ["pipe", "link", "folder"])
def test_a_name_that_is_taken_stops_no_program(grid: Executors, shared: Path, taken: str) -> None:
    name = shared / f"phalanx-programs-of-user-{os.getuid()}"
    with grid:
        match taken:
            case "pipe":
                as_nobody("mkfifo", "-m", "666", name)
            case "link":
                as_nobody("ln", "-s", "/root", name)
            case "folder":
                as_nobody("mkdir", "-m", "777", name)
        assert hello(grid) == "hello\n"
        if taken == "folder":
            assert not list(name.iterdir())


def test_a_program_is_in_a_folder_that_only_its_user_can_enter(grid: Executors, shared: Path) -> None:
    with grid:
        modes = ["stat", "--format", "%a %u", ".", ".."]
        where, me = address(grid), grid.identity
        said = px.mpirun(modes, n=1, hosts=where, identity=me, capture_output=True, timeout=60).stdout
        assert said == f"700 {os.getuid()}\n" * 2
        until(lambda: not list(shared.glob("phalanx-programs-*")), timeout=10, what="the end of the folder")


def test_a_folder_for_sockets_that_is_anothers_is_not_used(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shared / f"phalanx-of-user-{os.getuid()}"
    as_nobody("mkdir", "-m", "777", folder)
    for name, value in {"TMPDIR": str(shared), "XDG_RUNTIME_DIR": ""}.items():
        monkeypatch.setenv(name, value)
    with Executors(tmp_path) as grid:
        where = grid.start("labpc")
        with px.Space(f"{where}/jobs", identity=grid.identity) as space:
            space.out("job", 1)
            assert space.in_("job", int) == ("job", 1)
        assert not list(folder.iterdir())
        assert "not a folder that only this user can enter" in grid.started[0].stderr()
