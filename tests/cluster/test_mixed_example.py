"""The survey of examples/mixed on several machines: every process acts for the one user, whose key stays at home."""

from __future__ import annotations

import sys

from api.survey import PROGRAM, STARS, check, frames_in
from cluster.grid import PATIENCE, Grid


def test_four_models_use_one_identity_on_several_machines(grid: Grid) -> None:
    home, shared = grid.desk.home, grid.desk.lab.path / "shared"
    light = frames_in(home / "frames", STARS)
    shared.mkdir()
    first, second = grid.executors("ws7", "ws8")
    store = grid.executor(grid.desk.lab.host("store"), interpreters=1, options=("--export", f"{shared}:rw"))
    (home / "hosts.txt").write_text("".join(f"{one.host.name} = {one.address}\n" for one in (first, second, store)))
    command = [sys.executable, str(PROGRAM), "hosts.txt", f"store:{shared}", "frames", "measured", "--ranks", "4"]
    process = grid.desk.popen(command, env=grid.env)
    assert process.wait(timeout=PATIENCE) == 0, process.report()
    check(process.stdout(), home / "measured", light)
    for one, does in ((first, "spaces"), (store, "copies")):
        what = f"who delegated {does} to it"
        said = [line for line in one.process.stderr().splitlines() if what in line]
        assert {f"a process at {it.host.name} " in "".join(said) for it in (first, second)} == {True}, said
