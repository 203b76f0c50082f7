"""``phalanx mpirun --on``: ranks in places that engines give. And the same program under srun, with another MPI."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Eventually
from deploying.sshd import Machines
from pilots.fake_kubernetes import IMAGE, cluster
from pilots.programs import executors

from laboratory import slurm
from laboratory.grid import PHALANX
from laboratory.needs import lacking
from laboratory.processes import Process

MPICH = Path(__file__).parents[2] / ".venv" / "mpich" / "lib"
#: The sum of the ranks, and in how many folders the ranks run: executors give each program a folder.
SUM = """
import os
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
places = len({*world.allgather((os.environ.get("SLURMD_NODENAME"), os.getcwd()))})
if world.rank == 0:
    print("sum", total, "places", places)
"""

Run = Callable[..., Process]


@pytest.fixture
def run(tmp_path: Path, home: Path, eventually: Eventually) -> Iterator[Run]:
    """`run("--on", …)` starts `phalanx mpirun` in a folder with the program sum.py."""
    started: list[Process] = []
    (tmp_path / "sum.py").write_text(SUM)

    def start(*words: str, **variables: str) -> Process:
        files = tmp_path / f"said-{len(started)}"
        command = [str(PHALANX), "mpirun", *words]
        process = Process(command, title="mpirun", files=files, cwd=tmp_path, env=os.environ | variables)
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()
    eventually(lambda: not executors(), timeout=60, what="the end of the executors")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Cluster]:
    if reason := lacking(*slurm.NEEDS):
        pytest.skip(reason)
    with slurm.cluster(tmp_path_factory.mktemp("slurm") / "it") as found:
        yield found


def test_ranks_run_on_nodes_of_slurm(nodes: slurm.Cluster, run: Run, eventually: Eventually) -> None:
    words = ["--on", "slurm", "--nodes", "2", "--time", "10m", "--place", "partition=work", "-n", "4"]
    process = run(*words, "python", "sum.py", SLURM_CONF=str(nodes.conf))
    assert process.wait(timeout=60) == 0, process.report()
    assert process.lines() == ["[0] sum 6 places 2"]
    eventually(lambda: not nodes.jobs(), timeout=60, what="the end of all jobs")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_for_nodes_and_the_job(
    nodes: slurm.Cluster, run: Run, eventually: Eventually, number: signal.Signals
) -> None:
    nodes.say("scontrol", "update", "nodename=n1,n2", "state=drain", "reason=test")
    try:
        process = run("--on", "slurm", "python", "sum.py", SLURM_CONF=str(nodes.conf))
        eventually(nodes.jobs, timeout=60, what="the job")
        process.signal(number)
        assert process.wait(timeout=60) == 128 + number, process.report()
        eventually(lambda: not nodes.jobs(), timeout=60, what="the end of all jobs")
    finally:
        nodes.say("scontrol", "update", "nodename=n1,n2", "state=resume")


def test_a_signal_ends_the_program_and_the_job(nodes: slurm.Cluster, run: Run, eventually: Eventually) -> None:
    sleep = "import time; print('there', flush=True); time.sleep(600)"
    process = run("--on", "slurm", "-n", "1", "python", "-c", sleep, SLURM_CONF=str(nodes.conf))
    process.line("[0] there", timeout=60)
    process.signal(signal.SIGTERM)
    assert process.wait(timeout=60) != 0
    eventually(lambda: not nodes.jobs(), timeout=60, what="the end of all jobs")


def test_ranks_run_over_ssh(lab: Machines, run: Run) -> None:
    for name in ("ws7", "ws8"):
        lab.add(name)
    words = ["--on", "ssh:ws7,root@ws8", "--place", f"ssh={lab.ssh}", "--place", "interpreters=2"]
    process = run(*words, "python", "sum.py")
    assert process.wait(timeout=60) == 0, process.report()
    assert process.lines() == ["[0] sum 6 places 2"]


def test_ranks_run_in_pods(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    with cluster(tmp_path / "cluster") as found:
        words = ["--on", "kubernetes", "--nodes", "2", "--place", f"image={IMAGE}", "--place", "cores=0.5", "-n", "4"]
        options = ["--place", "interpreters=2"]
        process = run(*words, *options, "python", "sum.py", KUBECONFIG=str(found.contexts))
        assert process.wait(timeout=60) == 0, process.report()
        assert process.lines() == ["[0] sum 6 places 2"]
        assert not found.objects


def test_the_same_program_runs_under_srun_with_mpich(nodes: slurm.Cluster, run: Run, tmp_path: Path) -> None:
    if not (MPICH / "libmpi_abi.so.1").exists() or shutil.which("cc") is None:
        pytest.skip("needs .venv/mpich, which make test makes, and a C compiler")
    (tmp_path / "sum.c").write_text(
        """
        #include <mpi.h>
        #include <stdio.h>

        int main(int count, char **words) {
            int rank, sum, length;
            char version[MPI_MAX_LIBRARY_VERSION_STRING];
            MPI_Init(&count, &words);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            MPI_Get_library_version(version, &length);
            if (rank == 0) printf("sum %d with %.7s\\n", sum, version);
            MPI_Finalize();
            return 0;
        }
        """
    )
    subprocess.run([str(PHALANX), "mpicc", "-o", "sum", "sum.c"], cwd=tmp_path, check=True)
    process = run("--on", "slurm", "--nodes", "2", "-n", "4", "./sum", SLURM_CONF=str(nodes.conf))
    assert process.wait(timeout=60) == 0, process.report()
    assert process.lines() == ["[0] sum 6 with phalanx"]
    words = ["srun", "--mpi=pmi2", "--nodes=2", "--ntasks=4", "./sum"]
    env = os.environ | {"SLURM_CONF": str(nodes.conf), "LD_LIBRARY_PATH": str(MPICH)}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("sum 6 with MPICH V\n", 0), done.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--on", "condor"], "there are slurm, pbs, "),
        (["--on", "ssh"], "write --on ssh:ws7,ada@ws8"),
        (["--on", "slurm:n1"], "and other engines without"),
        (["--on", "ssh:ws7", "--nodes", "2"], "--on ssh:… names machines"),
        (["--on", "slurm", "--hosts", "a:1"], "leave --hosts"),
        (["--on", "kubernetes"], "needs --place image=IMAGE"),
        (["--on", "lsf"], "needs cores="),
        (["--on", "slurm", "--place", "cores=many"], "cores is a number"),
        (["--on", "slurm", "--place", "cores=0"], "--on slurm: cores is a number from 1"),
        (["--on", "slurm", "--place", "colour=red"], "slurm has the options account, address"),
        (["--on", "slurm", "--place", "cores"], "write NAME=VALUE"),
        (["--nodes", "2"], "--nodes needs --on"),
        (["--time", "1h"], "--time needs --on"),
        (["--place", "cores=1"], "--place needs --on"),
        (["--on", "slurm", "--file", "none"], "the file none is not found"),
    ],
)
def test_wrong_words_are_refused(run: Run, words: list[str], complaint: str) -> None:
    process = run(*words, "python", "sum.py")
    assert process.wait() != 0
    assert complaint in " ".join(process.stderr().split())
