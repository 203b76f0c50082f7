"""Tells which requests to a dashboard may be answered: one-time links, cookies, and the token of a scraper."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie

#: Links that were not used yet, and browsers that may look. Of more, the oldest ones are forgotten.
MOST_LINKS, MOST_BROWSERS = 16, 32
#: Seconds for which a link is good. It stands in a terminal, and may stand in a log or in the history of a shell.
LINK_LASTS = 600.0
#: Names by which a browser on this machine calls it. A page of another site whose name leads here (DNS rebinding) has
#: another name in its requests.
HOSTS = ("127.0.0.1", "localhost", "[::1]")
COOKIE = "phalanx"
#: Longest token that is looked at.
_LONGEST = 200


class Access:
    """The secrets of one dashboard.

    A link is good once, and for ten minutes: a browser exchanges it for a cookie of its own. The cookie is sent only to
    the path of the page, which is random: cookies know no ports, and another account of this machine may listen at
    another one.
    """

    def __init__(self, token: str | None = None) -> None:
        #: The first part of every path of the page.
        self.page = secrets.token_urlsafe(16)
        #: What a scraper shows for ``/metrics``.
        self.token = token or secrets.token_urlsafe(32)
        self._links: deque[tuple[bytes, float]] = deque(maxlen=MOST_LINKS)
        self._browsers: deque[bytes] = deque(maxlen=MOST_BROWSERS)
        self._lock = threading.Lock()

    def new_link(self) -> str:
        """The secret of a link that can be used once."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._links.append((_digest(secret), time.monotonic() + LINK_LASTS))
        return secret

    def exchange(self, secret: str) -> str | None:
        """The header that sets a cookie, for the secret of a link; None: it was used, is too old, or never was one."""
        shown = _digest(secret[:_LONGEST])
        now = time.monotonic()
        with self._lock:
            found = next((it for it in self._links if it[1] > now and hmac.compare_digest(it[0], shown)), None)
            if found is None:
                return None
            self._links.remove(found)
            cookie = secrets.token_urlsafe(32)
            self._browsers.append(_digest(cookie))
        return f"{COOKIE}={cookie}; Path=/{self.page}/; HttpOnly; SameSite=Strict"

    def knows_browser(self, header: str) -> bool:
        """Whether a request shows a cookie of this dashboard."""
        try:
            shown = SimpleCookie(header[:4096]).get(COOKIE)
        except CookieError:
            return False
        if shown is None:
            return False
        digest = _digest(shown.value[:_LONGEST])
        with self._lock:
            return _is_one_of(digest, self._browsers)

    def knows_scraper(self, header: str) -> bool:
        """Whether a request shows the token."""
        scheme, _, word = header.partition(" ")
        return scheme.lower() == "bearer" and _is_one_of(_digest(word.strip()[:_LONGEST]), [_digest(self.token)])


def names_this_machine(hosts: list[str]) -> bool:
    """Whether a request has one Host header, which names this machine, with any port: a tunnel may have another one."""
    if len(hosts) != 1:
        return False
    host, colon, port = hosts[0].strip().lower().rpartition(":")
    if not colon or host.endswith(":") or hosts[0].rstrip().endswith("]"):
        host, port = hosts[0].strip().lower(), "80"
    return host in HOSTS and port.isascii() and port.isdigit() and len(port) <= 5


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _is_one_of(digest: bytes, known: Iterable[bytes]) -> bool:
    """Compares with all of them, so that the time tells nothing."""
    found = False
    for one in known:
        found |= hmac.compare_digest(digest, one)
    return found
