"""An interpreter: fires instructions on the tokens that come over its link, and sends back what they give.

Started by an executor, never by hand. Everything that must go on while the user's code runs (reading, heartbeats,
ending when the manager or the executor is gone) is done by the native link's own thread.
"""

from __future__ import annotations

import faulthandler
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TextIO

from phalanx._instructions import MOST_BYTES, MOST_PARTS, Groups, Instruction, takes_read_only
from phalanx._native import Interpreter, Turn
from phalanx._tokens import PLAIN, Token, dumps, pack, pack_separately, short, unpack
from phalanx.errors import InitializerError, RemoteError, StagingError

if TYPE_CHECKING:
    from phalanx._tokens import Unpacked

Function = Callable[[Any], Any]

#: Tokens, and bytes of them, that an answer of a graph's instruction holds; more go ahead of it.
PIECE = 8192
PIECE_BYTES = 4 << 20


def main() -> None:
    """Serves the link until it ends, which ends the process."""
    link = Interpreter.begin()
    if link.path:
        sys.path[:] = link.path
    sys.stdout = sys.__stdout__ = _text_of(1)  # type: ignore[misc, assignment]
    sys.stderr = sys.__stderr__ = _text_of(2)  # type: ignore[misc, assignment]
    faulthandler.enable(file=2)  # a crash in C shows the task that it was in
    programs: dict[int, Program] = {}
    ahead: list[Unpacked] = []
    while True:
        _serve(link, programs, ahead, link.next())  # while it waits, no name holds what came before


def _serve(link: Interpreter, programs: dict[int, Program], ahead: list[Unpacked], message: tuple[Any, ...]) -> None:
    """Does what one message asks for. What came ahead of a firing is added to ``ahead`` until then."""
    kind, program, *rest = message
    if kind == "fire":
        firing, instruction, first, slice_, tokens, count, groups, follow = rest
        path = [programs[program].function(number) for number in (instruction, *follow)]
        if isinstance(path[0], Instruction) or groups or ahead:
            GraphFiring(link, firing, path).fire_all([*ahead, tokens], groups, slice_)
            ahead.clear()
        else:
            Firing(link, firing, path).fire(tokens, first, count, slice_)
    elif kind == "ahead":
        ahead.append(rest[0])
    elif kind == "stage":
        programs[program] = Program(rest[0], link.machine)
    else:
        programs.pop(program, None)


def _text_of(number: int) -> TextIO:
    """A standard stream, which is a pipe to the manager by now: of whole lines, in the encoding expected there."""
    return open(number, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


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
            except InitializerError as error:
                return _raising(error)
            except BaseException as error:
                return _raising(staging_error(error, self._machine, "the program"))
        return self._functions[instruction]


class Firing:
    """The firing of one instruction on a number of tokens. Where it gives a heavy token, that stays here, and the next
    instruction of the path is fired on it at once."""

    def __init__(self, link: Interpreter, firing: int, path: list[Function]) -> None:
        self._link = link
        self._firing = firing
        self._path = path
        #: Bytes, and nanoseconds that it took to make them, of tokens that stayed, of which nothing was answered yet.
        self._stayed: list[tuple[int, int]] = []
        self._answered = perf_counter_ns()

    def fire(self, tokens: Unpacked, first: int, count: int, slice_: float) -> None:
        """Fires until all is done, until the time slice is over, or until the link's thread has given back the rest."""
        try:
            objects = unpack(tokens, first, count, read_only=takes_read_only(self._path[0]))
        except Exception as error:
            objects = map(_raising(staging_error(error, self._link.machine, "a task")), range(count))
        turn = self._link.turn(objects, slice_)
        while not self._fire_some(turn):
            pass
        self._link.end_turn()

    def _fire_some(self, turn: Turn) -> bool:
        """Fires until something has to be sent, and sends it; whether the turn is over."""
        results: list[Any] = []
        append, function, follows = results.append, self._path[0], len(self._path) > 1
        is_over, is_large, failure = False, False, None
        token: Any = _UNREADABLE
        try:
            for token in turn:
                result = function(token)
                if type(result) not in PLAIN:
                    result = frozen(result)
                    is_large = bool(result.buffers)
                if follows and _size(result) >= self._link.HEAVY:
                    self._send_results(results)
                    results = []
                    results.append(self._go_on(result))
                    break
                append(result)
                if is_large:
                    break  # sent before the function can change it
                token = _UNREADABLE
            else:
                is_over = True
        except BaseException as error:  # also SystemExit: the user's code does not end the interpreter
            failure = error
        self._send_results(results)
        if failure is not None:
            self._send_failure(failure, token)
        return is_over

    def _go_on(self, kept: Any) -> Any:
        """What comes of a heavy token here, as far as its path goes and what it gives is heavy again."""
        for function in self._path[1:]:
            if _size(kept) < self._link.HEAVY:
                break
            kept = _kept(function(self._stay(kept, function)))
        return kept

    def _stay(self, kept: Any, function: Any) -> Any:
        """The token as the next instruction takes it: as if it had travelled, for nobody is to see whether it did."""
        self._stayed.append((_size(kept), self._busy()))
        return kept.thaw(read_only=takes_read_only(function)) if type(kept) is Token else kept

    def _send_results(self, results: list[Any]) -> None:
        flush_output()
        if results:
            self._link.fired(self._firing, pack(results), (), self._busy(), self._stayed)
            self._stayed = []

    def _send_failure(self, error: BaseException, token: Any) -> None:
        self._stayed = []
        if token is _UNREADABLE and not isinstance(error, StagingError):
            error = staging_error(error, self._link.machine, "a task")
        self._link.failed(self._firing, pack_failure(error, token), self._busy())

    def _busy(self) -> int:
        before, self._answered = self._answered, perf_counter_ns()
        return self._answered - before


class GraphFiring(Firing):
    """The firing of an instruction of a graph, on tokens or on groups of tokens."""

    def __init__(self, link: Interpreter, firing: int, path: list[Function]) -> None:
        super().__init__(link, firing, path)
        self._instructions = [it if isinstance(it, Instruction) else Instruction((it,)) for it in path]
        #: The one that is fired now.
        self._instruction = self._instructions[0]
        self._ways: list[int | None] = []
        self._given: list[Any] = []

    def fire_all(self, tokens: list[Unpacked], sizes: list[int], slice_: float) -> None:
        """Fires as a firing of a chain does. What splits is over when there are many parts."""
        load = partial(unpack, read_only=takes_read_only(self._path[0]))
        objects: Iterator[Any] = chain.from_iterable(map(load, tokens))
        turn = self._link.turn(Groups(objects, sizes) if sizes else objects, slice_)
        while len(self._given) < PIECE or not self._instruction.splits:
            token: Any = _UNREADABLE
            given: list[Any]
            try:
                token = next(turn, _OVER)
                if token is _OVER:
                    break
                way, given = self._fire_one(token)
            except BaseException as error:  # also SystemExit: the user's code does not end the interpreter
                given = []
                self._answer()
                self._send_failure(error, token)
            else:
                self._ways.append(way)
                self._given += given
            # Before the next call can change an array, and before there are too many parts to hold.
            is_full = len(self._given) >= PIECE and not self._instruction.splits
            if is_full or self._stayed or any(map(_is_large, given)):
                self._answer()
        self._answer()
        self._link.end_turn()

    def _fire_one(self, token: Any) -> tuple[int | None, list[Any]]:
        """How many tokens a token gives in the end, or None where it leaves; and the tokens."""
        self._instruction = self._instructions[0]
        way, given = self._fire_here(token)
        for following in self._instructions[1:]:
            if _size(given[0]) < self._link.HEAVY:
                break
            self._answer()
            self._instruction = following
            way, given = self._fire_here(self._stay(given[0], following))
        return way, given

    def _fire_here(self, token: Any) -> tuple[int | None, list[Any]]:
        stays, given = self._instruction.fire(token)
        if stays and self._instruction.splits:
            return self._split(given)
        return 1 if stays else None, [_kept(given)]

    def _split(self, parts: Any) -> tuple[int, list[Any]]:
        """How many parts, and those that were not sent ahead. Raises ValueError where they are too many."""
        given: list[Any] = []
        count = total = unsent = 0
        for part in parts:
            given.append(_kept(part))
            count += 1
            unsent += _size(given[-1])
            if count > MOST_PARTS or total + unsent > MOST_BYTES:
                raise ValueError(
                    f"more than {MOST_PARTS} parts of one task, or {MOST_BYTES} bytes of them: cut it first"
                )
            if len(given) >= PIECE or unsent >= PIECE_BYTES or _is_large(given[-1]):
                self._answer()  # what came of earlier tokens is not mixed with parts that an exception may take back
                self._link.ahead(self._firing, pack_separately(given), len(self._stayed))
                given, total, unsent = [], total + unsent, 0
        return count, given

    def _answer(self) -> None:
        """Sends what was given so far."""
        flush_output()
        if self._ways:
            ways = self._ways if self._instruction.branches else ()
            self._link.fired(self._firing, pack_separately(self._given), ways, self._busy(), self._stayed)
            self._ways, self._given, self._stayed = [], [], []


def _kept(token: Any) -> Any:
    """What a function gave as it is now."""
    return token if type(token) in PLAIN else frozen(token)


def _size(kept: Any) -> int:
    """About how many bytes it has as a token."""
    if type(kept) is Token:
        return len(kept.pickled) + sum(buffer.nbytes for buffer in kept.buffers)
    return sys.getsizeof(kept)


def _is_large(kept: Any) -> bool:
    """Whether it lies in memory that the user's code may change."""
    return type(kept) is Token and bool(kept.buffers)


def flush_output() -> None:
    """Writes what the user's code printed: after the last answer the process may be ended at any time."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # the user's code has closed or replaced it
            stream.flush()


class _Unreadable:
    def __repr__(self) -> str:
        return "(not shown)"


_UNREADABLE = _Unreadable()
#: Instead of a token: there is none left, or none in this turn.
_OVER = object()


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
    if type(error).__name__ == "AuthenticationError":
        return StagingError(
            f"{machine} cannot unpickle {what}: AuthenticationError: {error}. The key of a multiprocessing manager "
            "does not travel from a program that has interpreters on other machines: give its address and its key to "
            "the function, and connect there"
        )
    return StagingError(f"{machine} cannot unpickle {what}: {type(error).__qualname__}: {error}")


def _raising(error: BaseException) -> Function:
    def function(_: Any) -> Any:
        raise error

    return function
