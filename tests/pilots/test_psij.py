"""Executors in jobs of PSI/J: local processes, Debian's Slurm, and commands that answer as PBS's and LSF's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import phalanx as px
import pytest
from conftest import Eventually
from phalanx.errors import RecruitError
from pilots.programs import executors

from laboratory.needs import lacking
from laboratory.processes import Process
from laboratory.slurm import NEEDS, cluster

ROOT = Path(__file__).parents[2]
#: The environment with PSI/J: requirements/psij.txt.
PYTHON = ROOT / ".venv" / "psij" / "bin" / "python"
COMMANDS = ("qsub", "qstat", "qdel", "bsub", "bjobs", "bkill")


@pytest.fixture
def run(tmp_path: Path, home: Path, eventually: Eventually) -> Iterator[Callable[..., Process]]:
    """`run(part, NAME=value)` runs a part of the program, which must succeed."""
    if not PYTHON.exists():
        pytest.skip("needs .venv/psij, which make test makes")
    started: list[Process] = []

    def start(part: str, **variables: str) -> Process:
        path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests"), str(ROOT)])
        words = [str(PYTHON), str(Path(__file__).with_name("psij_program.py")), part]
        env = os.environ | {"PYTHONPATH": path} | variables
        process = Process(words, title=part, files=tmp_path / part, cwd=tmp_path, env=env)
        started.append(process)
        assert process.wait(timeout=110) == 0, process.report()
        assert "done" in process.lines()
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()
    eventually(lambda: not executors(), timeout=60, what="the end of the executors")


@pytest.mark.parametrize("part", ["local", "flux"])
def test_without_a_batch_system(run: Callable[..., Process], part: str) -> None:
    run(part)


@pytest.mark.parametrize("part", ["slurm", "slurm_survives"])
def test_slurm(run: Callable[..., Process], tmp_path: Path, eventually: Eventually, part: str) -> None:
    if reason := lacking(*NEEDS):
        pytest.skip(reason)
    with cluster(tmp_path / "slurm") as nodes:
        process = run(part, SLURM_CONF=str(nodes.conf))
        if part == "slurm":
            assert "#SBATCH --exclusive" in process.lines()
            assert '#SBATCH --comment="test"' in process.lines()
            assert "#SBATCH --time=0:10:0" in process.lines()
        eventually(lambda: not nodes.jobs(), timeout=60, what="the end of all jobs")


@pytest.mark.parametrize(
    ("part", "directives"),
    [
        ("pbs", ["#PBS -l select=1:ncpus=1:mpiprocs=1", "#PBS -l walltime=0:10:0", "#PBS -q work", "#PBS -A lab"]),
        ("lsf", ["#BSUB -nnodes 1", "#BSUB -n 2", "#BSUB -W 0:10", '#BSUB -q "work"']),
    ],
)
def test_batch_systems_get_their_directives(
    run: Callable[..., Process], tmp_path: Path, part: str, directives: list[str]
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "jobs").mkdir()
    for name in COMMANDS:
        file = tmp_path / "bin" / name
        file.write_text(
            f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("batch_commands.py")} {name} "$@"\n'
        )
        file.chmod(0o755)
    process = run(part, PATH=f"{tmp_path}/bin:{os.environ['PATH']}", BATCH_JOBS=str(tmp_path / "jobs"))
    lines = process.lines()
    assert [it for it in directives if it not in lines] == []


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: px.PsiJ("pbs", nodes=0), "nodes is a number"),
        (lambda: px.PsiJ("pbs", at_least=2), "is more than nodes"),
        (lambda: px.PsiJ("pbs", time="1:00"), "time is like"),
        (lambda: px.PsiJ("pbs", time=0), "time is like"),
        (lambda: px.PsiJ("pbs", cores=0), "cores is a number"),
        (lambda: px.PsiJ("pbs", queue=""), "queue is a word"),
        (lambda: px.PsiJ("lsf"), r"px\.PsiJ\('lsf'\) needs cores="),
        (lambda: px.PsiJ(5), "executor is a word"),  # type: ignore[arg-type]
        (lambda: px.PsiJ("pbs", attributes={"pbs.l": "a\nb"}), "attributes is a word"),
    ],
)
def test_wrong_options_are_refused(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(RecruitError, match=complaint):
        make()


def test_without_psij_the_error_says_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psij", None)
    with pytest.raises(RecruitError, match=r"px\.PsiJ needs PSI/J: pip install psij-python"):
        px.Manager(px.PsiJ("pbs"))
