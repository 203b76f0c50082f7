"""``phalanx doctor``: what is wrong, here or elsewhere, and the command that mends it."""

from __future__ import annotations

import json
from collections.abc import Callable

import click

from phalanx.checking.executors import check_executor
from phalanx.checking.findings import Finding
from phalanx.checking.here import check_here
from phalanx.checking.machines import check_machine
from phalanx.cli._examples import examples
from phalanx.cli._grid_options import in_grid
from phalanx.cli._streams import printable
from phalanx.cli._words import SSH
from phalanx.deploying.ssh import Call, Gate, for_each
from phalanx.grid import Grid

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


def _in_grid(command: Callable[..., int]) -> Callable[..., int]:
    """The options of a grid, of which only executors that are named without an account need to be known."""
    return in_grid(command, lambda machines, **_: any("@" not in machine for machine in machines))


@click.command(
    epilog=examples(
        "phalanx doctor",
        "phalanx doctor labpc1 lab:7400 ada@labpc2",
    )
)
@click.argument("machines", metavar="[HOST]...", nargs=-1)
@_in_grid
@SSH
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array of findings.")
def doctor(machines: tuple[str, ...], grid: Grid, ssh: tuple[str, ...], as_json: bool) -> int:
    """Find what is wrong, and say which command mends it.

    Without HOST it checks this machine: Python, libraries, programs, identities, the cage, limits and the kernel. HOST
    is a name of the hosts file, or the address of an executor: it checks the name, the port, the handshake, levels and
    versions, runs one task there, and compares the clocks. USER@HOST is a machine that ssh reaches: it checks what
    phalanx deploy put there, and then the executor. Each line is ok, a warning or an error. The exit code is 1 if there
    is an error.
    """
    for machine in machines:
        if machine.startswith("-") or not machine.isprintable():
            raise click.UsageError(f"{printable(machine)!r} is no machine: write a name, HOST:PORT or USER@HOST")
        _check_host(machine)
    found = _check_all(grid, machines, ssh) if machines else check_here()
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in found], indent=2))
    else:
        _print(found)
    return int(any(finding.verdict == "error" for finding in found))


def _check_host(machine: str) -> None:
    """Raises a usage error for a host of which no name can be looked up, like one with an empty part."""
    try:
        machine.rpartition("@")[2].encode("idna")
    except UnicodeError as error:
        raise click.UsageError(f"{printable(machine)!r} is no machine: {error}") from None


def _check_all(grid: Grid, machines: tuple[str, ...], ssh: tuple[str, ...]) -> list[Finding]:
    """The findings about all machines, which are looked at at the same time."""
    gate = Gate()

    def check(machine: str) -> list[Finding]:
        try:
            if "@" in machine:
                return check_machine(grid, Call(machine, ssh), gate)
            return check_executor(grid, machine)
        except click.ClickException:
            raise
        except Exception as error:  # one machine must not stop the others
            return [Finding(machine, "machine", "error", f"{type(error).__name__}: {error}")]

    return [finding for findings in for_each(check, machines, gate) for finding in findings]


def _print(found: list[Finding]) -> None:
    """One line for each finding. Another machine may have chosen some of the words."""
    for finding in found:
        line = printable(" ".join(str(finding).splitlines()))
        verdict, rest = line[: len(finding.verdict)], line[len(finding.verdict) :]
        click.echo(click.style(verdict, fg=_COLOURS[finding.verdict]) + rest)
