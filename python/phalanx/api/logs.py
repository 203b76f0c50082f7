"""What processes of jobs write, and how jobs go on: at once, or as events that follow (Server-Sent Events)."""

from __future__ import annotations

import codecs
import threading
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from phalanx._grids import Joined
from phalanx._jobs import OVER, STATES, JobsAt
from phalanx.api.jobs import JobRoutes, job_in, named, number_in
from phalanx.api.ranges import BYTES
from phalanx.api.refusals import Refused
from phalanx.api.rows import exit_of, job_of
from phalanx.api.sent_events import Pause, event, events, looks
from phalanx.api.users import Shares, Users
from phalanx.errors import PhalanxError, RecruitError
from phalanx.tes.at_hub import AtHub, bytes_of

#: Seconds after which events end. The client asks again, and shows its token again.
LONGEST_FOLLOW = 3600.0
#: Bytes of a finished log that are sent at once.
_PIECE = 64 << 10
#: The last byte at which a log may be asked for.
MOST_START = 1 << 40
#: Most logs of running processes that are read at a time, and those of one user. Each has a link to the hub, and waits
#: for the machine of the process.
MOST_LINKS, SHARE = 16, 4


class LogRoutes:
    """The logs and the events of jobs, for users with tokens.

    Parameters
    ----------
    users
        Who asks.
    hub
        The queue.
    jobs
        What knows whose a job is, and sends contents.
    running
        The logs of processes that run.
    """

    def __init__(self, users: Users, hub: AtHub, jobs: JobRoutes, running: Running) -> None:
        self._users, self._hub, self._jobs, self._running = users, hub, jobs, running

    def routes(self) -> list[Route]:
        """What is served.

        Returns
        -------
        list of Route
        """
        of, process = self._users.of, "/jobs/{job}/processes/{index}"
        return [
            Route("/jobs/{job}/events", of(self.events), methods=["GET"]),
            Route(f"{process}/logs/{{stream}}", of(self.log), methods=["GET", "HEAD"]),
            Route(f"{process}/logs/{{stream}}/events", of(self.follow), methods=["GET"]),
        ]

    async def events(self, request: Request, user: str) -> Response:
        """Each change of a job, until it has ended."""
        number = job_in(request)
        await self._users.thread(user, self._jobs.found, user, number)
        return events(self._changes(user, number))

    async def log(self, request: Request, user: str) -> Response:
        """What a process has written: all of it, or so much as there is while it runs."""
        job, row = await self._users.thread(user, self._jobs.process_of, user, *named(request))
        stream, start = _stream(request), number_in(request, "start", 0, MOST_START) or 0
        if row["outcome"] is not None:
            return self._jobs.send(request, user, job["user"], row["outcome"][stream])
        if STATES[row["state"]] in OVER:
            return Response(b"", media_type=BYTES)
        written = await self._running.read(user, job["id"], row["index"], stream, start)
        return Response(written, media_type=BYTES)

    async def follow(self, request: Request, user: str) -> Response:
        """What a process writes, as it comes, until it has ended."""
        number, index = named(request)
        await self._users.thread(user, self._jobs.process_of, user, number, index)
        stream, last = _stream(request), request.headers.get("last-event-id", "0")
        start = int(last) if last.isascii() and last.isdigit() and len(last) < 19 else 0
        return events(self._written(user, number, index, stream, start))

    async def _changes(self, user: str, number: int) -> AsyncIterator[str]:
        last, pause = None, Pause()
        for _ in looks(LONGEST_FOLLOW):
            job = job_of(await self._users.thread(user, self._jobs.found, user, number))
            if job != last:
                last = job
                pause.restart()
                yield event("job", job)
            if job["state"] in OVER:
                return
            yield await pause.over()

    async def _written(self, user: str, number: int, index: int, stream: str, start: int) -> AsyncIterator[str]:
        """Events with texts. The id of each is the number of bytes up to its end."""
        decoder, read = codecs.getincrementaldecoder("utf-8")("replace"), start
        pause, attempts = Pause(), None
        for _ in looks(LONGEST_FOLLOW):
            job, row = await self._users.thread(user, self._jobs.process_of, user, number, index)
            outcome, is_over = row["outcome"], STATES[row["state"]] in OVER
            if attempts not in (None, row["attempts"]) and read:  # its machine was lost, so that it began anew
                read = 0
                decoder.reset()
                yield event("again", {"attempts": row["attempts"]}, 0)
            attempts = row["attempts"]
            if outcome is not None:
                content = outcome[stream]
                while piece := await self._users.thread(
                    user, self._hub.read_content, job["user"], content, read, _PIECE if read < bytes_of(content) else 0
                ):
                    read += len(piece)
                    yield event("output", {"text": decoder.decode(piece)}, read - len(decoder.getstate()[0]))
            elif STATES[row["state"]] == "RUNNING":
                piece = await self._running.read(user, number, index, stream, read, refuses=False)
                read += len(piece)
                if piece:
                    pause.restart()
                    yield event("output", {"text": decoder.decode(piece)}, read - len(decoder.getstate()[0]))
            if is_over:
                rest = decoder.decode(b"", final=True)
                if rest:
                    yield event("output", {"text": rest}, read)
                yield event("end", {"state": STATES[row["state"]], "exit": outcome and exit_of(outcome["exit"])})
                return
            yield await pause.over()


class Running:
    """The logs of processes that run. A hub answers them over links, and this one asks as the owner of the grid, after
    it was checked that the user may see the job.

    Parameters
    ----------
    joined
        The grid.
    """

    def __init__(self, joined: Joined) -> None:
        self._joined = joined
        self._free: list[JobsAt] = []
        self._lock = threading.Lock()
        self._threads = Shares(MOST_LINKS, SHARE, "logs of processes that run")

    async def read(self, user: str, job: int, index: int, stream: str, start: int, *, refuses: bool = True) -> bytes:
        """What a process has written so far.

        Parameters
        ----------
        user
            Who asks.
        job, index
            The process.
        stream
            ``stdout`` or ``stderr``.
        start
            The first byte.
        refuses
            Whether it is refused if the user's share of links stays used up.

        Returns
        -------
        bytes
            As many as come at once; none: there are no more yet.

        Raises
        ------
        Refused
            This hub does not have the owner's identity (503), or the user's share is used up (429).
        """
        return await self._threads.run(user, self._read, job, index, stream == "stderr", start, refuses=refuses)

    def _read(self, job: int, index: int, is_error: bool, start: int) -> bytes:
        try:
            with self._lock:
                at = self._free.pop() if self._free else None
            at = at or JobsAt(self._joined)
            found, _ = at.log(job, index, is_error, start)
        except RecruitError:
            return b""  # the machine does not answer now, and is asked again
        except PhalanxError as error:
            raise Refused(503, f"the log of a running process is not to be had here: {error}") from None
        with self._lock:
            self._free.append(at)
        return found if isinstance(found, bytes) else b""  # it has ended; the next look finds the result


def _stream(request: Request) -> str:
    word = str(request.path_params["stream"])
    if word not in ("stdout", "stderr"):
        raise Refused(404, f"there is no stream {word!r:.40}: write stdout or stderr")
    return word
