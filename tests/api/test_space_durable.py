"""Durable spaces: what out returned from is there, what somebody took is gone, whatever is killed and whenever."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import phalanx as px
import pytest
from api.conftest import Script, said
from phalanx.space import _serve
from skips import require

from laboratory.processes import Process, until

PHALANX = str(Path(sys.executable).with_name("phalanx"))
PROGRAM = Path(__file__).with_name("durable_program.py")
PATIENCE = 60
#: Runs a command that has a small disk of its own at $1, with a file on it that can be removed to make room.
SMALL_DISK = """
mount -t tmpfs -o size=12m none "$1" && head -c 4000000 /dev/zero > "$1/other" && mkdir "$1/spaces" || exit 1
shift && exec "$@"
"""


class Served:
    """A server of durable spaces at a path of its own, which can be started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = f"unix:{folder / 's'}"
        self.space = f"{self.place}/jobs"
        self.processes: list[Process] = []

    def process(self, command: list[str], title: str) -> Process:
        files = self.folder / f"out-{len(self.processes)}"
        files.mkdir()
        env = {**os.environ, "PHALANX_HOME": str(self.folder / "home")}
        self.processes.append(Process(command, title=title, files=files, cwd=self.folder, env=env))
        return self.processes[-1]

    def start(self, *options: str, inside: tuple[str, ...] = ()) -> Process:
        command = [*inside, PHALANX, "space", "serve", "--address", self.place, *options]
        server = self.process(command, "a server of spaces")
        server.line("listening on ", timeout=PATIENCE)
        return server

    def client(self, what: str, number: int) -> Process:
        return self.process([sys.executable, str(PROGRAM), self.space, what, str(self.folder), str(number)], what)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    one = Served(tmp_path)
    yield one
    for process in one.processes:
        process.kill()


def all_are_there(goals: list[tuple[Process, int]]) -> bool:
    return all(len(said(client, "there")) >= goal for client, goal in goals)


def fill(space: px.Space, there: list[int]) -> None:
    """Puts blocks until that fails; the numbers of those that were put."""
    for number in count():
        space.out("block", number, os.urandom(50_000))
        there.append(number)


@pytest.mark.parametrize("seed", range(3))
def test_a_server_that_is_killed_at_any_moment_loses_nothing_and_brings_nothing_back(served: Served, seed: int) -> None:
    moments = random.Random(seed)
    server = served.start()
    putting = [served.client("put", number) for number in range(3)]
    taking = [served.client(what, 0) for what in ("take", "take", "prefetch")]
    for _ in range(6):
        # Some outs of each since the server is there, and then any moment.
        more = moments.randrange(1, 40)
        goals = [(it, len(said(it, "there")) + more) for it in putting]
        done = partial(all_are_there, goals)
        until(done, timeout=PATIENCE, what="outs from all clients")
        server.kill()
        server = served.start()
    (served.folder / "stop").touch()
    for client in [*putting, *taking]:
        assert client.wait(timeout=PATIENCE) == 0, client.report()
    tried = {(number, *serial) for number, it in enumerate(putting) for serial in said(it, "put")}
    promised = {(number, *serial) for number, it in enumerate(putting) for serial in said(it, "there")}
    taken = Counter(job for it in taking for job in said(it, "got"))
    with px.Space(served.space) as space:
        until(lambda: space.info().unacknowledged == 0, timeout=PATIENCE, what="nothing on its way")
        left = Counter(job[1:] for job in space.rd_all("job", int, int))
    everything = taken + left
    assert len(promised) > 100
    assert promised - set(everything) == set(), "lost"
    assert {job: times for job, times in everything.items() if times > 1} == {}, "twice"
    assert set(everything) <= tried


def test_a_server_finds_its_spaces_again_as_they_were(served: Served) -> None:
    server = served.start()
    with px.Space(served.space, durable=True, order="fifo", most_tuples=100) as space:
        space.out("a", 1, key="first", priority=3)
        lease = space.out("a", 2, lease=1000.0)
        space.out("a", 3, label="third")
        space.out("short", lease=0.01)
        assert space.in_("a", 1) == ("a", 1)
        space.out("a", 4, key="first")
        assert lease is not None
        assert lease.renew(2000.0)
    server.kill()
    server = served.start()
    told = subprocess.run([PHALANX, "space", "info", served.space, "--json"], capture_output=True, check=True)
    options = json.loads(told.stdout)["options"]
    assert (options["durable"], options["order"], options["most_tuples"]) == (True, "fifo", 100)
    shown = subprocess.run([PHALANX, "space", "info", served.space], capture_output=True, check=True, text=True)
    assert "on the server's disk" in shown.stdout
    assert "order" in shown.stdout
    assert "fifo" in shown.stdout
    with px.Space(served.space) as space:
        assert list(space.rd_all("a", int)) == [("a", 2), ("a", 3), ("a", 4)]
        assert space.rdp("short") is None
        assert space.rdp("a", int, select=px.key("first")) == ("a", 4)
        assert space.rdp("a", int, select=px.label("third")) == ("a", 3)
        with pytest.raises(px.SpaceError, match="key"):
            space.out("b", key="first")
    # Ended in order, it keeps them too.
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    served.start()
    with px.Space(served.space) as space:
        assert space.count("a", int) == 3


def test_a_commit_that_is_made_again_after_a_restart_says_how_it_ended(served: Served) -> None:
    server = served.start()
    numbers = {"alone": 1 << 100, "prepared": 2, "aborted": 3, "open": 4}
    with px.Space(served.space, durable=True) as space:
        for what, number in numbers.items():
            space.engine.begin(number, 60, False)
            space.engine.out((what,), None, None, None, None, number)
        space.engine.prepare(numbers["prepared"])
        space.engine.prepare(numbers["aborted"])
        space.engine.commit(numbers["alone"])
        space.engine.commit(numbers["prepared"])
        space.engine.abort(numbers["aborted"])
    server.kill()
    for _ in range(2):  # it is kept, not only read
        server = served.start()
        with px.Space(served.space) as space:
            space.engine.commit(numbers["alone"])
            space.engine.commit(numbers["prepared"])
            for what in ("aborted", "open"):
                with pytest.raises(px.TransactionError):
                    space.engine.commit(numbers[what])
            assert sorted(space.rd_all(str)) == [("alone",), ("prepared",)]
        server.kill()


def test_a_full_disk_is_said_and_loses_nothing(served: Served) -> None:
    disk = served.folder / "disk"
    disk.mkdir()
    require("user namespaces")
    inside = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, "sh", str(disk))
    server = served.start("--directory", str(disk / "spaces"), inside=inside)
    with px.Space(served.space, durable=True) as space:
        waiting = space.in_future("never")
        there: list[int] = []
        with pytest.raises(px.SpaceError, match=r"cannot be kept: the store .* cannot be used"):
            fill(space, there)
        assert len(there) > 10
        with pytest.raises(px.SpaceError, match="cannot be kept"):
            waiting.result(timeout=PATIENCE)
        with pytest.raises(px.SpaceError, match="cannot be kept"):
            space.rdp("block", 0, bytes)
    # There is room again: it goes on with all that it had promised, and the one that it had not may be there or not.
    Path(f"/proc/{server.pid}/root{disk}/other").unlink()
    with px.Space(served.space) as again:
        numbers = sorted(block[1] for block in again.rd_all("block", int, bytes))
        assert numbers in (there, [*there, len(there)])
        again.out("block", -1, b"")
        assert again.in_("block", -1, bytes) == ("block", -1, b"")


def test_a_damaged_file_is_said_and_left_alone(served: Served) -> None:
    directory = served.folder / "spaces"
    server = served.start("--directory", str(directory))
    with px.Space(served.space, durable=True) as space:
        space.out_many(("a", number) for number in range(1000))
    server.kill()
    [file] = directory.glob("*.space")
    bad = bytearray(file.read_bytes())
    for at in range(0, len(bad), 97):
        bad[at] ^= 0xFF
    file.write_bytes(bad)
    server = served.start("--directory", str(directory))
    assert "the space jobs was kept, but" in server.stderr()
    with pytest.raises(px.SpaceError, match="cannot be kept"):
        px.Space(served.space, durable=True)
    with px.Space(f"{served.place}/other", durable=True) as other:
        other.out("fine")
    assert file.read_bytes() == bad


def test_a_file_that_is_empty_is_refused_here_too(tmp_path: Path) -> None:
    directory = tmp_path / "dk"
    with px.Space(durable=directory) as space:
        space.out_many(("a", number) for number in range(60))
    file = directory / "space.space"
    file.write_bytes(b"")
    with pytest.raises(px.SpaceError, match="it is empty"):
        px.Space(durable=directory)
    assert file.read_bytes() == b""
    file.unlink()
    with px.Space(durable=directory) as space:
        assert space.count("a", int) == 0


def test_two_servers_do_not_keep_one_space(served: Served) -> None:
    directory = str(served.folder / "spaces")
    served.start("--directory", directory)
    with px.Space(served.space, durable=True) as space:
        space.out("a")
        served.place = f"unix:{served.folder / 'other'}"
        second = served.start("--directory", directory)
        assert "in use by another process" in second.stderr()


def test_a_space_of_ones_own_that_was_kept_with_other_options_is_refused(tmp_path: Path) -> None:
    px.Space(durable=tmp_path, order="fifo").close()
    with pytest.raises(px.SpaceError, match="not made with order='lifo': it has order='fifo'"):
        px.Space(durable=tmp_path, order="lifo")
    with px.Space(durable=tmp_path) as space:
        assert space.info().options["order"] == "fifo"


@pytest.mark.parametrize(
    "words",
    [
        ("create", "--lease", "-1"),
        ("create", "--lease", "nan"),
        ("info", "--rates", "nan"),
    ],
)
def test_no_number_of_seconds_is_a_usage_error(served: Served, words: tuple[str, ...]) -> None:
    command = [PHALANX, "space", words[0], served.space, *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"'{words[1]}'" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_cannot_be_durable_says_so(served: Served, tmp_path: Path) -> None:
    with pytest.raises(px.SpaceError, match="needs a directory"):
        px.Space(durable=True)
    served.start("--space", "jobs")
    with pytest.raises(px.SpaceError, match="is there already, and is not durable"):
        px.Space(served.space, durable=True)
    with pytest.raises(px.SpaceError, match="its server's directory"):
        px.Space(served.space, durable=str(tmp_path))
    with px.Space() as owner:
        place = owner.serve(f"unix:{tmp_path / 'mine'}").rpartition("/")[0]
        with pytest.raises(px.SpaceError):
            px.Space(f"{place}/other", durable=True)


def test_the_directory_of_a_server_is_its_ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path))
    assert _serve.directory_of("0.0.0.0:7407") == tmp_path / "spaces" / "7407"
    assert _serve.directory_of("lab") == tmp_path / "spaces" / "7400"
    assert _serve.directory_of("127.0.0.1:0") is None
    assert _serve.directory_of("unix:/run/a/s") == tmp_path / "spaces" / "%2Frun%2Fa%2Fs"


def test_a_space_of_this_process_is_kept_in_its_directory(tmp_path: Path, script: Script) -> None:
    source = """
        import sys, time
        import phalanx as px

        space = px.Space(durable=sys.argv[1])
        for number in range(100):
            space.out("n", number)
            if number % 2:
                print(space.in_("n", number), flush=True)
        print("ready", flush=True)
        time.sleep(600)
    """
    process = script(source, str(tmp_path / "kept"))
    process.line("ready")
    with pytest.raises(px.SpaceError, match="in use by another process"):
        px.Space(durable=tmp_path / "kept")
    process.kill()
    with px.Space(durable=tmp_path / "kept") as space:
        assert sorted(fields[1] for fields in space.rd_all("n", int)) == list(range(0, 100, 2))
        # Served, it is kept all the same, and who waits is answered.
        with px.Space(space.serve(f"unix:{tmp_path / 's'}")) as reached:
            assert reached.info().options["durable"]
            waiting = reached.in_future("late")
            space.out("late")
            assert waiting.result(timeout=PATIENCE) == ("late",)
    with px.Space(durable=tmp_path / "kept") as space:
        assert space.count("n", int) == 50
        assert space.rdp("late") is None


@pytest.mark.parametrize("closed", ["closed", "left open"])
def test_a_taker_that_ends_while_its_server_is_away_tells_the_next_one(
    served: Served, script: Script, closed: str
) -> None:
    server = served.start()
    with px.Space(served.space, durable=True) as space:
        space.out_many([("job", 1), ("job", 2)])
    source = f"""
        import time
        from pathlib import Path
        import phalanx as px

        space = px.Space({served.space!r})
        unread = space.in_future("job", 2)
        print(*space.in_("job", 1), flush=True)
        while not Path({str(served.folder / "killed")!r}).exists():
            time.sleep(0.01)
        if {closed == "closed"}:
            space.close()
        print("ending", flush=True)
    """
    taker = script(source)
    taker.line("job 1")
    server.kill()
    (served.folder / "killed").touch()
    taker.line("ending")
    served.start()
    assert taker.wait(timeout=PATIENCE) == 0
    with px.Space(served.space) as space:
        info = space.info()
        assert (info.unacknowledged, info.tuples) == (0, 1)
        assert space.inp("job", int) == ("job", 2)


def test_a_taker_that_is_killed_with_its_server_gives_back(served: Served, script: Script) -> None:
    """Nobody can know whether it got the tuple that was on its way: it is there again, after a while."""
    server = served.start()
    with px.Space(served.space, durable=True) as space:
        source = f"""
            import time
            import phalanx as px

            space = px.Space({served.space!r})
            # Taken, and never said to have arrived: as one who dies in between.
            space.engine.begin_wait(("job",), True, (), None, None, None, lambda outcome: print("got", flush=True))
            time.sleep(600)
        """
        taker = script(source)
        until(lambda: space.info().takers == 1, timeout=PATIENCE, what="the taker waits")
        space.out("job")
        taker.line("got")
        assert space.info().unacknowledged == 1
    taker.kill()
    server.kill()
    served.start()
    with px.Space(served.space) as space:
        assert space.info().unacknowledged == 1
        assert space.rdp("job") is None


def test_threads_of_one_connection_share_the_waiting_for_the_disk(served: Served) -> None:
    """Answers of one client do not wait for each other's disk, and each is right."""
    served.start()
    with px.Space(served.space, durable=True) as space:

        def put(number: int) -> None:
            for serial in range(50):
                space.out("n", number, serial)
                assert space.rdp("n", number, serial) is not None
                assert space.in_("n", number, serial) == ("n", number, serial)

        threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: space.info().unacknowledged == 0, timeout=PATIENCE, what="nothing on its way")
        assert space.info().tuples == 0
