"""The machines of a hosts file, on which executors run already."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import phalanx as px

from bench.papers.muskel.places import LEVELS, Line, Place


@contextmanager
def hosts_place(path: Path, identity: Path | None) -> Iterator[Place]:
    """The machines that `path` names: local is what the policy gives a clear link, remote the others."""
    px.Hosts(path)  # complains where it cannot be read
    said = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    trusted = [line for line in said if line.startswith("trusted ")]
    machines = [line for line in said if line and line not in trusted]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        line = Line("the network between the machines", None, lambda: None)
        place = Place(f"{len(machines)} machines", [], machines, trusted, identity, Path(folder), [line], None)
        local = [machine for machine in machines if _is_trusted(place, machine)]
        remote = [machine for machine in machines if machine not in local]
        yield Place(place.title, local, remote, trusted, identity, place.folder, [line], None)


def _is_trusted(place: Place, machine: str) -> bool:
    """Whether a link to the machine is clear without any further word: the policy is asked, not the addresses."""
    with place.manager([machine], level=None, degree=1) as manager:
        return manager.summary().interpreters[0].level == LEVELS["plain"]
