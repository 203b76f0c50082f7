"""``phalanx service``: keeps a grid's hub or executor running."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from phalanx._identities import is_joined
from phalanx.cli._examples import examples
from phalanx.cli._joined import as_typed
from phalanx.cli._suggestions import Suggesting
from phalanx.deploying import services
from phalanx.deploying.services import Service
from phalanx.errors import DeployError, IdentityError

_TEXTS = {"systemd": services.systemd, "launchd": services.launchd, "windows": services.windows}
_WORDS = click.argument("words", metavar="[up|join GRID] [OPTION]...", nargs=-1, type=click.UNPROCESSED)
_NAMED = click.argument("words", metavar="[up|join] [GRID]", nargs=-1, type=click.UNPROCESSED)
_SYSTEM = click.option(
    "--system", "is_system", is_flag=True, help="As root: a service of the machine, instead of one of your account."
)
#: A service's own options come before the command that it runs.
_SETTINGS = {"allow_interspersed_args": False}


@click.group(
    cls=Suggesting,
    epilog=examples(
        "phalanx service install up",
        "phalanx service uninstall",
    ),
)
def service() -> None:
    """Start a grid's hub or executor with the machine."""


@service.command(
    context_settings=_SETTINGS,
    epilog=examples(
        "phalanx service install up --grid lab",
        "phalanx service install join lab --interpreters 4",
        "phalanx service install --print launchd join lab",
    ),
)
@_WORDS
@_SYSTEM
@click.option(
    "--print", "kind", type=click.Choice([*_TEXTS]), help="Print what this system is to be told, and install nothing."
)
def install(words: tuple[str, ...], is_system: bool, kind: str | None) -> None:
    """Start a grid's hub or executor with the machine, and now.

    The service runs phalanx up, or phalanx join GRID, with the options that follow. Write paths in them from the root.
    It is a unit of systemd. For macOS and Windows, --print shows the text of a service, which you install yourself.

    A machine joins first, with phalanx join --no-start TOKEN. Install again to change the options.
    """
    wanted = _service(words or ("up",), is_system)
    if kind is None and sys.platform != "linux":
        raise DeployError(f"phalanx installs services of systemd only; for this system: --print {_kind_here()}")
    if kind is not None:
        click.echo(_TEXTS[kind](wanted), nl=False)
        return
    is_new = not is_joined(wanted.grid)
    services.install(wanted)
    ready = ("listening on ", "phalanx join ") if is_new else ("listening on ",)
    click.echo(services.wait_until_ready(wanted, lambda text: all(word in text for word in ready)), nl=False)
    click.echo(f"{wanted.unit} runs, and starts with the machine; it prints to {as_typed(wanted.log)}")


@service.command(
    context_settings=_SETTINGS,
    epilog=examples(
        "phalanx service uninstall",
        "phalanx service uninstall join lab",
    ),
)
@_NAMED
def uninstall(words: tuple[str, ...]) -> None:
    """End a service, and remove all that was installed for it.

    Nothing need be named if there is one service. The grid stays joined.
    """
    for what in services.uninstall(_installed(words)):
        click.echo(f"removed {what}")


def _service(words: Sequence[str], is_system: bool) -> Service:
    """The service that runs these words. A wrong option is a usage error of the command that it is for."""
    # Most commands of a service are not needed to show its help.
    from phalanx.cli.join import join
    from phalanx.cli.up import name_of_hub, up

    command, rest = words[0], list(words[1:])
    if command == "up":
        grid = up.make_context("phalanx up", rest[:]).params["name"]
        if grid is None:
            grid = name_of_hub()
            rest += ["--grid", grid]
    elif command == "join":
        given = join.make_context("phalanx join", rest[:]).params
        grid = given["token"]
        if not is_joined(grid):
            raise IdentityError("a service starts a grid that was joined: first, phalanx join --no-start TOKEN")
        if given["no_start"] or given["name"] or given["local"]:
            raise click.UsageError("--no-start, --name and --as are for joining; the service only starts the executor")
    else:
        raise click.UsageError(f"a service runs up, or join GRID, and not {command!r}")
    return Service(grid, (*_program(), command, *rest), is_system)


def _installed(words: Sequence[str]) -> Service:
    """The installed service that these words name, or the only one."""
    names = words[1:] or words
    found = [it for it in services.installed() if not words or it.grid in names or names[0] in it.command]
    if len(found) == 1:
        return found[0]
    if not found:
        raise DeployError("no such service is installed")
    raise DeployError(f"several services are installed: say which, {' or '.join(it.grid for it in found)}")


def _program() -> list[str]:
    """The words that call phalanx: the command beside this Python."""
    beside = Path(sys.executable).with_name("phalanx")
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "phalanx"]


def _kind_here() -> str:
    return "windows" if sys.platform == "win32" else "launchd"
