"""Who is measured, and in which rows. Imports no peer until it is started."""

from __future__ import annotations

import importlib
import importlib.util
from typing import NamedTuple

from bench.peers.interface import Farm

ROWS = {
    "null": "null tasks/s and CPU per task",
    "round_trip": "one task at a time",
    "map": "null tasks/s by map",
    "submit": "null tasks/s by submit and as_completed",
    "grain": "grain of 90 %",
    "bytes": "1 MB in and 1 MB out",
    "bytes_100": "100 MB in and 100 MB out",
    "pipeline": "filter 0.5 ms + render 1.5 ms",
    "uneven": "uneven tasks",
    "heavy": "40 MB and 1 s",
    "first": "`python script.py` to first result",
    "memory": "idle interpreter",
}
ALL = tuple(ROWS)
#: What needs more than the interface that every peer has.
STREAMS = tuple(row for row in ROWS if row not in ("map", "submit"))


class Peer(NamedTuple):
    """One line of the table: a system in one configuration."""

    title: str
    module: str
    variant: str
    needs: tuple[str, ...] = ()  # packages beyond the standard library
    heavy: bool = False  # starts in seconds: does all its rows in one process, with shorter streams
    rows: tuple[str, ...] = ALL


PEERS = {
    "phalanx": Peer("phalanx, clear", "on_phalanx", "links", ("phalanx",)),
    "phalanx-private": Peer("phalanx, private", "on_phalanx", "all", ("phalanx",)),
    "pool": Peer("multiprocessing.Pool, chunksize 1", "on_pool", "1", rows=STREAMS),
    "pool-best": Peer("multiprocessing.Pool, best chunksize", "on_pool", "best", rows=("null",)),
    "processpool": Peer("ProcessPoolExecutor", "on_processpool", "1"),
    "processpool-best": Peer("ProcessPoolExecutor, best chunksize", "on_processpool", "best", rows=("map",)),
    "pipes": Peer("loop over pipes", "on_pipes", "clear", rows=STREAMS),
    "pipes-tls": Peer("loop over Python's ssl", "on_pipes", "tls", ("trustme",), rows=STREAMS),
    "dask": Peer("Dask", "on_dask", "default", ("distributed",), heavy=True),
    "dask-tuned": Peer("Dask, tuned", "on_dask_tuned", "", ("distributed",), heavy=True, rows=STREAMS),
    "dask-tls": Peer(
        "Dask, TLS",
        "on_dask",
        "tls",
        ("distributed", "trustme"),
        heavy=True,
        rows=("null", "round_trip", "bytes"),
    ),
    "ray": Peer("Ray", "on_ray", "default", ("ray",), heavy=True),
    "ray-tls": Peer("Ray, TLS", "on_ray", "tls", ("ray", "trustme"), heavy=True, rows=("null", "round_trip", "bytes")),
    "parsl": Peer("Parsl", "on_parsl", "", ("parsl",), heavy=True, rows=STREAMS),
}


def missing(name: str) -> list[str]:
    """Return the packages that the peer needs and that are not installed."""
    needs = PEERS[name].needs + (("numpy",) if "bytes" in PEERS[name].rows else ())
    return [package for package in needs if importlib.util.find_spec(package) is None]


def start(name: str) -> Farm:
    """Start the peer's farm of two interpreters."""
    peer = PEERS[name]
    farm: Farm = importlib.import_module(f"bench.peers.{peer.module}").start(peer.variant)
    return farm
