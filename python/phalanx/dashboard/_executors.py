"""What a page shows of executors without a hub: each of them is asked itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from phalanx import _native
from phalanx._identities import Dialler
from phalanx.dashboard._grid import MachinesSource, running_of
from phalanx.dashboard._spaces import Asked
from phalanx.errors import RecruitError
from phalanx.status import ExecutorStatus, GridStatus, status_of


class ExecutorsSource(MachinesSource):
    """Executors that are named by addresses or in a hosts file.

    Parameters
    ----------
    machines
        Their addresses, by name.
    dialler
        Tells who the user is, and whom the user expects there.
    title
        What the user called them.
    spaces
        Spaces that are shown.
    """

    def __init__(
        self, machines: Mapping[str, str], dialler: Callable[[], Dialler], title: str, spaces: Iterable[Asked] = ()
    ) -> None:
        super().__init__({"kind": "grid", "title": title}, spaces)
        self._machines, self._dialler = dict(machines), dialler
        self._since: dict[str, float] = {}

    def read_machines(self) -> tuple[list[dict[str, Any]], GridStatus]:
        """The executors, and what they run. Raises RecruitError if none of them answers."""
        machines = self._machines
        answers = _native.ask_statuses([*machines.values()], self._dialler())
        told = dict(zip(machines, answers, strict=True))
        if failures := [answer for answer in answers if isinstance(answer, str)]:
            self._since = {name: since for name, since in self._since.items() if not isinstance(told[name], str)}
            if len(failures) == len(answers):
                raise RecruitError(failures[0])
        now = time.time()
        rows = [
            (name, True, int(self._since.setdefault(name, now)), answer)
            for name, answer in told.items()
            if not isinstance(answer, str)
        ]
        status = status_of(self._about["title"], rows, (), 0, 0)
        known = {it.name: it for it in status.executors}
        return [self._row(name, address, told[name], known.get(name)) for name, address in machines.items()], status

    def _row(self, name: str, address: str, answer: object, told: ExecutorStatus | None) -> dict[str, Any]:
        row = {
            "name": name,
            "role": "executor",
            "here": told is not None,
            "leads": False,
            "since": int(self._since.get(name, time.time())),
            "until": 0,
            "address": address,
            "closed": answer if isinstance(answer, str) else "",
            "machine": "",
        }
        return row if told is None else row | {"closed": told.closed} | running_of(told)
