"""Options for the owner's rules, their storage between starts, and the watch over the machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from phalanx import _native
from phalanx._grids import Joined, read_settings, replace
from phalanx._voluntary.rules import MOST_HOURS, Rules, from_json, read_hours, to_json
from phalanx._voluntary.sensors import Sensors, sensors_here
from phalanx.cli._numbers import Count, Duration, Seconds
from phalanx.errors import IdentityError

#: The file of the rules, in the folder of a grid.
_FILE = "rules.json"
#: Default of ``--idle-after``, in seconds.
_IDLE_AFTER = 300
_DAY = 24 * 3600
#: The highest niceness.
_MOST_NICE = 19


class Voluntary(NamedTuple):
    """The owner's options. If all options for rules are None or empty, the earlier rules stay."""

    when_idle: bool | None = None
    idle_after: int | None = None
    most_load: float | None = None
    hours: tuple[str, ...] = ()
    on_battery: bool = False
    on_metered: bool = False
    nice: int | None = None

    @property
    def is_said(self) -> bool:
        """Whether the owner has given any option for rules."""
        return self._replace(nice=None) != Voluntary()

    def rules(self) -> Rules:
        """The rules. Raises click.UsageError for options that contradict each other."""
        if not self.when_idle and (self.idle_after is not None or self.on_battery or self.on_metered):
            raise click.UsageError("--idle-after, --on-battery and --on-metered are for --when-idle")
        hours = (*map(read_hours, filter(None, self.hours)),)
        if not self.when_idle:
            return Rules(most_load=self.most_load, hours=hours)
        return Rules(self.idle_after or _IDLE_AFTER, self.most_load, hours, self.on_battery, self.on_metered)

    def niceness(self, rules: Rules) -> int:
        """The niceness that users' processes have above the executor's."""
        return self.nice if self.nice is not None else _MOST_NICE if rules.idle_after is not None else 0


def _read_hours(context: click.Context, option: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    for word in filter(None, words):
        try:
            read_hours(word)
        except ValueError as error:
            raise click.BadParameter(f"{error}: write FROM-TO, like 22:00-07:00", context, option) from error
    if len(words) > MOST_HOURS:
        raise click.BadParameter(f"a day has at most {MOST_HOURS} parts", context, option)
    return words


OPTIONS = (
    click.option(
        "--when-idle/--always",
        "when_idle",
        default=None,
        help="--when-idle: work only while nobody uses this machine. A key or a movement of the mouse ends what users "
        "run here. On battery and on metered networks it works for nobody. --always: work whenever the executor runs. "
        "[default: as before, if no option says when; at first --always]",
    ),
    click.option(
        "--idle-after",
        type=Duration(1, _DAY),
        metavar="TIME",
        help="With --when-idle: work after so long without a key or a movement of the mouse. [default: 5m]",
    ),
    click.option(
        "--most-load",
        type=Seconds(0, 4096),
        metavar="CORES",
        help="Work only while other programs of this machine use at most so many cores, like 0.5, at most 4096. "
        "[default: any load; 0.3 with --when-idle where nothing tells about keys]",
    ),
    click.option(
        "--hours",
        multiple=True,
        callback=_read_hours,
        metavar="FROM-TO",
        help="Work only at these hours, like 22:00-07:00, local time (may be repeated); '' for any. "
        "[default: as before, if no option says when]",
    ),
    click.option("--on-battery", is_flag=True, help="With --when-idle: also work on battery."),
    click.option("--on-metered", is_flag=True, help="With --when-idle: also work on a metered network."),
    click.option(
        "--nice",
        type=Count(0, _MOST_NICE),
        help="By how much users' processes are nicer than the executor, at most 19. [default: 19 with --when-idle, "
        "else 0]",
    ),
)


def rules_of(joined: Joined | None, said: Voluntary) -> Rules:
    """The rules of this start, or of an earlier one.

    Raises
    ------
    click.UsageError
        The options contradict each other, or this system has no sensors for them.
    IdentityError
        The file with the earlier rules is damaged.
    """
    rules = said.rules() if said.is_said or joined is None else _before(joined)
    _sensors(rules)
    return rules


def remember(joined: Joined, rules: Rules) -> None:
    """Stores the rules for the next start."""
    if _before(joined) != rules:
        replace(joined.folder / _FILE, json.dumps(to_json(rules)) + "\n")


def native(rules: Rules, said: Voluntary) -> dict[str, Any]:
    """The parameters for the native core: the rules, and the niceness of users' processes."""
    return {"rules": {**rules._asdict(), "hours": [*rules.hours]}, "nice": said.niceness(rules)}


@contextmanager
def watching(service: _native.Executor, rules: Rules, grid: str | None = None) -> Iterator[None]:
    """Watches over the machine of an executor: its use, its owner's pause, and its users' usage."""
    from phalanx._voluntary.watching import Watching

    watching = Watching(service, rules, _sensors(rules), {"grid": grid})
    if words := rules.words():
        click.echo(f"works for others {', '.join(words)}")
    if (why := service.closed) is not None:
        click.echo(f"closed: {why}")
    try:
        yield
    finally:
        watching.close()


def _before(joined: Joined) -> Rules:
    file = joined.folder / _FILE
    if (told := read_settings(file)) is None:
        return Rules()
    try:
        return from_json(told)
    except ValueError as error:
        raise IdentityError(f"{file} is damaged: {error}; remove it, and say again when this machine works") from None


def _sensors(rules: Rules) -> Sensors | None:
    """The sensors of the machine. None: the rules need none."""
    if rules._replace(hours=()) == Rules():
        return None
    try:
        sensors = sensors_here()
    except NotImplementedError as error:
        raise click.UsageError(f"{error}: leave out --when-idle and --most-load") from None
    if rules.idle_after is not None and (lacks := sensors.lacks()) is not None:
        raise click.UsageError(f"--when-idle: {lacks}")
    return sensors
