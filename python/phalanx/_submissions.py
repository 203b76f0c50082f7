"""Single calls as futures: what makes a manager a :class:`concurrent.futures.Executor`."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import chain
from time import monotonic
from types import FunctionType
from typing import Any, TypeAlias

from phalanx import _native
from phalanx._outcomes import failure, stage_code, unreadable
from phalanx._stream import pack_task
from phalanx._tokens import pack, unpack

#: Calls are sent this many seconds ahead of the answers; what is not sent yet can be cancelled.
AHEAD = 0.01
SPARE = 2
PATIENCE = 0.2
#: Functions that stay staged.
MOST_STAGED = 64


#: A future, the method that settles it, and that method's argument.
Settled: TypeAlias = tuple[Future[Any], str, Any]


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

    def __init__(self, key: Any, program: int, run: int) -> None:
        self.key = key
        self.program = program
        self.run = run
        self.pending: deque[tuple[Future[Any], tuple[Any, ...]]] = deque()
        self.sent: dict[int, Future[Any]] = {}
        self.fed = 0


class Submissions:
    """The futures of one manager, and its end: interpreters are let go when no future waits for them any more.

    A thread collects what nobody waits for; it lives from the first call to the last result.
    """

    def __init__(self, native: _native.Manager) -> None:
        self._native = native
        self._mailbox = _native.Mailbox()
        self._lock = threading.RLock()
        self._runs: dict[int, _Run] = {}
        self._staged: OrderedDict[Any, _Run] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._shut_down = False
        self._collecting = threading.Lock()
        self._received: deque[tuple[int, str, int, Any]] = deque()
        self._settled: deque[Settled] = deque()
        self._pid = os.getpid()
        self.closed = False
        atexit.register(self._end_with_program)

    def submit(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        """A future of the call."""
        self.check_process()
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

    def shutdown(self, *, wait: bool, cancel: bool = False) -> None:
        """Takes no more calls, and lets the interpreters go after the last result; now if none is due."""
        if os.getpid() != self._pid:
            return  # a copy of the program: what it would end belongs to the original
        with self._lock:
            self._shut_down = True
            cancelled = self._take(pending=True) if cancel else []
            thread = self._thread
        for future in cancelled:
            future.cancel()
            future.set_running_or_notify_cancel()
        self._mailbox.nudge()
        if thread is threading.current_thread():
            return
        if thread is not None and thread.is_alive():
            if not wait:
                return
            thread.join()
        self._end()

    def close(self) -> None:
        """Ends everything now: calls that were not sent are cancelled, those that were raise RuntimeError."""
        self.shutdown(wait=False, cancel=True)
        self._end()
        with self._lock:
            unanswered = self._take(pending=False)
            self._runs.clear()  # answers that arrive yet are nobody's
        for future in unanswered:
            future.set_exception(RuntimeError("this manager is closed"))
        self._mailbox.nudge()

    def check_process(self) -> None:
        """Raises RuntimeError in a process that was forked off the manager's."""
        if os.getpid() != self._pid:
            raise RuntimeError(f"this manager belongs to the process {self._pid}; make one after the fork")

    def _end(self) -> None:
        if os.getpid() == self._pid:
            self.closed = True
            atexit.unregister(self._end_with_program)
            self._native.close()

    def _end_with_program(self) -> None:
        """Waits for what was submitted, as the standard library's executors do; not if Ctrl-C ended the program."""
        if issubclass(getattr(sys, "last_type", None) or Exception, KeyboardInterrupt):
            self.close()
        else:
            self.shutdown(wait=True)

    def _take(self, *, pending: bool) -> list[Future[Any]]:
        """Takes out the futures of all calls that were not sent yet, or of those that were."""
        taken: list[Future[Any]] = []
        for run in self._runs.values():
            taken += (future for future, _ in run.pending) if pending else run.sent.values()
            (run.pending if pending else run.sent).clear()
        return taken

    def _run_of(self, function: Callable[..., Any]) -> _Run:
        # A plain function's code is staged once; what carries state of its own is pickled anew, and staged if changed.
        plain = isinstance(function, FunctionType) and not function.__closure__
        key: Any = function if plain else None
        code = b""
        if key is None or key not in self._staged:
            code = stage_code((Call(function),))
            key = key or code
        run = self._staged.get(key)
        if run is None:
            self._unstage_oldest()
            program = self._native.stage(1, code)
            run = _Run(key, program, self._native.open(program, False, AHEAD, SPARE, self._mailbox))
            self._staged[key] = self._runs[run.run] = run
        self._staged.move_to_end(key)
        return run

    def _unstage_oldest(self) -> None:
        idle = [run for run in self._staged.values() if not run.pending and not run.sent]
        for run in idle[: max(0, len(self._staged) - MOST_STAGED + 1)]:
            self._unstage(run)

    def _unstage(self, run: _Run) -> None:
        del self._staged[run.key], self._runs[run.run]
        self._native.close_run(run.run)
        self._native.forget(run.program)

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
            for future, token in zip(futures, tokens, strict=True):
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
                self._receive(left, eager=True)
                self._handle()
            return timeout
        finally:
            self._collecting.release()

    def _collect(self) -> None:
        """Collects what nobody waits for, until the last outcome after the shutdown."""
        while not self._is_finished():
            self._receive(PATIENCE, eager=False)
            if self._handle():
                self._mailbox.nudge()
        self._end()

    def _is_finished(self) -> bool:
        with self._lock:
            return self._shut_down and not any(run.pending or run.sent for run in self._runs.values())

    def _receive(self, patience: float, *, eager: bool) -> None:
        """Waits for outcomes. In one step of C, so that a Ctrl-C comes before it or after it and loses none."""
        arrived = map(self._native.take, (self._mailbox,), (patience,), (eager,))
        self._received.extend(chain.from_iterable(arrived))

    def _handle(self) -> bool:
        """Sends what there is room for now, and settles futures; whether there were any."""
        with self._lock:
            while self._received:
                number, kind, first, what = self._received[0]
                if number in self._runs:
                    self._settled.extend(self._settle(self._runs[number], kind, first, what))
                self._received.popleft()
            for run in self._runs.values():
                self._send(run)
            if self._shut_down:
                self._mailbox.nudge()
        settled = False
        while (outcome := self._next_settled()) is not None:
            future, method, value = outcome
            getattr(future, method)(value)  # may call the user's code
            settled = True
        return settled

    def _next_settled(self) -> Settled | None:
        try:
            return self._settled.popleft()
        except IndexError:
            return None

    def _settle(self, run: _Run, kind: str, first: int, what: Any) -> list[Settled]:
        if kind == "results":
            objects = unpack(what)
            outcomes = [_read(objects) for _ in range(what[0])]
        elif kind in ("raised", "culprit"):
            outcomes = [("set_exception", failure(kind, first, what))]
        else:
            self._unstage(run)  # a later call tries again to recruit
            waiting = [future for future, _ in run.pending if future.set_running_or_notify_cancel()]
            return [(future, "set_exception", failure(kind, 0, what)) for future in [*run.sent.values(), *waiting]]
        futures = [run.sent.pop(index) for index in range(first, first + len(outcomes))]
        return [(future, *outcome) for future, outcome in zip(futures, outcomes, strict=True)]


def _read(objects: Iterator[Any]) -> tuple[str, Any]:
    try:
        return "set_result", next(objects)
    except Exception as error:
        return "set_exception", unreadable(error)
