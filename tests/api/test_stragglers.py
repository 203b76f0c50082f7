"""What one interpreter holds for far too long is fired again where others wait for it; the first result wins."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import phalanx as px
import pytest
from api import tasks
from conftest import Eventually

COUNT = 40


@pytest.fixture
def manager() -> Iterator[px.Manager]:
    with px.Manager(contract=px.ParDegree(2)) as opened:
        yield opened


def once(path: Path, number: int, fault: Callable[[], object]) -> Callable[[int], int]:
    """Doubles numbers; `fault` befalls whoever is the first to be given `number`, and each firing leaves a line."""

    def fire(given: int) -> int:
        with (path / "fired").open("a") as fired:
            fired.write(f"{given}\n")
        if given == number:
            try:
                (path / "first").touch(exist_ok=False)
            except FileExistsError:
                return 2 * given
            fault()
        return tasks.slowly(2 * given)

    return fire


def firings(path: Path) -> list[int]:
    return sorted(map(int, (path / "fired").read_text().split()))


@pytest.mark.parametrize("stream", [list, iter])
@pytest.mark.parametrize("number", [0, COUNT // 2, COUNT - 1])
def test_nobody_waits_for_who_does_not_get_ready(
    manager: px.Manager, tmp_path: Path, eventually: Eventually, number: int, stream: Callable[..., Iterator[int]]
) -> None:
    """The first one that is given the number waits for all results, which wait for the number's."""
    everything = tmp_path / "everything"
    program = once(tmp_path, number, lambda: tasks.once_it_exists(str(everything)))
    assert list(manager.compute(tasks.double, range(4))) == [0, 2, 4, 6]  # both know how long things take
    assert list(manager.compute(program, stream(range(COUNT)))) == [2 * n for n in range(COUNT)]
    assert manager.summary().doubled >= 1
    everything.touch()
    # What comes second is dropped, and who said it works again, after giving up what it had not begun.
    eventually(lambda: len(set(manager.compute(tasks.my_pid, range(20)))) == 2)
    fired = Counter(firings(tmp_path))
    assert (set(fired), fired[number]) == (set(range(COUNT)), 2)
    assert {fired[later] for later in range(number + 1, COUNT)} <= {1}
    assert manager.summary().lost == 0


def test_a_frozen_interpreter_at_the_end_of_a_stream(manager: px.Manager, tmp_path: Path) -> None:
    program = once(tmp_path, COUNT - 1, lambda: os.kill(os.getpid(), signal.SIGSTOP))
    assert list(manager.compute(program, range(COUNT))) == [2 * n for n in range(COUNT)]
    assert manager.summary().doubled >= 1  # with others that it had computed, and not sent yet


def test_functions_that_must_not_run_twice_without_need(manager: px.Manager, tmp_path: Path) -> None:
    program = once(tmp_path, COUNT - 1, lambda: tasks.nap(0.7))
    results = manager.compute(program, range(COUNT), stragglers=False)
    assert list(results) == [2 * n for n in range(COUNT)]
    assert firings(tmp_path) == list(range(COUNT))
    assert manager.summary().doubled == 0


def test_a_single_call_is_made_once(manager: px.Manager, tmp_path: Path) -> None:
    program = once(tmp_path, COUNT - 1, lambda: tasks.nap(0.7))
    assert list(manager.map(program, range(COUNT))) == [2 * n for n in range(COUNT)]
    assert firings(tmp_path) == list(range(COUNT))


def test_a_late_exception_is_raised_once(manager: px.Manager, tmp_path: Path) -> None:
    def late(number: int) -> int:
        if number == COUNT - 1:
            try:
                (tmp_path / "first").touch(exist_ok=False)
                tasks.nap(0.5)
            except FileExistsError:
                pass
            raise ValueError(number)
        return tasks.slowly(number)

    results = manager.compute(late, range(COUNT))
    with pytest.raises(ValueError, match=str(COUNT - 1)):
        list(results)
    assert manager.summary().tasks == COUNT
