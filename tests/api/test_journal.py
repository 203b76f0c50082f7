"""The journal: facts as lines of JSON, and the sums that `summary` gives of them."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks
from conftest import Eventually


def facts(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def total(lines: list[dict[str, Any]], fact: str, what: str, interpreter: int | None = None) -> int:
    chosen = (line for line in lines if line["fact"] == fact)
    return sum(line[what] for line in chosen if interpreter in (None, line.get("interpreter")))


def count(lines: list[dict[str, Any]], fact: str) -> int:
    return Counter(line["fact"] for line in lines)[fact]


def both(lines: list[dict[str, Any]], what: str, interpreter: int) -> int:
    """Of the answers that counted, and of those that came second."""
    return sum(total(lines, fact, what, interpreter) for fact in ("answered", "dropped"))


def check(path: Path, summary: px.Summary) -> list[dict[str, Any]]:
    """Adds up the journal in `path` and compares it with `summary`."""
    lines = facts(path)
    assert summary.tasks == total(lines, "delivered", "tasks")
    assert summary.lost == count(lines, "lost")
    assert summary.refired == total(lines, "lost", "tasks")
    assert summary.doubled == total(lines, "doubled", "tasks")
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    recruited = {line["interpreter"]: line for line in lines if line["fact"] == "recruited"}
    by_name = {it.name: it for it in summary.interpreters}
    assert len(recruited) == len(by_name)
    for number, line in recruited.items():
        it = by_name[line["name"]]
        raised = sum(line["fact"] == "raised" and line["interpreter"] == number for line in lines)
        assert (it.pid, it.machine, it.level) == (line["pid"], line["machine"], line["level"])
        assert it.tasks == total(lines, "answered", "tasks", number) + raised
        assert it.bytes_in == total(lines, "fired", "bytes", number)
        assert it.bytes_out == both(lines, "bytes", number)
        assert it.busy == pytest.approx(both(lines, "busy", number) / 1e9)
    delivered = [line["at"] for line in lines if line["fact"] == "delivered"]
    fired = [line["at"] for line in lines if line["fact"] == "fired"]
    assert summary.wall == pytest.approx(delivered[-1] - fired[0])
    return lines


def test_the_journal_adds_up_to_the_summary(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with px.Manager(contract=px.ParDegree(2), journal=path) as manager:
        assert len(list(manager.compute(tasks.double, range(5000)))) == 5000
        assert len(list(manager.compute(lambda size: bytes(size), [1 << 20] * 5))) == 5
        with pytest.raises(ZeroDivisionError):
            list(manager.compute(tasks.inverse, [0]))
        assert list(manager.map(tasks.double, range(10))) == list(range(0, 20, 2))
        summary = manager.summary()
    lines = check(path, summary)
    assert summary.tasks == 5016
    assert sum(it.tasks for it in summary.interpreters) == 5016
    assert (summary.lost, summary.replaced, summary.refired) == (0, 0, 0)
    assert sum(it.bytes_out for it in summary.interpreters) > 5 << 20
    assert all(it.busy > 0 and it.protection == 0 for it in summary.interpreters if it.tasks)
    assert count(lines, "dismissed") == 2


def test_a_journal_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "journal.jsonl"
    with pytest.raises(FileNotFoundError) as told:
        px.Manager(contract=px.ParDegree(1), journal=path)
    assert told.value.filename == str(path)


def test_losses_are_in_the_journal(tmp_path: Path, eventually: Eventually) -> None:
    path = tmp_path / "journal.jsonl"
    with px.Manager(contract=px.ParDegree(2), journal=path) as manager:
        results = manager.compute(tasks.slowly, range(200))
        seen = list(islice(results, 50))
        killed = manager.summary().interpreters[0].pid
        os.kill(killed, signal.SIGKILL)
        assert [*seen, *results] == list(range(200))
        eventually(lambda: manager.summary().replaced == 1)
        summary = manager.summary()
    check(path, summary)
    (lost,) = (it for it in summary.interpreters if it.state == "lost")
    assert lost.pid == killed
    assert str(lost.cause).startswith("died: killed by signal 9 (SIGKILL)")


@pytest.mark.parametrize("fuse", [True, False])
def test_the_journal_tells_instructions_apart(tmp_path: Path, fuse: bool) -> None:
    path = tmp_path / "journal.jsonl"
    program = px.Pipeline(tasks.double, px.Farm(px.Pipeline(tasks.increment, tasks.negate, fuse=fuse)), fuse=fuse)
    with px.Manager(contract=px.ParDegree(2), journal=path) as manager:
        assert list(manager.compute(program, range(100))) == [-(2 * number + 1) for number in range(100)]
    answered = Counter[int]()
    for line in facts(path):
        if line["fact"] == "answered":
            answered[line["instruction"]] += line["tasks"]
    assert answered == ({0: 100} if fuse else {0: 100, 1: 100, 2: 100})


def test_a_summary_can_be_had_at_any_time(eventually: Eventually) -> None:
    with px.Manager(contract=px.ParDegree(1)) as manager:
        before = manager.summary()
        assert (before.tasks, before.wall) == (0, 0)
        results = manager.compute(tasks.double, range(100))
        next(results)
        assert 1 <= manager.summary().tasks <= 100
        assert len(list(results)) == 99
        summary = manager.summary()
        assert summary.tasks == 100
        assert summary.wall > 0
    after = manager.summary()
    assert after.tasks == 100
    assert [it.state for it in after.interpreters] == ["dismissed"]


@pytest.mark.parametrize("journal", [str, Path, os.fspath])
def test_the_journal_may_be_named_as_any_path(tmp_path: Path, journal: Callable[[Path], Any]) -> None:
    with px.Manager(contract=px.ParDegree(1), journal=journal(tmp_path / "journal")) as manager:
        assert list(manager.compute(tasks.double, [1])) == [2]
    assert facts(tmp_path / "journal")
