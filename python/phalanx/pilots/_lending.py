"""How a manager gets the executors of a pilot, and gives them back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar, cast

from phalanx._grids import JoinedHosts
from phalanx.pilots._pilot import Pilot

P = ParamSpec("P")
It = TypeVar("It")
Other = TypeVar("Other")


def lent(where: Other | Pilot, places: int | None) -> tuple[Other | JoinedHosts, Callable[[], None] | None]:
    """The executors of a pilot, which is started if it is not, and the function that gives them back: it closes a pilot
    that was started here. Another place is returned as it is.

    Raises
    ------
    RecruitError
        The engine is not there, refuses, or gives no place in time.
    """
    if not isinstance(where, Pilot):
        return where, None
    if where.is_started:
        return where.hosts(places), None
    where.start()
    try:
        return where.hosts(places), where.close
    except BaseException:
        where.close()
        raise


def returned_on_error(begin: Callable[Concatenate[It, P], None]) -> Callable[Concatenate[It, P], None]:
    """Makes a manager that does not begin give back what was lent to it."""

    @functools.wraps(begin)
    def beginning(self: It, *arguments: P.args, **options: P.kwargs) -> None:
        try:
            begin(self, *arguments, **options)
        except BaseException:
            with suppress(AttributeError):  # nothing was lent yet
                if (give_back := getattr(self, "_return")) is not None:  # noqa: B009
                    give_back()
            raise

    return cast("Callable[Concatenate[It, P], None]", beginning)
