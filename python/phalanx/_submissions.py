"""Single calls as futures: what makes a manager a :class:`concurrent.futures.Executor`."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from hashlib import blake2b
from itertools import chain, count, islice, repeat, starmap
from time import monotonic
from types import FunctionType
from typing import Any, TypeAlias

from phalanx import _native
from phalanx._atomic import at_once, drain
from phalanx._outcomes import is_ctrl_c, read_outcome, stage_code, words
from phalanx._tokens import Code, Token, pack, short
from phalanx.errors import StagingError
from phalanx.security import marks_of

#: Calls are sent this many seconds ahead of the answers; what is not sent yet can be cancelled.
AHEAD = 0.01
SPARE = 2
PATIENCE = 0.2
#: Functions that stay staged, and bytes of their code; what calls are made of stays in any case.
MOST_STAGED = 64
MOST_BYTES = 64 << 20

#: The kind of an outcome, the number of its first call, and what came.
Outcome: TypeAlias = tuple[str, int, Any]


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

    def begin(self) -> bool:
        """Whether the call is to be made: it cannot be cancelled any more. May be asked again."""
        if self._state in ("PENDING", "CANCELLED"):
            return self.set_running_or_notify_cancel()
        return self.running()

    def wake(self) -> None:
        """Wakes who waits for the outcome that is there: a Ctrl-C may have come between."""
        with self._condition:
            self._condition.notify_all()


#: A future, the method that settles it, and that method's argument.
Settled: TypeAlias = tuple[Submitted, str, Any]


class _Run:
    """The calls of one staged function."""

    def __init__(self, key: Any, size: int, program: int, run: int) -> None:
        self.key = key
        self.size = size
        self.program = program
        self.run = run
        self.pending: deque[tuple[Submitted, tuple[Any, ...]]] = deque()
        self.sent: dict[int, Submitted] = {}
        self.numbers = count()
        self.sending = False


class Submissions:
    """The futures of one manager, and its end: interpreters are let go when no future waits for them any more.

    A thread collects what nobody waits for; it lives from the first call to the last result. A Ctrl-C may interrupt
    the main thread anywhere, so what must not come apart is done :func:`at_once`, and the rest can be done again.
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
        self._answers: deque[tuple[list[Submitted], Outcome]] = deque()
        self._settled: deque[Settled] = deque()
        self._pid = os.getpid()
        self.closed = False
        atexit.register(self._end_with_program)

    def submit(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        """A future of the call."""
        self.check_process()
        future = Submitted(self)
        error: Exception | None = None
        try:
            key, code = self._identify(function)
        except Exception as unstaged:
            error = unstaged
        with self._lock:
            if self._shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if error is None:
                run = self._run_of(key, code)
                run.pending.append((future, (args, kwargs)))
                self._send(run)
                self._start_to_collect()
        if error is not None:
            future.set_exception(error)
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
            if future.begin():  # a Ctrl-C came while it was sent
                future.set_exception(RuntimeError("this call was interrupted"))
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
            _settle((future, "set_exception", RuntimeError("this manager is closed")))
        self._mailbox.nudge()

    def withdraw(self, function: Callable[..., Any]) -> None:
        """Takes back the calls of a plain function, and unstages it. What was not begun is never made, what was is made
        for nobody; futures that wait for either are cancelled, or raise RuntimeError."""
        with self._lock:
            run = self._staged.get((function, marks_of(function)))
            if run is None or run.run not in self._runs:  # not staged any more, or everything has ended
                return
            futures = [*run.sent.values(), *(future for future, _ in run.pending)]
            run.pending.clear()
            run.sent.clear()
            self._unstage(run)
        for future in futures:
            if not future.cancel():
                _settle((future, "set_exception", RuntimeError("this call was withdrawn")))
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

    def _take(self, *, pending: bool) -> list[Submitted]:
        """Takes out the futures of all calls that were not sent yet, or of those that were."""
        taken: list[Submitted] = []
        for run in self._runs.values():
            taken += (future for future, _ in run.pending) if pending else run.sent.values()
            (run.pending if pending else run.sent).clear()
        return taken

    def _identify(self, function: Callable[..., Any]) -> tuple[Any, Code | None]:
        """What the function is staged under, and its code if it is not staged yet."""
        # A plain function's code is staged once; what carries state of its own is pickled anew, and staged if changed.
        # What was marked since is staged anew too.
        marks = marks_of(function)
        if not isinstance(function, FunctionType) or function.__closure__:
            code = stage_code((Call(function),))
            return (blake2b(code.pickled).digest(), marks), code
        key = (function, marks)
        return key, None if key in self._staged else stage_code((Call(function),))

    def _run_of(self, key: Any, code: Code | None) -> _Run:
        run = self._staged.get(key)
        if run is None:
            function, marks = key
            code = code or stage_code((Call(function),))  # it was unstaged in this moment
            self._make_room(len(code.pickled))
            marked_code, marked_data = code.marked_code or "code" in marks, code.marked_data or "data" in marks
            program = self._native.stage(1, code.pickled, marked_code, [(marked_data, marked_data)])
            # A call is never made twice only because it takes long: others may come that need the interpreter.
            opened = self._native.open(
                program,
                self._mailbox,
                ordered=False,
                ahead=AHEAD,
                spare=SPARE,
                stragglers=False,
                contract=False,
                size=None,
            )
            run = _Run(key, len(code.pickled), program, opened)
            at_once(map(self._staged.__setitem__, (key,), (run,)), map(self._runs.__setitem__, (run.run,), (run,)))
        self._staged.move_to_end(key)
        return run

    def _make_room(self, size: int) -> None:
        """Unstages idle functions, those not called for longest first, until code of this size has room."""
        held = sum(run.size for run in self._staged.values())
        for run in list(self._staged.values()):
            if len(self._staged) < MOST_STAGED and held + size <= MOST_BYTES:
                return
            if not run.pending and not run.sent:
                held -= run.size
                self._unstage(run)

    def _unstage(self, run: _Run, *others: Iterable[Any]) -> None:
        at_once(map(self._staged.pop, (run.key,)), map(self._runs.pop, (run.run,)), *others)
        self._native.close_run(run.run)
        self._native.forget(run.program)

    def _send(self, run: _Run) -> None:
        """Sends pending calls as far as there is room. They stay pending until that is done."""
        if run.sending:
            return  # pickling an argument made another call
        try:
            run.sending = True
            while run.pending and (room := self._native.room(run.run, 0.0)):
                batch = list(islice(run.pending, room))
                futures, tokens = self._pickle(batch)
                at_once(
                    map(self._native.feed, (run.run,), (pack(tokens),)) if tokens else (),
                    map(run.sent.update, (zip(islice(run.numbers, len(futures)), futures, strict=True),)),
                    starmap(run.pending.popleft, repeat((), len(batch))),
                )
        finally:
            run.sending = False

    def _pickle(self, calls: list[tuple[Submitted, tuple[Any, ...]]]) -> tuple[list[Submitted], list[Token]]:
        """The calls that are to be made, with their arguments as tokens."""
        futures: list[Submitted] = []
        tokens: list[Token] = []
        for future, arguments in calls:
            if not future.begin():
                continue
            try:
                tokens.append(Token(arguments))
                futures.append(future)
            except BaseException as error:
                if is_ctrl_c(error):
                    raise
                unsent = StagingError(f"the task {short(arguments)} cannot be pickled: {words(error)}")
                unsent.__cause__ = error
                self._settled.append((future, "set_exception", unsent))
                self._mailbox.nudge()
        return futures, tokens

    def _start_to_collect(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._collect, name="phalanx-futures", daemon=True)
            thread.start()
            self._thread = thread

    def collect_for(self, future: Future[Any], timeout: float | None) -> float | None:
        """Collects outcomes until the future is done or ``timeout`` seconds are over; what is left of them. Returns at
        once when another thread does this already: it collects for all."""
        if future.done():
            return timeout
        acquired: list[bool] = []
        try:
            acquired.extend(map(self._collecting.acquire, (False,)))  # in one step of C
            if not acquired[0]:
                return timeout
            end = None if timeout is None else monotonic() + timeout
            while not future.done():
                left = PATIENCE if end is None else min(end - monotonic(), PATIENCE)
                if left <= 0:
                    return 0
                self._receive(left, eager=True)
                self._handle()
            return timeout
        finally:
            if any(acquired):
                self._collecting.release()

    def _collect(self) -> None:
        """Collects what nobody waits for, until the last outcome after the shutdown."""
        while not self._is_finished():
            self._receive(PATIENCE, eager=False)
            try:
                if self._handle():
                    self._mailbox.nudge()
            except BaseException:  # sys.exit() in a callback, say: other futures still need this thread
                logging.getLogger("concurrent.futures").exception("exception while settling futures")
        self._end()

    def _is_finished(self) -> bool:
        with self._lock:
            left = self._received or self._answers or self._settled
            return self._shut_down and not left and not any(run.pending or run.sent for run in self._runs.values())

    def _receive(self, patience: float, *, eager: bool) -> None:
        """Waits for outcomes. In one step of C, so that a Ctrl-C comes before it or after it and loses none."""
        arrived = map(self._native.take, (self._mailbox,), (patience,), (eager,))
        self._received.extend(chain.from_iterable(arrived))

    def _handle(self) -> bool:
        """Sends what there is room for now, and settles futures; whether there were any."""
        with self._lock:
            while self._received:
                self._match(*self._received[0])
            for run in list(self._runs.values()):
                if run.pending:
                    self._send(run)
            if self._shut_down:
                self._mailbox.nudge()
        # These two run the user's code, so not under the lock.
        drain(self._answers, self._read)
        return drain(self._settled, _settle)

    def _match(self, number: int, kind: str, first: int, what: Any) -> None:
        """Finds the futures that the first received outcome is for."""
        received = map(deque.popleft, (self._received,))
        run = self._runs.get(number)
        if run is None:
            at_once(received)  # nobody's any more
        elif kind in ("results", "raised", "culprit"):
            indices = range(first, first + (what[0] if kind == "results" else 1))
            answer = ([run.sent[index] for index in indices], (kind, first, what))
            at_once(map(self._answers.append, (answer,)), map(run.sent.pop, indices), received)
        else:
            waiting = [future for future, _ in run.pending if future.begin()]
            answer = ([*run.sent.values(), *waiting], (kind, 0, what))
            # A later call tries again to recruit.
            self._unstage(run, map(self._answers.append, (answer,)), received)

    def _read(self, answer: tuple[list[Submitted], Outcome]) -> None:
        futures, outcome = answer
        self._settled.extend([(future, *read) for future, read in zip(futures, read_outcome(*outcome), strict=False)])


def _settle(outcome: Settled) -> None:
    """Settles a future; may be done again."""
    future, method, value = outcome
    try:
        getattr(future, method)(value)
    except InvalidStateError:
        future.wake()
