"""Short jobs, beside HyperQueue: `make bench-jobs`, or `python -m bench.jobs`.

Both run the same number of processes of `true` on two places of this machine, in turn, in the same run. phalanx has a
hub and an executor as processes of their own, over private links, with its cage; HyperQueue has its server and worker
in one process. A peer that is not installed is left out, and said.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

from bench.peers import command
from laboratory.processes import Process

_PHALANX = str(Path(sys.executable).with_name("phalanx"))
_PLACES = 2
#: Jobs a second that phalanx is to reach.
_AIM = 200
_PEER = """
import sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
count = int(sys.argv[1])
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=2))
    client = cluster.client()
    def run(count):
        job = Job()
        for _ in range(count):
            job.program(["true"], stdout=None, stderr=None)
        begun = time.perf_counter()
        submitted = client.submit(job)
        client.wait_for_jobs([submitted])
        return time.perf_counter() - begun
    run(10)
    print(run(count))
"""


def main() -> None:
    """Measure and print the table."""
    parser = command.table_parser("short jobs, beside HyperQueue")
    parser.add_argument("--peer", default=sys.executable, help="a Python that has hyperqueue [default: this one]")
    options = parser.parse_args()
    count, rounds = (200, 2) if options.quick else (10_000, 5)
    found: dict[str, list[float]] = {"phalanx": [], "HyperQueue": []}
    with _grid() as environment:
        _phalanx(environment, 10)
        for number in range(rounds):
            found["phalanx"].append(count / _phalanx(environment, count))
            if (seconds := _hyperqueue(options.peer, count)) is not None:
                found["HyperQueue"].append(count / seconds)
            last = ", ".join(f"{name} {rates[-1]:.0f}/s" for name, rates in found.items() if rates)
            command.say(f"round {number + 1} of {rounds}: {last}")
    print(f"{count} processes of `true` on {_PLACES} places, {rounds} rounds, load {os.getloadavg()[0]:.1f}\n")
    for name, rates in found.items():
        if not rates:
            print(f"{name}: not installed (pip install hyperqueue)")
            continue
        low, _, high = quantiles(rates, n=4) if len(rates) > 1 else (rates[0],) * 3
        print(f"{name}: {median(rates):.0f} processes/s [{low:.0f}, {high:.0f}]")
    verdict = "reached" if median(found["phalanx"]) >= _AIM else "missed"
    print(f"aim {_AIM} processes/s: {verdict}")


def _phalanx(environment: dict[str, str], count: int) -> float:
    begun = time.perf_counter()
    words = [_PHALANX, "submit", "--wait", "--json", "-n", str(count), "--", "true"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - begun
    job = json.loads(done.stdout)
    assert job["counts"]["complete"] == count, job
    subprocess.run([_PHALANX, "jobs", "--forget", str(job["id"])], env=environment, capture_output=True, check=True)
    return seconds


def _hyperqueue(python: str, count: int) -> float | None:
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-hq-") as folder:
        done = subprocess.run(
            [python, "-c", _PEER, str(count)], capture_output=True, text=True, cwd=folder, check=False
        )
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


@contextmanager
def _grid() -> Iterator[dict[str, str]]:
    """A hub, and an executor with two places."""
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-jobs-") as name:
        folder = Path(name)
        hub = {**os.environ, "PHALANX_HOME": str(folder / "hub"), "PHALANX_ALLOW_ROOT": "1"}
        executor = {**hub, "PHALANX_HOME": str(folder / "ws7")}
        listens = ["--listen", "127.0.0.1:0"]
        up = [_PHALANX, "up", "--grid", "bench", "--hub-only", *listens]
        processes = [Process(up, title="hub", files=folder / "hub-files", cwd=folder, env=hub)]
        try:
            token = processes[0].line("phalanx join ", timeout=60).split()[2]
            join = [_PHALANX, "join", "--interpreters", str(_PLACES), "--name", "ws7", *listens, token]
            processes.append(Process(join, title="ws7", files=folder / "ws7-files", cwd=folder, env=executor))
            processes[1].line("known to the hub", timeout=60)
            yield hub
        finally:
            for process in reversed(processes):
                process.kill()


if __name__ == "__main__":
    main()
