"""Ctrl-C in the middle of a submit or of a wait harms no other call."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import phalanx as px
import pytest
from api import tasks


class Interrupting:
    """Presses Ctrl-C when it is pickled for the first time."""

    pressed = False

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        if not Interrupting.pressed:
            Interrupting.pressed = True
            signal.raise_signal(signal.SIGINT)
        return int, (self.number,)


@pytest.fixture
def alarm() -> Iterator[None]:
    """Lets a timer press Ctrl-C."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_ctrl_c_while_arguments_are_pickled_loses_no_call(manager: px.Manager) -> None:
    futures: list[Future[Any]] = []
    Interrupting.pressed = False
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 it may come with the submit or with the result
        futures.append(manager.submit(tasks.identity, Interrupting(0)))
        futures[0].result(timeout=30)
    futures += [manager.submit(tasks.identity, number) for number in range(len(futures), 20)]
    first = 20 - len(futures)
    assert [future.result(timeout=30) for future in futures] == list(range(first, 20))


def test_ctrl_c_at_any_moment_mixes_no_results_up(manager: px.Manager, alarm: None) -> None:
    futures: list[tuple[int, Future[int]]] = []
    for number in range(200):
        with suppress(KeyboardInterrupt):
            # Once, a little later each time.
            signal.setitimer(signal.ITIMER_REAL, 2e-6 * (number + 1))
            futures.append((number, manager.submit(tasks.double, number)))
            futures[-1][1].result(timeout=30)
        with suppress(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0)
    assert all(future.result(timeout=30) == 2 * number for number, future in futures)
