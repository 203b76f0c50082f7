"""Transactions over one or several spaces (TSpaces, JavaSpaces, GigaSpaces; paper 002, section 2)."""

from __future__ import annotations

import secrets
from contextlib import suppress
from functools import partial
from types import TracebackType

from phalanx.errors import SpaceError, TransactionError
from phalanx.space._commit import commit_all
from phalanx.space._engine import Engine, Over


class Transaction:
    """Operations that happen together or not at all: those that are given ``transaction=``.

    What was put is seen by nobody else before the commit, what was taken comes back if there is none. It is aborted
    after ``timeout`` seconds, and when the process that began it ends. A context manager: commits at its end, aborts
    after an exception. Raises TransactionError where it has ended before, SpaceFullError where this connection, this
    user or all together have as many in a space as they may."""

    def __init__(self, *spaces: Over, timeout: float = 60.0) -> None:
        if not spaces:
            raise TransactionError("a transaction is over one space or several: px.Transaction(space)")
        self._number = secrets.randbits(128)
        self._engines: list[Engine] = []
        self._ended = False
        try:
            for space in spaces:
                space.engine.begin(self._number, timeout)
                self._engines.append(space.engine)
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
        """Makes all of it happen. Raises TransactionError if it has ended before, and then nothing has happened."""
        if self._ended:
            raise TransactionError("this transaction has ended")
        try:
            if len(self._engines) > 1:
                for engine in self._engines:
                    engine.prepare(self._number)
        except BaseException:
            self.abort()
            raise
        self._ended = True
        commit_all([partial(engine.commit, self._number) for engine in self._engines])

    def abort(self) -> None:
        """Undoes all of it. After the end it does nothing."""
        self._ended = True
        for engine in self._engines:
            with suppress(SpaceError):  # what cannot be reached aborts by itself
                engine.abort(self._number)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
        elif not self._ended:
            self.commit()
