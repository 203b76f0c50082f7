"""Serves a page over HTTP on this machine, to the browsers that its links have let in."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qsl

from phalanx.dashboard._access import Access, names_this_machine
from phalanx.dashboard._clean import text
from phalanx.dashboard._feed import Feed
from phalanx.dashboard._metrics import CONTENT_TYPE, exposition
from phalanx.errors import PhalanxError

#: Most connections at a time, and most of them that are open pages.
MOST_CONNECTIONS, MOST_PAGES = 64, 16
#: Seconds that a request may take, from its connection to its answer, and that a page may take nothing in.
PATIENCE = 10.0
#: Seconds between two signs of life to an open page.
_BEAT = 15.0
#: Seconds between two looks whether the server is to end, and whether requests take too long.
_LOOK = 0.1
#: Longest path of a request.
_LONGEST = 2000
_FILES = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
}
#: Nothing but the page's own files; no code and no style in the page itself, no other page around it.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
#: The answer to a link. The browser goes on by itself: a cookie for the same site only would not be sent along with a
#: redirection that began elsewhere, as in the window of a chat.
_ENTER = """<!doctype html><html lang="en"><meta charset="utf-8"><title>phalanx</title><link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0; url=/{page}/"><p><a href="/{page}/">To the dashboard</a></p></html>"""
_USED = (
    "This link was used already, is older than ten minutes, or the dashboard has ended. "
    "A link is good for one browser. "
    "Print another one: press Enter where `phalanx dashboard` runs, or print(manager.dashboard.link()).\n"
)


class Server(ThreadingHTTPServer):
    """The server of one page.

    Parameters
    ----------
    feed
        What the page shows.
    access
        Who may look.
    port
        Where to listen; 0: any free port.

    Raises
    ------
    PhalanxError
        The port is in use, or may not be used.
    """

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS
    allow_reuse_address = os.name == "posix"  # elsewhere another program could take the port

    def __init__(self, feed: Feed, access: Access, port: int = 0) -> None:
        self.feed, self.access = feed, access
        self.pages = threading.BoundedSemaphore(MOST_PAGES)
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except OSError as error:
            raise PhalanxError(
                f"the dashboard cannot listen at 127.0.0.1:{port}: {error.strerror or error}; name another port, or "
                f"none for any free one"
            ) from None
        self._thread = threading.Thread(target=self.serve_forever, args=(_LOOK,), name="phalanx-dashboard", daemon=True)
        self._thread.start()

    def server_bind(self) -> None:
        """Takes the port. The library would also ask the network for the name of 127.0.0.1, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def link(self) -> str:
        """A link that one browser can use, once."""
        return f"http://127.0.0.1:{self.server_port}/enter/{self.access.new_link()}"

    def close(self) -> None:
        """Ends every connection, and the threads."""
        self.feed.close()
        self.shutdown()
        self.server_close()
        with self._lock:
            connections = [*self._open]
        for connection in connections:
            _end(connection)
        end = time.monotonic() + PATIENCE
        while self._open and time.monotonic() < end:  # each thread takes its own connection away
            time.sleep(0.005)
        self._thread.join(PATIENCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread of its own, unless there are too many connections."""
        with self._lock:
            has_room = len(self._open) < MOST_CONNECTIONS
            if has_room:
                self._open[request] = time.monotonic() + PATIENCE
        if not has_room:
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Ends a connection."""
        super().shutdown_request(request)
        with self._lock:
            self._open.pop(request, None)

    def stays(self, request: Any) -> None:
        """A connection is that of an open page: it may last."""
        with self._lock:
            if request in self._open:
                self._open[request] = float("inf")

    def service_actions(self) -> None:
        """Ends the connections whose requests take too long."""
        now = time.monotonic()
        with self._lock:
            late = [connection for connection, end in self._open.items() if end < now]
        for connection in late:
            _end(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error of the program."""


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def do_GET(self) -> None:
        """Answers a request to read. There are no others."""
        self.close_connection = True
        if not names_this_machine(self.headers.get_all("Host", [])):
            return self._say(421, "This is no name of the dashboard's machine: open the printed link.\n")
        if len(self.path) > _LONGEST or not self.path.startswith("/"):
            return self._say(404, "There is no such page.\n")
        path, _, query = self.path.partition("?")
        first, _, rest = path[1:].partition("/")
        if first == "enter" and not query:
            return self._enter(rest)
        if path == "/metrics":
            return self._metrics()
        if first != self.server.access.page:
            return self._say(403 if path == "/" else 404, _USED if path == "/" else "There is no such page.\n")
        return self._page(rest, query)

    def _page(self, name: str, query: str) -> None:
        if not self.server.access.knows_browser(self.headers.get("Cookie", "")):
            return self._say(403, _USED)
        if name and self.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            return self._say(403, "Only the page itself may ask for this.\n")
        if name in _FILES:
            file, kind = _FILES[name]
            return self._send(200, _file(file), kind)
        answers: dict[str, Callable[[str], None]] = {"events": self._events, "state": self._state, "log": self._log}
        return answers.get(name, self._unknown)(query)

    def _enter(self, secret: str) -> None:
        cookie = self.server.access.exchange(secret)
        if cookie is None:
            return self._say(403, _USED)
        page = _ENTER.format(page=self.server.access.page)
        return self._send(200, page.encode(), "text/html; charset=utf-8", {"Set-Cookie": cookie})

    def _metrics(self) -> None:
        if not self.server.access.knows_scraper(self.headers.get("Authorization", "")):
            words = "Show the dashboard's token: Authorization: Bearer TOKEN\n"
            return self._send(401, words.encode(), "text/plain; charset=utf-8", {"WWW-Authenticate": "Bearer"})
        metrics = exposition(self.server.feed.now())
        return self._send(200, metrics.encode(), CONTENT_TYPE)

    def _state(self, _: str) -> None:
        self._send(200, json.dumps(self.server.feed.now()).encode(), "application/json")

    def _log(self, query: str) -> None:
        asked = dict(parse_qsl(query[:_LONGEST]))
        numbers = [_number(asked.get(name, "")) for name in ("job", "index", "start")]
        job, index, start = numbers
        if job is None or index is None or start is None or asked.get("stream") not in ("out", "err"):
            return self._say(400, "A log has a job, an index, a start, and out or err as stream.\n")
        try:
            found = self.server.feed.source.log(job, index, asked["stream"], start)
        except PhalanxError as error:
            found = {"failure": text(str(error))}
        except Exception as error:  # a fault of ours, or of the hub: the page says it
            found = {"failure": text(f"{type(error).__name__}: {error}")}
        return self._send(200, json.dumps(found).encode(), "application/json")

    def _events(self, _: str) -> None:
        """Tells what changes, as server-sent events, until the browser goes away or the dashboard ends."""
        if not self.server.pages.acquire(blocking=False):
            return self._say(503, f"{MOST_PAGES} pages are open already: close one.\n")
        try:
            self.server.stays(self.request)
            self._begin(200, "text/event-stream", {"X-Accel-Buffering": "no"})
            with self.server.feed.reader():
                self._tell_on()
        finally:
            self.server.pages.release()

    def _tell_on(self) -> None:
        number, feed = 0, self.server.feed
        while not feed.closed or feed.number > number:
            found = feed.since(number, _BEAT)
            if found is None:
                self.wfile.write(b": still here\n\n")
                continue
            number, changed = found
            self.wfile.write(b"data: " + changed.encode() + b"\n\n")  # the timeout ends a page that takes nothing in
        self.wfile.write(b"event: end\ndata: {}\n\n")

    def _unknown(self, _: str) -> None:
        self._say(404, "There is no such page.\n")

    def _say(self, status: int, words: str) -> None:
        self._send(status, words.encode(), "text/plain; charset=utf-8")

    def _send(self, status: int, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self._begin(status, kind, {"Content-Length": str(len(body)), **(more or {})})
        self.wfile.write(body)

    def _begin(self, status: int, kind: str, more: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **_HEADERS, **more, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def version_string(self) -> str:
        """Says nothing about the version of Python."""
        return "phalanx"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """An answer to what is no request, with the headers of all others."""
        self.close_connection = True
        self.request_version = getattr(self, "request_version", "") or "HTTP/1.0"
        self._say(code, f"{message or 'This is no request that the dashboard answers'}\n")

    def log_message(self, *_: Any) -> None:
        """Requests are not logged: their paths have secrets."""


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # it may have ended by itself
        connection.shutdown(socket.SHUT_RDWR)


def _number(word: str) -> int | None:
    return int(word) if re.fullmatch("[0-9]{1,15}", word) else None


@cache
def _file(name: str) -> bytes:
    return files("phalanx.dashboard").joinpath("page").joinpath(name).read_bytes()
