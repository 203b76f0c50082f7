"""Ranks, and processes that tasks and ranks start, act for their user as far as the user's program says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.executors import PHALANX, Executors
from api.test_delegation import caught
from click.testing import CliRunner
from phalanx.cli import commands

from laboratory.processes import Process, until

PATIENCE = 60
#: Prints the class and the text of the error of what it is told to do.
TRIES = """
import sys
import phalanx as px
try:
    exec(sys.argv[1])
    print("done")
except Exception as error:
    print(type(error).__name__, error)
"""


class Site:
    """Two executors that a grid names: programs run at ``labpc``, and ``board`` has spaces and a folder."""

    def __init__(self, folder: Path) -> None:
        self.executors = Executors(folder)
        self.shared = folder / "shared"
        self.shared.mkdir()
        self.labpc = self.executors.start("labpc")
        self.board = self.executors.start("board", "--export", f"{self.shared}:rw", interpreters=1)
        self.log = self.executors.started[1]
        self.hosts = [f"labpc = {self.labpc}", f"desk = {self.board} as board"]
        self.grid = px.Grid(self.hosts, identity=self.executors.identity)
        self.tries = folder / "tries.py"
        self.tries.write_text(TRIES)

    def run(self, does: str, **options: Any) -> str:
        """What a rank at ``labpc`` prints that does this."""
        program: list[str | Path] = [self.tries, does]
        done = self.grid.mpirun(program, n=1, capture_output=True, timeout=PATIENCE, **options)
        assert done.ranks[0].machine == "labpc"
        return (done.stdout or "").strip()

    def manager(self, **options: Any) -> px.Manager:
        """A manager of both machines. Its interpreter is at ``labpc``, and at ``desk`` if that one is full."""
        return self.grid.manager(contract=px.ParDegree(1), **options)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("delegation-of-ranks"))
    with made.executors:
        made.executors.need_cages()
        yield made


def test_ranks_use_spaces_and_copy_under_the_names_of_the_grid(site: Site) -> None:
    with site.grid.space("desk/ranks") as space:
        space.out("question", 41)
        does = "space = px.Space('desk/ranks'); space.out('answer', space.in_('question', int)[1] + 1)"
        assert site.run(does, delegate="spaces") == "done"
        assert space.in_("answer", int, timeout=PATIENCE) == ("answer", 42)
    assert site.run(f"px.copy(__file__, 'desk:{site.shared}/copied')", delegate="copies") == "done"
    assert (site.shared / "copied").read_text() == TRIES
    both = f"px.copy('desk:{site.shared}/copied', 'back'); px.Space('desk/ranks').out('size', len(open('back').read()))"
    assert site.run(both, delegate="all") == "done"
    with site.grid.space("desk/ranks") as space:
        assert space.in_("size", int, timeout=PATIENCE) == ("size", len(TRIES))
    what = "a process at labpc acts for ada, who delegated copies to it"
    until(lambda: what in site.log.stderr(), timeout=PATIENCE, what="the log")


def test_ranks_do_what_was_delegated_and_the_error_says_how_to_delegate_more(site: Site) -> None:
    space, copy = "px.Space('desk/never')", f"px.copy(__file__, 'desk:{site.shared}/never')"
    for delegate in (None, "copies"):
        said = site.run(space, delegate=delegate)
        assert (said.split()[0], "this process runs at labpc for a user" in said) == ("IdentityError", True), said
        assert 'start the program with px.mpirun(..., delegate="spaces")' in said, said
    for delegate in (None, "spaces"):
        said = site.run(copy, delegate=delegate)
        assert (said.split()[0], "phalanx mpirun --delegate copies" in said) == ("IdentityError", True), said
    said = site.run("px.Manager('desk:7400')", delegate="all")
    assert (said.split()[0], "managers and message passing programs need that key" in said) == (
        "IdentityError",
        True,
    ), said
    assert not (site.shared / "never").exists()


def test_ranks_have_no_delegation_unless_the_user_says_so(site: Site) -> None:
    assert "delegated no spaces to it" in site.run("px.Space('desk/never')")
    with pytest.raises(px.errors.LaunchError, match="'given' is no delegate: write 'spaces', 'copies', 'all'"):
        px.mpirun("true", hosts=site.hosts, delegate="given")  # type: ignore[arg-type]


def test_what_a_rank_starts_acts_for_the_user_too(site: Site) -> None:
    does = "import subprocess; subprocess.run([sys.executable, __file__, sys.argv[2]])"
    inner = "px.Space('desk/started').out('from', 'a process of a rank')"
    done = site.grid.mpirun([site.tries, does, inner], n=1, capture_output=True, delegate="spaces", timeout=PATIENCE)
    assert (done.stdout or "").split() == ["done", "done"]
    with site.grid.space("desk/started") as space:
        assert space.in_("from", str, timeout=PATIENCE) == ("from", "a process of a rank")
    done = site.grid.mpirun([site.tries, does, inner], n=1, capture_output=True, timeout=PATIENCE)
    assert 'px.mpirun(..., delegate="spaces")' in (done.stdout or "")


def test_programs_in_supersteps_and_spawned_ranks_act_for_the_user(site: Site) -> None:
    script = site.tries.with_name("steps.py")
    script.write_text(
        "import phalanx as px\nfrom phalanx import bsp\n"
        "with bsp.begin(), px.Space('desk/steps') as space:\n    bsp.sync()\n    space.out('pid', bsp.pid())\n"
    )
    assert site.grid.bsprun(script, n=2, delegate="spaces", timeout=PATIENCE).code == 0
    script.with_name("spawns.py").write_text(
        "import sys\nfrom mpi4py import MPI\nimport phalanx as px\n"
        "if MPI.Comm.Get_parent() == MPI.COMM_NULL:\n"
        "    MPI.COMM_SELF.Spawn(sys.executable, [__file__], 1).Disconnect()\n"
        "else:\n"
        "    px.Space('desk/steps').out('spawned', True)\n    MPI.Comm.Get_parent().Disconnect()\n"
    )
    assert site.grid.mpirun(script.with_name("spawns.py"), n=1, delegate="spaces", timeout=PATIENCE).code == 0
    with site.grid.space("desk/steps") as space:
        assert sorted(space.in_("pid", int, timeout=PATIENCE)[1] for _ in range(2)) == [0, 1]
        assert space.in_("spawned", bool, timeout=PATIENCE) == ("spawned", True)


def test_the_command_delegates(site: Site, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("\n".join(site.hosts))
    command = [PHALANX, "mpirun", "--hosts", str(hosts), "--identity", str(site.executors.identity), "-n", "1"]
    does = "px.Space('desk/command').out('from', 'a command')"
    command += ["--delegate", "spaces", str(site.tries), does]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "[0] done\n", done.stderr
    with site.grid.space("desk/command") as space:
        assert space.in_("from", str, timeout=PATIENCE) == ("from", "a command")
    refused = CliRunner().invoke(commands, ["mpirun", "--delegate", "spaces", "true"])
    assert "--delegate needs --hosts" in refused.output


def test_what_a_task_starts_acts_for_the_user_too(site: Site) -> None:
    script = TRIES

    def start(does: str) -> str:
        command = [sys.executable, "-c", script, does]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def fork(does: str) -> str:
        read, write = os.pipe()
        if os.fork() == 0:
            try:
                exec(does)
                os.write(write, b"done")
            except Exception as error:
                os.write(write, str(error).encode())
            os._exit(0)
        os.close(write)
        os.wait()
        return os.read(read, 1000).decode()

    does = "import phalanx as px; px.Space('desk/tasks').out('from', 'a task')"
    with site.grid.space("desk/tasks") as space:
        with site.manager() as manager:
            said = manager.submit(start, does).result(PATIENCE)
            assert (said.split()[0], 'px.Manager(..., delegate="spaces")' in said) == ("IdentityError", True), said
            manager.submit(space.count).result(PATIENCE)  # from now on the space is given
            assert manager.submit(start, does).result(PATIENCE) == "done"
            assert manager.submit(fork, does).result(PATIENCE) == "done"
        with site.manager(delegate="copies") as manager:
            does = f"import phalanx as px; px.copy('/etc/hostname', 'desk:{site.shared}/hostname')"
            assert [manager.submit(how, does).result(PATIENCE) for how in (start, fork)] == ["done", "done"]
        assert space.count("from", str) == 2


def test_tasks_know_the_names_of_the_grid(site: Site) -> None:
    shared, grid = str(site.shared), site.grid

    def by_name() -> list[str]:
        px.copy("/etc/hostname", f"desk:{shared}/named")
        with px.Files("desk") as files:
            return [entry.path for entry in files.entries(shared) if entry.path == "named"]

    def by_grid() -> str:
        with grid.space("desk/named") as space:
            space.out("from", "a grid in a closure")
        return grid.copy(f"desk:{shared}/named", "back").peers[0]

    with site.manager(delegate="all") as manager:
        assert manager.submit(by_name).result(PATIENCE) == ["named"]
        assert manager.submit(by_grid).result(PATIENCE) == "board"
        kind, text = caught(manager, lambda: px.Space("nowhere.invalid/named"))
        assert (kind, "nowhere.invalid" in text) == ("SpaceError", True), text
    with site.grid.space("desk/named") as space:
        assert space.in_("from", str, timeout=PATIENCE) == ("from", "a grid in a closure")


def test_a_name_in_a_task_is_that_of_the_machine_that_the_program_expects(site: Site) -> None:
    wrong = px.Grid([f"labpc = {site.labpc}", f"desk = {site.board} as other"], identity=site.executors.identity)
    place = f"desk:{site.shared}/never"
    with wrong.only("labpc").manager(contract=px.ParDegree(1), delegate="all") as manager:
        kind, text = caught(manager, lambda: wrong.copy("/etc/hostname", place))
        assert (kind, "board answers, but other is expected" in text) == ("IdentityError", True), text
    assert not (site.shared / "never").exists()


def test_no_other_users_program_reads_a_delegation_and_it_goes_with_the_program(site: Site, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("\n".join(site.hosts))
    command = [PHALANX, "mpirun", "--hosts", str(hosts), "--identity", str(site.executors.identity), "-n", "1"]
    command += ["--no-prefix", "--delegate", "all", "sh", "-c", "echo at $PHALANX_DELEGATED; exec sleep 1000"]
    running = Process(command, title="ranks", files=tmp_path / "ranks", cwd=tmp_path, env=dict(os.environ))

    def read(path: str) -> str:
        return str(len(Path(path).read_bytes()))

    try:
        path = running.line("at ", timeout=PATIENCE).split()[1]
        assert Path(path).stat().st_mode & 0o777 == 0o600
        eve = site.executors.user("eve")
        with px.Manager(site.labpc, identity=eve, contract=px.ParDegree(1)) as manager:
            kind, _ = caught(manager, lambda: read(path))
            assert kind == "PermissionError"
        with px.Manager(site.labpc, identity=site.executors.identity, contract=px.ParDegree(1)) as manager:
            kind, _ = caught(manager, lambda: read(path))
            assert kind == "PermissionError", "another program of the same user"
    finally:
        running.kill()
    until(lambda: not Path(path).exists(), timeout=PATIENCE, what="the end of the file")
