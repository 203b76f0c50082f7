"""Progress bars: in a terminal and in the kernel of a notebook, and nothing elsewhere."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import phalanx as px
import pytest
from api import tasks
from phalanx import _progress

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class InTerminal:
    """A program whose standard error is a terminal; ``printed`` is what came there so far."""

    def __init__(self, source: str, folder: Path, **env: str) -> None:
        (folder / "program.py").write_text(dedent(source))
        self._ours, theirs = os.openpty()
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM", "COLUMNS")}
        with (folder / "stdout").open("wb") as stdout:
            self.process = subprocess.Popen(
                [sys.executable, "program.py"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=theirs,
                env={**inherited, "TERM": "xterm", "COLUMNS": "120", **env},
                start_new_session=True,
            )
        os.close(theirs)
        self._stdout = folder / "stdout"
        self.printed = ""

    def read(self, *, until: str | None = None, timeout: float = 60) -> str:
        """What it prints until it has printed some text, or until its end."""
        end = time.monotonic() + timeout
        while until is None or until not in self.printed:
            ready, _, _ = select.select([self._ours], [], [], max(end - time.monotonic(), 0))
            assert ready, f"waited {timeout} s in vain for {until or 'its end'}: {self.printed}"
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # nobody has the other end any more
                break
            self.printed += piece.decode()
        return self.printed

    def end(self) -> tuple[str, str, int]:
        """What it printed to the terminal and to standard output, and its exit code."""
        self.read()
        return self.printed, self._stdout.read_text(), self.process.wait(60)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@contextmanager
def in_terminal(source: str, folder: Path, **env: str) -> Iterator[InTerminal]:
    program = InTerminal(source, folder, **env)
    try:
        yield program
    finally:
        program.close()


COMPUTE = """
    import phalanx as px

    def double(n):
        return 2 * n

    with px.Manager(contract=px.ParDegree(2)) as manager:
        print(sum(manager.compute(double, range(500), progress=True)))
        print(sum(manager.map(double, range(300), progress="a name")))
        print(sum(manager.compute(double, iter(range(200)), progress=True)))
"""


def test_a_terminal_shows_how_many_of_how_many(tmp_path: Path) -> None:
    with in_terminal(COMPUTE, tmp_path) as program:
        printed, stdout, code = program.end()
    assert code == 0, printed
    assert stdout.split() == [str(2 * sum(range(size))) for size in (500, 300, 200)]
    plain = COLOUR.sub("", printed)
    assert re.search(r"double .*500/500 ", plain)
    assert re.search(r"a name .*300/300 ", plain)
    assert re.search(r"double .*200/\?", plain)
    assert re.search(r"/s ", plain)
    assert COLOUR.search(printed)
    assert printed.count(HIDE) == printed.count(SHOW) == 3


def test_no_color_is_respected(tmp_path: Path) -> None:
    with in_terminal(COMPUTE, tmp_path, NO_COLOR="1") as program:
        printed, _, code = program.end()
    assert code == 0
    assert "500/500" in printed
    assert not re.search(r"\x1b\[[0-9;]*3[0-9][0-9;]*m", printed)


@pytest.mark.parametrize("how", ["raises", "exits", "is left"])
def test_the_cursor_comes_back(tmp_path: Path, how: str) -> None:
    ends = {"raises": "1 / 0", "exits": "import sys; sys.exit(3)", "is left": "import os; os.kill(os.getpid(), 2)"}
    source = f"""
        import phalanx as px

        manager = px.Manager(contract=px.ParDegree(1))
        kept = manager.compute(abs, range(1000), progress=True)
        next(kept)
        {ends[how]}
    """
    with in_terminal(source, tmp_path) as program:
        printed, _, code = program.end()
    assert code != 0
    assert HIDE in printed
    assert printed.rfind(SHOW) > printed.rfind(HIDE)


def test_ctrl_c_leaves_a_clean_terminal(tmp_path: Path) -> None:
    source = """
        import time
        import phalanx as px

        with px.Manager(contract=px.ParDegree(1)) as manager:
            list(manager.compute(time.sleep, [0.1] * 10_000, progress=True))
    """
    with in_terminal(source, tmp_path) as program:
        program.read(until="1/10000")
        os.kill(program.process.pid, signal.SIGINT)
        printed, _, code = program.end()
    assert code == -signal.SIGINT
    assert printed.rfind(SHOW) > printed.rfind(HIDE)
    assert "KeyboardInterrupt" in printed[printed.rfind(SHOW) :]


def test_bars_of_computations_at_once_stand_below_each_other(tmp_path: Path) -> None:
    source = """
        import phalanx as px

        with px.Manager(contract=px.ParDegree(2)) as manager:
            one = manager.compute(abs, range(100), progress="one")
            two = manager.compute(abs, range(50), progress="two")
            for pair in zip(one, two):
                print(pair)
            print(len(list(one)))
    """
    with in_terminal(source, tmp_path) as program:
        printed, stdout, code = program.end()
    assert code == 0, printed
    assert len(stdout.splitlines()) == 51
    last = COLOUR.sub("", printed).rsplit("one", 1)[1]
    assert "100/100" in last
    assert "two" in last
    assert "50/50" in last


def test_what_tasks_print_stays_where_it_belongs(tmp_path: Path) -> None:
    source = """
        import phalanx as px

        def show(n):
            print("task", n)

        with px.Manager(contract=px.ParDegree(1)) as manager:
            list(manager.compute(show, range(3), progress=True))
    """
    with in_terminal(source, tmp_path) as program:
        printed, stdout, code = program.end()
    assert code == 0, printed
    assert stdout.splitlines() == ["task 0", "task 1", "task 2"]
    assert "task" not in printed


def test_elsewhere_nothing_is_shown(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(dedent(COMPUTE))
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.split()) == 3


def test_without_a_bar_nothing_that_draws_is_imported(tmp_path: Path) -> None:
    check = "import sys; assert not {'rich', 'IPython', 'asyncio'} & set(sys.modules), sys.modules.keys()"
    program = dedent(COMPUTE.replace(", progress=True", "").replace(', progress="a name"', "")) + check
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("wrong", [1, None, 0.5])
def test_wrong_words_are_refused(manager: px.Manager, wrong: Any) -> None:
    with pytest.raises(TypeError, match="progress is True, False, or the name beside the bar"):
        manager.compute(tasks.double, [1], progress=wrong)
    with pytest.raises(TypeError, match="progress is True, False, or the name beside the bar"):
        manager.map(tasks.double, [1], progress=wrong)


NOTEBOOK = """
import json, sys
from jupyter_client.manager import KernelManager

shown = []

def collect(message):
    if message["msg_type"] in ("display_data", "update_display_data", "stream", "error"):
        content = message["content"]
        shown.append((message["msg_type"], content.get("data", {}).get("text/html") or str(content)))

kernel = KernelManager(kernel_name="python3", transport="ipc")
kernel.start_kernel()
client = kernel.client()
try:
    client.start_channels()
    client.wait_for_ready(timeout=60)
    client.execute_interactive(sys.stdin.read(), timeout=60, output_hook=collect, stop_on_error=True)
finally:
    client.stop_channels()
    kernel.shutdown_kernel(now=True)
print(json.dumps(shown))
"""
CELL = """
import phalanx as px

with px.Manager(contract=px.ParDegree(2)) as manager:
    results = manager.compute(abs, range(100), progress="<b>")
    assert sum(results) == 4950
try:
    with px.Manager(contract=px.ParDegree(1)) as manager:
        list(manager.compute(lambda n: 1 / n, iter([1, 0]), progress=True))
except ZeroDivisionError:
    pass
"""


def test_a_notebook_shows_a_bar_below_its_cell(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", NOTEBOOK]
    done = subprocess.run(command, input=CELL, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert {kind for kind, _ in shown} == {"display_data", "update_display_data"}, shown
    assert [kind for kind, _ in shown].count("display_data") == 2
    assert 'value="0" max="100"' in shown[0][1]
    last = next(text for kind, text in reversed(shown) if "&lt;b&gt;" in text)
    assert 'value="100" max="100"' in last
    assert "100/100" in last
    assert "<progress ></progress>" in shown[-1][1]


@pytest.mark.parametrize(
    ("number", "text"), [(0.25, "0.25"), (12, "12"), (1234, "1.23k"), (999.8, "1k"), (999_999, "1M"), (2.5e6, "2.5M")]
)
def test_rates_are_short(number: float, text: str) -> None:
    assert _progress.rate(number) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0:00"), (59.7, "1:00"), (125, "2:05"), (3600, "1:00:00")])
def test_times_are_short(seconds: float, text: str) -> None:
    assert _progress.clock(seconds) == text
