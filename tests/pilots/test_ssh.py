"""Executors on machines that ssh reaches: real servers of OpenSSH on this machine."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import phalanx as px
import pytest
from api.conftest import Script as Script
from api.conftest import script as script
from conftest import Eventually
from deploying.sshd import Machines
from phalanx.errors import RecruitError
from pilots.programs import executors, square, where


def test_a_manager_starts_executors_and_ends_them(lab: Machines, home: Path, eventually: Eventually) -> None:
    for name in ("ws7", "ws8"):
        lab.add(name)
    pilot = px.Ssh(["ws7", "root@ws8"], ssh=lab.ssh, interpreters=1)
    with px.Manager(pilot, contract=px.ParDegree(2)) as manager:
        assert list(manager.compute(square, range(50))) == [number**2 for number in range(50)]
        assert [it.name for it in pilot.executors()] == ["ws7", "ws8"]
        assert executors()
    assert not pilot.is_started
    eventually(lambda: not executors(), what="the end of the executors")


def test_an_executor_that_is_lost_is_replaced(lab: Machines, home: Path, eventually: Eventually) -> None:
    for name in ("ws7", "ws8"):
        lab.add(name)
    pilot = px.Ssh(["ws7", "ws8"], ssh=lab.ssh, interpreters=1)
    with px.Manager(pilot) as manager:
        results = manager.compute(where, range(200))
        first = next(results)
        os.kill(executors()[0], signal.SIGKILL)
        assert len([first, *results]) == 200
        eventually(lambda: len(pilot.executors()) == 2, what="the executor that is started again")
        names = {it.name.partition("-")[0] for it in pilot.executors()}
        assert names == {"ws7", "ws8"}


def test_all_models_run_there(lab: Machines, home: Path, tmp_path: Path) -> None:
    lab.add("ws7")
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("text")
    with px.Ssh("ws7", ssh=lab.ssh, interpreters=2, export=f"{tmp_path}/there:rw") as pilot:
        grid = px.Grid(pilot)
        with grid.space("ws7/jobs") as space:
            space.out("todo", 7)
            assert space.in_("todo", int) == ("todo", 7)
        assert grid.copy(tmp_path / "file", f"ws7:{tmp_path}/there/file").files == 1
        (tmp_path / "sum.py").write_text("from mpi4py import MPI\nprint(MPI.COMM_WORLD.allreduce(3))\n")
        done = grid.mpirun(["python", tmp_path / "sum.py"], n=2, capture_output=True)
        assert (done.stdout or "").split() == ["6", "6"]
        for _ in range(2):  # managers leave it as it is
            with grid.manager() as manager:
                assert manager.submit(square, 3).result() == 9
            with px.Manager(pilot) as manager:
                assert manager.submit(square, 3).result() == 9
    assert (tmp_path / "there" / "file").read_text() == "text"


def test_executors_end_when_the_program_is_killed(
    lab: Machines, home: Path, tmp_path: Path, script: Script, eventually: Eventually
) -> None:
    lab.add("ws7")
    program = script(
        """
        import sys, time
        import phalanx as px

        pilot = px.Ssh("ws7", ssh=sys.argv[1])
        with px.Manager(pilot) as manager:
            print(manager.submit(abs, -1).result(), pilot._grid.folder, flush=True)
            time.sleep(600)
        """,
        lab.ssh,
    )
    folder = Path(program.line("1 ", timeout=60).split()[1])
    assert (folder / "user.pem").exists()
    program.kill()
    eventually(lambda: not executors(), what="the end of the executor")
    with px.Manager(px.Ssh("ws7", ssh=lab.ssh)) as manager:  # removes what the other one has left
        assert not folder.exists()
        assert manager.submit(abs, -1).result() == 1


def test_ctrl_c_ends_the_executors(lab: Machines, home: Path, script: Script, eventually: Eventually) -> None:
    lab.add("ws7")
    program = script(
        """
        import sys, time
        import phalanx as px

        with px.Manager(px.Ssh("ws7", ssh=sys.argv[1])) as manager:
            print(manager.submit(abs, -1).result(), flush=True)
            manager.submit(time.sleep, 600).result()
        """,
        lab.ssh,
    )
    program.line("1", timeout=60)
    program.signal(signal.SIGINT)
    program.wait()
    eventually(lambda: not executors(), what="the end of the executor")


def test_a_machine_that_is_off_is_named(lab: Machines, home: Path, caplog: pytest.LogCaptureFixture) -> None:
    lab.add("ws7")
    lab.name("ws8")
    with pytest.raises(RecruitError, match=r"ws8: ssh ended: .*refused.*without a password"):
        px.Manager(px.Ssh("ws8", ssh=lab.ssh))
    caplog.set_level(logging.WARNING)
    with px.Manager(px.Ssh(["ws7", "ws8"], ssh=lab.ssh)) as manager:
        assert manager.submit(abs, -1).result() == 1
    assert "1 of 2 executors have come: ws8: ssh ended" in caplog.text


def test_a_machine_without_phalanx_is_named(lab: Machines, home: Path) -> None:
    lab.add("ws7")
    with pytest.raises(RecruitError, match=r"no Python here has phalanx \(/no/python\).*phalanx deploy"):
        px.Manager(px.Ssh("ws7", ssh=lab.ssh, python="/no/python"))


def test_the_secret_is_in_no_command_line(lab: Machines, home: Path) -> None:
    lab.add("ws7")
    with px.Ssh("ws7", ssh=lab.ssh) as pilot:
        pilot.hosts()
        assert pilot._grid is not None
        token = pilot._grid.token()[:30].encode()  # all tokens of a grid begin so
        for process in Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                try:
                    found = (process / name).read_bytes()
                except OSError:  # the process has just ended
                    continue
                assert token not in found, process


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: px.Ssh([]), "no machine"),
        (lambda: px.Ssh("-oProxyCommand=false"), "is no machine"),
        (lambda: px.Ssh("ws7", interpreters=0), "interpreters is a number"),
        (lambda: px.Ssh("ws7", at_least=True), "at_least is a number"),
        (lambda: px.Ssh("ws7", wait=float("nan")), "wait is a number of seconds"),
        (lambda: px.Ssh("ws7", cage="iron"), "'iron' is no cage"),  # type: ignore[arg-type]
        (lambda: px.Ssh("ws7", export="/scratch"), "export is a folder with"),
        (lambda: px.Manager(px.Ssh("ws7", ssh="no-such-ssh")), "no no-such-ssh here"),
        (lambda: px.Manager(px.Ssh("ws7", address="a b")), "'a b' is no host"),
        (lambda: px.Grid(px.Ssh("ws7")), "is not started"),
    ],
)
def test_wrong_options_are_refused(make: object, complaint: str, home: Path) -> None:
    assert callable(make)
    with pytest.raises(RecruitError, match=complaint):
        make()


def test_a_manager_that_does_not_begin_ends_the_pilot(lab: Machines, home: Path, eventually: Eventually) -> None:
    lab.add("ws7")
    pilot = px.Ssh("ws7", ssh=lab.ssh, interpreters=1, wait=3)
    with pytest.raises(px.errors.ContractError, match="offers 1"):
        px.Manager(pilot, contract=px.ParDegree(2))
    assert not pilot.is_started
    eventually(lambda: not executors(), what="the end of the executor")
