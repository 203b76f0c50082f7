"""Copies between two machines of the grid over HTTP: begin, follow, cancel. The bytes do not pass through the hub."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from phalanx._copying import CopyOrder
from phalanx._native import Copy
from phalanx.api.acting import Acting
from phalanx.api.fields import LONGEST, Fields, parse, text
from phalanx.api.refusals import Refused
from phalanx.api.sent_events import Pause, event, events, looks
from phalanx.api.users import Shares, Users
from phalanx.members import is_name
from phalanx.security import policy_words
from phalanx.tes.interface import read_body

#: Most copies that run for a user, and for all users; and most that are kept for a user.
MOST_OF_USER, MOST, MOST_KEPT = 4, 16, 100
#: Seconds for which a copy that has ended is kept.
_KEPT = 3600.0
#: Most failures that are told.
_MOST_FAILURES = 100
#: Seconds for which a copy goes on after a cut while no new bytes arrive.
_PATIENCE = 60.0
#: Seconds between two looks at the copies that run, and between two at the memberships of their users.
_LOOK, _CHECKED = 0.2, 2.0
#: Seconds after which events end.
_LONGEST_FOLLOW = 3600.0
#: Threads that begin copies, and those of one user.
_THREADS, _SHARE = 8, 2


class Copying:
    """A copy, which runs or has ended.

    Parameters
    ----------
    user
        Whose it is.
    source, target
        Its ends, as the client has named them.
    native
        The copy.
    """

    def __init__(self, user: str, source: str, target: str, native: Copy) -> None:
        self.id, self.user, self.native = secrets.token_hex(8), user, native
        self.ended: float | None = None
        self._told: dict[str, Any] = {"from": source, "to": target, "began": time.time()}
        self._cancels = ""
        self._facts: dict[str, Any] = {
            "state": "RUNNING",
            "why": "",
            "files": 0,
            "kept": 0,
            "failed": 0,
            "failures": [],
        }

    def cancel(self, why: str) -> None:
        """Cancels it, unless it has ended. What has arrived stays, and the same copy goes on there."""
        if self.ended is None:
            self._cancels = self._cancels or why
            self.native.cancel()

    def look(self) -> None:
        """Notes its end."""
        try:
            facts = self.native.wait(0)
        except Exception as error:  # whatever it is, it must not end the thread that looks after all copies
            state = "CANCELED" if self._cancels else "FAILED"
            self._end({**self._facts, "state": state, "why": self._cancels or str(error)})
            return
        if facts is not None:
            failures = [
                {"path": str(path).encode("utf-8", "backslashreplace").decode(), "reason": reason}
                for path, reason in facts["failures"][:_MOST_FAILURES]
            ]
            state, why = ("FAILED", "not all could be copied") if facts["failed"] else ("COMPLETE", "")
            counts = {name: facts[name] for name in ("files", "kept", "failed")}
            self._end({"state": state, "why": why, **counts, "failures": failures})

    def told(self) -> dict[str, Any]:
        """The copy as clients see it."""
        bytes_, total, is_growing = self.native.progress()
        progress = {"bytes": bytes_, "total": total, "growing": is_growing and self.ended is None}
        return {"id": self.id, **self._told, "ended": self.ended, **self._facts, **progress}

    def _end(self, facts: dict[str, Any]) -> None:
        self._facts, self.ended = facts, time.time()


class Copies:
    """The copies of all users. A thread notes their ends.

    Parameters
    ----------
    acting
        What names the user to the machines.
    is_member
        Whether a user is still a member of the grid.
    """

    def __init__(self, acting: Acting, is_member: Callable[[str], bool]) -> None:
        self._acting, self._is_member = acting, is_member
        self._lock, self._ends = threading.Lock(), threading.Event()
        self._all: dict[str, Copying] = {}
        self._thread = threading.Thread(target=self._look_after, name="phalanx-copies", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cancels all copies."""
        self._ends.set()
        self._thread.join()
        for copying in self._all.values():
            copying.cancel("the hub ends")

    def begin(self, user: str, source: str, target: str, *, anew: bool) -> Copying:
        """Begins a copy.

        Parameters
        ----------
        user
            Whose it is.
        source, target
            Its ends: ``MACHINE:/path``.
        anew
            Whether files are copied that are there with the same size and time.

        Returns
        -------
        Copying

        Raises
        ------
        Refused
            An end is none (400), its machine does not run (404), or too many copies run (429).
        """
        (at, here), (to, there) = _end_of(source, "from"), _end_of(target, "to")
        self._check_room(user)
        dialler, addresses = self._acting.reach(user, {"from": at, "to": to})
        order = CopyOrder(
            address=addresses["to"],
            source=addresses["from"],
            dialler=dialler,
            policy=policy_words("all", ()),
            puts=True,
            here=here,
            here_into=False,
            there=there,
            there_into=there.endswith("/"),
            memory=0,
            level=None,
            streams=None,
            threads=None,
            checked=True,
            anew=anew,
            whole_file=None,
            compress=None,
            include=[],
            exclude=[],
            links=None,
            keeps=[],
            only=[],
            patience=_PATIENCE,
            limit=0,
            share=None,
            fresh=False,
            copy=None,
        )
        copying = Copying(user, source, target, Copy(order))
        try:
            self._check_room(user, copying)
        except Refused:
            copying.cancel("too many copies run")
            raise
        return copying

    def of(self, user: str) -> list[Copying]:
        """The copies of a user, the newest first."""
        with self._lock:
            return [it for it in reversed(self._all.values()) if it.user == user]

    def found(self, user: str, id_: str) -> Copying:
        """A copy of a user. Raises Refused if there is none (404)."""
        with self._lock:
            copying = self._all.get(id_)
        if copying is None or copying.user != user:
            raise Refused(404, f"you have no copy {id_!r:.40}; a copy is kept for an hour after its end")
        return copying

    def _check_room(self, user: str, new: Copying | None = None) -> None:
        """Adds a new copy. Raises Refused if there is no room for one (429)."""
        with self._lock:
            running = [it.user for it in self._all.values() if it.ended is None]
            if len(running) >= MOST or running.count(user) >= MOST_OF_USER:
                words = f"{running.count(user)} copies of yours run, and {len(running)} of all users"
                raise Refused(429, f"{words}; {MOST_OF_USER} and {MOST} may", {"Retry-After": "10"})
            if new is not None:
                self._all[new.id] = new

    def _look_after(self) -> None:
        checked = 0.0
        while not self._ends.wait(_LOOK):
            with self._lock:
                running = [it for it in self._all.values() if it.ended is None]
                self._forget()
            for copying in running:
                copying.look()
            if running and time.monotonic() - checked >= _CHECKED:
                checked = time.monotonic()
                gone = {user for user in {it.user for it in running} if not self._is_member(user)}
                for copying in running:
                    if copying.user in gone:
                        copying.cancel(f"{copying.user} is no member of the grid any more")

    def _forget(self) -> None:
        """Forgets copies that ended an hour ago, and the oldest of users with many."""
        late, kept = time.time() - _KEPT, dict[str, int]()
        for id_, it in [*reversed(self._all.items())]:
            kept[it.user] = kept.get(it.user, 0) + 1
            if it.ended is not None and (it.ended < late or kept[it.user] > MOST_KEPT):
                del self._all[id_]


class CopyRoutes:
    """The copies, for users with tokens.

    Parameters
    ----------
    users
        Who asks.
    copies
        The copies.
    """

    def __init__(self, users: Users, copies: Copies) -> None:
        self._users, self._copies = users, copies
        self._threads = Shares(_THREADS, _SHARE, "copies")

    def routes(self) -> list[Route]:
        """What is served.

        Returns
        -------
        list of Route
        """
        of = self._users.of
        return [
            Route("/copies", of(self.list), methods=["GET"]),
            Route("/copies", of(self.begin), methods=["POST"]),
            Route("/copies/{copy}", of(self.show), methods=["GET"]),
            Route("/copies/{copy}/cancel", of(self.cancel), methods=["POST"]),
            Route("/copies/{copy}/events", of(self.events), methods=["GET"]),
        ]

    async def begin(self, request: Request, user: str) -> Response:
        """Begins a copy from one machine to another."""
        fields = Fields(parse(await read_body(request, LONGEST, Refused)))
        source, target, anew = fields.needed("from", text), fields.needed("to", text), fields.truth("anew")
        fields.end()
        begin = lambda: self._copies.begin(user, source, target, anew=anew)  # noqa: E731
        copying = await self._threads.run(user, begin)
        return JSONResponse(copying.told(), 201, {"location": f"{request.url.path}/{copying.id}"})

    async def list(self, request: Request, user: str) -> Response:
        """The user's copies, the newest first."""
        return JSONResponse({"copies": [it.told() for it in self._copies.of(user)]})

    async def show(self, request: Request, user: str) -> Response:
        """One copy."""
        return JSONResponse(self._found(request, user).told())

    async def cancel(self, request: Request, user: str) -> Response:
        """Cancels a copy."""
        copying = self._found(request, user)
        await self._threads.run(user, copying.cancel, f"{user} has canceled it", refuses=False)
        return JSONResponse(copying.told())

    async def events(self, request: Request, user: str) -> Response:
        """Each change of a copy, until it has ended."""
        return events(self._changes(request, user, self._found(request, user)))

    async def _changes(self, request: Request, user: str, copying: Copying) -> AsyncIterator[str]:
        last, pause = None, Pause()
        for _ in looks(_LONGEST_FOLLOW):
            told = copying.told()
            if told != last:
                last = told
                yield event("copy", told)
            if told["ended"] is not None:
                return
            yield await pause.over()
            await self._users.still(request, user)

    def _found(self, request: Request, user: str) -> Copying:
        return self._copies.found(user, str(request.path_params["copy"]))


def _end_of(named: str, where: str) -> tuple[str, str]:
    """The machine and the path of an end of a copy. Raises Refused if it is none (400)."""
    machine, _, path = named.partition(":")
    if not is_name(machine) or not path.startswith("/"):
        raise Refused(400, f"{where}: {named!r:.200} is no MACHINE:/path; names are shown by: phalanx members")
    return machine, path
