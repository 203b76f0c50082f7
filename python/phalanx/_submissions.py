"""Single calls as futures: what makes a manager a :class:`concurrent.futures.Executor`."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from types import FunctionType
from typing import Any

from phalanx import _native
from phalanx._stream import pack_task
from phalanx._tokens import pack, unpack

#: Calls are sent this many seconds ahead of the answers; what is not sent yet can be cancelled.
AHEAD = 0.01
SPARE = 2
PATIENCE = 0.2
#: Functions that stay staged.
MOST_STAGED = 64


class Call:
    """Makes a function of any arguments one of a single token."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, token: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        args, kwargs = token
        return self.function(*args, **kwargs)


class Submitted(Future[Any]):
    """A future whose waiting reader collects outcomes itself: one change of threads less on the way."""

    def __init__(self, submissions: Submissions) -> None:
        super().__init__()
        self._submissions = submissions

    def result(self, timeout: float | None = None) -> Any:
        """What the call returned, as :meth:`concurrent.futures.Future.result`."""
        return super().result(self._submissions.collect_for(self, timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the call raised, as :meth:`concurrent.futures.Future.exception`."""
        return super().exception(self._submissions.collect_for(self, timeout))


class _Run:
    """The calls of one staged function."""

    def __init__(self, program: int, run: int) -> None:
        self.program = program
        self.run = run
        self.pending: deque[tuple[Future[Any], tuple[Any, ...]]] = deque()
        self.sent: dict[int, Future[Any]] = {}
        self.fed = 0


class Submissions:
    """The futures of one manager. A thread sets their results; it lives from the first call to the last result."""

    def __init__(self, native: _native.Manager) -> None:
        self._native = native
        self._mailbox = _native.Mailbox()
        self._lock = threading.RLock()
        self._runs: dict[int, _Run] = {}
        self._staged: OrderedDict[Any, _Run] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._shut_down = False
        self._collecting = threading.Lock()
        self._close: Callable[[], None] | None = None

    def submit(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        """A future of the call."""
        future = Submitted(self)
        with self._lock:
            if self._shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            try:
                run = self._run_of(function)
            except Exception as error:
                future.set_exception(error)
                return future
            run.pending.append((future, (args, kwargs)))
            self._send(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._collect, name="phalanx-futures", daemon=True)
                self._thread.start()
        return future

    def shutdown(self, close: Callable[[], None], *, wait: bool, cancel: bool) -> bool:
        """Takes no more calls; true when nothing is left to do, so that the manager can be closed now. Otherwise
        ``close`` is called after the last result."""
        with self._lock:
            self._shut_down = True
            self._close = close
            if cancel:
                for run in self._runs.values():
                    for future, _ in run.pending:
                        future.cancel()
                    run.pending = deque(call for call in run.pending if not call[0].done())
            thread = self._thread
        self._mailbox.nudge()
        if thread is None or not thread.is_alive():
            return True
        if wait and thread is not threading.current_thread():
            thread.join()
        return False

    def _run_of(self, function: Callable[..., Any]) -> _Run:
        from phalanx.manager import stage_code

        # A plain function's code is staged once; what carries state of its own is pickled anew, and staged if changed.
        plain = isinstance(function, FunctionType) and not function.__closure__
        key: Any = function if plain else None
        code = b""
        if key is None or key not in self._staged:
            code = stage_code((Call(function),))
            key = key or code
        run = self._staged.get(key)
        if run is None:
            program = self._native.stage(1, code)
            run = _Run(program, self._native.open(program, False, AHEAD, SPARE, self._mailbox))
            self._staged[key] = self._runs[run.run] = run
            self._unstage_oldest()
        self._staged.move_to_end(key)
        return run

    def _unstage_oldest(self) -> None:
        idle = (key for key, run in self._staged.items() if not run.pending and not run.sent)
        while len(self._staged) > MOST_STAGED and (oldest := next(idle, None)) is not None:
            run = self._staged.pop(oldest)
            del self._runs[run.run]
            self._native.close_run(run.run)
            self._native.forget(run.program)
            idle = (key for key, run in self._staged.items() if not run.pending and not run.sent)

    def _send(self, run: _Run) -> None:
        """Sends pending calls as far as there is room."""
        while run.pending and (room := self._native.room(run.run, 0.0)):
            futures: list[Future[Any]] = []
            tokens: list[Any] = []
            while run.pending and len(futures) < room:
                future, token = run.pending.popleft()
                if future.set_running_or_notify_cancel():
                    futures.append(future)
                    tokens.append(token)
            if futures:
                self._feed(run, futures, tokens)

    def _feed(self, run: _Run, futures: list[Future[Any]], tokens: list[Any]) -> None:
        try:
            packed = pack(tokens) if len(tokens) > 1 else pack_task(tokens[0])
        except Exception as error:
            if len(futures) == 1:
                futures[0].set_exception(error)
                return
            for future, token in zip(futures, tokens):
                self._feed(run, [future], [token])
            return
        for future in futures:
            run.sent[run.fed] = future
            run.fed += 1
        self._native.feed(run.run, packed)

    def collect_for(self, future: Future[Any], timeout: float | None) -> float | None:
        """Collects outcomes until the future is done or ``timeout`` seconds are over; what is left of them. Returns at
        once when another thread does this already: it collects for all."""
        if future.done() or not self._collecting.acquire(blocking=False):
            return timeout
        try:
            end = None if timeout is None else monotonic() + timeout
            while not future.done():
                left = PATIENCE if end is None else min(end - monotonic(), PATIENCE)
                if left <= 0:
                    return 0
                self._handle(self._native.take(self._mailbox, left, True))
            return timeout
        finally:
            self._collecting.release()

    def _collect(self) -> None:
        """Collects what nobody waits for, until the last outcome after the shutdown."""
        while not self._is_finished():
            if outcomes := self._native.take(self._mailbox, PATIENCE, False):
                self._handle(outcomes)
                self._mailbox.nudge()
        if self._close is not None:
            self._close()

    def _is_finished(self) -> bool:
        with self._lock:
            return self._shut_down and not any(run.pending or run.sent for run in self._runs.values())

    def _handle(self, outcomes: list[tuple[int, str, int, Any]]) -> None:
        """Sends what there is room for now, and settles futures."""
        settled = []
        with self._lock:
            for number, kind, first, what in outcomes:
                settled += self._settle(self._runs[number], kind, first, what)
            for run in self._runs.values():
                self._send(run)
            if self._shut_down:
                self._mailbox.nudge()
        for set_outcome, outcome in settled:
            set_outcome(outcome)

    def _settle(self, run: _Run, kind: str, first: int, what: Any) -> list[tuple[Callable[[Any], None], Any]]:
        from phalanx.manager import failure

        if kind == "results":
            return [(run.sent.pop(first + offset).set_result, result) for offset, result in enumerate(unpack(what))]
        if kind in ("raised", "culprit"):
            return [(run.sent.pop(first).set_exception, failure(kind, first, what))]
        lost = [*run.sent.values(), *(future for future, _ in run.pending)]
        run.sent.clear()
        run.pending.clear()
        return [(future.set_exception, failure(kind, first, what)) for future in lost if not future.cancelled()]
