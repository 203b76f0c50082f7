"""Ctrl-C in the middle of a submit or of a wait harms no other call."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import phalanx as px
import pytest
from api import tasks
from phalanx import _atomic, _futures, _mapping, _runs, _submissions

if TYPE_CHECKING:  # scripts of other tests import this module
    from conftest import Eventually

#: Where a Ctrl-C must not tear anything apart.
FILES = {module.__file__ for module in (_futures, _mapping, _runs, _submissions)}


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


def interrupting(moment: int) -> Callable[[FrameType, str, Any], None]:
    """A profiler that interrupts the library at the given one of the moments at which Python looks for a Ctrl-C: when
    a function begins, and when one that is written in C, or a step that is done at once, returns."""
    left = moment

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        name = frame.f_code.co_filename
        if (name in FILES and event in ("call", "c_return")) or (name == _atomic.__file__ and event == "return"):
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

    return look


def test_ctrl_c_while_arguments_are_pickled_loses_no_call(manager: px.Manager) -> None:
    futures: list[Future[Any]] = []
    Interrupting.pressed = False
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 it may come with the submit or with the result
        futures.append(manager.submit(tasks.identity, Interrupting(0)))
        futures[0].result(timeout=30)
    futures += [manager.submit(tasks.identity, number) for number in range(len(futures), 20)]
    first = 20 - len(futures)
    assert [future.result(timeout=30) for future in futures] == list(range(first, 20))


def test_ctrl_c_at_any_moment_neither_loses_results_nor_mixes_them_up(manager: px.Manager) -> None:
    futures: list[tuple[int, Future[int]]] = []
    gc.collect()  # Python ignores what is raised while it collects the manager of a test before
    for moment in range(1, 120):
        with suppress(KeyboardInterrupt):
            try:
                sys.setprofile(interrupting(moment))
                for number in (2 * moment, 2 * moment + 1):
                    futures.append((number, manager.submit(tasks.double, number)))
                futures[-1][1].result(timeout=30)
            finally:
                sys.setprofile(None)
    assert [future.result(timeout=30) for _, future in futures] == [2 * number for number, _ in futures]


def test_ctrl_c_at_any_moment_of_a_wait_loses_no_callback(manager: px.Manager, eventually: Eventually) -> None:
    called: list[Future[int]] = []
    futures: list[Future[int]] = []
    gc.collect()
    for moment in range(1, 80):
        for number in range(20):  # calls in quick succession: the thread that waits settles them itself
            assert manager.submit(tasks.double, number).result(timeout=30) == 2 * number
        futures.append(manager.submit(tasks.double, moment))
        futures[-1].add_done_callback(called.append)
        with suppress(KeyboardInterrupt):
            try:
                sys.setprofile(interrupting(moment))
                futures[-1].result(timeout=30)
            finally:
                sys.setprofile(None)
    assert [future.result(timeout=30) for future in futures] == [2 * moment for moment in range(1, 80)]
    eventually(lambda: len(called) >= len(futures), what="all callbacks")
    assert sorted(map(id, called)) == sorted(map(id, futures)), "each once"
