"""``eval``: a tuple that an interpreter computes before it is put into the space (paper 002, section 1)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from phalanx.errors import ProgramError
from phalanx.manager import Manager

_log = logging.getLogger("phalanx")

Put = Callable[[tuple[Any, ...]], None]


class Evaluations:
    """Calls whose results are put as tuples. ``executor``: makes the calls. None: a manager for this machine makes
    them; it is created at the first call."""

    def __init__(self, executor: Executor | None) -> None:
        self._executor = executor
        self._own: Manager | None = None
        self._lock = threading.Lock()

    def begin(self, put: Put, function: Callable[..., Any], args: tuple[Any, ...]) -> Future[tuple[Any, ...]]:
        """Calls the function and returns a future of the tuple. It is done when the tuple was put."""
        answer: Future[tuple[Any, ...]] = Future()
        answer.set_running_or_notify_cancel()

        def finish(call: Future[Any]) -> None:
            try:
                result = call.result()
                if not isinstance(result, tuple):
                    raise ProgramError(f"eval puts the tuple that a function returns, and {function!r} returned none")
                put(result)
            except BaseException as error:
                _log.warning("an eval of %r put no tuple: %s: %s", function, type(error).__name__, error)
                answer.set_exception(error)
            else:
                answer.set_result(result)

        self._where().submit(function, *args).add_done_callback(finish)
        return answer

    def _where(self) -> Executor:
        if self._executor is not None:
            return self._executor
        with self._lock:
            if self._own is None:
                self._own = Manager()
            return self._own

    def shutdown(self) -> None:
        """Waits for the calls of its own manager and releases the interpreters."""
        if self._own is not None:
            self._own.shutdown(wait=True)

    def close(self) -> None:
        """Ends the calls of its own manager now."""
        if self._own is not None:
            self._own.close()
