"""One run of a program with a library: what it prints, as figures."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.mpi.libraries import PRIVATE, TCP, Library

PROGRAMS = Path(__file__).parent / "programs"
_LOOPBACK = Path("/sys/class/net/lo/statistics/tx_bytes")
#: Seconds after which a run is given up.
_LIMIT = 120


class Failure(Exception):
    """A program of the benchmark did not do what it should."""


class Runs:
    """Programs, compiled once for each library, into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def figures(self, library: Library, way: str, program: str, ranks: int, *words: str) -> dict[str, float]:
        """Run it and return the numbers that it prints, by their names."""
        command, variables = library.start(ranks, way, PROGRAMS / program)
        before = _loopback()
        text = _run([*command, *self._program(library, program), *words], variables)
        figures = dict(_numbers(text))
        sent = figures.pop("bytes", 0)
        if way in (TCP, PRIVATE) and _loopback() - before < sent:
            raise Failure(f"{library.title} did not send over TCP what it was told to")
        if not figures:
            raise Failure(f"{library.title} printed no figures: {text!r}")
        return figures

    def _program(self, library: Library, program: str) -> list[str]:
        source = PROGRAMS / program
        if source.suffix == ".py":
            return [sys.executable, str(source)]
        compiled = self.folder / f"{library.title}-{source.stem}".replace(" ", "-")
        if not compiled.exists():
            _run(library.compile(source, compiled), {})
        return [str(compiled)]


def begun() -> str:
    """Now, for a program that tells how long after it something happened."""
    return f"{time.monotonic():.6f}"


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that compute all the time, as long as this one lives."""
    code = f"import os\nwhile os.getppid() == {os.getpid()}:\n    for number in range(100000): pass"
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def _run(command: list[str], variables: dict[str, str]) -> str:
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=_LIMIT)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)} failed with {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout


def _numbers(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        try:
            yield name, float(number)
        except ValueError:
            continue  # a library's own words


def _loopback() -> int:
    """Bytes that were sent over the loopback network."""
    return int(_LOOPBACK.read_text())
