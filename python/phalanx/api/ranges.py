"""Sends a part of a file, as HTTP asks for it (RFC 9110, section 14), in blocks."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from phalanx.api.refusals import Refused

#: Bytes that are read at once. A reader that is slow has two such blocks in memory.
BLOCK = 256 << 10
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
BYTES = "application/octet-stream"


def send(
    request: Request,
    size: int,
    read: Callable[[int, int], bytes],
    done: Callable[[], None],
    *,
    tag: str,
    thread: Callable[..., Awaitable[Any]],
) -> Response:
    """An answer with all bytes, or with those that the request asks for.

    Parameters
    ----------
    request
        The request.
    size
        How many bytes there are.
    read
        Reads bytes from an offset on: at most so many.
    done
        Called when no more is read.
    tag
        What changes when the bytes change.
    thread
        Calls a function in a thread of the user, with arguments.

    Returns
    -------
    Response

    Raises
    ------
    Refused
        There are no such bytes (416).
    """
    start, end, status = 0, size, 200
    asked = _RANGE.fullmatch(request.headers.get("range", "").replace(" ", ""))
    is_same = request.headers.get("if-range", tag) == tag
    if asked is not None and asked[0] != "bytes=-" and is_same:
        start, end = _bounds(asked, size)
        status = 206
        if start >= end:
            done()
            raise Refused(416, f"there are {size} bytes, and none of those that are asked for", _of(size))
    headers = {"accept-ranges": "bytes", "content-length": f"{end - start}", "etag": tag}
    if status == 206:
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    if request.method == "HEAD":
        done()
        return Response(status_code=status, headers=headers, media_type=BYTES)
    return _Sent(_blocks(read, start, end, thread), status, headers, BYTES, done)


class _Sent(StreamingResponse):
    """Ends what it reads from, also if the client is gone before the first block."""

    def __init__(
        self,
        blocks: AsyncIterator[bytes],
        status: int,
        headers: dict[str, str],
        media_type: str,
        done: Callable[[], None],
    ) -> None:
        super().__init__(blocks, status, headers, media_type)
        self._done = done

    async def __call__(self, *arguments: object) -> None:
        try:
            await super().__call__(*arguments)  # type: ignore[arg-type]  # as Starlette calls it
        finally:
            self._done()


def _of(size: int) -> dict[str, str]:
    return {"content-range": f"bytes */{size}"}


def _bounds(asked: re.Match[str], size: int) -> tuple[int, int]:
    """The first byte, and the one after the last one."""
    first, last = asked.groups()
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size


async def _blocks(
    read: Callable[[int, int], bytes], start: int, end: int, thread: Callable[..., Awaitable[Any]]
) -> AsyncIterator[bytes]:
    while start < end:
        block = await thread(read, start, min(BLOCK, end - start))
        if not block:
            raise EOFError("the file has become shorter")  # the connection ends, so that the client knows it
        yield block
        start += len(block)
