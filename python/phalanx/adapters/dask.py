"""Dask's collections, computed by a manager: ``dask.compute(x, scheduler=get(manager))``.

Dask has its own loop for graphs (``dask.local.get_async``). The loop knows which task is ready, in which order tasks
need the least memory, and which result no task needs any more. This adapter gives the loop a manager, which fires the
tasks.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any

from phalanx.manager import Manager
from phalanx.security import secure_code, secure_data

try:
    # Task objects have no other home: Dask's own collections take them from there.
    from dask._task_spec import Alias, convert_legacy_graph, cull, fuse_linear_task_spec
    from dask.core import flatten
    from dask.local import get_async
    from dask.utils import ensure_dict
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}: pip install 'phalanx-grid[adapters]'", name=error.name) from None

#: Tasks per interpreter that are with the manager at once: one is computed, one is on its way. With more, Dask would
#: begin tasks that its order leaves for later, and their results would take memory.
AHEAD = 2


def get(manager: Manager) -> Callable[..., Any]:
    """What computes Dask's graphs at the interpreters of ``manager``: for ``scheduler=`` of ``dask.compute``, of a
    collection's ``compute`` and ``persist``, and of ``dask.config.set``.

    Tasks that do not depend on each other are computed side by side, chains of tasks as one. An exception arrives as
    itself with a :class:`phalanx.errors.RemoteTraceback` as its cause, and ends the computation; what was not begun is
    taken back. Of ``compute``'s options, ``num_workers`` is how many tasks are under way at once.

    Parameters
    ----------
    manager : Manager
        The manager whose interpreters compute.

    Returns
    -------
    callable
        A scheduler of Dask.

    Examples
    --------
    >>> import dask
    >>> import phalanx as px
    >>> from phalanx.adapters.dask import get
    >>> with px.Manager(contract=px.ParDegree(1)) as manager:
    ...     dask.delayed(sum)([1, 2, 3]).compute(scheduler=get(manager))
    6
    """

    def compute(graph: Any, keys: Any, num_workers: int | None = None, **options: Any) -> Any:
        calls = _Calls(manager)
        try:
            at_once = num_workers or AHEAD * manager.interpreters
            return get_async(calls.submit, at_once, fused(graph, keys), keys, **{**options, **_OURS})
        finally:
            calls.end()

    return compute


def fused(graph: Any, keys: Any) -> dict[Any, Any]:
    """A graph of Dask, of either kind, as one of Task objects: what ``keys`` need, with chains made one task each."""
    wanted = set(flatten([keys]))
    graph = ensure_dict(graph.__dask_graph__() if hasattr(graph, "__dask_graph__") else graph)
    tasks = {key: _named(task, key) for key, task in convert_legacy_graph(graph).items()}
    fusions: dict[Any, Any] = fuse_linear_task_spec(cull(tasks, wanted), wanted)
    return fusions


def _named(task: Any, key: Any) -> Any:
    """The task under the key that the graph has it at. Some of Dask's aliases are named after what they stand for,
    and fusing goes by names."""
    if task.key == key:
        return task
    named = Alias(key, task.target) if isinstance(task, Alias) else task.copy()
    named.key = key
    return named


class _Calls:
    """The calls of one computation: tasks that are ready, with the results they depend on."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

        @secure_code
        @secure_data  # what a task calls may be marked, and cannot be seen from here
        def fire(task: Any, data: Mapping[Any, Any]) -> tuple[Any, str]:
            return _fire(task, data)

        self._fire = fire  # one for each computation, to be withdrawn alone

    def submit(self, _: object, batch: list[tuple[Any, ...]]) -> Future[Any]:
        """A future of what Dask's own ``batch_execute_tasks`` would give for a batch of a single task."""
        ((key, (task, data), *_),) = batch
        outcome: Future[Any] = Future()
        if _is_here(task):
            fired: Future[Any] = Future()
            fired.set_result((task(data), "the program"))
        else:
            fired = self._manager.submit(self._fire, task, data)

        def settle(fired: Future[Any]) -> None:
            error = CancelledError() if fired.cancelled() else fired.exception()
            outcome.set_result([(key, (error, None) if error else fired.result(), error is not None)])

        fired.add_done_callback(settle)
        return outcome

    def end(self) -> None:
        """Withdraws the tasks that are left."""
        self._manager._submissions.withdraw(self._fire)


def _is_here(task: Any) -> bool:
    """Whether a task only passes on data of this program, or joins the pieces of a collection."""
    function = getattr(task, "func", None)
    module = getattr(function, "__module__", None) or ""
    return isinstance(task, Alias) or (getattr(function, "__name__", "") == "finalize" and module.startswith("dask."))


def _fire(task: Any, data: Mapping[Any, Any]) -> tuple[Any, str]:
    return task(data), f"{socket.gethostname()}/{os.getpid()}"


def _raise(error: BaseException, _: object) -> None:
    raise error


# Arguments of get_async that override Dask's configuration: a batch is one task, and exceptions stay as they came.
_OURS = {"chunksize": 1, "raise_exception": _raise}
