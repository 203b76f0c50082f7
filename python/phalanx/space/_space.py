"""The tuple space of paper 002: Linda's ``out``, ``in_``, ``rd``, ``inp``, ``rdp``, ``eval``, and the additions of
the eleven systems of paper 002."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from phalanx import _native
from phalanx._asynchronous import AwaitableFuture
from phalanx._shown import card, named, safe
from phalanx.errors import SpaceError
from phalanx.hosts import with_port
from phalanx.space import _futures, _serve
from phalanx.space._engine import Engine, Fields
from phalanx.space._eval import Evaluations
from phalanx.space._events import Events
from phalanx.space._info import SpaceInfo
from phalanx.space._open import (
    ClosedEngine,
    in_joined_grid,
    members_of,
    open_engine,
    open_members,
    replicas_of,
    with_hosts,
)
from phalanx.space._placement import placing_positions
from phalanx.space._replicas import Replicas
from phalanx.space._select import Select, selectors
from phalanx.space._servers import servers_of
from phalanx.space._timeout import timed_out
from phalanx.space._transaction import Transaction
from phalanx.space._where import Query
from phalanx.words import ORDERS, Order, Placement, StrPath, check_word

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from phalanx.space._option_types import MoreOptions, ServeOptions

T = TypeVar("T")

#: Timeout in seconds of the transaction in which ``in_all`` takes its tuples.
LONGEST = 600.0
#: Maximum number of tuples in a page of ``in_all`` and ``rd_all``. It bounds the memory that ``rd_all`` needs.
PAGE = 1000


class Lease:
    """The time that a tuple stays in the space. :meth:`Space.out` with ``lease=`` returns one.

    Source: tuple ageing of TSpaces, in paper 002.

    Examples
    --------
    >>> import phalanx as px
    >>> space = px.Space()
    >>> lease = space.out("heartbeat", 7, lease=60.0)
    >>> lease.renew(60.0)
    True
    """

    def __init__(self, engine: Engine, number: int) -> None:
        self._engine = engine
        self._number = number

    def renew(self, seconds: float | None) -> bool:
        """Extends or shortens the lease, counted from now.

        Parameters
        ----------
        seconds : float or None
            Seconds that the tuple stays from now on. ``None`` removes the limit: the tuple stays until it is taken.

        Returns
        -------
        bool
            False if the tuple is gone already.
        """
        return self._engine.renew(self._number, seconds)


class Space:
    """A multiset of tuples that processes put, read and take (paper 002).

    Parameters
    ----------
    address : str, iterable of str or Space, or None
        Where the space is:

        - ``None``: in this process. The threads of the process share it.
        - ``"host:port/name"`` or ``"unix:path/name"``: at a server. The first use makes the space with the options
          given here. An existing space keeps its own options. If an option given here differs, SpaceError names it.
        - ``"lab/name"``, where ``lab`` is a grid that this account has joined: at its hub's machine. A host called
          ``lab`` is then written with its port.
        - ``"redis://host:port/0/name"``: in Redis.
        - Several addresses, or ``"hosts.txt/name"`` for a space at each machine of a hosts file: the *members* of one
          space that is spread over them. Open spaces can be members too.
    placement : {"local", "owner"} or str
        Where a spread space puts a tuple. All processes must name the same members and the same placement.

        - ``"local"``: at the member of this process or of this machine.
        - ``"owner"``: only at the member of this process.
        - ``"hash(0,1)"``: at the member that a hash of these fields' values names. A template with values in these
          fields goes to that one member.
    objects : bool
        Whether values without an encoding of their own are pickled. Opening a pickle runs code that its sender wrote.
        Set it only if every process that puts tuples is trusted.
    manager : Executor, optional
        Where :meth:`eval` makes its calls.
    order : {"any", "fifo", "lifo", "priority"}, optional
        Which of several matching tuples comes when an operation has no ``select=``. A new space has ``"any"``, the
        fastest.
    lease : float, optional
        Seconds that tuples stay that were put without a lease of their own.
    indexes : iterable of iterable of int
        Positions that are indexed together from the beginning, as ``[(0, 1)]``. The space builds further indexes by
        itself.
    boxes : iterable of iterable of int
        Positions of numbers that templates ask for with ranges.
    most_tuples, most_bytes : int, optional
        Limits of the space, in tuples and in bytes. Beyond them :meth:`out` raises SpaceFullError.
    durable : bool or path
        Whether tuples outlive the serving process: once :meth:`out` has returned, its tuple is on the disk of that
        machine. For a space in this process, the directory to keep it in.
    group : str, optional
        Only members of this group may open the served space; others get an AccessError. The name is that of the group
        in the access rules of the server. Tuples travel as with ``secure``.
    replicas : int, optional
        How many servers keep copies of the space. It goes on while a majority of them is there. The servers are that of
        the address and ``members``, or the first machines of ``"hosts.txt/name"``.
    members : iterable of str
        The other servers of a replicated space, as ``"host:port"``.
    new_members : bool
        For a spread space: makes these the members, or the placement, from now on, and moves no tuple.
        :func:`phalanx.space.move_tuples` does both. Without it, SpaceError is raised where the members know other
        members, because tuples would not be found.
    **options
        Further options that :attr:`phalanx.space.SpaceInfo.options` shows, and ``identity``, ``policy`` and ``trusted``
        as for a :class:`phalanx.Manager`. ``certificates`` is the name that the server at each address must prove with
        its certificate, as in ``{"lab:7400": "ws7"}``. Beside ``hosts_file`` may lie a list of revoked certificates. A
        hosts file and a grid tell both. At other addresses the first member that answers is remembered, and no other is
        accepted.

    Raises
    ------
    SpaceError
        The address is wrong, the server cannot be reached or refuses, or the space was made with other options.
    AccessError
        The access rules of the server do not allow it.
    IdentityError
        The user's certificate is missing, or another member answers than the one that is expected.

    Notes
    -----
    In a template

    - a value matches itself, exactly: 1 is not 1.0, not True and not "1". A NaN matches every NaN, -0.0 not 0.0.
    - a type matches its values. ``bool`` is no ``int``. A class also matches values of its subclasses.
    - :data:`phalanx.space.ANY` matches everything.
    - a query such as ``px.space.where() > 3`` matches the values that fulfil it.
    - a tuple of these matches a tuple.

    All operations with a template take ``where=``, a query over the whole tuple, and ``transaction=``.

    Examples
    --------
    >>> import phalanx as px
    >>> space = px.Space()
    >>> space.out("square", 3, 9)
    >>> space.in_("square", 3, int)
    ('square', 3, 9)
    """

    def __init__(
        self,
        address: str | Iterable[str | Space] | None = None,
        *,
        placement: Placement = "local",
        objects: bool = False,
        manager: Executor | None = None,
        order: Order | None = None,
        lease: float | None = None,
        indexes: Iterable[Iterable[int]] = (),
        boxes: Iterable[Iterable[int]] = (),
        most_tuples: int | None = None,
        most_bytes: int | None = None,
        durable: bool | StrPath = False,
        group: str | None = None,
        replicas: int | None = None,
        members: Iterable[str] = (),
        new_members: bool = False,
        **options: Unpack[MoreOptions],
    ) -> None:
        if order is not None:
            check_word("order", order, ORDERS, SpaceError)
        given: dict[str, Any] = {
            "order": order,
            "lease": lease,
            "indexes": [list(positions) for positions in indexes] or None,
            "boxes": [list(positions) for positions in boxes] or None,
            "most_tuples": most_tuples,
            "most_bytes": most_bytes,
            "durable": durable or None,
            "group": group,
            **options,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if isinstance(address, str):
            address, given = in_joined_grid(address, given)
            given = with_hosts(address, given)
        address = address if address is None or isinstance(address, str) else tuple(address)
        placing_positions(placement)  # checked here, so that a wrong word is an error also with one member
        self._address = address
        self._again = {"objects": objects, "placement": placement, **given}
        self._evaluations = Evaluations(manager)
        if replicas is not None or members:
            others = list(members)
            self._again |= {"replicas": replicas, "members": others}
            if replicas is None or isinstance(address, tuple):
                raise SpaceError("members= are those of one replicated space: say how many with replicas=")
            address, given["members"] = replicas_of(address, replicas, others)
        elif isinstance(address, str):
            address = members_of(address) or address
        if new_members and not isinstance(address, (tuple, list)):
            raise SpaceError("new_members=True is for a space that is spread over several members")
        if address is None or isinstance(address, str):
            self._engine: Engine = open_engine(address, objects, given)
        else:
            self._engine = open_members(list(address), placement, objects, new_members, given)
        self._server: _native.SpaceServer | None = None
        self._served: str | None = None

    @property
    def name(self) -> str:
        """The address of the space. For a space in this process that is not served, a name that only this process
        knows."""
        return self._address if isinstance(self._address, str) else self._served or f"in-process:{id(self):x}"

    @property
    def _transacts(self) -> bool:
        """Whether the engine has transactions; a space in Redis has none."""
        return not hasattr(self._engine, "without_transactions")

    @property
    def visits(self) -> int:
        """How many requests this object has sent to members of a spread space so far; 0 for other spaces."""
        return getattr(self._engine, "visits", 0)

    def shared_name(self) -> str:
        """The address under which other processes can open the space.

        Returns
        -------
        str

        Raises
        ------
        SpaceError
            The space is in this process only.
        """
        if self._served is None and not isinstance(self._address, str):
            raise SpaceError("this space is in this process only: serve() it, and others can open it")
        return self.name

    @property
    def engine(self) -> Engine:
        """The engine that does the work: in this process, on another machine, or in Redis."""
        return self._engine

    @overload
    def out(
        self,
        *fields: Any,
        lease: None = None,
        key: Any = None,
        label: Any = None,
        priority: int | None = None,
        transaction: Transaction | None = None,
    ) -> None: ...
    @overload
    def out(
        self,
        *fields: Any,
        lease: float,
        key: Any = None,
        label: Any = None,
        priority: int | None = None,
        transaction: Transaction | None = None,
    ) -> Lease: ...
    def out(
        self,
        *fields: Any,
        lease: float | None = None,
        key: Any = None,
        label: Any = None,
        priority: int | None = None,
        transaction: Transaction | None = None,
    ) -> Lease | None:
        """Puts a tuple into the space (Linda's ``out``, paper 002).

        Parameters
        ----------
        *fields
            The fields of the tuple.
        lease : float, optional
            Seconds after which the tuple is gone if it was not taken.
        key : optional
            A value by which ``select=px.space.key(…)`` finds the tuple. A second tuple with the same key is an error.
        label : optional
            A value for ``select=px.space.label(…)``. Many tuples may have the same one.
        priority : int, optional
            For ``select=px.space.priority``. Default: 0.
        transaction : Transaction, optional
            The tuple is visible to others only after the commit of this transaction.

        Returns
        -------
        Lease or None
            The lease, if ``lease`` was given.

        Raises
        ------
        SpaceFullError
            The space is at its limit.
        TypeError
            A tuple cannot hold one of the values.

        Examples
        --------
        >>> import phalanx as px
        >>> space = px.Space()
        >>> space.out("todo", 5, priority=1)
        """
        engine = self._engine
        inside = None if transaction is None else transaction.number_in(engine)
        number = engine.out(fields, lease, key, label, priority, inside)
        return None if lease is None else Lease(engine, number)

    def out_many(
        self,
        tuples: Iterable[Fields],
        *,
        lease: float | None = None,
        label: Any = None,
        priority: int | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Puts many tuples, in their order, as one atomic operation: all of them or none.

        Parameters
        ----------
        tuples : iterable of tuple
            The tuples, each a tuple of its fields.
        lease, label, priority, transaction
            As for :meth:`out`, for every tuple.

        Raises
        ------
        SpaceFullError
            The space is at its limit.

        Examples
        --------
        >>> import phalanx as px
        >>> space = px.Space()
        >>> space.out_many([("todo", 1), ("todo", 2)])
        >>> space.count("todo", int)
        2
        """
        self._engine.out_many(list(tuples), lease, label, priority, self._inside(transaction))

    def in_(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields:
        """Takes a matching tuple out of the space, and waits until there is one (Linda's ``in``, paper 002).

        A tuple goes to exactly one taker. Waiting takers are served in the order in which they came.

        Parameters
        ----------
        *template
            The fields to match: values, types, :data:`phalanx.space.ANY`, queries.
        timeout : float, optional
            The most seconds to wait. Default: no limit.
        select : optional
            Which of several matching tuples comes: ``px.space.fifo``, ``px.space.lifo``, ``px.space.priority``,
            ``px.space.key(…)``, ``px.space.label(…)``, or several of them. Default: the ``order`` of the space.
        where : Query, optional
            A query over the whole tuple.
        transaction : Transaction, optional
            The tuple comes back if this transaction is aborted.

        Returns
        -------
        tuple
            All fields of the tuple.

        Raises
        ------
        SpaceTimeoutError
            No tuple came within ``timeout`` seconds.

        Examples
        --------
        >>> import phalanx as px
        >>> space = px.Space()
        >>> space.out("found", "key", 42)
        >>> space.in_("found", str, int, timeout=1.0)
        ('found', 'key', 42)
        """
        return self._wait(template, True, timeout, select, where, transaction)

    def rd(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields:
        """Reads a matching tuple, which stays in the space, and waits until there is one (Linda's ``rd``, paper 002).

        Parameters
        ----------
        *template, timeout, select, where, transaction
            As for :meth:`in_`.

        Returns
        -------
        tuple
            All fields of the tuple.

        Raises
        ------
        SpaceTimeoutError
            No tuple came within ``timeout`` seconds.
        """
        return self._wait(template, False, timeout, select, where, transaction)

    def inp(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields | None:
        """Takes a matching tuple if there is one now (Linda's ``inp``, paper 002).

        Parameters
        ----------
        *template, select, where, transaction
            As for :meth:`in_`.

        Returns
        -------
        tuple or None
            All fields of the tuple; None if no tuple matches now.
        """
        inside = None if transaction is None else transaction.number_in(self._engine)
        return self._engine.get(template, True, selectors(select) if select else (), where, inside)

    def rdp(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields | None:
        """Reads a matching tuple if there is one now (Linda's ``rdp``, paper 002).

        Parameters
        ----------
        *template, select, where, transaction
            As for :meth:`in_`.

        Returns
        -------
        tuple or None
            All fields of the tuple, which stays in the space; None if no tuple matches now.
        """
        inside = None if transaction is None else transaction.number_in(self._engine)
        return self._engine.get(template, False, selectors(select) if select else (), where, inside)

    def in_all(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> list[Fields]:
        """Takes all matching tuples that are there now.

        It takes all of them, or none if an error comes on the way. A space in Redis has no transactions and cannot
        promise that.

        Parameters
        ----------
        *template, select, where, transaction
            As for :meth:`in_`.

        Returns
        -------
        list of tuple
            The tuples; empty if none matches.

        Raises
        ------
        SpaceError
            A transaction of its own could not be committed, as after 600 s.
        """
        if transaction is None and self._transacts:
            with Transaction(self, timeout=LONGEST) as whole:
                return self.in_all(*template, select=select, where=where, transaction=whole)
        return [fields for page in self._pages(template, True, select, where, transaction) for fields in page]

    def rd_all(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Iterator[Fields]:
        """Reads all matching tuples that are there now.

        Tuples come in pages, so that memory stays bounded. Tuples that are put or taken while it runs may be among them
        or not.

        Parameters
        ----------
        *template, select, where, transaction
            As for :meth:`in_`.

        Returns
        -------
        iterator of tuple
            The tuples, which stay in the space.
        """
        return (fields for page in self._pages(template, False, select, where, transaction) for fields in page)

    def count(self, *template: Any, where: Query | None = None, transaction: Transaction | None = None) -> int:
        """Counts the tuples that match now.

        ``count()`` without a template counts the empty tuples. :meth:`info` tells how many tuples there are in all.

        Parameters
        ----------
        *template, where, transaction
            As for :meth:`in_`.

        Returns
        -------
        int
            The number of matching tuples.
        """
        return self._engine.count(template, where, self._inside(transaction))

    @overload
    async def aout(
        self,
        *fields: Any,
        lease: None = None,
        key: Any = None,
        label: Any = None,
        priority: int | None = None,
        transaction: Transaction | None = None,
    ) -> None: ...
    @overload
    async def aout(
        self,
        *fields: Any,
        lease: float,
        key: Any = None,
        label: Any = None,
        priority: int | None = None,
        transaction: Transaction | None = None,
    ) -> Lease: ...
    async def aout(
        self,
        *fields: Any,
        lease: float | None = None,
        key: Any = None,
        label: Any = None,
        priority: int | None = None,
        transaction: Transaction | None = None,
    ) -> Lease | None:
        """:meth:`out` for asyncio: other tasks run while it waits for another machine.

        Parameters
        ----------
        *fields, lease, key, label, priority, transaction
            As for :meth:`out`.

        Returns
        -------
        Lease or None
            As for :meth:`out`.
        """
        number = await self._beside(self._engine.out, fields, lease, key, label, priority, self._inside(transaction))
        return None if lease is None else Lease(self._engine, number)

    async def aout_many(
        self,
        tuples: Iterable[Fields],
        *,
        lease: float | None = None,
        label: Any = None,
        priority: int | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """:meth:`out_many` for asyncio.

        Parameters
        ----------
        tuples, lease, label, priority, transaction
            As for :meth:`out_many`.
        """
        await self._beside(self._engine.out_many, list(tuples), lease, label, priority, self._inside(transaction))

    async def ain(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields:
        """:meth:`in_` for asyncio. A task that is cancelled has taken nothing.

        Parameters
        ----------
        *template, timeout, select, where, transaction
            As for :meth:`in_`.

        Returns
        -------
        tuple
            The tuple.
        """
        return self._found(template, await self._begin(template, True, timeout, select, where, transaction))

    async def ard(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields:
        """:meth:`rd` for asyncio.

        Parameters
        ----------
        *template, timeout, select, where, transaction
            As for :meth:`rd`.

        Returns
        -------
        tuple
            The tuple.
        """
        return self._found(template, await self._begin(template, False, timeout, select, where, transaction))

    async def ainp(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields | None:
        """:meth:`inp` for asyncio.

        Parameters
        ----------
        *template, select, where, transaction
            As for :meth:`inp`.

        Returns
        -------
        tuple or None
            The tuple; None if there is none.
        """
        return await self._begin(template, True, 0, select, where, transaction)

    async def ardp(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields | None:
        """:meth:`rdp` for asyncio.

        Parameters
        ----------
        *template, select, where, transaction
            As for :meth:`rdp`.

        Returns
        -------
        tuple or None
            The tuple; None if there is none.
        """
        return await self._begin(template, False, 0, select, where, transaction)

    async def ain_all(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> list[Fields]:
        """:meth:`in_all` for asyncio.

        A task that is cancelled has taken nothing, except in Redis, which has no transactions. During the commit the
        task cannot be cancelled any more.

        Parameters
        ----------
        *template, select, where, transaction
            As for :meth:`in_all`.

        Returns
        -------
        list of tuple
            All tuples that matched.
        """
        if transaction is None and self._transacts:
            whole = await self._beside(partial(Transaction, self, timeout=LONGEST))
            try:
                found = await self.ain_all(*template, select=select, where=where, transaction=whole)
            except BaseException:
                await self._to_its_end(whole.abort)
                raise
            await self._to_its_end(whole.commit)
            return found
        pages, found = self._pages(template, True, select, where, transaction), []
        while True:
            page, was_cancelled = await self._to_its_end(next, pages, None)
            if was_cancelled:
                raise asyncio.CancelledError
            if page is None:
                return found
            found += page

    async def ard_all(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> AsyncGenerator[Fields, None]:
        """:meth:`rd_all` for asyncio: an asynchronous generator.

        Parameters
        ----------
        *template, select, where, transaction
            As for :meth:`rd_all`.

        Yields
        ------
        tuple
            The next tuple that matches.
        """
        async for fields in self._spread_out(self._pages(template, False, select, where, transaction)):
            yield fields

    async def acount(self, *template: Any, where: Query | None = None, transaction: Transaction | None = None) -> int:
        """:meth:`count` for asyncio.

        Parameters
        ----------
        *template, where, transaction
            As for :meth:`count`.

        Returns
        -------
        int
        """
        return await self._beside(self._engine.count, template, where, self._inside(transaction))

    def in_future(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> AwaitableFuture[Fields]:
        """Begins to take a tuple and returns at once (Blossom's prefetch, paper 002).

        The tuple is taken for good when ``result()`` returns it. A future that is cancelled or garbage-collected takes
        nothing and stops waiting. A future with a callback is kept alive until it has called the callback.

        Parameters
        ----------
        *template, timeout, select, where, transaction
            As for :meth:`in_`.

        Returns
        -------
        concurrent.futures.Future
            Its result is the tuple. It can be awaited. It raises SpaceTimeoutError after ``timeout`` seconds.
        """
        request = (template, True, selectors(select), where, self._inside(transaction), timeout)
        return _futures.TupleFuture(self._engine, request, repr(self))

    def rd_future(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> AwaitableFuture[Fields]:
        """Begins to read a tuple and returns at once.

        Parameters
        ----------
        *template, timeout, select, where, transaction
            As for :meth:`in_`.

        Returns
        -------
        concurrent.futures.Future
            Its result is the tuple, which stays in the space. It can be awaited.
        """
        request = (template, False, selectors(select), where, self._inside(transaction), timeout)
        return _futures.TupleFuture(self._engine, request, repr(self))

    def eval(self, function: Callable[..., Fields], *args: Any) -> Future[Fields]:
        """Calls ``function(*args)`` at an interpreter and puts the tuple that it returns (Linda's ``eval``, paper 002).

        The interpreter belongs to the ``manager`` of the space. Without one, the space makes a manager for this
        machine. If the interpreter's machine dies, the call is made again elsewhere, and the tuple is put once.

        Parameters
        ----------
        function : callable
            Returns the fields of the tuple.
        *args
            The arguments of the call.

        Returns
        -------
        concurrent.futures.Future
            Its result is the tuple. If the call raises, no tuple is put, the error is logged and the future raises it.
        """
        return self._evaluations.begin(self._put, function, args)

    def notify(self, *template: Any, where: Query | None = None, since: int | None = None) -> Events:
        """Watches for matching tuples that are put from now on.

        Parameters
        ----------
        *template, where
            As for :meth:`in_`.
        since : int, optional
            Begin after the event with this number.

        Returns
        -------
        Events
            An iterator of :class:`phalanx.space.Event`.
        """
        return Events(self._engine, template, where, since, repr(self))

    def info(self) -> SpaceInfo:
        """The state of the space: number of tuples, waiting requests, indexes, and counts of operations so far.

        Returns
        -------
        SpaceInfo
        """
        return SpaceInfo.of(self._engine.info())

    def change_members(self, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        """Adds servers to a replicated space and removes others. The space stays usable meanwhile.

        The caller needs the right to create the space. All members that stay must be reachable.

        Parameters
        ----------
        add : iterable of str
            Addresses of servers that join. They hold the whole space when this method returns.
        remove : iterable of str
            Addresses of servers that leave. The leader cannot be removed.

        Raises
        ------
        SpaceError
            One of these conditions is not met, or the space is not replicated. Then nothing has changed.
        """
        if not isinstance(self._engine, Replicas):
            raise SpaceError("this space has no members to change: it was not made with replicas=")
        self._engine.change_members([with_port(member) for member in add], [with_port(member) for member in remove])

    def serve(self, address: str = "127.0.0.1:0", *, name: str = "space", **options: Unpack[ServeOptions]) -> str:
        """Serves a space of this process to other processes until the space is closed.

        Processes of the same user on this machine reach it without TCP.

        Parameters
        ----------
        address : str
            ``"host:port"``, with port 0 for any free one, or ``"unix:path"``.
        name : str
            The name of the space at this server.
        **options
            ``identity``: the identity file of this machine, which other machines require; by default ``executor.pem``
            in ``$PHALANX_HOME`` or ``~/.phalanx``, if it is there. ``accept``, ``access``, ``trusted`` and ``policy``
            say which users it serves over which links: see the guide to serving spaces.

        Returns
        -------
        str
            The address under which others open the space.

        Raises
        ------
        SpaceError
            The space is not in this process, or it is served already.

        Examples
        --------
        >>> import phalanx as px
        >>> with px.Space() as space:
        ...     with px.Space(space.serve()) as other:
        ...         other.out("hello", 1)
        ...     space.in_("hello", int)
        ('hello', 1)
        """
        if not isinstance(self._engine, _native.LocalSpace):
            raise SpaceError("only a space of this process can be served: this one is served already")
        if self._server is not None:
            raise SpaceError(f"this space is served already, at {self._server.address}")
        server = _serve.start(address, creates=False, **options)
        server.add(name, self._engine)
        self._server, self._served = server, f"{server.address}/{name}"
        return self._served

    def close(self) -> None:
        """Waits for running evals, ends the requests that wait here, and closes the space.

        A space in this process is gone with its tuples, unless it is durable.
        """
        self._evaluations.shutdown()
        server, self._server = self._server, None
        if server is not None:
            server.close()
        engine, self._engine = self._engine, cast(Engine, ClosedEngine())
        engine.close()

    def __enter__(self) -> Space:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._evaluations.close()  # Ctrl-C: at once
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        servers = servers_of(self._engine)
        if self._server is not None and self._served is not None and self._server.name:
            place, _, name = self._served.rpartition("/")
            servers[place] = self._server.name, name
        certificates = {place: member for place, (member, _) in servers.items()}
        given = _native.mark_given({f"{member}/{name}" for member, name in servers.values()}), certificates
        if isinstance(self._address, tuple):
            members = tuple(member if isinstance(member, str) else member.shared_name() for member in self._address)
            return _again, (members, self._again, given)
        if self._address is not None:
            return _again, (self._address, self._again, given)
        return _again, (self.shared_name(), {"objects": self._again["objects"]}, given)

    def __repr__(self) -> str:
        return safe(lambda: f"Space({self._address!r})" if self._address else "Space()", "Space(…)")

    def _repr_html_(self) -> str:
        return safe(self._card, "<div>Space</div>")

    def _card(self) -> str:
        """The address and, of a space in this process, its counts. No other machine is asked."""
        engine, address = self._engine, self._address
        names = address if isinstance(address, tuple) else [self._served or address or "in this process"]
        facts: list[tuple[str, object]] = [("at", named([str(name) for name in names]))]
        if isinstance(engine, ClosedEngine):
            facts.append(("state", "closed"))
        elif isinstance(engine, _native.LocalSpace):
            info = SpaceInfo.of(engine.info())
            facts += [("tuples", info.tuples), ("waiting requests", info.takers + info.readers)]
        return card("Space", facts)

    def _put(self, fields: Fields) -> None:
        self._engine.out(fields, None, None, None, None, None)

    def _inside(self, transaction: Transaction | None) -> int | None:
        return None if transaction is None else transaction.number_in(self._engine)

    def _wait(
        self,
        template: Fields,
        take: bool,
        timeout: float | None,
        select: Select,
        where: Query | None,
        transaction: Transaction | None,
    ) -> Fields:
        inside = None if transaction is None else transaction.number_in(self._engine)
        chosen = selectors(select) if select else ()
        return self._found(template, self._engine.wait(template, take, chosen, where, inside, timeout))

    def _found(self, template: Fields, fields: Fields | None) -> Fields:
        if fields is None:
            raise timed_out(repr(self), template)
        return fields

    async def _begin(
        self,
        template: Fields,
        take: bool,
        timeout: float | None,
        select: Select,
        where: Query | None,
        transaction: Transaction | None,
    ) -> Fields | None:
        request = (template, take, selectors(select), where, self._inside(transaction), timeout)
        return await _futures.wait(self._engine, request)

    async def _beside(self, work: Callable[..., T], *arguments: Any) -> T:
        """Calls ``work`` in a thread if it may wait for another machine, so that other asyncio tasks run meanwhile."""
        if isinstance(self._engine, _native.LocalSpace):
            return work(*arguments)
        return await asyncio.to_thread(work, *arguments)

    async def _to_its_end(self, work: Callable[..., T], *arguments: Any) -> tuple[T, bool]:
        """As :meth:`_beside`, but runs ``work`` to its end even if this task is cancelled meanwhile. Returns the result
        and whether the task was cancelled."""
        if isinstance(self._engine, _native.LocalSpace):
            return work(*arguments), False
        # A future of an executor, not a task, because the end of the event loop cancels all tasks.
        running = asyncio.get_running_loop().run_in_executor(None, partial(work, *arguments))
        was_cancelled = False
        while not running.done():
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                was_cancelled = True
        return running.result(), was_cancelled

    async def _spread_out(self, pages: Iterator[list[Fields]]) -> AsyncGenerator[Fields, None]:
        """The tuples of all pages, one after the other."""
        while (page := await self._beside(next, pages, None)) is not None:
            for fields in page:
                yield fields

    def _pages(
        self,
        template: Fields,
        take: bool,
        select: Select,
        where: Query | None,
        transaction: Transaction | None,
    ) -> Iterator[list[Fields]]:
        chosen, inside, after = selectors(select), self._inside(transaction), None
        while True:
            page, after = self._engine.get_many(template, take, chosen, where, inside, PAGE, after)
            yield page
            if after is None:
                return


def _again(
    address: str | tuple[str, ...], options: dict[str, Any], given: tuple[str, dict[str, str]] = ("", {})
) -> Space:
    """Opens a pickled space again where it is unpickled.

    ``given``: the mark of the space, and the names of its servers by address. A process that acts for the user has no
    identity file of the user, and expects the servers that the user's program has met.
    """
    if _native.acts_for("spaces"):
        options = {name: value for name, value in options.items() if name != "identity"}
        if given[1]:
            options["certificates"] = {**given[1], **options.get("certificates", {})}
    return Space(address, **options)
