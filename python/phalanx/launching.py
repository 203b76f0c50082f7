"""Starts message passing programs from Python, as ``phalanx mpirun`` and ``phalanx bsprun`` do."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from phalanx import _commands, _native
from phalanx._program import VARIABLE, program_token
from phalanx._reach import Reach
from phalanx.errors import HELP, LaunchError, RanksError, RanksTimeoutError
from phalanx.hosts import Machines
from phalanx.requirements import Needs
from phalanx.security import Rules
from phalanx.words import (
    LEVELS,
    RANKS_DELEGATES,
    SERVICES_OF,
    TRANSPORTS,
    Level,
    Policy,
    RanksDelegate,
    StrPath,
    Transport,
    check_word,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

Word: TypeAlias = StrPath

#: Interval in seconds at which a waiting launcher checks for signals.
PATIENCE = 0.05
#: Seconds to wait for the end of a program that was signalled. Its processes are killed after one second.
LAST_PATIENCE = 5.0
#: Open files of the launcher for each process: a doorbell, a control socket, two pipes, and one that reports its end.
FILES = 6
ENDINGS = ("out", "err")
CONTRADICTION = "a program goes on without a lost process, or is started again with all of them"
#: Seconds after which a stopped process of a program that survives losses counts as lost.
SURVIVOR_PATIENCE = 10.0
#: Maximum characters of the last line of a process in an error message.
LONGEST_WORDS = 400


@dataclass(frozen=True)
class RankResult:
    """How one process of a program ended.

    Attributes
    ----------
    rank, machine
        Its number, and the name of the machine that it ran on.
    code
        Its exit code; -N if signal N killed it; None if it never began or its end was not seen.
    why
        Why it never began, or why its end was not seen; else empty.
    stdout, stderr
        Its output if ``capture_output`` was set; else None.

    Examples
    --------
    >>> import phalanx as px
    >>> rank = px.mpirun(["echo", "hello"], n=2, capture_output=True).ranks[1]
    >>> rank.rank, rank.code, rank.stdout
    (1, 0, 'hello\\n')
    """

    rank: int
    machine: str
    code: int | None
    why: str = ""
    stdout: str | None = None
    stderr: str | None = None


@dataclass(frozen=True)
class LaunchResult:
    """How a message passing program ended.

    Attributes
    ----------
    code
        The exit code of the program, as ``phalanx mpirun`` returns it: 0 if all processes ended well.
    ranks
        Each process, in the order of the ranks. Processes that the program has spawned are not included.
    messages
        The messages of the launcher, like ``rank 1 on lab2 exited with status 3``.

    Examples
    --------
    >>> import phalanx as px
    >>> result = px.mpirun(["echo", "hello"], n=2, capture_output=True)
    >>> result.code, result.codes, result.stdout
    (0, [0, 0], 'hello\\nhello\\n')
    """

    code: int
    ranks: tuple[RankResult, ...]
    messages: tuple[str, ...]

    @property
    def codes(self) -> list[int | None]:
        """The exit code of each rank."""
        return [it.code for it in self.ranks]

    @property
    def stdout(self) -> str | None:
        """The standard output of all ranks, one rank after the other; None if it was not captured."""
        return _joined([it.stdout for it in self.ranks])

    @property
    def stderr(self) -> str | None:
        """The standard error of all ranks, one rank after the other; None if it was not captured."""
        return _joined([it.stderr for it in self.ranks])


def _joined(texts: Iterable[str | None]) -> str | None:
    known = [text for text in texts if text is not None]
    return "".join(known) if known else None


class RunOptions(TypedDict, total=False):
    """The options that both functions share and that are not about which machines a program uses, and how."""

    per_host: int | None
    files: Sequence[Word]
    env: Mapping[str, str] | None
    cwd: Word | None
    capture_output: bool
    prefix: bool
    output: Word | None
    stdin: bool
    timeout: float | None
    check: bool
    keep_going: bool
    patience: float | None
    transport: Transport
    level: Level | None
    delegate: RanksDelegate | None
    needs: Needs | None


class ReachOptions(TypedDict, total=False):
    """Which machines a program runs on, and how they are reached."""

    hosts: Machines | None
    identity: Word | None
    policy: Policy | Rules
    trusted: str | Iterable[str]


class LaunchOptions(RunOptions, ReachOptions, total=False):
    """The options that :func:`mpirun` and :func:`bsprun` share."""


class SurviveOptions(TypedDict, total=False):
    """The options that :func:`mpirun` has beside those of :func:`bsprun`."""

    survive: bool | Word
    restarts: int


class SuperstepOptions(TypedDict, total=False):
    """The options that :func:`bsprun` has beside those of :func:`mpirun`."""

    checkpoint: int | None
    restarts: int
    move_slow: tuple[float, int] | None


class MpiOptions(RunOptions, SurviveOptions, total=False):
    """The options of :func:`mpirun` that are not about which machines it uses and how it reaches them."""


class BspOptions(RunOptions, SuperstepOptions, total=False):
    """The options of :func:`bsprun` that are not about which machines it uses and how it reaches them."""


def mpirun(
    program: Word | Sequence[Word],
    n: int | None = None,
    *,
    survive: bool | Word = False,
    restarts: int = 3,
    **options: Unpack[LaunchOptions],
) -> LaunchResult:
    """Runs an MPI program and waits for its end.

    Parameters
    ----------
    program
        The path of a script or a binary, or a list with its arguments, like ``["python", "-m", "solver", "-x"]``.
    n
        Number of processes. Default: one for each core of this machine, or for each free place at ``hosts``.
    survive
        Whether the program, which saves files of its own for this, is started again after the loss of a process or a
        machine, and goes on from the newest step that all processes have saved. A path is a folder of this machine that
        keeps this step until the program has ended well: the same call goes on from it.
    restarts
        With ``survive``, how often it is started again after a loss without a new step in between.
    hosts
        Executors: a :class:`Hosts`, a hosts file, ``"one:7400,other:7400"``, a list of addresses, the name of a joined
        grid, or :class:`Lan`. By default this machine. A :class:`Manager` of this program at the same executors shares
        its places with the ranks.
    per_host
        Maximum number of processes at one executor.
    files
        Files and folders that executors get in addition to the program.
    env
        Environment variables in addition to those of this process, or at executors in addition to theirs.
    cwd
        The working directory of processes on this machine. The program and the files are found relative to it.
    capture_output
        Whether the output of the processes is returned instead of shown.
    prefix
        Whether each shown line begins with ``[rank]``.
    output
        A folder for one file per rank and stream, like ``3.out``.
    stdin
        Whether rank 0 reads this process's standard input.
    timeout
        Seconds after which the program is ended.
    check
        Whether an exit code other than 0 raises.
    keep_going
        Whether the other processes go on after the loss of one.
    patience
        Seconds after which a stopped process (SIGSTOP, say) counts as lost and is ended. Default: no limit, or 10 with
        ``survive``.
    transport, level
        ``"sockets"``: on this machine, links as between machines, of this level.
    delegate
        What processes at ``hosts``, and those that they start, may do in the user's name while the program runs:
        ``"spaces"`` is to use all spaces, ``"copies"`` to copy and to ask about files at all executors, ``"all"`` both.
        By default nothing: a program that is launched is given texts, and no space. Processes of this machine have the
        user's identity file.
    needs
        What each machine must have, as :func:`phalanx.needs` makes it: processes run only on members of a joined grid
        that have it.
    policy, identity, trusted
        As for :class:`Manager`.

    Returns
    -------
    LaunchResult
        Exit codes, outputs and messages.

    Raises
    ------
    LaunchError
        The program, a file or an option is wrong.
    ContractError
        Needs are given for machines that are no joined grid.
    RecruitError
        An executor cannot be reached, or has too few places, or no member has what is needed.
    RanksError
        The program does not end well and ``check`` is true. The error says which rank, on which machine, and why.
    RanksTimeoutError
        The program did not end within ``timeout`` seconds. All its processes have ended then, as after Ctrl-C.

    Examples
    --------
    >>> import phalanx as px
    >>> px.mpirun(["echo", "hello"], n=2, capture_output=True).stdout
    'hello\\nhello\\n'
    """
    return _run(program, n, survive=survivor(survive, restarts), **options)


def bsprun(
    program: Word | Sequence[Word],
    n: int | None = None,
    *,
    checkpoint: int | None = None,
    restarts: int = 3,
    move_slow: tuple[float, int] | None = None,
    **options: Unpack[LaunchOptions],
) -> LaunchResult:
    """Runs a BSP program and waits for its end, with the parameters, results and errors of :func:`mpirun`.

    Parameters
    ----------
    checkpoint
        Number of supersteps between two checkpoints; 0: no checkpoints. By default the program decides.
    restarts
        How often it is started again after a loss without a new checkpoint in between.
    move_slow
        With ``hosts``, a pair ``(factor, steps)``: processes leave a machine that takes ``factor`` times as long as
        others in ``steps`` supersteps in a row.

    Returns
    -------
    LaunchResult
        Exit codes, outputs and messages.

    Raises
    ------
    LaunchError
        As for :func:`mpirun`; or ``move_slow`` without ``hosts`` or without checkpoints.
    RecruitError, RanksError, RanksTimeoutError
        As for :func:`mpirun`.

    Examples
    --------
    >>> import phalanx as px
    >>> px.bsprun("walk.py", n=4, checkpoint=10).code  # doctest: +SKIP
    0
    """
    if move_slow is not None and (options.get("hosts") is None or checkpoint == 0):
        raise LaunchError("move_slow needs hosts, and checkpoints at which processes are moved")
    return _run(program, n, checkpoints=(checkpoint, restarts), move_slow=move_slow, **options)


def _run(
    program: Word | Sequence[Word],
    n: int | None,
    *,
    hosts: Machines | None = None,
    per_host: int | None = None,
    files: Sequence[Word] = (),
    env: Mapping[str, str] | None = None,
    cwd: Word | None = None,
    capture_output: bool = False,
    prefix: bool = True,
    output: Word | None = None,
    stdin: bool = False,
    timeout: float | None = None,
    check: bool = True,
    keep_going: bool = False,
    patience: float | None = None,
    transport: Transport = "shared",
    level: Level | None = None,
    policy: Policy | Rules = "links",
    identity: Word | None = None,
    trusted: str | Iterable[str] = (),
    delegate: RanksDelegate | None = None,
    needs: Needs | None = None,
    checkpoints: tuple[int | None, int] | None = None,
    move_slow: tuple[float, int] | None = None,
    survive: tuple[int, Path | None] | None = None,
) -> LaunchResult:
    words = [program] if isinstance(program, str | os.PathLike) else list(program)
    if not words or (n is not None and not 1 <= n <= _commands.MOST):
        raise LaunchError(f"a program and from 1 to {_commands.MOST} processes are needed: {words}, n={n}")
    if transport not in TRANSPORTS or level not in (None, *LEVELS):
        raise LaunchError(f'transport is "shared" or "sockets", level one of {", ".join(LEVELS)}')
    if patience is not None and not patience >= 0.1:  # NaN is not
        raise LaunchError(f"patience is a number of seconds, 0.1 or more, not {patience}")
    if (transport == "sockets" and hosts is not None) or (level is not None and transport != "sockets"):
        raise LaunchError('transport="sockets" is for processes of this machine, and level for transport="sockets"')
    if hosts is None and (per_host is not None or files):
        raise LaunchError("per_host and files need hosts: they are about other machines")
    if delegate is not None:
        check_word("delegate", delegate, RANKS_DELEGATES, LaunchError)
    if survive is not None and keep_going:
        raise LaunchError(f"{CONTRADICTION}: leave survive or keep_going out")
    variables = _commands.asked_variables(f"{name}={value}" for name, value in (env or {}).items())
    asked = [_commands.Program(n, [os.fspath(word) for word in words])]
    with ExitStack() as ending:
        folder = None if output is None else Path(output)
        if capture_output and folder is None:
            folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="phalanx-output-")))
        reach = Reach.of(hosts, identity, policy, trusted).meeting(needs)
        sent = [os.fspath(file) for file in files]
        commands, options = prepare(asked, variables, reach, per_host, sent, cwd, delegate)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        launcher = _native.Launcher(
            commands,
            **options,
            prefix=prefix,
            terminals=(False, False),
            colours=False,
            shown=not capture_output,
            input=stdin,
            output=folder,
            keep_going=keep_going,
            patience=SURVIVOR_PATIENCE if patience is None and survive is not None else patience,
            apart=(level or "private") if transport == "sockets" else None,
            checkpoints=checkpoints,
            move_slow=move_slow,
            survive=survive,
        )
        code = _wait(launcher, timeout)
        result = _result(launcher, 1 if code is None else code, folder if capture_output else None)
    if code is None:
        raise RanksTimeoutError(f"the program did not end within {timeout} s and was ended", result)
    if check and code != 0:
        raise _error(result)
    return result


def survivor(survive: bool | Word, restarts: int) -> tuple[int, Path | None] | None:
    """How the launcher is told that a program survives losses; None if it does not."""
    if survive is False:
        return None
    if not 0 <= restarts < 2**32:
        raise LaunchError(f"restarts is a number from 0 to {2**32 - 1}, not {restarts}")
    return restarts, None if survive is True else Path(survive).absolute()


def prepare(
    asked: Sequence[_commands.Program],
    variables: dict[str, str],
    reach: Reach,
    per_host: int | None = None,
    files: Sequence[str] = (),
    cwd: Word | None = None,
    delegate: RanksDelegate | None = None,
) -> tuple[list[tuple[int | None, list[bytes]]], dict[str, Any]]:
    """The commands and the options of a launcher.

    Parameters
    ----------
    asked, variables
        The programs, and the environment variables of their processes.
    reach, per_host
        The executors, how they are reached, and the maximum number of processes at each; this machine if ``reach``
        names none.
    files
        Files that executors get in addition to the programs.
    cwd
        The folder in which the programs and files are found, and in which processes of this machine run.
    delegate
        What processes at executors may do in the user's name.

    Raises
    ------
    LaunchError
        A program or a file is not found, or this is Windows.
    """
    if sys.platform == "win32":
        raise LaunchError("message passing programs (mpirun, bsprun) start from Linux, and this is Windows")
    _allow_files(sum(program.processes or _native.cores() for program in asked))
    staged: dict[str, Path] = {}
    folder = Path.cwd() if cwd is None else Path(os.path.abspath(cwd))  # noqa: PTH100 names, not what links lead to
    token = program_token()  # processes here inherit it
    if reach.hosts is None:
        commands = [_commands.find_here(program.command, folder) for program in asked]
        variables = _commands.library_variables() | variables
        executors = None
    else:
        commands, staged = _commands.stage_all(asked, files, folder)
        services = [] if delegate is None else [*SERVICES_OF[delegate]]
        executors = (reach.addresses, reach.dialler(), token, reach.words(), per_host, services, reach.newcomers())
        variables = {VARIABLE: token.hex()} | variables
    counts = [program.processes for program in asked]
    encoded = [[os.fsencode(word) for word in command] for command in commands]
    return list(zip(counts, encoded, strict=True)), {
        "environment": [(os.fsencode(name), os.fsencode(value)) for name, value in variables.items()],
        "executors": executors,
        "files": list(staged.items()),
        "folder": None if cwd is None or reach.hosts is not None else os.fsencode(folder),
    }


def _allow_files(processes: int) -> None:
    """Raises the limit of open files, because the launcher has some for each process. On most systems more than a
    thousand must be requested."""
    import resource  # there is none on Windows

    needed, (soft, hard) = FILES * processes + 100, resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _wait(launcher: _native.Launcher, timeout: float | None) -> int | None:
    """Waits for the exit code; None if the program was ended after `timeout` seconds. Ctrl-C ends it too."""
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        while (code := launcher.wait(PATIENCE)) is None:
            if deadline is not None and time.monotonic() >= deadline:
                end_program(launcher, signal.SIGTERM)
                return None
        return code
    except BaseException:
        end_program(launcher, signal.SIGINT)
        raise


def end_program(launcher: _native.Launcher, number: int) -> None:
    """Ends all processes. Processes that do not end after the signal are killed."""
    launcher.signal(number)
    if launcher.wait(LAST_PATIENCE) is None:
        launcher.signal(signal.SIGKILL)
        launcher.wait(LAST_PATIENCE)


def _result(launcher: _native.Launcher, code: int, folder: Path | None) -> LaunchResult:
    machines, ends, messages = launcher.report()
    known = {rank: (end, why) for rank, end, why in ends}
    ranks = []
    for rank, machine in enumerate(machines):
        end, why = known.get(rank, (None, "it was not seen to end"))
        texts = [_text(folder / f"{rank}.{ending}") if folder else None for ending in ENDINGS]
        ranks.append(RankResult(rank, machine, end, why, *texts))
    return LaunchResult(code, tuple(ranks), tuple(messages))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="backslashreplace") if path.exists() else ""


def _error(result: LaunchResult) -> RanksError:
    """The error with the rank that ended the program: the rank in a message, else the first that did not end well."""
    bad = [it for it in result.ranks if it.code != 0]
    named = [it for message in result.messages for it in bad if message.startswith(f"rank {it.rank} ")]
    rank = next(iter(named or bad), None)
    if result.messages:
        text = "; ".join(result.messages)
    elif rank is not None:
        text = f"rank {rank.rank} on {rank.machine} ended with {rank.code}: {rank.why or 'its own output says why'}"
    else:
        text = f"the program ended with exit code {result.code}"
    return RanksError(text + _last_words(rank), result, rank)


def _last_words(rank: RankResult | None) -> str:
    """The last line of the rank's standard error, cut, as part of a message. In a traceback it is the exception."""
    lines = [line.strip() for line in ((rank and rank.stderr) or "").split("\n")]
    last = next((line for line in reversed(lines) if line and not line.startswith(HELP)), "")
    return f": {last[:LONGEST_WORDS]}" if last else ""
