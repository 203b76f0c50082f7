"""dask.distributed: variant `default`, `tls` (default, over TLS) or `tuned`.

Tuned means: every part a process of its own, no nannies, no dashboard, tasks mapped in batches, everything
queued at the interpreters at once (`worker-saturation`), no stealing, no profiling, no memory monitor, no
compression, arrays scattered before they are used. No variant hashes its tasks (functions are declared impure).
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
from distributed import Client, LocalCluster
from distributed.security import Security

from bench.peers.interface import INTERPRETERS, Function

_TUNED = {
    "distributed.scheduler.worker-saturation": "inf",
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.comm.compression": None,
    "distributed.admin.system-monitor.interval": "10s",
}


class DaskFarm:
    """A local cluster of two processes with one thread each, and a client."""

    def __init__(self, security: Security | None) -> None:
        self._cluster = LocalCluster(
            n_workers=INTERPRETERS, threads_per_worker=1, dashboard_address=None, security=security
        )
        self._client = Client(self._cluster, security=security)

    def stream(self, function: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Map, then gather."""
        return iter(self._client.gather(self._client.map(function, list(tasks), pure=False)))

    def two_stages(self, first: Function, second: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Map over the futures of a map."""
        filtered = self._client.map(first, list(tasks), pure=False)
        return iter(self._client.gather(self._client.map(second, filtered, pure=False)))

    def one(self, function: Function, task: Any) -> Any:
        """Submit one task."""
        return self._client.submit(function, task, pure=False).result()

    def stop(self) -> None:
        """Close the client and the cluster."""
        self._client.close()
        self._cluster.close()


class TunedDaskFarm:
    """A cluster of bare processes, started by Dask's own commands."""

    def __init__(self) -> None:
        dask.config.set(_TUNED)
        folder = Path(tempfile.mkdtemp(prefix="bench-dask-"))
        (folder / "tuned.yaml").write_text(_as_yaml(_TUNED))
        address_file = folder / "cluster.json"
        common = ["--no-dashboard"]
        self._processes = [
            self._run(
                folder,
                "scheduler",
                *common,
                "--host",
                "127.0.0.1",
                "--port",
                "0",
                "--scheduler-file",
                str(address_file),
            )
        ]
        one_thread = ["--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--memory-limit", "0"]
        for _ in range(INTERPRETERS):
            self._processes.append(
                self._run(folder, "worker", *common, *one_thread, "--scheduler-file", str(address_file))
            )
        self._client = Client(scheduler_file=str(address_file))
        self._client.wait_for_workers(INTERPRETERS)

    @staticmethod
    def _run(folder: Path, command: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start `dask COMMAND` with the tuned settings."""
        line = [sys.executable, "-m", "distributed.cli.dask_" + command, *arguments]
        return subprocess.Popen(line, cwd=folder, env={**os.environ, "DASK_CONFIG": str(folder)})

    def _map(self, function: Function, tasks: list[Any]) -> list[Any]:
        """Map in batches."""
        futures: list[Any] = self._client.map(function, tasks, pure=False, batch_size=1000)
        return futures

    def stream(self, function: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Map, then gather; arrays are scattered first."""
        items = list(tasks)
        if hasattr(items[0], "nbytes"):
            items = self._client.scatter(items, hash=False)
        return iter(self._client.gather(self._map(function, items)))

    def two_stages(self, first: Function, second: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Map over the futures of a map."""
        return iter(self._client.gather(self._map(second, self._map(first, list(tasks)))))

    def one(self, function: Function, task: Any) -> Any:
        """Submit one task."""
        return self._client.submit(function, task, pure=False).result()

    def stop(self) -> None:
        """Close the client and end the processes."""
        self._client.close()
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait()


def _as_yaml(settings: dict[str, Any]) -> str:
    """Return flat settings as the nested YAML that Dask reads (JSON is YAML)."""
    nested: dict[str, Any] = {}
    for path, value in settings.items():
        *parents, name = path.split(".")
        level = nested
        for parent in parents:
            level = level.setdefault(parent, {})
        level[name] = value
    return json.dumps(nested)


def _security() -> Security:
    """Return TLS settings with a certificate for both ends."""
    from bench.peers.certificates import issue

    certificates = issue()
    ends = {
        f"tls_{role}_{kind}": path
        for role in ("client", "scheduler", "worker")
        for kind, path in (("cert", certificates.certificate), ("key", certificates.key))
    }
    return Security(tls_ca_file=certificates.authority, require_encryption=True, **ends)


def start(variant: str) -> DaskFarm | TunedDaskFarm:
    """Start two processes."""
    if variant == "tuned":
        return TunedDaskFarm()
    return DaskFarm(_security() if variant == "tls" else None)
