"""Contracts on time: kept by recruiting and releasing while the program runs, or said not to be met."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks
from conftest import Eventually

CONTRACTS = [px.Throughput, px.Deadline]


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    """Where a test does not expect a warning, it is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", px.ContractWarning)
        yield


def facts(path: Path, fact: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, path.read_text().splitlines()) if line["fact"] == fact]


def working(manager: px.Manager) -> int:
    return sum(it.state == "working" for it in manager.summary().interpreters)


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "2", None, True, 10**400])
def test_what_is_no_number_of_seconds_or_tasks(contract: Any, value: Any) -> None:
    with pytest.raises(px.ContractError, match=r"is a number of (tasks a second|seconds)"):
        contract(value)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_at_most_so_many(contract: Any) -> None:
    for value in (0, 1.5, "2", True):
        with pytest.raises(px.ContractError, match="whole number from 1 on"):
            contract(1, at_most=value)
    with pytest.raises(px.ContractError, match="1000000"):
        px.Manager(contract=contract(1, at_most=1_000_000))


def test_a_contract_says_what_it_is() -> None:
    assert repr([px.Throughput(2.5), px.Deadline(60)]) == "[Throughput(2.5), Deadline(60)]"


def test_a_rate_is_kept_with_as_few_interpreters_as_it_takes(tmp_path: Path, eventually: Eventually) -> None:
    path = tmp_path / "journal.jsonl"
    with px.Manager(contract=px.Throughput(25, at_most=8), journal=path) as manager:
        assert manager.interpreters == 1
        results = manager.compute(tasks.nap, (0.1 for _ in count()))

        def is_met() -> bool:
            list(islice(results, 10))
            contract = manager.summary().contract
            return contract is not None and contract.met

        eventually(is_met, timeout=30)
        contract = manager.summary().contract
        assert contract is not None
        assert (contract.asked, contract.why) == (25, None)
        assert contract.reached >= 25 * 0.95
        assert 3 <= manager.interpreters <= 8
    assert facts(path, "wanted")[0]["interpreters"] >= 2
    assert facts(path, "contract")[-1]["met"]


def test_who_is_not_needed_any_more_is_released(tmp_path: Path, eventually: Eventually) -> None:
    path = tmp_path / "journal.jsonl"
    with px.Manager(contract=px.Throughput(10, at_most=4), journal=path) as manager:
        naps = [0.3] * 20 + [0.01] * 100_000
        results = manager.compute(tasks.nap, naps)
        assert list(islice(results, 20)) == [0.3] * 20
        assert manager.interpreters >= 3

        def released() -> bool:
            assert set(islice(results, 10)) == {0.01}
            return manager.interpreters == 1 == working(manager)

        eventually(released, timeout=30)
        states = [it.state for it in manager.summary().interpreters]
        assert sorted(set(states)) == ["released", "working"]
        summary = manager.summary()
        assert (summary.lost, summary.refired) == (0, 0)
        results.close()
        # And recruited again for the next computation.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", px.ContractWarning)
            assert list(manager.compute(tasks.nap, [0.3] * 20)) == [0.3] * 20
        assert len(manager.summary().interpreters) > len(states)
    assert len(facts(path, "released")) >= states.count("released")


def test_a_deadline_is_kept_with_as_few_interpreters_as_it_takes() -> None:
    with px.Manager(contract=px.Deadline(8, at_most=16)) as manager:
        assert list(manager.compute(tasks.nap, [0.1] * 150)) == [0.1] * 150
        contract = manager.summary().contract
        assert contract is not None
        assert (contract.asked, contract.met, contract.why) == (8, True, None)
        assert contract.reached <= 8
        recruited = len(manager.summary().interpreters)
        assert 2 <= recruited < 16, "15 seconds of work in 8"
        # Each computation has the time for itself.
        assert list(manager.compute(tasks.nap, [0.1] * 10)) == [0.1] * 10
        contract = manager.summary().contract
        assert contract is not None
        assert contract.met


def test_a_deadline_for_a_stream_of_unknown_length_uses_everything() -> None:
    with px.Manager(contract=px.Deadline(60, at_most=3)) as manager:
        assert list(manager.compute(tasks.nap, (0.05 for _ in range(40)))) == [0.05] * 40
        assert len(manager.summary().interpreters) == 3


@pytest.mark.parametrize(
    ("contract", "words"),
    [
        (
            px.Throughput(1000, at_most=2),
            r"Throughput\(1000\) is not met: \S+ instead of 1000 tasks a second; more inter",
        ),
        (
            px.Deadline(0.5, at_most=2),
            r"Deadline\(0.5\) is not met: \S+ instead of 0.5 seconds; more interpreters than 2",
        ),
    ],
)
def test_what_cannot_be_met_is_computed_and_said_once(contract: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with px.Manager(contract=contract, journal=path) as manager:
        with pytest.warns(px.ContractWarning, match=words) as warned:
            assert list(manager.compute(tasks.nap, [0.1] * 80)) == [0.1] * 80
        assert len(warned) == 1
        assert warned[0].filename == __file__
        kept = manager.summary().contract
        assert kept is not None
        assert not kept.met
        assert kept.why == "more interpreters than 2 are not offered"
        with pytest.warns(px.ContractWarning):  # of each computation anew
            list(manager.compute(tasks.nap, [0.1] * 80))
    assert facts(path, "contract")[-1]["why"] == "more interpreters than 2 are not offered"


def test_a_slow_stream_is_named() -> None:
    def slowly() -> Iterator[float]:
        for _ in range(20):
            tasks.nap(0.2)
            yield 0.01

    with px.Manager(contract=px.Throughput(20, at_most=8)) as manager:
        with pytest.warns(px.ContractWarning, match="its stream gives the tasks no faster"):
            assert list(manager.compute(tasks.nap, slowly())) == [0.01] * 20
        assert len(manager.summary().interpreters) < 8, "more would not help"


def test_what_is_over_at_once_is_told_but_not_warned_of() -> None:
    with px.Manager(contract=px.Throughput(1e6)) as manager:
        assert list(manager.compute(tasks.nap, [0.1])) == [0.1]
        kept = manager.summary().contract
        assert kept is not None
        assert (kept.met, kept.why) == (False, "it was over before there was time to recruit")


def test_a_number_of_interpreters_has_no_report() -> None:
    with px.Manager(contract=px.ParDegree(1)) as manager:
        assert list(manager.compute(tasks.double, range(10))) == list(range(0, 20, 2))
        assert manager.summary().contract is None


@pytest.mark.parametrize("contract", [px.Throughput(1), px.Deadline(1)])
def test_calls_are_computed_by_who_is_there(contract: Any) -> None:
    with px.Manager(contract=contract) as manager:
        assert list(manager.map(tasks.double, range(20))) == list(range(0, 40, 2))
        assert manager.summary().contract is None
