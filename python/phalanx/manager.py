"""The manager: recruits interpreters and computes programs on them (paper 000, section 2)."""

from __future__ import annotations

import logging
import os
import sys
import weakref
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from phalanx import _native
from phalanx._outcomes import failure, stage_code, unreadable
from phalanx._stream import open_stream
from phalanx._submissions import Submissions
from phalanx._tokens import unpack
from phalanx.errors import ContractError, PhalanxError
from phalanx.hosts import COMMAND, PYTHON, Hosts, read_identity
from phalanx.security import Rules, policy_words
from phalanx.skeletons import Compiled, Program, compile_program

if TYPE_CHECKING:
    from phalanx.summary import Results, Summary

_log = logging.getLogger("phalanx")
T = TypeVar("T")
Where: TypeAlias = str | Hosts | None

#: Seconds of work that a run takes from its stream ahead of its results being read.
AHEAD = 0.25
#: Batches for each interpreter that are taken ahead in any case.
SPARE = 4
#: Seconds after which a waiting reader looks whether somebody pressed Ctrl-C.
PATIENCE = 0.1
#: Seconds of silence after which an interpreter is lost: with the time between two looks, under two seconds.
SILENCE = 1.6
#: More interpreters than this on one machine are a mistake.
MOST_LOCAL = 1024


class ParDegree:
    """The contract that asks for ``n`` interpreters (paper 000, figure 1)."""

    def __init__(self, n: int) -> None:
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ContractError(f"a parallelism degree is a whole number from 1 on, not {n!r}")
        self.n = n

    def __repr__(self) -> str:
        return f"ParDegree({self.n})"


class Manager(Executor):
    """Recruits interpreters, computes programs on them, and lets them go when it is closed.

    ``where``: ``None`` for this machine, ``"host:port"`` for an executor, or :class:`Hosts` for many. ``contract``: a
    :class:`ParDegree`; without one, every core that is offered. ``policy``: ``"links"`` makes every link to a network
    that is not declared trusted private, ``"marked"`` only what is marked on those (the rest is authenticated),
    ``"all"`` every link; or :class:`Rules`. ``identity``: the user's identity file, by default that of the grid in
    ``$PHALANX_HOME`` or ``~/.phalanx``. ``journal``: a file for the journal's facts, as lines of JSON.

    A context manager, and a :class:`concurrent.futures.Executor`. Raises ContractError where the machines cannot meet
    the contract, RecruitError where none can be reached, IdentityError where the identity is missing or refused.
    """

    def __init__(
        self,
        where: Where = None,
        *,
        contract: ParDegree | None = None,
        policy: str | Rules = "links",
        identity: str | os.PathLike[str] | None = None,
        journal: str | os.PathLike[str] | None = None,
    ) -> None:
        words = policy_words(policy, where.trusted if isinstance(where, Hosts) else ())
        if weaker := _native.weaker(words):
            _log.warning("links may be weaker than by default: %s", "; ".join(weaker))
        if contract is not None and not isinstance(contract, ParDegree):
            raise ContractError(f"{contract!r} is no contract: write px.ParDegree(n)")
        addresses = _addresses(where)
        if addresses is None and contract is not None and contract.n > MOST_LOCAL:
            raise ContractError(f"{contract.n} interpreters on one machine are more than {MOST_LOCAL}")
        self._native = _native.Manager(
            addresses=addresses,
            identity_file=None if addresses is None else read_identity(identity, "user.pem"),
            interpreters=None if contract is None else contract.n,
            policy=words,
            command=COMMAND,
            path=[str(Path(entry).absolute()) for entry in sys.path],
            python=PYTHON,
            silence=SILENCE,
            journal=journal,
        )
        self._submissions = Submissions(self._native)
        # A manager that nobody has any more answers what was submitted, as the standard library's executors do.
        weakref.finalize(self, self._submissions.shutdown, wait=False).atexit = False

    @property
    def interpreters(self) -> int:
        """How many interpreters the contract asks for."""
        return self._native.interpreters

    def compute(self, program: Program, tasks: Iterable[Any], *, ordered: bool = True) -> Results:
        """Computes ``program`` on every task of the stream ``tasks``, which may be endless; a generator of the results.

        Tasks are taken as results are read, so that memory stays bounded. ``ordered=False`` gives results as they
        come. An exception that a task raises is raised here in its place, with a :class:`RemoteTraceback` as its cause.
        Arrays in a collection (a list, say) are sent from where they lie: do not change one before its result is there.
        An iterator's tasks are frozen as they come, so a generator may fill the same array again.

        Raises ProgramError and StagingError at once, CulpritError and LostError while results are read.
        """
        self._check_open()
        from phalanx.summary import Results  # dataclasses are slow to import

        compiled = compile_program(program)
        code = stage_code(compiled.functions)
        return Results(lambda end: self._results(code, compiled, tasks, ordered, end), self.summary)

    def _results(
        self, code: bytes, compiled: Compiled, tasks: Iterable[Any], ordered: bool, end: Callable[[], None]
    ) -> Generator[Any, None, None]:
        native, mailbox = self._native, _native.Mailbox()
        staged = native.stage(len(compiled.functions), code, compiled.marked_code, compiled.marked_data)
        run = native.open(staged, ordered, AHEAD, SPARE, mailbox)
        stream = open_stream(native, run, tasks)
        try:
            while True:
                stream.feed()
                for _, kind, first, what in native.take(mailbox, stream.patience, True):
                    if kind == "results":
                        try:
                            yield from unpack(what)
                        except Exception as error:
                            raise unreadable(error) from error
                    elif kind == "ended":
                        stream.check()
                        return
                    else:
                        raise failure(kind, first, what)
                self._check_open()
        finally:
            end()
            stream.close()
            native.close_run(run)
            native.forget(staged)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Calls ``fn(*args, **kwargs)`` at an interpreter; a :class:`concurrent.futures.Future` of what it returns."""
        return self._submissions.submit(fn, args, kwargs)

    def summary(self) -> Summary:
        """What the journal adds up to so far: tasks, times, and what each interpreter did."""
        from phalanx.summary import Summary  # dataclasses are slow to import

        return Summary.from_native(self._native.summary())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Lets the interpreters go, as :meth:`concurrent.futures.Executor.shutdown`: after what was submitted."""
        self._submissions.shutdown(wait=wait, cancel=cancel_futures)

    def close(self) -> None:
        """Ends everything now, also what was submitted."""
        self._submissions.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if kind is not None and not issubclass(kind, Exception):
            self.close()  # Ctrl-C: at once
        else:
            self.shutdown(wait=True)
        return None

    def _check_open(self) -> None:
        self._submissions.check_process()
        if self._submissions.closed:
            raise RuntimeError("this manager is closed")


def _addresses(where: Where) -> list[str] | None:
    if where is None:
        return None
    if isinstance(where, Hosts):
        return where.addresses
    if isinstance(where, str):
        return [where]
    raise PhalanxError(f"{where!r} is no place: write None, 'host:port' or px.Hosts(path)")
