"""What all pilots have in common: a grid for the program, executors that an engine starts, and their end."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from phalanx._grids import JoinedHosts
from phalanx.errors import RecruitError
from phalanx.members import Member
from phalanx.pilots._elastic import Elastic, offered
from phalanx.pilots._order import Order, check_count, check_seconds
from phalanx.words import CAGES, Cage, check_word

if TYPE_CHECKING:
    from phalanx import _native
    from phalanx.pilots._own_grid import OwnGrid

_log = logging.getLogger("phalanx")

#: Seconds between two questions whether an executor has come. A question to the own hub takes some milliseconds.
_LOOK = 0.05
#: Seconds between two questions to the engine.
_ASK = 1.0
#: Seconds without an executor after which the log says what is waited for.
_SAY = 5.0

Self = TypeVar("Self", bound="Pilot")


class Pilot:
    """Executors that an existing engine starts, places, starts again and ends: :class:`phalanx.Ssh`,
    :class:`phalanx.Slurm`, :class:`phalanx.Dask`, :class:`phalanx.Ray`.

    A pilot is a place for a :class:`phalanx.Manager`, which starts and closes it. As a context manager it is started
    once, and lends its executors to several managers, and to a :class:`phalanx.Grid` for spaces, copies and message
    passing programs.

    The program gets a grid of its own, whose hub runs in the program's process and whose only user is the program. The
    engine carries one order to each executor, and nothing else: tasks, messages, tuples and files travel on links
    between the program and the executors. When the program closes the pilot, or is killed, the executors end.

    Parameters
    ----------
    interpreters
        How many interpreters each executor offers; None: one for each core that the engine gives to it.
    at_least
        The number of executors that are waited for. A manager with a contract waits until the contract can be met.
        Executors that come later are recruited, too.
    wait
        Maximum seconds to wait for them.
    address
        By which hosts executors reach this machine, if not by all addresses that it has.
    cage
        What keeps users' processes there from the rest of the account: ``"none"``, because both are yours;
        ``"limits"``, ``"files"`` or ``"full"``, as for ``phalanx executor --cage``.
    export
        Folders there that copies may read, or read and write: ``"/scratch:rw"``.
    at_most
        The most executors, for engines that give more of them, or take some back, while the program runs.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Slurm(nodes=2, at_least=2) as pilot:  # doctest: +SKIP
    ...     print([executor.name for executor in pilot.executors()])
    ['n1', 'n2']
    """

    def __init__(
        self,
        *,
        interpreters: int | None,
        at_least: int,
        wait: float,
        address: str | Iterable[str],
        cage: Cage,
        export: str | Iterable[str],
        at_most: int | None = None,
    ) -> None:
        if interpreters is not None:
            check_count("interpreters", interpreters)
        self._at_least = check_count("at_least", at_least)
        self._wait = check_seconds("wait", wait)
        self._address = [address] if isinstance(address, str) and address else [*address]
        check_word("cage", cage, CAGES, RecruitError)
        self._interpreters, self._cage = interpreters, cage
        self._export = [export] if isinstance(export, str) else [*export]
        if wrong := [it for it in self._export if not isinstance(it, str) or it.rpartition(":")[2] not in ("ro", "rw")]:
            raise RecruitError(f"export is a folder with :ro or :rw, like '/scratch:rw', not {wrong[0]!r:.80}")
        self._at_most = at_most
        self._order: Order | None = None
        self._elastic: Elastic | None = None
        self._grid: OwnGrid | None = None
        self._lock = threading.Lock()
        self._pid = 0

    def _check_places(self, option: str, count: int, most: int) -> int:
        """The number of executors that the engine is asked for. Raises RecruitError if it, or ``at_most``, is more than
        ``most``, and if it does not lie between ``at_least`` and ``at_most``."""
        check_count(option, count, most)
        if self._at_least > count:
            raise RecruitError(f"at_least={self._at_least} is more than {option}={count}")
        if self._at_most is not None and check_count("at_most", self._at_most, most) < count:
            raise RecruitError(f"at_most={self._at_most} is less than {option}={count}")
        return count

    # The engine's part.

    def _start(self, order: Order) -> None:
        """Has the engine start the executors. It may still have to find places for them."""
        raise NotImplementedError

    def _end(self) -> None:
        """Has the engine end the executors. It is called once, also after a start that has failed."""
        raise NotImplementedError

    def _failure(self, here: int) -> str | None:
        """Why no executors will come beside those that are here. None: some may."""
        raise NotImplementedError

    def _state(self) -> str:
        """What the engine says of the executors that have not come, for people."""
        raise NotImplementedError

    def _more(self, order: Order) -> None:
        """Has the engine start one more executor. Only for engines that take ``at_most``."""
        raise NotImplementedError

    def _left(self) -> int:
        """How many executors the engine was asked for, without those that have ended for good."""
        raise NotImplementedError

    def _renew(self, order: Order) -> None:
        """Has executors that start from now on read this order."""
        raise NotImplementedError

    # The manager's part.

    def _follow(self, native: _native.Manager) -> None:
        """Grows and shrinks with the contract of a manager, which has this pilot for itself, if that is allowed."""
        if self._at_most is not None:
            self._elastic = Elastic(native, self.executors, self._grow, self._give_back)

    def _grow(self, here: int) -> bool:
        """Asks for one more executor if all that were asked for are here, and more are allowed. Whether it did."""
        if self._at_most is None or self._order is None or not self._left() <= here < self._at_most:
            return False
        self._more(self._order)
        return True

    def _give_back(self, name: str, here: int) -> bool:
        """Ends an executor, and with it its place, if enough others are here. Whether it did."""
        if here <= self._at_least or self._order is None or self._left() != here:
            return False
        grid = self._started()
        # A hub withdraws the token by which an expelled member has joined: those that start later need another one.
        self._order = self._order._replace(token=grid.token())
        self._renew(self._order)
        grid.expel(name)
        return True

    # The user's part.

    @property
    def is_started(self) -> bool:
        """Whether the engine was asked for executors, and not yet to end them."""
        return self._grid is not None

    def start(self: Self) -> Self:
        """Asks the engine for the executors. It does not wait for them.

        Returns
        -------
        Pilot
            This one.

        Raises
        ------
        RecruitError
            The engine is not there, or refuses.
        """
        from phalanx.pilots._own_grid import OwnGrid  # most managers have no pilot

        with self._lock:
            if self._grid is not None:
                raise RecruitError(f"{self!r} is started already")
            self._grid, self._pid = OwnGrid(self._address), os.getpid()
            atexit.register(self.close)
        self._order = Order(self._grid.token(), self._interpreters, self._cage, (*self._export,))
        try:
            self._start(self._order)
        except BaseException:
            self.close()
            raise
        return self

    def executors(self) -> list[Member]:
        """The executors that are here now.

        Returns
        -------
        list of phalanx.members.Member
            Their names, addresses, and what their machines have.
        """
        return self._started().executors()

    def hosts(self, places: int | None = None) -> JoinedHosts:
        """Waits for executors, and returns them as machines.

        Parameters
        ----------
        places
            The number of interpreters that they must offer together; None: any.

        Returns
        -------
        phalanx.Hosts

        Raises
        ------
        RecruitError
            No executor came in time, or none will come. The error has what the engine says.
        """
        grid = self._started()
        if not self._await(grid, places or 0):
            raise RecruitError(f"no executor came within {self._wait:g} s: {self._state()}")
        return grid.hosts()

    def close(self) -> None:
        """Ends the executors, and the grid of the program. A second call does nothing."""
        with self._lock:
            grid, self._grid = self._grid, None
        if grid is None or os.getpid() != self._pid:
            return  # a fork has a copy of what is its parent's
        atexit.unregister(self.close)
        if self._elastic is not None:
            self._elastic.close()
            self._elastic = None
        try:
            self._end()
        finally:
            grid.close()

    def __enter__(self: Self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _started(self) -> OwnGrid:
        if self._grid is None:
            raise RecruitError(f"{self!r} is not started: write it in a with statement, or give it to a px.Manager")
        return self._grid

    def _await(self, grid: OwnGrid, places: int) -> bool:
        """Waits until enough executors are here, or the time is over. Whether there is any."""
        began = asked = time.monotonic()
        said = False
        while True:
            here, now = grid.executors(), time.monotonic()
            there = sum(map(offered, here))
            if len(here) >= self._at_least and there >= places:
                return True
            if now - asked >= _ASK:
                asked = now
                if there < places and self._grow(len(here)):
                    continue
                why = self._failure(len(here))
                if why is not None and not here:
                    raise RecruitError(why)
                if why is not None:
                    _log.warning("%d of %d executors have come: %s", len(here), self._at_least, why)
                    return True
            if now - began >= self._wait:
                return bool(here)
            if not said and now - began >= _SAY:
                said = True
                _log.warning("waiting for executors, for %.0f s at most: %s", self._wait, self._state())
            time.sleep(_LOOK)
