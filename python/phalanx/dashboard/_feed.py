"""Reads a source while anybody looks, and tells every open page what has changed."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from phalanx.dashboard._clean import clean
from phalanx.errors import PhalanxError

#: The part of a core that the reading of a source may take: the next reading waits so many times as long as the last
#: one took.
_SHARE = 0.03
#: The longest interval between two readings, in seconds.
_LONGEST = 30.0
#: Seconds to wait for the thread, which may wait for another machine.
_PATIENCE = 2.0
#: Seconds within which a scraper and a page share a reading.
_FRESH = 1.0

_log = logging.getLogger("phalanx")


class Source(Protocol):
    """What a dashboard shows.

    Attributes
    ----------
    interval : float
        Seconds between two readings, at least.
    is_here : bool
        Whether it is in this process, so that a last reading at the end waits for no other machine.
    """

    interval: float
    is_here: bool

    def read(self) -> dict[str, Any]:
        """The parts of the page by name. May wait for another machine."""

    def log(self, job: int, index: int, stream: str, start: int) -> dict[str, Any]:
        """What a process of a job has written from a byte on."""

    def close(self) -> None:
        """Ends what the source holds."""


class Feed:
    """The last reading of a source, for any number of readers, and one thread that reads it while there are readers.

    Only the last reading is kept. A reader that is slow misses readings, and gets what has changed since its last one.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._changed = threading.Condition()
        #: For each part: its JSON, and the number of the reading in which it changed last.
        self._parts: dict[str, tuple[str, int]] = {}
        self._values: dict[str, Any] = {}
        self._number = 0
        self._readers = 0
        self._closed = False
        self._read_at = float("-inf")
        self._reading = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def number(self) -> int:
        """The number of the last reading."""
        return self._number

    @property
    def readers(self) -> int:
        """How many pages are open."""
        return self._readers

    @contextmanager
    def reader(self) -> Iterator[None]:
        """Has the source read while this lasts."""
        with self._changed:
            self._readers += 1
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._read_on, name="phalanx-dashboard-feed", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1

    def since(self, number: int, patience: float) -> tuple[int, str] | None:
        """The number of the last reading, and a JSON object of the parts that have changed since the one with
        ``number``. Waits for a newer one. None: none came in ``patience`` seconds, or the feed is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._number > number, patience)
            if self._number <= number:
                return None
            parts = [f"{json.dumps(name)}:{text}" for name, (text, changed) in self._parts.items() if changed > number]
            return self._number, "{" + ",".join(parts) + "}"

    def now(self) -> dict[str, Any]:
        """The parts as they are now: those of the last reading if it is younger than a second."""
        self._read(_FRESH)
        return self._values

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed

    def close(self) -> None:
        """Ends the thread and all waits. Pages that are open get the last figures of a source that is here."""
        if self._readers and self.source.is_here:
            self._read(0.0)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)
        self.source.close()

    def _read_on(self) -> None:
        while self._is_wanted():
            began = time.thread_time()
            self._read(0.0)
            pause = max(self.source.interval, (time.thread_time() - began) / _SHARE)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, min(pause, _LONGEST))

    def _is_wanted(self) -> bool:
        """Waits for a reader. False: the feed is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._readers > 0)
            return not self._closed

    def _read(self, fresh: float) -> None:
        with self._reading:
            if self._closed or time.monotonic() - self._read_at < fresh:
                return
            try:
                values = clean({**self.source.read(), "at": time.time()})
            except PhalanxError as error:
                values = clean({"failure": str(error), "at": time.time()})
            except Exception as error:  # one reading less; the page says why
                _log.exception("the dashboard could not read its source")
                values = clean({"failure": f"{type(error).__name__}: {error}", "at": time.time()})
            self._read_at = time.monotonic()
            self._publish({"failure": None, **values})

    def _publish(self, values: dict[str, Any]) -> None:
        written = {name: json.dumps(value, separators=(",", ":")) for name, value in values.items()}
        with self._changed:
            self._number += 1
            for name, text in written.items():
                if name not in self._parts or self._parts[name][0] != text:
                    self._parts[name] = text, self._number
            self._values = {**self._values, **values}
            self._changed.notify_all()
