"""A grid that is a function of the test, with every part that a page can show."""

from __future__ import annotations

import random
import time
from typing import Any

LEVELS = ("private", "safe", "authenticated", "clear")


class Told:
    """A source of a dashboard: a grid with so many executors, whose numbers change with each reading."""

    interval = 1.0
    is_here = True

    def __init__(self, members: int = 12, name: str = "lab") -> None:
        self._name, self._random, self._began = name, random.Random(22), int(time.time()) - 5000
        self._executors = [self._executor(number) for number in range(members)]

    def read(self) -> dict[str, Any]:
        for row in self._executors:
            row["used"] = self._random.randint(0, 4) if row["here"] else None
        links = [*self._links()]
        return {
            "about": {"kind": "grid", "title": self._name, "hub": "10.0.0.5:7400"},
            "totals": {"executors": len(self._executors), "here": 9, "closed": 1, "places": 40, "used": 17, "lost": 2}
            | {"running": 3, "waiting": 40},
            "members": [self._user(), *self._executors],
            "programs": [{"user": "bob", "what": "interpreters", "count": 12, "machines": 6, "rate": 0}],
            "links": links,
            "relayed": {"links": 1, "bytes": 5_000_000},
            "spaces": [self._space("jobs"), {"name": "gone", "failure": "no server answers"}],
            "copies": [it for it in links if it["what"] == "copies"],
            "jobs": [self._job(number) for number in range(40, 0, -1)],
            "history": [
                {"who": "bob", "what": "used", "hours": 12.5},
                {"who": "ws0", "what": "offered", "hours": 96.0},
            ],
            "events": [self._event(number) for number in range(30)],
            "missing": [],
        }

    def log(self, job: int, index: int, stream: str, start: int) -> dict[str, Any]:
        line = f"a line of job {job}.{index}\n"
        return {"text": line if start == 0 else "", "next": len(line), "state": "all"}

    def close(self) -> None:
        pass

    def _user(self) -> dict[str, Any]:
        row = {"name": self._name, "role": "owner", "here": False, "leads": False, "closed": "", "machine": ""}
        return {**row, "since": self._began, "until": self._began + 86400, "address": ""}

    def _executor(self, number: int) -> dict[str, Any]:
        return {
            "name": f"ws{number}",
            "role": "executor",
            "here": number % 7 != 6,
            "leads": False,
            "closed": "its owner uses it" if number % 11 == 5 else "",
            "machine": "cores 4, python 3.11, cage full",
            "since": self._began + number,
            "until": self._began + 86400,
            "address": f"10.0.{number // 250}.{number % 250}:7400",
            "places": 4 if number % 7 != 6 else None,
            "used": 0,
            "running": ["bob: 2 interpreters"] if number % 3 else [],
            "lost": number == 4,
            "last_loss": "killed by signal 9" if number == 4 else "",
        }

    def _links(self) -> Any:
        for number, row in enumerate(self._executors[:10]):
            link = {"from": "bob" if number % 3 else "eve", "to": row["name"], "level": LEVELS[number % 4], "count": 2}
            rate = self._random.randint(0, 10**8)
            yield {
                **link,
                "what": "copies" if number % 5 == 0 else "interpreters",
                "relayed": number == 7,
                "rate": rate,
            }

    def _space(self, name: str) -> dict[str, Any]:
        counts = {"tuples": 1200, "bytes": 65_000, "takers": 3, "readers": 1, "watches": 0, "transactions": 1}
        partitions = [{"signature": "str, int", "tuples": 1200, "indexes": [[0], [0, 1]]}]
        rates = {"outs": 250.0, "takes": 240.0, "reads": 1.0}
        return {"name": name, **counts, "expired": 0, "rates": rates, "partitions": partitions, "replicas": []}

    def _job(self, number: int) -> dict[str, Any]:
        state = ("COMPLETE", "EXECUTOR_ERROR", "RUNNING")[number % 3]
        counts = {"queued": 1, "running": 1, "complete": 6, "failed": 0, "lost": 0, "canceled": 0}
        told = {"id": number, "state": state, "user": "bob", "name": None, "command": "./render slices", "why": ""}
        return {**told, "submitted": 1000 * (self._began + number), "counts": counts, "first": 0, "last": 7}

    def _event(self, number: int) -> dict[str, Any]:
        what = ("lost", "recruited", "released")[number % 3]
        event = {
            "number": number,
            "at": self._began + 150 * number,
            "what": what,
            "interpreter": f"executor ws{number}",
        }
        return {**event, "text": "killed by signal 9", "times": 1 + number % 2}
