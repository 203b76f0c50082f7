"""``phalanx pause`` and ``phalanx resume``: the owner reclaims the machine for a while."""

from __future__ import annotations

from datetime import datetime

import click

from phalanx._voluntary import books, pausing
from phalanx.cli._examples import examples
from phalanx.cli._numbers import Duration

#: The longest pause with an end, in seconds.
_LONGEST = 365 * 24 * 3600


@click.command(
    epilog=examples(
        "phalanx pause",
        "phalanx pause --for 2h",
    )
)
@click.option(
    "--for",
    "seconds",
    type=Duration(1, _LONGEST),
    metavar="TIME",
    help="Resume by itself after so long, like 30m or 2h. [default: at phalanx resume]",
)
def pause(seconds: int | None) -> None:
    """Let this machine work for nobody.

    Every executor of this account on this machine obeys within a second: it ends the interpreters and ranks of users,
    and takes no others. Their programs go on elsewhere. Tuple spaces that are served here go on. The pause outlives
    restarts. It needs no hub and no root.
    """
    made = pausing.pause(seconds)
    until = "" if made.until is None else f" until {datetime.fromtimestamp(made.until):%Y-%m-%d %H:%M:%S}"
    click.echo(f"paused{until}; to end the pause: phalanx resume")
    if not books.asked(0):
        click.echo("no executor of this account runs here; one that starts is paused too", err=True)


@click.command(
    epilog=examples(
        "phalanx resume",
        "phalanx resume; phalanx here",
    )
)
def resume() -> None:
    """End a pause.

    This machine works for others again, as its rules say.

    Every executor of this account on this machine obeys within a second.
    """
    click.echo("resumed" if pausing.resume() else "this machine was not paused")
