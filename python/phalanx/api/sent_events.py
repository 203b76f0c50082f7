"""Server-Sent Events, as browsers and HTTP libraries read them.

Source: WHATWG, HTML Living Standard, section 9.2, https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
from starlette.responses import Response, StreamingResponse

from phalanx.errors import PhalanxError

#: The first pause and the longest one between two looks, in seconds.
_LOOKS = 0.2, 1.0
#: Seconds until a line without meaning keeps the connection open.
ALIVE = 15.0


def event(kind: str, told: Any, id_: int | None = None) -> str:
    """The text of an event.

    Parameters
    ----------
    kind
        Its type.
    told
        Its data, which become JSON.
    id_
        Its id, with which a client goes on later.

    Returns
    -------
    str

    Examples
    --------
    >>> from phalanx.api.sent_events import event
    >>> event("output", {"text": "hi"}, 2)
    'event: output\\nid: 2\\ndata: {"text": "hi"}\\n\\n'
    """
    numbered = "" if id_ is None else f"id: {id_}\n"
    return f"event: {kind}\n{numbered}data: {json.dumps(told)}\n\n"


def events(texts: AsyncIterator[str]) -> Response:
    """An answer with events. An error that comes later is an event too, because the status was sent.

    Parameters
    ----------
    texts
        The events. An empty text is none.

    Returns
    -------
    Response
    """

    async def sent() -> AsyncIterator[str]:
        last = time.monotonic()
        yield ": events follow\n\n"
        try:
            async for text in texts:
                now = time.monotonic()
                if text or now - last > ALIVE:
                    last = now
                    yield text or ": it goes on\n\n"
        except PhalanxError as error:
            yield event("error", {"detail": str(error)})

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(sent(), headers=headers, media_type="text/event-stream")


def looks(seconds: float) -> Iterator[None]:
    """Goes on until a time is over.

    Parameters
    ----------
    seconds
        The time.

    Yields
    ------
    None
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield None


class Pause:
    """The time between two looks, which grows while nothing comes."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Something has come."""
        self._seconds = _LOOKS[0]

    async def over(self) -> str:
        """Waits. Returns a text without an event."""
        await anyio.sleep(self._seconds)
        self._seconds = min(1.3 * self._seconds, _LOOKS[1])
        return ""
