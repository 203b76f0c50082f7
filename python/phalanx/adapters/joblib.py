"""joblib's parallel calls, computed by a manager: importing this module makes the backend ``"phalanx"`` known.

``joblib.parallel_config("phalanx")`` computes on this machine, ``joblib.parallel_config("phalanx", where="lab:7400")``
on others, ``joblib.parallel_config("phalanx", manager=manager)`` with a manager that is there already. Interpreters of
a backend's own stay for later calls with the same options (:func:`end_idle` ends them before their time).
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
from phalanx.adapters._kept import end_idle as end_idle
from phalanx.adapters._sources import Source, Use, source
from phalanx.errors import StagingError
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
    raise ModuleNotFoundError(f"{error}: pip install 'phalanx-grid[adapters]'", name=error.name) from None

Callback = Callable[["Future[Any]"], object]

#: What ``Parallel`` tells a backend of its own accord: hints that joblib has looked at itself, and the context of
#: multiprocessing, which is always there; and what is for one call.
TOLD = frozenset({"prefer", "require", "verbose", "context", "max_nbytes", "mmap_mode"})


class PhalanxBackend(ParallelBackendBase):  # type: ignore[misc]
    """A manager as a backend of joblib.

    Parameters
    ----------
    manager
        Whose interpreters compute. Without one, the backend has its own, made with ``options``: those of
        :class:`phalanx.Manager`. Backends with the same options share it, one after the other and at once.
    inner_max_num_threads
        How many threads BLAS and OpenMP use at an interpreter; 1 where the program's environment does not say.
    idle_worker_timeout
        Seconds without a parallel call after which interpreters of its own end, 300 by default. They also end with the
        program, when others with different options are wanted, and by :func:`end_idle`.

    Raises
    ------
    PhalanxError
        For options that cannot be honoured, and for options of a manager that is there already.
    RecruitError, ContractError, IdentityError, PolicyError
        As :class:`phalanx.Manager`.

    Examples
    --------
    >>> import joblib, phalanx.adapters.joblib
    >>> from joblib import Parallel, delayed
    >>> with joblib.parallel_config("phalanx", idle_worker_timeout=60):
    ...     Parallel()(delayed(abs)(number) for number in (-1, -2))
    [1, 2]
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
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
        self._source = source(manager, options)
        if options:
            self._source.manager  # noqa: B018  (what cannot be is said at once)

    @property
    def manager(self) -> Manager:
        """Whose interpreters compute the next call; where they had nothing to do for long, new ones."""
        return self._source.manager

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many batches are computed at once: ``n_jobs``, but not more than there are interpreters. Negative
        numbers are counted from these, so -1 is all of them, and so is None. 1 at an interpreter, unless its call
        names a manager or other machines: every core has its interpreter already."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs == 1 or self._source.is_nested:
            return 1
        interpreters = self.manager.interpreters
        asked = interpreters + 1 + n_jobs if n_jobs is not None and n_jobs < 0 else n_jobs or interpreters
        # joblib computes itself what it takes for one job; but a single interpreter may be a better machine.
        return max(min(asked, interpreters), 2 if interpreters == 1 else 1)

    def get_nested_backend(self) -> tuple[Any, None]:
        """Parallel calls in parallel calls are made one after the other: every core has its interpreter already."""
        return SequentialBackend(nesting_level=(self.nesting_level or 0) + 1), None

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        """Gives each ``Parallel`` a backend of its own, because several may be open at once."""
        manager = options.pop("manager", None)
        options["inner_max_num_threads"] = self.inner_max_num_threads  # parallel_config sets it late
        more = {name: value for name, value in options.items() if name not in TOLD and value is not None}
        checked = source(manager, more)
        one = _OneParallel(self._source.with_options(more) if manager is None else checked, self.nesting_level)
        if one.effective_n_jobs(n_jobs) == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        raise FallbackToBackend(one)


class _OneParallel(AutoBatchingMixin, PhalanxBackend):  # type: ignore[misc]
    """Serves one ``Parallel``, which makes one parallel call at a time."""

    def __init__(self, source: Source, nesting_level: int | None) -> None:
        ParallelBackendBase.__init__(self, nesting_level=nesting_level)
        self.reset_batch_stats()
        self._source = source
        self._loan: Use | None = None
        self._waiting: deque[tuple[Fire, Batch, Callback]] = deque()
        self._sent: set[Future[Any]] = set()

    @property
    def manager(self) -> Manager:
        """Whose interpreters compute the call."""
        return self._source.manager if self._loan is None else self._loan.manager

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
        # Not held, so that the use of the manager ends with the last reference, and not with a garbage collection.
        self.parallel = weakref.proxy(parallel)
        self._threshold = max_nbytes if mmap_mode == "r" and max_nbytes is not None else sys.maxsize
        self._asked = n_jobs
        self._begin()
        return self._n_jobs

    def submit(self, func: Any, callback: Callback) -> None:
        """Computes a batch. The callback gets a future that is done."""
        title = _title(func)
        try:
            batch = Batch(partial(_call, func), title)
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
        """Withdraws the batches that were not begun, and drops the results of running ones. Running batches end now if
        the interpreters belong to the backend; otherwise they run to their end."""
        if self._loan is not None and not all(future.done() for future in self._sent.copy()):
            self._loan.discard()
        self._end()
        if ensure_ready:
            self._begin()

    def stop_call(self) -> None:
        """Removes the data that the calls shared from the interpreters."""
        self._withdraw()
        self._share()

    def terminate(self) -> None:
        """Ends the use of the manager, which stays for the next ``Parallel``."""
        self._end()
        self.reset_batch_stats()

    def _begin(self) -> None:
        self._loan = self._source.borrow()
        self._n_jobs = self.effective_n_jobs(self._asked)
        self._share()

    def _share(self) -> None:
        self._sharing = Sharing(self._threshold)
        # As many jobs as there are interpreters need no limit: the manager knows best how much each is to have ahead.
        fewer = self._n_jobs < self.manager.interpreters
        self._places = Semaphore(self._n_jobs if fewer else sys.maxsize)

    def _end(self) -> None:
        if self._loan is not None:
            self._withdraw()
            self._loan.give_back()
            self._loan = None

    def _withdraw(self) -> None:
        self._waiting.clear()
        for fire in self._sharing.fires:
            self.manager._submissions.withdraw(fire)

    def _send(self) -> None:
        places = self._places
        while self._waiting and places.acquire(blocking=False):
            try:
                fire, batch, callback = self._waiting.popleft()
            except IndexError:  # another thread has sent it
                places.release()
                continue
            try:
                future = self.manager.submit(fire, batch)
            except Exception as error:
                places.release()
                _fail(error, callback)
                return
            self._sent.add(future)
            future.add_done_callback(partial(self._done, places, callback))

    def _done(self, places: Semaphore, callback: Callback, future: Future[Any]) -> None:
        self._sent.discard(future)
        places.release()
        self._send()
        callback(future)


def _fail(error: Exception, callback: Callback) -> None:
    """Makes an error an outcome: raised in the thread where joblib sends its later batches it would reach nobody."""
    future: Future[Any] = Future()
    future.set_exception(error)
    callback(future)


def _call(batch: Callable[[], Any]) -> Any:
    """Calls a batch. Named in what travels, so that an interpreter imports this module, and its joblib knows the
    backend where a call names it."""
    return batch()


def _title(batch: Any) -> str:
    """What messages call a batch: how many calls of which functions."""
    names = sorted({getattr(function, "__qualname__", type(function).__qualname__) for function, _, _ in batch.items})
    return f"{len(batch.items)} calls of {', '.join(names)}" if len(batch.items) > 1 else f"a call of {names[0]}"


register_parallel_backend("phalanx", PhalanxBackend)
