"""What a page shows of a program: the journal of its manager, and what the manager does now."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from phalanx import _native
from phalanx.dashboard._rates import Rates
from phalanx.dashboard._spaces import Asked, Info, read_spaces
from phalanx.errors import PhalanxError
from phalanx.summary import Summary

#: Lines of the log that are kept.
_MOST_LINES = 200
#: Spaces and copies that are watched.
MOST_WATCHED = 100
#: Names of runs that are kept.
_MOST_NAMES = 256


class Lines(logging.Handler):
    """The last lines that phalanx has logged in this program."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.kept: deque[dict[str, Any]] = deque(maxlen=_MOST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a line."""
        try:
            self.kept.append({"at": record.created, "level": record.levelname, "text": record.getMessage()})
        except Exception:
            self.handleError(record)
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and self._is_alone(record.name):
            last.handle(record)

    def _is_alone(self, name: str) -> bool:
        """Whether a program has no handlers of its own for a logger. Python then prints warnings to stderr, but only if
        there is no handler at all, so that this one would hide them. Of several dashboards, one prints."""
        found: list[logging.Handler] = []
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            found += logger.handlers
            logger = logger.parent if logger.propagate else None
        return found[:1] == [self] and all(isinstance(it, Lines) for it in found)


class ProgramSource:
    """The program of a manager.

    Parameters
    ----------
    native
        The manager.
    names
        Tells what the runs compute that are open now: the name of the function or skeleton of each.
    """

    interval = 1.0
    is_here = True

    def __init__(self, native: _native.Manager, names: Callable[[], Mapping[int, str]]) -> None:
        self._native = native
        self.names = [names]
        self._named: dict[int, str] = {}
        self._rates, self._space_rates = Rates(), Rates()
        self._began = time.time()
        self._spaces: dict[str, Asked] = {}
        self._copies: dict[str, dict[str, Any]] = {}
        self._lines = Lines()
        self._log = logging.getLogger("phalanx")
        self._log.addHandler(self._lines)

    def watch(self, name: str, ask: Callable[[], Info]) -> None:
        """Shows a space under this name."""
        if name not in self._spaces and len(self._spaces) >= MOST_WATCHED:
            raise PhalanxError(f"a dashboard shows {MOST_WATCHED} spaces at most")
        self._spaces[name] = Asked(name, ask)

    def copied(self, name: str, told: dict[str, Any]) -> None:
        """Shows how far a copy is."""
        self._copies.pop(name, None)
        self._copies[name] = told
        while len(self._copies) > MOST_WATCHED:
            del self._copies[next(iter(self._copies))]

    def read(self) -> dict[str, Any]:
        """The parts of the page."""
        shown = json.loads(self._native.shown())
        summary = Summary.from_native(self._native.summary())
        now = shown["now"]
        self._note_names()
        self._measure(now, shown, summary)
        began = time.time() - now
        return {
            "about": {
                "kind": "program",
                "title": os.path.basename(sys.argv[0]) or "python",  # noqa: PTH119  it may be "-c"
                "pid": os.getpid(),
                "began": round(began, 1),
            },
            "totals": self._totals(shown, summary),
            "programs": self._programs(shown),
            "interpreters": self._interpreters(shown, summary),
            "links": self._links(summary),
            "bill": _bill(summary),
            "spaces": read_spaces([*self._spaces.values()], self._space_rates),
            "copies": [*self._copies.values()],
            "events": [{**it, "at": round(began + it["at"], 1)} for it in shown["kept"]["moments"]],
            "logs": [*self._lines.kept],
        }

    def log(self, job: int, index: int, stream: str, start: int) -> dict[str, Any]:
        """Programs have no jobs."""
        raise PhalanxError("a program has no jobs: the dashboard of a grid shows them")

    def close(self) -> None:
        """Keeps no lines any more."""
        self._log.removeHandler(self._lines)

    def _note_names(self) -> None:
        for names in self.names:
            self._named.update(names())
        while len(self._named) > _MOST_NAMES:
            del self._named[min(self._named)]

    def _measure(self, now: float, shown: dict[str, Any], summary: Summary) -> None:
        counts: dict[Any, float] = {"tasks": summary.tasks}
        for run, totals in shown["kept"]["runs"]:
            counts["run", run] = totals["delivered"]
        for it in summary.interpreters:
            counts["tasks of", it.name] = it.tasks
            counts["busy", it.name] = it.busy
            counts["bytes", it.name] = sum(count for count, _ in it.spent.values())
        self._rates.add(now, counts)

    def _totals(self, shown: dict[str, Any], summary: Summary) -> dict[str, Any]:
        contract = summary.contract
        return {
            "tasks": summary.tasks,
            "rate": self._rates.of("tasks"),
            "wall": summary.wall,
            "wanted": shown["wanted"],
            "recruiting": shown["recruiting"],
            "here": len(shown["interpreters"]),
            "lost": summary.lost,
            "replaced": summary.replaced,
            "refired": summary.refired,
            "doubled": summary.doubled,
            "contract": None
            if contract is None
            else {"asked": contract.asked, "reached": contract.reached, "met": contract.met, "why": contract.why},
        }

    def _programs(self, shown: dict[str, Any]) -> list[dict[str, Any]]:
        """The runs, the newest first: those that are open, and the last ones that were."""
        views = {it["run"]: it for it in shown["runs"]}
        kept, names = dict(shown["kept"]["runs"]), dict(shown["kept"]["names"])
        trips = [it["round_trip"] for it in shown["interpreters"]]
        round_trip = sum(trips) / len(trips) if trips else None
        return [
            self._run(run, views.get(run), kept.get(run), round_trip, names)
            for run in sorted({*views, *kept}, reverse=True)
        ]

    def _run(
        self,
        run: int,
        view: dict[str, Any] | None,
        kept: dict[str, Any] | None,
        round_trip: float | None,
        names: Mapping[int, str],
    ) -> dict[str, Any]:
        totals = kept or {"delivered": 0, "raised": 0, "doubled": 0, "answered": 0, "busy": 0.0, "shares": []}
        is_open = view is not None and not view["ended"]
        rate = self._rates.of(("run", run)) if is_open else None
        if rate is None and kept is not None and kept["last"] > kept["began"]:
            rate = totals["delivered"] / (kept["last"] - kept["began"])
        size, settled = (view["size"], view["settled"]) if view else (totals["delivered"], totals["delivered"])
        left = None if not is_open or size is None or not rate else max(0, size - settled) / rate
        task = view["task"] if view else None
        return {
            "run": run,
            "name": self._named.get(run, ""),
            "open": is_open,
            "size": size,
            "fed": view["fed"] if view else totals["delivered"],
            "settled": settled,
            "rate": rate,
            "left": left,
            "task": task if task is not None else totals["busy"] / totals["answered"] if totals["answered"] else None,
            "grain": None if task is None or not round_trip else task / round_trip,
            "batch": view["batch"] if view else None,
            "raised": totals["raised"],
            "doubled": totals["doubled"],
            "shares": [
                {"interpreter": names.get(number, f"#{number}"), "tasks": tasks, "share": tasks / totals["answered"]}
                for number, tasks in totals["shares"]
                if totals["answered"]
            ],
        }

    def _interpreters(self, shown: dict[str, Any], summary: Summary) -> list[dict[str, Any]]:
        names = dict(shown["kept"]["names"])
        flights = {names.get(it["interpreter"]): it for it in shown["interpreters"]}
        return [
            {
                "name": it.name,
                "machine": it.machine,
                "pid": it.pid,
                "state": it.state,
                "level": it.level,
                "tasks": it.tasks,
                "rate": self._rates.of(("tasks of", it.name)) if it.name in flights else None,
                "busy": self._rates.of(("busy", it.name)) if it.name in flights else None,
                "window": flights[it.name]["firings"] if it.name in flights else None,
                "flight": flights[it.name]["tasks"] if it.name in flights else None,
                "round_trip": flights[it.name]["round_trip"] if it.name in flights else None,
                "cause": it.cause,
            }
            for it in summary.interpreters
        ]

    def _links(self, summary: Summary) -> list[dict[str, Any]]:
        """The links of the manager, those to one machine at one level together."""
        links: dict[tuple[str, str], dict[str, Any]] = {}
        for it in summary.interpreters:
            link = links.setdefault(
                (it.machine, it.level),
                {
                    "from": "this program",
                    "to": it.machine,
                    "level": it.level,
                    "levels": it.levels,
                    "why": it.why[0],
                    "weaker": it.weaker,
                    "relayed": False,
                    "count": 0,
                    "bytes": 0,
                    "rate": 0.0,
                    "protection": 0.0,
                },
            )
            is_here = it.state == "working"
            link["count"] += is_here
            link["bytes"] += sum(count for count, _ in it.spent.values())
            link["rate"] += (self._rates.of(("bytes", it.name)) or 0.0) if is_here else 0.0
            link["protection"] += it.protection
        return [*links.values()]


def _bill(summary: Summary) -> dict[str, Any]:
    bill = summary.bill
    lines = [{"level": it.level, "bytes": it.bytes, "protection": it.protection} for it in bill.lines]
    return {"lines": lines, "wall": bill.wall, "cost": bill.cost, "share": bill.share}
