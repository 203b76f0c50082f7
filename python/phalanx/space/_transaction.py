"""Transactions over one or several spaces (TSpaces, JavaSpaces, GigaSpaces; paper 002, section 2)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType

from phalanx.errors import SpaceError, TransactionError
from phalanx.space._commit import commit_parts, promise
from phalanx.space._engine import Engine, Over
from phalanx.space._forgotten import end_later
from phalanx.space._spread import forget, parts_of
from phalanx.space._uninterrupted import Uninterrupted


class Transaction:
    """Operations that happen together or not at all: those that are given ``transaction=``.

    What was put is seen by nobody else before the commit, what was taken comes back if there is none. What was only
    read may be taken by others before the commit: the isolation is that of "read committed". It is aborted after
    ``timeout`` seconds, when the process that began it ends, and when it is thrown away. A context manager: commits at
    its end, aborts after an exception. Raises TransactionError where it has ended before, SpaceFullError where this
    connection, this user or all together have as many in a space as they may."""

    _engines: Sequence[Engine] = ()
    _ended = False

    def __init__(self, *spaces: Over, timeout: float = 60.0) -> None:
        if not spaces:
            raise TransactionError("a transaction is over one space or several: px.Transaction(space)")
        self._number = secrets.randbits(128)
        engines: list[Engine] = []
        self._engines = engines
        with Uninterrupted() as ctrl_c:
            try:
                for space in spaces:
                    space.engine.begin(self._number, timeout)
                    engines.append(space.engine)
                    ctrl_c.check()
            except BaseException:
                self.abort()
                raise

    def number_in(self, engine: Engine) -> int:
        """The transaction as the engine knows it. Raises TransactionError if it does not."""
        if self._ended:
            raise TransactionError("this transaction has ended")
        if not any(engine is known for known in self._engines):
            raise TransactionError("this transaction is not over this space: name the space in px.Transaction(…)")
        return self._number

    def commit(self) -> None:
        """Makes all of it happen. Raises TransactionError if it has ended before, and then nothing has happened;
        SpaceLostError where the space that decides is lost meanwhile, and does not come back within ten seconds: the
        other spaces ask it then."""
        if self._ended:
            raise TransactionError("this transaction has ended")
        with Uninterrupted() as ctrl_c:
            try:
                parts = [part for engine in self._engines for part in parts_of(engine, self._number)]
                promises = promise(self._number, parts)
                ctrl_c.check()
            except BaseException:
                self.abort()
                raise
            self._ended = True
            for engine in self._engines:
                forget(engine, self._number)
            commit_parts(self._number, promises)

    def abort(self) -> None:
        """Undoes all of it. After the end it does nothing."""
        with Uninterrupted():
            self._ended = True
            _abort(self._engines, self._number)

    def __enter__(self) -> Transaction:
        return self

    def __del__(self) -> None:
        if not self._ended and self._engines:
            end_later(partial(_abort, self._engines, self._number))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
        elif not self._ended:
            self.commit()


def _abort(engines: Sequence[Engine], number: int) -> None:
    for engine in engines:
        with suppress(SpaceError):  # what cannot be reached aborts by itself
            engine.abort(number)
