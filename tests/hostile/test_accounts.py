"""An executor of root gives each grid user an account: what one user runs and keeps is closed to the others.

Without a cage for files too, so that accounts alone keep users apart.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import dedent

import cloudpickle
import numpy as np
import phalanx as px
import pytest
from api.executors import PHALANX, Executors
from hostile import attacker
from hostile.accounts import not_refused
from phalanx._accounts import read_accounts

from laboratory.processes import until

cloudpickle.register_pickle_by_value(attacker)  # executors do not have it
cloudpickle.register_pickle_by_value(sys.modules[__name__])
#: Accounts that nothing else has, not even another run of the tests: two for each executor.
FIRST = 400_000_000 + os.getpid() % 1_000_000 * 100
SECRET = "a result of ada's"
#: Opens paths to other accounts in a mount namespace, though a folder above them is closed, and becomes the command.
OPENED = """
set -e
closed=$1 held=$2
shift 2
mkdir -p "$held"
number=0
for path in $PATHS; do
    number=$((number + 1))
    mkdir -p "$held/$number"
    mount --bind "$path" "$held/$number"
done
mount -t tmpfs -o mode=0755 tmpfs "$closed"
number=0
for path in $PATHS; do
    number=$((number + 1))
    mkdir -p "$path"
    mount --bind "$held/$number" "$path"
done
exec "$@"
"""


def opening(place: Path) -> list[str]:
    """The words before a command by which other accounts can read Python and phalanx; none where they can anyway."""
    needed = [Path(sys.base_prefix).resolve(), Path(px.__file__).resolve().parents[2]]
    around = [folder for path in needed for folder in reversed(path.parents) if not folder.stat().st_mode & 1]
    if not around:
        return []
    paths = " ".join(str(path) for path in needed if path.is_relative_to(around[0]))
    script = ["sh", "-c", OPENED, "sh", str(around[0]), str(place / "held")]
    return ["env", f"PATHS={paths}", "unshare", "--mount", *script]


class Site:
    """An executor of root with two accounts."""

    def __init__(self, place: Path, first: int, *options: str) -> None:
        self.first, self.shared, self.home = first, place / "tmp", place / "home"
        for folder in (self.shared, place / "open"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o1777)
        (place / "open" / "closed").mkdir(mode=0o700, exist_ok=True)
        self.closed = place / "open" / "closed"
        self.env = {"TMPDIR": str(self.shared), "PHALANX_HOME": str(self.home), "PHALANX_ALLOW_ROOT": ""}
        self.grid = Executors(place, opening(place))
        grant = ["--grant", f"{place / 'open'}:rw"]
        self.words = ["--accounts", f"{first}-{first + 1}", *grant, *options]
        self.address = self.grid.start("labpc", *self.words, interpreters=8, env=self.env)
        self.identities = {"ada": self.grid.identity} | {name: self.grid.user(name) for name in ("bob", "eve")}

    def manager(self, user: str, degree: int = 1) -> px.Manager:
        return px.Manager(self.address, identity=self.identities[user], contract=px.ParDegree(degree))

    def processes(self) -> list[str]:
        """Those of the accounts."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if folder.stat().st_uid in (self.first, self.first + 1):
                    found.append(folder.name)
        return found


@pytest.fixture(scope="module", params=["none", "most"])
def site(request: pytest.FixtureRequest, place: Path) -> Iterator[Site]:
    folder = place / request.param
    folder.mkdir(mode=0o755)
    is_none = request.param == "none"
    made = Site(folder, FIRST if is_none else FIRST + 10, *(["--cage", "none"] if is_none else []))
    with made.grid:
        with made.manager("ada") as manager:  # ada gets the first account
            assert manager.submit(os.getuid).result(60) == made.first
        yield made


def keep_result(secret: str) -> tuple[int, int, str]:
    """A task with a file of its own. Returns its process, that of its keeper, and its folder."""
    Path("result").write_text(secret)
    return os.getpid(), os.getppid(), str(Path.cwd())


def attack(processes: list[int], folder: str) -> dict[str, str]:
    """What a task tries against processes, and a folder with a file `result`."""
    found = attacker.on_all([folder, f"{folder}/result"], [], processes)
    return found | attacker.outcomes("follow", {"a link": partial(follow, f"{folder}/result")})


def follow(path: str) -> str:
    """Reads through a link in the task's own folder."""
    Path("planted").symlink_to(path)
    return Path("planted").read_text()


def test_a_task_of_one_user_reaches_nothing_of_anothers(site: Site) -> None:
    with site.manager("ada") as adas, site.manager("bob") as bobs:
        process, keeper, folder = adas.submit(keep_result, SECRET).result(60)
        executor = site.grid.started[0].pid
        tried = bobs.submit(attack, [process, keeper, executor], folder).result(60)
        # The numbers of a process's open files, which a cage shows, are no secret; without one they are closed too.
        assert not_refused(tried) == {}
        assert len(tried) > 60
        assert adas.submit(Path.read_text, Path(folder, "result")).result(60) == SECRET
        assert adas.submit(os.getpid).result(60) == process


def identity() -> tuple[object, ...]:
    """What a task is, and what it makes."""
    Path("made").write_text("")
    owners = [(path.stat().st_uid, path.stat().st_gid) for path in (Path("made"), Path())]
    status = Path("/proc/self/status").read_text()
    rights = [line.split()[1] for line in status.splitlines() if line.startswith(("CapEff", "NoNewPrivs"))]
    names = (os.environ["USER"], os.environ["HOME"] == str(Path.cwd()))
    return os.getresuid(), os.getresgid(), os.getgroups(), owners, rights, names


def test_a_task_and_its_files_are_the_accounts_and_have_no_other_rights(site: Site) -> None:
    for user, account in (("ada", site.first), ("bob", site.first + 1)):
        with site.manager(user) as manager:
            users, groups, further, owners, rights, names = manager.submit(identity).result(60)
        assert (users, groups, further) == ((account,) * 3, (account,) * 3, [])
        assert owners == [(account, account)] * 2
        assert rights == ["0" * 16, "1"]
        assert names == (user, True)


def test_large_arrays_come_and_go(site: Site) -> None:
    arrays = [np.full(1 << 17, number, np.float64) for number in range(20)]
    with site.manager("ada", degree=2) as manager:
        for number, result in enumerate(manager.compute(np.negative, arrays)):
            assert result.nbytes == 1 << 20
            assert (result == -number).all()


RANK = """
    import os
    from pathlib import Path
    from phalanx import bsp

    with bsp.begin():
        bsp.send(1 - bsp.pid(), bytes([bsp.pid()]) * (8 << 20))
        bsp.sync()
        (message,) = bsp.messages()
        with open("/dev/stdout", "w") as again:
            owners = {path.stat().st_uid for path in (Path("part/data"), Path("part"), Path())}
            print(os.getuid(), owners, len(message.payload), message.payload[0], file=again)
"""


def test_ranks_have_the_account_and_share_memory(site: Site, tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(dedent(RANK))
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "data").write_text("")
    done = px.mpirun(
        "rank.py",
        n=2,
        hosts=site.address,
        identity=site.identities["ada"],
        cwd=tmp_path,
        files=["part/data"],
        capture_output=True,
        timeout=120,
    )
    said = [f"{site.first} {{{site.first}}} {8 << 20} {1 - rank}\n" for rank in range(2)]
    assert [rank.stdout for rank in done.ranks] == said


def test_a_user_for_whom_no_account_is_left_is_refused_and_others_are_served(site: Site) -> None:
    for user in ("ada", "bob"):
        with site.manager(user) as manager:
            manager.submit(os.getpid).result(60)
    with (
        pytest.raises(px.errors.PhalanxError, match=rf"all 2 accounts .*--accounts {site.first}-{site.first + 1}"),
        site.manager("eve") as manager,
    ):
        manager.submit(os.getpid).result(60)
    with site.manager("ada") as manager:
        assert manager.submit(os.getuid).result(60) == site.first


def test_the_modes_of_what_is_granted_count(site: Site) -> None:
    with site.manager("ada") as adas, site.manager("bob") as bobs:
        with pytest.raises(PermissionError, match=f"tasks run under account {site.first} on labpc"):
            adas.submit(os.listdir, str(site.closed)).result(60)
        shared = site.closed.parent / "of ada"
        adas.submit(Path.write_text, shared, SECRET).result(60)
        adas.submit(os.chmod, str(shared), 0o600).result(60)
        with pytest.raises(PermissionError, match=f"tasks run under account {site.first + 1} on labpc"):
            bobs.submit(Path.read_text, shared).result(60)
    assert shared.stat().st_uid == site.first
    shared.unlink()


def test_nothing_is_left_of_a_program(site: Site) -> None:
    with site.manager("ada") as manager:
        manager.submit(keep_result, SECRET).result(60)
        assert site.processes()
    until(lambda: not site.processes(), timeout=30, what="the end of the account's processes")
    until(lambda: not list(site.shared.iterdir()), timeout=30, what="the end of the program's folder")


def test_a_user_sees_that_users_have_accounts(site: Site, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(f"labpc = {site.address}\n")
    command = [PHALANX, "explain", str(hosts), "--ask", "--identity", str(site.identities["bob"]), "--json"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    (executor,) = json.loads(told.stdout)["executors"]
    assert executor["accounts"] is True
    assert site.grid.started[0].line("cage: ").startswith(f"cage: {executor['cage']} with accounts")


def refusal(place: Path, *words: str, env: dict[str, str] | None = None, before: tuple[str, ...] = ()) -> str:
    """What an executor complains about that does not start."""
    identity = Executors(place).issue("executor", "labpc")
    if before:
        os.chown(identity, attacker.ACCOUNT, attacker.ACCOUNT)
    command = [*opening(place), *before, PHALANX, "executor", "--listen", "127.0.0.1:0", "--identity", str(identity)]
    own = {**os.environ, "PHALANX_ALLOW_ROOT": "", "TMPDIR": str(place), "PHALANX_HOME": str(place), **(env or {})}
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60, env=own)
    assert done.returncode == 1 + ("Usage: " in done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_an_executor_of_root_says_what_to_write(place: Path) -> None:
    refused = refusal(place)
    assert "this executor runs as root" in refused
    assert "--accounts FIRST-LAST" in refused
    assert "--allow-root" in refused


@pytest.mark.parametrize("word", ["5", "0-9", "9-7", "1-4294967295"])
def test_a_wrong_range_is_refused(place: Path, word: str) -> None:
    assert "write FIRST-LAST, like 1900000000-1900000031" in refusal(place, "--accounts", word)


def test_accounts_that_somebody_has_are_refused(place: Path) -> None:
    assert "name accounts that nothing else on this machine has" in refusal(place, "--accounts", "65530-65540")


def test_accounts_of_somebodys_containers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "subuid"
    given.write_text("ada:100000:65536\nnonsense\nphalanx:1900000000:32\n")
    monkeypatch.setattr("phalanx._accounts._SUBORDINATE", (tmp_path / "none", given))
    for word in ("100000-100031", "99999-100000", "165535-165535"):
        with pytest.raises(ValueError, match=r"gives 100000 to 165535 to the containers of ada"):
            read_accounts(word)
    assert read_accounts("165536-165540") == (165536, 165540)
    assert read_accounts("1900000000-1900000031") == (1900000000, 1900000031)


def test_accounts_need_root(place: Path) -> None:
    account = str(attacker.ACCOUNT)
    other = ("setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups")
    assert "--accounts needs root" in refusal(place, "--accounts", f"{FIRST + 20}-{FIRST + 21}", before=other)


def test_a_folder_that_the_accounts_cannot_read_is_named(place: Path) -> None:
    closed = place / "packages"
    closed.mkdir(mode=0o700)
    said = refusal(place, "--accounts", f"{FIRST + 30}-{FIRST + 31}", env={"PYTHONPATH": str(closed)})
    assert f"account {FIRST + 30} cannot open {closed}, which interpreters need" in said


def test_two_executors_share_no_account(site: Site, place: Path) -> None:
    said = refusal(place, "--accounts", f"{site.first + 1}-{site.first + 5}")
    assert "another executor of this machine has some of the accounts" in said


def test_what_a_killed_executor_left_is_gone_after_the_next_start(place: Path) -> None:
    folder = place / "killed"
    folder.mkdir(mode=0o755)
    made = Site(folder, FIRST + 40)
    with made.grid:
        with suppress(px.PhalanxError), made.manager("ada") as manager:
            _, _, left = manager.submit(keep_result, SECRET).result(60)
            made.grid.started[0].kill()
        until(lambda: not made.processes(), timeout=60, what="the end of the account's processes")
        assert Path(left).stat().st_uid == made.first, "nobody was there to remove it"
        # A folder that was made a moment ago may belong to an executor that starts.
        long_ago = Path(left).stat().st_mtime - 3600
        os.utime(left, (long_ago, long_ago))
        made.grid.start("next", *made.words, env=made.env)
        # A thread of the executor cleans: a killed one may have left gigabytes.
        until(lambda: list(made.shared.iterdir()) == [], timeout=60, what="the end of what was left")
        assert not Path(left).exists()
