"""The machines of an experiment: which of them are trusted, and managers that recruit just so many there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import phalanx as px

from bench.papers.muskel.work import asleep, random_data

#: What the paper calls them, and the level that their links must then have. Plain is what a trusted network gets by
#: default; secure is every link private.
LEVELS = {"plain": "clear", "authenticated": "authenticated", "safe": "safe", "secure": "private"}
#: A rules file that gives every link one level.
RULE = '[[rule]]\nnetwork = "any"\npreferred = "{level}"\n'
_WARM_UP_ROUNDS = 100


class Unfit(Exception):
    """The machines are not such that the experiment can be made."""


@dataclass(frozen=True)
class Line:
    """How the machines are joined: `lay` makes it so. `rate` in bytes/s, None where nobody knows."""

    title: str
    rate: float | None
    lay: Callable[[], None]


@dataclass(frozen=True)
class Place:
    """`local` and `remote` are lines of a hosts file: machines that are trusted, and that are not."""

    title: str
    local: Sequence[str]
    remote: Sequence[str]
    trusted: Sequence[str]
    identity: Path | None
    folder: Path
    #: The network of the experiments first; a second one, if there is one, is only for bandwidths.
    lines: Sequence[Line]
    #: Cores that all interpreters share; None: each has its own.
    cores: int | None
    _offers: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def manager(self, machines: Sequence[str], *, level: str | None, degree: int) -> Iterator[px.Manager]:
        """A manager with `degree` interpreters on `machines`, all of them there and warm.

        All links have `level`, one of LEVELS; None: each link what its network gets by default. Unfit where
        a link turns out to have another level.
        """
        hosts = px.Hosts(self._hosts_file(machines))
        with px.Manager(
            hosts, contract=px.ParDegree(degree), policy=self._policy(level), identity=self.identity
        ) as made:
            _warm_up(made, degree)
            found = {interpreter.level for interpreter in made.summary().interpreters}
            if level is not None and found != {LEVELS[level]}:
                raise Unfit(f"links meant to be {LEVELS[level]} are {', '.join(sorted(found))}")
            yield made

    def work(self, degree: int) -> str:
        """What so many interpreters can do at once: "busy", or only "asleep" where they are more than cores."""
        return "busy" if self.cores is None or degree <= self.cores else "asleep"

    def capacity(self, machines: Sequence[str]) -> int:
        """How many interpreters the machines offer."""
        return sum(self._offer(machine) for machine in machines)

    def _offer(self, machine: str) -> int:
        if machine not in self._offers:
            with px.Manager(px.Hosts(self._hosts_file([machine])), identity=self.identity) as made:
                self._offers[machine] = made.interpreters
                _warm_up(made, made.interpreters)  # who leaves while recruiting has places there for a while yet
        return self._offers[machine]

    def _hosts_file(self, machines: Sequence[str]) -> Path:
        path = self.folder / "some-hosts.txt"
        path.write_text("\n".join([*self.trusted, *machines, ""]))
        return path

    def _policy(self, level: str | None) -> Any:
        if level in (None, "plain"):
            return "links"
        if level == "secure":
            return "all"
        rules = self.folder / f"{level}.toml"
        rules.write_text(RULE.format(level=LEVELS[str(level)]))
        return px.Rules(rules)


def _warm_up(manager: px.Manager, degree: int) -> None:
    """Wait until all interpreters are there and have fired something."""
    data = random_data(8)
    for _ in range(_WARM_UP_ROUNDS):
        for _ in manager.compute(px.Farm(asleep), [(0.01, data)] * 2 * degree):
            pass
        if sum(each.tasks > 0 for each in manager.summary().interpreters if each.state == "working") >= degree:
            return
    raise Unfit(f"of {degree} interpreters some never fired anything")
