"""Another account of the machine reads, alters, ends and reaches nothing of a victim's processes, files and sockets."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent

import phalanx as px
import pytest
from api.executors import PHALANX, Executors
from hostile.accounts import attack, family, listen, named_sockets, not_refused

from laboratory.processes import Process

#: Larger than what a message carries itself, so that it goes through shared memory.
LARGE = bytes(4 << 20)


class Victim:
    """All services of one account: an executor with a task, interpreters of its own, and a server of spaces.

    Its folders may be entered by everybody. Only what phalanx itself does protects what is in them.
    """

    def __init__(self, place: Path, until: ExitStack) -> None:
        self.place, shared = place, place / "tmp"
        shared.mkdir()
        shared.chmod(0o1777)
        (place / "spaces").mkdir(mode=0o755)
        patch = until.enter_context(pytest.MonkeyPatch.context())
        for name, value in {"TMPDIR": str(shared), "XDG_RUNTIME_DIR": ""}.items():
            patch.setenv(name, value)
        grid = until.enter_context(Executors(place))
        command = [PHALANX, "space", "serve", "--address", f"unix:{place / 'jobs'}"]
        self.server = Process(
            [*command, "--directory", str(place / "spaces")],
            title="the server",
            files=place / "server",
            cwd=place,
            env=os.environ,
        )
        until.callback(self.server.kill)
        self.server.line("listening on ")
        address = grid.start("labpc")
        self.own = until.enter_context(px.Manager(contract=px.ParDegree(1)))
        self.there = until.enter_context(px.Manager(address, identity=grid.identity, contract=px.ParDegree(1)))
        self.space = until.enter_context(px.Space(f"unix:{place / 'jobs'}/kept", durable=True))
        self.check()

    def files(self) -> list[Path]:
        """All that the services have made, apart from what the test itself keeps of their output."""
        found = [path for path in self.place.rglob("*") if path.suffix not in (".stdout", ".stderr")]
        return [path for path in found if path.name not in ("tmp", "spaces") and not path.is_socket()]

    def check(self) -> None:
        """Everything works."""
        for manager in (self.own, self.there):
            assert manager.submit(len, LARGE).result(60) == len(LARGE)
        self.space.out("secret", 1)
        assert self.space.in_("secret", int, timeout=30) == ("secret", 1)


@pytest.fixture(scope="module")
def victim(place: Path) -> Iterator[Victim]:
    with ExitStack() as until:
        yield Victim(place, until)


def test_another_account_reads_alters_ends_and_reaches_nothing(victim: Victim) -> None:
    processes = family(os.getpid())
    files, sockets = victim.files(), named_sockets(processes)
    assert {path.suffix for path in files} >= {".pem", ".space"}
    assert any("-program-" in path.name for path in files), "the folder of the task"
    assert len(sockets) == 2, "the executor's in the folder for sockets, and the server's"
    assert len(processes) >= 6, "the manager, two interpreters, the executor, its keeper, the server"
    assert not_refused(attack(processes, files, sockets)) == {}
    victim.check()


RANKS = """
    import sys, time
    from pathlib import Path
    from phalanx import bsp

    with bsp.begin():
        ended = False
        print("up", flush=True)
        while not ended:
            time.sleep(0.01)
            if bsp.pid() == 0:
                for rank in range(bsp.nprocs()):
                    bsp.send(rank, Path(sys.argv[1]).exists())
            bsp.sync()
            (message,) = bsp.messages()
            ended = message.payload
        print("done", flush=True)
"""


@pytest.mark.parametrize("transport", ["shared", "sockets"])
def test_another_account_reaches_no_rank(place: Path, transport: str) -> None:
    program, end = place / f"{transport}.py", place / f"{transport}-end"
    program.write_text(dedent(RANKS))
    command = [PHALANX, "mpirun", "-n", "2", "--transport", transport, "--no-prefix", str(program), str(end)]
    ranks = Process(command, title="the ranks", files=place / transport, cwd=place, env=os.environ)
    try:
        ranks.line("up")
        processes = family(ranks.pid)
        assert len(processes) >= 3, "mpirun and the ranks"
        assert not_refused(attack(processes, [], named_sockets(processes))) == {}
        end.touch()
        assert ranks.wait() == 0, ranks.report()
        assert ranks.lines().count("done") == 2
    finally:
        ranks.kill()


def test_a_socket_of_another_account_is_told_nothing(shared: Path, tmp_path: Path) -> None:
    """It lies where the victim's server was to be."""
    path = shared / "jobs"
    taken = listen(path, tmp_path)
    try:
        with pytest.raises(px.SpaceError, match="another user's"):
            px.Space(f"unix:{path}/plans")
        command = [PHALANX, "space", "serve", "--address", f"unix:{path}"]
        served = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (served.returncode, "in use" in served.stderr) == (1, True), served.stderr
        assert path.is_socket()
        assert {line for line in taken.lines() if line.startswith("heard")} <= {"heard "}
    finally:
        taken.kill()
