"""The manager: recruits interpreters and computes programs on them (paper 000, section 2)."""

from __future__ import annotations

import logging
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sized
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypedDict, TypeVar, cast, overload

from phalanx import _native
from phalanx._asynchronous import AwaitableFuture as AwaitableFuture
from phalanx._asynchronous import end
from phalanx._compile import Compiled, compile_program
from phalanx._course import Course
from phalanx._futures import Submitted
from phalanx._grids import JoinedHosts, machines_of, names_grid
from phalanx._mapping import buffered
from phalanx._outcomes import failure, stage_code, unreadable
from phalanx._output import Output, shower
from phalanx._program import program_token
from phalanx._prologue import Prologue
from phalanx._reach import Reach
from phalanx._results import Account
from phalanx._results import Results as Results
from phalanx._shown import card, counted, named, safe
from phalanx._stream import item, open_stream
from phalanx._submissions import Submissions
from phalanx._tokens import Code, pack, pack_each, unpack
from phalanx._waiting import waits_for_machines
from phalanx.contracts import Contract, Deadline, ParDegree, Throughput, interpreters_of
from phalanx.errors import ContractError, ContractWarning, PhalanxError
from phalanx.hosts import COMMAND, PYTHON, Hosts, Lan
from phalanx.lan import LanHosts
from phalanx.pilots import Pilot
from phalanx.pilots._lending import lent, returned_on_error
from phalanx.requirements import Needs, read_limit
from phalanx.security import Rules, leads_elsewhere
from phalanx.skeletons import Program, Skeleton, name_of
from phalanx.words import DELEGATES, SERVICES_OF, Delegate, Policy, StrPath, check_word

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from phalanx._packages import Packages
    from phalanx._progress import Bar
    from phalanx.dashboard import Dashboard, Watched
    from phalanx.dashboard._traces import Traced
    from phalanx.summary import Summary

_log = logging.getLogger("phalanx")
A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")
P = ParamSpec("P")
Where: TypeAlias = str | Hosts | Lan | Pilot | None

#: Seconds of work that a run takes from its stream before the results are read.
AHEAD = 0.25
#: Batches for each interpreter that a run always takes ahead, however long they take.
SPARE = 4
#: Interval in seconds at which a waiting reader checks for Ctrl-C.
PATIENCE = 0.1
#: Seconds of silence after which an interpreter counts as lost. With the interval between two checks added, a lost
#: interpreter is noticed in under two seconds.
SILENCE = 1.6
#: Largest number of tasks that a collection's size is reported as.
MOST_TASKS = 1 << 53
#: The latest runs of `compute` whose names a dashboard shows.
MOST_NAMED = 64
#: Maximum number of interpreters on this machine. A larger number is taken for a mistake of the user.
MOST_LOCAL = 1024


class ManagerOptions(TypedDict, total=False):
    """The options of a :class:`Manager` that are not about which machines it uses and how it reaches them."""

    contract: Contract | None
    patience: float
    journal: StrPath | None
    initializer: Callable[..., object] | None
    initargs: tuple[Any, ...]
    output: Output
    delegate: Delegate | None
    needs: Needs | None
    packages: Iterable[StrPath] | StrPath
    wait: float
    dashboard: bool | int
    traces: bool
    memory: int | str | None


class MapOptions(TypedDict, total=False):
    """The options of :meth:`Manager.map`."""

    timeout: float | None
    chunksize: int | None
    buffersize: int | None
    progress: bool | str


class Manager(Executor):
    """Recruits interpreters, computes programs on them, and releases them when it is closed (paper 000, section 2).

    It is a context manager, and a :class:`concurrent.futures.Executor`. ``async with`` ends it without stopping the
    event loop meanwhile.

    Parameters
    ----------
    where
        ``None`` for this machine, ``"host:port"`` for an executor, or :class:`Hosts` for many. The name of a grid that
        this account has joined (``phalanx join``) stands for all its executors that run, and :class:`Lan` for those on
        the local network. A pilot, as :class:`Ssh` or :class:`Slurm`, has an engine start executors. The manager starts
        the pilot, and closes it at its own end, unless it was started before.
    contract
        A :class:`ParDegree`, :class:`Throughput` or :class:`Deadline`; without one, every core that is offered.
    policy
        Which links are private. ``"links"``: every link to a network that is not declared trusted. ``"marked"``: on
        those links only marked code and data; the rest is authenticated: both ends prove who they are once, and
        afterwards an attacker on the wire can read and change it. ``"all"``: every link. Or :class:`Rules`.
    trusted
        Networks whose links need no protection, beside those that the hosts file names.
    identity
        The user's identity file, by default that of the grid in ``$PHALANX_HOME`` or ``~/.phalanx``.
    patience
        Seconds that computations wait when every interpreter is lost and none can be recruited, as while an executor
        restarts. After that they raise LostError, and the next call tries again.
    journal
        A file for the facts of the journal, as lines of JSON.
    initializer, initargs
        A function that each interpreter calls once with ``initargs``, before it fires anything. If it raises,
        everything that is fired there raises :class:`InitializerError`.
    output
        Where the lines go that tasks print. ``"prefix"`` writes them to this program's standard output and error, each
        behind the name of its interpreter, like ``[labpc/3] ``. ``"plain"`` writes them without the name, ``"off"``
        drops them. A function, or the ``write`` of a file, is called with each line and its prefix. Results wait for
        this call, so the function must not wait for results. Default: ``"prefix"`` for interpreters on other machines,
        ``"plain"`` for those of this one.
    delegate
        What interpreters of other machines may do in the user's name, until the manager is closed. ``"given"``: use
        the spaces that the program was given, in closures or as arguments. ``"spaces"``: use the spaces of all servers
        of the grid. ``"copies"``: beside the spaces that were given, copy to and from all executors of the grid, and
        use the files that they export, as the user may. ``"all"``: both, all spaces and copies. ``None``: nothing.
    needs
        What each machine must have, as :func:`phalanx.needs` makes it. The manager recruits only at members of a joined
        grid that have it, also of those that come later.
    packages
        Packages of the user's own that interpreters import: folders, ``.py`` files, and wheels of pure Python. Each
        machine unpacks them once, into a folder that goes with the program.
    wait
        Seconds to wait for the first interpreter, if no machine is there yet or others use all places. What is waited
        for, and the place in the queue, are told in the log ``phalanx``. With 0, the manager does not wait.
    dashboard
        ``True`` serves a page at ``127.0.0.1`` that shows what the program does, until the manager is closed, and
        prints a link to it to standard error. A number is the port. :attr:`dashboard` makes more links.
    traces
        Whether one OpenTelemetry trace is sent when the manager is closed: a span of the program, and one of each run
        (the last 64). It goes to the tracer provider of the program, or else by OTLP over HTTP to where
        ``OTEL_EXPORTER_OTLP_ENDPOINT`` says. Needs ``phalanx-grid[traces]``.
    memory
        The most memory that each interpreter may use, with the processes that it starts: bytes, or a text like
        ``"2 GB"``, at least 64 MB. An interpreter that uses more is ended and replaced, and its task is fired again,
        as after a crash. The errors say how much it used. What an executor gives to each interpreter may be less. On
        Linux only. By default, there is no limit but that of each machine.

    Raises
    ------
    ContractError
        The machines cannot meet the contract, needs are given for machines that are no joined grid, or ``memory`` is
        no amount of memory.
    RecruitError
        No interpreter can be recruited, or no member has what is needed. The error says what each one lacks.
    IdentityError
        The identity is missing or refused.
    StagingError
        One of the packages is no package of pure Python, or they are too large.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(contract=px.ParDegree(2)) as manager:
    ...     list(manager.compute(abs, [-1, 2]))
    [1, 2]
    """

    @waits_for_machines
    @returned_on_error
    def __init__(
        self,
        where: Where = None,
        *,
        contract: Contract | None = None,
        policy: Policy | Rules = "links",
        trusted: str | Iterable[str] = (),
        identity: StrPath | None = None,
        patience: float = 30.0,
        journal: StrPath | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        output: Output = None,
        delegate: Delegate | None = "given",
        needs: Needs | None = None,
        packages: Iterable[StrPath] | StrPath = (),
        wait: float = 0.0,
        dashboard: bool | int = False,
        traces: bool = False,
        memory: int | str | None = None,
    ) -> None:
        if contract is not None and not isinstance(contract, ParDegree | Throughput | Deadline):
            raise ContractError(
                f"{contract!r} is no contract: write px.ParDegree(n), px.Throughput(rate) or px.Deadline(seconds)"
            )
        limit = None if memory is None else read_limit(memory)
        pilot = where if isinstance(where, Pilot) and not where.is_started else None
        where, self._return = lent(where, interpreters_of(contract))
        if delegate is not None:
            check_word("delegate", delegate, DELEGATES, PhalanxError)
        if isinstance(where, str) and names_grid(where):
            where = machines_of(where, identity)
        reach = Reach.of(where if isinstance(where, Hosts | Lan) else None, identity, policy, trusted).meeting(needs)
        where = where if reach.hosts is None else reach.hosts
        words = reach.words()
        if weaker := _native.weaker(words):
            _log.warning("links may be weaker than by default: %s", "; ".join(weaker))
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        prologue = None if initializer is None else stage_code((initializer, tuple(initargs)))
        staged = _read_packages(packages) if packages else None
        addresses, interpreters = _addresses(where), interpreters_of(contract)
        if addresses is None and interpreters is not None and interpreters > MOST_LOCAL:
            raise ContractError(f"{interpreters} interpreters on one machine are more than {MOST_LOCAL}")
        show = shower(output, others=addresses is not None)
        if dashboard is not False:
            _check_port(dashboard)
        if traces:
            pass  # what it lacks is said before anything is started
        if not patience >= 0:  # NaN is not
            raise ContractError(f"patience is a number of seconds, 0 or more, not {patience}")
        if journal is not None:
            Path(journal).open("ab").close()  # before anything is started; the error names the file
        if addresses is not None:
            leads_elsewhere(self)
        self._contract = contract
        self._where = named(addresses)
        native = _native.Manager(
            addresses=addresses,
            grid=_growing(where),
            dialler=None if addresses is None else reach.dialler(),
            program=program_token(),
            interpreters=interpreters,
            throughput=contract.tasks_per_second if isinstance(contract, Throughput) else None,
            deadline=contract.seconds if isinstance(contract, Deadline) else None,
            policy=words,
            command=COMMAND,
            path=[str(Path(entry).absolute()) for entry in sys.path],
            python=PYTHON,
            silence=SILENCE,
            patience=patience,
            journal=journal,
            show=show,
            gives=delegate is not None,
            tell=_log.warning if addresses is not None else None,
            memory=limit,
        )
        if pilot is not None:
            pilot._follow(native)
        for service in SERVICES_OF[delegate] if addresses is not None and delegate is not None else ():
            native.delegate(service, None)
        #: The runs of `compute` that were opened last, and what they compute.
        self._named: deque[tuple[int, str]] = deque(maxlen=MOST_NAMED)
        self._watched = None if dashboard is False else _watched(native, self._named, dashboard)
        native = native if self._watched is None else cast("_native.Manager", self._watched)
        self._traced = _traced(native, self._named) if traces else None
        native = native if self._traced is None else cast("_native.Manager", self._traced)
        if staged is not None:
            native = staged.in_front_of(native, here=addresses is None)
        self._native = native if prologue is None else cast("_native.Manager", Prologue(native, prologue))
        self._submissions = Submissions(self._native, self._return)
        for told in (self._watched, self._traced):
            if told is not None:
                told.names_from(self._submissions.names)
        # A manager that was garbage-collected still answers what was submitted, as the standard library's executors do.
        weakref.finalize(self, self._submissions.shutdown, wait=False).atexit = False

    @property
    def interpreters(self) -> int:
        """How many interpreters the contract asks for. With :class:`Throughput` or :class:`Deadline`, at this
        moment."""
        return self._native.interpreters

    @property
    def dashboard(self) -> Dashboard | None:
        """The page that shows what this manager does; ``None`` without ``dashboard=True``."""
        return None if self._watched is None else self._watched.page

    @overload
    def compute(
        self,
        program: Callable[[A], T],
        tasks: Iterable[A],
        *,
        ordered: bool = True,
        stragglers: bool = True,
        progress: bool | str = False,
    ) -> Results[T]: ...
    @overload
    def compute(
        self,
        program: Skeleton,
        tasks: Iterable[Any],
        *,
        ordered: bool = True,
        stragglers: bool = True,
        progress: bool | str = False,
    ) -> Results[Any]: ...
    def compute(
        self,
        program: Program,
        tasks: Iterable[Any],
        *,
        ordered: bool = True,
        stragglers: bool = True,
        progress: bool | str = False,
    ) -> Results[Any]:
        """Computes ``program`` on every task of a stream (paper 000, section 2).

        Tasks are taken as results are read, so that memory stays bounded.

        Parameters
        ----------
        program
            A function of one argument, or a skeleton.
        tasks
            The input stream; it may be endless. Arrays in a collection (a list, say) are sent from where they lie: do
            not change one before its result is there. Tasks of an iterator are frozen as they come, so a generator may
            fill the same array again.
        ordered
            Whether results come in the order of the tasks. ``False`` gives each result as soon as it is there.
        stragglers
            Whether a task is fired a second time elsewhere when a much slower interpreter holds it and all others wait
            for it. The first result wins. Use ``False`` for functions that should not run twice without need.
        progress
            Whether a terminal or a notebook shows a bar with the results that came, their rate and the time left. A
            text is the name beside the bar. Elsewhere nothing is shown.

        Returns
        -------
        Results
            A generator of the results, for ``for`` and ``async for``. An exception that a task raises is raised in its
            place, with a :class:`RemoteTraceback` as its cause.

        Raises
        ------
        ProgramError, StagingError
            At once: the program is wrong, or cannot be sent.
        CulpritError, LostError
            While results are read.
        RecruitError
            No interpreter ever began.

        Examples
        --------
        >>> import phalanx as px
        >>> with px.Manager(contract=px.ParDegree(2)) as manager:
        ...     list(manager.compute(px.Pipeline(abs, str), [-1, 2]))
        ['1', '2']
        """
        self._check_open()
        compiled = compile_program(program)
        if self._watched is not None or self._traced is not None:
            compiled.name = safe(partial(name_of, program), "a program")
        code = stage_code(compiled.code)
        options = {"ordered": ordered, "stragglers": stragglers}
        account = Account(self._native.summary)
        course = Course(partial(name_of, program), _size(tasks), _bar_for(progress))
        return Results(self._results(code, compiled, tasks, options, account, course), account, course)

    def _results(
        self,
        code: Code,
        compiled: Compiled,
        tasks: Iterable[Any],
        options: dict[str, bool],
        account: Account,
        course: Course,
    ) -> Generator[Any, None, None]:
        native, mailbox = self._native, _native.Mailbox()
        staged = compiled.stage(native, code)
        run = native.open(staged, mailbox, ahead=AHEAD, spare=SPARE, contract=True, size=_size(tasks), **options)
        if compiled.name:
            self._named.append((run, compiled.name))
        stream = open_stream(native, run, tasks, pack if compiled.is_chain else pack_each)
        try:
            course.begin(mailbox)
            while not course.is_stopped:
                stream.feed()
                for _, kind, first, what in native.take(mailbox, stream.patience, True):
                    if kind == "results":
                        course.came(what[0])
                        try:
                            yield from unpack(what)
                        except Exception as error:
                            raise unreadable(error) from error
                    elif kind == "ended":
                        stream.check()
                        course.complete()
                        return
                    elif kind == "unmet" and isinstance(self._contract, Throughput | Deadline):
                        warnings.warn(self._contract.unmet(*what), ContractWarning, stacklevel=2)
                    else:
                        raise failure(kind, first, what, partial(item, tasks, first))
                self._check_open()
        finally:
            stream.close()
            native.close_run(run, course.is_stopped)
            native.forget(staged)
            account.close()
            course.end()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AwaitableFuture[T]:
        """Calls ``fn(*args, **kwargs)`` at an interpreter.

        Parameters
        ----------
        fn, *args, **kwargs
            What is called. Arguments are pickled when the call is sent: do not change them before there is a result.

        Returns
        -------
        concurrent.futures.Future
            Its result is what ``fn`` returns. It can be awaited: ``await manager.submit(…)``.

        Raises
        ------
        RuntimeError
            After :meth:`shutdown`.

        Examples
        --------
        >>> import phalanx as px
        >>> with px.Manager(contract=px.ParDegree(1)) as manager:
        ...     manager.submit(pow, 2, 5).result()
        32
        """
        return self._submissions.submit(fn, args, kwargs)

    def cancel(self, future: Future[Any]) -> bool:
        """Cancels a call of :meth:`submit`, also while an interpreter makes it. That interpreter is ended and replaced.

        ``future.cancel()`` does this only to calls that were not sent yet, as in the standard library.

        Parameters
        ----------
        future
            A future of this manager.

        Returns
        -------
        bool
            Whether the call is cancelled now; False if it was done before. A cancelled future raises
            :class:`concurrent.futures.CancelledError`. Calls that waited at the same interpreter are made elsewhere.

        Raises
        ------
        ValueError
            The future is not of this manager.

        Examples
        --------
        >>> import time
        >>> import phalanx as px
        >>> with px.Manager(contract=px.ParDegree(1)) as manager:
        ...     long = manager.submit(time.sleep, 1000)
        ...     manager.cancel(long), manager.submit(abs, -1).result()
        (True, 1)
        """
        if not isinstance(future, Submitted) or not future.is_of(self._submissions):
            raise ValueError("this future is of no call that this manager makes: give what its submit has returned")
        return self._submissions.cancel(future)

    @overload  # type: ignore[override]
    def map(self, fn: Callable[..., T], /, **options: Unpack[MapOptions]) -> Generator[T, None, None]: ...
    @overload
    def map(
        self, fn: Callable[[A], T], iterable: Iterable[A], /, **options: Unpack[MapOptions]
    ) -> Generator[T, None, None]: ...
    @overload
    def map(
        self, fn: Callable[[A, B], T], first: Iterable[A], second: Iterable[B], /, **options: Unpack[MapOptions]
    ) -> Generator[T, None, None]: ...
    @overload
    def map(
        self,
        fn: Callable[..., T],
        first: Iterable[Any],
        second: Iterable[Any],
        third: Iterable[Any],
        /,
        *more: Iterable[Any],
        **options: Unpack[MapOptions],
    ) -> Generator[T, None, None]: ...
    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
        buffersize: int | None = None,
        progress: bool | str = False,
    ) -> Generator[T, None, None]:
        """Calls ``fn`` with the items of all iterables, as :meth:`concurrent.futures.Executor.map`.

        All calls are made at once, whether their results are read or not. For long iterables with large results,
        ``buffersize`` or :meth:`compute` keep memory bounded.

        Parameters
        ----------
        fn
            A function of as many arguments as there are iterables.
        iterables
            Read whole before ``map`` returns, up to the end of the shortest.
        timeout
            Seconds from the call of ``map`` within which the next result must come.
        chunksize
            The maximum number of calls that travel together. It is not needed: by default the number follows from how
            long the calls take, as for :meth:`compute`. It has no effect together with ``buffersize``.
        buffersize
            The maximum number of calls whose results were not read, as in Python 3.14. The iterables are then read as
            the results are read.
        progress
            As for :meth:`compute`, with a bar that counts the results that were read.

        Returns
        -------
        Generator
            The results in the order of the calls. An exception is raised in the place of its result and ends the
            generator. When the generator ends, times out, or is closed after its start, it cancels the calls that no
            interpreter has begun.

        Raises
        ------
        ValueError
            ``chunksize`` or ``buffersize`` is less than 1.
        RuntimeError
            After :meth:`shutdown`.
        TimeoutError
            From the generator.

        Examples
        --------
        >>> import phalanx as px
        >>> manager = px.Manager(contract=px.ParDegree(1))
        >>> list(manager.map(pow, [2, 3], [5, 2]))
        [32, 9]
        >>> manager.close()
        """
        if chunksize is not None and chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        bar = _bar_for(progress)
        if bar is not None:
            from phalanx._progress import shown, total_of

            total = total_of(iterables)
            results = self.map(fn, *iterables, timeout=timeout, chunksize=chunksize, buffersize=buffersize)
            return shown(results, safe(partial(name_of, fn), "map"), total, bar)
        if buffersize is None:
            return self._submissions.map(fn, iterables, timeout, chunksize)
        if not isinstance(buffersize, int):
            raise TypeError("buffersize must be an integer or None")
        if buffersize < 1:
            raise ValueError("buffersize must be None or > 0")
        return buffered(self, fn, zip(*iterables, strict=False), timeout, buffersize)

    def summary(self) -> Summary:
        """The totals of the journal so far: tasks, times, and what each interpreter did.

        Returns
        -------
        Summary
        """
        from phalanx.summary import Summary  # dataclasses are slow to import

        return Summary.from_native(self._native.summary())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Releases the interpreters after the submitted calls have ended.

        Parameters
        ----------
        wait, cancel_futures
            As for :meth:`concurrent.futures.Executor.shutdown`.
        """
        self._submissions.shutdown(wait=wait, cancel=cancel_futures)

    def close(self) -> None:
        """Ends everything now, also calls that were submitted."""
        self._submissions.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if kind is not None and not issubclass(kind, Exception):
            self.close()  # Ctrl-C: at once
        else:
            self.shutdown(wait=True)
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await end(self, kind)

    def __repr__(self) -> str:
        return safe(lambda: f"<Manager of {self._where}: {self._state()}>", "<Manager>")

    def _repr_html_(self) -> str:
        return safe(self._card, "<div>Manager</div>")

    def _state(self) -> str:
        return "closed" if self._submissions.closed else counted(self._native.interpreters, "interpreter")

    def _card(self) -> str:
        summary = self.summary()
        facts = [("machines", self._where), ("state", self._state()), ("tasks", summary.tasks)]
        rows = [(one.name, one.machine, one.tasks, one.level) for one in summary.interpreters]
        return card("Manager", facts, (("interpreter", "machine", "tasks", "level"), rows))

    def _check_open(self) -> None:
        self._submissions.check_process()
        if self._submissions.closed:
            raise RuntimeError("this manager is closed")


def _bar_for(progress: bool | str) -> Bar | None:
    if progress is False:
        return None
    from phalanx._progress import bar_for  # most programs show none

    return bar_for(progress)


def _read_packages(named: Iterable[StrPath] | StrPath) -> Packages | None:
    from phalanx._packages import Packages  # archives are slow to import

    return Packages.read(named)


def _watched(native: _native.Manager, named: deque[tuple[int, str]], port: bool | int) -> Watched:
    """A manager with a page that shows what it does. Raises PhalanxError if the port is in use."""
    from phalanx.dashboard import Watched  # a server is slow to import

    try:
        return Watched(native, lambda: dict(named.copy()), port)
    except BaseException:
        native.close()
        raise


def _traced(native: _native.Manager, named: deque[tuple[int, str]]) -> Traced:
    """A manager that sends a trace when it is closed."""
    from phalanx.dashboard._traces import Traced

    return Traced(native, lambda: dict(named.copy()))


def _check_port(port: object) -> None:
    if not isinstance(port, int) or not 0 <= port < 1 << 16:
        raise PhalanxError(f"dashboard={port!r}: write True for any free port, or a port, which is at most 65535")


def _size(tasks: Iterable[Any]) -> int | None:
    """How many tasks a collection has; None if it does not tell."""
    try:
        return min(len(tasks), MOST_TASKS) if isinstance(tasks, Sized) else None
    except Exception:
        return None


def _growing(where: object) -> tuple[str, Any] | None:
    """The grid whose executors are recruited as they come, and what they must have. None: there is none."""
    if isinstance(where, LanHosts) and where.growing is not None:
        return where.growing, Needs().native()
    if not isinstance(where, JoinedHosts) or where.growing is None:
        return None
    return where.growing, where.needs.native()


def _addresses(where: object) -> list[str] | None:
    if where is None:
        return None
    if isinstance(where, Hosts):
        return where.to_recruit()
    if isinstance(where, str):
        return [where]
    number = "; for a number of interpreters contract=px.ParDegree(n)" if isinstance(where, int) else ""
    raise PhalanxError(f"{where!r} is no place: write None, 'host:port' or px.Hosts(path){number}")
