"""A manager program on a lab's grid, and what it has said and done so far."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import Any, Protocol

from cluster.farm_program import Options

import laboratory.grid
from laboratory.grid import PHALANX, Executor
from laboratory.lab import Host
from laboratory.processes import until

__all__ = ["PATIENCE", "PHALANX", "Executor", "Farm", "Grid", "program_folders", "remove_program_folders"]

PROGRAM = Path(__file__).with_name("farm_program.py")
PATIENCE = 60.0  # seconds until a test calls something hung


def program_folders() -> list[Path]:
    """The folders of programs on executors. All hosts of a lab have one folder for it. Executors remove theirs while
    this looks, which `Path.glob` of Python 3.11 does not bear."""
    pattern = f"{tempfile.gettempdir()}/phalanx-*/*-program-*"
    return [Path(found) for found in glob(pattern)]  # noqa: PTH207


def remove_program_folders() -> None:
    """Remove what killed executors have left. A later executor on their machine would do this."""
    for folder in program_folders():
        shutil.rmtree(folder, ignore_errors=True)


class Grid(laboratory.grid.Grid):
    """A grid whose owner can start the tests' manager program."""

    def farm(self, executors: Sequence[Executor], **options: Any) -> Farm:
        """Start the manager program on the desk; it recruits `executors`, or the desk when there are none."""
        return Farm(self, executors, options)


class User(Protocol):
    """A user of a grid: the machine where its programs run, their environment, and what executors let them change."""

    @property
    def desk(self) -> Host: ...

    @property
    def env(self) -> dict[str, str]: ...

    @property
    def granted(self) -> Path: ...


class Farm:
    """A running `farm_program.py`."""

    def __init__(self, grid: User, executors: Sequence[Executor], options: dict[str, Any]) -> None:
        name = f"farm-{len(grid.desk.lab.processes)}"
        folder = grid.desk.lab.path / name
        folder.mkdir()
        self.traces = grid.granted / name
        self.traces.mkdir(parents=True)
        if executors:
            lines = [f"{executor.host.address} {executor.port}\n" for executor in executors]
            lines += [f"trusted {network}\n" for network in options.pop("trusted", ())]
            (folder / "hosts.txt").write_text("# the machines of this test\n" + "".join(lines))
            options = {"hosts": str(folder / "hosts.txt"), **options}
        self.options = Options(traces=str(self.traces), **options)
        command = [sys.executable, str(PROGRAM), json.dumps(vars(self.options))]
        self.process = grid.desk.popen(command, env={**grid.env, "PYTHONPATH": str(grid.desk.home)})

    def facts(self, kind: str) -> list[Any]:
        """What it has said of one kind ("result", "summary", "error", "text") so far."""
        said = [json.loads(line) for line in self.process.lines() if line.startswith("{")]
        return [fact[kind] for fact in said if kind in fact]

    def results(self, at_least: int = 0) -> list[dict[str, Any]]:
        """The results so far, once there are enough; AssertionError when they do not come."""

        def enough() -> bool:
            ended = self.process.code is not None
            assert not ended or len(self.facts("result")) >= at_least, self.process.report()
            return len(self.facts("result")) >= at_least

        until(enough, timeout=PATIENCE, what=f"{at_least} results")
        return self.facts("result")

    def interpreters(self, machine: str | None = None) -> set[int]:
        """The pids of those that have delivered a result so far, on one machine or on all."""
        return {r["pid"] for r in self.facts("result") if machine in (None, r["machine"])}

    def fired(self, at_least: int = 0) -> list[tuple[int, int]]:
        """Every firing so far as (task, pid of the interpreter), once there are enough."""
        until(lambda: len(list(self.traces.iterdir())) >= at_least, timeout=PATIENCE, what=f"{at_least} firings")
        names = [entry.name.split("-") for entry in self.traces.iterdir()]
        return [(int(task), int(pid)) for task, pid in names]

    def complete(self) -> dict[str, Any]:
        """Wait for the end; every result must have come exactly once and in order. Returns the summary."""
        code = self.process.wait(timeout=PATIENCE)
        values = [result["value"] for result in self.facts("result")]
        assert values == [number * 10 + 1 for number in range(self.options.count)], self.process.report()
        assert code == 0, self.process.report()
        summary: dict[str, Any] = self.facts("summary")[0]
        return summary

    def failure(self) -> tuple[str, str]:
        """Wait for the end, which must be an error; returns its class and what it says."""
        assert self.process.wait(timeout=PATIENCE) == 1, self.process.report()
        assert self.facts("error"), self.process.report()
        return self.facts("error")[0], self.facts("text")[0]
