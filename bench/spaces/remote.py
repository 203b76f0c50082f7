"""A space that another process keeps, over a unix socket and over TCP; clients are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import phalanx as px

from bench.spaces.server import LOOPBACK
from bench.spaces.settings import Settings
from bench.spaces.timing import fill
from laboratory.redis_server import RedisServer

_TOP = Path(__file__).resolve().parents[2]
Samples = dict[str, tuple[list[float], "list[float] | None"]]


class Client:
    """A process of `bench.spaces.client`, which is ready."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, operation: str) -> None:
        """Let it do something."""
        assert self._process.stdin
        print(operation, file=self._process.stdin, flush=True)

    def end(self) -> float:
        """What it measured."""
        return float(json.loads(_line(self._process)))

    def measure(self, operation: str) -> float:
        """Both."""
        self.begin(operation)
        return self.end()


def operations(settings: Settings, redis: RedisServer | None) -> Samples:
    """rdp and inp, over both kinds of sockets."""
    with ExitStack() as stack:
        clients = _pairs(stack, settings, redis)
        samples: Samples = {}
        for kind in clients:
            for operation in ("rdp", "inp"):
                samples[f"{kind} {operation}"] = _in_turn(clients[kind], operation, settings)
        return samples


def two_clients(settings: Settings, redis: RedisServer | None) -> Samples:
    """rdp per second of two clients together, over unix sockets."""
    ours: list[float] = []
    theirs: list[float] = []
    with ExitStack() as stack:
        pairs = [_pairs(stack, settings, redis, served)["unix"] for served in [_served(stack, settings, redis)] * 2]
        for _ in range(settings.rounds):
            for side, samples in ((0, ours), (1, theirs)):
                both = [client for pair in pairs if (client := pair[side])]
                for client in both:
                    client.begin("rate")
                if both:
                    samples.append(sum(client.end() for client in both))
    return {"rate": (ours, theirs or None)}


def blobs(settings: Settings, redis: RedisServer | None) -> Samples:
    """64 KiB in a tuple, over a unix socket."""
    with ExitStack() as stack:
        pair = _pairs(stack, settings, redis)["unix"]
        return {
            "out": _in_turn(pair, "blob out", settings),
            "in": _in_turn(pair, "blob in", settings),
        }


def woken(settings: Settings, redis: RedisServer | None) -> Samples:
    """One way from out to the return of an in_ that waits, over unix sockets."""
    ours: list[float] = []
    theirs: list[float] = []
    with ExitStack() as stack:
        served = _served(stack, settings, redis)
        asking, answering = (_pairs(stack, settings, redis, served)["unix"] for _ in range(2))
        for _ in range(settings.rounds):
            for side, samples in ((0, ours), (1, theirs)):
                ask, echo = asking[side], answering[side]
                if ask and echo:
                    echo.begin("echo")
                    samples.append(ask.measure("ask"))
                    echo.end()
    return {"one way": (ours, theirs or None)}


def private(settings: Settings, redis: RedisServer | None) -> Samples:
    """rdp over TCP with a private link over the same with a clear one, in turn."""
    with ExitStack() as stack:
        address = stack.enter_context(_serving(settings.tuples))
        clear, secret = (
            stack.enter_context(_client(settings, address, tcp=True, policy=policy)) for policy in ("links", "all")
        )
        ratios = []
        for _ in range(settings.rounds):
            plain = clear.measure("rdp")
            ratios.append(secret.measure("rdp") / plain)
        return {"ratio": (ratios, None)}


Pair = tuple[Client, "Client | None"]


def _served(stack: ExitStack, settings: Settings, redis: RedisServer | None) -> str:
    """The address of a space of ours; Redis' has the same tuples from then on."""
    if redis:
        with px.Space(f"{redis.unix}/other") as space:
            if not space.rdp("entry", str, int):
                fill(space, settings.tuples)
    return stack.enter_context(_serving(settings.tuples))


def _pairs(
    stack: ExitStack, settings: Settings, redis: RedisServer | None, address: str | None = None
) -> dict[str, Pair]:
    """A client of our space and one of Redis', for both kinds of sockets."""
    address = address or _served(stack, settings, redis)
    pairs: dict[str, Pair] = {}
    for kind in ("unix", "tcp"):
        ours = stack.enter_context(_client(settings, address, tcp=kind == "tcp", policy="links"))
        theirs = None
        if redis:
            where = redis.tcp if kind == "tcp" else redis.unix
            theirs = stack.enter_context(_client(settings, f"{where}/other"))
        pairs[kind] = ours, theirs
    return pairs


def _in_turn(pair: Pair, operation: str, settings: Settings) -> tuple[list[float], list[float] | None]:
    ours, theirs = [], []
    for _ in range(settings.rounds):
        ours.append(pair[0].measure(operation))
        if pair[1]:
            theirs.append(pair[1].measure(operation))
    return ours, theirs or None


@contextmanager
def _serving(tuples: int) -> Iterator[str]:
    with _process("bench.spaces.server", str(tuples)) as process:
        yield _line(process)


@contextmanager
def _client(settings: Settings, address: str, *, tcp: bool = False, policy: str | None = None) -> Iterator[Client]:
    """`tcp`: it does not find the unix socket of the server, which is in the user's runtime folder.

    `policy`: of a link to a space of ours, which is clear with "links" and private with "all".
    """
    options = {"policy": policy, "trusted": [LOOPBACK]} if policy else {}
    level = {"links": "clear", "all": "private"}.get(policy or "")
    order = {"address": address, "options": options, "level": level, **settings._asdict()}
    with tempfile.TemporaryDirectory(prefix="bench-") as elsewhere:
        env = {"XDG_RUNTIME_DIR": elsewhere} if tcp else {}
        with _process("bench.spaces.client", json.dumps(order), env=env) as process:
            assert _line(process) == "ready"
            yield Client(process)


@contextmanager
def _process(module: str, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[Any]]:
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=_TOP,
        env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline().strip()
    if not line:
        raise RuntimeError(f"a process of the benchmark ended with code {process.wait()}")
    return line
