"""What is measured: each row with the figures that phalanx wants to reach, in the order in which they are printed."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from bench.mpi.cores import Cores
from bench.mpi.libraries import MEMORY, OURS, PEERS, PRIVATE, TCP, Library, Mpich, peers_of
from bench.mpi.runs import Runs, begun, busy
from bench.mpi.settings import Settings

#: Samples of each figure of a row, by library.
Samples = dict[str, dict[str, list[float]]]
KB, MB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Figure:
    """``reach``: at least or at most so much, in ``unit``; ``relative``: so many times the better of the peers."""

    what: str
    unit: str = "µs"
    reach: float | None = None
    relative: bool = True
    higher_is_better: bool = False


@dataclass(frozen=True)
class Row:
    """A program with its words, and the figures that it prints by their names."""

    program: str
    words: tuple[str, ...]
    figures: dict[str, Figure]
    way: str = MEMORY
    ranks: int = 2
    #: Processes that compute meanwhile.
    busy: int = 0
    peers: tuple[Library, ...] = PEERS

    def libraries(self) -> list[Library]:
        """Those that can be measured."""
        return [library for library in (OURS, *self.peers) if not library.missing(self.way)]

    def measure(self, settings: Settings, runs: Runs, cores: Cores) -> Samples:
        """Libraries take turns, each run in processes of its own, with the cores at one distance."""
        samples: Samples = {name: {} for name in self.figures}
        for _ in range(settings.rounds):
            for library in self.libraries():
                run = partial(self._run, library, settings, runs)
                figures = run() if self.busy or "BEGUN" in self.words else cores.at_one_distance(run)
                for name in self.figures:
                    samples[name].setdefault(library.title, []).append(figures[name])
        return samples

    def _run(self, library: Library, settings: Settings, runs: Runs) -> dict[str, float]:
        with busy(self.busy) if self.busy else nullcontext():
            return runs.figures(library, self.way, self.program, self.ranks, *self._words(settings))

    def _words(self, settings: Settings) -> list[str]:
        known = {"SECONDS": f"{settings.seconds}", "BEGUN": begun()}
        return [known.get(word, word) for word in self.words]


def _c_ping_pong(title: str, way: str, reaches: tuple[float | None, float | None, float | None]) -> Row:
    sizes = {8: "8 B", 64 * KB: "64 KB", MB: "1 MB"}
    figures = {
        str(size): Figure(f"C ping-pong, {title}, {name}", reach=reach)
        for (size, name), reach in zip(sizes.items(), reaches, strict=True)
    }
    return Row("ping_pong.c", ("SECONDS", *figures), figures, way)


def _arrays(title: str, way: str) -> Row:
    figures = {
        f"array-{MB}": Figure(f"mpi4py, pickled array of 1 MB, {title}", reach=1.1),
        f"array-{4 * MB}": Figure(f"mpi4py, pickled array of 4 MB, {title}", reach=1.1),
    }
    return Row("objects.py", ("SECONDS", *figures), figures, way)


def _object(title: str, way: str) -> Row:
    figures = {"object": Figure(f"mpi4py, object of 8 B, {title}", reach=1.1)}
    return Row("objects.py", ("SECONDS", *figures), figures, way)


def _sync(title: str, way: str, reach: float) -> Row:
    figures = {"sync": Figure(f"empty sync of BSP, {title}", reach=reach, relative=False)}
    return Row("empty_sync.c", ("SECONDS",), figures, way, peers=())


def _barrier(what: str, reach: float, neighbours: int) -> Row:
    figures = {"barrier": Figure(what, reach=reach, relative=False)}
    return Row("collectives.c", ("SECONDS", "barrier"), figures, ranks=4, busy=neighbours)


#: Collective operations, and the bytes at which each is measured: those of OSU's micro-benchmarks.
_OPERATIONS = ("bcast", "reduce", "allreduce", "allgather", "alltoall")


def _collectives(way: str, ranks: int) -> Row:
    title = f"{ranks} ranks" if way == MEMORY else f"{ranks} ranks, {way}"
    figures = {"barrier": Figure(f"barrier, {title}", reach=1.1)}
    for operation in _OPERATIONS:
        for size, name in ((8, "8 B"), (8 * KB, "8 KB"), (MB, "1 MB")):
            figures[f"{operation}-{size}"] = Figure(f"{operation} of {name}, {title}", reach=1.1)
    return Row("collectives.c", ("SECONDS", *figures), figures, way, ranks, peers=peers_of(ranks))


def _pairs(way: str, ranks: int) -> Row:
    title = f"{ranks // 2} to {ranks // 2} ranks, {way}"
    figures = {
        "rate-8": Figure(f"stream of 8 B, {title}", "million/s", 0.91, higher_is_better=True),
        str(8 * KB): Figure(f"stream of 8 KB, {title}", "GB/s", 0.91, higher_is_better=True),
        str(MB): Figure(f"stream of 1 MB, {title}", "GB/s", 0.91, higher_is_better=True),
    }
    return Row("stream.c", ("SECONDS", "8", str(8 * KB), str(MB)), figures, way, ranks, peers=peers_of(ranks))


_ONE_SIDED = {
    "put": Figure("put of 8 B", reach=1.1),
    "long_put": Figure("put of 1 MB", reach=1.1),
    "get": Figure("get of 8 B", reach=1.1),
    "long_get": Figure("get of 1 MB", reach=1.1),
    "accumulate": Figure("accumulate of 8 B", reach=1.1),
    "long_accumulate": Figure("accumulate of 1 MB", reach=1.1),
    "fetch_and_op": Figure("fetch-and-op of 8 B", reach=1.1),
    "compare_and_swap": Figure("compare-and-swap of 8 B", reach=1.1),
    "lock": Figure("lock and unlock of a window", reach=1.1),
    "fence": Figure("fence, 2 ranks", reach=1.1),
}
_ONE_SIDED_TCP = {name: replace(figure, what=f"{figure.what}, TCP") for name, figure in _ONE_SIDED.items()}
_STREAM = {
    str(64 * KB): Figure("stream of 64 KB, shared memory", "GB/s", 0.9, higher_is_better=True),
    str(MB): Figure("stream of 1 MB, shared memory", "GB/s", 0.9, higher_is_better=True),
}
_PRIVATE = {
    "object": Figure("mpi4py, object of 8 B, private", reach=15, relative=False),
    f"buffer-{MB}": Figure("mpi4py, array of 1 MB by its buffer, private", reach=500, relative=False),
    f"array-{MB}": Figure("mpi4py, pickled array of 1 MB, private"),
}
_BUSY_TCP = {"8": Figure("C ping-pong, TCP, 8 B, beside two busy processes", reach=12, relative=False)}
_WAITING = {"cpu": Figure("CPU of waiting in a receive, of a core", "%", 2, relative=False)}
_START = {"start": Figure("start of 8 ranks to MPI_Init done", "s", 0.3, relative=False)}

ROWS: dict[str, Row] = {
    "memory": _c_ping_pong("shared memory", MEMORY, (1.2, 1.2, 1.2)),
    "tcp": _c_ping_pong("TCP", TCP, (1.05, 1.05, 1.05)),
    "private": Row("objects.py", ("SECONDS", *_PRIVATE), _PRIVATE, PRIVATE),
    "c-private": _c_ping_pong("private", PRIVATE, (None, None, None)),
    "object": _object("shared memory", MEMORY),
    "object-tcp": _object("TCP", TCP),
    "arrays": _arrays("shared memory", MEMORY),
    "arrays-tcp": _arrays("TCP", TCP),
    "stream": Row("stream.c", ("SECONDS", *_STREAM), _STREAM),
    "one-sided": Row("one_sided.c", ("SECONDS", *_ONE_SIDED), _ONE_SIDED),
    "one-sided-tcp": Row("one_sided.c", ("SECONDS", *_ONE_SIDED_TCP), _ONE_SIDED_TCP, TCP, peers=(Mpich(),)),
    "pairs": _pairs(MEMORY, 2),
    "pairs-4": _pairs(MEMORY, 4),
    "pairs-tcp": _pairs(TCP, 2),
    "pairs-tcp-4": _pairs(TCP, 4),
    "collectives": _collectives(MEMORY, 2),
    "collectives-4": _collectives(MEMORY, 4),
    "collectives-tcp": _collectives(TCP, 2),
    "collectives-tcp-4": _collectives(TCP, 4),
    "crowded": _barrier("barrier, 4 ranks", 40, 0),
    "crowded-busy": _barrier("barrier, 4 ranks, beside two busy processes", 200, 2),
    "tcp-busy": Row("ping_pong.c", ("SECONDS", "8"), _BUSY_TCP, TCP, busy=2),
    "waiting": Row("waiting.c", ("1",), _WAITING),
    "sync": _sync("shared memory", MEMORY, 10),
    "sync-tcp": _sync("TCP", TCP, 40),
    "start": Row("starting.c", ("BEGUN",), _START, ranks=8),
}
