"""Single calls as futures, and maps: they make a manager a :class:`concurrent.futures.Executor`."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import chain
from time import monotonic, perf_counter, sleep
from typing import Any, TypeAlias

from phalanx import _native
from phalanx._atomic import at_once, drain
from phalanx._call import arguments_of, token_of
from phalanx._futures import Submitted
from phalanx._mapping import Mapped, at_hand
from phalanx._outcomes import SETTLING, name_of, read_outcome
from phalanx._runs import GAP, PAUSE, Calls, Program, Run
from phalanx._staging import code_of, identify, stage
from phalanx._tokens import UNKNOWN, Code, unpack
from phalanx.firing import Given, unwrapped
from phalanx.security import marks_of

#: Interval in seconds at which a thread that waits for outcomes checks the state.
PATIENCE = 0.2
#: Maximum bytes of a pickled result that is unpickled under the lock. That takes about 10 µs.
SMALL = 64 << 10
#: Maximum number of idle functions that stay staged, and maximum bytes of their code. A function with calls under way
#: always stays.
MOST_STAGED = 64
MOST_BYTES = 64 << 20

#: The kind of an outcome, the number of its first call, and its content.
Outcome: TypeAlias = tuple[str, int, Any]
#: Futures, each with the result and the exception of its call.
Settled: TypeAlias = list[tuple[Submitted, tuple[Any, BaseException | None]]]


class Submissions:
    """The futures and maps of one manager, and its shutdown: interpreters are released when no call needs them any
    more.

    A thread collects the outcomes for which no other thread waits. It lives from the first call to the last result. A
    Ctrl-C may interrupt the main thread anywhere. So changes that belong together are made :func:`at_once`, and all
    other steps can be repeated.
    """

    def __init__(self, native: _native.Manager, at_end: Callable[[], None] | None = None) -> None:
        self._native, self._at_end = native, at_end
        self._mailbox = _native.Mailbox()
        self._lock = threading.RLock()
        self._runs: dict[int, Run] = {}
        self._staged: OrderedDict[Any, Calls] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._shut_down = False
        self._collecting = threading.Lock()
        #: When a thread that waits for a result last received outcomes.
        self._awaited = 0.0
        self._received: deque[tuple[int, str, int, Any]] = deque()
        self._answers: deque[tuple[list[Submitted], Outcome, str]] = deque()
        self._settled: deque[Settled] = deque()
        self._to_call_back: deque[Submitted] = deque()
        self._pid = os.getpid()
        self.closed = False
        atexit.register(self._end_with_program)

    def submit(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Submitted:
        """A future of the call."""
        if os.getpid() != self._pid:
            self.check_process()
        future = Submitted(self)
        try:
            key, code = identify(function, self._staged)
        except Exception as unstaged:
            self._check_not_shut_down()
            future.set_exception(unstaged)
            return future
        with self._lock:
            if self._shut_down:
                self._check_not_shut_down()
            is_held = self._calls_of(function, key, code).add(future, token_of(args, kwargs))
            if self._thread is None:
                self._start_to_collect()
        if is_held:
            self._mailbox.nudge()  # the collecting thread sends this call if no others follow
        return future

    def map(
        self,
        function: Callable[..., Any],
        iterables: tuple[Iterable[Any], ...],
        timeout: float | None,
        most: int | None = None,
    ) -> Generator[Any, None, None]:
        """The results of the function for the first items of all iterables, for the second ones, and so on. At most
        ``most`` calls travel together."""
        end = None if timeout is None else timeout + monotonic()
        self.check_process()
        ready = at_hand(iterables)
        tasks: Iterator[tuple[Any, ...]] = zip(*iterables, strict=False) if ready is None else ready
        first = next(tasks, None)
        if first is None:
            return _no_results()
        self._check_not_shut_down()
        tasks = chain((first,), tasks)
        try:
            key, code = identify(function, self._staged)
        except Exception as unstaged:
            return _no_results(unstaged)
        with self._lock:
            self._check_not_shut_down()
            mapped = self._open_map(self._calls_of(function, key, code).program, most)
            if self._thread is None:
                self._start_to_collect()
        try:
            if ready is None:
                self._read(mapped, tasks)
            else:
                with self._lock:
                    mapped.take_all(tasks)
                    mapped.send()
        except BaseException as error:
            if not isinstance(error, Exception):  # Ctrl-C. After an iterable's error the calls go on, as in Executor
                self._close_map(mapped)
            raise
        return mapped.results(lambda: self._wait_for(mapped, end), lambda: self._close_map(mapped))

    def shutdown(self, *, wait: bool, cancel: bool = False) -> None:
        """Takes no more calls, and releases the interpreters after the last result; at once if none is due."""
        if os.getpid() != self._pid:
            return  # a forked child: the manager belongs to the parent
        with self._lock:
            self._shut_down = True
            cancelled = self._take(pending=True) if cancel else []
            for mapped in self._maps() if cancel else ():
                mapped.cancel()
            thread = self._thread
        for future in cancelled:
            future.cancel()
            if future.begin():  # it could not be cancelled, because a Ctrl-C came while it was sent
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
        """Ends everything now. Calls that were not sent are cancelled. Calls that were sent raise RuntimeError."""
        self.shutdown(wait=False, cancel=True)
        self._end()
        with self._lock:
            unanswered = self._take(pending=False)
            for mapped in self._maps():
                mapped.end(RuntimeError("this manager is closed"))
            self._runs.clear()  # later answers are ignored
        for future in unanswered:
            self._fail(future, RuntimeError("this manager is closed"))
        self._settle_all()
        self._mailbox.nudge()

    def withdraw(self, function: Callable[..., Any]) -> None:
        """Withdraws the calls of a plain function and unstages it. Calls that were not begun are never made. The
        results of begun calls are dropped. The futures of both are cancelled, or raise RuntimeError."""
        with self._lock:
            calls = self._staged.get((function, marks_of(function), Given()))
            if calls is None or calls.number not in self._runs:  # not staged any more, or everything has ended
                return
            futures = [*calls.sent.values(), *(future for future, _ in calls.pending)]
            calls.pending.clear()
            calls.sent.clear()
            self._unstage(calls)
        for future in futures:
            if not future.cancel():
                self._fail(future, RuntimeError("this call was withdrawn"))
        self._settle_all()
        self._mailbox.nudge()

    def names(self) -> dict[int, str]:
        """What the open runs compute, by their numbers. Any thread may ask."""
        return {number: run.program.name for number, run in self._runs.copy().items()}

    def cancel(self, future: Submitted) -> bool:
        """Cancels a call, also one that an interpreter is making: the interpreter is ended. False: it is done."""
        if future.cancel():
            return True
        self.check_process()
        with self._lock:
            sent = next(((run, number) for run, number in self._sent() if run.sent[number] is future), None)
            # Without a number it is done, or a Ctrl-C came while it was sent.
            if sent is None or not future.withdraw():
                return False
            # The outcome that the engine gives is dropped, because the future is done.
            self._native.cancel(sent[0].number, sent[1])
        future.call_back()
        return True

    def _sent(self) -> Iterator[tuple[Calls, int]]:
        runs = [run for run in list(self._runs.values()) if isinstance(run, Calls)]
        return ((run, number) for run in runs for number in list(run.sent))

    def check_process(self) -> None:
        """Raises RuntimeError in a process that was forked from the process of the manager."""
        if os.getpid() != self._pid:
            raise RuntimeError(f"this manager belongs to the process {self._pid}; make one after the fork")

    def _check_not_shut_down(self) -> None:
        if self._shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _end(self) -> None:
        if os.getpid() == self._pid:
            self.closed = True
            atexit.unregister(self._end_with_program)
            self._native.close()
            if self._at_end is not None:
                self._at_end()

    def _end_with_program(self) -> None:
        """Waits for submitted calls, as the standard library's executors do, unless Ctrl-C ended the program."""
        if issubclass(getattr(sys, "last_type", None) or Exception, KeyboardInterrupt):
            self.close()
        else:
            self.shutdown(wait=True)

    def _take(self, *, pending: bool) -> list[Submitted]:
        """Removes and returns the futures of all unsent calls (``pending``), or of all sent calls."""
        taken: list[Submitted] = []
        for run in list(self._runs.values()):
            if isinstance(run, Calls):
                taken += (future for future, _ in run.pending) if pending else run.sent.values()
                (run.pending if pending else run.sent).clear()
        return taken

    def _maps(self) -> list[Mapped]:
        return [run for run in list(self._runs.values()) if isinstance(run, Mapped)]

    def _calls_of(self, function: Callable[..., Any], key: Any, code: Code | None) -> Calls:
        calls = self._staged.get(key)
        if calls is None:
            function, _ = unwrapped(function)
            code = code or code_of(function)
            self._make_room(len(code.pickled))
            _, marks, options = key
            number = stage(self._native, code, marks, options)
            program = Program(name_of(function), key, len(code.pickled), number)
            calls = Calls(self._native, self._mailbox, program, self._fail)
            at_once(
                map(self._staged.__setitem__, (key,), (calls,)), map(self._runs.__setitem__, (calls.number,), (calls,))
            )
        self._staged.move_to_end(key)
        return calls

    def _make_room(self, size: int) -> None:
        """Unstages idle functions, the least recently called first, until code of ``size`` bytes has room."""
        held = sum(calls.program.size for calls in self._staged.values())
        for calls in list(self._staged.values()):
            if len(self._staged) < MOST_STAGED and held + size <= MOST_BYTES:
                return
            if not calls.has_left() and not calls.program.maps:
                held -= calls.program.size
                self._unstage(calls)

    def _unstage(self, calls: Calls, *others: Iterable[Any]) -> None:
        program = calls.program
        at_once(
            map(setattr, (program,), ("staged",), (False,)),
            map(self._staged.pop, (program.key,)),
            map(self._runs.pop, (calls.number,)),
            *others,
        )
        self._native.close_run(calls.number)
        self._forget_unused(program)

    def _forget_unused(self, program: Program) -> None:
        if not program.staged and not program.maps:
            self._native.forget(program.number)

    def _open_map(self, program: Program, most: int | None) -> Mapped:
        mapped = Mapped(self._native, self._mailbox, program, self._wake, most)
        at_once(map(program.maps.add, (mapped.number,)), map(self._runs.__setitem__, (mapped.number,), (mapped,)))
        return mapped

    def _close_map(self, mapped: Mapped) -> None:
        """Ends a map. Calls that were not begun are never made."""
        with self._lock:
            if self._runs.pop(mapped.number, None) is None:
                return  # the map or the manager has ended before
            mapped.end(None)
            self._native.close_run(mapped.number)
            mapped.program.maps.discard(mapped.number)
            self._forget_unused(mapped.program)
        self._mailbox.nudge()

    def _read(self, mapped: Mapped, tasks: Iterator[tuple[Any, ...]]) -> None:
        """Reads all calls of a map as they come, as the standard library's executors do."""

        def send() -> None:
            self.check_process()
            with self._lock:
                self._check_not_shut_down()
                mapped.send()

        try:
            mapped.take_while(tasks, send)
        finally:
            with self._lock:
                mapped.send()

    def _wait_for(self, mapped: Mapped, end: float | None) -> None:
        """Waits for the next result of a map. Raises TimeoutError if it does not come in time."""
        self.check_process()
        with self._lock:
            if mapped.is_there():
                return
            mapped.awaited = awaited = Submitted(self)
            awaited.begin()
        awaited.result(None if end is None else end - monotonic())

    def _wake(self, awaited: Submitted) -> None:
        self._settled.append([(awaited, (None, None))])

    def _fail(self, future: Submitted, error: BaseException) -> None:
        self._settled.append([(future, (None, error))])
        self._mailbox.nudge()

    def _send(self) -> None:
        """Sends all calls that there is room for, including calls that wait for others to travel with."""
        with self._lock:
            for run in list(self._runs.values()):
                if run.waits():
                    run.send()

    def _start_to_collect(self) -> None:
        thread = threading.Thread(target=self._collect, name="phalanx-futures", daemon=True)
        thread.start()
        self._thread = thread

    def collect_for(self, future: Submitted, timeout: float | None) -> float | None:
        """Collects outcomes until the future is done or ``timeout`` seconds are over. Returns the remaining seconds. It
        returns at once if another thread is collecting, because that thread collects for all."""
        if future.is_done():
            return timeout
        if future.is_pending():
            self._send()  # the call may be held back to travel with others
        acquired: list[bool] = []
        try:
            acquired.extend(map(self._collecting.acquire, (False,)))  # in one C call, so that no Ctrl-C comes between
            if not acquired[0]:
                return timeout
            end = None if timeout is None else monotonic() + timeout
            while not future.is_done():
                left = PATIENCE if end is None else min(end - monotonic(), PATIENCE)
                if left <= 0:
                    return 0
                self._receive(left, eager=True)
                self._awaited = perf_counter()
                if not self._handle_one():
                    self._handle()
            return timeout
        finally:
            if any(acquired):
                self._collecting.release()

    def _collect(self) -> None:
        """Collects the outcomes for which no other thread waits, until the last one after the shutdown."""
        while not self._is_finished():
            runs = list(self._runs.values())
            # A thread that waits for its results collects them itself. This thread would only compete for the lock.
            is_awaited = perf_counter() - self._awaited < PAUSE
            if any(run.is_in_burst() or (is_awaited and run.is_in_series()) for run in runs):
                sleep(PAUSE)
            self._receive(GAP if any(run.holds and run.waits() for run in runs) else PATIENCE, eager=False)
            try:
                if self._handle():
                    self._mailbox.nudge()
            except BaseException:  # sys.exit() in a callback, say: other futures still need this thread
                logging.getLogger("concurrent.futures").exception("exception while settling futures")
        self._end()

    def _is_finished(self) -> bool:
        if not self._shut_down:
            return False
        with self._lock:
            left = self._received or self._answers or self._settled or self._to_call_back
            return not left and not any(run.has_left() for run in list(self._runs.values()))

    def _receive(self, patience: float, *, eager: bool) -> None:
        """Waits for outcomes, in one C call, so that a Ctrl-C comes before or after it and loses none."""
        arrived = map(self._native.take, (self._mailbox,), (patience,), (eager,))
        self._received.extend(chain.from_iterable(arrived))

    def _handle_one(self) -> bool:
        """A fast path of :meth:`_handle` that takes a third of the time. It applies if the only outcome is one plain
        result of a function without waiting calls. Returns whether it applied. A Ctrl-C leaves the outcome in place."""
        with self._lock:
            if len(self._received) != 1 or self._shut_down:
                return False
            number, kind, first, what = self._received[0]
            run = self._runs.get(number)
            if not isinstance(run, Calls) or run.pending or kind != "results" or what[0] != 1 or what[2] is not None:
                return False
            if memoryview(what[1]).nbytes > SMALL:
                return False  # unpickling takes long, and other threads may need the lock
            try:
                (result,) = unpack(what)
            except Exception:
                return False  # _handle reports the error
            futures, taken = run.answered(range(first, first + 1))
            settled: Settled = [(futures[0], (result, None))]
            at_once(taken, map(self._settled.append, (settled,)), map(deque.popleft, (self._received,)))
        self._settle_all()
        return True

    def _handle(self) -> bool:
        """Sends the calls that there is room for now, and settles futures. Returns whether there were any."""
        with self._lock:
            while self._received:
                self._match(*self._received[0])
            for run in list(self._runs.values()):
                if run.is_held():
                    run.holds = True
                elif run.waits():
                    run.send()
                if isinstance(run, Mapped):
                    run.look()
                    if not run.has_left():
                        self._close_map(run)
            if self._shut_down:
                self._mailbox.nudge()
        # Outside the lock, because these run the user's code.
        if self._answers:
            drain(self._answers, self._unpack)
        return self._settle_all()

    def _match(self, number: int, kind: str, first: int, what: Any) -> None:
        """Finds the futures or the map that the first received outcome is for."""
        received = map(deque.popleft, (self._received,))
        run = self._runs.get(number)
        if isinstance(run, Mapped):
            run.answer(kind, first, what, received)
        elif not isinstance(run, Calls):
            at_once(received)  # its run has ended, so the outcome is dropped
        elif kind in SETTLING:
            futures, taken = run.answered(range(first, first + (what[0] if kind == "results" else 1)))
            at_once(map(self._answers.append, ((futures, (kind, first, what), run.program.name),)), taken, received)
        else:
            waiting = [future for future, _ in run.pending if future.begin()]
            answer = ([*run.sent.values(), *waiting], (kind, 0, what), run.program.name)
            # A later call tries again to recruit.
            self._unstage(run, map(self._answers.append, (answer,)), received)

    def _unpack(self, answer: tuple[list[Submitted], Outcome, str]) -> None:
        futures, outcome, function = answer
        read = read_outcome(*outcome, partial(_task_of, futures), function)
        self._settled.append(list(zip(futures, read, strict=False)))

    def _settle_all(self) -> bool:
        """Settles all futures of an answer, then calls their callbacks, because a callback may wait for another future
        of the answer."""
        settled = bool(self._settled) and drain(self._settled, self._settle)
        if self._to_call_back:
            drain(self._to_call_back, Submitted.call_back)
        return settled

    def _settle(self, settled: Settled) -> None:
        """Settles futures. It may be repeated after a Ctrl-C."""
        self._to_call_back.extend([future for future, outcome in settled if future.settle(*outcome)])


def _task_of(futures: list[Submitted]) -> Any:
    """The arguments of the first call, if the program still has them."""
    sent = futures[0].sent if futures else None
    return UNKNOWN if sent is None else arguments_of(sent)


def _no_results(error: Exception | None = None) -> Generator[Any, None, None]:
    """A generator without results, or one that raises the error."""
    if error is not None:
        raise error
    yield from ()
