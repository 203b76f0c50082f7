"""A task that starts as many processes as its account may have does not keep the tasks of other users from starting."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import cloudpickle
import phalanx as px
import pytest
from api.executors import Executors
from hostile.test_accounts import FIRST, opening
from phalanx.errors import CulpritError

from laboratory.processes import until

cloudpickle.register_pickle_by_value(sys.modules[__name__])
#: An account that nothing else has, and what the system lets it have.
ACCOUNT, MOST = FIRST + 50, 300


def crowd(sign: Path) -> None:
    """Starts processes until the system refuses more, and keeps them."""
    while True:
        try:
            child = os.fork()
        except BlockingIOError:
            sign.touch()
            time.sleep(1000)
        else:
            if child == 0:
                time.sleep(1000)


@pytest.fixture
def grid(place: Path) -> Executors:
    """A grid whose executors run under an account with few processes."""
    account = ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups"]
    grid = Executors(place, [*opening(place), "prlimit", f"--nproc={MOST}", *account])
    issue = grid.issue

    def issue_readable(role: str, name: str) -> Path:
        path = issue(role, name)
        if role == "executor":
            os.chown(path, ACCOUNT, ACCOUNT)
        return path

    grid.issue = issue_readable  # type: ignore[method-assign]
    return grid


def test_others_start_and_the_user_hears_why_the_tasks_were_lost(grid: Executors, place: Path) -> None:
    home, own, shared, bob = place / "home", place / "own", place / "shared", grid.user("bob")
    for folder in (home, own, shared):
        folder.mkdir(mode=0o700)
        os.chown(folder, ACCOUNT, ACCOUNT)
    sign = shared / "sign"
    with grid:
        env = {"PHALANX_HOME": str(home), "HOME": str(home), "TMPDIR": str(own), "XDG_RUNTIME_DIR": ""}
        address = grid.start("labpc", "--grant", f"{shared}:rw", interpreters=4, env=env)
        with px.Manager(address, identity=grid.identity, contract=px.ParDegree(1)) as adas:
            crowding = adas.submit(crowd, sign)
            for _ in range(3):
                until(sign.exists, timeout=60, what="a task with all processes")
                sign.unlink()
                with px.Manager(address, identity=bob, contract=px.ParDegree(1)) as bobs:
                    assert bobs.submit(len, "others go on").result(60) == 12
            with pytest.raises(CulpritError, match=r"its program had \d+ processes and threads, and left none to"):
                crowding.result(60)
            assert adas.submit(len, "and so does ada").result(60) == 15
