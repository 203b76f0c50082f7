"""Executors on the local network, where the native core's search is a stand-in. tests/cluster has real ones."""

from __future__ import annotations

import logging

import phalanx as px
import pytest
from phalanx import _native
from phalanx._identities import dialler
from phalanx.lan import LanHosts, find

FOUND = {"lw1": "10.0.0.1:7400", "lw2": "10.0.0.2:7400"}


@pytest.mark.parametrize(
    ("found", "places"), [({}, "MACHINE/jobs"), ({"lw1": FOUND["lw1"]}, "lw1/jobs"), (FOUND, "lw1/jobs, lw2/jobs")]
)
def test_an_error_names_all_places_where_a_space_may_be(found: dict[str, str], places: str) -> None:
    with pytest.raises(px.SpaceError, match=rf"say where the space is, as in {places}(\n|$)"):
        LanHosts("lab", found, 0).space_address("jobs")


@pytest.mark.parametrize(
    ("strangers", "told"),
    [
        (0, "network; start one"),
        (1, "; 1 machine answers that is of another grid, or does not serve you; start one"),
        (2, "; 2 machines answer that are of other grids, or do not serve you; start one"),
    ],
)
def test_an_error_counts_those_that_answer_in_vain(strangers: int, told: str) -> None:
    with pytest.raises(px.RecruitError, match=told):
        LanHosts("lab", {}, strangers).to_recruit()


@pytest.mark.parametrize(
    ("at_least", "told"), [(5, ["found 2 of 5 executors on the local network in 3 s: lw1, lw2"]), (2, []), (1, [])]
)
def test_a_warning_says_how_many_are_missing(
    at_least: int, told: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_native, "find_on_lan", lambda *_: ("lab", [*FOUND.items()], 0, None))
    with caplog.at_level(logging.INFO, "phalanx"):
        assert list(find(px.Lan(at_least=at_least, patience=3), dialler("", None, {})).machines) == ["lw1", "lw2"]
    assert [(it.levelname, it.message) for it in caplog.records] == [("WARNING", one) for one in told]
