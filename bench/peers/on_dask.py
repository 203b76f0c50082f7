"""dask.distributed as it comes: variant `default`, or `tls`. Tasks are not hashed (`pure=False`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from distributed import Client, LocalCluster, as_completed
from distributed.security import Security

from bench.peers.interface import INTERPRETERS, Function


class DaskFarm:
    """A client of a cluster with two interpreters."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def _map(self, function: Function, tasks: list[Any]) -> list[Any]:
        """Return the futures of all tasks."""
        futures: list[Any] = self._client.map(function, tasks, pure=False)
        return futures

    def stream(self, function: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Map, then gather."""
        return iter(self._client.gather(self._map(function, list(tasks))))

    def two_stages(self, first: Function, second: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Map over the futures of a map."""
        return iter(self._client.gather(self._map(second, self._map(first, list(tasks)))))

    def one(self, function: Function, task: Any) -> Any:
        """Submit one task."""
        return self._client.submit(function, task, pure=False).result()

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterable[Any]:
        """Map, then gather."""
        return self.stream(function, tasks)

    def submit_all(self, function: Function, tasks: Iterable[Any]) -> Iterable[Any]:
        """Submit, then Dask's own `as_completed`, which fetches the results."""
        futures = [self._client.submit(function, task, pure=False) for task in tasks]
        return (result for _, result in as_completed(futures, with_results=True))

    def stop(self) -> None:
        """Close the client, and the cluster that it was made for."""
        self._client.close()
        if self._client.cluster:
            self._client.cluster.close()


def _security() -> Security:
    """Return TLS settings with a certificate for both ends."""
    from bench.peers.certificates import issue  # needs a package that the other variant does without

    certificates = issue()
    ends = {
        f"tls_{role}_{kind}": path
        for role in ("client", "scheduler", "worker")
        for kind, path in (("cert", certificates.certificate), ("key", certificates.key))
    }
    return Security(tls_ca_file=certificates.authority, require_encryption=True, **ends)


def start(variant: str) -> DaskFarm:
    """Start a local cluster of two processes with one thread each."""
    security = _security() if variant == "tls" else None
    cluster = LocalCluster(n_workers=INTERPRETERS, threads_per_worker=1, dashboard_address=None, security=security)
    return DaskFarm(Client(cluster, security=security))
