"""`px.mpirun` and `px.bsprun`: message passing programs as calls of Python."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.conftest import Script
from api.executors import Executors

from laboratory.processes import until

#: Rank 1 exits with an error; the others sleep.
FAILS = "import os, sys, time; sys.exit(7) if 'rank=1' in os.environ['PHALANX_RANK'].split() else time.sleep(60)"


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Executors]:
    with Executors(tmp_path) as made:
        yield made


def test_a_program_gives_its_codes_and_what_it_wrote() -> None:
    command = ["sh", "-c", "echo out $PHALANX_TEST_WORD; echo err >&2"]
    result = px.mpirun(command, n=3, env={"PHALANX_TEST_WORD": "word"}, capture_output=True)
    assert (result.code, result.codes) == (0, [0, 0, 0])
    assert [(it.rank, it.stdout, it.stderr) for it in result.ranks] == [(n, "out word\n", "err\n") for n in range(3)]
    assert (result.stdout, result.stderr) == ("out word\n" * 3, "err\n" * 3)
    assert {it.machine for it in result.ranks} == {os.uname().nodename}


def test_output_is_shown_with_prefixes_or_without(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = px.mpirun(["echo", "hello"], n=2)
    assert result.stdout is None
    assert sorted(capfd.readouterr().out.splitlines()) == ["[0] hello", "[1] hello"]
    px.mpirun(["echo", "hello"], n=2, prefix=False, output=tmp_path / "said")
    assert capfd.readouterr().out == "hello\nhello\n"
    assert (tmp_path / "said" / "1.out").read_text() == "hello\n"


def test_scripts_and_modules_run_in_the_folder_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "where.py").write_text("import os, sys; print(os.getcwd(), *sys.argv[1:])\n")
    for command in (["where.py", "x"], [sys.executable, "-m", "where", "x"], ["python", "where.py", "x"]):
        result = px.mpirun(command, n=1, cwd=tmp_path, capture_output=True)
        assert result.stdout == f"{tmp_path} x\n", command
    with pytest.raises(px.LaunchError, match=r"nosuch\.py is not found"):
        px.mpirun("nosuch.py", n=1)


STANDS = """
import os, signal, time
if "rank=1" in os.environ["PHALANX_RANK"].split():
    print(os.getpid(), file=open("pid", "w"), flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
elif GOES_ON:
    while not os.path.exists("pid") or not open("pid").read().endswith("\\n"):
        time.sleep(0.01)
    time.sleep(GOES_ON)
    os.kill(int(open("pid").read()), signal.SIGCONT)
print("ended")
"""


@pytest.mark.parametrize("transport", ["shared", "sockets"])
def test_a_process_that_stands_still_for_longer_than_its_patience_is_lost(transport: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"GOES_ON = 0{STANDS}"]
    options: dict[str, Any] = {"n": 2, "capture_output": True, "cwd": tmp_path, "transport": transport}
    lost = r"(?m)^rank 1 on .* is lost: it was stopped for \d\.\d s, and was ended$"
    with pytest.raises(px.RanksError, match=lost) as caught:
        px.mpirun(command, patience=0.5, timeout=60, **options)
    assert caught.value.result.code == 1
    result = px.mpirun(command, patience=0.5, timeout=60, keep_going=True, check=False, **options)
    assert (result.ranks[0].stdout, result.ranks[1].stdout) == ("ended\n", "")
    assert result.ranks[1].why.startswith("it was stopped for")


def test_a_process_that_goes_on_in_time_is_not_lost(tmp_path: Path) -> None:
    for patience, still in ((None, 1), (30, 0.5)):
        command = [sys.executable, "-c", f"GOES_ON = {still}{STANDS}"]
        result = px.mpirun(command, n=2, capture_output=True, cwd=tmp_path, patience=patience, timeout=60)
        assert (result.code, result.stdout) == (0, "ended\nended\n")
        (tmp_path / "pid").unlink()
    with pytest.raises(px.LaunchError, match="patience is a number of seconds"):
        px.mpirun(command, n=2, patience=float("nan"))


def test_an_error_has_the_last_line_that_the_rank_wrote() -> None:
    raises = "import os; assert 'rank=1' not in os.environ['PHALANX_RANK'].split(), 'x' * 1000"
    with pytest.raises(px.RanksError, match=r"(?m)^rank 1 on .* exited with status 1.*: AssertionError: x{384}$"):
        px.mpirun([sys.executable, "-c", raises], n=2, capture_output=True)


def test_an_error_says_which_rank_on_which_machine_and_why(capfd: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", FAILS]
    with pytest.raises(px.RanksError, match=r"rank 1 on .* exited with status 7") as caught:
        px.mpirun(command, n=2, capture_output=True)
    error = caught.value
    assert (error.rank, error.machine, error.result.code) == (1, os.uname().nodename, 7)
    assert error.result.ranks[1].code == 7
    assert (error.result.ranks[0].code or 0) < 0, "the other one was ended by a signal"
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.rank, again.result) == (str(error), 1, error.result)
    assert capfd.readouterr().err == "", "what is captured is not shown"
    result = px.mpirun(command, n=2, check=False, capture_output=True)
    assert (result.code, result.codes[1]) == (7, 7)
    assert result.messages[0].startswith("rank 1 on ")


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with pytest.raises(px.RanksTimeoutError, match=r"did not end within 1\.5 s") as caught:
        px.mpirun(["sh", "-c", f"echo begun; echo $$ > {file}; exec sleep 1000"], n=1, timeout=1.5, capture_output=True)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.result.stdout in ("begun\n", "")  # on a machine that had no time for it
    assert not file.exists() or not Path(f"/proc/{file.read_text().strip()}").exists()


def test_ctrl_c_ends_all(script: Script, tmp_path: Path) -> None:
    source = """
        import phalanx as px

        try:
            px.mpirun(["sh", "-c", "echo $$ > pid-$$; echo here; exec sleep 1000"], n=2)
        except KeyboardInterrupt:
            print("interrupted")
    """
    process = script(source)
    begun = lambda: len([line for line in process.lines() if line.endswith("here")]) == 2  # noqa: E731
    until(begun, timeout=60, what="both ranks")
    process.signal(signal.SIGINT)
    assert process.wait() == 0, process.report()
    assert "interrupted" in process.lines()
    pids = [path.read_text().strip() for path in tmp_path.glob("pid-*")]
    assert len(pids) == 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_programs_start_from_any_thread() -> None:
    results: list[px.LaunchResult] = []
    thread = threading.Thread(target=lambda: results.append(px.mpirun("true", n=2)))
    thread.start()
    thread.join(60)
    assert [it.codes for it in results] == [[0, 0]]


def test_ranks_at_executors_share_the_places_of_the_programs_manager(grid: Executors, tmp_path: Path) -> None:
    address = grid.start("labpc", interpreters=2)
    (tmp_path / "hello.py").write_text("print('hello from', __name__, open('data').read())\n")
    (tmp_path / "data").write_text("data")
    with px.Manager(address, identity=grid.identity) as manager:
        assert list(manager.map(abs, [-1, -2])) == [1, 2]
        result = px.mpirun(
            "hello.py", hosts=address, identity=grid.identity, cwd=tmp_path, files=["data"], capture_output=True
        )
        assert [it.machine for it in result.ranks] == ["labpc", "labpc"]
        assert result.stdout == "hello from __main__ data\n" * 2
        with pytest.raises(px.RecruitError, match="3 processes were asked for, but 2 places are free: labpc has 2"):
            px.mpirun("true", n=3, hosts=address, identity=grid.identity)
        assert list(manager.map(abs, [-3])) == [3]


def test_bsp_programs_run_too(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(
        "from phalanx import bsp\n\nwith bsp.begin():\n    bsp.sync()\n    print(bsp.pid(), 'of', bsp.nprocs())\n"
    )
    result = px.bsprun("sums.py", n=2, cwd=tmp_path, capture_output=True)
    assert (result.codes, result.stdout) == ([0, 0], "0 of 2\n1 of 2\n")
    with pytest.raises(px.LaunchError, match="move_slow needs hosts"):
        px.bsprun("sums.py", n=2, move_slow=(2.0, 10))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"n": 0}, "from 1 to 65536 processes"),
        ({"n": 1, "files": ["x"]}, "files need hosts"),
        ({"n": 1, "level": "safe"}, "level for transport"),
        ({"n": 1, "transport": "pigeons"}, 'transport is "shared" or "sockets"'),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], what: str) -> None:
    with pytest.raises(px.LaunchError, match=what):
        px.mpirun("true", **options)  # type: ignore[arg-type]
