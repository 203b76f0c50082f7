"""Contracts and other arguments of a manager: kept, or a clear error at once."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks
from conftest import Eventually
from phalanx import _native
from phalanx._identities import read_identity

from laboratory import identities


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", None, True])
def test_a_degree_is_a_whole_number_from_one_on(n: Any) -> None:
    with pytest.raises(px.ContractError, match="whole number from 1 on"):
        px.ParDegree(n)


def test_a_contract_error_is_a_value_error_too() -> None:
    assert issubclass(px.ContractError, ValueError)
    assert issubclass(px.ContractError, px.PhalanxError)


@pytest.mark.parametrize("contract", [3, "2", px.ParDegree])
def test_what_is_no_contract(contract: Any) -> None:
    with pytest.raises(px.ContractError, match=r"write px.ParDegree"):
        px.Manager(contract=contract)


def test_more_interpreters_than_a_machine_can_hold() -> None:
    with pytest.raises(px.ContractError, match="1000000"):
        px.Manager(contract=px.ParDegree(1_000_000))


@pytest.mark.parametrize("degree", [1, 3])
def test_a_manager_recruits_what_the_contract_asks_for(degree: int, eventually: Eventually) -> None:
    with px.Manager(contract=px.ParDegree(degree)) as manager:
        assert manager.interpreters == degree
        eventually(lambda: len(manager.summary().interpreters) == degree)
        assert list(manager.compute(tasks.double, range(9))) == list(range(0, 18, 2))
        interpreters = manager.summary().interpreters
    assert len({it.pid for it in interpreters}) == degree
    assert sorted(it.name for it in interpreters) == [f"this-machine/{n}" for n in range(1, degree + 1)]
    assert {(it.machine, it.state, it.cause) for it in interpreters} == {("this-machine", "working", None)}


def test_every_core_without_a_contract() -> None:
    with px.Manager() as manager:
        assert manager.interpreters == len(os.sched_getaffinity(0))
        assert list(manager.compute(tasks.double, [1])) == [2]


def test_all_interpreters_are_used(tmp_path: Path) -> None:
    """Three tasks that wait for each other come to an end with three interpreters only."""
    names = ["one", "two", "three"]

    def meet(name: str) -> str:
        (tmp_path / name).touch()
        for other in names:
            tasks.once_it_exists(str(tmp_path / other))
        return name

    with px.Manager(contract=px.ParDegree(3)) as manager:
        assert list(manager.compute(meet, names, stragglers=False)) == names  # nobody does another's task too
        assert {it.tasks for it in manager.summary().interpreters} == {1}


@pytest.mark.parametrize("where", [5, ["host:1"], b"host:1", object()])
def test_what_is_no_place(where: Any) -> None:
    with pytest.raises(px.PhalanxError, match=r"is no place: write None, 'host:port' or px.Hosts"):
        px.Manager(where)


def test_a_number_in_the_place_of_a_place_is_told_where_it_belongs() -> None:
    with pytest.raises(px.PhalanxError, match=r"for a number of interpreters contract=px\.ParDegree\(n\)"):
        px.Manager(4)  # type: ignore[arg-type]


def test_what_is_no_policy() -> None:
    with pytest.raises(px.PolicyError, match=r"'links', 'marked', 'all' or px\.Rules"):
        px.Manager(policy="none")  # type: ignore[arg-type]
    with pytest.raises(px.PolicyError, match="5 is no policy"):
        px.Manager(policy=5)  # type: ignore[arg-type]


def test_other_machines_need_an_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path))
    with pytest.raises(px.IdentityError, match="phalanx grid create"):
        px.Manager("localhost:1")
    for text in ("not a certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        (tmp_path / "user.pem").write_text(text)
        with pytest.raises(px.IdentityError, match=re.escape(str(tmp_path / "user.pem"))):
            px.Manager("localhost:1")


@pytest.mark.parametrize("role", ["user", "executor"])
def test_an_identity_with_the_key_of_another_is_named(tmp_path: Path, role: str) -> None:
    grid, file = _native.create_grid(), tmp_path / "own.pem"
    own, other = (_native.issue_member(grid, role, name) for name in ("ada", "bob"))
    identities.write(file, own)
    assert read_identity(file, "user.pem") == own
    key = re.compile("-----BEGIN PRIVATE KEY-----.*-----END PRIVATE KEY-----", re.DOTALL)
    (another,) = key.findall(other)
    file.write_text(key.sub(another, own))
    with pytest.raises(px.IdentityError, match=re.escape(str(file))):
        read_identity(file, "user.pem")


def test_a_journal_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        px.Manager(journal=tmp_path / "missing" / "journal.jsonl")


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("labpc 7400\n", ["labpc:7400"]),
        ("# ours\nlabpc:7401\n\n  <other, 7402>  # desk\n", ["labpc:7401", "other:7402"]),
        ("labpc\n192.0.2.7, 80\n[::1]:7400", ["labpc:7400", "192.0.2.7:80", "[::1]:7400"]),
    ],
)
def test_hosts_files(tmp_path: Path, text: str, addresses: list[str]) -> None:
    (tmp_path / "hosts.txt").write_text(text)
    assert px.Hosts(tmp_path / "hosts.txt").addresses == addresses


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "names no machine"), ("# labpc 7400", "names no machine"), ("one\na b c", "line 2: 'a b c' is not")],
)
def test_hosts_files_that_say_nothing_useful(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "hosts.txt").write_text(text)
    with pytest.raises(px.RecruitError, match=words):
        px.Hosts(tmp_path / "hosts.txt")


def test_a_hosts_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(px.RecruitError, match="cannot be read"):
        px.Hosts(tmp_path / "hosts.txt")


def test_a_closed_manager_says_so() -> None:
    manager = px.Manager(contract=px.ParDegree(1))
    results = manager.compute(tasks.double, range(1_000_000))
    assert next(results) == 0
    manager.shutdown()
    with pytest.raises(RuntimeError, match="closed"):
        list(results)
    with pytest.raises(RuntimeError, match="closed"):
        manager.compute(tasks.double, [1])
    manager.shutdown()  # again: nothing happens
    manager.close()
    assert manager.summary().tasks >= 1
    assert {it.state for it in manager.summary().interpreters} == {"dismissed"}
