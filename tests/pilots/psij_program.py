"""A program whose manager has its executors in jobs of PSI/J, which is in an environment of its own."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import cloudpickle
import phalanx as px
from phalanx.errors import RecruitError
from pilots import programs
from pilots.programs import executors, square, where

cloudpickle.register_pickle_by_value(programs)
HOME = Path(os.environ["PHALANX_HOME"])


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@contextmanager
def refused(words: str) -> Iterator[None]:
    try:
        yield
    except RecruitError as error:
        if words in str(error):
            return
        raise
    raise AssertionError(f"no error has {words!r}")


def computes(engine: str, **options: object) -> None:
    """Two executors compute. Nothing is left of them afterwards, nor of the order."""
    pilot = px.PsiJ(engine, nodes=2, time="0:10:00", at_least=2, **options)  # type: ignore[arg-type]
    handler = signal.getsignal(signal.SIGCHLD)
    with px.Manager(pilot) as manager:
        assert list(manager.map(square, range(100))) == [number**2 for number in range(100)]
        assert all("ends" in it.facts for it in pilot.executors())
        assert signal.getsignal(signal.SIGCHLD) == handler
        (folder,) = HOME.glob("pilots/psij-*")
        assert [stat.S_IMODE(it.stat().st_mode) for it in (folder / "order.json", folder)] == [0o600, 0o700]
        scripts = "".join(it.read_text() for it in folder.glob("work/*/*.job"))
        assert bool(scripts) == (engine != "local")
        assert "phalanx1-" not in scripts
        print(scripts)
    until(lambda: not executors(), "the end of the executors")
    assert not [*HOME.glob("pilots/*")]


def local() -> None:
    computes("local", interpreters=1)
    with refused("local's jobs have ended; an executor has printed: sh: "):
        px.Manager(px.PsiJ("local", python="/no/python"))
    with refused('PSI/J: No such executor "condor". Available executors: '):
        px.Manager(px.PsiJ("condor"))


def flux() -> None:
    with refused("PSI/J: Unable to load executor flux: No module named 'flux'"):
        px.Manager(px.PsiJ("flux", cores=1))


def slurm() -> None:
    computes("slurm", attributes={"slurm.comment": "test"}, prologue="export OF_PROLOGUE=1")
    computes("slurm", cores=1)


def slurm_survives() -> None:
    """A job that is lost is a loss that is survived."""
    pilot = px.PsiJ("slurm", nodes=2, at_least=2)
    with px.Manager(pilot) as manager:
        results = manager.compute(where, range(200))
        found = [next(results)]
        os.kill(executors()[0], signal.SIGKILL)
        assert len([*found, *results]) == 200
        until(lambda: pilot._failure(1) is not None, "the end of a job, as PSI/J sees it")
        assert str(pilot._failure(1)).startswith("1 of 2 jobs of slurm are left")
    with px.Manager(px.PsiJ("slurm")) as manager:  # its executor removes what the killed one has left
        assert manager.submit(square, 3).result() == 9
    with refused("PSI/J's slurm refuses: sbatch: error: "):
        px.Manager(px.PsiJ("slurm", queue="none"))


def pbs() -> None:
    pilot = px.PsiJ("pbs", nodes=1, at_most=2, cores=1)
    with px.Manager(pilot, contract=px.ParDegree(2)) as manager:  # one node has one interpreter
        assert manager.submit(square, 3).result() == 9
        assert len(pilot.executors()) == 2
    computes("pbs", cores=1, queue="work", account="lab", attributes={"pbs.l": "mem=8gb"})


def lsf() -> None:
    computes("lsf", cores=2, interpreters=1, queue="work")


if __name__ == "__main__":
    {it.__name__: it for it in (local, flux, slurm, slurm_survives, pbs, lsf)}[sys.argv[1]]()
    print("done")
