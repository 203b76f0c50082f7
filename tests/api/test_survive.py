"""MPI programs that save files of their own survive losses: `phalanx mpirun --survive` on one machine."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import phalanx as px
import pytest

from laboratory.processes import until

PHALANX = str(Path(sys.executable).with_name("phalanx"))
HEAT = str(Path(__file__).parents[2] / "examples" / "message_passing" / "mpi_heat.py")
RANKS = 4
PATIENCE = 120.0

#: A program without messages: what each rank saves and reads is in its hands.
SAVES = """
import os, pathlib, signal, sys, time
folder, step = pathlib.Path(os.environ["PHALANX_SURVIVE"]), int(os.environ.get("PHALANX_STEP", 0))
restarts, rank = int(os.environ["PHALANX_RESTARTED"]), int(os.environ["PHALANX_RANK"].split()[0][5:])

def save(number, text, name="step-{}"):
    (folder / "new").write_text(text)
    (folder / "new").rename(folder / name.format(number))

def until(condition):
    while not condition():
        time.sleep(0.01)
"""


def start(folder: Path, *words: str, ranks: int = RANKS) -> subprocess.Popen[str]:
    """A program that survives losses; its folders are within `folder`."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [PHALANX, "mpirun", "-n", str(ranks), "--no-prefix", "--survive", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, cwd=folder, env=environment, **pipes)  # type: ignore[call-overload,no-any-return]


def saving(folder: Path, text: str) -> str:
    """A program that saves by itself."""
    (folder / "saves.py").write_text(SAVES + text)
    return "saves.py"


def living(program: subprocess.Popen[str]) -> dict[int, int]:
    """The process of each rank that lives, as the launcher's children say it themselves."""
    found = {}
    for children in Path(f"/proc/{program.pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, children.read_text().split()):
                rank = re.search(rb"PHALANX_RANK=rank=(\d+) ", Path(f"/proc/{child}/environ").read_bytes())
                if rank and Path(f"/proc/{child}/stat").read_text().split(") ")[1][0] not in "ZX":
                    found[int(rank[1])] = child
    return found


def checksum(output: str) -> str:
    found = re.findall(r"^after step \d+: ([0-9a-f]{16})$", output, re.MULTILINE)
    assert found, output
    assert len(set(found)) == 1
    return str(found[0])


def done(program: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    output, error = program.communicate(timeout=PATIENCE)
    assert program.returncode == code, output + error
    return output, error


def left_behind(folder: Path) -> list[Path]:
    return [*folder.glob("phalanx-*")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checksum of a plate that is computed without losses, and without checkpoints."""
    folder = tmp_path_factory.mktemp("undisturbed")
    command = [PHALANX, "mpirun", "-n", str(RANKS), "--no-prefix", HEAT, "--steps", "400"]
    return checksum(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=120).stdout)


@pytest.mark.parametrize("seed", range(3))
def test_kills_at_random_moments_do_not_change_the_result(undisturbed: str, tmp_path: Path, seed: int) -> None:
    chosen, known = random.Random(seed), set[int]()

    def all_live() -> dict[int, int] | None:
        assert program.poll() is None, program.communicate()
        ranks = living(program)
        return ranks if len(ranks) == RANKS and known.isdisjoint(ranks.values()) else None

    heat = ["--steps", "400", "--every", "10", "--nap", "0.01"]
    program = start(tmp_path, "--restarts", "9", "--patience", "0.5", HEAT, *heat)
    for stops in (False, True, False):
        ranks = until(all_live, timeout=PATIENCE, what="all ranks")
        assert ranks is not None
        with suppress(subprocess.TimeoutExpired):
            program.wait(chosen.random() * 2)
        known |= set(ranks.values())
        with suppress(ProcessLookupError):
            os.kill(chosen.choice(list(ranks.values())), signal.SIGSTOP if stops else signal.SIGKILL)
    output, error = done(program)
    assert checksum(output) == undisturbed
    assert "phalanx: the program goes on from" in error
    assert not left_behind(tmp_path)


def test_a_program_goes_on_from_the_newest_step_of_all_ranks(tmp_path: Path) -> None:
    """Rank 1 is killed after one more step than rank 0. Rank 0 has the same files again that it has saved."""
    text = """
if restarts == 0:
    save(1, f"one of {rank}")
    until(lambda: not (folder / "kept").exists() and (folder / "step-1").exists())
    save(2, f"two of {rank}", "step-0{}.txt")
    until(lambda: not (folder / "step-1").exists())  # phalanx removes it when it has the second
    if rank:
        save(3, "three")
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
print(rank, restarts, step, sorted(path.name for path in folder.iterdir()), (folder / "step-02.txt").read_text())
"""
    output, error = done(start(tmp_path, saving(tmp_path, text), ranks=2))
    expected = [f"{rank} 1 2 ['step-02.txt'] two of {rank}" for rank in range(2)]
    assert sorted(output.splitlines()) == expected
    assert "the program goes on from step 2 (try 1 of 3)" in error


def test_a_step_may_be_a_folder_of_files(tmp_path: Path) -> None:
    text = """
if restarts == 0:
    (folder / "new/deep").mkdir(parents=True)
    (folder / "new/deep/a").write_bytes(b"a" * 3_000_000)
    (folder / "new/b").write_text("b")
    (folder / "new").rename(folder / "step-5")
    save(6, "x", "step-{}.part")  # not complete
    until(lambda: list(pathlib.Path(os.environ["TMPDIR"]).glob("phalanx-*/*/checkpoints/step-5")))
    os.kill(os.getpid(), signal.SIGKILL)
print(step, (folder / "step-5/b").read_text(), len((folder / "step-5/deep/a").read_bytes()))
"""
    output, _ = done(start(tmp_path, saving(tmp_path, text), ranks=1))
    assert output == "5 b 3000000\n"


def test_a_program_that_gets_no_further_is_the_culprit(tmp_path: Path) -> None:
    program = start(tmp_path, "--restarts", "2", saving(tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)"), ranks=1)
    _, error = done(program, 139)
    assert "is not started again: there is no new checkpoint after 2 tries" in error
    assert error.count("the program goes on from the beginning") == 2


def test_what_a_program_does_itself_is_no_loss(tmp_path: Path) -> None:
    _, error = done(start(tmp_path, saving(tmp_path, "sys.exit(5)"), ranks=1), 5)
    assert "goes on" not in error


def test_a_program_that_was_ended_goes_on_from_the_folder_of_its_checkpoints(tmp_path: Path) -> None:
    text = """
print("begins at", step, restarts, flush=True)
if step == 0:
    save(7, "seven")
    time.sleep(600)
"""
    kept, words = tmp_path / "kept", saving(tmp_path, text)
    program = start(tmp_path, "--checkpoints", "kept", words, ranks=2)
    until(lambda: (kept / "step-7").is_dir(), timeout=PATIENCE, what="a checkpoint")
    _, error = done(start(tmp_path, "--checkpoints", "kept", words, ranks=2), 1)
    assert "is used by a program that runs" in error
    program.send_signal(signal.SIGINT)
    _, error = done(program, 130)
    assert "the checkpoint of step 7 is kept in" in error
    _, error = done(start(tmp_path, "--checkpoints", "kept", words, ranks=3), 1)
    assert "has those of another program, 2 processes of" in error
    output, _ = done(start(tmp_path, "--checkpoints", "kept", words, ranks=2))
    assert output == "begins at 7 0\nbegins at 7 0\n"
    assert not kept.exists()


def test_a_folder_with_other_files_is_not_used(tmp_path: Path) -> None:
    _, error = done(start(tmp_path, "--checkpoints", ".", saving(tmp_path, "")), 1)
    assert "is not empty, and has no checkpoints of phalanx" in error


@pytest.mark.parametrize(
    ("saves", "told"),
    [
        ("save(1, 'a', 'step-{}.a'); save(1, 'b', 'step-{}.b')", "rank 0 has step-1.a and step-1.b"),
        ("os.mkfifo(folder / 'step-1')", "is no regular file"),
        ("(folder / 'step-1').symlink_to('/etc/passwd')", "is no regular file"),
        ("(folder / 'step-1').mkdir()", "rank 0 has saved an empty folder"),
    ],
)
def test_what_cannot_be_a_checkpoint_is_told_and_the_program_goes_on(tmp_path: Path, saves: str, told: str) -> None:
    text = f"""
{saves}
time.sleep(0.5)
save(2, "two")
until(lambda: list(pathlib.Path(os.environ["TMPDIR"]).glob("phalanx-*/*/checkpoints/step-2")))
"""
    _, error = done(start(tmp_path, saving(tmp_path, text), ranks=1))
    assert "the checkpoint of step 1 does not count" in error
    assert told in error


def test_the_options_need_each_other() -> None:
    for words, told in [
        (["--checkpoints", "x"], "needs --survive"),
        (["--restarts", "2"], "needs --survive"),
        (["--survive", "--keep-going"], "leave --survive or --keep-going out"),
    ]:
        run = subprocess.run([PHALANX, "mpirun", *words, "true"], capture_output=True, text=True, timeout=60)
        assert run.returncode == 2
        assert told in run.stderr


def test_python_starts_programs_that_survive_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = """
if restarts == 0:
    os.kill(os.getpid(), signal.SIGKILL)
print("is here")
"""
    result = px.mpirun(saving(tmp_path, text), n=1, survive=True, restarts=1, capture_output=True)
    assert (result.code, result.stdout) == (0, "is here\n")
    assert "the program goes on from the beginning (try 1 of 1)" in result.messages
    with pytest.raises(px.LaunchError, match="keep_going"):
        px.mpirun("true", n=1, survive=True, keep_going=True)
    with pytest.raises(px.LaunchError, match="restarts"):
        px.mpirun("true", n=1, survive="folder", restarts=-1)
