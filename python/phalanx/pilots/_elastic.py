"""How the places of a pilot grow and shrink with the contract of its manager."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import TYPE_CHECKING

from phalanx.errors import PhalanxError

if TYPE_CHECKING:
    from collections.abc import Callable

    from phalanx import _native
    from phalanx.members import Member

_log = logging.getLogger("phalanx")

#: Seconds between two looks.
_LOOK = 1.0
#: Seconds without an interpreter of the manager after which an executor is given back. To get a place again can take
#: minutes, so that a short pause gives none back.
_IDLE = 30.0
#: How the reason for a contract that is not met ends, if more interpreters would help: `why` in
#: phalanx-core/src/flow/contract.rs.
_NOT_OFFERED = "are not offered"


class Elastic:
    """Asks an engine for one more place while a contract lacks interpreters, and gives back those that are idle.

    One place is asked for at a time: the next one when all have come.

    Parameters
    ----------
    native
        The manager.
    executors
        Tells which executors are here.
    grow
        Asks for one more place, unless one is on its way. It gets the number of executors that are here. Whether it
        did.
    give_back
        Gives back the place of an executor, by its name, unless it is needed. It gets that number, too. Whether it did.
    """

    def __init__(
        self,
        native: _native.Manager,
        executors: Callable[[], list[Member]],
        grow: Callable[[int], bool],
        give_back: Callable[[str, int], bool],
    ) -> None:
        self._native, self._executors, self._grow, self._give_back = native, executors, grow, give_back
        self._idle: dict[str, float] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="phalanx-places", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it. A question to the engine is answered first."""
        self._ending.set()
        if threading.current_thread() is not self._thread:  # which may collect a manager that nobody has closed
            self._thread.join()

    def _keep(self) -> None:
        while not self._ending.wait(_LOOK):
            try:
                self._look()
            except PhalanxError as error:  # of an engine that is away for a moment, or refuses; it is asked again
                _log.debug("places stay as they are: %s", error)

    def _look(self) -> None:
        summary = self._native.summary()
        used = {it["machine"] for it in summary["interpreters"] if it["state"] == "working"}
        members, now = self._executors(), time.monotonic()
        here = [it.name for it in members]
        self._idle = {name: self._idle.get(name, now) for name in here if name not in used}
        if self._lacks(summary["contract"], sum(map(offered, members))):
            if self._grow(len(here)):
                _log.info("one more place was asked for, because the contract is not met")
            return
        for name in [name for name, since in self._idle.items() if now - since >= _IDLE]:
            if self._give_back(name, len(here)):
                here.remove(name)
                _log.info("%s was given back, because nothing ran there for %.0f s", name, _IDLE)

    def _lacks(self, contract: tuple[float, float, bool, str | None] | None, there: int) -> bool:
        """Whether more interpreters than are there would help a computation that goes on."""
        why = "" if contract is None else contract[-1] or ""
        if self._native.interpreters <= there and not why.endswith(_NOT_OFFERED):
            return False
        return bool(json.loads(self._native.shown())["runs"])


def offered(member: Member) -> int:
    """How many interpreters an executor offers, as it says."""
    word = member.facts.get("interpreters", "")
    return int(word) if word.isascii() and word.isdigit() and len(word) < 6 else 0
