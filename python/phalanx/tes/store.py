"""The store of tasks: their documents, their jobs, and their results."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from phalanx.tes.document import DocumentError

_TABLES = """
CREATE TABLE IF NOT EXISTS tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT UNIQUE NOT NULL,
    user TEXT NOT NULL,
    created REAL NOT NULL,
    document TEXT NOT NULL,
    job TEXT,
    state TEXT NOT NULL,
    log TEXT NOT NULL DEFAULT '{}',
    ended REAL
);
CREATE INDEX IF NOT EXISTS of_user ON tasks (user, number);
CREATE INDEX IF NOT EXISTS of_state ON tasks (state, number);
"""
#: Adds a column that stores of earlier versions lack.
_ENDED = "ALTER TABLE tasks ADD COLUMN ended REAL"
#: The open states, and the final states.
OPEN = ("QUEUED", "INITIALIZING", "RUNNING")
OVER = ("COMPLETE", "EXECUTOR_ERROR", "SYSTEM_ERROR", "CANCELED")
_IS_OPEN = f"state IN {OPEN}"
#: Most tasks of a user, and most characters of their documents and logs.
MOST_TASKS, MOST_LENGTH = 20_000, 256 << 20
#: Days after its end after which a task is forgotten.
DAYS = 14


class Kept(NamedTuple):
    """A task in the store.

    Attributes
    ----------
    number : int
        The task's position among all tasks.
    id : str
        The task's id for clients.
    user : str
        The user of the task.
    created : float
        The time of its creation, in seconds since 1970.
    document : dict
        The document that the client has sent.
    job : str or None
        The job that runs it. None: it is not in the queue yet.
    state : str
        The latest state.
    log : dict
        The log of its run.
    """

    number: int
    id: str
    user: str
    created: float
    document: dict[str, Any]
    job: str | None
    state: str
    log: dict[str, Any]


class Store:
    """Tasks in an SQLite database. It survives a crash of the process at any time.

    Parameters
    ----------
    file
        The file. It is created if it does not exist.
    """

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        self._lock = threading.Lock()
        self._database = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.executescript(_TABLES)
        columns = [name for _, name, *_ in self._database.execute("PRAGMA table_info(tasks)")]
        if "ended" not in columns:
            self._database.execute(_ENDED)

    def add(self, id_: str, user: str, document: dict[str, Any]) -> Kept:
        """Stores a new task. It is on the disk when this returns.

        Parameters
        ----------
        id_
            The task's id for clients.
        user
            The user of the task.
        document
            The document that the client has sent.

        Returns
        -------
        Kept
        """
        row = id_, user, time.time(), json.dumps(document), "QUEUED"
        count = "SELECT count(*), total(length(document) + length(log)) FROM tasks WHERE user = ?"
        with self._lock:
            tasks, length = self._database.execute(count, (user,)).fetchone()
            if tasks >= MOST_TASKS or length > MOST_LENGTH:
                raise DocumentError(f"the hub keeps as many tasks of {user} as it may; old ones go after {DAYS} days")
            self._database.execute("INSERT INTO tasks (id, user, created, document, state) VALUES (?, ?, ?, ?, ?)", row)
        kept = self.get(user, id_)
        assert kept is not None
        return kept

    def get(self, user: str, id_: str) -> Kept | None:
        """A task of a user. None: the user has no task with this id."""
        return next(self._select("user = ? AND id = ?", (user, id_)), None)

    def open(self) -> dict[str, list[str]]:
        """The ids of the open tasks by user, the oldest first."""
        with self._lock:
            rows = self._database.execute(f"SELECT user, id FROM tasks WHERE {_IS_OPEN} ORDER BY number").fetchall()
        found: dict[str, list[str]] = {}
        for user, id_ in rows:
            found.setdefault(user, []).append(id_)
        return found

    def forget(self) -> None:
        """Removes tasks that ended more than ``DAYS`` days ago. Of those that an earlier version has ended, only the
        creation is known."""
        before = time.time() - DAYS * 24 * 3600
        with self._lock:
            where = f"NOT ({_IS_OPEN}) AND coalesce(ended, created) < ?"
            self._database.execute(f"DELETE FROM tasks WHERE {where}", (before,))

    def page(self, user: str, before: int | None, most: int) -> list[Kept]:
        """Tasks of a user with numbers below ``before``, the newest first."""
        return [
            *self._select("user = ? AND number < ? ORDER BY number DESC LIMIT ?", (user, before or (1 << 62), most))
        ]

    def change(self, kept: Kept, state: str, log: dict[str, Any], job: str | None = None) -> bool:
        """Updates the state, the log and the job of an open task. An ended task stays unchanged. Returns whether the
        task was open."""
        values = state, json.dumps(log), job, time.time() if state in OVER else None, kept.number
        with self._lock:
            done = self._database.execute(
                "UPDATE tasks SET state = ?, log = ?, job = coalesce(?, job), ended = ? "
                f"WHERE number = ? AND {_IS_OPEN}",
                values,
            )
        return done.rowcount > 0

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._database.close()

    def _select(self, where: str, values: tuple[Any, ...]) -> Iterator[Kept]:
        names = "number, id, user, created, document, job, state, log"
        with self._lock:
            rows = self._database.execute(f"SELECT {names} FROM tasks WHERE {where}", values).fetchall()
        for number, id_, user, created, document, job, state, log in rows:
            yield Kept(number, id_, user, created, json.loads(document), job, state, json.loads(log))
