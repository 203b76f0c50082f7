"""What waits behind a long task is taken back while that runs, also where the user's code keeps Python's lock."""

from __future__ import annotations

import ctypes
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import phalanx as px
import pytest

#: So many short tasks come before the long one, and behind it.
BEFORE, BEHIND = 3000, 300
PATIENCE = 60.0


@pytest.fixture
def manager() -> Iterator[px.Manager]:
    with px.Manager(contract=px.ParDegree(2)) as opened:
        yield opened


def waits(path: str, number: int) -> Callable[[int], int]:
    """Returns numbers; the task `number` waits for a lock on the file, without letting any other thread have Python."""

    def fire(given: int) -> int:
        if given == number:
            file = os.open(path, os.O_RDWR)
            ctypes.PyDLL(None).flock(file, fcntl.LOCK_SH)  # PyDLL: with the interpreter's lock held
            os.close(file)
        return given

    return fire


@pytest.mark.parametrize("graph", [False, True], ids=["chain", "graph"])
def test_what_is_behind_a_task_that_holds_python_is_done_elsewhere(
    manager: px.Manager, tmp_path: Path, graph: bool
) -> None:
    file = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    late = threading.Timer(PATIENCE, lambda: fcntl.flock(file, fcntl.LOCK_UN))
    late.start()
    fire = waits(str(tmp_path / "lock"), BEFORE)
    program = px.Map(fire, split=lambda n: [n], join=lambda parts: parts[0]) if graph else px.Farm(fire)
    missing = set(range(BEFORE + 1, BEFORE + 1 + BEHIND))
    results = manager.compute(program, range(BEFORE + 1 + BEHIND), ordered=False)
    got = []
    for result in results:
        got.append(result)
        missing.discard(result)
        if not missing:
            break
    assert late.is_alive(), f"{len(missing)} tasks waited for the one that holds Python"
    late.cancel()
    fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)
    assert sorted([*got, *results]) == list(range(BEFORE + 1 + BEHIND))


def test_each_task_is_begun_once_wherever_it_is_done(manager: px.Manager, tmp_path: Path) -> None:
    """Long tasks among short ones, at places that move: what is given back meanwhile is begun nowhere else."""
    folder = str(tmp_path)

    def fire(task: tuple[int, float]) -> int:
        number, seconds = task
        with open(f"{folder}/{os.getpid()}", "a") as begun:  # noqa: PTH123
            begun.write(f"{number}\n")
        threading.Event().wait(seconds)
        return number

    stream = [(number, 0.1 if number % 97 == 0 else 0.0) for number in range(1000)]
    run = manager.compute(fire, stream, stragglers=False)
    assert list(run) == list(range(1000))
    begun = [int(line) for path in tmp_path.iterdir() for line in path.read_text().split()]
    assert sorted(begun) == list(range(1000))
