"""The command line: ``phalanx bsprun``, ``phalanx demo``, ``phalanx executor``, ``phalanx explain``, ``phalanx grid``,
``phalanx mpicc``, ``phalanx mpicxx``, ``phalanx mpirun``, ``phalanx space``."""

from __future__ import annotations

import sys

import click

from phalanx.cli.demo import demo
from phalanx.cli.executor import executor
from phalanx.cli.explain import explain
from phalanx.cli.grid import grid
from phalanx.cli.mpicc import mpicc, mpicxx
from phalanx.cli.mpirun import bsprun, mpirun
from phalanx.cli.space import space
from phalanx.errors import PhalanxError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="phalanx")
def commands() -> None:
    """One secure parallel computer out of the machines you already have."""


commands.add_command(bsprun)
commands.add_command(demo)
commands.add_command(executor)
commands.add_command(explain)
commands.add_command(grid)
commands.add_command(mpicc)
commands.add_command(mpicxx)
commands.add_command(mpirun)
commands.add_command(space)


def main() -> None:
    """Runs a command; an error of phalanx is one line, Ctrl-C is quiet."""
    try:
        code = commands(standalone_mode=False)
        if isinstance(code, int):  # of a command that ended itself
            sys.exit(code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except PhalanxError as error:
        click.echo(f"phalanx: {error}", err=True)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
