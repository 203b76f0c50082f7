"""One request of several members at once: the first tuple wins, what others took goes back.

The members' callbacks come in their own threads, and may not wait for anybody. So they only note what has happened;
whoever waits does what is to be done: ends the requests that have lost, and gives back what they took. That is not
interrupted: a tuple that nobody settles would be lost, a request that nobody ends would take one.
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

#: Begins the request at the member with this number; gives its engine, and the request's number there.
Ask: TypeAlias = Callable[[int, Callable[[Outcome], None]], tuple[Engine, int]]


#: Seconds for an outcome that is on its way.
PATIENCE = 10.0
#: It did not come.
LATE = object()


class Asking:
    """The same request at several members."""

    def __init__(self, changed: Callable[[], object] | None = None) -> None:
        self._news = Condition()
        self._ending = Lock()
        self._changed = changed
        #: Where it was begun: the member, and the request's number there.
        self._begun: dict[int, tuple[Engine, int]] = {}
        #: How many were asked; None while that goes on.
        self._asked: int | None = None
        self._outcomes: dict[int, Outcome] = {}
        self._first: int | None = None
        self._given_up: SpaceError | None = None

    def begin(self, members: Iterable[int], ask: Ask) -> int:
        """Asks the members, as long as none has a tuple; how many. Where one cannot be asked, that is its outcome."""
        asked = 0
        for number in members:
            asked += 1
            try:
                self._begun[number] = ask(number, partial(self._note, number))
            except Exception as error:
                self._note(number, error.with_traceback(None))  # whose frames refer to this
            if self._first is not None:
                break
        self._asked = asked
        return asked

    def _note(self, number: int, outcome: Outcome) -> None:
        with Uninterrupted():  # whoever calls could do nothing with a Ctrl-C
            with self._news:
                self._outcomes[number] = outcome
                if self._first is None and isinstance(outcome, tuple):
                    self._first = number
                self._news.notify_all()
            changed = self._changed
            if changed is not None:
                changed()

    def is_over(self) -> bool:
        """Whether somebody had a tuple, or everybody has answered."""
        if self._asked is None:
            return False
        return self._first is not None or self._given_up is not None or len(self._outcomes) >= self._asked

    def wait(self, timeout: float | None) -> None:
        """Waits until it is over. Members end their requests by themselves when their time has passed, so that this
        needs a little longer only where one of them does not answer."""
        until = deadline(timeout)
        with self._news:
            while not self.is_over() and left(until) != 0:
                self._news.wait(left(until))

    def silent(self) -> list[int]:
        """The members that have not answered yet."""
        with self._news:
            return [number for number in self._begun if number not in self._outcomes]

    def first(self) -> tuple[int, Fields] | None:
        """Who had a tuple first, and the tuple."""
        if self._first is None:
            return None
        outcome = self._outcomes[self._first]
        assert isinstance(outcome, tuple)
        return self._first, outcome

    def raise_failure(self) -> None:
        """Raises what went wrong at a member, if something did."""
        failures = (outcome for outcome in self._outcomes.values() if isinstance(outcome, BaseException))
        failure = self._given_up or next(failures, None)
        if failure is not None:
            raise type(failure)(*failure.args)  # another one, that nothing here refers to

    def end(self, *, take: bool, keep: bool | None) -> None:
        """Ends what still waits, and settles what was taken: the first tuple as ``keep`` says, or, with None, when this
        is called again; the others go back. A member that is gone has ended its requests itself."""
        self._changed = None  # which refers to this: an end without the garbage collector
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
        self._begun = {} if winner is None else {self._first or 0: winner}  # nothing else is needed, nor held

    def give_up(self, why: SpaceError) -> None:
        """Nobody is waited for any more."""
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
        """The outcome, which may be on its way still; :data:`LATE` if it does not come."""
        with self._news:
            self._news.wait_for(lambda: number in self._outcomes, timeout=PATIENCE)
            return self._outcomes.get(number, LATE)
