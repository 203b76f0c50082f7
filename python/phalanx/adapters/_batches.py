"""Batches of calls on their way to interpreters, and the large arrays that all of them have in common.

Scikit-learn hands the same matrix to every call. A matrix that is sent with each call would cost more than the calls.
So arrays that the first two batches have in common are taken for common to all. They are staged: each interpreter gets
them once, as it gets code.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from phalanx._pickling import dumps_by_value
from phalanx._tokens import LARGE, PROTOCOL
from phalanx.security import secure_code, secure_data

#: Where a buffer lies and how long it is; says what it is for as long as somebody holds it.
Place: TypeAlias = tuple[int, int]
#: Calls a batch. Staged under its identity.
Fire: TypeAlias = Callable[["Batch"], Any]


class Batch:
    """A callable without arguments as one pickle, with the large buffers beside it.

    ``order`` has a number for each buffer, as pickle met them: of a shared one its place among these, else -1.
    """

    def __init__(self, call: Callable[[], Any], title: str) -> None:
        self._title = title
        self.buffers: list[pickle.PickleBuffer] = []
        self.pickled = dumps_by_value(call, PROTOCOL, self._stays_inside)
        self.order = [-1] * len(self.buffers)

    def leave_out(self, shared: dict[Place, int]) -> None:
        """Leaves out the buffers that are staged."""
        self.order = [shared.get(place(buffer), -1) for buffer in self.buffers]
        self.buffers = [buffer for buffer, at in zip(self.buffers, self.order, strict=True) if at < 0]

    def load(self, shared: Sequence[Any], read_only: int) -> Any:
        """The callable again. Buffers of ``read_only`` bytes or more are read-only, because batches might share
        them."""
        own = iter(self.buffers)
        views = (memoryview(next(own) if at < 0 else shared[at]) for at in self.order)
        return pickle.loads(
            self.pickled, buffers=(view.toreadonly() if view.nbytes >= read_only else view for view in views)
        )

    def _stays_inside(self, buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < LARGE:
            return True
        self.buffers.append(buffer)
        return False

    def __repr__(self) -> str:
        return self._title


class Sharing:
    """Finds the large buffers that the batches of one computation share.

    ``threshold``: the fewest bytes of a buffer for which that is worth it. A buffer must not change between batches.
    """

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._first: dict[Place, pickle.PickleBuffer] | None = None
        self._shared: dict[Place, int] = {}
        self.fires = [fire_with((), threshold)]

    def fire(self, batch: Batch) -> Fire:
        """The function that calls the batch, without the shared buffers."""
        large = {place(buffer): buffer for buffer in batch.buffers if buffer.raw().nbytes >= self._threshold}
        if self._first is None:
            self._first = large  # kept, so that nothing else can come to lie there
        elif len(self.fires) == 1 and (common := self._first.keys() & large.keys()):
            self._shared = {each: at for at, each in enumerate(common)}
            self.fires.append(fire_with([self._first[each] for each in common], self._threshold))
        batch.leave_out(self._shared)
        return self.fires[-1]


def fire_with(shared: Sequence[Any], read_only: int) -> Fire:
    """A function that calls a batch. It is a plain function, because these are staged once and not for each call."""

    @secure_code
    @secure_data  # what is inside a batch may be marked, and cannot be seen from here
    def fire(batch: Batch, shared: Sequence[Any] = shared, read_only: int = read_only) -> Any:
        return batch.load(shared, read_only)()

    return fire


def place(buffer: pickle.PickleBuffer) -> Place:
    """Where a buffer lies. Only numpy tells; where it is not loaded, there are no arrays, and none is found twice."""
    raw = buffer.raw()
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return id(buffer), raw.nbytes
    return numpy.frombuffer(raw, numpy.uint8).__array_interface__["data"][0], raw.nbytes
