"""A program whose manager has its executors in actors of Ray. Ray is in an environment of its own."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import cloudpickle
import phalanx as px
import ray
from phalanx.errors import RecruitError
from pilots import programs
from pilots.programs import executors, square, where

cloudpickle.register_pickle_by_value(programs)


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def computes() -> None:
    pilot = px.Ray(2, at_least=2)
    with px.Manager(pilot) as manager:
        assert manager.interpreters == 2
        assert list(manager.map(square, range(100))) == [number**2 for number in range(100)]
        assert len(executors()) == 2
        assert ray.available_resources().get("CPU", 0) == 0  # Ray counts what the executors use
    until(lambda: not executors(), "the end of the executors")
    until(lambda: ray.available_resources().get("CPU", 0) == 2, "what Ray has free again")


def survives_losses() -> None:
    pilot = px.Ray(2, at_least=2)
    with px.Manager(pilot) as manager:
        results = manager.compute(where, range(200))
        found = [next(results)]
        executor = executors()[0]
        actor = int(open(f"/proc/{executor}/stat").read().rpartition(")")[2].split()[1])  # noqa: SIM115, PTH123
        os.kill(actor, signal.SIGKILL)  # Ray starts it again
        assert len([*found, *results]) == 200
        until(lambda: len(pilot.executors()) == 2, "the actor that is started again")


def tells_errors() -> None:
    for pilot, words in (
        (px.Ray(cores=64, wait=1), "no executor came within 1 s: Ray has free: 2 CPU"),
        (px.Ray(python="/no/python"), "Ray's actor has failed: FileNotFoundError"),
    ):
        try:
            px.Manager(pilot)
        except RecruitError as error:
            if words in str(error):
                continue
        raise SystemExit(f"no error has {words!r}")


def is_killed() -> None:
    with px.Manager(px.Ray(2, at_least=2)) as manager:
        assert manager.submit(square, 3).result() == 9
        print("ready", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    {it.__name__: it for it in (computes, survives_losses, tells_errors, is_killed)}[sys.argv[1]]()
    ray.shutdown()
    print("done")
