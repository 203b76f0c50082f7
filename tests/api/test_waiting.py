"""Managers that wait for their machines, and say what they wait for."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.executors import Executors

from laboratory.processes import until


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Executors]:
    with Executors(tmp_path) as made:
        yield made


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def free_address(grid: Executors) -> str:
    """An address at which an executor has listened, and nobody does now."""
    address = grid.start("gone")
    grid.started.pop().kill()
    return address


def test_an_executor_that_starts_later_is_waited_for(grid: Executors, caplog: pytest.LogCaptureFixture) -> None:
    address = free_address(grid)
    with ThreadPoolExecutor() as threads:
        made = threads.submit(px.Manager, address, identity=grid.identity, contract=px.ParDegree(1), wait=60)
        until(lambda: told(caplog), timeout=30, what="a word about what is waited for")
        grid.start("labpc", listen=address)
        with made.result(60) as manager:
            assert manager.submit(pow, 2, 5).result() == 32
    assert "waiting for machines, up to " in told(caplog)[0]
    assert f"{address}: no executor listens there" in told(caplog)[0]


def test_machines_that_a_contract_needs_are_waited_for(
    grid: Executors, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    later, now = free_address(grid), grid.start("labpc", interpreters=1)
    (tmp_path / "hosts.txt").write_text(f"{now}\n{later}\n")
    options: dict[str, Any] = {"identity": grid.identity, "contract": px.ParDegree(2)}
    with pytest.raises(px.errors.ContractError, match="2 interpreters were asked for, but the machines offer 1"):
        px.Manager(px.Hosts(tmp_path / "hosts.txt"), **options)
    with ThreadPoolExecutor() as threads:
        made = threads.submit(px.Manager, px.Hosts(tmp_path / "hosts.txt"), wait=60, **options)
        until(lambda: told(caplog), timeout=30, what="a word about what is waited for")
        grid.start("other", listen=later, interpreters=1)
        with made.result(60) as manager:
            assert manager.interpreters == 2
    assert "the machines offer 1" in told(caplog)[0]


def test_places_of_others_are_waited_for_and_the_queue_is_told(
    grid: Executors, caplog: pytest.LogCaptureFixture
) -> None:
    address = grid.start("labpc", interpreters=1)
    with ThreadPoolExecutor() as threads:
        with px.Manager(address, identity=grid.identity) as adas:
            assert adas.submit(pow, 2, 5).result() == 32
            made = threads.submit(px.Manager, address, identity=grid.user("bob"), wait=90)
            line = "1 of 1 places are taken, 1 by another user; "
            until(lambda: any(line in text for text in told(caplog)), timeout=60, what="a word about the queue")
            assert not made.done()
        with made.result(90) as bobs:
            assert bobs.submit(pow, 2, 5).result() == 32


def test_the_error_says_how_long_was_waited(grid: Executors) -> None:
    began = time.monotonic()
    with pytest.raises(px.errors.RecruitError, match=r"waited 1 s in vain: .*no executor listens there"):
        px.Manager(free_address(grid), identity=grid.identity, wait=1)
    assert time.monotonic() - began >= 1
    address = grid.start("labpc", interpreters=1)
    with px.Manager(address, identity=grid.identity) as adas:
        assert adas.submit(pow, 2, 5).result() == 32
        with pytest.raises(px.errors.RecruitError, match="waited 2 s in vain: "):
            px.Manager(address, identity=grid.user("bob"), wait=2)
    until(lambda: "phalanx-tick" not in {it.name for it in threading.enumerate()}, timeout=30, what="its end")


def test_what_no_machine_can_mend_is_told_at_once(grid: Executors) -> None:
    began = time.monotonic()
    with pytest.raises(px.errors.IdentityError):
        px.Manager("127.0.0.1:1", identity="missing.pem", wait=1000)
    with pytest.raises(px.errors.ContractError, match="are more than"):
        px.Manager(contract=px.ParDegree(5000), wait=1000)
    assert time.monotonic() - began < 60
    for wrong in (-1, math.nan, math.inf, "soon", None):
        with pytest.raises(px.errors.ContractError, match="wait is a number of seconds, 0 or more, not"):
            px.Manager(wait=wrong)  # type: ignore[arg-type]


def test_on_this_machine_it_returns_with_the_first_interpreter() -> None:
    with px.Manager(contract=px.ParDegree(1), wait=60) as manager:
        assert any(it.state == "working" for it in manager.summary().interpreters)
        assert list(manager.compute(abs, [-1])) == [1]
