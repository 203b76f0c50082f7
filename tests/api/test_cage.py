"""Code that an executor runs for its users does not touch what is the owner's or another program's."""

from __future__ import annotations

import ast
import errno
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import cloudpickle
import phalanx as px
import pytest
from api import caged
from api.caged import attacks, leave, needs, state
from api.executors import PHALANX, Executors

from laboratory.processes import Process, until

cloudpickle.register_pickle_by_value(caged)  # executors do not have it
cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECRET = "the owner's secret"


class Site:
    """An executor whose owner has a home folder with keys, and grants two folders."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.data, self.results, self.other = (folder / name for name in ("data", "results", "other"))
        self.keys = self.home / ".phalanx"
        for made in (self.keys, self.data, self.results, self.other):
            made.mkdir(parents=True)
        for file in (self.home / "diary", self.keys / "authority.pem", self.data / "input", self.other / "file"):
            file.write_text(SECRET)
        self.grid = Executors(folder)
        env = {"HOME": str(self.home), "PHALANX_HOME": str(self.keys), "OWNERS_SECRET": SECRET, "LICENCE": "42"}
        grants = [
            "--grant",
            f"{self.data}:ro",
            "--grant",
            f"{self.results}:rw",
            "--env",
            "LICENCE",
            "--env",
            "OPENBLAS_NUM_THREADS=3",
        ]
        self.address = self.grid.start("labpc", *grants, interpreters=4, env=env)

    @property
    def private(self) -> list[str]:
        identity = self.grid.identity.with_name("executor-labpc.pem")
        owners = [identity, self.home, self.home / "diary", self.keys, self.keys / "authority.pem"]
        return [*map(str, owners), str(self.other / "file"), "/tmp"]

    @property
    def unwritable(self) -> list[str]:
        return [str(self.data / "new"), str(self.other / "new"), "/tmp/phalanx-test-of-the-cage", "/etc/phalanx-test"]

    def manager(self, **options: Any) -> px.Manager:
        return px.Manager(self.address, identity=self.grid.identity, contract=px.ParDegree(1), **options)

    def run(self, source: str, count: int) -> list[str]:
        """The output of the ranks of a program at the executor."""
        folder = self.grid.identity.parent / "program"
        folder.mkdir(exist_ok=True)
        (folder / "program.py").write_text(dedent(source))
        (folder / "caged.py").write_text(Path(caged.__file__).read_text())
        done = px.mpirun(
            "program.py",
            n=count,
            hosts=self.address,
            identity=self.grid.identity,
            cwd=folder,
            files=["caged.py"],
            capture_output=True,
            timeout=120,
        )
        return [it.stdout or "" for it in done.ranks]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("cage"))
    with made.grid:
        made.grid.need_cages()
        yield made


def refused(outcomes: dict[str, str]) -> bool:
    """Whether every attack was refused. The message of a failed assertion shows the others."""
    assert {name: it for name, it in outcomes.items() if it != "PermissionError"} == {}
    return len(outcomes) > 15


def test_a_task_touches_nothing_that_is_not_its_own(site: Site) -> None:
    with site.manager() as manager:
        assert refused(manager.submit(attacks, site.private, site.unwritable).result(60))


def test_a_task_does_what_tasks_do(site: Site) -> None:
    with site.manager() as manager:
        done = manager.submit(needs).result(120)
        folder = manager.submit(os.getcwd).result(60)
    assert done.pop("shell") == f"{folder}\n"
    assert done == {
        "numpy": 90000.0,
        "pool": [1, 2, 3],
        "file": "kept",
        "shared": 28,
        "child": -15,
        "localhost": "127.0.0.1",
        "certificates": True,
        "random": 8,
    }


def test_a_task_has_a_folder_and_an_environment_without_the_owners_secrets(site: Site) -> None:
    with site.manager() as manager:
        found = manager.submit(state).result(60)
        assert manager.submit(os.getcwd).result(60) == found["folder"]
    environment = found["environment"]
    assert SECRET not in environment.values()
    assert "PHALANX_HOME" not in environment
    assert (environment["LICENCE"], environment["PATH"]) == ("42", os.environ["PATH"])
    assert environment["HOME"] == environment["TMPDIR"] == found["folder"]
    assert environment["OPENBLAS_NUM_THREADS"] == "3", "the owner's word counts"
    assert environment["MKL_NUM_THREADS"] == os.environ.get("MKL_NUM_THREADS", "1")
    assert found["core"] == (0, 0)
    until(lambda: not Path(found["folder"]).exists(), timeout=30, what="the end of the folder, with its manager")


def test_a_grant_opens_a_folder(site: Site) -> None:
    with site.manager() as manager:
        assert manager.submit(Path.read_text, site.data / "input").result(60) == SECRET
        manager.submit(Path.write_text, site.results / "output", "made").result(60)
        with pytest.raises(PermissionError):
            manager.submit(Path.write_text, site.data / "input", "changed").result(60)
    assert (site.results / "output").read_text() == "made"
    assert (site.data / "input").read_text() == SECRET


def lives(process: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_what_a_task_leaves_ends_with_its_manager(site: Site) -> None:
    with site.manager() as manager:
        left = manager.submit(leave).result(60)
        assert lives(left)
    until(lambda: not lives(left), timeout=60, what="the end of what the task has left")


LEAVING = """
    import sys
    import time

    import cloudpickle
    import phalanx as px
    from api import caged

    cloudpickle.register_pickle_by_value(caged)
    manager = px.Manager(sys.argv[1], identity=sys.argv[2], contract=px.ParDegree(1))
    print("left", manager.submit(caged.leave).result(60), flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("options", [[], ["--cage", "none", "--accept", "ada"]], ids=["caged", "not caged"])
@pytest.mark.parametrize("killed", ["manager", "executor"])
def test_what_a_task_leaves_ends_with_a_killed(killed: str, options: list[str], tmp_path: Path) -> None:
    with Executors(tmp_path) as grid:
        address = grid.start("labpc", *options)
        user = Process(
            [sys.executable, "-c", dedent(LEAVING), address, str(grid.identity)],
            title="a user's program",
            files=tmp_path / "user",
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            left = int(user.line("left ", timeout=60).split()[1])
            assert lives(left)
            (user if killed == "manager" else grid.started[0]).kill()
            until(lambda: not lives(left), timeout=60, what="the end of what the task has left")
        finally:
            with suppress(ProcessLookupError):
                user.kill()


def test_what_a_rank_leaves_ends_with_its_program(site: Site) -> None:
    source = """
        from caged import leave

        print(leave())
    """
    left = [int(output) for output in site.run(source, 2)]
    until(lambda: not any(map(lives, left)), timeout=60, what="the end of what the ranks have left")


def test_a_refusal_names_the_grant(site: Site) -> None:
    data, other = site.data, site.other
    closed = site.results / "closed"
    closed.write_text("for nobody")
    closed.chmod(0)
    tries: list[tuple[Callable[..., object], Path, str]] = [
        (Path.read_text, other / "file", f"{other}:ro"),
        (os.listdir, other, f"{other}:ro"),
        (write, other / "new", f"{other}:rw"),
        (write, data / "input", f"{data}:rw"),
        (write, data / "new", f"{data}:rw"),
        (chained, other / "file", f"{other}:ro"),
    ]
    with site.manager() as manager:
        for attempt, path, grant in tries:
            with pytest.raises((PermissionError, RuntimeError)) as refusal:
                manager.submit(attempt, path).result(60)
            shown = "".join(traceback.format_exception(refusal.value))
            assert "tasks run in a cage on labpc" in shown, shown
            assert f"phalanx executor --grant {grant}" in shown, shown
        with pytest.raises(PermissionError, match="and write in a folder of their own, which TMPDIR names"):
            manager.submit(write_beside_the_programs).result(60)
        for attempt, path in ((Path.read_text, closed), (forged, site.results / "output")):
            with pytest.raises(PermissionError) as other_cause:
                manager.submit(attempt, path).result(60)
            assert "--grant" not in "".join(traceback.format_exception(other_cause.value))


def write(path: Path) -> None:
    path.write_text("changed")


def write_beside_the_programs() -> None:
    (Path(os.environ["TMPDIR"]).parents[1] / "new").write_text("changed")


def chained(path: Path) -> None:
    try:
        path.read_text()
    except PermissionError as error:
        raise RuntimeError("no input") from error


def forged(path: Path) -> None:
    raise PermissionError(errno.EACCES, "an error of the task's own", str(path))


def test_an_interpreter_reaches_no_other_one(site: Site) -> None:
    def list_folder(path: str) -> list[Path]:
        return list(Path(path).iterdir())

    def reach(pid: int, folder: str) -> list[str]:
        outcomes = []
        folders = [partial(list_folder, path) for path in (folder, f"/proc/{pid}/cwd")]
        tries: list[Callable[[], object]] = [partial(os.kill, pid, 0), *folders]
        for attack in tries:
            try:
                outcomes.append(str(attack()))
            except PermissionError:
                outcomes.append("refused")
        return outcomes

    with site.manager() as one, site.manager() as other:
        pid, folder = one.submit(os.getpid).result(60), one.submit(os.getcwd).result(60)
        assert Path(folder).is_dir()
        assert other.submit(reach, pid, folder).result(60) == ["refused"] * 3


def test_a_task_is_not_the_owner_to_spaces_of_the_machine(site: Site) -> None:
    """The owner's processes need no identity on the machine itself. What runs there for users has the same account."""

    def reach(space: str) -> str:
        try:
            with px.Space(space) as opened:
                return str(opened.rdp(str))
        except px.PhalanxError as error:
            return type(error).__name__

    name = f"{site.address}/jobs"
    with px.Space(name) as owners, site.manager() as manager:
        owners.out(SECRET)
        assert owners.rd(str) == (SECRET,)
        assert manager.submit(reach, name).result(60) in ("SpaceError", "IdentityError")


def test_an_eval_is_caged(site: Site) -> None:
    def attempt(*arguments: list[str]) -> tuple[str, str]:
        return "tried", repr(attacks(*arguments))

    with site.manager() as manager, px.Space(manager=manager) as space:
        space.eval(attempt, site.private, site.unwritable)
        assert refused(ast.literal_eval(space.in_("tried", str, timeout=60)[1]))


def test_a_rank_touches_nothing_that_is_not_its_own(site: Site) -> None:
    source = f"""
        from caged import attacks

        print(attacks({site.private!r}, {site.unwritable!r}))
    """
    for output in site.run(source, 2):
        assert refused(ast.literal_eval(output))


def test_a_rank_does_what_ranks_do(site: Site) -> None:
    source = """
        from caged import needs, state

        if __name__ == "__main__":
            print(needs()["pool"], state()["environment"].get("OWNERS_SECRET"))
    """
    assert site.run(source, 2) == ["[1, 2, 3] None\n"] * 2


def test_ranks_of_a_program_share_memory(site: Site) -> None:
    """The ranks of a program are in one cage, because large messages are read from the sender's memory,
    and windows are opened as files of another rank."""
    source = """
        import ctypes
        import os
        import numpy as np
        from phalanx import bsp

        class Vector(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

        with bsp.begin():
            own, others = np.full(1 << 20, 7.0 + bsp.pid()), np.zeros(1 << 20)
            bsp.push_reg(others)
            bsp.sync()
            bsp.put(1 - bsp.pid(), own, others)
            window = os.memfd_create("window")
            os.write(window, b"of %d" % bsp.pid())
            bsp.send(1 - bsp.pid(), (os.getpid(), own.ctypes.data, window))
            bsp.sync()
            ((process, address, file),) = [message.payload for message in bsp.messages()]
            opened = os.read(os.open(f"/proc/{process}/fd/{file}", os.O_RDWR), 4).decode()
            read = np.zeros(4)
            there, here = Vector(address, 32), Vector(read.ctypes.data, 32)
            library = ctypes.CDLL(None, use_errno=True)
            library.process_vm_readv.restype = ctypes.c_ssize_t
            count = library.process_vm_readv(process, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
            print(others.sum() / others.size, count, read[0], opened)
            bsp.sync()
    """
    assert site.run(source, 2) == ["8.0 32 8.0 of 1\n", "7.0 32 7.0 of 0\n"]


@pytest.mark.parametrize("kind", ["none", "limits"])
def test_without_a_cage_for_files_a_task_has_the_rights_of_the_account(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("readable")
    with Executors(tmp_path) as grid:
        address = grid.start("labpc", "--cage", kind, "--accept", "ada")
        assert f"are open (--cage {kind}); limits: " in grid.started[0].line("cage: ")
        with px.Manager(address, identity=grid.identity, contract=px.ParDegree(1)) as manager:
            assert manager.submit(Path.read_text, tmp_path / "file").result(60) == "readable"
            status = manager.submit(Path.read_text, Path("/proc/self/status")).result(60)
            assert f"Seccomp:\t{2 if kind == 'limits' else 0}" in status


@pytest.mark.parametrize("users", [[], ["ada", "bob"]])
@pytest.mark.parametrize("kind", ["none", "limits"])
def test_users_that_are_not_kept_apart_are_refused(tmp_path: Path, kind: str, users: list[str]) -> None:
    with Executors(tmp_path) as grid:
        options = [word for user in users for word in ("--accept", user)]
        command = [PHALANX, "executor", "--identity", str(grid.issue("executor", "labpc")), "--cage", kind, *options]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert f"cannot keep its users apart (cage: {kind}: " in refused.stderr
    assert "--accept NAME" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_executors_say_how_they_keep_users_apart(site: Site, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(f"labpc = {site.address}\nnobody = 127.0.0.1:1\n")
    command = [PHALANX, "explain", str(hosts), "--ask", "--identity", str(site.grid.identity)]
    told = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60)
    assert told.returncode == 1, told.stderr  # one does not answer
    lab, nobody = json.loads(told.stdout)["executors"]
    assert (lab["machine"], lab["interpreters"]) == ("labpc", 4)
    assert lab["cage"] == ("files" if lab["lacks"] else "full")
    assert nobody["cage"] is None
    assert "127.0.0.1:1" in nobody["why"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    assert all(word in shown for word in ("remarks", lab["cage"], "no answer"))


@pytest.mark.parametrize("verb", ["grant", "export"])
def test_no_key_of_another_home_is_given_away(tmp_path: Path, verb: str) -> None:
    other = tmp_path / "data" / "other" / "grids" / "lab"
    other.mkdir(parents=True)
    with Executors(tmp_path) as grid:
        (other / "executor.pem").write_bytes(grid.identity.read_bytes())
        with pytest.raises(AssertionError, match=rf"cannot {verb} .*data: .*lab/executor.pem is a private key"):
            grid.start("labpc", f"--{verb}", f"{tmp_path / 'data'}:ro")


@pytest.mark.parametrize(
    ("grant", "why"),
    [
        ("{at}", "is no grant: write FOLDER:ro, FOLDER:rw or gpu"),
        ("{at}/nothing:ro", "No such file"),
        ("{at}:ro", "it would give {at}/executor-labpc.pem to users, which is private; name another folder, or move"),
        ("{programs}:ro", "would open each other's"),
    ],
)
def test_a_wrong_grant_is_refused(tmp_path: Path, grant: str, why: str) -> None:
    with Executors(tmp_path) as grid, tempfile.TemporaryDirectory() as programs:
        identity = grid.issue("executor", "labpc")
        command = [PHALANX, "executor", "--listen", "127.0.0.1:0", "--identity", str(identity)]
        words = ["--grant", grant.format(at=tmp_path, programs=programs)]
        env = {**os.environ, "TMPDIR": programs}
        done = subprocess.run([*command, *words], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert why.format(at=tmp_path) in done.stderr
