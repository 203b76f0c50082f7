"""What a small tuple takes in memory: a string and a key of 16 bytes, with one index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import phalanx as px

from bench.peers.processes import memory
from bench.spaces.settings import Settings
from bench.spaces.timing import fill, key
from laboratory.redis_server import RedisServer

_TOP = Path(__file__).resolve().parents[2]
#: As the encoding has it: the number of fields; a tag and a length before each text; five bytes of text and sixteen.
ENCODED = 1 + (2 + 5) + (2 + 16)
Samples = dict[str, tuple[list[float], "list[float] | None"]]


def per_tuple(settings: Settings, redis: RedisServer | None) -> Samples:
    """Bytes per tuple over the bytes of its encoding: ours by the process's resident memory, Redis' by its own word."""
    command = [sys.executable, "-m", "bench.spaces.memory", str(settings.many)]
    done = subprocess.run(command, cwd=_TOP, stdout=subprocess.PIPE, text=True, check=True)
    theirs = [_redis_bytes(redis, settings.tuples) / ENCODED] if redis else None
    return {"ratio": ([float(done.stdout) / ENCODED], theirs)}


def _redis_bytes(redis: RedisServer, count: int) -> float:
    import redis as client

    with client.Redis(unix_socket_path=str(redis.socket)) as server, px.Space(f"{redis.unix}/memory") as space:
        before = server.info("memory")["used_memory"]
        _fill(space, count)
        return float(server.info("memory")["used_memory"] - before) / count


def _fill(space: px.Space, count: int) -> None:
    for start in range(0, count, 1000):
        space.out_many([("entry", key(number)) for number in range(start, min(count, start + 1000))])


def main(count: int) -> None:
    """Fill a space and print the bytes per tuple."""
    with px.Space() as space:
        fill(space, 1000)  # whatever grows once has grown
        space.rdp("entry", key(0))
        before = memory(os.getpid())[0]
        _fill(space, count)
        space.rdp("entry", key(0))
        print((memory(os.getpid())[0] - before) * 1e6 / count)


if __name__ == "__main__":
    main(int(sys.argv[1]))
