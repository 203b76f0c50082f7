"""``phalanx mpirun`` and ``phalanx bsprun``: message passing programs (paper 001)."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import phalanx
from phalanx import _native
from phalanx.errors import LaunchError

#: Where the libraries are that programs are linked against, and that mpi4py loads.
LIBRARIES = Path(phalanx.__file__).with_name("_mpi")
#: Seconds after which a waiting launcher looks whether it was sent a signal.
PATIENCE = 0.05
#: They end the program; a second one does so at once.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: They are passed on.
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)

Command = tuple[int, list[str]]


def _launcher(name: str, help_text: str) -> click.Command:
    """One of the two commands: they differ in their words only."""
    settings = {"allow_interspersed_args": False, "ignore_unknown_options": False}
    command = click.command(name, help=help_text, context_settings=settings)(_run)
    options = [
        click.option("-n", "-np", "processes", type=click.IntRange(1, 65536), help="How many; by default one a core."),
        click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="A folder for their output."),
        click.option("--no-prefix", is_flag=True, help="No [rank] before each line."),
        click.option("--keep-going", is_flag=True, help="The loss of a process does not end the others."),
        click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PROGRAM [ARGS]..."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _run(
    command: tuple[str, ...], processes: int | None, output: Path | None, no_prefix: bool, keep_going: bool
) -> int:
    programs = [(count, _found(words)) for count, words in _blocks(processes or os.cpu_count() or 1, command)]
    started: list[_native.Launcher] = []
    # Before the start: a signal in the midst of it is for the program too.
    early: list[int] = []
    for number in (*ENDING, *PASSED_ON):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as of nohup
            signal.signal(number, lambda number, _: started[0].signal(number) if started else early.append(number))
    terminals = (sys.stdout.isatty(), sys.stderr.isatty())
    launcher = _native.Launcher(
        [(count, [os.fsencode(word) for word in words]) for count, words in programs],
        environment=[(os.fsencode(name), os.fsencode(value)) for name, value in environment().items()],
        prefix=not no_prefix,
        terminals=terminals,
        colours="NO_COLOR" not in os.environ,
        output=output,
        keep_going=keep_going,
    )
    started.append(launcher)
    for number in early:
        launcher.signal(number)
    while (code := launcher.wait(PATIENCE)) is None:
        pass
    return code


def environment() -> dict[str, str]:
    """What lets a program find the library, whichever way it looks for it."""
    path = [str(LIBRARIES), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {"MPI4PY_LIBMPI": str(LIBRARIES / "libmpi.so.12"), "LD_LIBRARY_PATH": os.pathsep.join(path)}


def _blocks(processes: int, command: Sequence[str]) -> list[Command]:
    """The programs between the colons: ``-n 1 ./a : -n 2 ./b``. The first one's options were read before."""
    words, rest = _until_colon(command)
    blocks = [(processes, words)]
    while rest is not None:
        words, rest = _until_colon(rest)
        count = 1
        if words and words[0] in ("-n", "-np"):
            if len(words) < 2 or not words[1].isdecimal() or not 1 <= int(words[1]) <= 65536:
                raise LaunchError(f"behind {words[0]} comes a number of processes, from 1 to 65536")
            count, words = int(words[1]), words[2:]
        blocks.append((count, words))
    for _, words in blocks:
        if not words or words[0].startswith("-"):
            raise LaunchError("between colons comes: -n NUMBER PROGRAM ARGUMENTS")
    return blocks


def _until_colon(words: Sequence[str]) -> tuple[list[str], Sequence[str] | None]:
    if ":" not in words:
        return list(words), None
    at = list(words).index(":")
    return list(words[:at]), words[at + 1 :]


def _found(words: list[str]) -> list[str]:
    """The command with its program where it was found. A script of Python need not be executable."""
    program, *arguments = words
    path = shutil.which(program)
    if path is None and program.endswith(".py") and Path(program).is_file():
        return [sys.executable, *words]
    if path is None and program == "python":  # of an environment that is not activated
        path = sys.executable
    if path is None:
        problem = "may not be executed" if Path(program).is_file() else "is not found"
        raise LaunchError(f"the program {program} {problem}")
    return [path, *arguments]


mpirun: Any = _launcher(
    "mpirun",
    """Start an MPI program: processes that pass messages.

    Its processes run on this machine, see each line of their output with its rank before it, and end together. More
    programs follow behind colons: mpirun -n 1 ./a : -n 2 ./b.
    """,
)
bsprun: Any = _launcher(
    "bsprun",
    """Start a BSP program: processes that compute in supersteps.

    Its processes run on this machine, see each line of their output with its pid before it, and end together.
    """,
)
