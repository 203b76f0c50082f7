"""Executors on nodes of Slurm: Debian's slurmctld, and two slurmd on this machine."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import phalanx as px
import pytest
from api.conftest import Script as Script
from api.conftest import script as script
from conftest import Eventually
from phalanx.errors import RecruitError
from pilots.programs import executors, square, where

from laboratory.needs import lacking
from laboratory.slurm import NEEDS, Cluster, cluster


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := lacking(*NEEDS):
        pytest.skip(reason)
    with cluster(tmp_path_factory.mktemp("slurm") / "it") as found:
        yield found


@pytest.fixture(autouse=True)
def slurm(nodes: Cluster, home: Path, monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> Iterator[Cluster]:
    """The cluster, without jobs."""
    monkeypatch.setenv("SLURM_CONF", str(nodes.conf))
    yield nodes
    eventually(lambda: not nodes.jobs(), what="the end of all jobs")
    for node in nodes.nodes:
        nodes.wait_for(node, "idle")


def test_each_node_has_an_executor_which_ends_with_the_manager(slurm: Cluster, home: Path) -> None:
    pilot = px.Slurm(nodes=2, time="0:10:00", at_least=2)
    with px.Manager(pilot) as manager:
        assert [it.name for it in pilot.executors()] == ["n1", "n2"]
        assert all("ends" in it.facts for it in pilot.executors())
        assert manager.interpreters == 4
        assert list(manager.map(square, range(100))) == [number**2 for number in range(100)]
        order = next(home.glob("pilots/slurm-*/order.json"))
        assert [stat.S_IMODE(it.stat().st_mode) for it in (order, order.parent)] == [0o600, 0o700]
        assert "phalanx1-" not in slurm.say("scontrol", "write", "batch_script", slurm_job(slurm), "-")
    assert not any(home.glob("pilots/*"))
    assert not pilot.is_started


def tasks_of(slurm: Cluster) -> list[str]:
    """The allocations, as Slurm names each task of an array."""
    return slurm.say("squeue", "--array", "--noheader", "--format", "%i").split()


def slurm_job(slurm: Cluster) -> str:
    return slurm.say("squeue", "--array", "--noheader", "--format", "%A").split()[0]


def test_nodes_that_come_later_are_recruited(slurm: Cluster, eventually: Eventually) -> None:
    slurm.say("scontrol", "update", "nodename=n2", "state=drain", "reason=test")
    try:
        with px.Manager(px.Slurm(nodes=2)) as manager:
            assert manager.interpreters == 2
            assert manager.submit(square, 3).result() == 9
            slurm.say("scontrol", "update", "nodename=n2", "state=resume")
            eventually(lambda: manager.interpreters == 4 or len(set(manager.map(where, range(40)))) == 4)
    finally:
        slurm.say("scontrol", "update", "nodename=n2", "state=resume")


def test_a_requeued_allocation_is_a_loss_that_is_survived(slurm: Cluster, eventually: Eventually) -> None:
    pilot = px.Slurm(nodes=2, at_least=2)
    with px.Manager(pilot) as manager:
        results = manager.compute(where, range(300))
        found = [next(results)]
        slurm.say("scontrol", "requeue", slurm_job(slurm))
        found += results
        assert len(found) == 300
        assert len(slurm.jobs()) == 2
        # Slurm holds a requeued job for two minutes, unless it is told to begin at once.
        for job in slurm.say("squeue", "--array", "--noheader", "--states=PENDING", "--format", "%A").split():
            slurm.say("scontrol", "update", f"jobid={job}", "starttime=now")
        eventually(lambda: len(pilot.executors()) == 2, timeout=60, what="the allocation that Slurm starts again")


def test_an_executor_that_is_killed_is_a_loss_that_is_survived(slurm: Cluster) -> None:
    with px.Manager(px.Slurm(nodes=2, at_least=2)) as manager:
        results = manager.compute(where, range(200))
        found = [next(results)]
        os.kill(executors()[0], signal.SIGKILL)
        assert len([*found, *results]) == 200
    with px.Manager(px.Slurm()) as manager:  # its executor removes what the killed one has left
        assert manager.submit(square, 3).result() == 9


def test_work_is_handed_back_before_the_allocation_ends(slurm: Cluster, eventually: Eventually) -> None:
    pilot = px.Slurm(nodes=2, at_least=2)
    with px.Manager(pilot, contract=px.ParDegree(4)) as manager:
        results = manager.compute(where, range(300))
        found = [next(results)]
        # As Slurm does 30 s before the end, with --signal=B:TERM@30.
        slurm.say("scancel", "--batch", "--signal=TERM", slurm_job(slurm))
        found += results
        assert len(found) == 300
        eventually(lambda: len(slurm.jobs()) == 1, what="the end of the allocation")
        causes = [it.cause for it in manager.summary().interpreters if it.cause]
        assert len(causes) == 2
        assert all("its machine is closed" in cause for cause in causes)


def test_executors_end_when_the_program_is_killed(
    slurm: Cluster, home: Path, script: Script, eventually: Eventually
) -> None:
    program = script(
        """
        import time
        import phalanx as px

        with px.Manager(px.Slurm(nodes=2, at_least=2)) as manager:
            print(manager.submit(abs, -1).result(), flush=True)
            time.sleep(600)
        """
    )
    program.line("1", timeout=60)
    program.kill()
    eventually(lambda: not executors() and not slurm.jobs(), timeout=60, what="the end of the executors and jobs")
    with px.Slurm():  # removes what the other one has left
        assert len([*home.glob("pilots/*")]) == 1


def test_a_contract_that_needs_more_nodes_gets_them(slurm: Cluster) -> None:
    pilot = px.Slurm(nodes=1, at_most=2)
    with px.Manager(pilot, contract=px.ParDegree(4)) as manager:
        assert [it.name for it in pilot.executors()] == ["n1", "n2"]
        assert list(manager.map(square, range(100))) == [number**2 for number in range(100)]
        assert len(slurm.jobs()) == 2


def test_a_node_that_is_lost_for_good_is_replaced(slurm: Cluster, eventually: Eventually) -> None:
    pilot = px.Slurm(nodes=2, at_most=2, at_least=2, interpreters=1)
    with px.Manager(pilot, contract=px.ParDegree(2)) as manager:
        results = manager.compute(where, itertools.count())
        next(results)
        one, _ = tasks_of(slurm)
        slurm.say("scancel", one)  # Slurm starts no job again that was canceled
        eventually(lambda: next(results) and len({*tasks_of(slurm)} - {one}) == 2, timeout=60, what="another one")
        eventually(lambda: len({next(results) for _ in range(50)}) == 2, timeout=60, what="two interpreters")
        results.close()


@pytest.mark.filterwarnings("ignore::phalanx.errors.ContractWarning")
def test_nodes_come_and_go_with_the_contract(
    slurm: Cluster, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.pilots._elastic._IDLE", 2.0)
    pilot = px.Slurm(nodes=1, at_most=2, interpreters=1)
    # A task takes 20 ms, so that an interpreter does 50 a second at most.
    with px.Manager(pilot, contract=px.Throughput(80)) as manager:
        results = manager.compute(where, itertools.count())
        eventually(lambda: len({next(results) for _ in range(50)}) == 2, timeout=60, what="a second node")
        assert len(slurm.jobs()) == 2
        results.close()
        # Tasks that take no time: one interpreter is released, and its node given back.
        short = manager.compute(square, itertools.count(1))
        eventually(lambda: next(short) and len(slurm.jobs()) == 1, timeout=60, what="one node")
        assert not any(it.state == "lost" for it in manager.summary().interpreters)
        short.close()
        results = manager.compute(where, itertools.count())
        eventually(lambda: len({next(results) for _ in range(50)}) == 2, timeout=60, what="a second node again")
        results.close()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: px.Manager(px.Slurm(partition="none")), "Slurm refuses: .*invalid partition"),
        (lambda: px.Manager(px.Slurm(options="--no-such-option")), "Slurm refuses: .*unrecognized option"),
        (
            lambda: px.Manager(px.Slurm(python="/no/python")),
            "the job .* has ended; an executor has printed: .*/no/python",
        ),
        (lambda: px.Slurm(nodes=0), "nodes is a number"),
        (lambda: px.Slurm(nodes=1, at_least=2), "is more than nodes"),
        (lambda: px.Slurm(nodes=2, at_most=1), "is less than nodes"),
        (lambda: px.Slurm(time="an hour"), "time is like"),
        (lambda: px.Slurm(partition="\n"), "partition is a word"),
    ],
)
def test_errors_of_the_engine_are_told(make: object, complaint: str) -> None:
    assert callable(make)
    with pytest.raises(RecruitError, match=complaint):
        make()


def test_without_slurm_the_error_says_where_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RecruitError, match=r"no sbatch here: .*login node"):
        px.Manager(px.Slurm())


def test_a_queue_that_gives_nothing_is_told(slurm: Cluster) -> None:
    for node in slurm.nodes:
        slurm.say("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
    try:
        with pytest.raises(RecruitError, match=r"no executor came within 1 s: the job .* is pending"):
            px.Manager(px.Slurm(wait=1))
    finally:
        for node in slurm.nodes:
            slurm.say("scontrol", "update", f"nodename={node}", "state=resume")
