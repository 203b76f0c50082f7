"""The tuple space of paper 002: ``out``, ``in_``, ``rd``, ``inp``, ``rdp``, ``eval``, and what eleven systems add."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from types import TracebackType
from typing import Any, TypeVar, cast, overload

from phalanx import _native
from phalanx.errors import SpaceError
from phalanx.space import _futures, _serve
from phalanx.space._engine import Engine, Fields
from phalanx.space._eval import Evaluations
from phalanx.space._events import Events
from phalanx.space._info import SpaceInfo
from phalanx.space._open import ClosedEngine, members_of, open_engine, open_members, replicas_of, with_port
from phalanx.space._placement import placing_positions
from phalanx.space._replicas import Replicas
from phalanx.space._select import Select, selectors
from phalanx.space._timeout import timed_out
from phalanx.space._transaction import Transaction
from phalanx.space._where import Query

T = TypeVar("T")

#: Seconds that taking all may take.
LONGEST = 600.0
#: Tuples in a page of ``in_all`` and ``rd_all``, at most.
PAGE = 1000


class Lease:
    """The time that a tuple stays (TSpaces' tuple ageing). What ``out`` with ``lease=`` returns."""

    def __init__(self, engine: Engine, number: int) -> None:
        self._engine = engine
        self._number = number

    def renew(self, seconds: float | None) -> bool:
        """The tuple stays so long from now on, None: until it is taken. False if it is gone already."""
        return self._engine.renew(self._number, seconds)


class Space:
    """A multiset of tuples, which processes put, read and take (paper 002).

    ``address``: None for a space in this process, whose threads share it; ``"host:port/name"`` or ``"unix:path/name"``
    for one that is served; ``"redis://host:port/0/name"`` for one in Redis. A served space is made on its first use
    with the other options; one that is there keeps its own, and a SpaceError says which of those that are given
    differs. Several addresses, or ``"hosts.txt/name"`` for a space at each of the machines in a file, are the *members*
    of one space that is spread over them; open spaces can be members too. ``placement`` says where tuples are put then:
    ``"local"``, at the member of this process or of this machine; ``"owner"``, only at that of this process;
    ``"hash(0,1)"``, at the member that the values of these fields name, so that templates which have them go to one
    member. All processes name the members and the placement alike.

    ``objects``: whether values that have no encoding of their own are pickled. Opening a pickle runs what its sender
    wrote, so say it only where all who put tuples are trusted. ``manager``: where :meth:`eval` makes its calls.
    ``order``: which of several matching tuples comes if ``select=`` does not say: ``"any"`` (the fastest, and what a
    new space has), ``"fifo"``, ``"lifo"``, ``"priority"``. ``lease``: seconds that tuples stay which were put without
    one. ``indexes``: positions that are indexed together from the beginning, as ``[(0, 1)]``; others are built by
    themselves. ``boxes``: positions of numbers that templates ask for with ranges. ``most_tuples``, ``most_bytes``:
    limits, beyond which ``out`` raises SpaceFullError. ``durable``: whether what :meth:`out` returned from survives the
    end of the serving process, on its machine's disk; for a space in this process, the directory to keep it in.
    ``group``: of a served space, which its members alone may open: the name that they have in its server's access
    rules. It travels as with ``secure``; others get an AccessError. ``replicas``: so many servers keep the space
    together, and it goes on while most of them are there: that of the address and ``members``, others at
    ``"host:port"``; or the first of the machines in ``"hosts.txt/name"``. ``new_members``: of a space that is spread:
    the members, or the placement, are these from now on, and no tuple is moved (:func:`phalanx.move_tuples` does both).
    Without it SpaceError is raised where the members know others: tuples would not be found. Further options are those
    that :attr:`phalanx.SpaceInfo.options` shows, and those of the place: ``identity`` and ``policy``, as a manager's.

    In a template a value matches itself, exactly (1 is not 1.0, not True and not "1"; a NaN matches every NaN, -0.0 not
    0.0), a type matches its values (``bool`` is no ``int``; a class matches also those of its subclasses),
    :data:`phalanx.ANY` everything, a query ``px.where() > 3`` what fulfils it, and a tuple of these a tuple. All
    operations that have a template take ``where=``, a query over the whole tuple, and ``transaction=``."""

    def __init__(
        self,
        address: str | Iterable[str | Space] | None = None,
        *,
        placement: str = "local",
        objects: bool = False,
        manager: Executor | None = None,
        order: str | None = None,
        lease: float | None = None,
        indexes: Iterable[Iterable[int]] = (),
        boxes: Iterable[Iterable[int]] = (),
        most_tuples: int | None = None,
        most_bytes: int | None = None,
        durable: bool | str | os.PathLike[str] = False,
        group: str | None = None,
        replicas: int | None = None,
        members: Iterable[str] = (),
        new_members: bool = False,
        **options: Any,
    ) -> None:
        given = {
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
        address = address if address is None or isinstance(address, str) else tuple(address)
        placing_positions(placement)  # a wrong word is an error also where there is one member
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
        """Its address; of a space in this process that nobody serves, one that only this process knows."""
        return self._address if isinstance(self._address, str) else self._served or f"in-process:{id(self):x}"

    @property
    def _transacts(self) -> bool:
        """Redis knows no transactions of ours."""
        return not hasattr(self._engine, "without_transactions")

    @property
    def visits(self) -> int:
        """Of a space that is spread: how many members were asked so far through this object."""
        return getattr(self._engine, "visits", 0)

    def shared_name(self) -> str:
        """Its address, as other processes know it. Raises SpaceError where they do not."""
        if self._served is None and not isinstance(self._address, str):
            raise SpaceError("this space is in this process only: serve() it, and others can open it")
        return self.name

    @property
    def engine(self) -> Engine:
        """What does the work: in this process, on another machine, or in Redis."""
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
        """Puts a tuple. ``lease``: seconds after which it is gone, if nobody took it, and then the :class:`Lease` is
        returned. ``key``: a value by which ``select=px.key(…)`` finds it; another tuple with this key is an error.
        ``label``: a value that many tuples may have, for ``px.label(…)``. ``priority``: for ``px.priority``, 0 if not
        said.

        Raises SpaceFullError where the space is at its limit, TypeError for a value that a tuple does not hold.
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
        """Puts many tuples in their order and at once: all of them, or none."""
        self._engine.out_many(list(tuples), lease, label, priority, self._inside(transaction))

    def in_(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields:
        """Takes a matching tuple; waits for one if there is none. A tuple goes to exactly one taker, and takers get
        what comes in the order in which they came. Raises SpaceTimeoutError after ``timeout`` seconds."""
        return self._wait(template, True, timeout, select, where, transaction)

    def rd(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields:
        """Reads a matching tuple, which stays; waits for one if there is none. Raises SpaceTimeoutError after
        ``timeout`` seconds."""
        return self._wait(template, False, timeout, select, where, transaction)

    def inp(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields | None:
        """Takes a matching tuple if there is one now; else None."""
        inside = None if transaction is None else transaction.number_in(self._engine)
        return self._engine.get(template, True, selectors(select) if select else (), where, inside)

    def rdp(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields | None:
        """Reads a matching tuple if there is one now; else None."""
        inside = None if transaction is None else transaction.number_in(self._engine)
        return self._engine.get(template, False, selectors(select) if select else (), where, inside)

    def in_all(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> list[Fields]:
        """Takes all matching tuples that are there now; all, or none where something goes wrong on the way."""
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
        """Reads all matching tuples that are there now, in pages, so that memory stays bounded: an iterator. What is
        put or taken while it runs may be among them or not."""
        return (fields for page in self._pages(template, False, select, where, transaction) for fields in page)

    def count(self, *template: Any, where: Query | None = None, transaction: Transaction | None = None) -> int:
        """How many tuples match now. ``count()`` counts empty tuples; :meth:`info` tells of all."""
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
        """:meth:`out`, which lets other tasks run where it has to wait for another machine."""
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
        """:meth:`out_many` for asyncio."""
        await self._beside(self._engine.out_many, list(tuples), lease, label, priority, self._inside(transaction))

    async def ain(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields:
        """:meth:`in_` for asyncio. A task that is cancelled has taken nothing."""
        return self._found(template, await self._begin(template, True, timeout, select, where, transaction))

    async def ard(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields:
        """:meth:`rd` for asyncio."""
        return self._found(template, await self._begin(template, False, timeout, select, where, transaction))

    async def ainp(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields | None:
        """:meth:`inp` for asyncio."""
        return await self._begin(template, True, 0, select, where, transaction)

    async def ardp(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Fields | None:
        """:meth:`rdp` for asyncio."""
        return await self._begin(template, False, 0, select, where, transaction)

    async def ain_all(
        self,
        *template: Any,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> list[Fields]:
        """:meth:`in_all` for asyncio. A task that is cancelled has taken nothing, except in Redis, which has no
        transactions; while all is being taken for good it cannot be cancelled any more."""
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
        """:meth:`rd_all` for asyncio: an asynchronous generator."""
        async for fields in self._spread_out(self._pages(template, False, select, where, transaction)):
            yield fields

    async def acount(self, *template: Any, where: Query | None = None, transaction: Transaction | None = None) -> int:
        """:meth:`count` for asyncio."""
        return await self._beside(self._engine.count, template, where, self._inside(transaction))

    def in_future(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Future[Fields]:
        """Begins to take a tuple, and goes on (Blossom's prefetch): a :class:`concurrent.futures.Future`.

        The tuple is taken when ``result()`` returns it. A future that is cancelled, or thrown away, takes nothing and
        waits no longer; one with a callback is kept until it has called it."""
        request = (template, True, selectors(select), where, self._inside(transaction), timeout)
        return _futures.TupleFuture(self._engine, request, repr(self))

    def rd_future(
        self,
        *template: Any,
        timeout: float | None = None,
        select: Select = (),
        where: Query | None = None,
        transaction: Transaction | None = None,
    ) -> Future[Fields]:
        """Begins to read a tuple, and goes on: a :class:`concurrent.futures.Future`."""
        request = (template, False, selectors(select), where, self._inside(transaction), timeout)
        return _futures.TupleFuture(self._engine, request, repr(self))

    def eval(self, function: Callable[..., Fields], *args: Any) -> Future[Fields]:
        """Calls ``function(*args)`` at an interpreter and puts the tuple that it returns; a future of the tuple.

        The interpreter is one of ``manager``, or of a manager for this machine that the space has for this. If its
        machine dies the call is made again elsewhere, and the tuple is put once. Where the call raises, no tuple is
        put: the future raises it, and it is logged."""
        return self._evaluations.begin(self._put, function, args)

    def notify(self, *template: Any, where: Query | None = None, since: int | None = None) -> Events:
        """The matching tuples that are put from now on, as events; ``since``: those after the event with this
        number."""
        return Events(self._engine, template, where, since, repr(self))

    def info(self) -> SpaceInfo:
        """How many tuples there are, who waits, which indexes were built, and what was done so far."""
        return SpaceInfo.of(self._engine.info())

    def change_members(self, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
        """Servers at the addresses ``add`` keep a replicated space too, from now on, and those of ``remove`` not any
        more. It goes on meanwhile; those that come have everything when this returns. The member that leads cannot be
        removed, and all that stay must be there. Who changes members needs the right to create the space. Raises
        SpaceError where that is not so, and then nothing has changed."""
        if not isinstance(self._engine, Replicas):
            raise SpaceError("this space has no members to change: it was not made with replicas=")
        self._engine.change_members([with_port(member) for member in add], [with_port(member) for member in remove])

    def serve(self, address: str = "127.0.0.1:0", *, name: str = "space", **options: Any) -> str:
        """Serves a space of this process to others until it is closed; returns the address that they open.

        ``address``: ``"host:port"``, port 0 for any free one, or ``"unix:path"``. This user's processes on this machine
        reach it without TCP; other machines only with ``identity=``, the file of this one (by default executor.pem in
        $PHALANX_HOME or ~/.phalanx, if it is there). ``accept``, ``access``, ``trusted`` and ``policy`` say whom it
        serves, over which links: see the guide to serving spaces."""
        if not isinstance(self._engine, _native.LocalSpace):
            raise SpaceError("only a space of this process can be served: this one is served already")
        if self._server is not None:
            raise SpaceError(f"this space is served already, at {self._server.address}")
        server = _serve.start(address, creates=False, **options)
        server.add(name, self._engine)
        self._server, self._served = server, f"{server.address}/{name}"
        return self._served

    def close(self) -> None:
        """Waits for evals, ends who waits here, and lets go of the space; one in this process is gone with its
        tuples, unless it is durable."""
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
        if isinstance(self._address, tuple):
            members = tuple(member if isinstance(member, str) else member.shared_name() for member in self._address)
            return _again, (members, self._again)
        if self._address is not None:
            return _again, (self._address, self._again)
        return _again, (self.shared_name(), {"objects": self._again["objects"]})

    def __repr__(self) -> str:
        return f"Space({self._address!r})" if self._address else "Space()"

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
        """Calls what may wait for another machine while other tasks run."""
        if isinstance(self._engine, _native.LocalSpace):
            return work(*arguments)
        return await asyncio.to_thread(work, *arguments)

    async def _to_its_end(self, work: Callable[..., T], *arguments: Any) -> tuple[T, bool]:
        """The same, to its end also where this task is cancelled meanwhile: and whether it was."""
        if isinstance(self._engine, _native.LocalSpace):
            return work(*arguments), False
        # No task: that would be cancelled with all others at the end of the loop.
        running = asyncio.get_running_loop().run_in_executor(None, partial(work, *arguments))
        was_cancelled = False
        while not running.done():
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                was_cancelled = True
        return running.result(), was_cancelled

    async def _spread_out(self, pages: Iterator[list[Fields]]) -> AsyncGenerator[Fields, None]:
        """What is in the pages, one after the other."""
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


def _again(address: str | tuple[str, ...], options: dict[str, Any]) -> Space:
    """A space that was pickled, opened where it is unpickled."""
    return Space(address, **options)
