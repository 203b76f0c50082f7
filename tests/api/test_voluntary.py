"""Machines whose owners take them back in mid-run: users' work ends there, and goes on elsewhere. Nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import phalanx as px
import pytest
from api.executors import PHALANX, Executors
from conftest import has_ended
from phalanx._voluntary.windows import WindowsSensors
from skips import require

from laboratory import desktop
from laboratory.processes import Process, freeze, thaw, until

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have it

PATIENCE = 90.0
#: Works after a second without a key, on whatever machine the tests run.
WHEN_IDLE = ["--when-idle", "--idle-after", "1s", "--on-battery", "--on-metered", "--nice", "0"]


class Owners(Executors):
    """Executors whose owners have a home folder each, and pause and resume their machines."""

    def home(self, name: str) -> Path:
        return self._folder / f"home-{name}"

    def begin(self, name: str, *options: str, env: dict[str, str] | None = None, interpreters: int = 2) -> str:
        more = {"PHALANX_HOME": str(self.home(name)), **(env or {})}
        return self.start(name, *options, interpreters=interpreters, env=more)

    def say(self, name: str, *words: str) -> str:
        env = {**os.environ, "PHALANX_HOME": str(self.home(name))}
        done = subprocess.run([PHALANX, *words], env=env, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def here(self, name: str) -> dict[str, Any]:
        (executor,) = json.loads(self.say(name, "here", "--json"))["executors"]
        assert executor["is_new"]
        found: dict[str, Any] = executor
        return found

    def await_state(self, name: str, closed: str | None) -> None:
        until(lambda: self.here(name)["closed"] == closed, timeout=PATIENCE, what=f"{name} as {closed or 'open'}")

    def process(self, number: int) -> Process:
        return self.started[number]


@pytest.fixture
def granted(tmp_path: Path) -> Path:
    """A folder that tasks write in."""
    folder = tmp_path / "granted"
    folder.mkdir()
    return folder


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Owners]:
    made = Owners(tmp_path)
    with made:
        yield made


def a_moment(number: int) -> int:
    time.sleep(0.02)
    return number * number


def leaves_its_number(folder: str) -> Any:
    """A task that says which process it is in, and goes on until a file exists."""

    def work(number: int) -> int:
        Path(folder, f"process-{number}-{os.getpid()}").touch()
        deadline = time.monotonic() + 300
        while not Path(folder, "end").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return number

    return work


def processes(folder: Path) -> list[int]:
    """The processes in which tasks have begun."""
    return [int(file.name.split("-")[2]) for file in folder.glob("process-*")]


def working(manager: px.Manager) -> set[str]:
    """The machines at which instructions are fired."""
    return {it.machine for it in manager.summary().interpreters if it.state == "working"}


def test_a_paused_machine_gives_its_work_to_another_one_and_gets_new_work_afterwards(
    grid: Owners, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("\n".join(grid.begin(name) for name in ("near", "far")))
    with px.Manager(px.Hosts(hosts), identity=grid.identity) as manager, ThreadPoolExecutor() as threads:
        results = threads.submit(lambda: list(manager.compute(a_moment, range(3000))))
        until(lambda: len(working(manager)) == 2, timeout=PATIENCE, what="work at both")
        grid.say("near", "pause")
        grid.await_state("near", "its owner has paused it")
        until(lambda: len(working(manager)) == 1, timeout=PATIENCE, what="work at one")
        assert grid.say("near", "resume") == "resumed\n"
        until(lambda: len(working(manager)) == 2, timeout=PATIENCE, what="work at both again")
        assert results.result(PATIENCE) == [number * number for number in range(3000)]


def test_a_program_waits_while_its_only_machine_is_paused_and_blames_no_task(grid: Owners, granted: Path) -> None:
    address = grid.begin("near", "--grant", f"{granted}:rw", interpreters=1)
    with px.Manager(address, identity=grid.identity) as manager, ThreadPoolExecutor() as threads:
        results = threads.submit(lambda: list(manager.compute(leaves_its_number(str(granted)), range(1))))
        for _ in range(4):  # a task that kills three interpreters is a culprit
            before = set(processes(granted))
            (process,) = until(lambda b=before: set(processes(granted)) - b, timeout=PATIENCE, what="a firing")  # type: ignore[misc]
            grid.say("near", "pause")
            until(lambda p=process: has_ended(p), timeout=PATIENCE, what="its end")  # type: ignore[misc]
            grid.await_state("near", "its owner has paused it")
            assert not results.done()
            grid.say("near", "resume")
        (granted / "end").touch()
        assert results.result(PATIENCE) == [0]


def test_a_program_that_begins_at_a_closed_machine_waits_for_it(grid: Owners, tmp_path: Path) -> None:
    address = grid.begin("near")
    grid.say("near", "pause")
    grid.await_state("near", "its owner has paused it")
    journal = tmp_path / "journal.jsonl"
    with (
        px.Manager(address, identity=grid.identity, journal=journal) as manager,
        ThreadPoolExecutor() as threads,
    ):
        result = threads.submit(lambda: list(manager.compute(a_moment, range(10))))
        why = "is closed: its owner has paused it"
        until(lambda: journal.read_text().count(why) > 2, timeout=PATIENCE, what="refusals")
        assert not result.done()
        grid.say("near", "resume")
        assert result.result(PATIENCE) == [number * number for number in range(10)]


def test_a_pause_outlives_a_restart_and_ends_by_itself(grid: Owners) -> None:
    grid.home("near").mkdir()
    told = grid.say("near", "pause", "--for", "1h")
    assert told.startswith("paused until 20")
    grid.begin("near")
    assert grid.process(0).line("closed: ") == "closed: its owner has paused it"
    assert grid.here("near")["closed"] == "its owner has paused it"
    assert grid.say("near", "pause", "--for", "1s").startswith("paused until")
    grid.await_state("near", None)
    assert grid.say("near", "resume") == "this machine was not paused\n"


def test_an_mpi_program_ends_with_the_words_that_the_owner_came_back(grid: Owners, tmp_path: Path) -> None:
    address = grid.begin("near")
    program = tmp_path / "program.py"
    program.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    command = [
        PHALANX,
        "mpirun",
        "--hosts",
        address,
        "--identity",
        str(grid.identity),
        "--no-prefix",
        "-n",
        "2",
        "python",
        str(program),
    ]
    running = Process(command, title="mpirun", files=tmp_path / "mpirun", cwd=tmp_path, env=os.environ)
    until(lambda: len(running.lines()) == 2, timeout=PATIENCE, what="two ranks")
    users = {it["user"]: it["running"][0] for it in grid.here("near")["users"]}
    assert (users["ada"]["what"], users["ada"]["count"]) == ("ranks", 2)
    grid.say("near", "pause")
    assert running.wait(timeout=PATIENCE) == 1
    assert "is lost: its machine was closed: its owner has paused it" in running.stderr()
    assert all(map(has_ended, map(int, running.lines())))
    again = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
    assert again.returncode == 1
    assert "near is closed: its owner has paused it" in again.stderr


def test_copies_end_and_are_refused_while_the_machine_is_closed(grid: Owners, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "file").write_bytes(b"x" * 1000)
    address = grid.begin("near", "--export", f"{tmp_path / 'out'}:rw")
    target = f"{address}:{tmp_path / 'out'}/"
    lab = px.Grid(address, identity=grid.identity)
    lab.copy(tmp_path / "file", target)
    grid.say("near", "pause")
    grid.await_state("near", "its owner has paused it")
    with pytest.raises(px.TransferError, match="this machine is closed: its owner has paused it"):
        lab.copy(tmp_path / "file", target)
    grid.say("near", "resume")
    grid.await_state("near", None)
    lab.copy(tmp_path / "file", target)


def test_the_owner_reads_what_runs_for_whom_and_what_it_has_used(grid: Owners, tmp_path: Path) -> None:
    address = grid.begin("near")
    assert "runs nothing for users" in grid.say("near", "here")

    def burns(seconds: float) -> int:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        return os.getpid()

    with px.Manager(address, identity=grid.identity, contract=px.ParDegree(2)) as manager:
        list(manager.compute(burns, [0.3, 0.3]))
        (user,) = grid.here("near")["users"]
        (row,) = user["running"]
        assert (user["user"], row["what"], row["count"]) == ("ada", "interpreters", 2)
        assert user["processor"] >= 0.5
        assert user["memory"] > 1e6
        assert "ada: 2 interpreters for" in grid.say("near", "here")
    until(lambda: not grid.here("near")["users"][0]["running"], timeout=PATIENCE, what="the end of both")
    assert grid.here("near")["users"][0]["processor"] >= 0.5
    grid.process(0).kill()
    told = json.loads(grid.say("near", "here", "--json"))
    assert told["executors"] == []
    assert told["today"]["ada"]["processor"] >= 0.5, "what it has told before it was killed"
    assert "no executor of this account runs" in grid.say("near", "here")
    grid.begin("near")
    assert json.loads(grid.say("near", "here", "--json"))["today"] == told["today"], "summed once"


def test_a_key_ends_what_users_run_and_without_keys_the_machine_opens(grid: Owners, granted: Path) -> None:
    require("Xvfb", "xdotool")
    with desktop.x_server() as display:
        address = grid.begin("near", *WHEN_IDLE, "--grant", f"{granted}:rw", env=display.env, interpreters=1)
        grid.await_state("near", None)
        with px.Manager(address, identity=grid.identity) as manager, ThreadPoolExecutor() as threads:
            results = threads.submit(lambda: list(manager.compute(leaves_its_number(str(granted)), range(1))))
            (process,) = until(lambda: processes(granted), timeout=PATIENCE, what="a firing")
            display.press_key()
            until(lambda: has_ended(process), timeout=PATIENCE, what="its end")
            (granted / "end").touch()
            assert results.result(PATIENCE) == [0], "after the machine has opened again"
        assert "closed: its owner uses it" in grid.process(0).stderr()


def test_logind_and_network_manager_are_asked_over_the_bus(grid: Owners, tmp_path: Path) -> None:
    require("dbus-daemon")
    with desktop.logind(tmp_path) as bus:
        options = ["--when-idle", "--idle-after", "10s", "--on-battery", "--nice", "0"]
        env = {"DBUS_SYSTEM_BUS_ADDRESS": bus.address, "DISPLAY": "", "WAYLAND_DISPLAY": ""}
        grid.begin("near", *options, env={**env, "DBUS_SESSION_BUS_ADDRESS": ""})
        grid.await_state("near", "its owner uses it")
        since = int((time.clock_gettime(time.CLOCK_MONOTONIC) - 60) * 1e6)
        bus.set("IdleSinceHintMonotonic", "uint64", str(since))
        bus.set("IdleHint", "boolean", "true")
        grid.await_state("near", None)
        with desktop.network_manager(bus, metered=1):
            # A service that was not there is asked again after ten seconds.
            grid.await_state("near", "its network is metered")
            bus.set("IdleHint", "boolean", "false")
            grid.await_state("near", "its owner uses it")


def test_a_desktop_that_hangs_closes_the_machine_until_it_goes_on(grid: Owners) -> None:
    require("Xvfb", "xdotool")
    with desktop.x_server() as display:
        grid.begin("near", *WHEN_IDLE, env=display.env)
        grid.await_state("near", None)
        freeze(display.server)
        blind = "closed: nothing tells whether its owner uses it"
        until(lambda: blind in grid.process(0).stderr(), timeout=PATIENCE, what="the end of trust")
        thaw(display.server)
        grid.await_state("near", None)


class OfWindows:
    """What Windows tells, as a test wants it."""

    def __init__(self) -> None:
        self.last: float | None = 3.0
        self.used = 100.0

    def idle(self) -> float | None:
        return self.last

    def busy(self) -> float:
        return self.used

    def on_battery(self) -> bool:
        return True


def test_the_load_on_windows_is_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    told = OfWindows()
    sensors = WindowsSensors(told)
    assert (sensors.idle(), sensors.load(lambda: 10.0), sensors.on_battery()) == (3.0, None, True)
    now, told.used, told.last = 52.0, 106.0, None
    assert sensors.load(lambda: 14.0) == 1.0  # of 6 s of all, 4 s are the executor's own, in 2 s
    now, told.used = 52.5, 999.0
    assert sensors.load(lambda: 14.0) == 1.0, "it is not measured again within a second"
    assert sensors.idle() is None
