"""An interpreter: fires instructions on the tokens that come over its link, and sends back what they give.

Started by an executor, never by hand. Everything that must go on while the user's code runs (reading, heartbeats,
ending when the manager or the executor is gone) is done by the native link's own thread.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any

from phalanx._native import Interpreter
from phalanx._tokens import PLAIN, Token, dumps, pack, short, unpack
from phalanx.errors import RemoteError, StagingError

if TYPE_CHECKING:
    from phalanx._tokens import Unpacked

Function = Callable[[Any], Any]


def main() -> None:
    """Serves the link until it ends, which ends the process."""
    link = Interpreter.begin()
    if link.path:
        sys.path[:] = link.path
    if sys.stdout is not None:  # a program without standard streams has none
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    programs: dict[int, Program] = {}
    while True:
        kind, program, *message = link.next()
        if kind == "fire":
            firing, instruction, first, slice_, tokens, count = message
            function = programs[program].function(instruction)
            Firing(link, firing, function).fire(tokens, first, count, slice_)
        elif kind == "stage":
            programs[program] = Program(message[0], link.machine)
        else:
            programs.pop(program, None)


class Program:
    """The staged functions of a program's instructions, unpickled when the first one is fired."""

    def __init__(self, code: Any, machine: str) -> None:
        self._code = code
        self._machine = machine
        self._functions: tuple[Function, ...] | None = None

    def function(self, instruction: int) -> Function:
        """The function of an instruction; where the code cannot be used here, one that says why."""
        if self._functions is None:
            try:
                self._functions = pickle.loads(self._code)
                self._code = None  # may be large
            except BaseException as error:
                return _raising(staging_error(error, self._machine, "the program"))
        return self._functions[instruction]


class Firing:
    """The firing of one instruction on a number of tokens."""

    def __init__(self, link: Interpreter, firing: int, function: Function) -> None:
        self._link = link
        self._firing = firing
        self._function = function
        self._answered = perf_counter_ns()

    def fire(self, tokens: Unpacked, first: int, count: int, slice_: float) -> None:
        """Fires until all is done, or until the time slice is over; then what was not begun is given back."""
        end = perf_counter() + slice_
        try:
            objects = unpack(tokens, first, count)
        except Exception as error:
            objects = map(_raising(staging_error(error, self._link.machine, "a task")), range(count))
        while count > 0:
            results, failure = self._fire_some(objects, end)
            if not results and failure is None:
                failure = (RuntimeError("tasks are missing"), _UNREADABLE)
            flush_output()
            self._send_results(results)
            count -= len(results)
            if failure is not None:
                self._send_failure(*failure)
                count -= 1
            if count > 0 and perf_counter() > end:
                self._link.returned(self._firing)
                return

    def _fire_some(self, objects: Any, end: float) -> tuple[list[Any], tuple[BaseException, Any] | None]:
        results: list[Any] = []
        append, function, clock = results.append, self._function, perf_counter
        token: Any = _UNREADABLE
        try:
            for token in objects:
                result = function(token)
                if type(result) not in PLAIN:
                    result = frozen(result)
                    end = 0.0 if result.buffers else end  # sent before the function can change them
                append(result)
                if clock() > end:
                    break
                token = _UNREADABLE
        except BaseException as error:  # also SystemExit: the user's code does not end the interpreter
            return results, (error, token)
        return results, None

    def _send_results(self, results: list[Any]) -> None:
        if results:
            self._link.fired(self._firing, pack(results), self._busy())

    def _send_failure(self, error: BaseException, token: Any) -> None:
        if token is _UNREADABLE and not isinstance(error, StagingError):
            error = staging_error(error, self._link.machine, "a task")
        self._link.failed(self._firing, pack_failure(error, token), self._busy())

    def _busy(self) -> int:
        before, self._answered = self._answered, perf_counter_ns()
        return self._answered - before


def flush_output() -> None:
    """Writes what the user's code printed: after the last answer the process may be ended at any time."""
    with suppress(AttributeError, OSError, ValueError):  # there is no standard output, or not any more
        sys.stdout.flush()


class _Unreadable:
    def __repr__(self) -> str:
        return "(not shown)"


_UNREADABLE = _Unreadable()


def frozen(result: Any) -> Token:
    """A result as it is now: the function may keep it, and change it when it is called again."""
    try:
        return Token(result)
    except Exception as error:
        raise StagingError(f"the result {short(result)} cannot be pickled: {error}") from error


def pack_failure(error: BaseException, token: Any) -> bytes:
    """The exception if it can travel, a stand-in if not; its traceback; the task in short."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        pickled = dumps(error)
        travels = isinstance(pickle.loads(pickled), BaseException)
    except BaseException:
        travels = False
    if not travels:
        words = traceback.format_exception_only(type(error), error)[-1].strip()
        pickled = dumps(RemoteError(words))
    return dumps((pickled, text, short(token)))


def staging_error(error: BaseException, machine: str, what: str) -> StagingError:
    """Says which machine cannot use what, and which module it lacks."""
    if isinstance(error, ModuleNotFoundError):
        return StagingError(
            f"{machine} lacks the module {error.name!r} that {what} needs: install it there, or send it along with "
            "cloudpickle.register_pickle_by_value"
        )
    return StagingError(f"{machine} cannot unpickle {what}: {type(error).__qualname__}: {error}")


def _raising(error: BaseException) -> Function:
    def function(_: Any) -> Any:
        raise error

    return function
