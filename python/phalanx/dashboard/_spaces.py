"""The state of tuple spaces, as a page shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from phalanx.dashboard._rates import Rates

#: The values of an engine, as `phalanx.space.SpaceInfo` has them.
Info = Mapping[str, Any]
_COUNTED = ("outs", "reads", "takes")
#: Seconds that a reading of all spaces waits for their servers.
_PATIENCE = 1.0


class Asked:
    """A space that is asked in a thread, because its server may be away: the rest of the page does not wait for it."""

    def __init__(self, name: str, ask: Callable[[], Info]) -> None:
        self.name = name
        self._ask = ask
        self._thread: threading.Thread | None = None
        self._told: Info | str = ""

    def now(self, until: float) -> Info | str:
        """Its numbers, or why there are none."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="phalanx-dashboard-space", daemon=True)
            self._thread.start()
        self._thread.join(max(0.0, until - time.monotonic()))
        return "does not answer" if self._thread.is_alive() else self._told

    def _run(self) -> None:
        try:
            self._told = self._ask()
        except Exception as error:  # it is closed, or its server is away
            self._told = str(error) or type(error).__name__


def space_row(name: str, told: Info, rates: Rates) -> dict[str, Any]:
    """One space: its counts, its waiters, its indexes, and operations a second."""
    partitions = [
        {"signature": signature or "others", "tuples": tuples, "indexes": [list(positions) for positions in indexes]}
        for signature, tuples, indexes in told["partitions"]
    ]
    return {
        "name": name,
        "tuples": told["tuples"],
        "bytes": told["bytes"],
        "takers": told["takers"],
        "readers": told["readers"],
        "watches": told["watches"],
        "transactions": told["transactions"],
        "expired": told["expired"],
        "rates": {word: rates.of((name, word)) for word in _COUNTED},
        "partitions": partitions,
        "replicas": [{"name": it[1], "leads": it[2], "behind": it[3]} for it in told.get("replicas", ())],
    }


def read_spaces(spaces: Iterable[Asked], rates: Rates) -> list[dict[str, Any]]:
    """All spaces. One that does not answer has the reason instead."""
    now = time.monotonic()
    told = {space.name: space.now(now + _PATIENCE) for space in spaces}
    known = {name: info for name, info in told.items() if not isinstance(info, str)}
    rates.add(now, {(name, word): info[word] for name, info in known.items() for word in _COUNTED})
    return [
        {"name": name, "failure": info} if isinstance(info, str) else space_row(name, info, rates)
        for name, info in told.items()
    ]
