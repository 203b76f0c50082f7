"""Steps that a Ctrl-C in the main thread cannot interrupt half-way.

Python looks for signals between bytecodes, never inside one call into C. So what must happen wholly or not at all is
written as iterators over C functions and exhausted in one call; what can be done again is put
back when it is interrupted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, TypeVar

T = TypeVar("T")


def at_once(*steps: Iterable[Any]) -> None:
    """Runs steps, given as iterators over C functions, in one C call. A Ctrl-C comes before all of them or after."""
    deque(chain(*steps), maxlen=0)


def drain(queue: deque[T], work: Callable[[T], None]) -> bool:
    """Does the work for what is in a queue, from which other threads take too; whether there was any. Work that is
    interrupted is put back, to be done again."""
    any_done = False
    while queue:
        hand: list[T] = []
        try:
            try:
                hand.extend(map(deque.popleft, (queue,)))
            except IndexError:  # another thread has taken the entry
                break
            work(hand[0])
            any_done = True
        except BaseException:
            queue.extendleft(hand)
            raise
    return any_done
