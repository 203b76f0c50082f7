"""Revoked members: nobody talks to them any more, neither over new links nor over those that are there."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import phalanx as px
import pytest
from api.executors import PHALANX
from api.members import PATIENCE, Lab
from phalanx.space import _open

from laboratory.processes import until


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    there = Lab(tmp_path)
    yield there
    there.end()


def test_an_executor_ends_what_a_revoked_user_runs_and_lets_the_user_in_no_more(lab: Lab) -> None:
    executor, address = lab.executor("labpc")
    eve = lab.issue("user", "eve")
    ada = lab.home / "user.pem"
    hosts = [f"labpc = {address}"]
    with px.Grid(hosts, identity=eve).manager(contract=px.ParDegree(2), patience=1) as manager:
        results = manager.map(time.sleep, [0.02] * 100_000)
        assert next(iter(results)) is None
        lab.revoke("eve", lab.folder / "labpc")
        with pytest.raises(px.PhalanxError):
            list(results)
    with pytest.raises(px.RecruitError):
        px.Grid(hosts, identity=eve).manager(contract=px.ParDegree(1))
    assert "the certificate of the user eve was revoked on 20" in executor.stderr()
    with px.Grid(hosts, identity=ada).manager(contract=px.ParDegree(1)) as manager:
        assert list(manager.map(abs, [-1])) == [1]


def test_a_user_uses_a_revoked_executor_no_more(lab: Lab) -> None:
    _, lost = lab.executor("lost")
    _, kept = lab.executor("kept")
    ada = lab.home / "user.pem"
    hosts = lab.folder / "hosts.txt"
    hosts.write_text(f"lost = {lost}\nkept = {kept}\n")
    with px.Grid(hosts, identity=ada).manager(contract=px.ParDegree(4)) as manager:
        results = iter(manager.map(time.sleep, [0.01] * 1000))
        first = [next(results) for _ in range(50)]
        lab.revoke("lost")  # the list is beside ada's identity file
        assert [*first, *results] == [None] * 1000
        machines = {it.machine for it in manager.summary().interpreters if it.state == "lost"}
        assert machines == {lost} or machines == {"lost"}
    with pytest.raises(px.RecruitError, match="the certificate of the executor lost was revoked"):
        px.Grid([f"lost = {lost}"], identity=ada).manager(contract=px.ParDegree(1))


def test_managers_carry_the_newest_list_to_executors_and_home(lab: Lab) -> None:
    executor, address = lab.executor("labpc")
    _, eve, bob = (lab.issue("user", name) for name in ("gone", "eve", "bob"))
    hosts = [f"labpc = {address}"]

    def texts(*folders: Path) -> list[bytes]:
        return [file.read_bytes() for folder in folders if (file := folder / "revoked.txt").exists()]

    with px.Grid(hosts, identity=lab.home / "user.pem").manager(contract=px.ParDegree(1)) as manager:
        for name in ("gone", "eve"):
            lab.revoke(name)  # the list is beside ada's identity file only
            until(
                lambda: texts(lab.folder / "labpc") == texts(lab.home),
                timeout=PATIENCE,
                what="the list at the executor",
            )
        assert list(manager.map(abs, [-1])) == [1]
    brought = "ada brought list 2 of revoked certificates"  # logged after the list is in its file
    until(lambda: brought in executor.stderr(), timeout=PATIENCE, what=brought)
    with pytest.raises(px.RecruitError):
        px.Grid(hosts, identity=eve).manager(contract=px.ParDegree(1))
    assert "the certificate of the user eve was revoked on 20" in executor.stderr()
    with px.Grid(hosts, identity=bob).manager(contract=px.ParDegree(1)):
        until(lambda: texts(bob.parent) == texts(lab.home), timeout=PATIENCE, what="the list at bob's")
    assert [file.name for file in bob.parent.iterdir() if "revoked" in file.name] == ["revoked.txt"]


def test_an_executor_that_is_revoked_says_so_and_does_not_start(lab: Lab) -> None:
    identity = lab.issue("executor", "lost")
    lab.revoke("lost", identity.parent)
    words = ["executor", "--interpreters", "1", "--listen", "127.0.0.1:0", "--identity", str(identity)]
    env = {**os.environ, "PHALANX_HOME": str(identity.parent)}
    done = subprocess.run([PHALANX, *words], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert "the certificate of the executor lost was revoked on 20" in done.stderr


@pytest.mark.parametrize("level", ["private", "clear"])
def test_links_of_spaces_end_too_whatever_their_level(lab: Lab, level: str) -> None:
    options = ("--trusted", "127.0.0.0/8") if level == "clear" else ()
    _, address = lab.start("board", "space", "serve", *options, "--address")
    eve = lab.issue("user", "eve")

    def reach(identity: Path) -> px.Space:
        named = {address: "board"}
        return px.Space(f"{address}/jobs", identity=identity, certificates=named, trusted=options[1:])

    with reach(eve) as space, ThreadPoolExecutor(1) as pool:
        named = {address: "board"}
        raw = _open.reach(f"{address}/jobs", False, create=False, identity=eve, certificates=named, trusted=options[1:])
        assert raw.level[0] == level
        raw.close()
        waiting = pool.submit(space.in_, "never", int)
        lab.revoke("eve", lab.folder / "board")
        with pytest.raises(px.SpaceError):
            waiting.result(timeout=PATIENCE)
        with pytest.raises(px.SpaceError):
            reach(eve)
    with reach(lab.home / "user.pem") as space:
        space.out("a", 1)


def refusal(grid: px.Grid, folder: Path) -> str:
    """Why a copy from an executor fails; empty if it does not."""
    try:
        grid.copy(f"lost:{folder / 'file'}", str(folder / "second"))
    except px.PhalanxError as error:
        return str(error)
    return ""


def test_a_list_beside_the_hosts_file_is_heeded_as_well(lab: Lab) -> None:
    shared, machines = lab.folder / "shared", lab.folder / "machines"
    shared.mkdir()
    machines.mkdir()
    _, address = lab.executor("lost", "--export", f"{shared}:ro")
    user = lab.issue("user", "bob")
    (machines / "hosts.txt").write_text(f"lost = {address}\n")
    (shared / "file").write_text("1")
    grid = px.Grid(machines / "hosts.txt", identity=user)
    grid.copy(f"lost:{shared / 'file'}", str(lab.folder / "first"))
    lab.revoke("lost", machines)
    why = until(lambda: refusal(grid, shared), timeout=PATIENCE, what="a refusal")
    assert "the certificate of the executor lost was revoked" in why


def test_spaces_heed_a_list_beside_the_hosts_file(lab: Lab) -> None:
    _, address = lab.start("lost", "space", "serve", "--address")
    ada, machines = lab.home / "user.pem", lab.folder / "machines"
    machines.mkdir()
    hosts = machines / "hosts.txt"
    hosts.write_text(f"lost = {address}\n")
    with px.Space(f"{hosts}/jobs", identity=ada) as space, px.Grid(hosts, identity=ada).space("lost/jobs") as same:
        space.out("a", 1)
        assert same.in_("a", int) == ("a", 1)
    lab.revoke("lost", machines)
    (lab.home / "revoked.txt").unlink()
    with pytest.raises(px.SpaceError, match="the certificate of the executor lost was revoked"):
        px.Space(f"{hosts}/jobs", identity=ada)
    with pytest.raises(px.SpaceError, match="the certificate of the executor lost was revoked"):
        px.Grid(hosts, identity=ada).space("lost/jobs")


def test_who_is_issued_a_new_certificate_is_let_in_again(lab: Lab) -> None:
    executor, address = lab.executor("labpc")
    eve = lab.issue("user", "eve")
    lab.revoke("eve", lab.folder / "labpc")
    listed = lab.grid("list").splitlines()
    assert [line.endswith("revoked") for line in listed if " eve " in line] == [True]
    again = lab.folder / "again.pem"
    lab.grid("issue", "--role", "user", "eve", "--out", str(again))
    with pytest.raises(px.RecruitError):
        px.Grid([f"labpc = {address}"], identity=eve).manager(contract=px.ParDegree(1))
    with px.Grid([f"labpc = {address}"], identity=again).manager(contract=px.ParDegree(1)) as manager:
        assert list(manager.map(abs, [-1])) == [1]
    assert "eve was revoked" in executor.stderr()


def test_nobody_is_let_in_while_the_list_is_damaged(lab: Lab) -> None:
    executor, address = lab.executor("labpc")
    ada = lab.home / "user.pem"
    lab.revoke("labpc")
    text = (lab.home / "revoked.txt").read_text()
    (lab.home / "revoked.txt").unlink()
    (lab.folder / "labpc" / "revoked.txt").write_text(text.replace("labpc", "other"))
    with pytest.raises(px.RecruitError):
        px.Grid([f"labpc = {address}"], identity=ada).manager(contract=px.ParDegree(1))
    assert "revoked.txt is no list of revoked certificates: " in executor.stderr()


def test_what_cannot_be_revoked_is_said(lab: Lab) -> None:
    assert "has no certificate of nobody" in lab.grid("revoke", "nobody", fails=True)
    assert "has no certificate of ada as executor" in lab.grid("revoke", "ada", "--role", "executor", fails=True)
    (lab.home / "revoked.txt").write_text("x")
    assert "no list that phalanx grid revoke has made" in lab.grid("revoke", "ada", fails=True)
    assert (lab.home / "revoked.txt").read_text() == "x"
