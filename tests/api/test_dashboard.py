"""The dashboard of a program: what it shows of runs, interpreters, links and losses, and how it ends."""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import phalanx as px
import pytest
from api import tasks
from conftest import Eventually
from phalanx.dashboard import Dashboard
from phalanx.errors import PhalanxError
from phalanx.transfer import Progress
from prometheus_client.parser import text_string_to_metric_families


class Page:
    """A page of a manager, as a browser that was let in sees it."""

    def __init__(self, link: str) -> None:
        self._address = link.split("/")[2]
        text, headers = self._ask(link.partition(self._address)[2])
        found = re.search(r"url=(/[^/]+/)", text)
        assert found is not None
        self._path, self._cookie = found[1], headers["Set-Cookie"].partition(";")[0]

    def now(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._ask(f"{self._path}state", Cookie=self._cookie)[0])
        return state

    def metrics(self, token: str) -> dict[str, float]:
        text = self._ask("/metrics", Authorization=f"Bearer {token}")[0]
        return {it.name: it.value for family in text_string_to_metric_families(text) for it in family.samples}

    def _ask(self, path: str, **headers: str) -> tuple[str, Any]:
        with closing(HTTPConnection(self._address, timeout=30)) as connection:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200, path
            return answer.read().decode(), answer.headers


@pytest.fixture
def manager(capsys: pytest.CaptureFixture[str]) -> Iterator[px.Manager]:
    with px.Manager(contract=px.ParDegree(2), dashboard=True) as manager:
        yield manager


def page_of(manager: px.Manager) -> tuple[Dashboard, Page]:
    assert manager.dashboard is not None
    return manager.dashboard, Page(manager.dashboard.link())


def test_the_link_is_printed_and_good_once(capsys: pytest.CaptureFixture[str]) -> None:
    with px.Manager(contract=px.ParDegree(1), dashboard=True) as manager:
        (link,) = re.findall(r"^phalanx: the dashboard of this program: (http://\S+)$", capsys.readouterr().err, re.M)
        assert Page(link).now()["about"]["pid"] == os.getpid()
        with pytest.raises(AssertionError):
            Page(link)
        assert manager.dashboard is not None
        assert link.startswith(f"http://{manager.dashboard.address}/enter/")


def test_runs_are_shown_with_their_names_shares_and_grain(manager: px.Manager, eventually: Eventually) -> None:
    _, page = page_of(manager)
    results = manager.compute(px.Pipeline(tasks.double, tasks.double), [*range(100)])
    assert next(results) == 0
    (run,) = eventually(lambda: [it for it in page.now()["programs"] if it["settled"]], what="a task")
    assert (run["name"], run["open"], run["size"]) == ("Pipeline(double, double)", True, 100)
    assert len([*results]) == 99

    def ended() -> list[dict[str, Any]]:
        return [it for it in page.now()["programs"] if not it["open"]]

    (run,) = eventually(ended, what="the end of the run")
    assert run["settled"] == 100
    assert sum(it["tasks"] for it in run["shares"]) >= 100
    assert {it["interpreter"] for it in run["shares"]} <= {"this-machine/1", "this-machine/2"}
    assert sum(it["share"] for it in run["shares"]) == pytest.approx(1)
    assert manager.submit(pow, 2, 5).result() == 32
    eventually(lambda: "pow" in [it["name"] for it in page.now()["programs"]], what="the name of a single call")


def test_sums_are_those_of_the_journal(manager: px.Manager) -> None:
    dashboard, page = page_of(manager)
    assert len([*manager.compute(abs, range(-500, 0))]) == 500
    summary, now, metrics = manager.summary(), page.now(), page.metrics(dashboard.token)
    assert (now["totals"]["tasks"], now["totals"]["lost"]) == (summary.tasks, summary.lost) == (500, 0)
    assert metrics["phalanx_tasks_delivered_total"] == 500
    assert sum(it["tasks"] for it in now["interpreters"]) == sum(it.tasks for it in summary.interpreters)
    (link,) = now["links"]
    assert (link["to"], link["level"], link["protection"]) == ("this-machine", "clear", 0.0)
    assert 1 <= link["count"] <= 2  # the second interpreter may come later
    assert [it["level"] for it in now["bill"]["lines"]] == ["clear"]


def test_time_left_and_windows_are_told_while_a_program_runs(manager: px.Manager, eventually: Eventually) -> None:
    _, page = page_of(manager)
    with closing(manager.compute(tasks.nap, [0.05] * 400)) as results:
        next(results)
        next(results)

        def told() -> dict[str, Any]:
            now = page.now()
            run = now["programs"][0]
            return now if run["left"] and any(it["window"] for it in now["interpreters"]) else {}

        now = eventually(told, what="the time left")
        run = now["programs"][0]
        assert run["task"] == pytest.approx(0.05, abs=0.04)
        assert run["grain"] > 1
        assert run["batch"] == 1
        assert 0 < run["left"] < 400 * 0.05 * 20
        assert 1 <= max(it["window"] for it in now["interpreters"]) <= 64


def test_losses_and_recoveries_are_on_the_time_line(manager: px.Manager, eventually: Eventually) -> None:
    _, page = page_of(manager)
    with closing(manager.compute(tasks.nap, [0.02] * 10_000)) as results:
        next(results)
        victim = next(it for it in page.now()["interpreters"] if it["state"] == "working")
        os.kill(victim["pid"], signal.SIGKILL)

        def told() -> list[dict[str, Any]]:
            events = page.now()["events"]
            lost = [number for number, it in enumerate(events) if it["what"] == "lost"]
            return events[lost[0] :] if lost and events[-1]["what"] == "recruited" else []

        lost, *_, recruited = eventually(told, what="a loss and a recovery")
        assert lost["interpreter"] == victim["name"]
        assert "tasks were in flight" in lost["text"]
        assert recruited["interpreter"] not in (victim["name"], "")
        assert lost["at"] <= recruited["at"]


def test_spaces_copies_and_logs_are_shown(manager: px.Manager) -> None:
    dashboard, page = page_of(manager)
    with px.Space(indexes=[[1]]) as space:
        space.out("todo", 1)
        dashboard.watch(space, "jobs")
        shows = dashboard.copied("results", streams=4)
        shows(Progress(bytes=50, total=100, growing=False, seconds=2.0))
        logging.getLogger("phalanx").warning("a \x1b[2J line")
        now = page.now()
        (shown,) = now["spaces"]
        assert (shown["name"], shown["tuples"], shown["takers"]) == ("jobs", 1, 0)
        (copied,) = now["copies"]
        assert copied == {"name": "results", "streams": 4, "bytes": 50, "total": 100, "rate": 25.0}
        assert now["logs"][-1]["text"] == "a \\x1b[2J line"


def test_what_is_watched_is_bounded(manager: px.Manager) -> None:
    dashboard, page = page_of(manager)
    with px.Space() as space:
        for number in range(100):
            dashboard.watch(space, str(number))
        with pytest.raises(PhalanxError, match="100 spaces at most"):
            dashboard.watch(space, "one more")
        for number in range(300):
            dashboard.copied(str(number))(Progress(bytes=1, total=1, growing=False, seconds=0.0))
        for number in range(500):
            logging.getLogger("phalanx").warning("line %d", number)
        now = page.now()
        assert (len(now["copies"]), len(now["logs"])) == (100, 200)


def test_the_page_ends_with_the_manager() -> None:
    before = {*threading.enumerate()}
    handlers = [*logging.getLogger("phalanx").handlers]
    with px.Manager(contract=px.ParDegree(1), dashboard=True) as manager:
        _, page = page_of(manager)
        assert manager.submit(pow, 2, 5).result() == 32
    with pytest.raises(ConnectionRefusedError):
        page.now()
    assert {it for it in threading.enumerate() if it.name.startswith("phalanx-dashboard")} <= before
    assert logging.getLogger("phalanx").handlers == handlers


def test_the_page_ends_with_a_manager_that_is_dropped(eventually: Eventually) -> None:
    manager: px.Manager | None = px.Manager(contract=px.ParDegree(1), dashboard=True)
    assert manager is not None
    _, page = page_of(manager)
    del manager
    gc.collect()

    def refused() -> bool:
        try:
            page.now()
        except OSError:
            return True
        return False

    eventually(refused, what="the end of the page")


@pytest.mark.parametrize("wrong", [65536, -1, "yes", 8.0])
def test_a_wrong_port_is_refused(wrong: Any) -> None:
    with pytest.raises(PhalanxError, match="write True for any free port"):
        px.Manager(contract=px.ParDegree(1), dashboard=wrong)


def test_a_port_in_use_ends_what_was_started(manager: px.Manager) -> None:
    assert manager.dashboard is not None
    port = int(manager.dashboard.address.rpartition(":")[2])
    with pytest.raises(PhalanxError, match="cannot listen"):
        px.Manager(contract=px.ParDegree(1), dashboard=port)


def test_without_it_there_is_no_page() -> None:
    with px.Manager(contract=px.ParDegree(1)) as manager:
        assert manager.dashboard is None
        assert not any(it.name.startswith("phalanx-dashboard") for it in threading.enumerate())


def test_warnings_are_printed_as_without_a_dashboard() -> None:
    """Python prints the warnings of a program that has no handlers, and the dashboard must not change that."""
    program = """
import logging
from phalanx.dashboard._program import Lines
lines, log = [Lines(), Lines()], logging.getLogger("phalanx")
for it in lines:
    log.addHandler(it)
logging.getLogger("phalanx.inner").warning("one")
log.info("none")
logging.getLogger().addHandler(logging.NullHandler())
log.warning("two")
print(len(lines[0].kept))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stderr, done.stdout) == ("one\n", "2\n")
