"""Executors that engines place: `make bench-pilots`, or `python -m bench.pilots`.

For each engine, the seconds from its grant of a place, which is the start of the process that it starts there, to an
executor that the program knows. And the rate of a farm on executors that Slurm has placed, beside the same executors
started by hand, in turn, in the same run. Slurm and Dask are started on this machine. An engine that is not here is
left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import phalanx as px

from bench.peers import command
from laboratory.needs import lacking
from laboratory.processes import Process
from laboratory.slurm import NEEDS, cluster

_PHALANX = str(Path(sys.executable).with_name("phalanx"))
#: Most seconds from the grant to the executor.
_AIM = 1.0
#: Least rate of the farm on placed executors, of that on executors by hand.
_LEAST = 0.98
#: Seconds that a task of the farm computes.
_GRAIN = 0.001


def main() -> None:
    """Measure and print the tables."""
    parser = command.table_parser("executors that engines place")
    parser.add_argument("--machine", help="a machine that ssh reaches, for px.Ssh")
    parser.add_argument("--ssh", default="ssh", help="the client of ssh, with options")
    options = parser.parse_args()
    rounds = 3 if options.quick else 9
    with tempfile.TemporaryDirectory() as name:
        os.environ["PHALANX_HOME"] = name
        found = {
            "Slurm": _slurm_ready(Path(name), rounds),
            "Dask": _dask_ready(rounds),
            "Ray": _ray_ready(rounds),
            "ssh": _ready(lambda: px.Ssh(options.machine, ssh=options.ssh), rounds) if options.machine else None,
        }
        print("| engine | its own time, ms | to the executor, ms | on top, ms | aim, ms |\n|---|---|---|---|---|")
        for engine, pairs in found.items():
            if not pairs:
                print(f"| {engine} | not here |||")
                continue
            own, all_of = (1000 * median(column) for column in zip(*pairs, strict=True))
            top = 1000 * median(pair[1] - pair[0] for pair in pairs)
            print(f"| {engine} | {own:.0f} | {all_of:.0f} | {top:.0f} | {1000 * _AIM:.0f} |")
        if not lacking(*NEEDS):
            _farm(Path(name), 400 if options.quick else 2000, rounds)


def _ready(make: Callable[[], px.pilots.Pilot], rounds: int) -> list[tuple[float, float]]:
    """Seconds from the request to the first process that the engine has started, and to the executor."""
    pairs = []
    for _ in range(rounds):
        asked = time.time()
        with make() as pilot:
            while not pilot.executors():
                time.sleep(0.005)
            pairs.append((_begun() - asked, time.time() - asked))
        while _processes():
            time.sleep(0.05)
    return pairs


def _slurm_ready(folder: Path, rounds: int) -> list[tuple[float, float]] | None:
    if lacking(*NEEDS):
        return None
    with cluster(folder / "slurm") as nodes:
        os.environ["SLURM_CONF"] = str(nodes.conf)
        return _ready(px.Slurm, rounds)


def _dask_ready(rounds: int) -> list[tuple[float, float]] | None:
    try:
        import distributed
    except ImportError:
        return None
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as here, distributed.Client(here) as client:
        return _ready(lambda: px.Dask(client), rounds)


def _ray_ready(rounds: int) -> list[tuple[float, float]] | None:
    try:
        import ray
    except ImportError:
        return None
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        return _ready(px.Ray, rounds)
    finally:
        ray.shutdown()


def _processes() -> list[Path]:
    """The folders of /proc of processes that are executors of pilots."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = file.read_bytes().split(b"\0")
            if words[1:2] == [b"-c"] and words[3:4] == [b"pilot"]:
                found.append(file.parent)
    return found


def _begun() -> float:
    """When the first of them began, in seconds since 1970."""
    ticks = []
    for folder in _processes():
        with suppress(OSError):
            ticks.append(int((folder / "stat").read_text().rpartition(")")[2].split()[19]))
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + min(ticks) / os.sysconf("SC_CLK_TCK")


def _farm(folder: Path, tasks: int, rounds: int) -> None:
    """The rates of a farm on two executors of one interpreter each."""
    rates: dict[str, list[float]] = {"by hand": [], "placed by Slurm": []}
    with cluster(folder / "farm") as nodes, _by_hand(folder / "hand") as hosts:
        os.environ["SLURM_CONF"] = str(nodes.conf)
        identity = folder / "hand" / "user.pem"
        pilot = px.Slurm(nodes=2, at_least=2, interpreters=1)
        with px.Manager(hosts, identity=identity) as hand, px.Manager(pilot) as placed:
            managers = {"by hand": hand, "placed by Slurm": placed}
            for manager in managers.values():
                list(manager.compute(_compute, range(100)))
            for number in range(2 * rounds):
                for name, manager in [*managers.items()][:: 1 if number % 2 else -1]:
                    begun = time.perf_counter()
                    list(manager.compute(_compute, range(tasks)))
                    rates[name].append(tasks / (time.perf_counter() - begun))
    ratio = median(b / a for a, b in zip(*rates.values(), strict=True))
    print("\n| a farm of tasks of 1 ms, 2 interpreters | tasks/s |\n|---|---|")
    for name, found in rates.items():
        print(f"| executors {name} | {median(found):.0f} |")
    print(f"| ratio (aim {_LEAST}) | {ratio:.3f} |")


def _compute(task: int) -> int:
    until = time.perf_counter() + _GRAIN
    while time.perf_counter() < until:
        pass
    return task


@contextmanager
def _by_hand(folder: Path) -> Iterator[px.Hosts]:
    """Two executors of one interpreter each, with certificates that were made by hand."""
    env = {**os.environ, "PHALANX_HOME": str(folder), "PHALANX_ALLOW_ROOT": "1"}
    folder.mkdir()

    def call(*words: str) -> None:
        subprocess.run([_PHALANX, "grid", *words], env=env, cwd=folder, check=True, stdout=subprocess.DEVNULL)

    call("create", "--user", "me")
    processes, addresses = [], []
    try:
        for name in ("h1", "h2"):
            call("issue", name)
            words = ["--listen", "127.0.0.1:0", "--identity", f"{name}.pem", "--interpreters", "1", "--cage", "none"]
            process = Process(
                [_PHALANX, "executor", *words, "--accept", "me", "--directory", str(folder / name)],
                title=name,
                files=folder / name,
                cwd=folder,
                env=env,
            )
            processes.append(process)
            addresses.append(f"{name} = {process.line('listening on ').split()[2]}")
        yield px.Hosts.of(addresses)
    finally:
        for process in processes:
            process.kill()


if __name__ == "__main__":
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    main()
