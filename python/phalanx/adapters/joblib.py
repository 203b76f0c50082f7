"""joblib's parallel calls, computed by a manager: importing this module makes the backend ``"phalanx"`` known.

``joblib.parallel_config("phalanx")`` computes on this machine, ``joblib.parallel_config("phalanx", where="lab:7400")``
on others, ``joblib.parallel_config("phalanx", manager=manager)`` with a manager that is there already.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Semaphore
from typing import Any

from phalanx.adapters._batches import Batch, Fire, Sharing
from phalanx.errors import PhalanxError, StagingError
from phalanx.manager import Manager

try:
    from joblib.parallel import (
        AutoBatchingMixin,
        FallbackToBackend,
        ParallelBackendBase,
        SequentialBackend,
        register_parallel_backend,
    )
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}: pip install 'phalanx[adapters]'", name=error.name) from None

Callback = Callable[["Future[Any]"], object]


class PhalanxBackend(ParallelBackendBase):  # type: ignore[misc]
    """A manager as a backend of joblib.

    ``manager``: whose interpreters compute. Without one, the backend has its own, made with ``options``: those of
    :class:`phalanx.Manager`. It ends when nothing uses the backend any more, as when the ``with`` block of
    ``parallel_config`` is over. Raises what :class:`phalanx.Manager` raises, and PhalanxError for both at once.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        *,
        manager: Manager | None = None,
        **options: Any,
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        if manager is not None and options:
            raise PhalanxError(f"a manager is there already, so {', '.join(options)} cannot be chosen any more")
        self.manager = Manager(**options) if manager is None else manager

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many batches are computed at once: ``n_jobs``, but not more than there are interpreters. Negative
        numbers are counted from these, so -1 is all of them, and so is None."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs == 1:
            return 1
        interpreters = self.manager.interpreters
        asked = interpreters + 1 + n_jobs if n_jobs is not None and n_jobs < 0 else n_jobs or interpreters
        # joblib computes itself what it takes for one job; but a single interpreter may be a better machine.
        return max(min(asked, interpreters), 2 if interpreters == 1 else 1)

    def get_nested_backend(self) -> tuple[Any, None]:
        """Parallel calls in parallel calls are made one after the other: every core has its interpreter already."""
        return SequentialBackend(nesting_level=(self.nesting_level or 0) + 1), None

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        """Sends each ``Parallel`` to a backend of its own: several may be open at once."""
        if self.effective_n_jobs(n_jobs) == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        raise FallbackToBackend(_OneParallel(self.manager, self.nesting_level))


class _OneParallel(AutoBatchingMixin, PhalanxBackend):  # type: ignore[misc]
    """Serves one ``Parallel``, which makes one parallel call at a time."""

    def __init__(self, manager: Manager, nesting_level: int | None) -> None:
        super().__init__(nesting_level=nesting_level, manager=manager)
        self._waiting: deque[tuple[Fire, Batch, Callback]] = deque()

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        max_nbytes: int | None = None,
        mmap_mode: str | None = None,
        **options: Any,
    ) -> int:
        """Makes ready for calls; how many batches are to be computed at once."""
        if mmap_mode not in ("r", "c", None):
            raise ValueError(
                f"interpreters share no memory to write to: mmap_mode={mmap_mode!r} is not 'r', 'c' or None"
            )
        # Not held, so that the manager ends with the last reference to it, and not with a later garbage collection.
        self.parallel = weakref.proxy(parallel)
        self._threshold = max_nbytes if mmap_mode == "r" and max_nbytes is not None else sys.maxsize
        self._n_jobs = self.effective_n_jobs(n_jobs)
        self._begin()
        return self._n_jobs

    def submit(self, func: Any, callback: Callback) -> None:
        """Has a batch computed; the callback gets a future that is done."""
        title = _title(func)
        try:
            batch = Batch(func, title)
            fire = self._sharing.fire(batch)
        except Exception as error:
            unsent = StagingError(f"{title} cannot be pickled: {error}")
            unsent.__cause__ = error
            _fail(unsent, callback)
            return
        self._waiting.append((fire, batch, callback))
        self._send()

    def retrieve_result_callback(self, future: Future[Any]) -> Any:
        """What the batch gave, or raises what it raised."""
        return future.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Takes back what was not begun; what is being computed is computed to its end, and forgotten."""
        self._end()
        if ensure_ready:
            self._begin()

    def stop_call(self) -> None:
        """What the calls shared leaves the interpreters."""
        self._end()
        self._begin()

    def terminate(self) -> None:
        """The manager stays, for the next ``Parallel``."""
        self._end()
        self.reset_batch_stats()

    def _begin(self) -> None:
        self._sharing = Sharing(self._threshold)
        # As many jobs as there are interpreters need no limit: the manager knows best how much each is to have ahead.
        fewer = self._n_jobs < self.manager.interpreters
        self._places = Semaphore(self._n_jobs if fewer else sys.maxsize)

    def _end(self) -> None:
        self._waiting.clear()
        for fire in self._sharing.fires:
            self.manager._submissions.withdraw(fire)

    def _send(self) -> None:
        places = self._places
        while self._waiting and places.acquire(blocking=False):
            try:
                fire, batch, callback = self._waiting.popleft()
            except IndexError:  # another thread sent it
                places.release()
                continue
            try:
                future = self.manager.submit(fire, batch)
            except Exception as error:
                places.release()
                _fail(error, callback)
                return
            future.add_done_callback(partial(self._done, places, callback))

    def _done(self, places: Semaphore, callback: Callback, future: Future[Any]) -> None:
        places.release()
        self._send()
        callback(future)


def _fail(error: Exception, callback: Callback) -> None:
    """Makes an error an outcome: raised in the thread where joblib sends its later batches it would reach nobody."""
    future: Future[Any] = Future()
    future.set_exception(error)
    callback(future)


def _title(batch: Any) -> str:
    """What messages call a batch: how many calls of which functions."""
    names = sorted({getattr(function, "__qualname__", type(function).__qualname__) for function, _, _ in batch.items})
    return f"{len(batch.items)} calls of {', '.join(names)}" if len(batch.items) > 1 else f"a call of {names[0]}"


register_parallel_backend("phalanx", PhalanxBackend)
