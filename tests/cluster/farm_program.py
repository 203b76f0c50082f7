"""A manager program of the cluster tests: a farm in a pipeline over the numbers 0 … COUNT-1.

Usage: `python farm_program.py OPTIONS`, a JSON object with the fields of `Options`. It prints JSON objects,
one per line: {"result": …} for each, at the end {"summary": …} or {"error": its class, "text": what it says}.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import phalanx as px
from phalanx.security import read_policy


@dataclasses.dataclass(frozen=True)
class Options:
    """What a test asks of the program."""

    traces: str  # a folder: each firing leaves a file `<task>-<pid>` there
    hosts: str | None = None  # a hosts file; None: this machine
    joined: str | None = None  # a grid that the user has joined, in place of a hosts file
    lan: int | None = None  # at least so many executors on the local network, in place of a hosts file
    identity: str | None = None
    count: int = 100
    seconds: float = 0.02  # of each task
    slow: int = 0  # the first so many tasks take ten times as long
    degree: int | None = 4  # None: all that there are
    throughput: float | None = None  # this contract, instead of the degree
    task_marker: str = ""
    code_marker: str = ""
    module: str | None = None  # imported by the program's code, here and there
    culprit: int = -1  # the task that kills its interpreter
    failing: int = -1  # the task that raises its marker
    patience: float = 30.0  # for machines to come back
    policy: str = "links"
    secure: str | None = None  # the mark of the whole program


def say(**fact: Any) -> None:
    print(json.dumps(fact, default=str), flush=True)


def prepared(task: tuple[int, str]) -> tuple[int, str]:
    return task[0] * 10, task[1]


def renderer(options: Options) -> Callable[[tuple[int, str]], dict[str, Any]]:
    """The heavy stage, as a closure: what it encloses travels with the code."""
    library = importlib.import_module(options.module) if options.module else math

    def render(task: tuple[int, str]) -> dict[str, Any]:
        number = task[0] // 10
        (Path(options.traces) / f"{number}-{os.getpid()}").touch()
        if number == options.culprit:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == options.failing:
            raise ValueError(task[1])
        time.sleep(options.seconds * (10 if number < options.slow else 1))
        where = {"machine": socket.gethostname(), "pid": os.getpid(), "library": library.__name__}
        return {"value": task[0] + 1, "marker": task[1], **where}

    return render


def main() -> int:
    options = Options(**json.loads(sys.argv[1]))
    where = px.Hosts(options.hosts) if options.hosts else options.joined
    lan = None if options.lan is None else px.Lan(at_least=options.lan, patience=30)
    program = px.Pipeline(prepared, px.Farm(renderer(options)), secure=options.secure)  # type: ignore[arg-type]
    rate = options.throughput
    asked = None if options.degree is None else px.ParDegree(options.degree)
    contract = asked if rate is None else px.Throughput(rate)
    policy = read_policy(options.policy)
    tasks = ((number, options.task_marker) for number in range(options.count))
    try:
        how: dict[str, Any] = {"identity": options.identity, "policy": policy, "patience": options.patience}
        with px.Manager(lan or where, contract=contract, **how) as manager:
            results = manager.compute(program, tasks)
            for result in results:
                say(result=result, at=time.time())
            say(summary={**dataclasses.asdict(manager.summary()), "bill": dataclasses.asdict(results.bill)})
    except px.PhalanxError as error:
        say(error=type(error).__name__, text=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
