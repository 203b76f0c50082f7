"""The command line: ``phalanx bspcc``, ``phalanx bsprun``, ``phalanx cancel``, ``phalanx cat``, ``phalanx completion``,
``phalanx cp``, ``phalanx dashboard``, ``phalanx demo``, ``phalanx deploy``, ``phalanx doctor``, ``phalanx executor``,
``phalanx expel``, ``phalanx explain``, ``phalanx get``, ``phalanx grid``, ``phalanx grids``, ``phalanx help``,
``phalanx here``, ``phalanx invite``, ``phalanx jobs``, ``phalanx join``, ``phalanx known``, ``phalanx kubernetes``,
``phalanx leave``, ``phalanx lend``, ``phalanx logs``, ``phalanx ls``, ``phalanx members``, ``phalanx mpicc``,
``phalanx mpicxx``, ``phalanx mpirun``, ``phalanx pause``, ``phalanx pilot``, ``phalanx report``, ``phalanx resume``,
``phalanx rm``, ``phalanx service``, ``phalanx space``, ``phalanx status``, ``phalanx submit``, ``phalanx sync``,
``phalanx token``, ``phalanx up``."""

from __future__ import annotations

import importlib
import io
import os
import sys
import warnings
from typing import Any

import click

from phalanx.cli._examples import examples
from phalanx.cli._suggestions import Suggesting
from phalanx.errors import PhalanxError, help_for

#: Each command, and the module of this folder in which it is. A command imports its own module only, because to import
#: all of them takes longer than to start a program of many processes.
MODULES = {
    "bspcc": "mpicc",
    "bsprun": "mpirun",
    "cancel": "cancel",
    "cat": "cat",
    "completion": "completion",
    "cp": "cp",
    "dashboard": "dashboard",
    "demo": "demo",
    "deploy": "deploy",
    "doctor": "doctor",
    "executor": "executor",
    "expel": "expel",
    "explain": "explain",
    "get": "get",
    "grid": "grid",
    "grids": "grids",
    "help": "help",
    "here": "here",
    "invite": "invite",
    "jobs": "jobs",
    "join": "join",
    "known": "known",
    "kubernetes": "kubernetes",
    "leave": "leave",
    "lend": "lend",
    "logs": "logs",
    "ls": "ls",
    "members": "members",
    "mpicc": "mpicc",
    "mpicxx": "mpicc",
    "mpirun": "mpirun",
    "pause": "pause",
    "pilot": "pilot",
    "report": "report",
    "resume": "pause",
    "rm": "rm",
    "service": "service",
    "space": "space",
    "status": "status",
    "submit": "submit",
    "sync": "sync",
    "token": "token",
    "up": "up",
}


class Commands(Suggesting):
    """Commands that are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command; None where there is none of that name."""
        if cmd_name not in MODULES:
            return None
        command: Any = getattr(importlib.import_module(f"phalanx.cli.{MODULES[cmd_name]}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command. The reader of its output may go away before the end."""
        from phalanx.cli._streams import BROKEN_PIPE, drop_unread

        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                code = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError as error:
            if not drop_unread():
                raise PhalanxError(f"a pipe of what was started here, or a connection: {error}") from error
            return BROKEN_PIPE
        return code


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "phalanx mpirun -n 4 python ring.py",
        "phalanx cp results lab:/scratch/",
        "phalanx help RecruitError",
    ),
)
@click.version_option(package_name="phalanx-grid")
def commands() -> None:
    """One secure parallel computer out of the machines you already have."""


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Says a warning as an error is said: without the line of the code that gave it."""
    from phalanx.cli._streams import printable

    click.echo("\n".join(f"phalanx: {printable(line)}" for line in str(message).split("\n")), err=True)


def occupy_closed_streams() -> None:
    """Gives standard streams that are closed to the null device.

    Otherwise the next file that is opened would get their number, and would be taken for a standard stream.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


def escape_what_streams_cannot_encode() -> None:
    """Makes the standard streams print other characters than those of their encoding as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Runs a command; an error of phalanx is one line and where it is explained, Ctrl-C is quiet."""
    occupy_closed_streams()
    escape_what_streams_cannot_encode()
    try:
        code = commands(prog_name="phalanx", standalone_mode=False)
        if isinstance(code, int):  # of a command that ended itself
            sys.exit(code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except PhalanxError as error:
        from phalanx.cli._streams import printable

        lines = [printable(line) for line in f"phalanx: {error}".split("\n")]  # another end may have chosen the words
        click.echo("\n".join([*lines, f"phalanx: {help_for(type(error))}"]), err=True)
        sys.exit(1)
    except UnicodeEncodeError as error:  # of a word of the command line
        click.echo(f"phalanx: {error.object.encode(errors='backslashreplace').decode()} is not UTF-8", err=True)
        sys.exit(1)
    except OSError as error:  # a full disk behind standard output, for example
        from phalanx.cli._streams import drop_output, printable

        click.echo(f"phalanx: {printable(str(error))}", err=True)
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            drop_output(sys.stdout)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
