"""`phalanx mpirun` on one machine: processes, their streams, their ends. The programs speak the launcher's language."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from conftest import Eventually, has_ended

from laboratory.processes import Process

PHALANX = str(Path(sys.executable).with_name("phalanx"))
PROGRAM = str(Path(__file__).with_name("rank_program.py"))
HERE = socket.gethostname()

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Process]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run("-n", "2", ...)` is `phalanx mpirun -n 2 ...`, to its end."""

    def run(*words: str, text: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        command = [PHALANX, "mpirun", *words]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=os.environ | env
        )

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """The same, left running."""
    started: list[Process] = []

    def start(*words: str) -> Process:
        files = tmp_path / f"output-{len(started)}"
        command = [PHALANX, "mpirun", *words]
        started.append(Process(command, title="mpirun", files=files, cwd=tmp_path, env=os.environ))
        return started[-1]

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()


def ranks(count: int, *verbs: str) -> list[str]:
    return ["-n", str(count), sys.executable, PROGRAM, *verbs]


def test_every_rank_knows_its_own_number_and_writes_with_it(run: Run) -> None:
    done = run("-n", "3", "sh", "-c", 'echo "$PHALANX_RANK"; echo wrong >&2')
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"^\[(\d)\] rank=\1 size=3 ", done.stdout, re.MULTILINE)) == ["0", "1", "2"]
    assert sorted(done.stderr.splitlines()) == ["[0] wrong", "[1] wrong", "[2] wrong"]


def test_a_secret_is_the_programs_own(run: Run) -> None:
    secrets = [re.findall("secret=([0-9a-f]{64})$", run("-n", "2", "env").stdout, re.MULTILINE) for _ in range(2)]
    assert [len(of_one) for of_one in secrets] == [2, 2]
    assert len({secret for of_one in secrets for secret in of_one}) == 2


def test_ranks_of_a_machine_share_memory_and_ring_each_other(run: Run) -> None:
    done = run("--no-prefix", *ranks(3, "join", "segment", "ring", "read", "finalize"))
    assert done.returncode == 0, done.stderr
    assert "segment 0 1 2" in done.stdout


def test_programs_behind_colons_have_the_ranks_that_follow(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text('#!/bin/sh\necho "$0 $1 ${PHALANX_RANK#*app=}" | cut -d" " -f1-3\n')
    (tmp_path / "a.sh").chmod(0o755)
    done = run("-n", "1", "./a.sh", "x", ":", "-n", "2", "./a.sh", "-n", ":", "./a.sh", "z")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "[0] ./a.sh x 0",
        "[1] ./a.sh -n 1",
        "[2] ./a.sh -n 1",
        "[3] ./a.sh z 2",
    ]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["-n", "2", "no-such-program"], "no-such-program is not found"),
        (["-n", "2", "./plain.txt"], "plain.txt may not be executed"),
        (["-n", "0", "true"], "0"),
        (["-n", "x", "true"], "x"),
        (["true", ":"], "between colons"),
        (["true", ":", "-n"], "number of processes"),
        ([], "Missing argument"),
        (["--level", "clear", "true"], "--level is for --transport sockets"),
        (["--policy", "all", "true"], "--policy needs --hosts"),
        (["--identity", "nobody.pem", "true"], "--identity needs --hosts"),
        (["--file", "plain.txt", "true"], "--file needs --hosts"),
        (["--per-host", "1", "true"], "--per-host needs --hosts"),
    ],
)
def test_a_command_line_that_makes_no_sense_starts_nothing(
    run: Run, tmp_path: Path, words: list[str], what: str
) -> None:
    (tmp_path / "plain.txt").write_text("plain")
    done = run(*words)
    assert done.returncode != 0
    assert what in done.stderr
    assert "Traceback" not in done.stderr


def test_a_script_of_python_needs_no_python_before_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text("import sys; print(sys.argv[1:])")
    assert run("-n", "1", "ring.py", "-n", "3").stdout == "[0] ['-n', '3']\n"


def test_programs_find_the_library(run: Run) -> None:
    done = run("-n", "1", "--no-prefix", "sh", "-c", "echo $MPI4PY_LIBMPI; echo $LD_LIBRARY_PATH", LD_LIBRARY_PATH="/x")
    name, path = done.stdout.splitlines()
    folder = Path(name).parent
    assert (Path(name).name, folder.name) == ("libmpi.so.12", "_mpi")
    assert path == f"{folder}:/x"


def test_lines_are_whole_however_they_were_written(run: Run) -> None:
    code = """
import sys, time
for number in range(300):
    for part in ("a" * 50, "b" * 50, f"{number}\\n"):
        sys.stdout.write(part); sys.stdout.flush()
print("the end", end="")
"""
    done = run("-n", "3", sys.executable, "-c", code)
    lines = done.stdout.splitlines()
    assert len(lines) == 3 * 301
    for rank in range(3):
        own = [line[4:] for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [f"{'a' * 50}{'b' * 50}{number}" for number in range(300)] + ["the end"]


def test_not_a_byte_is_lost_or_added_without_prefixes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(bytes(range(256)) * 20000)
    command = [PHALANX, "mpirun", "--no-prefix", "-n", "1", "cat", "bytes"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60)
    assert done.stdout == (tmp_path / "bytes").read_bytes()


def test_each_rank_and_stream_has_a_file(run: Run, tmp_path: Path) -> None:
    script = 'echo out; printf "no end" >&2'
    done = run("--output", "said", "-n", "2", "sh", "-c", script)
    assert done.stdout.count("out") == 2
    files = {path.name: path.read_text() for path in (tmp_path / "said").iterdir()}
    assert files == {"0.out": "out\n", "0.err": "no end", "1.out": "out\n", "1.err": "no end"}


def test_a_folder_that_cannot_be_made_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("--output", "file/said", "-n", "2", "true")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "directory" in done.stderr


def test_standard_input_is_rank_0s(run: Run) -> None:
    done = run("-n", "3", "sh", "-c", "wc -c", text="x" * 1_000_000)
    assert sorted(done.stdout.splitlines()) == ["[0] 1000000", "[1] 0", "[2] 0"]


def test_who_does_not_read_input_is_not_kept_by_it(run: Run) -> None:
    assert run("-n", "2", "true", text="x" * 1_000_000).returncode == 0


@pytest.mark.parametrize(("closed", "program"), [("<&-", "cat"), (">&-", "echo"), ("2>&-", "echo")])
def test_standard_streams_that_are_closed_are_empty(tmp_path: Path, closed: str, program: str) -> None:
    command = ["sh", "-c", f'"$@" {closed}', "sh", PHALANX, "mpirun", "-n", "2", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


def test_a_slow_reader_of_the_output_slows_the_writers_and_nothing_grows(tmp_path: Path) -> None:
    code = "import sys\nfor n in range(20000): print('x' * 999)\nprint('done')"
    command = [PHALANX, "mpirun", "-n", "2", sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as launcher:
        assert launcher.stdout is not None
        launcher.stdout.read(1)
        time.sleep(0.3)  # in which a launcher that stored the output would have read it all
        assert launcher.poll() is None
        peak = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{launcher.pid}/status").read_text())
        lines = launcher.stdout.read().splitlines()
    assert launcher.returncode == 0
    assert sum(line.endswith(b"] done") for line in lines) == 2
    assert peak is not None
    assert int(peak[1]) < 200_000


def test_the_reader_of_the_output_may_have_enough(tmp_path: Path) -> None:
    shell = f"{shlex.quote(PHALANX)} mpirun -n 2 yes | head -n 2"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, timeout=30, cwd=tmp_path)
    assert done.stdout == "[0] y\n[0] y\n" or done.stdout.count("y") == 2
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("verbs", "code", "what"),
    [
        (["1:exit=7", "sleep=1000"], 7, "rank 1 on {here} exited with status 7"),
        (["2:die=SIGSEGV", "sleep=1000"], 139, "rank 2 on {here} was killed by signal 11 (SIGSEGV)"),
        (["join", "0:die=SIGKILL", "sleep=1000"], 137, "rank 0 on {here} was killed by signal 9 (SIGKILL)"),
        (["join", "1:exit=0", "sleep=1000"], 1, "rank 1 on {here} ended without MPI_Finalize"),
        (["join", "1:abort=5", "sleep=1000"], 5, "rank 1 on {here} aborted with code 5: a reason"),
        (["1:nonsense", "sleep=1000"], 1, "rank 1 on {here} does not speak the launcher's language"),
        (["1:exit=0", "join", "sleep=1000"], 1, "rank 1 on {here} ended without MPI_Init, and others wait for it"),
        (["join", "1:exit=3", "stubborn"], 3, "rank 1 on {here} exited with status 3"),
    ],
)
def test_the_first_failure_ends_all_and_is_the_only_one_told(run: Run, verbs: list[str], code: int, what: str) -> None:
    began = time.monotonic()
    done = run(*ranks(3, *verbs))
    assert time.monotonic() - began < 30  # the others would have slept for 1000 s
    told = [line for line in done.stderr.splitlines() if line.startswith("phalanx:")]
    assert len(told) == 1, done.stderr
    assert what.format(here=HERE) in told[0]
    assert done.returncode == code


def test_what_cannot_be_started_is_named(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/nonexistent/python\n")
    script.chmod(0o755)
    done = run("-n", "1", "./script")
    assert done.returncode == 127
    assert re.search(
        r"cannot be started: the interpreter that the program \S*script names .* is not found", done.stderr
    )


def test_the_others_hear_of_a_loss_before_they_are_ended(run: Run) -> None:
    done = run(*ranks(3, "join", "ring", "ring", "1:die=SIGKILL", "hear", "sleep=1000"))
    lost = [line for line in done.stdout.splitlines() if "lost" in line]
    assert len(lost) == 2
    assert all(f"rank 1 on {HERE} was killed by signal 9" in line for line in lost)


def test_the_others_may_keep_going(run: Run) -> None:
    done = run("--keep-going", *ranks(3, "join", "1:die=SIGKILL", "hear", "finalize", "print=survived"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("survived") == 2
    assert "the others go on" in done.stderr


def test_processes_that_pass_no_messages_may_keep_going_too(run: Run) -> None:
    done = run("--keep-going", *ranks(2, "0:exit=4", "print=survived"))
    assert done.returncode == 4
    assert "[1] survived" in done.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_everything(start: Start, number: signal.Signals, code: int) -> None:
    process = start(*ranks(2, "print=here", "sleep=1000"))
    process.line("[0] here")
    process.line("[1] here")
    process.signal(number)
    assert process.wait(timeout=30) == code
    assert "Traceback" not in process.stderr()


def test_who_does_not_hear_is_killed_and_a_second_ctrl_c_does_not_wait(start: Start) -> None:
    process = start(*ranks(2, "stubborn"))
    process.line("[0] stubborn")
    process.line("[1] stubborn")
    process.signal(signal.SIGINT)
    process.signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130


def test_signals_of_the_user_are_passed_on(start: Start) -> None:
    process = start("-n", "2", "sh", "-c", 'trap "echo heard; exit 0" USR1; echo ready; while :; do sleep 0.01; done')
    process.line("[0] ready")
    process.line("[1] ready")
    process.signal(signal.SIGUSR1)
    assert process.wait(timeout=30) == 0
    assert process.stdout().count("heard") == 2


@pytest.mark.parametrize("program", ["sleep 1000", "sleep 1000 & sleep 1000", "sh -c 'sleep 1000; true'; true"])
def test_nothing_is_left_when_the_launcher_is_killed(start: Start, eventually: Eventually, program: str) -> None:
    process = start("-n", "2", "sh", "-c", f"echo began $$; {program}")
    pids = [int(process.line(f"[{rank}] began").split()[2]) for rank in range(2)]
    process.kill()
    for pid in pids:
        eventually(partial(has_ended, pid), what="the end of a group")


def test_what_a_rank_leaves_behind_ends_with_it(run: Run, eventually: Eventually) -> None:
    done = run("-n", "1", "sh", "-c", "sleep 1000 & echo $$")
    group = int(done.stdout.split()[1])
    eventually(partial(has_ended, group), what="the end of what the rank started")


def test_output_of_a_process_that_escaped_is_not_waited_for(run: Run) -> None:
    done = run("-n", "1", "sh", "-c", "setsid sh -c 'echo $$ >&2; exec sleep 1000' & sleep 0.2; echo all")
    assert done.stdout == "[0] all\n"
    os.kill(int(done.stderr.split()[1]), signal.SIGKILL)


def test_a_bsp_program_is_started_by_a_command_of_its_own(tmp_path: Path) -> None:
    command = [PHALANX, "bsprun", "-n", "2", "echo", "here"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert sorted(done.stdout.splitlines()) == ["[0] here", "[1] here"]


def test_a_terminal_shows_colours_and_questions(tmp_path: Path) -> None:
    main, side = os.openpty()
    code = "name = input('who? ')\nprint('hello', name)"
    command = [PHALANX, "mpirun", "-n", "1", sys.executable, "-c", code]
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        command, stdin=side, stdout=side, stderr=side, cwd=tmp_path, env=env, start_new_session=True
    )
    os.close(side)
    seen = b""
    while b"who? " not in seen:
        seen += os.read(main, 1000)
    os.write(main, b"me\n")
    with suppress(OSError):  # EIO: the other side is closed
        while part := os.read(main, 1000):
            seen += part
    os.close(main)
    assert process.wait(timeout=30) == 0
    assert b"\x1b[36m[0]\x1b[0m who? " in seen
    assert b"hello me" in seen


LOSS = """
import os, signal
from mpi4py import MPI
from phalanx.adapters.mpi4py import ERR_PROC_FAILED
world = MPI.COMM_WORLD
if world.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    {wait}
except MPI.Exception as error:
    assert error.Get_error_class() == ERR_PROC_FAILED
    print(error)
"""
WAITS = ["world.recv(source=1)", "world.recv()", "world.Probe(1)", "world.ssend(0, 1)", "world.allreduce(0)"]


@pytest.mark.parametrize("transport", ["shared", "sockets"])
@pytest.mark.parametrize("wait", WAITS)
def test_what_a_lost_rank_has_a_part_in_fails(run: Run, transport: str, wait: str) -> None:
    options = ["-n", "3", "--keep-going", "--no-prefix", "--transport", transport]
    done = run(*options, sys.executable, "-c", LOSS.format(wait=wait))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"rank 1 on {HERE} was killed by signal 9 (SIGKILL)") == 2, done.stdout


def test_links_are_chosen_for_one_machine_only(run: Run) -> None:
    done = run("--transport", "sockets", "--hosts", "a:1", "-n", "1", "true")
    assert done.returncode == 2
    assert "--transport is for processes of this machine" in done.stderr
