"""Where a BSP program cannot leave a machine, that is said; tests/cluster moves real ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PHALANX = str(Path(sys.executable).with_name("phalanx"))

ASKS = """
from phalanx import bsp

with bsp.begin(checkpoint={checkpoint}):
    state = bsp.State(step=0)
    while state.step < 30:
        bsp.checkpoint(state)
        state.step += 1
        if state.step == 3 and bsp.pid() == 1:
            try:
                bsp.leave_machine()
            except bsp.BspError as error:
                print(error)
    print("ends")
"""


def bsprun(folder: Path, *words: str, checkpoint: int = 2) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(ASKS.format(checkpoint=checkpoint))
    command = [PHALANX, "bsprun", "-n", "2", "--no-prefix", *words, "program.py"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)


def test_processes_of_one_machine_are_told_that_they_stay(tmp_path: Path) -> None:
    done = bsprun(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    why = "leave_machine: all processes are on one machine: nobody else would have its checkpoint"
    assert sorted(done.stdout.splitlines()) == ["ends", "ends", why]


def test_a_program_without_checkpoints_is_told_so(tmp_path: Path) -> None:
    done = bsprun(tmp_path, "--transport", "sockets", checkpoint=0)
    assert (done.returncode, done.stderr) == (0, "")
    assert "leave_machine: the program makes no checkpoints at which a process could be moved" in done.stdout


def test_machines_that_are_only_said_to_be_several_are_one(tmp_path: Path) -> None:
    done = bsprun(tmp_path, "--transport", "sockets")
    assert (done.returncode, done.stdout) == (0, "ends\nends\n"), done.stderr
    assert "pid 1 cannot move from" in done.stderr
    assert "all of the program is on this machine (the program asks for it)" in done.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--move-slow", "2"], "--move-slow needs --hosts"),
        (["--move-slow", "2", "--checkpoint", "0", "--hosts", "lab:7400"], "--move-slow needs checkpoints"),
        (["--move-slow", "1"], "write TIMES, more than 1, or TIMES:STEPS"),
        (["--move-slow", "2:0"], "write TIMES, more than 1, or TIMES:STEPS"),
        (["--move-slow", "nan"], "write TIMES, more than 1, or TIMES:STEPS"),
        (["--move-slow", "2:3:4"], "write TIMES, more than 1, or TIMES:STEPS"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, words: list[str], why: str) -> None:
    done = bsprun(tmp_path, *words)
    assert done.returncode == 2
    assert why in " ".join(done.stderr.split()), done.stderr


def test_a_program_that_makes_no_checkpoints_cannot_be_watched(tmp_path: Path) -> None:
    """What the launcher tells processes elsewhere."""
    done = bsprun(tmp_path, "--transport", "sockets", "--env", "PHALANX_MOVE_SLOW=2:3", checkpoint=0)
    assert done.returncode == 1
    assert "--move-slow: the program makes no checkpoints" in done.stderr
