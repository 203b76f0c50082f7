"""One request to several members at once: the first tuple wins, and tuples that other members took go back.

The callbacks of the members run in threads of their own and must not block. They only record the outcome. The waiting
thread does the rest: it ends the requests that have lost and gives back their tuples. Ctrl-C does not interrupt that,
because a tuple that is not settled would be lost, and a request that is not ended would take one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from threading import Condition, Lock
from typing import TypeAlias

from phalanx.errors import SpaceError
from phalanx.space._deadline import deadline, left
from phalanx.space._engine import Engine, Fields, Outcome
from phalanx.space._uninterrupted import Uninterrupted

#: Begins the request at the member with this index. Returns its engine and the number of the request there.
Ask: TypeAlias = Callable[[int, Callable[[Outcome], None]], tuple[Engine, int]]


#: Seconds to wait for an outcome that is on its way.
PATIENCE = 10.0
#: Stands for an outcome that did not come within `PATIENCE`.
LATE = object()


class Asking:
    """The same request at several members."""

    def __init__(self, changed: Callable[[], object] | None = None) -> None:
        self._news = Condition()
        self._ending = Lock()
        self._changed = changed
        #: By index of the member: its engine, and the number of the request there.
        self._begun: dict[int, tuple[Engine, int]] = {}
        #: How many members were asked; None while they are being asked.
        self._asked: int | None = None
        self._outcomes: dict[int, Outcome] = {}
        self._first: int | None = None
        self._given_up: SpaceError | None = None

    def begin(self, members: Iterable[int], ask: Ask) -> int:
        """Asks the members until one has a tuple, and returns how many were asked. If a member cannot be asked, the
        error is its outcome."""
        asked = 0
        for number in members:
            asked += 1
            try:
                self._begun[number] = ask(number, partial(self._note, number))
            except Exception as error:
                self._note(number, error.with_traceback(None))  # the frames of the traceback refer to this object
            if self._first is not None:
                break
        self._asked = asked
        return asked

    def _note(self, number: int, outcome: Outcome) -> None:
        with Uninterrupted():  # the calling thread could not handle a Ctrl-C
            with self._news:
                self._outcomes[number] = outcome
                if self._first is None and isinstance(outcome, tuple):
                    self._first = number
                self._news.notify_all()
            changed = self._changed
            if changed is not None:
                changed()

    def is_over(self) -> bool:
        """Whether a member had a tuple, all members have answered, or the request was given up."""
        if self._asked is None:
            return False
        return self._first is not None or self._given_up is not None or len(self._outcomes) >= self._asked

    def wait(self, timeout: float | None) -> None:
        """Waits until the request is over. Members end their requests by themselves at the timeout. So this takes a
        little longer than that only if a member does not answer."""
        until = deadline(timeout)
        with self._news:
            while not self.is_over() and left(until) != 0:
                self._news.wait(left(until))

    def silent(self) -> list[int]:
        """The members that have not answered yet."""
        with self._news:
            return [number for number in self._begun if number not in self._outcomes]

    def first(self) -> tuple[int, Fields] | None:
        """The index of the first member that had a tuple, and the tuple."""
        if self._first is None:
            return None
        outcome = self._outcomes[self._first]
        assert isinstance(outcome, tuple)
        return self._first, outcome

    def raise_failure(self) -> None:
        """Raises the error of a member, if there is one."""
        failures = (outcome for outcome in self._outcomes.values() if isinstance(outcome, BaseException))
        failure = self._given_up or next(failures, None)
        if failure is not None:
            raise type(failure)(*failure.args)  # a copy, because this object refers to the original

    def end(self, *, take: bool, keep: bool | None) -> None:
        """Ends the requests that still wait, and settles the taken tuples. ``keep`` says whether the first tuple is
        kept; with None, a second call of this method settles it. The other tuples go back. A member that is gone has
        ended its requests itself."""
        self._changed = None  # breaks a reference cycle, so that no garbage collection is needed
        with self._ending:
            self._end(take, keep)

    def _end(self, take: bool, keep: bool | None) -> None:
        for number, (member, request) in self._begun.items():
            try:
                if not self._has_answered(number) and member.cancel(request):
                    continue
                outcome = self._await(number)
                if not take or not (isinstance(outcome, tuple) or outcome is LATE):
                    continue
                if number != self._first:
                    member.settle(request, False)
                elif keep is not None:
                    member.settle(request, keep)
            except SpaceError:
                continue
        winner = self._begun.get(-1 if self._first is None or keep is not None else self._first)
        self._begun = {} if winner is None else {self._first or 0: winner}  # drops the references to the others

    def give_up(self, why: SpaceError) -> None:
        """Stops waiting for members; ``why`` is the outcome."""
        with self._news:
            self._given_up = why
            self._news.notify_all()
        changed = self._changed
        if changed is not None:
            changed()

    def _has_answered(self, number: int) -> bool:
        with self._news:
            return number in self._outcomes

    def _await(self, number: int) -> object:
        """The outcome of a member, which may still be on its way; :data:`LATE` if it does not come."""
        with self._news:
            self._news.wait_for(lambda: number in self._outcomes, timeout=PATIENCE)
            return self._outcomes.get(number, LATE)
