"""A user who holds all interpreters of an executor shares them when another comes. No result is lost or altered."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import cloudpickle
import phalanx as px
import pytest
from api.executors import PHALANX, Executors
from conftest import Eventually

from laboratory.processes import Process, until

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have it

# After so long an executor takes the places that it asked for.
PATIENCE = 10.0


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Executors]:
    with Executors(tmp_path) as made:
        yield made


def a_moment(number: int) -> int:
    time.sleep(0.02)
    return number * number


def waits_for(path: str) -> Callable[[int], int]:
    """A task that takes until a file exists."""

    def wait(number: int) -> int:
        until = time.monotonic() + 120
        while not Path(path).exists() and time.monotonic() < until:
            time.sleep(0.02)
        return number * number

    return wait


def working(manager: px.Manager) -> int:
    return sum(it.state == "working" for it in manager.summary().interpreters)


def endless(end: threading.Event) -> Iterator[int]:
    """Numbers until `end` is set."""
    number = 0
    while not end.is_set():
        yield number
        number += 1


@contextmanager
def stream_of(manager: px.Manager, eventually: Eventually, interpreters: int) -> Iterator[None]:
    """A stream that works on all interpreters of an executor. At the end, no result of it is lost or altered."""
    end = threading.Event()
    with ThreadPoolExecutor() as threads:
        stream = threads.submit(lambda: list(manager.compute(a_moment, endless(end))))
        try:
            eventually(lambda: working(manager) == interpreters, what="all interpreters for the stream")
            yield
        finally:
            end.set()
        results = stream.result(60)
        assert results == [number * number for number in range(len(results))]


def test_a_user_who_holds_everything_shares_with_another_and_gets_all_back(
    grid: Executors, eventually: Eventually
) -> None:
    address = grid.start("labpc", interpreters=4)
    with px.Manager(address, identity=grid.identity) as adas:
        with stream_of(adas, eventually, 4):
            began = time.monotonic()
            with px.Manager(address, identity=grid.user("bob")) as bobs:
                first = next(iter(bobs.compute(a_moment, range(1))))
                waited = time.monotonic() - began
                assert (first, waited < PATIENCE) == (0, True), f"bob waited {waited:.1f} s"
                eventually(lambda: (working(adas), working(bobs)) == (2, 2), what="two interpreters for each")
                assert list(bobs.compute(a_moment, range(200))) == [number * number for number in range(200)]
                # The places stay where they are, although both want more.
                assert (working(adas), working(bobs)) == (2, 2)
                assert (adas.summary().lost, bobs.summary().lost) == (0, 0)
            eventually(lambda: working(adas) == 4, what="ada has all again when bob is gone")
        assert adas.summary().lost == 0


def test_what_a_user_does_not_give_back_in_time_is_taken_and_fired_again(
    grid: Executors, tmp_path: Path, eventually: Eventually
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    address = grid.start("labpc", "--grant", f"{shared}:rw", interpreters=2)
    with px.Manager(address, identity=grid.identity) as adas, ThreadPoolExecutor() as threads:
        stream = threads.submit(lambda: list(adas.compute(waits_for(str(shared / "go")), range(20), stragglers=False)))
        eventually(lambda: working(adas) == 2, what="both interpreters for ada")
        with px.Manager(address, identity=grid.user("bob"), contract=px.ParDegree(1)) as bobs:
            assert list(bobs.compute(a_moment, range(50))) == [number * number for number in range(50)]
            assert working(adas) == 1
        (shared / "go").touch()
        assert stream.result(60) == [number * number for number in range(20)]
        summary = adas.summary()
        assert summary.lost == 1
        causes = [it.cause for it in summary.interpreters if it.state == "lost"]
        assert causes == ["was taken by its executor for another user"]
        assert "ada did not give interpreters back in time" in grid.started[0].stderr()


def test_nobody_is_asked_while_another_executor_has_a_free_place(
    grid: Executors, tmp_path: Path, eventually: Eventually
) -> None:
    full, free = grid.start("labpc", interpreters=2), grid.start("labpc2", interpreters=2)
    (tmp_path / "hosts.txt").write_text(f"{full}\n{free}\n")
    with (
        px.Manager(full, identity=grid.identity) as adas,
        stream_of(adas, eventually, 2),
        px.Manager(px.Hosts(tmp_path / "hosts.txt"), identity=grid.user("bob"), contract=px.ParDegree(2)) as bobs,
    ):
        assert list(bobs.compute(a_moment, range(100))) == [number * number for number in range(100)]
        eventually(lambda: working(bobs) == 2, what="both free interpreters for bob")
        assert {it.machine for it in bobs.summary().interpreters} == {free}
        assert working(adas) == 2


def test_users_beyond_the_places_are_told_who_has_them(
    grid: Executors, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    address = grid.start("labpc", interpreters=1)
    with px.Manager(address, identity=grid.identity) as adas:
        assert list(adas.compute(a_moment, range(3))) == [0, 1, 4]
        eventually(lambda: working(adas) == 1, what="the interpreter for ada")
        reason = "all 1 interpreters of this machine are in use, 1 by another user; no other user waits"
        with (
            pytest.raises(px.errors.RecruitError, match=reason),
            px.Manager(address, identity=grid.user("bob")) as bobs,
        ):
            list(bobs.compute(a_moment, range(3)))
        assert working(adas) == 1
        said = "waiting for interpreters: 1 are wanted, 0 are here; {}: 1 of 1 places are taken, 1 by another user;"
        assert any(it.getMessage().startswith(said.format(address)) for it in caplog.records)


def test_a_user_with_twice_the_weight_gets_twice_the_places(grid: Executors, eventually: Eventually) -> None:
    address = grid.start("labpc", "--weight", "bob=2", interpreters=3)
    with px.Manager(address, identity=grid.identity) as adas:
        with (
            stream_of(adas, eventually, 3),
            px.Manager(address, identity=grid.user("bob")) as bobs,
            stream_of(bobs, eventually, 2),
        ):
            eventually(lambda: (working(adas), working(bobs)) == (1, 2), what="two of three places for bob")
        eventually(lambda: working(adas) == 3, what="all places for ada again")


def test_a_launcher_gets_its_share_of_interpreters_that_another_user_has(
    grid: Executors, eventually: Eventually, capfd: pytest.CaptureFixture[str]
) -> None:
    address = grid.start("labpc", interpreters=4)
    with px.Manager(address, identity=grid.identity) as adas:
        with stream_of(adas, eventually, 4):
            bob = grid.user("bob")
            px.mpirun(["sh", "-c", "sleep 1; echo here"], 2, hosts=address, identity=bob)
            output, why = capfd.readouterr(), "2 processes were asked for, but 0 places are free: labpc has 0"
            assert sorted(output.out.splitlines()) == ["[0] here", "[1] here"]
            why += " (4 of 4 places are taken, 4 by another user)"
            assert f"phalanx: {why}; waiting for other users to give places back" in output.err
            eventually(lambda: working(adas) == 4, what="ada has all again when bob's ranks have ended")
            # More than the share is never free while ada computes: told at once.
            with pytest.raises(px.errors.RecruitError, match="3 processes were asked for, but 0 places are free"):
                px.mpirun("true", 3, hosts=address, identity=bob)
            assert "waiting" not in capfd.readouterr().err
        assert adas.summary().lost == 0


def test_interpreters_that_are_not_given_back_are_taken_for_a_launcher(
    grid: Executors, tmp_path: Path, eventually: Eventually
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    address = grid.start("labpc", "--grant", f"{shared}:rw", interpreters=2)
    with px.Manager(address, identity=grid.identity) as adas, ThreadPoolExecutor() as threads:
        stream = threads.submit(lambda: list(adas.compute(waits_for(str(shared / "go")), range(4), stragglers=False)))
        eventually(lambda: working(adas) == 2, what="both interpreters for ada")
        px.mpirun("true", 1, hosts=address, identity=grid.user("bob"))
        (shared / "go").touch()
        assert stream.result(60) == [number * number for number in range(4)]
        assert adas.summary().lost == 1


def test_a_launcher_that_is_interrupted_waits_no_longer(
    grid: Executors, tmp_path: Path, eventually: Eventually
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    address = grid.start("labpc", "--grant", f"{shared}:rw", interpreters=2)
    with px.Manager(address, identity=grid.identity) as adas, ThreadPoolExecutor() as threads:
        stream = threads.submit(lambda: list(adas.compute(waits_for(str(shared / "go")), range(4), stragglers=False)))
        eventually(lambda: working(adas) == 2, what="both interpreters for ada")
        command = [PHALANX, "mpirun", "--hosts", address, "--identity", str(grid.user("bob")), "-n", "1", "true"]
        launcher = Process(command, title="bob's launcher", files=tmp_path / "bob", cwd=tmp_path, env=os.environ)
        until(lambda: "waiting for other users" in launcher.stderr(), timeout=30, what="a launcher that waits")
        launcher.signal(signal.SIGINT)
        assert launcher.wait(timeout=5) == 130, launcher.report()
        (shared / "go").touch()
        assert stream.result(60) == [number * number for number in range(4)]
        eventually(lambda: working(adas) == 2, what="both interpreters for ada, still or again")
        assert adas.summary().lost == 0
