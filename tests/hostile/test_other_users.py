"""A task of one grid user at an executor reads, ends and hinders nothing of another user's there."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import cloudpickle
import phalanx as px
import pytest
from api.executors import PHALANX, Executors
from hostile import attacker
from hostile.accounts import as_another, not_refused

from laboratory.processes import Process, until

cloudpickle.register_pickle_by_value(attacker)  # executors do not have it
cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECRET = "a result of ada's"


class Site:
    """An executor that ada and bob use."""

    def __init__(self, grid: Executors, address: str) -> None:
        self.grid, self.address = grid, address
        self.identities = {"ada": grid.identity, "bob": grid.user("bob")}

    def manager(self, user: str) -> px.Manager:
        return px.Manager(self.address, identity=self.identities[user], contract=px.ParDegree(1))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Executors(tmp_path_factory.mktemp("users")) as grid:
        address = grid.start("labpc", interpreters=4)
        grid.need_cages()
        yield Site(grid, address)


def keep_result(secret: str) -> tuple[int, int, str]:
    """A task with a file of its own. Returns its process, that of its keeper, and its folder."""
    Path("result").write_text(secret)
    return os.getpid(), os.getppid(), str(Path.cwd())


def attack(processes: list[int], folder: str) -> dict[str, str]:
    """What a task tries against processes, and a folder with a file `result`."""
    found = attacker.on_all([folder, f"{folder}/result"], [], processes)
    found |= attacker.outcomes("all", {"of the account": partial(os.setpriority, os.PRIO_USER, 0, 19)})
    found |= attacker.outcomes("follow", {"a link": partial(follow, f"{folder}/result")})
    # The numbers of open files and the use of processors are no secret of an account, and no cage hides or bounds them.
    known = ("fd", "slow down", "pin")
    return {name: came for name, came in found.items() if name.partition(" ")[2] not in known}


def follow(path: str) -> str:
    """Reads through a link in the task's own folder."""
    Path("planted").symlink_to(path)
    return Path("planted").read_text()


def test_a_task_of_one_user_reaches_nothing_of_anothers(site: Site) -> None:
    with site.manager("ada") as adas, site.manager("bob") as bobs:
        process, keeper, folder = adas.submit(keep_result, SECRET).result(60)
        executor = site.grid.started[0].pid
        tried = bobs.submit(attack, [process, keeper, executor], folder).result(60)
        assert not_refused(tried) == {}
        assert len(tried) > 60
        assert adas.submit(Path.read_text, Path(folder, "result")).result(60) == SECRET
        assert adas.submit(os.getpid).result(60) == process
    with site.manager("bob") as later:  # the executor serves as before
        assert later.submit(len, SECRET).result(60) == len(SECRET)


RANK = """
import os, sys
from pathlib import Path

Path("result").write_text("of ada")
print(os.getpid(), os.getppid(), Path.cwd(), flush=True)
sys.stdin.read()
print(Path("result").read_text())
"""


def test_a_task_of_one_user_reaches_no_rank_of_anothers(site: Site, tmp_path: Path) -> None:
    """Ranks of one program share memory; tasks are outside of it."""
    (tmp_path / "rank.py").write_text(RANK)
    command = [PHALANX, "mpirun", "-n", "1", "--no-prefix", "--hosts", site.address]
    command += ["--identity", str(site.identities["ada"]), str(tmp_path / "rank.py")]
    with (
        site.manager("bob") as bobs,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as ranks,
    ):
        assert ranks.stdin is not None
        assert ranks.stdout is not None
        process, keeper, folder = ranks.stdout.readline().split()
        tried = bobs.submit(attack, [int(process), int(keeper)], folder).result(60)
        assert not_refused(tried) == {}
        assert ranks.communicate(timeout=60)[0] == "of ada\n"
        assert ranks.returncode == 0


def watch(call: str) -> int | None:
    """The error of a system call by which a process is told the names of files that others make."""
    descriptor = getattr(ctypes.CDLL(None, use_errno=True), call)(0)
    return ctypes.get_errno() if descriptor < 0 else None


@pytest.mark.parametrize("call", ["inotify_init", "inotify_init1", "fanotify_init"])
def test_a_task_is_not_told_the_names_of_anothers_shared_memory(site: Site, call: str) -> None:
    """Who knows the name of a segment in /dev/shm can open it, and no cage covers notifications."""
    with site.manager("bob") as bobs:
        assert bobs.submit(watch, call).result(60) in (errno.ENOSYS, errno.EPERM)


def chmod(path: Path) -> None:
    path.chmod(0o4755)


def fchmod(path: Path) -> None:
    with path.open("rb") as opened:
        os.fchmod(opened.fileno(), 0o4755)


def create(path: Path) -> None:
    os.close(os.open(f"{path}.new", os.O_CREAT | os.O_WRONLY, 0o4755))


def make(path: Path) -> None:
    os.mknod(f"{path}.made", stat.S_IFREG | 0o4755)


def lend(how: Callable[[Path], None]) -> tuple[str, str]:
    """A program of the task's that another account may run, and what the attempt to lend it the own account came to."""
    program = Path(shutil.copy("/usr/bin/id", "lent")).absolute()
    tried = attacker.outcome(partial(how, program))
    program.parent.chmod(0o755)
    return tried, str(program)


@pytest.mark.parametrize("how", [chmod, fchmod, create, make])
def test_no_program_of_a_task_runs_as_its_account_for_another(place: Path, how: Callable[[Path], None]) -> None:
    """Another account would be outside of the cage, with all rights of the executor's account."""
    shared = place / how.__name__
    shared.mkdir()
    shared.chmod(0o1777)
    with Executors(shared) as grid:
        address = grid.start("labpc", env={"TMPDIR": str(shared), "XDG_RUNTIME_DIR": ""})
        grid.need_cages()
        with px.Manager(address, identity=grid.identity, contract=px.ParDegree(1)) as manager:
            tried, program = manager.submit(lend, how).result(60)
            assert tried == attacker.REFUSED
            Path(program).parents[1].chmod(0o755)  # which no task can do
            as_another(program)  # it runs, with no rights of the executor's
            assert not [path for path in Path(program).parent.iterdir() if path.stat().st_mode & stat.S_ISUID]


def set_mode(path: str) -> None:
    Path(path).chmod(0o755)


def set_mode_of_opened(path: str) -> None:
    descriptor = os.open(path, os.O_PATH)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(0o755)
    finally:
        os.close(descriptor)


def set_mode_by_link(path: str) -> None:
    link = Path(f"to {Path(path).name}")
    link.symlink_to(path)
    link.chmod(0o755)


def give(path: str) -> None:
    os.chown(path, -1, os.getgid())


def open_to_all(paths: list[str]) -> dict[str, str]:
    """What came of each attempt to open files and folders of the account to other accounts."""
    found: dict[str, str] = {}
    for how in (set_mode, set_mode_of_opened, set_mode_by_link, give):
        found |= attacker.outcomes(how.__name__, {path: partial(how, path) for path in paths})
    return found


def test_a_task_opens_no_file_of_its_account_to_another_account(site: Site) -> None:
    """The other account would read the executor's key, and be that machine."""
    identity = site.grid.issue("executor", "labpc")
    with site.manager("ada") as adas, site.manager("bob") as bobs:
        _, _, folder = adas.submit(keep_result, SECRET).result(60)
        system = [sys.executable, os.__file__]  # a task may read these, and write none of them
        paths = [str(identity), str(identity.parent), folder, f"{folder}/result", *system]
        modes = [Path(path).stat().st_mode for path in paths]
        tried = bobs.submit(open_to_all, paths).result(60)
        assert not_refused(tried) == {}
        assert len(tried) == 4 * len(paths)
        assert [Path(path).stat().st_mode for path in paths] == modes


def copy_about(name: str) -> list[str]:
    """What common ways to copy, pack and unpack make of the modes of a task's own files."""
    Path(name).mkdir()
    program = Path(name, "run")
    program.write_text("#!/bin/sh\necho runs")
    program.chmod(0o750)
    copied = shutil.copy2(program, Path(name, "copied"))
    subprocess.run(["tar", "-cf", "packed.tar", name], check=True)
    shutil.rmtree(name)
    subprocess.run(["tar", "-xpf", "packed.tar"], check=True)
    subprocess.run(["cp", "-a", name, f"{name}.again"], check=True)
    subprocess.run(["install", "-m", "700", copied, "installed"], check=True)
    files = [program, copied, f"{name}.again/copied", "installed"]
    said = subprocess.run(["./installed"], check=True, capture_output=True, text=True).stdout.strip()
    return [*(stat.filemode(Path(file).stat().st_mode) for file in files), said]


def test_a_task_changes_the_modes_of_its_own_files(site: Site) -> None:
    with site.manager("ada") as adas:
        assert adas.submit(copy_about, "tools").result(60) == [*["-rwxr-x---"] * 3, "-rwx------", "runs"]


def computes(site: Site, user: str) -> bool:
    """Whether there is a place for a user."""
    try:
        with site.manager(user) as manager:
            return manager.submit(len, SECRET).result(60) == len(SECRET)
    except px.RecruitError:
        return False


def test_a_frozen_launcher_keeps_no_places(site: Site, tmp_path: Path) -> None:
    """It says nothing more, and does not end."""
    command = [PHALANX, "mpirun", "-n", "4", "--hosts", site.address, "--identity", str(site.identities["ada"])]
    script = ["sh", "-c", "echo up; exec sleep 1000"]
    title = "ada's launcher"
    launcher = Process(
        [*command, "--no-prefix", *script], title=title, files=tmp_path / "ada", cwd=tmp_path, env=os.environ
    )
    try:
        launcher.line("up")
        assert not computes(site, "bob"), "ada has all places"
        os.kill(launcher.pid, signal.SIGSTOP)
        until(partial(computes, site, "bob"), timeout=60, what="a place for bob")
    finally:
        os.kill(launcher.pid, signal.SIGCONT)
        launcher.kill()
