"""Ray, tasks on two CPUs: variant `default`, or `tls` (gRPC between all its processes over TLS)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import ray

from bench.peers.interface import INTERPRETERS, Function

_OBJECT_STORE_BYTES = 2_000_000_000


class RayFarm:
    """A local Ray cluster."""

    def __init__(self) -> None:
        self._remote: dict[Function, Any] = {}
        ray.init(
            num_cpus=INTERPRETERS,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            log_to_driver=False,
        )

    def _function(self, function: Function) -> Any:
        """Return the remote function, made once."""
        if function not in self._remote:
            self._remote[function] = ray.remote(function)
        return self._remote[function]

    def stream(self, function: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Start a remote task for each, then get them."""
        remote = self._function(function)
        return iter(ray.get([remote.remote(task) for task in tasks]))

    def two_stages(self, first: Function, second: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Give the reference that the first stage returns to the second."""
        filtered, rendered = self._function(first), self._function(second)
        return iter(ray.get([rendered.remote(filtered.remote(task)) for task in tasks]))

    def one(self, function: Function, task: Any) -> Any:
        """Run one remote task."""
        return ray.get(self._function(function).remote(task))

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterable[Any]:
        """Map of Ray's stand-in for `multiprocessing.Pool`, which chooses a chunksize."""
        results: list[Any] = self._pool.map(function, tasks)
        return results

    def submit_all(self, function: Function, tasks: Iterable[Any]) -> Iterable[Any]:
        """Start a remote task for each, then get them: waiting for the next one again and again takes Ray longer."""
        return self.stream(function, tasks)

    @cached_property
    def _pool(self) -> Any:
        """Return the pool of as many processes."""
        from ray.util.multiprocessing import Pool

        return Pool(INTERPRETERS)

    def stop(self) -> None:
        """End the cluster."""
        ray.shutdown()


def start(variant: str) -> RayFarm:
    """Start the cluster."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if variant == "tls":
        from bench.peers.certificates import issue

        certificates = issue(ray.util.get_node_ip_address())
        os.environ |= {
            "RAY_USE_TLS": "1",
            "RAY_TLS_CA_CERT": certificates.authority,
            "RAY_TLS_SERVER_CERT": certificates.certificate,
            "RAY_TLS_SERVER_KEY": certificates.key,
        }
    return RayFarm()
