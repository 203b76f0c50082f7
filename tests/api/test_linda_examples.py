"""Paper 002's case studies, small: every program checks its own result against a direct computation."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import phalanx as px
import pytest

from examples.linda.matrix_blocks import MatrixBlocks
from examples.linda.matrix_rows import MatrixRows
from examples.linda.ocean import Ocean
from examples.linda.password_search import PasswordSearch
from examples.linda.places import CrewError, Place, Program, run
from examples.linda.search import ORDERS, SEARCH_TIME, VISITED
from examples.linda.sorting import Sorting

pytestmark = pytest.mark.usefixtures("runtime_folder")

SMALL: list[Program] = [
    *(PasswordSearch(300, 20, order) for order in ORDERS),
    *(Ocean(20, 5, order) for order in ORDERS),
    *(MatrixRows(7, spread, order) for order in ORDERS for spread in (True, False)),
    MatrixBlocks(20, 5),
    Sorting(1000, 7),
]


@pytest.mark.parametrize("crew", [1, 3])
@pytest.mark.parametrize("program", SMALL, ids=repr)
def test_a_program_is_right_with_its_crew_in_threads(program: Program, crew: int) -> None:
    assert run(program, crew, Place("threads")) > 0


@pytest.mark.parametrize("program", [PasswordSearch(300, 20), Ocean(20, 5), MatrixBlocks(20, 5)], ids=repr)
def test_a_program_is_right_with_its_crew_in_processes(program: Program, tmp_path: Path) -> None:
    run(program, 2, Place("processes", figures=tmp_path))
    found = px.profile.merge(tmp_path)
    assert {"local writing time", "remote writing time", "remote reading time", "total time"} <= set(found)
    assert len({line["process"] for line in px.profile.raw(tmp_path)}) == 3
    assert found["total time"].count == 1


def test_where_tuples_are_placed_by_what_they_are_a_search_visits_one_space(tmp_path: Path) -> None:
    visited = {}
    for order in ("spread", "listing"):
        run(PasswordSearch(400, 40, order), 4, Place("threads", figures=tmp_path / order))
        found = px.profile.merge(tmp_path / order)
        assert found[VISITED].count == found[SEARCH_TIME].count == 40
        visited[order] = found[VISITED]
    assert visited["spread"].max == 1
    assert 1 < visited["listing"].mean <= 4


def test_a_wrong_result_is_seen() -> None:
    @dataclass(frozen=True)
    class Wrong(Sorting):
        def owner(self, space: px.Space, crew: int, unsorted: Any) -> Any:
            result = super().owner(space, crew, unsorted)
            result[0] += 1
            return result

    with pytest.raises(AssertionError):
        run(Wrong(100, 3), 2, Place("threads"))


@dataclass(frozen=True)
class Failing(Sorting):
    def crew(self, owner: px.Space, spaces: Any, me: int, portion: None) -> None:
        raise ZeroDivisionError("in the crew")


@dataclass(frozen=True)
class Dying(Sorting):
    def portion(self, me: int, crew: int) -> None:
        if me == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_member_that_fails_ends_the_program() -> None:
    with pytest.raises(CrewError, match="ZeroDivisionError: in the crew"):
        run(Failing(100, 3), 2, Place("threads"))
    with pytest.raises(CrewError, match="member 1 ended with code -9"):
        run(Dying(100, 3), 2, Place("processes"))


def test_the_water_keeps_its_volume_but_for_the_wind() -> None:
    # Not only equal to itself: elevation moves out of the hill, and none of it is lost at the shores but by rounding.
    ocean = Ocean(40, 10)
    before = ocean.given()
    after = before
    from examples.linda.ocean import advanced

    for _ in range(10):
        after = advanced(after)
    assert after[0, 20, 20] < before[0, 20, 20]
    assert after[0].sum() == pytest.approx(before[0].sum(), rel=1e-2)
    assert np.isfinite(after).all()
