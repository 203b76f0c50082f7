"""Options of commands that donate this machine, and the start and end of its executor."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import click

from phalanx import _cage, _native
from phalanx._accounts import read_accounts
from phalanx._commands import library_variables
from phalanx._grids import Joined
from phalanx._identities import EXECUTOR, identity_file, read_identity, revoked_lists
from phalanx._program import VARIABLE
from phalanx.cli import _limits, _voluntary
from phalanx.cli._numbers import Count
from phalanx.cli._stopping import Stop
from phalanx.cli._voluntary import Voluntary
from phalanx.errors import IdentityError, SpaceError
from phalanx.hosts import COMMAND, PYTHON
from phalanx.security import Rules, policy_words
from phalanx.space import _serve
from phalanx.words import CAGES, Cage

T = TypeVar("T")

#: The grant that opens graphics processors.
GPU = "gpu"
#: The largest weight of a user: `MOST_WEIGHT` in phalanx-core/src/fairness/mod.rs.
_MOST_WEIGHT = 1000
#: Interval in seconds at which the command checks for signals and the hub. Without a timeout, the wait would miss
#: signals on some systems.
_LOOK = 0.5
#: Interval in seconds at which an executor reads its certificate. At the shorter interval above, reading it was most of
#: the processor time of an idle executor.
_LOOK_AT_CERTIFICATE = 5.0


class Donating(NamedTuple):
    """The owner's options: the donated resources, and their users."""

    interpreters: int | None = None
    accept: tuple[str, ...] = ()
    weights: Mapping[str, int] = MappingProxyType({})
    no_spaces: bool = False
    no_jobs: bool = False
    directory: Path | None = None
    access: Path | None = None
    exports: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    cage: Cage | None = None
    accounts: tuple[int, int] | None = None
    allow_root: bool = False
    memory: int | None = None
    program_memory: int | None = None
    cpu: int | None = None
    processes: int | None = None
    disk: int | None = None
    network: str | None = None
    lan: bool = False
    trusted: tuple[str, ...] = ()
    rules: Path | None = None
    log_level: str = "info"
    voluntary: Voluntary = Voluntary()

    @property
    def capacity(self) -> int:
        """The most interpreters at a time."""
        return self.interpreters or _native.cores()


def _read_accounts(context: click.Context, option: click.Parameter, word: str | None) -> tuple[int, int] | None:
    try:
        return read_accounts(word) if word else None
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from error


def _read_weights(context: click.Context, option: click.Parameter, words: tuple[str, ...]) -> dict[str, int]:
    weights: dict[str, int] = {}
    for word in words:
        user, _, number = word.rpartition("=")
        if not user or not re.fullmatch("[0-9]{1,4}", number) or not 1 <= int(number) <= _MOST_WEIGHT:
            raise click.BadParameter(f"{word!r}: write USER=N, with N from 1 to {_MOST_WEIGHT}", context, option)
        if weights.setdefault(user, int(number)) != int(number):
            raise click.BadParameter(f"{user} has two weights", context, option)
    return weights


def _read_size(context: click.Context, option: click.Parameter, word: str | None) -> int | None:
    try:
        return None if word is None else _limits.size(word)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from error


def _read_percent(context: click.Context, option: click.Parameter, word: str | None) -> int | None:
    try:
        return None if word is None else _limits.percent(word)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from error


_OPTIONS = (
    click.option(
        "--interpreters",
        type=Count(1, 4096),
        help="The most interpreters at a time, at most 4096. [default: one per core]",
    ),
    click.option("--accept", multiple=True, metavar="USER", help="Serve only this user (may be repeated)."),
    click.option(
        "--weight",
        "weights",
        multiple=True,
        callback=_read_weights,
        metavar="USER=N",
        help="When users share the places, give this user N places, 1 to 1000, for each place of one without a weight "
        "(may be repeated).",
    ),
    click.option("--no-spaces", is_flag=True, help="Serve no tuple spaces."),
    click.option("--no-jobs", is_flag=True, help="Take no jobs (phalanx submit) from the hub of the grid."),
    click.option(
        "--directory",
        type=click.Path(path_type=Path),
        help="The folder of durable spaces. [default: spaces/PORT in $PHALANX_HOME or ~/.phalanx]",
    ),
    click.option(
        "--access",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file of rules that say what users may do in tuple spaces.",
    ),
    click.option(
        "--export",
        "exports",
        multiple=True,
        metavar="FOLDER:ro|rw",
        help="Let users read this folder (ro), or read and write it (rw); may be repeated. [default: none]",
    ),
    click.option(
        "--grant",
        "grants",
        multiple=True,
        metavar="PATH:ro|rw|gpu",
        help="Let users' processes read this folder or file (ro), or read and write it (rw), or use the graphics "
        "processors (gpu); may be repeated. [default: the system and Python, ro, and a folder of their own, rw]",
    ),
    click.option(
        "--env",
        "variables",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Give users' processes this environment variable (may be repeated). [default: PATH, the locale, and those "
        "of Python and of libraries that compute]",
    ),
    click.option(
        "--cage",
        type=click.Choice(CAGES),
        help="none: users' processes have the rights of this account; limits: they cannot use system calls that no "
        "task needs, either; files: they also open only what is granted, and do not trace others; full: nor signal "
        "others or reach their unix sockets. Below files, and without --accounts, the executor serves one user only, "
        "named with --accept. [default: the most that the kernel can]",
    ),
    click.option(
        "--accounts",
        metavar="FIRST-LAST",
        callback=_read_accounts,
        help="As root, run each user's processes under an account of their own, with one of these numbers, which "
        "nothing else on this machine has, like 1900000000-1900000031.",
    ),
    click.option(
        "--allow-root",
        is_flag=True,
        envvar="PHALANX_ALLOW_ROOT",
        help="As root and without --accounts, let users' processes be root, too. PHALANX_ALLOW_ROOT=1 does the same.",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        callback=_read_size,
        help="The most memory of all users' processes together, like 8GB. Each interpreter or rank then gets an even "
        "part, or --program-memory. [default: all but a tenth of the machine's, without parts]",
    ),
    click.option(
        "--program-memory",
        metavar="SIZE",
        callback=_read_size,
        help="The most memory for each interpreter or rank.",
    ),
    click.option(
        "--cpu",
        metavar="N%",
        callback=_read_percent,
        help="The most of all processors for all users' processes together. [default: what the owner's leave]",
    ),
    click.option(
        "--processes",
        type=Count(16, 4194304),
        help="The most processes and threads of all users together, from 16 to 4194304; each interpreter or rank gets "
        "an even part.",
    ),
    click.option(
        "--disk",
        metavar="SIZE",
        callback=_read_size,
        help="The most that users' files take in the folders of their programs, and in /dev/shm where that is kept "
        "apart. [default: nine tenths of what is free at the start]",
    ),
    click.option(
        "--network",
        metavar="none|grid|all|HOST[:PORT],…",
        help="Where users' processes may connect to, beside the links of their own program: nowhere, to the members of "
        "the grid, everywhere, or to these hosts. [default: all]",
    ),
    click.option(
        "--lan",
        is_flag=True,
        help="Announce on the local network that something listens here, so that px.Lan() finds this executor. The "
        "announcement names no machine, no grid and nobody. [default: announce nothing]",
    ),
    click.option(
        "--trusted",
        multiple=True,
        metavar="NETWORK",
        help="Links from this network need no protection (may be repeated).",
    ),
    click.option(
        "--rules", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file of rules for links."
    ),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning"]),
        default="info",
        show_default=True,
        help="warning: refused peers; info: also users that come and go; debug: also peers that leave at once.",
    ),
)


def donates(command: Callable[..., T]) -> Callable[..., T]:
    """Adds the options of donated machines. The command receives them as `donating`."""

    @functools.wraps(command)
    def taking(**all_of: Any) -> T:
        voluntary = Voluntary(**{name: all_of.pop(name) for name in Voluntary._fields})
        said = {name: all_of.pop(name) for name in Donating._fields if name != "voluntary"}
        return command(donating=Donating(**said, voluntary=voluntary), **all_of)

    for option in reversed((*_OPTIONS, *_voluntary.OPTIONS)):
        taking = option(taking)
    return taking


def as_before(joined: Joined, donating: Donating) -> Donating:
    """The same with the limits of an earlier start, if the owner says none now. Raises IdentityError if the file that
    has them is damaged."""
    said = {name: getattr(donating, name) for name in _limits.NAMES}
    return (
        donating if any(value is not None for value in said.values()) else donating._replace(**_limits.before(joined))
    )


def remember(joined: Joined, donating: Donating) -> None:
    """Keeps the limits for the next start."""
    _limits.remember(joined, {name: getattr(donating, name) for name in _limits.NAMES})


def resources(donating: Donating) -> dict[str, str]:
    """What this machine has for users' programs. All facts are short texts."""
    cores, memory = _limits.for_programs(donating.memory, donating.cpu)
    facts = {"cores": str(cores), "memory": str(memory)}
    return facts | ({"gpus": str(_native.gpus())} if GPU in donating.grants else {})


def start_executor(listen: str, identity: Path | None, donating: Donating, **more: Any) -> _native.Executor:
    """Starts an executor. Prints the rules by which its links may be weaker than by default.

    Parameters
    ----------
    listen
        ``host:port``. Port 0: any free port.
    identity
        The identity file. None: the file in the home folder.
    donating
        The owner's options.
    **more
        ``hub``, ``grid``, ``lending``, ``rules`` and ``nice``, for the native core.
    """
    os.environ.pop(VARIABLE, None)  # its processes belong to users' programs, not to the one that started the executor
    policy = policy_words(Rules(donating.rules) if donating.rules else "links", donating.trusted)
    _cage.check_without_keys(donating.exports, "export")
    directory = donating.directory or _serve.directory_of(listen)
    spaces = None
    if not donating.no_spaces:
        spaces = _serve.serving(accept=donating.accept, access=donating.access, directory=directory)
    service = _native.Executor(
        listen,
        identity_file=read_identity(identity, EXECUTOR, warns=False),
        file=identity_file(identity, EXECUTOR).absolute(),
        revoked=revoked_lists(identity),
        capacity=donating.capacity,
        accepted=list(donating.accept),
        weights=dict(donating.weights),
        command=COMMAND,
        python=PYTHON,
        policy=policy,
        spaces=spaces,
        exports=list(donating.exports),
        environment=list(library_variables().items()),
        cage=_cage.settings(
            donating.cage,
            identity=identity,
            directory=directory,
            grants=donating.grants,
            variables=donating.variables,
            accounts=donating.accounts,
            allow_root=donating.allow_root,
            network=donating.network or _limits.EVERYWHERE,
            limits=_limits.settings(
                donating.capacity,
                memory=donating.memory,
                program_memory=donating.program_memory,
                cpu=donating.cpu,
                processes=donating.processes,
                disk=donating.disk,
            ),
        ),
        lan=donating.lan,
        facts=more["grid"][2] if more.get("grid") else resources(donating),
        jobs=not donating.no_jobs,
        log_level=donating.log_level,
        **more,
    )
    for weaker in [*(f"{network} is trusted" for network in donating.trusted), *_native.weaker(policy)]:
        click.echo(f"links may be weaker than by default: {weaker}", err=True)
    return service


def announce(service: _native.Executor) -> None:
    """Prints that an executor is ready."""
    click.echo(f"listening on {service.address} as {service.name}")
    limits = ", ".join(service.limits)
    click.echo(f"cage: {service.cage}" + (f"; limits: {limits}" if limits else ""))


class Ending:
    """Handles SIGINT and SIGTERM from its creation on, and waits for one of them."""

    def __init__(self) -> None:
        self._stop = Stop()

    def wait(self, executor: _native.Executor | None = None, hub: _native.Hub | None = None) -> None:
        """Waits for the end. Meanwhile the executor checks its certificate. Raises IdentityError if the executor or the
        hub is no longer a member of its grid. Raises SpaceError if the hub cannot store its decisions."""
        looked = -_LOOK_AT_CERTIFICATE
        while not self._stop.wait(_LOOK):
            if hub is not None and hub.expelled is not None:  # first: an expelled hub also cannot store decisions
                raise IdentityError(f"this is no hub of the grid any more: {hub.expelled}")
            if hub is not None and hub.has_failed:
                raise SpaceError("the hub has ended, because it cannot write to its folder; its output says why")
            if executor is None:
                continue
            if time.monotonic() - looked >= _LOOK_AT_CERTIFICATE:
                executor.look_at_certificate()
                looked = time.monotonic()
            executor.look_at_owner()
            if (why := executor.expelled) is not None:
                raise IdentityError(f"this machine is no executor of its grid any more: {why}")
