"""Fixtures of all tests: waiting with a deadline, and the proof that a test leaves nothing behind."""

from __future__ import annotations

import gc
import os
import re
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import hangs
import pytest
from marked import MARK, is_marked
from skips import pytest_make_collect_report, pytest_runtest_makereport, pytest_unconfigure

from laboratory.processes import until

# Hooks, which pytest finds here.
__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport", "pytest_unconfigure"]

T = TypeVar("T")

RUN = str(uuid.uuid4())
# What a process that has ended may still take until the kernel has removed it.
GRACE = 5.0

# A third of the processor time of `import numpy` goes into starting threads that no test needs.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=8, help="random programs that are run by two libraries of MPI")


def pytest_sessionstart() -> None:
    """What a shell starts in its background ignores Ctrl-C, and so would all that the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """A test that hangs ends its process, and pytest-xdist starts another one."""
    return hangs.set_timer(item, settings.timeout, processes)


@pytest.fixture(scope="module")
def runtime_folder() -> Iterator[Path]:
    """A folder for the sockets of this user's processes that is gone afterwards; short, as their names must be."""
    with tempfile.TemporaryDirectory(prefix="run-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


class Eventually(Protocol):
    """`eventually(condition)`: asks until the answer is true, returns it, fails after `timeout` seconds."""

    def __call__(self, condition: Callable[[], T], *, timeout: float = ..., what: str = ...) -> T: ...


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """For what takes a moment: never sleep and hope."""

    def wait(condition: Callable[[], T], *, timeout: float = 30, what: str = "what the test expects") -> T:
        return until(condition, timeout=timeout, what=what)

    return wait


@pytest.fixture(scope="session", autouse=True)
def _marked() -> Iterator[Path]:
    """The folder of what this run leaves for a while: its processes and what they make are told from another run's."""
    with tempfile.TemporaryDirectory(prefix="run-") as folder:
        os.environ.update({MARK: RUN, "TMPDIR": folder, "XDG_RUNTIME_DIR": folder, "PHALANX_ALLOW_ROOT": "1"})
        tempfile.tempdir = folder
        yield Path(folder)


@pytest.fixture(autouse=True)
def _leaves_nothing(_marked: Path) -> Iterator[None]:
    """After each test: no process, no socket and no shared-memory file that was not there before it.

    What a fixture of a wider scope holds was there before. What is left is killed: only this test shall fail.
    """
    before = belongings(_marked)
    running = {pid for pid in before.values() if pid}  # by number, because a server may give itself another title
    yield
    left: dict[str, int] = {}

    def nothing_left() -> bool:
        left.clear()
        now = belongings(_marked).items()
        left.update({name: pid for name, pid in now if name not in before and pid not in running})
        if left:
            gc.collect()  # a connection whose objects know each other goes with them
        return not left

    with suppress(AssertionError):
        until(nothing_left, timeout=GRACE, what="the end of all that the test started")
    for pid in filter(None, left.values()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, "left behind: " + "; ".join(sorted(left))


def belongings(folder: Path) -> dict[str, int]:
    """What a test could leave, as it is now: described, with its pid if it is a process, else 0."""
    return processes() | dict.fromkeys([*files(folder), *listeners(folder), *connections()], 0)


def processes() -> dict[str, int]:
    """Those that this one or its descendants started, alive or not waited for."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() or is_marked(folder):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[f"process {folder.name}: {command or 'ended, not waited for'}"] = int(folder.name)
    return found


def files(folder: Path) -> list[str]:
    """Sockets, shared-memory files and folders of ours on disk."""
    shared = folder / "phalanx"  # where servers can be found: it comes with the first one, and may stay
    found = [path for place in (folder, Path("/dev/shm")) for path in place.glob("*phalanx*") if path != shared]
    return [f"file {path}" for path in found if not (of_another(path.name) or _is_kept(path))]


def _is_kept(path: Path) -> bool:
    """Whether it is the folder for programs, or one for a program's named memory, as killed executors leave it to the
    next one."""
    memory = re.match(r"phalanx-(\d+)-program-", path.name)
    if memory and path.parent == Path("/dev/shm"):
        return not Path("/proc", memory[1]).exists()
    try:
        inside = [re.match(r"phalanx-(\d+)-program-", entry.name) for entry in path.iterdir()]
    except OSError:
        return True  # it is gone by now
    return path.name.startswith("phalanx-programs-") and all(it and not Path("/proc", it[1]).exists() for it in inside)


def listeners(folder: Path) -> list[str]:
    """Unix sockets of ours that are bound to a name, in this run's folder or abstract."""
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    names = {line.split()[7] for line in lines if len(line.split()) > 7}
    ours = [name for name in names if "phalanx" in name and name.startswith(("@", f"{folder}/"))]
    return [f"unix socket {name}" for name in ours if not of_another(name)]


def of_another(name: str) -> bool:
    """Whether a name tells the pid of another living process: that one has not left it, not yet."""
    pids = re.findall(r"phalanx-(\d+)\b", name)
    return any(Path("/proc", pid).exists() for pid in pids if int(pid) != os.getpid())


def connections() -> list[str]:
    """Sockets that this process has open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            target = entry.readlink()
            if target.name.startswith("socket:"):
                found.append(f"open {target.name}")
    return found


def has_ended(group: int) -> bool:
    """Whether no process of the group lives."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, its_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                found.append(folder.name)
    return not found
