"""The store of TES tasks: how long it keeps them."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from phalanx.tes import store
from phalanx.tes.store import DAYS, Store

#: The store as it was before it noted the ends of tasks.
EARLIER = """
CREATE TABLE tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, user TEXT NOT NULL, created REAL NOT NULL,
    document TEXT NOT NULL, job TEXT, state TEXT NOT NULL, log TEXT NOT NULL DEFAULT '{}'
);
"""


class Clock:
    """Days that pass when the test says so."""

    def __init__(self) -> None:
        self.now = time.time()

    def time(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += days * 24 * 3600


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(store, "time", made)
    return made


def test_a_task_is_forgotten_days_after_its_end_however_long_it_ran(tmp_path: Path, clock: Clock) -> None:
    with closing(Store(tmp_path / "tasks.db")) as tasks:
        kept = tasks.add("a", "bob", {})
        clock.pass_days(DAYS + 1)
        tasks.forget()
        assert tasks.change(kept, "RUNNING", {})
        assert tasks.change(kept, "COMPLETE", {})
        clock.pass_days(DAYS - 1)
        tasks.forget()
        assert tasks.get("bob", "a") is not None
        clock.pass_days(2)
        tasks.forget()
        assert tasks.get("bob", "a") is None


def test_a_store_of_an_earlier_version_goes_on(tmp_path: Path, clock: Clock) -> None:
    """Of a task that has ended there, only the creation is known."""
    file = tmp_path / "tasks.db"
    with closing(sqlite3.connect(file)) as earlier:
        earlier.executescript(EARLIER)
        insert = "INSERT INTO tasks (id, user, created, document, state) VALUES (?, 'bob', ?, '{}', ?)"
        earlier.executemany(insert, [("open", clock.now, "RUNNING"), ("ended", clock.now, "COMPLETE")])
        earlier.commit()
    clock.pass_days(DAYS + 1)
    for _ in range(2):  # the second one finds the column
        with closing(Store(file)) as tasks:
            tasks.forget()
            assert tasks.get("bob", "ended") is None
            assert tasks.get("bob", "open") is not None
    with closing(Store(file)) as tasks:
        [kept] = tasks.page("bob", None, 10)
        tasks.change(kept, "CANCELED", {})
        tasks.forget()
        assert tasks.get("bob", "open") is not None
