"""A relayed link beside a direct one, between the same ends over the same namespaces."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.grid.samples import Samples, Settings, figures, hub, program
from bench.peers.processes import cpu_seconds
from laboratory.lab import Host

_PORT = 7400
_ALL = ("--trusted", "0.0.0.0/0", "--trusted", "::/0")
#: Bytes of a copy, and null calls.
_SIZE, _CALLS = 2_000_000_000, 2000
_CLOSED = """
table ip firewall {{
    chain in {{
        type filter hook input priority filter
        tcp dport {port} drop
    }}
}}
"""


def relay(settings: Settings, samples: Samples) -> None:
    """Copies and calls in turn: directly, and through the hub because a firewall drops what comes in."""
    size, calls = (_SIZE // 10, _CALLS // 10) if settings.quick else (_SIZE, _CALLS)
    with hub() as grid, tempfile.TemporaryDirectory(dir="/dev/shm", prefix="phalanx-bench-grid-") as folder:
        lab, there = grid.host.lab, Path(folder, "there")
        there.mkdir()
        source = Path(folder, "source")
        source.write_bytes(bytes(1 << 20) * (size >> 20))
        user, host = grid.user(lab.host("desk")), lab.host("ws7")
        grid.join(host, *_ALL, "--export", f"{there}:rw", interpreters=1)
        for turn in range(settings.rounds):
            for path in ("direct", "relayed"):
                close(host, is_closed=path == "relayed")
                for level in ("private", "clear"):
                    before = cpu_seconds([grid.process.pid])
                    target = there / f"copy-{turn}"
                    (rate,) = figures(program(user, "copying.py", source, f"ws7:{target}", level))
                    samples.put(f"{level}_{path}", rate)
                    if path == "relayed":
                        used = cpu_seconds([grid.process.pid]) - before
                        samples.put("relay_cpu", used / (source.stat().st_size / 1e9))
                    target.unlink()
                (trip,) = figures(program(user, "calling.py", calls))
                samples.put(f"trip_{path}", trip)


def close(host: Host, *, is_closed: bool) -> None:
    """Let the firewall of a host drop what comes in for its executor, or not."""
    host.run(["sh", "-c", "nft delete table ip firewall 2>/dev/null || true"])
    if is_closed:
        host.run(["sh", "-c", f"echo '{_CLOSED.format(port=_PORT)}' | nft -f -"])
