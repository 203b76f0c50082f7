"""``phalanx mpirun`` and ``phalanx bsprun``: message passing programs (paper 001, section 4.2)."""

from __future__ import annotations

import math
import os
import re
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import click
from click.core import ParameterSource

from phalanx import _native
from phalanx._commands import MOST, asked_variables, read_programs, stage_all
from phalanx.cli._examples import examples
from phalanx.cli._grid_options import GRID, IDENTITY, LAN, NEEDS, POLICY, TRUSTED, named_machines
from phalanx.cli._numbers import Count, Seconds
from phalanx.cli._paths import SomePath
from phalanx.cli._places import OPTIONS as PLACES
from phalanx.cli._places import place, placed
from phalanx.cli._streams import is_terminal
from phalanx.grid import Grid
from phalanx.launching import CONTRADICTION, PATIENCE, SURVIVOR_PATIENCE, end_program, prepare, survivor
from phalanx.requirements import Needs
from phalanx.security import read_policy
from phalanx.words import AUTHENTICATED, LEVELS, RANKS_DELEGATES, TRANSPORTS, RanksDelegate

#: They end the program; a second one does so at once. The others are passed on.
ENDING = (signal.SIGINT, signal.SIGTERM, *([] if sys.platform == "win32" else [signal.SIGHUP]))
PASSED_ON = () if sys.platform == "win32" else (signal.SIGUSR1, signal.SIGUSR2)

#: What says something of other machines only.
OF_HOSTS = {
    "per_host": "--per-host",
    "needs": "--needs",
    "files": "--file",
    "policy": "--policy",
    "trusted": "--trusted",
    "identity": "--identity",
    "delegate": "--delegate",
    "move_slow": "--move-slow",
}

#: What says something of an engine's places only.
OF_PLACES = {"nodes": "--nodes", "seconds": "--time", "settings": "--place"}

#: The exit code of a program that was ended by ``--timeout``, as that of timeout(1).
TIMED_OUT = 124
#: Steps in a row in which a machine is slow before it is left.
STEPS = 10


def read_slow(context: click.Context, option: click.Parameter, word: str | None) -> tuple[float, int] | None:
    """How slow a machine may be: ``2.5`` times as long as others, ``2.5:20`` in 20 steps in a row."""
    if word is None:
        return None
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(?::([0-9]{1,9}))?", word)
    times, steps = (float(found[1]), int(found[2] or STEPS)) if found else (0.0, 0)
    if times <= 1 or steps < 1:
        raise click.BadParameter(f"{word!r}: write TIMES, more than 1, or TIMES:STEPS", context, option)
    return times, steps


OPTIONS = [
    click.option(
        "-n",
        "-np",
        "processes",
        type=Count(1, MOST),
        help=f"The number of processes, at most {MOST}. [default: one per core; at other machines: every free place]",
    ),
    click.option("--hosts", metavar="FILE|HOST:PORT,...", help="Run on these executors. Default: this machine."),
    GRID,
    LAN,
    *PLACES,
    NEEDS,
    click.option("--per-host", type=Count(1, MOST), help=f"The most processes on one executor, {MOST} or fewer."),
    click.option("--file", "files", multiple=True, metavar="PATH", help="A file or folder to send to executors too."),
    click.option(
        "--env",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="An environment variable of the processes (may be repeated). NAME alone takes its value from here; write "
        "a secret so, because other users of this machine can read command lines.",
    ),
    click.option("--output", type=SomePath(file_okay=False, path_type=Path), help="A folder for each process' output."),
    click.option("--no-prefix", is_flag=True, help="Print lines without the [number] of the process."),
    click.option("--keep-going", is_flag=True, help="Do not end the other processes when one is lost."),
    click.option(
        "--timeout", type=Seconds(0), metavar="SECONDS", help=f"End the program after so long, with code {TIMED_OUT}."
    ),
    click.option(
        "--patience", type=Seconds(0.1), help="Seconds after which a stopped process counts as lost, at least 0.1."
    ),
    click.option(
        "--transport",
        type=click.Choice(TRANSPORTS),
        default="shared",
        show_default=True,
        help="On this machine: shared memory, or links as between machines.",
    ),
    click.option(
        "--level",
        type=click.Choice(LEVELS),
        help=f"The level of links with --transport sockets; {AUTHENTICATED} [default: private]",
    ),
    POLICY,
    TRUSTED,
    IDENTITY,
    click.option(
        "--delegate",
        type=click.Choice(RANKS_DELEGATES),
        help="What processes at executors may do in your name: use all spaces, copy, or both. [default: nothing]",
    ),
    click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PROGRAM [ARGUMENT]..."),
]


RESTARTS = {
    "type": Count(0, 2**32 - 1),
    "default": 3,
    "show_default": True,
    "help": "Tries after a loss without a new checkpoint.",
}

MPI_OPTIONS = [
    click.option(
        "--survive",
        is_flag=True,
        help="Start the program again after a loss, from the newest step that all its processes have saved.",
    ),
    click.option(
        "--checkpoints",
        type=SomePath(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="With --survive: keep that step here until the program ends well. The same command goes on from it.",
    ),
    click.option("--restarts", "tries", **RESTARTS),  # type: ignore[arg-type]
]

BSP_OPTIONS = [
    click.option(
        "--checkpoint",
        type=Count(0, 2**32 - 1),
        metavar="SUPERSTEPS",
        help="Save a checkpoint every so many supersteps; 0: never.",
    ),
    click.option("--restarts", **RESTARTS),  # type: ignore[arg-type]
    click.option(
        "--move-slow",
        callback=read_slow,
        metavar="TIMES[:STEPS]",
        help="With --hosts: leave a machine that takes TIMES times as long as others in STEPS (10) consecutive steps.",
    ),
]


def _command(name: str, help_text: str, more: list[Any], *shown: str) -> click.Command:
    """One of the two commands: they differ in their words, their examples, and in what only BSP programs can do."""
    function: Any = _run
    for option in reversed([*more, *OPTIONS]):
        function = option(function)
    settings = {"allow_interspersed_args": False}
    return click.command(name, help=help_text, context_settings=settings, epilog=examples(*shown))(function)


def _run(
    command: tuple[str, ...],
    processes: int | None,
    hosts: str | None,
    joined: str | None,
    lan: bool,
    on: str | None,
    nodes: int | None,
    seconds: int | None,
    settings: tuple[str, ...],
    needs: Needs | None,
    per_host: int | None,
    files: tuple[str, ...],
    env: tuple[str, ...],
    output: Path | None,
    no_prefix: bool,
    keep_going: bool,
    timeout: float | None,
    patience: float | None,
    transport: str,
    level: str | None,
    policy: str,
    trusted: tuple[str, ...],
    identity: Path | None,
    delegate: RanksDelegate | None,
    checkpoint: int | None = None,
    restarts: int | None = None,
    move_slow: tuple[float, int] | None = None,
    survive: bool = False,
    checkpoints: Path | None = None,
    tries: int = 0,
) -> int:
    asked = read_programs(processes, command)
    variables = asked_variables(env)
    is_here = hosts is None and joined is None and not lan and on is None
    if not is_here and transport == "sockets":
        raise click.UsageError("--transport is for processes of this machine; links to others are as --policy says")
    if level is not None and transport != "sockets":
        raise click.UsageError("--level is for --transport sockets; links to other machines are as --policy says")
    given = click.get_current_context().get_parameter_source
    for name, option in OF_HOSTS.items() if is_here else ():
        if given(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} needs --hosts, --grid, --lan or --on: it is about other machines")
    for name, option in OF_PLACES.items() if on is None else ():
        if given(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} needs --on: it is about places that an engine gives")
    if on is not None and (hosts is not None or joined is not None or lan or identity is not None):
        raise click.UsageError(
            "--on has machines and an identity of its own: leave --hosts, --grid, --lan, --identity out"
        )
    if move_slow is not None and checkpoint == 0:
        raise click.UsageError("--move-slow needs checkpoints, at which processes are moved")
    for name, option in () if survive else (("checkpoints", "--checkpoints"), ("tries", "--restarts")):
        if given(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} needs --survive: it is about programs that are started again")
    if survive and keep_going:
        raise click.UsageError(f"{CONTRADICTION}: leave --survive or --keep-going out")
    pilot = None if on is None else place(on, nodes, seconds, settings)
    if pilot is not None:  # what cannot run is found before nodes are waited for
        stage_all(asked, files, Path.cwd())
    with placed(pilot):
        machines = pilot or named_machines(hosts, joined, lan, identity)
        grid = Grid(machines, identity=identity, policy=read_policy(policy), trusted=trusted)
        commands, options = prepare(asked, variables, grid.reach.meeting(needs), per_host, files, delegate=delegate)
        if options["executors"] is not None:
            for weaker in _native.weaker(options["executors"][3]):
                click.echo(f"links may be weaker than by default: {weaker}", err=True)
        return _launch(
            commands,
            timeout,
            **options,
            prefix=not no_prefix,
            terminals=(is_terminal(sys.stdout), is_terminal(sys.stderr)),
            colours="NO_COLOR" not in os.environ,
            shown=True,
            input=True,
            output=output,
            keep_going=keep_going,
            patience=SURVIVOR_PATIENCE if survive and patience is None else patience,
            apart=(level or "private") if transport == "sockets" else None,
            checkpoints=None if restarts is None else (checkpoint, restarts),
            move_slow=move_slow,
            survive=survivor(checkpoints or True, tries) if survive else None,
        )


def _launch(commands: list[tuple[int | None, list[bytes]]], timeout: float | None, **options: Any) -> int:
    """Starts the program and waits for its end, for ``timeout`` seconds at most; its exit code."""
    started: list[_native.Launcher] = []
    early: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        if started:
            started[0].signal(number)
        elif number in ENDING:
            sys.exit(128 + number)
        else:
            early.append(number)  # processes may run already

    for number in (*ENDING, *PASSED_ON):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, on_signal)
    launcher = _native.Launcher(commands, **options)
    started.append(launcher)
    for missed in early:
        launcher.signal(missed)
    end = math.inf if timeout is None else time.monotonic() + timeout
    while (code := launcher.wait(PATIENCE)) is None:
        if time.monotonic() >= end:
            click.echo(f"the program did not end within {timeout:g} s and was ended", err=True)
            end_program(launcher, signal.SIGTERM)
            return TIMED_OUT
    return code


mpirun = _command(
    "mpirun",
    """Start an MPI program: processes that pass messages.

    The processes run on this machine, or on executors, which receive the program and the files that it needs. Each line
    of output is prefixed with the rank. All processes end together. Colons separate several programs:
    mpirun -n 1 ./a : -n 2 ./b

    A program that saves files of its own can survive the loss of processes and machines (--survive). phalanx brings the
    files away while it computes. After a loss it starts all processes again, on the machines that are left, with the
    newest files that all of them have saved.
    """,
    MPI_OPTIONS,
    "phalanx mpirun -n 4 python ring.py",
    "phalanx mpirun --grid lab -n 8 python ring.py",
    "phalanx mpirun --grid lab --needs cores=2,memory=4GB,software=ffmpeg -n 8 python ring.py",
    "phalanx mpirun --on slurm --nodes 4 --time 1h --place partition=work ./solver",
    "phalanx mpirun --on ssh:ws7,ada@ws8 -n 8 python ring.py",
    "phalanx mpirun --hosts hosts.txt --per-host 2 --file table.txt ./solver table.txt",
    "phalanx mpirun --grid lab --survive --checkpoints heat.saved -n 8 python heat.py",
    "phalanx mpirun -n 1 ./first : -n 3 ./others",
)
bsprun = _command(
    "bsprun",
    """Start a BSP program: processes that compute in supersteps.

    The processes run on this machine, or on executors, which receive the program and the files that it needs. Each line
    of output is prefixed with the pid. All processes end together. A program that makes checkpoints is started again
    when it loses a process or a machine, and continues from the last checkpoint.
    """,
    BSP_OPTIONS,
    "phalanx bsprun -n 4 shift.py",
    "phalanx bsprun --hosts hosts.txt --checkpoint 10 --restarts 5 shift.py",
)
