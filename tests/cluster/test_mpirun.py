"""`phalanx mpirun --hosts`: ranks on executors, with the user's files, streams, signals and ends."""

from __future__ import annotations

import re
import shlex
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from cluster.grid import PATIENCE, PHALANX, Executor, Grid, program_folders, remove_program_folders

from laboratory.processes import Process, until

PROGRAM = Path(__file__).parents[1] / "api" / "rank_program.py"


@pytest.fixture
def executors(grid: Grid) -> list[Executor]:
    """Two machines with two places each."""
    return grid.executors("left", "right")


def mpirun(grid: Grid, executors: Sequence[Executor], *words: str | Path) -> Process:
    """Start it on the desk."""
    hosts = ",".join(executor.address for executor in executors)
    return grid.desk.popen([PHALANX, "mpirun", "--hosts", hosts, *words], env=grid.env)


def finished(process: Process, code: int = 0) -> Process:
    assert process.wait(timeout=PATIENCE) == code, process.report()
    assert "Traceback" not in process.stderr()
    return process


def test_a_script_and_its_files_go_to_all_machines_and_are_gone_afterwards(
    grid: Grid, executors: list[Executor]
) -> None:
    home = grid.desk.home
    (home / "helper.py").write_text("answer = 42\n")
    (home / "data").mkdir()
    (home / "data" / "input.txt").write_text("given")
    (home / "program.py").write_text(
        "import os, socket, helper, sys\n"
        "print(socket.gethostname(), helper.answer, open('data/input.txt').read(), sys.argv[1:], os.getcwd())\n"
    )
    process = mpirun(
        grid, executors, "--file", "helper.py", "--file", "data", "-n", "4", "python", "program.py", "-n", "x"
    )
    lines = sorted(finished(process).lines())
    machines = [line.split()[1] for line in lines]
    assert machines == ["left", "left", "right", "right"]
    assert all(" 42 given ['-n', 'x'] " in line for line in lines), lines
    used = {line.split()[-1] for line in lines}
    assert len(used) == 2
    until(lambda: not any(Path(folder).exists() for folder in used), timeout=30, what="the end of the folders")


def test_a_binary_is_sent_and_run(grid: Grid, executors: list[Executor]) -> None:
    (grid.desk.home / "a.out").write_bytes(Path("/bin/echo").read_bytes())
    (grid.desk.home / "a.out").chmod(0o755)
    process = mpirun(grid, executors, "-n", "3", "./a.out", "a", "b")
    assert sorted(finished(process).lines()) == ["[0] a b", "[1] a b", "[2] a b"]


def test_ranks_are_placed_by_free_places(grid: Grid, executors: list[Executor]) -> None:
    def placed(*options: str) -> list[str]:
        done = finished(mpirun(grid, executors, *options, "hostname"))
        return [line.split()[1] for line in sorted(done.lines())]

    assert placed() == ["left", "left", "right", "right"]
    assert placed("-n", "3") == ["left", "left", "right"]
    assert placed("--per-host", "1") == ["left", "right"]
    too_many = finished(mpirun(grid, executors, "-n", "5", "hostname"), code=1)
    assert "5 processes were asked for, but 4 places are free: left has 2, right has 2" in too_many.stderr()


def test_what_executors_cannot_start_is_named(grid: Grid, executors: list[Executor]) -> None:
    done = finished(mpirun(grid, executors, "-n", "1", "nosuch.py"), code=127)
    assert "rank 0 on left cannot be started: the program nosuch.py is not found" in done.stderr()
    script = grid.desk.home / "script"
    script.write_text("#!/nonexistent/python\n")
    script.chmod(0o755)
    done = finished(mpirun(grid, executors, "-n", "1", "./script"), code=127)
    assert "the interpreter that the program ./script names" in done.stderr()


def test_the_table_says_where_the_ranks_are_reached(grid: Grid, executors: list[Executor]) -> None:
    """A rank that listens says so, and hears of all when all have joined."""
    process = mpirun(grid, executors, "-n", "4", "python", PROGRAM, "listen", "hear", "finalize")
    lines = finished(process).lines()
    assert len(lines) == 4
    for line in lines:
        assert "table" in line
        for executor in executors:  # by the address of its machine
            address = socket.inet_aton(executor.host.address) + b"\xfa\x01" + b"\4cert"
            assert line.count(address.hex()) == 2, line


def test_output_comes_back_whole_however_much_it_is(grid: Grid, executors: list[Executor]) -> None:
    code = "for n in range(20000): print('x' * 200, n)"
    process = mpirun(grid, executors, "-n", "4", "--output", "said", "python", "-c", code)
    finished(process)
    expected = "".join(f"{'x' * 200} {n}\n" for n in range(20000))
    for rank in range(4):
        assert (grid.desk.home / "said" / f"{rank}.out").read_text() == expected
    counts = {rank: sum(line.startswith(f"[{rank}] xxx") for line in process.lines()) for rank in range(4)}
    assert counts == dict.fromkeys(range(4), 20000)


def test_standard_input_reaches_rank_0_there(grid: Grid, executors: list[Executor]) -> None:
    hosts = ",".join(executor.address for executor in executors)
    shell = f"head -c 3000000 /dev/zero | {shlex.quote(str(PHALANX))} mpirun --hosts {hosts} -n 3 wc -c"
    process = grid.desk.popen(["sh", "-c", shell], env=grid.env)
    assert sorted(finished(process).lines()) == ["[0] 3000000", "[1] 0", "[2] 0"]


def test_variables_go_along_where_they_are_asked_for(grid: Grid, executors: list[Executor]) -> None:
    script = 'echo "$ONE $TWO ${THREE-none} ${MPI4PY_LIBMPI##*/}"'
    hosts = ",".join(executor.address for executor in executors)
    command: list[str | Path] = [
        PHALANX,
        "mpirun",
        "--hosts",
        hosts,
        "--env",
        "ONE=1",
        "--env",
        "TWO",
        "-n",
        "1",
        "sh",
        "-c",
        script,
    ]
    process = grid.desk.popen(command, env={**grid.env, "TWO": "2", "THREE": "3"})
    assert finished(process).lines() == ["[0] 1 2 none libmpi.so.12"]


@pytest.mark.parametrize(
    ("verbs", "code", "what"),
    [
        (["3:exit=7", "sleep=1000"], 7, "rank 3 on right exited with status 7"),
        (["1:die=SIGSEGV", "sleep=1000"], 139, "rank 1 on left was killed by signal 11 (SIGSEGV)"),
        (["2:abort=5", "sleep=1000"], 5, "rank 2 on right aborted with code 5: a reason"),
    ],
)
def test_a_failure_on_one_machine_ends_all(
    grid: Grid, executors: list[Executor], verbs: list[str], code: int, what: str
) -> None:
    process = mpirun(grid, executors, "-n", "4", "python", PROGRAM, *verbs)
    finished(process, code)
    assert [line for line in process.stderr().splitlines() if line.startswith("phalanx:")] == [f"phalanx: {what}"]
    assert_nothing_runs(executors)


def assert_nothing_runs(executors: Sequence[Executor]) -> None:
    """The executor itself is the only one there."""

    def quiet(executor: Executor) -> bool:
        for pid in executor.host.pids():
            with suppress(OSError):  # it has just ended
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"rank_program" in command or b"sleep" in command:
                    return False
        return True

    for executor in executors:
        until(partial(quiet, executor), timeout=PATIENCE, what=f"silence on {executor.host.name}")
        assert executor.process.code is None, executor.process.report()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_everything_ends_with_the_launcher(grid: Grid, executors: list[Executor], number: signal.Signals) -> None:
    process = mpirun(grid, executors, "-n", "4", "sh", "-c", "echo $$; sleep 1000 & sleep 1000")
    until(lambda: len(process.lines()) == 4, timeout=PATIENCE, what="four ranks")
    process.signal(number, group=True)
    process.wait(timeout=PATIENCE)
    assert_nothing_runs(executors)
    finished(mpirun(grid, executors, "-n", "4", "true"))  # all places are free again


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_ranks_end_with_their_executor(grid: Grid, executors: list[Executor], number: signal.Signals) -> None:
    process = mpirun(grid, executors, "-n", "4", "sh", "-c", "echo $$; sleep 1000")
    until(lambda: len(process.lines()) == 4, timeout=PATIENCE, what="four ranks")
    executors[1].process.signal(number, group=True)
    assert process.wait(timeout=PATIENCE) == 1
    assert re.search("rank 2 on right is lost: its machine is gone", process.stderr()), process.report()
    until(lambda: not executors[1].host.pids(), timeout=PATIENCE, what="the end of what the executor started")
    assert_nothing_runs(executors[:1])
    if number == signal.SIGKILL:
        remove_program_folders()


def test_a_machine_that_falls_silent_is_told_and_may_be_done_without(grid: Grid, executors: list[Executor]) -> None:
    verbs = ["listen", "hear", "print=told", "hear", "finalize", "print=survived"]
    process = mpirun(grid, executors, "--keep-going", "-n", "3", "python", PROGRAM, *verbs)
    until(lambda: sum("told" in line for line in process.lines()) == 3, timeout=PATIENCE, what="the table")
    executors[1].host.cable.silence()
    finished(process)
    assert sum("survived" in line for line in process.lines()) == 2
    assert "rank 2 on right is lost: its machine does not answer; the others go on" in process.stderr()
    assert_nothing_runs(executors)  # nobody answers the executor either
    until(lambda: not program_folders(), timeout=PATIENCE, what="the end of the program's folder")


def test_only_users_of_the_grid_start_ranks(grid: Grid, executors: list[Executor]) -> None:
    stranger = Grid(grid.desk, "other")
    hosts = executors[0].address
    command: list[str | Path] = [PHALANX, "mpirun", "--hosts", hosts, "-n", "1", "sh", "-c", "echo here"]
    process = finished(grid.desk.popen(command, env=stranger.env), code=1)
    assert hosts in process.stderr()
    assert process.stdout() == ""


def test_what_cannot_be_reached_or_read_is_named(grid: Grid, executors: list[Executor]) -> None:
    nobody = f"{executors[0].host.address}:1"
    unreached = finished(grid.desk.popen([PHALANX, "mpirun", "--hosts", nobody, "true"], env=grid.env), code=1)
    assert nobody in unreached.stderr()
    assert "phalanx executor" in unreached.stderr()
    for words, what in [
        (["--file", "nothing.txt", "true"], "nothing.txt is not found"),
        (["./nothing"], "./nothing is not found"),
        (["no-such-program"], "rank 0 on left cannot be started"),
    ]:
        process = mpirun(grid, executors, "-n", "1", *words)
        assert process.wait(timeout=PATIENCE) != 0
        assert what in process.stderr(), process.report()


def test_links_get_no_less_than_executors_take(grid: Grid) -> None:
    """The user trusts the network, one executor's owner does not."""
    trusting = grid.executor(grid.desk.lab.host("left"), options=["--trusted", "10.0.0.0/8"])
    careful = grid.executor(grid.desk.lab.host("right"))
    hosts = grid.desk.home / "hosts.txt"
    hosts.write_text(
        f"{trusting.host.address} {trusting.port}\n{careful.host.address} {careful.port}\ntrusted 10.0.0.0/8\n"
    )
    command: list[str | Path] = [
        PHALANX,
        "mpirun",
        "--hosts",
        hosts,
        "--per-host",
        "1",
        "python",
        PROGRAM,
        "listen",
        "hear",
        "finalize",
    ]
    first, second = sorted(finished(grid.desk.popen(command, env=grid.env)).lines())
    clear, safe = "000000", "020202"  # of what is not marked, of marked data and of marked code
    own, other = first.split()[-1].split(b"cert".hex())[1:]
    assert (own[:6], other[:6]) == (clear, safe)
    other, own = second.split()[-1].split(b"cert".hex())[1:]
    assert (own[:6], other[:6]) == (clear, safe)
