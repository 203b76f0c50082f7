"""What a page shows of machines, and of a grid: the answers of its hub."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from phalanx import _native
from phalanx._grids import Joined, ask_members, dialler_of, read_status
from phalanx._jobs import JobsAt, here
from phalanx.dashboard._rates import Rates
from phalanx.dashboard._spaces import Asked, read_spaces
from phalanx.errors import PhalanxError
from phalanx.members import CLOSED, LEADS, Member
from phalanx.status import ExecutorStatus, GridStatus

#: Jobs that are shown, and lines of the time line that are kept.
_MOST_JOBS, _MOST_EVENTS = 200, 500
#: Bytes of a log that are sent at a time.
_MOST_LOG = 64 << 10
#: Days of the history, and seconds between two questions for it. The hub is told new sums twice a minute.
_DAYS, _HISTORY = 30, 120.0
#: One of several, and several where the word alone would not tell.
_ONE = {"interpreters": "interpreter", "ranks": "rank", "copies": "copy", "spaces": "link to spaces", "jobs": "job"}
_SEVERAL = {"spaces": "links to spaces"}
#: What a machine has, in a few words: the facts of executors that are shown.
_FACTS = ("cores", "gpus", "python", "labels", "cage")


class MachinesSource:
    """What several machines run, and what has changed since the page was opened. It is the base of the sources that ask
    a hub, or executors.

    Parameters
    ----------
    about
        What the page says of them.
    spaces
        Spaces that are shown.
    """

    interval = 2.0
    is_here = False

    def __init__(self, about: Mapping[str, str], spaces: Iterable[Asked] = ()) -> None:
        self._about, self._spaces = dict(about), [*spaces]
        self._space_rates = Rates()
        self._events: deque[dict[str, Any]] = deque(maxlen=_MOST_EVENTS)
        self._number = 0
        self._before: dict[str, Any] | None = None
        self._failures: dict[str, str] = {}
        self._history: list[dict[str, Any]] = []

    def read(self) -> dict[str, Any]:
        """The parts of the page. Raises RecruitError if nobody answers."""
        rows, status = self.read_machines()
        self._failures = {}
        jobs = self._try("jobs", self.read_jobs, [])
        now = {"members": {(it["role"], it["name"]): it for it in rows}, "jobs": {it["id"]: it for it in jobs}}
        self._note_changes(now)
        links = [*_links(status)]
        return {
            "about": self._about,
            "totals": _totals(rows, jobs),
            "members": rows,
            "programs": _programs(status),
            "links": links,
            "relayed": {"links": status.relayed.links, "bytes": status.relayed.bytes},
            "spaces": read_spaces(self._spaces, self._space_rates),
            "copies": [link for link in links if link["what"] == "copies"],
            "jobs": jobs,
            "history": self._try("history", self.read_history, self._history),
            "events": [*self._events],
            "missing": [f"{part}: {why}" for part, why in self._failures.items()],
        }

    def read_machines(self) -> tuple[list[dict[str, Any]], GridStatus]:
        """The rows of the machines and other members, and what they run."""
        raise NotImplementedError

    def read_jobs(self) -> list[dict[str, Any]]:
        """The jobs; none without a hub."""
        return []

    def read_history(self) -> list[dict[str, Any]]:
        """What was worked before; nothing without a hub."""
        return []

    def log(self, job: int, index: int, stream: str, start: int) -> dict[str, Any]:
        """What a process of a job has written from a byte on. Raises PhalanxError: without a hub there are no jobs."""
        raise PhalanxError("there is no hub, which has jobs and their logs")

    def close(self) -> None:
        """Nothing is held."""

    def _try(self, part: str, read: Callable[[], Any], otherwise: Any) -> Any:
        """A part that is not everything: the page has the reason where it is missing."""
        try:
            return read()
        except PhalanxError as error:
            self._failures[part] = str(error)
            return otherwise

    def _note_changes(self, now: dict[str, Any]) -> None:
        """Notes what differs from the last reading: losses and recoveries of members, and ends of jobs."""
        before, self._before = self._before, now
        if before is None:
            return
        for key, row in now["members"].items():
            known = before["members"].get(key)
            for what, text in _changes(known, row):
                self._note(what, f"{row['role']} {row['name']}", text)
        for role, name in before["members"].keys() - now["members"].keys():
            self._note("expelled", f"{role} {name}", "is no member any more")
        for number, job in now["jobs"].items():
            old = before["jobs"].get(number)
            if (old and old["state"]) != job["state"]:
                self._note("job", f"job {number}", f"{job['state']} {job['why'] or ''}".strip())

    def _note(self, what: str, who: str, text: str) -> None:
        at = round(time.time(), 1)
        self._events.append(
            {"number": self._number, "at": at, "what": what, "interpreter": who, "text": text, "times": 1}
        )
        self._number += 1


class GridSource(MachinesSource):
    """A grid that this account has joined.

    Parameters
    ----------
    joined
        The grid.
    spaces
        Spaces that are shown.
    all_users
        Whether the jobs of all users are shown. Only owners of the grid may ask for them.
    """

    def __init__(self, joined: Joined, spaces: Iterable[Asked] = (), *, all_users: bool = False) -> None:
        super().__init__({"kind": "grid", "title": joined.name, "hub": joined.hubs[0]}, spaces)
        self._joined, self._all_users = joined, all_users
        self._asked = float("-inf")

    def read_machines(self) -> tuple[list[dict[str, Any]], GridStatus]:
        """The members of the grid, and what its executors run."""
        members, status = ask_members(self._joined), read_status(self._joined)
        return _members(members, status), status

    def log(self, job: int, index: int, stream: str, start: int) -> dict[str, Any]:
        """What a process of a job has written from a byte on, as far as it is known now."""
        at = JobsAt(self._joined)
        found, word = at.log(job, index, stream == "err", start)
        if isinstance(found, dict):  # all of it, or what the hub keeps it as
            content = here(found)
            if content is None:
                return {
                    "text": "",
                    "next": start,
                    "state": f"too long for this page; phalanx logs {job}.{index} prints it",
                }
            found = content[start:]
        part = found[:_MOST_LOG]
        if len(found) > len(part):
            part = part[: part.rfind(b"\n") + 1] or part  # whole lines, so that no character is cut
        lines = _native.escape(part).decode("utf-8", "replace")
        state = "goes on" if word == "part" or len(found) > len(part) else word
        return {"text": lines, "next": start + len(part), "state": state}

    def read_jobs(self) -> list[dict[str, Any]]:
        """The newest jobs."""
        taken = ("id", "state", "user", "name", "submitted", "counts", "first", "last", "why")
        rows = islice(JobsAt(self._joined).jobs(self._all_users), _MOST_JOBS)
        return [{**{key: row.get(key) for key in taken}, "command": " ".join(row["command"])} for row in rows]

    def read_history(self) -> list[dict[str, Any]]:
        """Hours that users have used and machines have offered, of the last days."""
        if time.monotonic() - self._asked < _HISTORY:
            return self._history
        today = int(time.time()) // (24 * 3600)
        rows = _native.hub_history(*dialler_of(self._joined), today - _DAYS + 1)
        self._asked = time.monotonic()
        used: Counter[str] = Counter()
        offered: Counter[str] = Counter()
        for _, machine, milliseconds, all_of in rows:
            offered[machine] += milliseconds
            for user, _, places, *_ in all_of:
                used[user] += places
        self._history = [
            *({"who": user, "what": "used", "hours": ms / 3.6e6} for user, ms in used.most_common(50)),
            *({"who": machine, "what": "offered", "hours": ms / 3.6e6} for machine, ms in offered.most_common(50)),
        ]
        return self._history


def _changes(known: Mapping[str, Any] | None, row: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if known is None:
        yield "recruited", "has joined"
        return
    if known["here"] != row["here"]:
        yield ("recruited", "is here again") if row["here"] else ("lost", "has gone")
    if known.get("closed") != row.get("closed") and row["here"]:
        yield ("released", f"is closed: {row['closed']}") if row["closed"] else ("recruited", "is open again")
    lost = (row.get("lost") or 0) - (known.get("lost") or 0)
    if lost > 0:
        yield "lost", f"{lost} interpreters or ranks: {row['last_loss']}"
    if known.get("leads") != row.get("leads") and row.get("leads"):
        yield "recruited", "leads the hubs now"


def _members(members: Iterable[Member], status: GridStatus) -> list[dict[str, Any]]:
    told = {it.name: it for it in status.executors}
    return [_member(it, told.get(it.name) if it.role == "executor" else None) for it in members]


def _member(member: Member, told: ExecutorStatus | None) -> dict[str, Any]:
    facts = member.facts
    row: dict[str, Any] = {
        "name": member.name,
        "role": "owner" if member.is_owner else member.role,
        "here": member.is_here,
        "leads": member.role == "hub" and facts.get(LEADS) == "yes",
        "since": int(member.since.timestamp()),
        "until": int(member.until.timestamp()),
        "address": member.address or "",
        "closed": (told.closed if told else "") or facts.get(CLOSED, ""),
        "machine": ", ".join(f"{word} {facts[word]}" for word in _FACTS if word in facts),
    }
    return row if told is None else row | running_of(told)


def running_of(told: ExecutorStatus) -> dict[str, Any]:
    """The part of a row about what an executor runs."""
    running = [f"{it.user}: {it.count} {_named(it.what, it.count)}" for it in told.running]
    return {
        "places": told.interpreters,
        "used": told.used,
        "running": [*running, *([f"and {told.more} more"] if told.more else [])],
        "lost": told.lost,
        "last_loss": told.last_loss,
    }


def _named(what: str, count: int) -> str:
    return (_ONE if count == 1 else _SEVERAL).get(what, what)


def _links(status: GridStatus) -> Iterable[dict[str, Any]]:
    """What executors tell of their links: who has them, their levels and rates. Then those that the hub relays."""
    for executor in status.executors:
        for it in executor.running:
            yield {
                "from": it.user,
                "to": executor.name,
                "what": it.what,
                "level": it.level,
                "relayed": it.is_relayed,
                "count": it.count,
                "rate": it.rate,
            }


def _programs(status: GridStatus) -> list[dict[str, Any]]:
    """What each user runs, over all machines."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for executor in status.executors:
        for it in executor.running:
            row = sums.setdefault(
                (it.user, it.what), {"user": it.user, "what": it.what, "count": 0, "machines": 0, "rate": 0}
            )
            row["count"] += it.count
            row["machines"] += 1
            row["rate"] += it.rate
    return sorted(sums.values(), key=lambda row: (row["user"], row["what"]))


def _totals(rows: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> dict[str, Any]:
    executors = [it for it in rows if it["role"] == "executor"]
    return {
        "executors": len(executors),
        "here": sum(it["here"] for it in executors),
        "closed": sum(bool(it["closed"]) for it in executors if it["here"]),
        "places": sum(it.get("places") or 0 for it in executors),
        "used": sum(it.get("used") or 0 for it in executors),
        "lost": sum(it.get("lost") or 0 for it in executors),
        "running": sum(job["counts"]["running"] for job in jobs),
        "waiting": sum(job["counts"]["queued"] for job in jobs),
    }
