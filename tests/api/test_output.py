"""What tasks print and log reaches the user: whole lines, with the interpreter's name, before the results."""

from __future__ import annotations

import ctypes
import faulthandler
import io
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import phalanx as px
import pytest
from api.conftest import Script
from api.executors import Executors

NAMED = r"\[labpc/\d+\] "


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which tasks may write, here and there."""
    return tmp_path_factory.mktemp("granted")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory, granted: Path) -> Iterator[Executors]:
    with Executors(tmp_path_factory.mktemp("grid")) as made:
        made.start("labpc", "--grant", f"{granted}:rw")
        yield made


@pytest.fixture(params=["here", "there"])
def where(request: pytest.FixtureRequest, grid: Executors) -> dict[str, object]:
    """This machine, or an executor."""
    address = grid.started[0].line("listening on ").split()[2]
    return {} if request.param == "here" else {"where": address, "identity": grid.identity}


class Lines(list[str]):
    """A function of a line that keeps them."""

    def __call__(self, line: str) -> None:
        self.append(line)


def speaker() -> Callable[[int], int]:
    """A function that prints in every way, and that an executor need not import."""

    def speak(number: int) -> int:
        print("one", number)
        print(f"to standard error {number}", file=sys.stderr)
        logging.getLogger("tasks").warning("logged %d", number)
        ctypes.CDLL(None).puts(f"from C {number}".encode())
        subprocess.run(["echo", f"from a child {number}"], check=True)
        os.write(1, f"raw {number}\n".encode())
        return number

    return speak


speak = speaker()
SPOKEN = ["one {}", "to standard error {}", "logged {}", "from C {}", "from a child {}", "raw {}"]


def test_all_that_a_task_prints_is_there_before_its_result(where: dict[str, object]) -> None:
    lines = Lines()
    with px.Manager(**where, contract=px.ParDegree(1), output=lines) as manager:  # type: ignore[arg-type]
        for number in manager.compute(speak, range(20)):
            said = {re.sub(r"^\[\S+/\d+\] ", "", line) for line in lines}
            assert {text.format(number) for text in SPOKEN} <= said
        assert manager.submit(speak, 77).result(60) == 77
        assert any(line.endswith("] raw 77") for line in lines)
    assert len(lines) == len(SPOKEN) * 21
    assert all(re.match(r"\[[a-z-]+/1\] ", line) for line in lines), lines


def test_executors_lines_come_with_a_prefix_and_those_of_this_machine_without(
    grid: Executors, capsys: pytest.CaptureFixture[str]
) -> None:
    address = grid.started[0].line("listening on ").split()[2]
    with px.Manager(address, identity=grid.identity) as manager:
        assert manager.submit(speak, 1).result(60) == 1
    printed = capsys.readouterr()
    assert sorted(re.sub(NAMED, "> ", line) for line in printed.out.splitlines()) == sorted(
        f"> {line}" for line in ("one 1", "from C 1", "from a child 1", "raw 1")
    )
    assert re.fullmatch(f"{NAMED}to standard error 1\n{NAMED}logged 1\n", printed.err)
    with px.Manager(contract=px.ParDegree(1)) as manager:
        assert manager.submit(print, "hello").result(60) is None
    assert capsys.readouterr().out == "hello\n"


def test_the_user_chooses(where: dict[str, object], capfd: pytest.CaptureFixture[str]) -> None:
    def printed(output: object) -> str:
        with px.Manager(**where, contract=px.ParDegree(1), output=output) as manager:  # type: ignore[arg-type]
            assert manager.submit(speak, 5).result(60) == 5
        captured = capfd.readouterr()
        return captured.out + captured.err

    assert printed("off") == ""
    assert "/1] one 5\n" in printed("prefix")
    assert "one 5\n" in printed("plain").splitlines(keepends=True)
    file = io.StringIO()
    assert printed(file) == ""
    assert re.search(r"^\[\S+/1\] one 5\n", file.getvalue())
    for wrong in ("loud", 7):
        with pytest.raises(px.PhalanxError, match='write "prefix", "plain", "off"'):
            px.Manager(output=wrong)  # type: ignore[arg-type]


def test_lines_of_several_interpreters_are_whole(where: dict[str, object]) -> None:
    def pieces(number: int) -> None:
        for _ in range(50):
            os.write(1, f"{number}".encode() * 10)
            os.write(1, f"{number}".encode() * 10 + b"\n")

    lines = Lines()
    with px.Manager(**where, contract=px.ParDegree(2), output=lines) as manager:  # type: ignore[arg-type]
        assert list(manager.compute(pieces, range(4), stragglers=False)) == [None] * 4
    assert len(lines) == 200
    assert {re.sub(r"^\[\S+\] ", "", line) for line in lines} == {str(number) * 20 for number in range(4)}


def test_a_last_line_without_end_is_shown_when_its_interpreter_ends(where: dict[str, object]) -> None:
    lines = Lines()
    with px.Manager(**where, contract=px.ParDegree(1), output=lines) as manager:  # type: ignore[arg-type]
        assert manager.submit(print, "no", end="").result(60) is None
        assert manager.submit(print, " end", end="").result(60) is None
        assert lines == []
    assert [line.partition("] ")[2] for line in lines] == ["no end"]


@pytest.mark.parametrize("crash", ["segfault", "abort", "fatal"])
def test_the_last_words_of_a_process_that_crashes_are_shown(where: dict[str, object], crash: str) -> None:
    def crashes(_: int) -> None:
        print("about to crash")
        if crash == "segfault":
            ctypes.string_at(0)
        elif crash == "abort":
            os.abort()
        else:
            faulthandler._fatal_error_c_thread()  # type: ignore[attr-defined]
            threading.Event().wait(30)

    lines = Lines()
    with (
        px.Manager(**where, contract=px.ParDegree(1), output=lines) as manager,  # type: ignore[arg-type]
        pytest.raises(px.CulpritError),
    ):
        list(manager.compute(crashes, [1]))
    said = [line.partition("] ")[2] for line in lines]
    assert said.count("about to crash") == 3
    assert any(line.startswith("Fatal Python error: ") for line in said), said
    assert crash == "fatal" or any("in crashes" in line for line in said), said


def test_what_a_task_prints_before_it_ends_its_process_is_shown_on_this_machine() -> None:
    def ends(_: int) -> None:
        os.write(1, b"goodbye\n")
        os.kill(os.getpid(), signal.SIGKILL)

    lines = Lines()
    with px.Manager(contract=px.ParDegree(1), output=lines) as manager, pytest.raises(px.CulpritError):
        list(manager.compute(ends, [1]))
    assert [line.partition("] ")[2] for line in lines] == ["goodbye"] * 3


def test_a_task_that_prints_without_end_waits_for_a_slow_user(
    where: dict[str, object], granted: Path, tmp_path: Path
) -> None:
    """It neither fills memory nor is its interpreter lost, though nothing is shown for longer than a silence may be."""

    said = granted / tmp_path.name
    said.touch()

    def prints(count: int) -> int:
        for number in range(count):
            print(f"{number:0100}")
            if number % 1000 == 0:
                with said.open("ab") as file:
                    file.write(b"x")
        return count

    shown, goes_on, lines = threading.Event(), threading.Event(), Lines()

    def slow(line: str) -> None:
        shown.set()
        assert goes_on.wait(120)
        lines(line)

    with px.Manager(**where, contract=px.ParDegree(1), output=slow) as manager:  # type: ignore[arg-type]
        future = manager.submit(prints, 50_000)  # 5 MB
        try:
            assert shown.wait(60)
            before = -1
            while before != (before := said.stat().st_size):  # until it has stopped
                assert not goes_on.wait(3)  # twice the silence after which an interpreter is lost
            assert before < 20
        finally:
            goes_on.set()
        assert future.result(120) == 50_000
        assert len(lines) == 50_000
        assert manager.summary().lost == 0


def test_a_function_that_fails_is_reported_once_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fails(line: str) -> None:
        raise ValueError(line)

    with px.Manager(contract=px.ParDegree(1), output=fails) as manager:
        assert [manager.submit(speak, number).result(60) for number in range(3)] == [0, 1, 2]
    assert len(caplog.records) == 1
    assert "cannot be shown any more" in caplog.text


def test_a_program_that_ends_shows_what_was_printed(script: Script) -> None:
    source = """
        import phalanx as px

        def hello(number):
            print("hello", number, flush=True)
            return number

        manager = px.Manager(contract=px.ParDegree(2))
        futures = [manager.submit(hello, number) for number in range(10)]
    """
    process = script(source)
    assert process.wait() == 0, process.report()
    assert sorted(process.lines()) == [f"hello {number}" for number in range(10)]
    assert process.stderr() == ""
