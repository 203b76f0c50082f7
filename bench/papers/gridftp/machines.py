"""Both systems at several pairs of machines (network namespaces), told to stripe one transfer over all of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.transfer import gridftp, phalanx
from bench.transfer.settings import Settings
from bench.transfer.site import Failure, Site
from laboratory.lab import Host

#: A data node and its front end know each other by the name in their certificates.
_TRUST = ("-ipc-auth-mode", "subject:/O=bench/CN=server")
_TOP = Path(__file__).resolve().parents[3]


@dataclass
class Machines:
    """``near`` send to ``far``, each over a line of its own; servers run until the stack ends."""

    folder: Path
    near: Sequence[Host]
    far: Sequence[Host]
    stack: ExitStack
    _executors: dict[str, phalanx.Executor] = field(default_factory=dict)
    _gridftp: gridftp.GridFtp | None = None
    #: Front ends by threads and number of stripes: ports at the first machines, near and far.
    _fronts: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    _warm: set[tuple[int, int]] = field(default_factory=set)
    #: Data nodes by machine and threads.
    _nodes: dict[tuple[str, int], str] = field(default_factory=dict)

    def ours(self, level: str, streams: int, threads: int, stripes: int, settings: Settings) -> float:
        """GB/s of one copy between executors, from memory to memory."""
        near, far = ([self._executor(host) for host in side[:stripes]] for side in (self.near, self.far))
        counts = [str(streams), str(threads), str(settings.seconds)]
        asked = [far[0].at("memory"), far[0].network, level, *counts, f"{near[0].address}:"]
        if stripes > 1:
            asked.append("/".join(",".join(one.address for one in side[1:]) for side in (near, far)))
        run = _at(self.folder, self.near[0]).run(
            [sys.executable, "-m", "bench.transfer.by_time", *asked], {"PYTHONPATH": str(_TOP)}
        )
        return float(run.output) / 1e9

    def _executor(self, host: Host) -> phalanx.Executor:
        if host.name not in self._executors:
            executor = self.stack.enter_context(phalanx.started(_at(self.folder, host)))
            self._executors[host.name] = executor
        return self._executors[host.name]

    def theirs(self, level: str, streams: int, threads: int, stripes: int, gigabytes: float) -> float:
        """GB/s of one transfer, from memory to memory; of more than one stripe between front ends with data nodes."""
        if lacking := gridftp.missing():
            raise Failure(lacking)
        if self._gridftp is None:
            names = {host.address: host.name for host in (*self.near, *self.far)}
            self._gridftp = self.stack.enter_context(gridftp.started(_at(self.folder, self.near[0]), names))
        one, other = self._front_ends(self._gridftp, threads, stripes)
        urls = [
            f"gsiftp://{self.near[0].address}:{one}/dev/zero",
            f"gsiftp://{self.far[0].address}:{other}/dev/null",
        ]
        words = ["-stripe"] if stripes > 1 else []
        sizes = [int(gigabytes * 1e9)]
        if (threads, stripes) not in self._warm:  # links between front ends and data nodes are opened once
            self._warm.add((threads, stripes))
            sizes.insert(0, 1)
        for size in sizes:
            command = self._gridftp.client(level, streams, *words, "-len", str(size), *urls)
            self._gridftp.site.run(command, self._gridftp.environment("user"))
        # The receiving front end counts from when it was told to listen, before there are connections.
        return max(self._gridftp.last_rate(port) for port in (one, other))

    def _front_ends(self, servers: gridftp.GridFtp, threads: int, stripes: int) -> tuple[int, int]:
        key = threads, stripes
        if key not in self._fronts:
            self._fronts[key] = (
                self._front_end(servers, self.near[:stripes], threads),
                self._front_end(servers, self.far[:stripes], threads),
            )
        return self._fronts[key]

    def _front_end(self, servers: gridftp.GridFtp, hosts: Sequence[Host], threads: int) -> int:
        nodes = [self._node(servers, host, threads) for host in hosts] if len(hosts) > 1 else []
        words = ["-remote-nodes", ",".join(nodes), *_TRUST] if nodes else []
        return servers.serve(_at(self.folder, hosts[0]), threads, *words)

    def _node(self, servers: gridftp.GridFtp, host: Host, threads: int) -> str:
        key = host.name, threads
        if key not in self._nodes:
            port = servers.serve(_at(self.folder, host), threads, "-data-node", *_TRUST)
            self._nodes[key] = f"{host.address}:{port}"
        return self._nodes[key]


def _at(folder: Path, host: Host) -> Site:
    """A site whose commands and servers run at one machine."""
    return Site(folder, host.address, host.namespace, host.namespace)
