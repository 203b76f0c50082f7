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
from phalanx.words import ISOLATIONS, Isolation, check_word


class Transaction:
    """Operations that happen together or not at all: all operations that get it as ``transaction=``.

    Other clients do not see the tuples that it puts before the commit. The tuples that it takes come back if it does
    not commit. It is aborted after its timeout, when the process that began it ends, and when it is garbage-collected.
    As a context manager it commits at the end of the block, and aborts after an exception.

    Parameters
    ----------
    spaces : Space, or anything that has an engine
        At least one. Spaces in Redis have no transactions.
    timeout : float
        Seconds after which it is aborted.
    isolation : {"read committed", "repeatable read"}
        "read committed": others may take a tuple that it has only read. "repeatable read": it commits only if every
        tuple that it has read or counted is still there, or was taken by the transaction itself. Otherwise
        :meth:`commit` raises TransactionConflictError, and the program must repeat the transaction from its beginning.
        No lock is held, so no two transactions wait for each other. With either level, others may put a tuple that the
        transaction has looked for in vain.

    Raises
    ------
    TransactionError
        The transaction has ended before, or is over no space.
    SpaceFullError
        This connection, this user, or all users together have reached their limit of transactions in a space.
    ValueError
        ``isolation`` is neither of the two.

    Examples
    --------
    >>> import phalanx as px
    >>> space = px.Space()
    >>> space.out("limit", 10)
    >>> with px.space.Transaction(space, isolation="repeatable read") as transaction:
    ...     _, limit = space.rd("limit", int, transaction=transaction)
    ...     space.out("order", limit, transaction=transaction)  # commits only while ("limit", 10) is there
    """

    _engines: Sequence[Engine] = ()
    _ended = False

    def __init__(self, *spaces: Over, timeout: float = 60.0, isolation: Isolation = "read committed") -> None:
        check_word("isolation", isolation, ISOLATIONS, ValueError)
        if not spaces:
            raise TransactionError("a transaction is over one space or several: px.Transaction(space)")
        self._number = secrets.randbits(128)
        engines: list[Engine] = []
        self._engines = engines
        with Uninterrupted() as ctrl_c:
            try:
                for space in spaces:
                    space.engine.begin(self._number, timeout, isolation == "repeatable read")
                    engines.append(space.engine)
                    ctrl_c.check()
            except BaseException:
                self.abort()
                raise

    def number_in(self, engine: Engine) -> int:
        """The number of the transaction at this engine. Raises TransactionError if the transaction is not over it."""
        if self._ended:
            raise TransactionError("this transaction has ended")
        if not any(engine is known for known in self._engines):
            raise TransactionError("this transaction is not over this space: name the space in px.Transaction(…)")
        return self._number

    def commit(self) -> None:
        """Makes all operations of the transaction take effect.

        Raises
        ------
        TransactionError
            It has ended before.
        TransactionConflictError
            A tuple that it has read is not there any more (see ``isolation``). Nothing has happened.
        SpaceLostError
            The space that decides was lost and did not come back within ten seconds. The other spaces ask it later.
        """
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
        """Undoes all operations of the transaction. Does nothing after its end."""
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
        with suppress(SpaceError):  # a space that cannot be reached aborts by itself
            engine.abort(number)
