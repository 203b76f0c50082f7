"""BSP programs that lose processes go on from their last checkpoint: started by `phalanx bsprun` on one machine."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from glob import glob
from pathlib import Path

import pytest

PHALANX = str(Path(sys.executable).with_name("phalanx"))

#: Everything that a process is goes into the result: registered memory, messages, declared arrays and objects.
PROGRAM = """
import hashlib, os, random, sys, time
import numpy as np
from phalanx import bsp

pause, last = float(sys.argv[1]), int(sys.argv[2])
with bsp.begin(checkpoint=3):
    p, n = bsp.pid(), bsp.nprocs()
    area = np.full(1000, p, dtype=np.int64)
    own = np.zeros(50_000 if p else 2_000_000)  # one process writes its checkpoints for longer than the others
    bsp.push_reg(area)
    state = bsp.State(step=0, own=own, random=random.Random(p), seen=[])
    with open(f"pid.{p}", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"pid.{p}", f"process.{p}")
    while state.step < last:
        bsp.checkpoint(state)
        assert state.own is own, "an array of the state stays the same array"
        state.seen += [payload for _, payload in bsp.messages()]
        if state.step % 5 == 0:
            print(f"{p} is at {state.step}", flush=True)
        number = state.random.randrange(1000)
        bsp.put((p + number) % n, area[number:number + 1] * 31 % 10007 + p, area, number)
        own[number] += number * 0.1
        bsp.sync()
        bsp.send((p + 1) % n, (state.step, float(own.sum())), tag=p)
        time.sleep(pause)
        state.step += 1
    bsp.sync()
    found = hashlib.sha256(area.tobytes() + own.tobytes() + repr((state.seen, state.random.random())).encode())
    print(f"{p}: {found.hexdigest()}", flush=True)
"""


def start(folder: Path, *words: str, processes: int = 3) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [PHALANX, "bsprun", "-n", str(processes), "--no-prefix", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, cwd=folder, env=environment, **pipes)  # type: ignore[call-overload,no-any-return]


def result(output: str) -> list[str]:
    """The last words of all; some come twice where the program was lost after them."""
    return sorted(set(re.findall(r"^\d: [0-9a-f]{64}$", output, re.MULTILINE)))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the program says in the end; it is the same however fast it is."""
    program = start(tmp_path_factory.mktemp("undisturbed"), "--checkpoint", "0", "program.py", "0", "60")
    output, error = program.communicate(timeout=60)
    assert (program.returncode, error) == (0, "")
    assert len(result(output)) == 3
    return result(output)


def processes(folder: Path, known: set[int]) -> list[int]:
    """Those of the latest start, once all have said who they are."""
    found = []
    for path in sorted(folder.glob("process.*")):
        number = int(path.read_text())
        if number not in known:
            found.append(number)
    return found


def kill_some(program: subprocess.Popen[str], folder: Path, kills: int, seed: int) -> None:
    """Kills processes of the program at random moments, each time after all have begun."""
    chosen, killed = random.Random(seed), set[int]()
    for _ in range(kills):
        deadline = time.monotonic() + 30
        while len(alive := processes(folder, killed)) < 3:
            if program.poll() is not None:
                return
            assert time.monotonic() < deadline, "the program does not start again"
            time.sleep(0.002)
        time.sleep(chosen.random() * 0.3)
        victim = chosen.choice(alive)
        killed.update(alive)
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return


@pytest.mark.parametrize("seed", range(6))
def test_kills_at_random_moments_do_not_change_the_result(undisturbed: list[str], tmp_path: Path, seed: int) -> None:
    program = start(tmp_path, "--restarts", "4", "program.py", "0.01", "60")
    kill_some(program, tmp_path, 4, seed)  # on a busy machine all of them before the first checkpoint
    output, error = program.communicate(timeout=60)
    assert program.returncode == 0, error
    assert result(output) == undisturbed
    assert "was killed by signal 9 (SIGKILL)" in error
    assert "phalanx: the program goes on from" in error
    assert not list(tmp_path.glob("phalanx-*")), "the folder of the checkpoints is gone"


def test_a_kill_while_a_checkpoint_is_written_leaves_the_one_before(undisturbed: list[str], tmp_path: Path) -> None:
    """A process is killed when its own file of a checkpoint is there and another's is not, or just begun."""
    program = start(tmp_path, "--checkpoint", "1", "program.py", "0.01", "60")
    torn, killed, deadline = 0, set[int](), time.monotonic() + 40
    while torn < 3 and program.poll() is None and time.monotonic() < deadline:
        alive = processes(tmp_path, killed)
        found = glob(f"{tmp_path}/phalanx-*/*/.phalanx-checkpoints/*")  # noqa: PTH207 - folders go meanwhile
        files = [Path(path).name for path in found]
        newest = max((int(name.split(".")[0]) for name in files), default=0)
        whole = [name for name in files if name.startswith(f"{newest}.") and not name.endswith(".part")]
        if len(alive) == 3 and newest > 2 and len(whole) < 3:
            os.kill(alive[torn % 3], signal.SIGKILL)
            killed.update(alive)
            torn += 1
    output, error = program.communicate(timeout=60)
    assert torn > 0, "no checkpoint was seen while it was written"
    assert program.returncode == 0, error
    assert result(output) == undisturbed


def test_a_program_that_kills_itself_every_time_ends_with_an_error(tmp_path: Path) -> None:
    text = "import os, signal\nfrom phalanx import bsp\nwith bsp.begin(checkpoint=1):\n    bsp.checkpoint()\n"
    (tmp_path / "suicide.py").write_text(
        text + "    os.kill(os.getpid(), signal.SIGSEGV) if bsp.pid() else bsp.sync()\n"
    )
    program = start(tmp_path, "--restarts", "2", "suicide.py")
    _, error = program.communicate(timeout=60)
    assert program.returncode == 139
    assert "is not started again: there is no new checkpoint after 2 tries" in error
    assert error.count("the program goes on from") >= 2


@pytest.mark.parametrize(("last", "code"), [("raise ValueError('no')", 1), ("bsp.abort('no')", 1), ("os._exit(5)", 5)])
def test_what_a_program_does_itself_is_no_loss(tmp_path: Path, last: str, code: int) -> None:
    text = f"import os\nfrom phalanx import bsp\nwith bsp.begin(checkpoint=1):\n    bsp.checkpoint()\n    {last}\n"
    (tmp_path / "ends.py").write_text(text)
    program = start(tmp_path, "ends.py")
    _, error = program.communicate(timeout=60)
    assert program.returncode == code
    assert "goes on" not in error


def test_a_program_without_checkpoints_ends_with_the_loss(tmp_path: Path) -> None:
    program = start(tmp_path, "--checkpoint", "0", "program.py", "0.01", "1000")
    kill_some(program, tmp_path, 1, 0)
    _, error = program.communicate(timeout=60)
    assert program.returncode == 137
    assert "goes on" not in error


def test_an_interrupt_ends_a_program_that_would_go_on(tmp_path: Path) -> None:
    program = start(tmp_path, "program.py", "0.01", "1000")
    kill_some(program, tmp_path, 1, 1)
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=20)
    assert program.returncode == 130
    assert not list(tmp_path.glob("phalanx-*"))


def test_other_registrations_after_a_loss_are_refused(tmp_path: Path) -> None:
    text = """
import os, signal
import numpy as np
from phalanx import bsp

with bsp.begin(checkpoint=1):
    again = os.path.exists(f"was.{bsp.pid()}")
    open(f"was.{bsp.pid()}", "w").close()
    bsp.push_reg(np.zeros(2 if again else 1))
    bsp.sync()
    bsp.checkpoint()
    bsp.checkpoint()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    (tmp_path / "other.py").write_text(text)
    program = start(tmp_path, "other.py")
    _, error = program.communicate(timeout=60)
    assert program.returncode == 1
    assert "areas of [8] bytes were registered, and now [16]" in error


def test_alone_a_checkpoint_is_a_superstep(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", "0", "10"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(result(done.stdout)) == 1


C_PROGRAM = r"""
#include <bsp.h>
#include <stdio.h>
#include <signal.h>
#include <unistd.h>

int main(void)
{
    bsp_set_checkpoint(2);
    bsp_begin(16);
    int step = 0, left = 0, pid = bsp_pid(), resumed = 0;
    unsigned sum = 0;
    bsp_push_reg(&left, sizeof left);
    bsp_declare(&step, sizeof step);
    bsp_declare(&sum, sizeof sum);
    while (step < 20) {
        resumed |= bsp_checkpoint();
        int value = step * 10 + pid;
        bsp_put((pid + 1) % bsp_nprocs(), &value, &left, 0, sizeof value);
        bsp_sync();
        sum = sum * 3 + (unsigned)left;
        step++;
        if (step == 15 && pid == 1 && !resumed)
            raise(SIGKILL);
    }
    bsp_sync();
    printf("%d: %u%s\n", pid, sum, resumed ? " resumed" : "");
    bsp_end();
    return 0;
}
"""


def test_a_program_of_c_goes_on_too(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(C_PROGRAM)
    command = [PHALANX, "bspcc", "-Wall", "-Werror", "-O1", "-o", "program", "program.c"]
    subprocess.run(command, check=True, timeout=60, cwd=tmp_path)
    program = start(tmp_path, "./program")
    output, error = program.communicate(timeout=60)
    assert program.returncode == 0, error
    expected = []
    for pid in range(3):
        total = 0
        for step in range(20):
            total = (total * 3 + step * 10 + (pid - 1) % 3) & 0xFFFFFFFF
        expected.append(f"{pid}: {total} resumed")
    assert sorted(output.splitlines()) == expected
