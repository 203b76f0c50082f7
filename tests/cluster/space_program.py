"""A program that uses a space: does one thing and prints what came of it as lines of JSON.

python space_program.py ADDRESS WHAT '{"option": value}'
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import phalanx as px


def say(kind: str, fact: Any) -> None:
    print(json.dumps({kind: fact}), flush=True)


def put(space: px.Space, texts: list[str]) -> None:
    for number, text in enumerate(texts):
        space.out("task", number, text)
    say("put", len(texts))


def take(space: px.Space) -> None:
    """One task, as soon as there is one."""
    say("waits", True)
    say("got", space.in_("task", int, str))


def hold(space: px.Space) -> None:
    """Takes a task and dies before it says that it has it: what a kill between answer and acknowledgement leaves."""
    space.engine.begin_wait(("task", int, str), True, (), None, None, None, lambda outcome: say("got", outcome))
    say("waits", True)
    time.sleep(600)


def look(space: px.Space) -> None:
    """How many tasks there are, and who waits; every line is true at its time."""
    while True:
        info = space.info()
        say("seen", [space.count("task", int, str), info.takers, info.unacknowledged])
        time.sleep(0.05)


def flood(space: px.Space) -> None:
    """Puts until the space is full, and goes on trying."""
    refused = 0
    while True:
        try:
            space.out("flood", bytes(100_000))
        except px.SpaceError as error:
            refused += 1
            if refused in (1, 50):
                say("refused", [refused, type(error).__name__])


def rate(space: px.Space) -> None:
    """A hundred tuples out and in."""
    for number in range(100):
        space.out("own", number)
        space.in_("own", number)
    say("served", 100)


def try_all(space: px.Space) -> None:
    """Which of the operations are allowed."""
    tries: dict[str, Callable[[], object]] = {
        "out": lambda: space.out("task", 1, "x"),
        "out found": lambda: space.out("found", 1),
        "rd": lambda: space.rdp("task", int, str),
        "rd found": lambda: space.rdp("found", int),
        "in": lambda: space.inp("task", int, str),
        "all": lambda: list(space.rd_all(px.ANY, px.ANY)),
    }
    allowed = {}
    for name, attempt in tries.items():
        try:
            attempt()
            allowed[name] = True
        except px.SpaceError as error:
            allowed[name] = "not allowed" not in str(error)
    say("allowed", allowed)


def main(address: str, what: str, options: str) -> None:
    """Opens the space and does it; an error is printed too."""
    given = json.loads(options)
    if "rules" in given:
        given["policy"] = px.Rules(given.pop("rules"))
    texts = given.pop("texts", [])
    try:
        with px.Space(address, **given) as space:
            say("level", space.engine.level[0])  # type: ignore[attr-defined]
            if what == "put":
                put(space, texts)
            else:
                {"take": take, "hold": hold, "look": look, "flood": flood, "rate": rate, "try": try_all}[what](space)
    except px.PhalanxError as error:
        say("error", [type(error).__name__, str(error)])
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
