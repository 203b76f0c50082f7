"""A manager's initializer: each interpreter calls it once before anything else, also one that replaces another."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks


def note(folder: str, colour: str) -> None:
    with Path(folder, str(os.getpid())).open("a") as file:
        file.write(colour)
    os.environ["COLOUR"] = colour


def colour(_: object) -> str | None:
    return os.environ.get("COLOUR")


def colour_or_end(marker: Path) -> str | None:
    if not marker.exists():
        marker.touch()
        os._exit(3)
    return os.environ.get("COLOUR")


def test_it_is_called_once_at_each_interpreter_before_anything_else(tmp_path: Path) -> None:
    with px.Manager(contract=px.ParDegree(2), initializer=note, initargs=(str(tmp_path), "green")) as manager:
        assert list(manager.compute(colour, range(20))) == ["green"] * 20
        assert list(manager.compute(px.Map(px.Pipeline(tasks.identity, colour)), [[1, 2, 3]])) == [["green"] * 3]
        assert [manager.submit(colour, number).result() for number in range(4)] == ["green"] * 4
        assert list(manager.map(colour, range(4))) == ["green"] * 4
        assert {it.read_text() for it in tmp_path.iterdir()} == {"green"}
        assert {int(it.name) for it in tmp_path.iterdir()} <= {it.pid for it in manager.summary().interpreters}


def test_an_interpreter_that_replaces_another_calls_it_too(tmp_path: Path) -> None:
    with px.Manager(contract=px.ParDegree(1), initializer=lambda: os.environ.update(COLOUR="green")) as manager:
        assert manager.submit(colour_or_end, tmp_path / "marker").result() == "green"
        assert manager.summary().lost == 1


def fail() -> None:
    raise ValueError("no licence")


def test_an_initializer_that_raises(tmp_path: Path) -> None:
    with px.Manager(contract=px.ParDegree(1), initializer=fail) as manager:
        for _ in range(2):
            with pytest.raises(px.InitializerError, match="the initializer raised ValueError: no licence") as caught:
                manager.submit(tasks.double, 1).result()
            assert isinstance(caught.value.__cause__, px.RemoteTraceback)
        with pytest.raises(px.InitializerError):
            list(manager.compute(tasks.double, [1]))
        assert manager.summary().lost == 0


def test_what_cannot_be_an_initializer() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match="must be a callable"):
        px.Manager(initializer=wrong)
    with pytest.raises(px.StagingError, match="cannot be pickled"):
        px.Manager(initializer=threading.Lock().acquire)


def test_an_initializer_that_is_marked_is_private() -> None:
    marked = px.secure_code(lambda: None)
    with px.Manager(contract=px.ParDegree(1), policy="marked", initializer=marked) as manager:
        assert manager.submit(tasks.double, 1).result() == 2
