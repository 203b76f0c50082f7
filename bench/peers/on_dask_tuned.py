"""dask.distributed, tuned by hand as far as one gets without changing what is computed.

Every part is a process of its own (the client's process does nothing else), no nannies, no dashboard, tasks
mapped in batches, everything queued at the interpreters at once (`worker-saturation`), no stealing, no
profiling, no memory monitor, no compression, arrays scattered before they are used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import dask
from distributed import Client

from bench.peers.interface import INTERPRETERS, Function
from bench.peers.on_dask import DaskFarm

_TUNED: dict[str, dict[str, Any]] = {
    "scheduler": {
        "worker-saturation": "inf",
        "work-stealing": False,
        "active-memory-manager": {"start": False},
    },
    "worker": {
        "profile": {"enabled": False},
        "memory": {"target": False, "spill": False, "pause": False, "terminate": False},
    },
    "comm": {"compression": None},
    "admin": {"system-monitor": {"interval": "10s"}},
}
_BATCH = 1000


class TunedDaskFarm(DaskFarm):
    """A cluster of bare processes, started by Dask's own commands."""

    def __init__(self, client: Client, processes: list[subprocess.Popen[bytes]]) -> None:
        super().__init__(client)
        self._processes = processes

    def _map(self, function: Function, tasks: list[Any]) -> list[Any]:
        """Return the futures of all tasks, sent in batches."""
        futures: list[Any] = self._client.map(function, tasks, pure=False, batch_size=_BATCH)
        return futures

    def stream(self, function: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Map, then gather; arrays go straight to the interpreters first."""
        items = list(tasks)
        if hasattr(items[0], "nbytes"):
            items = self._client.scatter(items, hash=False)
        return super().stream(function, items)

    def stop(self) -> None:
        """Close the client and kill the processes: asked politely, they may wait for each other for ever."""
        super().stop()
        for process in self._processes:
            process.kill()
            process.wait()


def start(variant: str) -> TunedDaskFarm:
    """Start the processes and connect to them."""
    folder = Path(tempfile.mkdtemp(prefix="bench-dask-"))
    (folder / "tuned.yaml").write_text(json.dumps({"distributed": _TUNED}))  # JSON is YAML
    dask.config.update(dask.config.config, {"distributed": _TUNED})
    address = folder / "address.json"
    common = f"--host 127.0.0.1 --no-dashboard --scheduler-file {address}"
    commands = [f"scheduler --port 0 {common}"]
    commands += [f"worker --nthreads 1 --no-nanny --memory-limit 0 {common}"] * INTERPRETERS
    processes = [_dask(folder, command.split()) for command in commands]
    client = Client(scheduler_file=str(address))
    client.wait_for_workers(INTERPRETERS)
    return TunedDaskFarm(client, processes)


def _dask(folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start a command of Dask that reads its settings from the folder."""
    line = [sys.executable, "-m", "dask", *arguments]
    return subprocess.Popen(line, cwd=folder, env={**os.environ, "DASK_CONFIG": str(folder)})
