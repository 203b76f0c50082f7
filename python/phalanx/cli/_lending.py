"""What the owner of a machine lets the owners of its grid lend to other grids."""

from __future__ import annotations

from typing import Any

import click

from phalanx import _cage
from phalanx._grids import Joined
from phalanx._identities import EXECUTOR
from phalanx.cli._donating import GPU, Donating
from phalanx.cli._numbers import Count

#: The most places that a loan names: `MOST_PLACES` in phalanx-core/src/hub/lending.rs.
MOST_PLACES = 4096
#: The fact that tells the hub how many places may be lent: `MAY_LEND` there.
_MAY_LEND = "may lend"
#: The folder, in that of a grid, for the identity in the grid to which the machine is lent.
_FOLDER = "guest"

MAY_LEND = click.option(
    "--may-lend",
    type=Count(1, MOST_PLACES),
    metavar="PLACES",
    help=f"Let the owners of the grid lend so many places of this machine, at most {MOST_PLACES}, to users of other "
    "grids. These users open neither its spaces, nor its exports, nor what is granted, except graphics processors. "
    "[default: none]",
)


def lending(joined: Joined, donating: Donating, places: int | None) -> dict[str, Any]:
    """What may be lent, as a word of :func:`~phalanx.cli._donating.start_executor`."""
    folder = joined.folder / _FOLDER
    if places is None and not (folder / EXECUTOR).exists():
        return {}
    cage = _cage.settings(
        donating.cage,
        identity=joined.executor,
        directory=donating.directory,
        grants=[grant for grant in donating.grants if grant == GPU],
        variables=(),
    )
    # Without a place, the executor leaves the grid to which it was lent before.
    return {"lending": (places or 0, cage, folder)}


def facts(places: int | None) -> dict[str, str]:
    """What the hub is told about it."""
    return {} if places is None else {_MAY_LEND: str(places)}
