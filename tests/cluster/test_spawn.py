"""Programs on executors that spawn processes, and groups that find each other at ports there."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from cluster.grid import PATIENCE, PHALANX, Executor, Grid, program_folders, remove_program_folders

from laboratory.processes import Process, until

API = Path(__file__).parents[1] / "api"

PROGRAM = """
import os, socket, sys, time
from mpi4py import MPI

parent, world = MPI.Comm.Get_parent(), MPI.COMM_WORLD
role = sys.argv[1]


def all_to_all(comm, ranks):
    \"\"\"Everybody has everybody's word.\"\"\"
    merged = comm.Merge(high=parent != MPI.COMM_NULL)
    words = merged.allgather((socket.gethostname(), "x" * 100_000))
    assert [len(word) for _, word in words] == [100_000] * ranks, words
    total = merged.allreduce(merged.rank)
    assert total == ranks * (ranks - 1) // 2
    merged.Free()
    return [host for host, _ in words]


if role == "spawns":
    count = int(sys.argv[2])
    children = world.Spawn("python", ["program.py", "child"], count)
    hosts = all_to_all(children, world.size + count)
    if world.rank == 0:
        print("hosts", *hosts, flush=True)
    children.Disconnect()
elif role == "child":
    all_to_all(parent, parent.remote_size + world.size)
    print("helper", open("data.txt").read(), flush=True)
    parent.Disconnect()
elif role == "again":
    for _ in range(3):
        children = world.Spawn("python", ["program.py", "quiet"], 2)
        children.Barrier()
        children.Disconnect()
    print("again", flush=True)
elif role == "quiet":
    parent.Barrier()
    parent.Disconnect()
elif role == "too many":
    try:
        world.Spawn("python", ["program.py", "quiet"], 50)
    except MPI.Exception as error:
        print(error.Get_error_class() == MPI.ERR_SPAWN, error, flush=True)
elif role == "sleep":
    world.Spawn("python", ["program.py", "sleeper"], 2)
    print("began", flush=True)
    time.sleep(1000)
elif role == "sleeper":
    print("began", flush=True)
    time.sleep(1000)
elif role == "universe":
    print("universe", world.Get_attr(MPI.UNIVERSE_SIZE), flush=True)
    if parent != MPI.COMM_NULL:
        parent.Disconnect()
    elif world.rank == 0:
        MPI.COMM_SELF.Spawn("python", ["program.py", "universe"], 1).Disconnect()
elif role == "host":
    counts, names = [int(word) for word in sys.argv[2::2]], sys.argv[3::2]
    infos = [MPI.Info.Create({"host": name} if name != "any" else {"other": "means nothing"}) for name in names]
    words = [["program.py", "child"]] * len(names)
    try:
        children = world.Spawn_multiple(["python"] * len(names), words, counts, infos)
    except MPI.Exception as error:
        print(error.Get_error_class() == MPI.ERR_SPAWN, error, flush=True)
    else:
        print("hosts", *all_to_all(children, world.size + sum(counts)), flush=True)
        children.Disconnect()
elif role == "often":
    path, rounds, count = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    alone = world.Split(world.rank)
    print("began", flush=True)
    while not os.path.exists(path):
        time.sleep(0.01)
    for _ in range(rounds):
        children = alone.Spawn("python", ["program.py", "quiet"], count)
        children.Barrier()
        children.Disconnect()
    print("often", flush=True)
elif role == "ports":
    half = world.Split(world.rank % 2)
    port = MPI.Open_port() if world.rank == 0 else None
    port = world.bcast(port)
    comm = half.Accept(port) if world.rank % 2 == 0 else half.Connect(port)
    print("met", comm.remote_size, sum(comm.allgather(world.rank)), flush=True)
    comm.Disconnect()
"""


@pytest.fixture
def executors(grid: Grid) -> list[Executor]:
    """Three machines with two places each."""
    (grid.desk.home / "program.py").write_text(PROGRAM)
    (grid.desk.home / "data.txt").write_text("given")
    return grid.executors("left", "middle", "right")


def mpirun(grid: Grid, executors: Sequence[Executor], *words: str | Path) -> Process:
    hosts = ",".join(executor.address for executor in executors)
    command: list[str | Path] = [PHALANX, "mpirun", "--hosts", hosts, "--file", "data.txt"]
    return grid.desk.popen([*command, *words], env=grid.env)


def finished(process: Process, code: int = 0) -> list[str]:
    assert process.wait(timeout=PATIENCE) == code, process.report()
    assert "Traceback" not in process.stderr(), process.report()
    return sorted(process.lines())


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_children_are_where_there_are_places_and_all_reach_each_other(
    grid: Grid, executors: list[Executor], ranks: int
) -> None:
    process = mpirun(grid, executors, "-n", str(ranks), "program.py", "spawns", str(6 - ranks))
    told = [line for line in finished(process) if "hosts" in line]
    assert told == ["[0] hosts left left middle middle right right"], process.report()
    children = [line for line in process.lines() if "helper" in line]
    assert sorted(children) == [f"[1:{rank}] helper given" for rank in range(6 - ranks)]


def test_places_are_free_again_when_children_have_ended(grid: Grid, executors: list[Executor]) -> None:
    process = mpirun(grid, executors[:2], "-n", "2", "program.py", "again")
    assert finished(process) == ["[0] again", "[1] again"]


def test_too_few_places_are_an_error_with_words(grid: Grid, executors: list[Executor]) -> None:
    process = mpirun(grid, executors, "-n", "1", "program.py", "too many")
    (line,) = finished(process)
    assert line.startswith("[0] True"), line
    assert "50 processes were asked for, but 5 places are free: left has 1, middle has 2, right has 2" in line


def test_spawns_of_several_communicators_at_once_each_get_their_places(grid: Grid, executors: list[Executor]) -> None:
    go = grid.desk.home / "go"
    process = mpirun(grid, executors, "-n", "2", "program.py", "often", go, "4", "2")
    until(lambda: process.stdout().count("began") == 2, timeout=PATIENCE, what="both ranks")
    go.touch()
    assert [line for line in finished(process) if "often" in line] == ["[0] often", "[1] often"]


def test_spawns_of_several_programs_at_once_each_get_their_places(grid: Grid, executors: list[Executor]) -> None:
    go = grid.desk.home / "go"
    processes = [mpirun(grid, executors, "-n", "1", "program.py", "often", go, "4", "2")]
    until(lambda: "began" in processes[0].stdout(), timeout=PATIENCE, what="the first program")
    processes.append(mpirun(grid, executors[::-1], "-n", "1", "program.py", "often", go, "4", "2"))
    until(lambda: "began" in processes[1].stdout(), timeout=PATIENCE, what="the second program")
    go.touch()
    assert [finished(process) for process in processes] == [["[0] began", "[0] often"]] * 2


@pytest.mark.parametrize(("options", "size"), [([], 6), (["--per-host", "1"], 5)])
def test_the_universe_has_all_places(grid: Grid, executors: list[Executor], options: list[str], size: int) -> None:
    process = mpirun(grid, executors, *options, "-n", "2", "program.py", "universe")
    told = [f"[0] universe {size}", f"[1:0] universe {size}", f"[1] universe {size}"]
    assert finished(process) == sorted(told), process.report()


@pytest.mark.parametrize(
    ("wanted", "hosts"),
    [
        (["2", "right"], "left right right"),
        (["1", "{middle}", "2", "right"], "left middle right right"),
        (["1", "{middle_without_port}", "2", "any"], "left middle left right"),
    ],
)
def test_children_are_on_the_executor_that_is_named(
    grid: Grid, executors: list[Executor], wanted: list[str], hosts: str
) -> None:
    address = executors[1].address
    names = {"middle": address, "middle_without_port": address.rsplit(":", 1)[0]}
    process = mpirun(grid, executors, "-n", "1", "program.py", "host", *(word.format(**names) for word in wanted))
    assert [line for line in finished(process) if "hosts" in line] == [f"[0] hosts {hosts}"], process.report()


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (["1", "nowhere"], "no executor of this program is called nowhere: there are "),
        (["3", "right"], "3 processes were asked for, but 2 places are free: right has 2"),
        (["1", "left", "1", "right", "1", "right", "1", "middle", "1", "right"], "processes on right are to follow"),
    ],
)
def test_an_executor_that_cannot_be_had_is_an_error_with_words(
    grid: Grid, executors: list[Executor], wanted: list[str], words: str
) -> None:
    (line,) = finished(mpirun(grid, executors, "-n", "1", "program.py", "host", *wanted))
    assert line.startswith("[0] True"), line
    assert words in line


def test_parents_and_children_in_c(grid: Grid, executors: list[Executor]) -> None:
    options = ["-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
    command: list[str | Path] = [PHALANX, "mpicc", *options, API / "mpi" / "spawn.c", "-o", "spawn"]
    subprocess.run(command, check=True, timeout=60, cwd=grid.desk.home)
    process = mpirun(grid, executors, "-n", "2", "./spawn")
    assert finished(process) == []
    assert process.stderr() == ""


def test_groups_find_each_other_at_ports(grid: Grid, executors: list[Executor]) -> None:
    process = mpirun(grid, executors, "-n", "4", "program.py", "ports")
    assert finished(process) == ["[0] met 2 4", "[1] met 2 2", "[2] met 2 4", "[3] met 2 2"]


def test_an_interrupt_ends_children_on_all_machines(grid: Grid, executors: list[Executor]) -> None:
    process = mpirun(grid, executors, "-n", "2", "program.py", "sleep")
    until(lambda: process.stdout().count("began") == 4, timeout=PATIENCE, what="all processes")
    process.signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE) == 130, process.report()
    until(lambda: not program_folders(), timeout=30, what="no folder")


def test_the_loss_of_a_childs_machine_ends_the_program(grid: Grid, executors: list[Executor]) -> None:
    process = mpirun(grid, executors[:2], "-n", "2", "program.py", "sleep")
    until(lambda: process.stdout().count("began") == 4, timeout=PATIENCE, what="all processes")
    executors[1].process.signal(signal.SIGKILL, group=True)
    assert process.wait(timeout=PATIENCE) == 1, process.report()
    assert re.search(r"rank [01] of spawned world 1 on middle is lost: its machine is gone", process.stderr())
    remove_program_folders()
