"""An interpreter: fires instructions on the tokens that come over its link, and sends the results back.

An executor starts it, never a user. A thread of the native link works while the user's code runs: it reads, and sends
heartbeats. It ends the process when the manager or the executor is gone.
"""

from __future__ import annotations

import faulthandler
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from sys import getsizeof
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TextIO

from phalanx._instructions import MOST_BYTES, MOST_PARTS, Groups, Instruction, takes_read_only
from phalanx._native import Interpreter, Turn
from phalanx._refusals import explain_refusal
from phalanx._staying import frozen, is_large, kept, settle, size_of, take
from phalanx._tokens import PLAIN, dumps, pack, pack_separately, short, unpack
from phalanx.errors import InitializerError, RemoteError, StagingError, in_one_line

if TYPE_CHECKING:
    from phalanx._tokens import Packed, Unpacked

Function = Callable[[Any], Any]

#: Maximum tokens, and bytes of tokens, in one answer of a graph's instruction. Further parts are sent ahead of it, so
#: that memory stays bounded.
PIECE = 8192
PIECE_BYTES = 4 << 20
#: Minimum bytes of a token that stays at this interpreter if an instruction follows.
HEAVY = Interpreter.HEAVY


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
        _serve(link, programs, ahead, link.next())  # passed on directly, so that no name keeps the last message alive


def _serve(link: Interpreter, programs: dict[int, Program], ahead: list[Unpacked], message: tuple[Any, ...]) -> None:
    """Handles one message. Tokens that come ahead of a firing are collected in ``ahead`` until the firing comes."""
    kind, program, *rest = message
    if kind == "fire":
        firing, instruction, first, slice_, tokens, count, groups, follow = rest
        path = [programs[program].function(number) for number in (instruction, *follow)]
        if isinstance(path[0], Instruction) or groups or ahead:
            GraphFiring(link, firing, path).fire_all([*ahead, tokens], groups, slice_)
            ahead.clear()
        else:
            kind = Firing if len(path) == 1 else PathFiring
            kind(link, firing, path).fire(tokens, first, count, slice_)
    elif kind == "ahead":
        ahead.append(rest[0])
    elif kind == "stage":
        programs[program] = Program(rest[0], link.machine)
    else:
        programs.pop(program, None)


def _text_of(number: int) -> TextIO:
    """A standard stream, which is now a pipe to the manager. It sends whole lines in the encoding expected there."""
    return open(number, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


class Program:
    """The staged functions of a program's instructions, unpickled when the first one is fired."""

    def __init__(self, code: Any, machine: str) -> None:
        self._code = code
        self._machine = machine
        self._functions: tuple[Function, ...] | None = None

    def function(self, instruction: int) -> Function:
        """The function of an instruction. If the code cannot be used here, it is a function that raises the reason."""
        if self._functions is None:
            try:
                self._functions = pickle.loads(self._code)
                self._code = None  # frees memory, because code may be large
            except InitializerError as error:
                return _raising(error)
            except BaseException as error:
                return _raising(staging_error(error, self._machine, "the program"))
        return self._functions[instruction]


class Firing:
    """The firing of one instruction on a number of tokens."""

    def __init__(self, link: Interpreter, firing: int, path: list[Function]) -> None:
        self._link = link
        self._firing = firing
        self._path = path
        self._answered = perf_counter_ns()

    def fire(self, tokens: Unpacked, first: int, count: int, slice_: float) -> None:
        """Fires until all tokens are done, the time slice is over, or the link's thread has given back the rest."""
        try:
            objects = unpack(tokens, first, count, read_only=takes_read_only(self._path[0]))
        except Exception as error:
            objects = map(_raising(staging_error(error, self._link.machine, "a task")), range(count))
        turn = self._link.turn(objects, slice_)
        while not self._fire_some(turn):
            pass
        self._link.end_turn()

    def _fire_some(self, turn: Turn) -> bool:
        """Fires until something must be sent, and sends it. Returns whether the turn is over."""
        results: list[Any] = []
        append, function = results.append, self._path[0]
        is_over, failure = False, None
        token: Any = _UNREADABLE
        try:
            for token in turn:
                result = function(token)
                if type(result) not in PLAIN:
                    result = frozen(result)
                    if result.buffers:
                        append(result)
                        break  # sent before the function can change it
                append(result)
                token = _UNREADABLE
            else:
                is_over = True
        except BaseException as error:  # also SystemExit: the user's code does not end the interpreter
            failure = error
        self._send_results(results)
        if failure is not None:
            self._send_failure(failure, token)
        return is_over

    def _send_results(self, results: list[Any]) -> None:
        flush_output()
        if results:
            self._link.fired(self._firing, pack(results), (), self._busy())

    def _send_failure(self, error: BaseException, token: Any) -> None:
        explain_refusal(error, self._link.machine, self._link.opened, self._link.account)
        if token is _UNREADABLE and not isinstance(error, StagingError):
            error = staging_error(error, self._link.machine, "a task")
        self._link.failed(self._firing, pack_failure(error, token), self._busy())

    def _busy(self) -> int:
        """Nanoseconds of firing since the last call of this method."""
        before, self._answered = self._answered, perf_counter_ns()
        return self._answered - before


class PathFiring(Firing):
    """The firing of an instruction that others follow.

    A heavy token stays here, and the next instruction of the path is fired on it at once. An answer holds the results
    of tokens that have passed the same number of instructions."""

    def __init__(self, link: Interpreter, firing: int, path: list[Function]) -> None:
        super().__init__(link, firing, path)
        #: The following instructions, and whether they only read their arrays.
        self._rest = [(function, takes_read_only(function)) for function in path[1:]]
        #: Sums over all tokens of the next answer. For each instruction before the last one: the bytes that stayed
        #: here, and the time (ns) to make them.
        self._stayed: list[tuple[int, int]] = []
        #: The time (ns) of the last instruction.
        self._spent = 0

    def _fire_some(self, turn: Turn) -> bool:
        results: list[Any] = []
        is_over, failure, function = False, None, self._path[0]
        depth = quick = 0  # instructions whose tokens stayed; results without a look at the clock
        token: Any = _UNREADABLE
        try:
            for token in turn:
                result = function(token)
                if not depth and type(result) in PLAIN and getsizeof(result) < HEAVY:
                    results.append(result)
                    quick += 1
                    token = _UNREADABLE
                    continue
                if quick:
                    self._share(quick)
                    quick = 0
                box = [result]
                result = None  # now only the box refers to it
                stayed = self._go_on(box)
                spent = self._busy()
                if len(stayed) != depth:
                    self._send_results(results)
                    results, depth = [], len(stayed)
                self._add(stayed, spent)
                results += box
                if is_large(box[0]):
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

    def _go_on(self, box: list[Any]) -> list[tuple[int, int]]:
        """Fires the following instructions on the token in the box as long as it is heavy. Returns what stayed: for
        each of these tokens its bytes and the time (ns) to make it."""
        stayed: list[tuple[int, int]] = []
        for function, read_only in self._rest:
            size = settle(box, HEAVY)
            if size < HEAVY:
                break
            stayed.append((size, self._busy()))
            box.append(function(take(box, read_only)))
        box[0] = kept(box[0])
        return stayed

    def _share(self, tokens: int) -> None:
        """Divides the time since the clock was last read among ``tokens`` earlier tokens and the present one."""
        spent = perf_counter_ns() - self._answered
        self._spent += spent * tokens // (tokens + 1)
        self._answered += spent * tokens // (tokens + 1)

    def _add(self, stayed: list[tuple[int, int]], spent: int) -> None:
        """Adds the times and bytes of one more token to those of the next answer."""
        if self._stayed:
            pairs = zip(self._stayed, stayed, strict=True)
            stayed = [(bytes_ + more, busy + longer) for (bytes_, busy), (more, longer) in pairs]
        self._stayed = stayed
        self._spent += spent

    def _send_results(self, results: list[Any]) -> None:
        flush_output()
        if results:
            self._send(pack(results), ())

    def _send(self, results: Packed, ways: Sequence[int | None]) -> None:
        busy = self._spent + self._busy()
        self._link.fired(self._firing, results, ways, busy, self._stayed)
        self._stayed, self._spent = [], 0


class GraphFiring(PathFiring):
    """The firing of an instruction of a graph, on tokens or on groups of tokens."""

    def __init__(self, link: Interpreter, firing: int, path: list[Function]) -> None:
        super().__init__(link, firing, path)
        self._instructions = [it if isinstance(it, Instruction) else Instruction((it,)) for it in path]
        self._follow = [(it, takes_read_only(it)) for it in self._instructions[1:]]
        #: The instruction that is fired now.
        self._instruction = self._instructions[0]
        self._ways: list[int | None] = []
        self._given: list[Any] = []

    def fire_all(self, tokens: list[Unpacked], sizes: list[int], slice_: float) -> None:
        """Fires on all tokens, as a firing of a chain does. An instruction that splits stops after ``PIECE`` parts."""
        load = partial(unpack, read_only=takes_read_only(self._path[0]))
        objects: Iterator[Any] = chain.from_iterable(map(load, tokens))
        turn = self._link.turn(Groups(objects, sizes) if sizes else objects, slice_)
        while len(self._given) < PIECE or not self._instruction.splits:
            token: Any = _UNREADABLE
            try:
                token = next(turn, _OVER)
                if token is _OVER:
                    break
                self._fire_one(token)
            except BaseException as error:  # also SystemExit: the user's code does not end the interpreter
                self._answer()
                self._send_failure(error, token)
        self._answer()
        self._link.end_turn()

    def _fire_one(self, token: Any) -> None:
        """Fires the path's instructions on a token as long as their results are heavy. Sends the answer if it must not
        wait."""
        self._instruction = self._instructions[0]
        stayed: list[tuple[int, int]] = []
        way, given = self._fire_here(token, stayed)
        for following, read_only in self._follow:
            size = settle(given, HEAVY)
            if size < HEAVY:
                break
            stayed.append((size, self._busy()))
            self._instruction = following
            way, given = self._fire_here(take(given, read_only), stayed)
        given = list(map(kept, given))
        if self._follow:
            spent = self._busy()
            if len(stayed) != len(self._stayed):
                self._answer()
            self._add(stayed, spent)
        self._ways.append(way)
        self._given += given
        # The answer is sent before the next call can change an array, and before too many parts fill the memory.
        is_full = len(self._given) >= PIECE and not self._instruction.splits
        if is_full or any(map(is_large, given)):
            self._answer()

    def _fire_here(self, token: Any, stayed: list[tuple[int, int]]) -> tuple[int | None, list[Any]]:
        """Fires the present instruction. Returns the number of resulting tokens, or None if the token leaves, and the
        tokens. ``stayed``: the tokens that stayed before."""
        goes_on, given = self._instruction.fire(token)
        if goes_on and self._instruction.splits:
            return self._split(given, len(stayed))
        return 1 if goes_on else None, [given]

    def _split(self, parts: Any, stayed: int) -> tuple[int, list[Any]]:
        """The number of parts, and the parts that were not sent ahead. Raises ValueError if there are too many."""
        given: list[Any] = []
        count = total = unsent = 0
        for part in parts:
            given.append(kept(part))
            count += 1
            unsent += size_of(given[-1])
            if count > MOST_PARTS or total + unsent > MOST_BYTES:
                raise ValueError(
                    f"more than {MOST_PARTS} parts of one task, or {MOST_BYTES} bytes of them: cut it first"
                )
            if len(given) >= PIECE or unsent >= PIECE_BYTES or is_large(given[-1]):
                self._answer()  # earlier results go first, because an exception may still withdraw these parts
                self._link.ahead(self._firing, pack_separately(given), stayed)
                given, total, unsent = [], total + unsent, 0
        return count, given

    def _answer(self) -> None:
        """Sends the results so far."""
        flush_output()
        if self._ways:
            branches = self._instructions[len(self._stayed)].branches
            self._send(pack_separately(self._given), self._ways if branches else ())
            self._ways, self._given = [], []


def flush_output() -> None:
    """Writes out what the user's code printed, because the process may be ended at any time after the last answer."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # the user's code may have closed or replaced it
            stream.flush()


class _Unreadable:
    def __repr__(self) -> str:
        return "(not shown)"


_UNREADABLE = _Unreadable()
#: Stands for the end of the tokens, or of this turn.
_OVER = object()


def pack_failure(error: BaseException, token: Any) -> bytes:
    """Pickles the exception, or a stand-in if it cannot travel, with its traceback and the shortened task."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    pickled = _pickled_error(error)
    if pickled is None:
        # Libraries such as tblib pickle its traceback too, which may be too deep. The text above has it.
        error.__traceback__ = error.__cause__ = error.__context__ = None
        pickled = _pickled_error(error) or dumps(RemoteError(in_one_line(error)))
    return dumps((pickled, text, short(token)))


def _pickled_error(error: BaseException) -> bytes | None:
    """The pickled exception; None if it cannot be pickled, or unpickled."""
    try:
        pickled = dumps(error)
        return pickled if isinstance(pickle.loads(pickled), BaseException) else None
    except BaseException:
        return None


def staging_error(error: BaseException, machine: str, what: str) -> StagingError:
    """The error that says which machine cannot use ``what``, and which module it lacks."""
    if isinstance(error, ModuleNotFoundError):
        return StagingError(
            f"{machine} lacks the module {error.name!r} that {what} needs: install it there, or send it along, as "
            "in px.Manager(packages=[FOLDER])"
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
