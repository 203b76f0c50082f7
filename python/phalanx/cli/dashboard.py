"""``phalanx dashboard``: a page that shows what a grid does."""

from __future__ import annotations

import json
import os
import secrets
import select
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from phalanx._grids import Joined, dialler_of, one_joined
from phalanx.cli._examples import examples
from phalanx.cli._grid_options import IDENTITY
from phalanx.cli._numbers import Count
from phalanx.cli._stopping import Stop
from phalanx.cli._streams import is_terminal, printable
from phalanx.dashboard import Dashboard
from phalanx.dashboard._grid import GridSource, MachinesSource
from phalanx.dashboard._spaces import Asked
from phalanx.errors import PhalanxError
from phalanx.grid import Grid
from phalanx.hosts import is_file
from phalanx.members import is_name
from phalanx.space import _open

#: Seconds between two looks at the keyboard and at signals.
_LOOK = 0.5
#: The highest port.
_MOST_PORT = 65535
#: Longest token in a file, and the shortest: 128 bits as hexadecimal digits.
_LONGEST, _SHORTEST = 200, 32


@click.command(
    epilog=examples(
        "phalanx dashboard",
        "phalanx dashboard lab --space jobs",
        "phalanx dashboard ws7:7400",
        "phalanx dashboard lab --port 8789 --metrics-token ~/.phalanx-metrics",
    )
)
@click.argument("name", metavar="[GRID|HOSTS]", required=False)
@click.option("--port", type=Count(1, _MOST_PORT), help="The port at 127.0.0.1, 1 to 65535. [default: any free one]")
@click.option("--space", "spaces", multiple=True, metavar="ADDRESS", help="Show this space too (may be repeated).")
@click.option("--all", "all_users", is_flag=True, help="Show the jobs of all users, for owners of the grid.")
@click.option(
    "--metrics-token",
    "token_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file with the token that Prometheus shows at /metrics. It is made if it is not there.",
)
@IDENTITY
@click.option("--json", "as_json", is_flag=True, help="Print the link as one JSON object.")
def dashboard(
    name: str | None,
    port: int | None,
    spaces: tuple[str, ...],
    all_users: bool,
    token_file: Path | None,
    identity: Path | None,
    as_json: bool,
) -> None:
    """Serve a page that shows what a grid does, until Ctrl-C.

    The page is served at 127.0.0.1, to the browser that first opens the printed link. It shows members and what they
    run, links and their levels, spaces, copies, jobs with their logs, losses and recoveries. It asks the hub in your
    name, over a protected link, and only while it is open. Press Enter for another link.

    GRID is the only grid that you have joined, unless you name one. HOSTS is a hosts file, or HOST:PORT, several with
    commas: executors without a hub, each of which is asked itself. They have no jobs, and name no other users.
    """
    token = None if token_file is None else _token(token_file)
    if name is not None and (is_file(name) or not is_name(name)):
        if all_users:
            raise click.UsageError("--all is about jobs, which a grid with a hub has")
        grid = Grid(name, identity=identity)
        grid.reach.dialler()  # an identity that is not good is said at once
        what, source = "executors", _of_executors(grid, name, spaces)
    elif identity is not None:
        raise click.UsageError("--identity is for HOSTS: in a joined grid you are whom its hub knows")
    else:
        joined = one_joined(name)
        dialler_of(joined)
        what, name, source = "grid", joined.name, _of_grid(joined, spaces, all_users)
    page = Dashboard(source, port=port or 0, token=token)
    stop = Stop()
    try:
        _say(page, what, name, as_json)
        while not stop.is_asked:
            if _enter(stop):
                click.echo(page.link())
    finally:
        page.close()


def _of_grid(joined: Joined, spaces: Iterable[str], all_users: bool) -> MachinesSource:
    grid = Grid(joined.name) if spaces else None
    watched = [Asked(it, _asks(grid, it)) for it in spaces] if grid is not None else []
    return GridSource(joined, watched, all_users=all_users)


def _of_executors(grid: Grid, name: str, spaces: Iterable[str]) -> MachinesSource:
    from phalanx.dashboard._executors import ExecutorsSource  # dataclasses are slow to import

    watched = [Asked(it, _asks(grid, it)) for it in spaces]
    return ExecutorsSource(grid.machines, grid.reach.dialler, name, watched)


def _say(page: Dashboard, what: str, name: str, as_json: bool) -> None:
    link = page.link()
    if as_json:
        click.echo(json.dumps({what: name, "address": page.address, "link": link}))
        return
    click.echo(f"the dashboard of the {what} {printable(name)}, for one browser:")
    click.echo(link)
    if is_terminal(sys.stdin):
        click.echo("Enter prints another link, Ctrl-C ends the dashboard", err=True)


def _enter(stop: Stop) -> bool:
    """Whether the user has pressed Enter; waits half a second for it."""
    if not is_terminal(sys.stdin) or os.name != "posix":
        stop.wait(_LOOK)
        return False
    ready, _, _ = select.select([sys.stdin], [], [], _LOOK)
    if not ready:
        return False
    if sys.stdin.readline():
        return True
    stop.wait(_LOOK)  # the end of the input: there is no one to press Enter
    return False


def _asks(grid: Grid, address: str) -> Callable[[], Mapping[str, Any]]:
    """What asks a space for its numbers. Its link is opened when it is first asked, and again after it was lost."""
    place, links = grid.space_address(address), grid.links()
    engines: list[Any] = []

    def ask() -> Mapping[str, Any]:
        if engines and engines[0].ended:
            engines.pop().close()
        if not engines:
            engines.append(_open.reach_any(place, **links))
        told: Mapping[str, Any] = engines[0].info()
        return told

    return ask


def _token(file: Path) -> str:
    """The token in a file for this account alone. Raises PhalanxError if others may read it, or it is none."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_token(file)
    except OSError as error:
        raise PhalanxError(f"{file} cannot be made: {error.strerror}") from None
    token = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w", encoding="ascii") as made:
        made.write(token + "\n")
    return token


def _read_token(file: Path) -> str:
    try:
        if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise PhalanxError(f"other accounts may read {file}: chmod 600 {file}")
        with file.open("rb") as opened:
            token = opened.read(_LONGEST + 1).decode("ascii", "replace").strip()
    except OSError as error:
        raise PhalanxError(f"{file} cannot be read: {error.strerror}") from None
    if not _SHORTEST <= len(token) <= _LONGEST or not token.isprintable() or " " in token:
        raise PhalanxError(
            f"{file} has no token of {_SHORTEST} to {_LONGEST} characters: remove it, and this command makes one"
        )
    return token
