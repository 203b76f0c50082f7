"""The profiler: samples by label, a file for each process, statistics over all of them."""

from __future__ import annotations

import json
import statistics
import threading
from collections.abc import Iterator
from pathlib import Path

import phalanx as px
import pytest
from api.conftest import Script
from phalanx import profile


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    px.profile.reset()
    yield
    px.profile.reset()


def test_statistics_are_those_of_the_samples() -> None:
    samples = [1e6 + number % 7 for number in range(10_000)]  # more than are summed at once; a small spread
    for sample in samples:
        px.profile.record("visited nodes", sample)
    found = px.profile.statistics()["visited nodes"]
    assert (found.count, found.min, found.max) == (10_000, 1e6, 1e6 + 6)
    assert found.total == pytest.approx(sum(samples))
    assert found.mean == pytest.approx(statistics.fmean(samples))
    assert found.deviation == pytest.approx(statistics.pstdev(samples))


def test_times_are_taken_between_begin_and_end_and_labels_may_overlap() -> None:
    px.profile.begin("outer")
    px.profile.begin("inner")
    outer_first = px.profile.end("outer")
    inner = px.profile.end("inner")
    with pytest.raises(ZeroDivisionError), px.profile.timed("failing"):
        raise ZeroDivisionError
    found = px.profile.statistics()
    assert found["outer"].total == outer_first
    assert found["inner"].total == inner > 0
    assert found["failing"].count == 1


def test_what_does_not_pair_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(px.ProfileError, match=r"without begin\('search'\)"):
        px.profile.end("search")
    px.profile.begin("search")
    with pytest.raises(px.ProfileError, match="nest two labels"):
        px.profile.begin("search")


def test_threads_do_not_share_a_clock() -> None:
    def other() -> None:
        with px.profile.timed("search"):
            pass

    with px.profile.timed("search"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert px.profile.statistics()["search"].count == 2


def test_of_a_long_series_all_samples_are_counted_and_the_first_ones_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "KEPT", 5000)
    for number in range(20_000):
        px.profile.record("many", number)
    line = json.loads(px.profile.save(tmp_path).read_text())
    assert line["statistics"]["count"] == 20_000
    assert line["samples"] == list(range(5000))


def test_files_of_several_processes_are_merged(script: Script, tmp_path: Path) -> None:
    source = """
        import os, sys
        import phalanx as px
        px.profile.record("value", int(sys.argv[1]))
        if child := os.fork():
            os.waitpid(child, 0)
        else:
            px.profile.record("value", 100)  # and not its parent's value once more
        px.profile.save("figures")
        os._exit(0)
    """
    for value in ("1", "2"):
        process = script(source, value)
        assert process.wait() == 0, process.report()
    found = px.profile.merge(tmp_path / "figures")["value"]
    assert (found.count, found.min, found.max, found.total) == (4, 1, 100, 203)
    assert len({line["process"] for line in px.profile.raw(tmp_path / "figures")}) == 4
