"""Copies between machines: cables that are cut, processes that are killed, what somebody on the wire alters."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from cluster.grid import PATIENCE, PHALANX, Executor, Grid

from laboratory.lab import Host
from laboratory.processes import Process, until

SIZE = 60_000_000
RATE = 12_000_000.0  # bytes/s: a copy takes seconds, so that it can be cut in the middle


@pytest.fixture
def there(grid: Grid) -> Executor:
    """An executor on a slow line, which exports a folder."""
    return new(grid, "labpc")


@pytest.fixture
def far(grid: Grid) -> Executor:
    """Another one."""
    return new(grid, "farpc")


def new(grid: Grid, name: str) -> Executor:
    host = grid.desk.lab.host(name)
    (host.home / "data").mkdir()
    return serve(grid, host)


def serve(grid: Grid, host: Host) -> Executor:
    options = ["--export", f"{host.home / 'data'}:rw", "--no-spaces"]
    identity = grid.desk.home / f"grid-{host.name}.pem"
    return grid.executor(host, options=options, identity=identity if identity.exists() else None)


def begin(grid: Grid, src: str, dst: str, *options: str) -> Process:
    return grid.desk.popen([str(PHALANX), "cp", "--json", *options, src, dst], env=grid.env)


def report(process: Process) -> dict[str, Any]:
    """What a copy has said of itself at its end, which must be a good one."""
    assert process.wait(timeout=PATIENCE) == 0, process.report()
    said: dict[str, Any] = json.loads(process.lines()[-1])
    assert not said["failures"], said
    return said


def source(folder: Path) -> Path:
    path = folder / "big"
    path.write_bytes(random.Random(1).randbytes(SIZE))
    return path


def part(folder: Path) -> Path:
    return folder / ".big.phalanx-part"


def wait_for_state(folder: Path, copy: Process) -> None:
    """Until a copy into the folder is under way, and what is there of it is kept."""

    def kept() -> bool:
        assert copy.code is None, copy.report()
        return (folder / ".big.phalanx-state").exists()

    until(kept, timeout=PATIENCE, what="a state file")


def crossed(grid: Grid) -> int:
    """Bytes that the user's machine has received and sent so far (proc(5), net/dev)."""
    lines = grid.desk.run(["cat", "/proc/net/dev"]).stdout().splitlines()[2:]
    counters = [line.partition(":")[2].split() for line in lines if not line.lstrip().startswith("lo:")]
    return sum(int(one[0]) + int(one[8]) for one in counters)


@pytest.mark.parametrize("put", [True, False])
@pytest.mark.parametrize("victim", ["user", "executor"])
def test_a_copy_goes_on_after_kill_9_of_either_end(grid: Grid, there: Executor, put: bool, victim: str) -> None:
    here, folder = grid.desk.home, there.host.home / "data"
    target = folder if put else here
    original = source(here if put else folder)
    src, dst = (str(original), f"{there.address}:{folder / 'big'}") if put else (f"{there.address}:{original}", "big")
    there.host.cable.shape(rate=RATE)
    copy = begin(grid, src, dst, "--patience", "0")
    wait_for_state(target, copy)
    killed = copy if victim == "user" else there.process
    killed.signal(signal.SIGKILL)
    assert copy.wait(timeout=PATIENCE) != 0
    assert not (target / "big").exists()
    assert part(target).exists()
    if victim == "executor":
        there = serve(grid, there.host)
        address = f"{there.address}:"
        src, dst = (src, f"{address}{folder / 'big'}") if put else (f"{address}{original}", dst)
    there.host.cable.unshape()
    before = crossed(grid)
    again = report(begin(grid, src, dst))
    assert (again["files"], again["bytes"]) == (1, SIZE)
    assert (target / "big").read_bytes() == original.read_bytes()
    assert not list(target.glob(".big*"))
    assert crossed(grid) - before < SIZE, "what was there was not sent again"


def test_a_copy_goes_on_by_itself_when_the_cable_is_mended(grid: Grid, there: Executor) -> None:
    original, folder = source(grid.desk.home), there.host.home / "data"
    there.host.cable.shape(rate=RATE)
    copy = begin(grid, str(original), f"{there.address}:{folder}/", "--streams", "3")
    wait_for_state(folder, copy)
    there.host.cable.silence()
    until(lambda: "was cut off" in there.process.stderr(), timeout=PATIENCE, what="the executor to notice")
    there.host.cable.mend()
    there.host.cable.unshape()
    said = report(copy)
    assert said["cuts"] >= 1
    assert (folder / "big").read_bytes() == original.read_bytes()


@pytest.mark.parametrize("put", [True, False])
def test_a_slow_line_is_sent_what_compresses_compressed(grid: Grid, there: Executor, put: bool) -> None:
    here, folder = grid.desk.home, there.host.home / "data"
    texts = (here if put else folder) / "texts"
    texts.mkdir()
    draw = random.Random(2)
    words = [draw.randbytes(draw.randint(1, 6)).hex() for _ in range(2000)]
    (texts / "text").write_text(" ".join(draw.choices(words, k=4_000_000)))
    there.host.cable.shape(rate=RATE)
    before, there_path = crossed(grid), f"{there.address}:{folder / 'texts'}"
    src, dst = (str(texts), there_path) if put else (there_path, str(here / "texts"))
    said = report(begin(grid, src, dst))
    assert ((folder if put else here) / "texts" / "text").read_bytes() == (texts / "text").read_bytes()
    assert said["crossed"] < said["bytes"] * 0.75
    assert crossed(grid) - before < said["bytes"] * 0.8


def test_small_files_and_folders_cross_a_lossy_line(grid: Grid, there: Executor) -> None:
    original, folder = grid.desk.home / "many", there.host.home / "data"
    for number in range(500):
        path = original / f"{number % 7}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(number).randbytes(number * 10))
    there.host.cable.shape(delay=0.02, loss=0.01)
    said = report(begin(grid, str(original), f"{there.address}:{folder / 'many'}", "--streams", "4"))
    assert (said["files"], said["folders"], said["level"]) == (500, 8, "private")
    files = {path.relative_to(original): path.read_bytes() for path in original.rglob("*") if path.is_file()}
    copied = folder / "many"
    assert {path.relative_to(copied): path.read_bytes() for path in copied.rglob("*") if path.is_file()} == files


def test_a_long_line_gets_more_streams(grid: Grid, there: Executor) -> None:
    original, folder = source(grid.desk.home), there.host.home / "data"
    there.host.cable.shape(delay=0.01)
    said = report(begin(grid, str(original), f"{there.address}:{folder}/"))
    assert said["streams"] >= 4
    assert (folder / "big").read_bytes() == original.read_bytes()


def between(grid: Grid, there: Executor, far: Executor, *options: str) -> Process:
    """A copy of `big` from the first executor to the second."""
    src = f"{there.address}:{there.host.home / 'data' / 'big'}"
    return begin(grid, src, f"{far.address}:{far.host.home / 'data' / 'big'}", *options)


def test_bytes_between_executors_do_not_cross_the_users_machine(grid: Grid, there: Executor, far: Executor) -> None:
    original, before = source(there.host.home / "data"), crossed(grid)
    said = report(between(grid, there, far))
    assert (said["files"], said["bytes"], said["level"]) == (1, SIZE, "private")
    assert (far.host.home / "data" / "big").read_bytes() == original.read_bytes()
    assert crossed(grid) - before < SIZE / 20


def test_folders_of_two_executors_are_made_alike_and_bytes_go_straight(
    grid: Grid, there: Executor, far: Executor
) -> None:
    folder, mirror = there.host.home / "data" / "x", far.host.home / "data" / "x"
    (folder / "deep").mkdir(parents=True)
    for number in range(10):
        (folder / "deep" / f"{number}.bin").write_bytes(random.Random(number).randbytes(SIZE // 10))
    mirror.mkdir()
    for name in ("extra", "0.bin"):
        (mirror / name).write_text("x")
    names, before = (f"{there.address}:{folder}", f"{far.address}:{mirror}"), crossed(grid)

    def sync() -> Process:
        return grid.desk.popen([str(PHALANX), "sync", "--json", "--delete", "--checksum", *names], env=grid.env)

    made = sync()
    assert made.wait(timeout=PATIENCE) == 0, made.report()
    said = json.loads(made.lines()[-1])
    assert (said["deleted"], said["copied"]["bytes"], said["failures"]) == (2, SIZE, [])
    some = report(begin(grid, f"{names[0]}/deep/[0-4].bin", names[1]))
    assert (some["files"], some["bytes"]) == (5, SIZE // 2)
    assert crossed(grid) - before < SIZE / 20
    alike = {path.name: path.read_bytes() for path in (folder / "deep").iterdir()}
    assert {path.name: path.read_bytes() for path in (mirror / "deep").iterdir()} == alike
    (mirror / "extra").write_text("stays while nobody says what the source has")
    there.process.signal(signal.SIGKILL)
    failed = sync()
    assert failed.wait(timeout=PATIENCE) == 1, failed.report()
    assert (mirror / "extra").exists()


@pytest.mark.parametrize("victim", ["user", "sender", "receiver"])
def test_a_copy_between_executors_goes_on_after_kill_9_of_any(
    grid: Grid, there: Executor, far: Executor, victim: str
) -> None:
    original, target = source(there.host.home / "data"), far.host.home / "data"
    there.host.cable.shape(rate=RATE)
    copy = between(grid, there, far, "--patience", "0")
    wait_for_state(target, copy)
    {"user": copy, "sender": there.process, "receiver": far.process}[victim].signal(signal.SIGKILL)
    assert copy.wait(timeout=PATIENCE) != 0
    for name, executor in (("sender", there), ("receiver", far)):
        if name != victim:
            until(
                lambda one=executor: "copy ended" in one.process.stderr(),  # type: ignore[misc]
                timeout=PATIENCE,
                what=f"the {name} to end the copy",
            )
    assert not (target / "big").exists()
    assert part(target).exists()
    there = serve(grid, there.host) if victim == "sender" else there
    far = serve(grid, far.host) if victim == "receiver" else far
    there.host.cable.unshape()
    again = report(between(grid, there, far))
    assert (again["files"], again["bytes"]) == (1, SIZE)
    assert (target / "big").read_bytes() == original.read_bytes()
    assert not list(target.glob(".big*"))


def test_a_copy_between_executors_goes_on_when_the_cable_is_mended(grid: Grid, there: Executor, far: Executor) -> None:
    original, target = source(there.host.home / "data"), far.host.home / "data"
    there.host.cable.shape(rate=RATE)
    copy = between(grid, there, far)
    wait_for_state(target, copy)
    far.host.cable.silence()
    until(lambda: "copy ended" in there.process.stderr(), timeout=PATIENCE, what="the sender to notice")
    far.host.cable.mend()
    there.host.cable.unshape()
    said = report(copy)
    assert said["cuts"] >= 1
    assert (target / "big").read_bytes() == original.read_bytes()
