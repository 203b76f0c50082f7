"""What the tests compute: plain functions that interpreters import, as those of a user's own module."""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def identity(task: Any) -> Any:
    return task


def double(number: int) -> int:
    return 2 * number


def square(number: int) -> int:
    return number * number


@functools.cache
def remembered_square(number: int) -> int:
    return number * number


def increment(number: int) -> int:
    return number + 1


def negate(number: int) -> int:
    return -number


class Numbers:
    """An object whose method is called elsewhere."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers

    def total(self, more: int) -> int:
        return sum(self.numbers) + more


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def my_pid(_: object) -> int:
    return os.getpid()


def slowly(number: int) -> int:
    """A little longer than nothing, so that other things happen meanwhile."""
    time.sleep(0.002)
    return number


def once_it_exists(path: str) -> str:
    """Waits for a file, for as long as a test may take."""
    deadline = time.monotonic() + 60
    while not Path(path).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        time.sleep(0.002)
    return path


def hold(paths: tuple[str, str]) -> None:
    """Says that it began by making the first file, and waits for the second one."""
    began, end = paths
    Path(began).touch()
    once_it_exists(end)


def divide(numerator: int, denominator: int) -> float:
    return numerator / denominator


def inverse(number: int) -> float:
    return 1 / number


def killed_by(signal_number: signal.Signals) -> None:
    os.kill(os.getpid(), signal_number)
    time.sleep(60)  # a signal may take its time


def end_interpreter(number: int) -> None:
    """Ends the process where a pickle is read, as a crash in C code does; in the tests' own process it only fails."""
    assert "pytest" not in sys.modules, "what ends interpreters was unpickled in the user's program"
    signal.raise_signal(signal.SIGSEGV)  # in this thread, as a crash; os.kill may signal another thread of the process


class FatalState:
    """Ends the process that restores its state."""

    def __getstate__(self) -> int:
        return 5

    def __setstate__(self, number: int) -> None:
        end_interpreter(number)

    def __repr__(self) -> str:
        return "Fatal(5)"


class FatalReduce(FatalState):
    """Ends the process that makes it again."""

    def __reduce__(self) -> Any:
        return end_interpreter, (5,)


def fatal(_: object) -> FatalState:
    return FatalState()
