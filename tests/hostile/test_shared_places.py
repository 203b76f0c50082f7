"""What another local user puts into the folder for temporary files stops nobody's work and leads nowhere."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import phalanx as px
import pytest
from api.executors import Executors
from hostile.accounts import as_another, listen

from laboratory.processes import until


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
        as_another("mkfifo", "-m", "666", shared / "phalanx-1-program-pipe")
        for _ in range(6):  # more than there are places
            assert hello(grid) == "hello\n"


def plant(kind: str, name: Path, target: Path) -> None:
    """Another account takes a name."""
    match kind:
        case "pipe":
            as_another("mkfifo", "-m", "666", name)
        case "link":
            as_another("ln", "-s", target, name)
        case "dangling link":
            as_another("ln", "-s", target / "new", name)
        case "file":
            as_another("touch", name)
        case "folder":
            as_another("mkdir", "-m", "777", name)


def state(path: Path) -> tuple[object, ...]:
    """What shows whether something was replaced or changed."""
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_uid, found.st_size, found.st_mtime_ns


@pytest.mark.parametrize("kind", ["pipe", "link", "dangling link", "file", "folder"])
def test_names_that_are_taken_stop_nothing_and_lead_nowhere(tmp_path: Path, shared: Path, kind: str) -> None:
    """Those of the folders for sockets and for programs, before the victim starts."""
    target = tmp_path / "private"
    target.mkdir(mode=0o700)
    names = [shared / f"phalanx-{what}of-user-{os.getuid()}" for what in ("", "programs-")]
    for name in names:
        plant(kind, name, target)
    planted = [state(path) for path in (*names, target)]
    with Executors(tmp_path) as grid:
        where = grid.start("labpc", interpreters=4, env={"TMPDIR": str(shared), "XDG_RUNTIME_DIR": ""})
        assert "not a folder that only this user can enter" in grid.started[0].stderr()
        with (
            px.Manager(where, identity=grid.identity, contract=px.ParDegree(1)) as manager,
            px.Space(f"{where}/jobs", identity=grid.identity) as space,
        ):
            folder = Path(manager.submit(os.getcwd).result(60))
            assert folder.parent == shared
            assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, os.getuid())
            space.out("job", 1)
            assert space.in_("job", int) == ("job", 1)
            assert hello(grid) == "hello\n"
        assert [state(path) for path in (*names, target)] == planted


def test_a_program_is_in_a_folder_that_only_its_user_can_enter(grid: Executors, shared: Path) -> None:
    with grid:
        modes = ["stat", "--format", "%a %u", ".", ".."]
        where, me = address(grid), grid.identity
        said = px.mpirun(modes, n=1, hosts=where, identity=me, capture_output=True, timeout=60).stdout
        assert said == f"700 {os.getuid()}\n" * 2
        until(lambda: not list(shared.glob("phalanx-programs-*")), timeout=10, what="the end of the folder")


def test_a_server_in_anothers_folder_for_sockets_is_not_dialled(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shared / f"phalanx-of-user-{os.getuid()}"
    as_another("mkdir", "-m", "777", folder)
    for name, value in {"TMPDIR": str(shared), "XDG_RUNTIME_DIR": ""}.items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as port:
        address = f"127.0.0.1:{port.getsockname()[1]}"
    namespace = Path("/proc/self/ns/net").stat().st_ino
    taken = listen(folder / f"{address}@{namespace}", tmp_path)
    try:
        with pytest.raises(px.SpaceError, match=f"{address}: no server of spaces listens there"):
            px.Space(f"{address}/jobs")
        assert not [line for line in taken.lines() if line.startswith("heard")]
    finally:
        taken.kill()
