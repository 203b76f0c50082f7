"""The server of a dashboard, with a source of the test: access, hostile requests, and bounds."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from typing import Any

import pytest
from conftest import Eventually
from phalanx.dashboard import Dashboard, _access, _serving
from phalanx.dashboard._access import MOST_BROWSERS, MOST_LINKS, Access, names_this_machine
from phalanx.dashboard._clean import LONGEST, MOST, clean
from phalanx.errors import PhalanxError, RecruitError

HOSTILE = '<script>alert(1)</script>\u202e\x1b[2J"&\n'


class Told:
    """A source whose parts the test changes."""

    interval = 0.02
    is_here = True

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {"about": {"kind": "grid", "title": HOSTILE}, "members": []}
        self.error: Exception | None = None
        self.readings = 0
        self.closed = False

    def read(self) -> dict[str, Any]:
        self.readings += 1
        if self.error is not None:
            raise self.error
        return self.parts

    def log(self, job: int, index: int, stream: str, start: int) -> dict[str, Any]:
        if job == 404:
            raise PhalanxError("there is no job 404")
        return {"text": f"{job}.{index} {stream}", "next": start + 5, "state": "all"}

    def close(self) -> None:
        self.closed = True


class Browser:
    """Asks a dashboard as a browser does."""

    def __init__(self, page: Dashboard) -> None:
        host, _, port = page.address.partition(":")
        self.host, self.port = host, int(port)
        self.cookie = ""
        self.path = "/"

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        with closing(connection):
            sent = {"Cookie": self.cookie} if self.cookie else {}
            connection.request(method, path, headers={**sent, **{k.replace("_", "-"): v for k, v in headers.items()}})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers

    def enter(self, link: str) -> tuple[int, str, http.client.HTTPMessage]:
        found = self.ask(link.removeprefix(f"http://{self.host}:{self.port}"))
        if found[0] == 200:
            self.cookie = found[2]["Set-Cookie"].partition(";")[0]
            match = re.search(r"Path=([^;]+)", found[2]["Set-Cookie"])
            assert match is not None
            self.path = match[1]
        return found

    def raw(self, sent: bytes) -> bytes:
        """The answer to bytes that need be no request."""
        with closing(socket.create_connection((self.host, self.port), timeout=10)) as connection:
            connection.sendall(sent)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    @contextmanager
    def events(self) -> Iterator[Iterator[tuple[str, Any]]]:
        """The stream of events, over a socket of its own."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        with closing(connection):
            connection.request("GET", f"{self.path}events", headers={"Cookie": self.cookie})
            answer = connection.getresponse()
            assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
            with closing(answer):
                yield _read(answer)


def _read(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    kind = "message"
    for line in iter(answer.readline, b""):
        word, _, rest = line.decode().rstrip("\n").partition(": ")
        if word == "event":
            kind = rest
        elif word == "data":
            yield kind, json.loads(rest)
            kind = "message"


@pytest.fixture
def source() -> Told:
    return Told()


@pytest.fixture
def page(source: Told) -> Iterator[Dashboard]:
    with closing(Dashboard(source)) as page:
        yield page
    assert source.closed


@pytest.fixture
def browser(page: Dashboard) -> Browser:
    browser = Browser(page)
    assert browser.enter(page.link())[0] == 200
    return browser


def test_a_link_lets_one_browser_in_once(page: Dashboard) -> None:
    first, second, link = Browser(page), Browser(page), page.link()
    status, text, headers = first.enter(link)
    assert status == 200
    assert f"url={first.path}" in text
    assert re.fullmatch(r"phalanx=[\w-]{43}; Path=/[\w-]{22}/; HttpOnly; SameSite=Strict", headers["Set-Cookie"])
    assert first.ask(first.path)[0] == 200
    status, text, headers = second.enter(link)
    assert (status, "Set-Cookie" in headers) == (403, False)
    assert "used already" in text
    assert second.ask(first.path)[0] == 403
    assert second.ask(first.path, Cookie="phalanx=" + "x" * 43)[0] == 403


def test_each_browser_has_its_own_cookie(page: Dashboard) -> None:
    one, other = Browser(page), Browser(page)
    assert one.enter(page.link())[0] == other.enter(page.link())[0] == 200
    assert one.cookie != other.cookie
    assert one.ask(one.path)[0] == other.ask(other.path)[0] == 200


def test_a_link_is_good_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access()
    monkeypatch.setattr(_access, "LINK_LASTS", -1.0)
    late = access.new_link()
    monkeypatch.setattr(_access, "LINK_LASTS", 600.0)
    assert access.exchange(late) is None
    assert access.exchange(access.new_link()) is not None


def test_links_and_browsers_are_bounded() -> None:
    access = Access()
    links = [access.new_link() for _ in range(MOST_LINKS + 1)]
    assert access.exchange(links[0]) is None  # the oldest one made room
    first = access.exchange(links[1])
    assert first is not None
    for _ in range(MOST_BROWSERS):
        assert access.exchange(access.new_link()) is not None
    assert not access.knows_browser(first.partition(";")[0])


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{}", "localhost:{}", "LOCALHOST:{}", "[::1]:{}", "127.0.0.1:9", "localhost"]
)
def test_names_of_this_machine_are_answered(browser: Browser, host: str) -> None:
    assert browser.ask(browser.path, Host=host.format(browser.port))[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{}",
        "evil.example",
        "127.0.0.1.evil.example:{}",
        "127.0.0.1:{}@evil.example",
        "",
        "[::1",
        "127.0.0.1:x",
    ],
)
def test_another_name_is_refused(browser: Browser, host: str) -> None:
    """A page of another site whose name leads here, as after DNS rebinding, has a name of its own."""
    for path in (browser.path, "/metrics", "/enter/x"):
        assert browser.ask(path, Host=host.format(browser.port))[0] == 421


def test_two_names_and_none_are_refused() -> None:
    assert not names_this_machine([])
    assert not names_this_machine(["localhost", "localhost"])


def test_a_request_of_another_site_is_refused(browser: Browser) -> None:
    for name in ("events", "state", "page.js", "log?job=1&index=0&stream=out&start=0"):
        assert browser.ask(browser.path + name, Sec_Fetch_Site="cross-site")[0] == 403
    assert browser.ask(browser.path, Sec_Fetch_Site="cross-site")[0] == 200  # a link in a mail, with the cookie


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/{page}/../../../etc/passwd",
        "/{page}/%2e%2e/x",
        "/{page}/page.html",
        "//evil.example/",
        "/x",
    ],
)
def test_paths_lead_to_no_files(browser: Browser, path: str) -> None:
    status, text, _ = browser.ask(path.format(page=browser.path.strip("/")))
    assert (status, "root:" in text) == (404, False)


def test_answers_forbid_what_the_page_does_not_need(browser: Browser, page: Dashboard) -> None:
    paths = [browser.path, f"{browser.path}page.js", f"{browser.path}state", "/enter/x", "/metrics", "/nothing"]
    for path in paths:
        headers = browser.ask(path)[2]
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert "Python" not in headers["Server"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_the_page_only_reads(browser: Browser, method: str) -> None:
    assert browser.ask(browser.path, method)[0] == 501


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(200)) + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"\r\n\r\n",
        b"",
    ],
)
def test_what_is_no_request_is_refused_and_others_are_answered(browser: Browser, sent: bytes) -> None:
    with closing(socket.create_connection((browser.host, browser.port), timeout=10)) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert not answer.startswith(b"HTTP/1.1 200")
    assert browser.ask(browser.path)[0] == 200


def test_the_page_is_small_and_has_no_code_of_others() -> None:
    folder = files("phalanx.dashboard").joinpath("page")
    texts = {it.name: it.read_text() for it in folder.iterdir()}
    assert {*texts} == {"page.html", "page.css", "page.js"}
    assert sum(len(text.encode()) for text in texts.values()) <= 150_000
    for text in texts.values():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
        assert "innerHTML" not in text
        assert "insertAdjacentHTML" not in text
    assert not re.search(r"\son\w+=|style=|<script>", texts["page.html"])


def test_events_tell_everything_first_and_then_what_has_changed(browser: Browser, source: Told) -> None:
    with browser.events() as events:
        _, first = next(events)
        assert {"about", "members", "at", "failure"} <= first.keys()
        source.parts = {**source.parts, "members": [{"name": "ws7"}]}
        _, later = next(found for found in events if "members" in found[1])
        assert later["members"] == [{"name": "ws7"}]
        assert "about" not in later


def test_texts_of_others_are_made_harmless(browser: Browser) -> None:
    with browser.events() as events:
        _, first = next(events)
    assert first["about"]["title"] == r'<script>alert(1)</script>\u{202e}\x1b[2J"&\x0a'


def test_what_is_told_is_bounded() -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    told = clean({"text": "x" * 100_000, "many": [0] * 100_000, "deep": deep, "nan": float("nan"), "it": object})
    assert len(told["text"]) == LONGEST
    assert len(told["many"]) == MOST
    assert "…" in json.dumps(told["deep"], ensure_ascii=False)
    assert told["nan"] is None
    json.dumps(told, allow_nan=False)


def test_a_source_that_fails_says_why_and_goes_on(browser: Browser, source: Told) -> None:
    with browser.events() as events:
        next(events)
        source.error = RecruitError("no hub of the grid answers: \x1b[2J")
        _, failed = next(found for found in events if found[1].get("failure"))
        assert failed["failure"] == r"no hub of the grid answers: \x1b[2J"
        assert "members" not in failed  # those that were told stay
        source.error = None
        _, again = next(found for found in events if "failure" in found[1])
        assert again["failure"] is None


def test_nothing_is_read_while_no_page_is_open(
    browser: Browser, page: Dashboard, source: Told, eventually: Eventually
) -> None:
    with browser.events() as events:
        next(events)
        assert page.pages == 1
    eventually(lambda: page.pages == 0)
    before = source.readings
    time.sleep(10 * source.interval)
    assert source.readings <= before + 1


def test_open_pages_are_bounded(browser: Browser, monkeypatch: pytest.MonkeyPatch, source: Told) -> None:
    monkeypatch.setattr(_serving, "MOST_PAGES", 2)
    with closing(Dashboard(source)) as page:
        browser = Browser(page)
        browser.enter(page.link())
        with browser.events() as one, browser.events() as other:
            next(one), next(other)
            status, text, _ = browser.ask(f"{browser.path}events")
            assert (status, "2 pages" in text) == (503, True)
            assert browser.ask(browser.path)[0] == 200


def test_connections_are_bounded_and_slow_ones_end(
    monkeypatch: pytest.MonkeyPatch, source: Told, eventually: Eventually
) -> None:
    monkeypatch.setattr(_serving, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(_serving, "PATIENCE", 1.0)
    with closing(Dashboard(source)) as page:
        browser = Browser(page)
        silent = [socket.create_connection((browser.host, browser.port), timeout=10) for _ in range(8)]
        silent[0].send(b"G")
        ended = [connection.recv(100) for connection in silent]  # each is ended, at once or after a second
        assert all(b"200" not in answer for answer in ended)
        for connection in silent:
            connection.close()

        def is_let_in() -> bool:
            with suppress(OSError, http.client.HTTPException):  # it is ended while there is no room
                return browser.enter(page.link())[0] == 200
            return False

        eventually(is_let_in, what="room for a browser")


def test_a_page_that_takes_nothing_in_ends(
    monkeypatch: pytest.MonkeyPatch, source: Told, eventually: Eventually
) -> None:
    monkeypatch.setattr(_serving.Handler, "timeout", 0.5)
    with closing(Dashboard(source)) as page:
        browser = Browser(page)
        browser.enter(page.link())
        with closing(socket.create_connection((browser.host, browser.port))) as connection:
            head = f"GET {browser.path}events HTTP/1.1\r\nHost: localhost\r\nCookie: {browser.cookie}\r\n\r\n"
            connection.sendall(head.encode())
            eventually(lambda: page.pages == 1)
            number = 0
            while page.pages:  # each reading is another one, of some hundred kilobytes
                number += 1
                source.parts = {"members": [f"{number}" * 900] * 500}
                time.sleep(source.interval)
                assert number < 2000


def test_closing_ends_everything(source: Told) -> None:
    before = {*threading.enumerate()}
    page = Dashboard(source)
    browser = Browser(page)
    browser.enter(page.link())
    silent = socket.create_connection((browser.host, browser.port), timeout=10)
    with browser.events() as events, closing(silent):
        next(events)
        page.close()
        assert [kind for kind, _ in events][-1] == "end"
        assert silent.recv(10) == b""
    assert {it for it in threading.enumerate() if it.is_alive()} <= before
    with pytest.raises(ConnectionRefusedError):
        browser.ask("/")
    assert source.closed


def test_a_port_in_use_is_said(page: Dashboard, source: Told) -> None:
    with pytest.raises(PhalanxError, match="the dashboard cannot listen"):
        Dashboard(Told(), port=int(page.address.rpartition(":")[2]))


def test_logs_of_jobs(browser: Browser) -> None:
    def ask(query: str) -> tuple[int, str]:
        return browser.ask(f"{browser.path}log?{query}")[:2]

    assert ask("job=12&index=3&stream=err&start=0") == (200, '{"text": "12.3 err", "next": 5, "state": "all"}')
    assert ask("job=404&index=0&stream=out&start=0") == (200, '{"failure": "there is no job 404"}')
    for query in (
        "",
        "job=1",
        "job=-1&index=0&stream=out&start=0",
        "job=1&index=0&stream=x&start=0",
        "&".join(["a=b"] * 99),
    ):
        assert ask(query)[0] == 400


def test_metrics_need_the_token(page: Dashboard, browser: Browser) -> None:
    assert browser.ask("/metrics")[0] == 401  # the cookie is not for this path
    assert browser.ask("/metrics", Authorization="Bearer x")[0] == 401
    assert browser.ask("/metrics", Authorization=f"Basic {page.token}")[0] == 401
    status, text, headers = browser.ask("/metrics", Authorization=f"Bearer {page.token}")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "phalanx_up 1.0\n" in text
