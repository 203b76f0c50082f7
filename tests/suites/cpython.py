"""Where CPython's own tests are, and what stands in for ProcessPoolExecutor in them.

``python -m suites.cpython FOLDER`` makes the folder: the package ``test`` of this Python, with its tests of
concurrent.futures, which Debian has in a package of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from typing import Any

import phalanx as px

TOP = Path(__file__).parents[2]
sys.path.append(str(TOP))
from laboratory.processes import until  # noqa: E402

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
NAME = "test_concurrent_futures"


class Process:
    """An interpreter, as far as the tests look at a process of multiprocessing."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def is_alive(self) -> bool:
        """Whether it is there."""
        return Path(f"/proc/{self.pid}").exists()

    def join(self, timeout: float = 60) -> None:
        """Waits for its end."""
        end = time.monotonic() + timeout
        while self.is_alive() and time.monotonic() < end:
            time.sleep(0.01)

    def terminate(self) -> None:
        """Ends it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, 15)

    kill = terminate


class ProcessPoolExecutor(px.Manager):
    """A manager that is made, and looked at, as CPython's tests do with the executor of that name."""

    def __init__(
        self,
        max_workers: int | None = None,
        mp_context: Any = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if max_tasks_per_child is not None:
            raise TypeError("a manager has no max_tasks_per_child")
        self._max_workers = max_workers or os.cpu_count() or 1
        contract = px.ParDegree(self._max_workers)
        super().__init__(contract=contract, initializer=initializer, initargs=initargs)
        # As a pool that forks. On a busy machine some would begin seconds later than others, and the tests only sleep.
        until(lambda: len(self._processes) == self._max_workers, timeout=60, what="the interpreters")

    @property
    def _processes(self) -> dict[int, Process]:
        working = [it.pid for it in self.summary().interpreters if it.state == "working"]
        return {pid: Process(pid) for pid in working}


def install(folder: str) -> None:
    """Lets tests find the package ``test`` in a folder, and the executor in the standard library's place."""
    sys.path.insert(0, folder)
    futures.ProcessPoolExecutor = ProcessPoolExecutor  # type: ignore[misc, assignment]


def make(folder: Path) -> None:
    """Makes the folder. Raises CalledProcessError where Debian has no such package either."""
    standard = Path(os.__file__).parent / "test"
    package = folder / "test"
    package.mkdir(parents=True, exist_ok=True)
    for entry in standard.iterdir():
        _link(entry, package)
    if not list(package.glob(f"{NAME}*")):
        with tempfile.TemporaryDirectory() as download:
            subprocess.run(["apt-get", "download", f"libpython{VERSION}-testsuite"], cwd=download, check=True)
            (archive,) = Path(download).glob("*.deb")
            subprocess.run(["dpkg", "-x", archive, download], check=True)
            for entry in Path(download, "usr", "lib", f"python{VERSION}", "test").glob(f"{NAME}*"):
                shutil.move(entry, package)


def _link(entry: Path, folder: Path) -> None:
    with suppress(FileExistsError):
        (folder / entry.name).symlink_to(entry)


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
