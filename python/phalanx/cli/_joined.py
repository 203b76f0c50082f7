"""What commands about a joined grid have in common."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from phalanx import _native
from phalanx._grids import HUB, Joined
from phalanx._identities import EXECUTOR, USER
from phalanx._voluntary.rules import ALWAYS, Rules
from phalanx.cli._donating import Donating, resources
from phalanx.cli._numbers import Duration, in_units
from phalanx.cli._streams import printable
from phalanx.hosts import PYTHON
from phalanx.members import to_name

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

#: Seconds to wait until a hub knows an executor that starts.
_PATIENCE = 3.0
#: The option by which a joined grid is named.
JOINED = click.option("--grid", "name", metavar="NAME", help="The grid. [default: the only one that you have joined]")


def good_for(most: int, default: str) -> Callable[[Command], Command]:
    """The option for how long something is good that a user gives away: at most so many seconds."""
    return click.option(
        "--for",
        "seconds",
        type=Duration(1, most),
        default=default,
        show_default=True,
        metavar="TIME",
        help=f"How long it is good: 30s, 10m, 1h, 2d, at most {in_units(most)}.",
    )


def parts_of(joined: Joined) -> list[str]:
    """What this account is in a grid: a user, an executor, a hub."""
    found = {"user": USER, "executor": EXECUTOR, "hub": HUB}
    return [role for role, file in found.items() if (joined.folder / file).exists()]


def name_in(file_text: str) -> str:
    """The name in the certificate of an identity file, also after the certificate's end."""
    return _native.certificate_of(file_text)[1]


def typed_token(token: str, command: str) -> str:
    """The token that a user typed. ``-`` stands for the one in the first line of standard input, which may be the whole
    line that `phalanx invite` prints, with its command."""
    return sys.stdin.readline().strip().removeprefix(command) if token == "-" else token


def host_name() -> str:
    """The name of this machine, as a member can have it."""
    return to_name(platform.node().partition(".")[0], "machine")


def machine_facts(donating: Donating, labels: tuple[str, ...] = (), rules: Rules = ALWAYS) -> dict[str, str]:
    """What the hub is told about this machine: what it has for users' programs. All facts are short texts."""
    facts = {
        **resources(donating),
        "interpreters": str(donating.capacity),
        "python": PYTHON,
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "accepts": " ".join(donating.accept),
        "labels": " ".join(labels),
        "works": ", ".join(rules.words()),
    }
    return {name: fact[:200] for name, fact in facts.items() if fact}


def announce_at_hub(service: _native.Executor, joined: Joined) -> None:
    """Says whether a hub knows the executor. Without one it goes on, and calls the hubs again."""
    if service.wait_for_hub(_PATIENCE):
        click.echo(f"known to the hub of the grid {joined.name}")
    else:
        status = printable(service.hub_status or "")
        click.echo(
            f"no hub of the grid {joined.name} knows this machine yet, and it is called again: {status}", err=True
        )


def as_typed(folder: str | os.PathLike[str]) -> str:
    """A path as a user reads it: below the home folder with a tilde."""
    home, path = os.path.expanduser("~"), os.fspath(folder)  # noqa: PTH111  an account may have no home folder
    return f"~{path[len(home) :]}" if home != "~" and path.startswith(f"{home}/") else path
