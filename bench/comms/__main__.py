"""Dask's comms: `phalanx://` beside Dask's own `tls://`: `make bench-comms`, or `python -m bench.comms`.

Both sides have processes of this machine that are connected by TCP over the loopback, as between machines: phalanx's do
not find each other's unix sockets, and all their links are private. The sides take turns, sample by sample. CPU is the
user and system time of all processes. Dask's `tcp://`, which protects nothing, is there for comparison.

*link*: one process sends arrays to the other, which acknowledges each, as workers fetch data of each other.
*cluster*: a client scatters arrays to a worker and gathers them, both through Dask's scheduler; each is a process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from phalanx import _native

from bench.peers import certificates, command

SIDES = ("phalanx", "tls", "tcp")
SIZES = {"64 KB": 64_000, "1 MB": 1_000_000}
ROWS = ("link", "cluster")
#: What phalanx is to reach beside tls: throughput at least, CPU at most.
THROUGHPUT, CPU = 1.3, 0.8
TIMEOUT = 300


def main() -> None:
    """Measure and print the table."""
    parser = command.table_parser("Dask's comms: phalanx:// beside tls://", ROWS)
    options = parser.parse_args()
    rounds, amount = (1, 20_000_000) if options.quick else (5, 400_000_000)
    samples: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    with _environments() as environments, ExitStack() as stack:
        asked = {
            (row, side): stack.enter_context(_ends(row, side, environments[side]))
            for row in options.only
            for side in SIDES
        }
        for number in range(rounds):
            for row in options.only:
                for name, size in SIZES.items():
                    for side in SIDES:
                        order = (size, amount // (1 if row == "link" else 4))
                        sample = _sample(asked[row, side], side, order)
                        samples.setdefault((row, name), {}).setdefault(side, []).append(sample)
            command.say(f"round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}")
    print(f"medians of {rounds} [quartiles], load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print("| row | payload | side | MB/s | CPU ms/MB | times tls: MB/s | CPU |\n|---|---|---|---|---|---|---|")
    for (row, name), sides in samples.items():
        for side, found in sides.items():
            print(f"| {row} | {name} | {side} | " + _line(found, sides["tls"]) + " |")
    if options.json:
        options.json.write_text(json.dumps({f"{row} {name}": sides for (row, name), sides in samples.items()}))


def _line(found: list[dict[str, Any]], tls: list[dict[str, Any]]) -> str:
    rates, costs = _rates(found), _costs(found)
    ratios = [ours / theirs for ours, theirs in zip(rates, _rates(tls), strict=True)]
    shares = [ours / theirs for ours, theirs in zip(costs, _costs(tls), strict=True)]
    return " | ".join([_told(rates, 0), _told(costs, 2), _told(ratios, 2), _told(shares, 2)])


def _rates(found: list[dict[str, Any]]) -> list[float]:
    return [it["bytes"] / it["seconds"] / 1e6 for it in found]


def _costs(found: list[dict[str, Any]]) -> list[float]:
    return [it["cpu"] * 1e9 / it["bytes"] for it in found]


def _told(values: list[float], digits: int) -> str:
    low, _, high = quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
    return f"{median(values):.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


@contextmanager
def _environments() -> Iterator[dict[str, dict[str, str]]]:
    """What the processes of each side find in their environment."""
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-comms-") as name:
        home = Path(name) / "home"
        home.mkdir()
        file = home / "executor.pem"
        file.touch(mode=0o600)
        file.write_text(_native.issue_member(_native.create_grid(), "executor", "lab"))
        issued = certificates.issue()
        phalanx = {"PHALANX_HOME": str(home), "DASK_DISTRIBUTED__COMM__PHALANX__POLICY": "all"}
        base = os.environ | {"DASK_LOGGING__DISTRIBUTED": "critical"}
        yield {"phalanx": base | phalanx, "tls": base | {"COMMS_TLS": json.dumps(issued)}, "tcp": base}


@contextmanager
def _ends(row: str, side: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The processes of one side, of which the last takes orders."""
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-ends-") as name:
        ends: list[subprocess.Popen[str]] = []
        module = "bench.comms.ends" if row == "link" else "bench.comms.cluster"

        def start(role: str, argument: str) -> subprocess.Popen[str]:
            folder = Path(name) / role  # so that they do not find each other's unix sockets
            folder.mkdir(mode=0o700)
            env = environment | {"XDG_RUNTIME_DIR": str(folder), "DASK_TEMPORARY_DIRECTORY": name}
            words = [sys.executable, "-m", module, role, argument]
            ends.append(subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            return ends[-1]

        try:
            address = _heard(start("sink" if row == "link" else "scheduler", side))["address"]
            if row == "cluster":
                _heard(start("worker", address))
            yield start("source" if row == "link" else "client", address)
            ends[-1].communicate(timeout=TIMEOUT)  # its input ends, and then all do
            for end in reversed(ends[:-1]):
                end.communicate(timeout=TIMEOUT)
        finally:
            for end in ends:
                end.kill()
                end.communicate()


def _sample(end: subprocess.Popen[str], side: str, order: tuple[int, int]) -> dict[str, Any]:
    """Bytes, seconds and CPU seconds."""
    assert end.stdin is not None
    end.stdin.write(json.dumps(order) + "\n")
    end.stdin.flush()
    found = _heard(end)
    assert side != "phalanx" or found["level"] == "private", found
    return found


def _heard(end: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line of an end."""
    assert end.stdout is not None
    line = end.stdout.readline()
    if not line:
        raise RuntimeError(f"an end failed: {' '.join(map(str, end.args))}")  # type: ignore[arg-type]
    found: dict[str, Any] = json.loads(line)
    return found


if __name__ == "__main__":
    command.run(main, RuntimeError)
