"""``phalanx mpirun`` and ``phalanx bsprun``: message passing programs (paper 001, section 4.2)."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import click

from phalanx import _native
from phalanx.cli import programs
from phalanx.hosts import read_identity
from phalanx.security import policy_words, read_policy

#: Seconds after which a waiting launcher looks whether it was sent a signal.
PATIENCE = 0.05
#: Open files for each process: a doorbell, a control socket, two pipes, and one that tells its end.
FILES = 6
#: They end the program; a second one does so at once. The others are passed on.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)

OPTIONS = [
    click.option(
        "-n", "-np", "processes", type=click.IntRange(1, programs.MOST), help="How many; by default one a core."
    ),
    click.option("--hosts", metavar="FILE|HOST:PORT,...", help="Run on these executors. Default: this machine."),
    click.option("--per-host", type=click.IntRange(1, programs.MOST), help="At most so many on one executor."),
    click.option("--file", "files", multiple=True, metavar="PATH", help="A file or folder that executors get too."),
    click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="A variable of the processes (may be repeated)."),
    click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="A folder for their output too."),
    click.option("--no-prefix", is_flag=True, help="No [rank] before each line."),
    click.option("--keep-going", is_flag=True, help="The loss of a process does not end the others."),
    click.option("--policy", default="links", show_default=True, metavar="links|marked|all|FILE", help="FILE: rules."),
    click.option(
        "--identity", type=click.Path(path_type=Path), help="By default user.pem in $PHALANX_HOME or ~/.phalanx."
    ),
    click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PROGRAM [ARGUMENT]..."),
]


def _command(name: str, help_text: str) -> click.Command:
    """One of the two commands: they differ in their words only."""
    function: Any = _run
    for option in reversed(OPTIONS):
        function = option(function)
    return click.command(name, help=help_text, context_settings={"allow_interspersed_args": False})(function)


def _run(
    command: tuple[str, ...],
    processes: int | None,
    hosts: str | None,
    per_host: int | None,
    files: tuple[str, ...],
    env: tuple[str, ...],
    output: Path | None,
    no_prefix: bool,
    keep_going: bool,
    policy: str,
    identity: Path | None,
) -> int:
    asked = programs.read_programs(processes, command)
    _allow_files(sum(program.processes or os.cpu_count() or 1 for program in asked))
    staged: dict[str, Path] = {}
    variables = programs.asked_variables(env)
    if hosts is None:
        commands = [programs.find_here(program.command) for program in asked]
        variables = programs.library_variables() | variables
        executors = None
    else:
        for word in files:
            programs.add_file(word, staged)
        commands = [programs.stage(program.command, staged) for program in asked]
        addresses, trusted = programs.read_hosts(hosts)
        words = policy_words(read_policy(policy), trusted)
        for weaker in _native.weaker(words):
            click.echo(f"links may be weaker than by default: {weaker}", err=True)
        executors = (addresses, read_identity(identity, "user.pem"), words, per_host)
    return _launch(
        [
            (program.processes, [os.fsencode(word) for word in command])
            for program, command in zip(asked, commands, strict=True)
        ],
        environment=[(os.fsencode(name), os.fsencode(value)) for name, value in variables.items()],
        prefix=not no_prefix,
        terminals=(sys.stdout.isatty(), sys.stderr.isatty()),
        colours="NO_COLOR" not in os.environ,
        output=output,
        keep_going=keep_going,
        executors=executors,
        files=list(staged.items()),
    )


def _allow_files(processes: int) -> None:
    """A launcher has some files open for each process; on most systems more than a thousand must be asked for."""
    needed, (soft, hard) = FILES * processes + 100, resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _launch(commands: list[tuple[int | None, list[bytes]]], **options: Any) -> int:
    """Starts the program and waits for its end; its exit code."""
    started: list[_native.Launcher] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        if started:
            started[0].signal(number)
        elif number in ENDING:
            sys.exit(128 + number)

    for number in (*ENDING, *PASSED_ON):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, on_signal)
    launcher = _native.Launcher(commands, **options)
    started.append(launcher)
    while (code := launcher.wait(PATIENCE)) is None:
        pass
    return code


mpirun = _command(
    "mpirun",
    """Start an MPI program: processes that pass messages.

    They run on this machine, or on executors, which get the program and the files that it needs. Each line of their
    output comes with the rank before it; all end together. More programs follow behind colons:
    mpirun -n 1 ./a : -n 2 ./b
    """,
)
bsprun = _command(
    "bsprun",
    """Start a BSP program: processes that compute in supersteps.

    They run on this machine, or on executors, which get the program and the files that it needs. Each line of their
    output comes with the pid before it; all end together.
    """,
)
