"""Where a program runs: its owner here, its crew in threads of this process or in processes, each with its own space.

A crew finds each other through the owner's space, as Linda's processes do, and begins when everybody is there.
"""

from __future__ import annotations

import _thread
import argparse
import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol, cast

import phalanx as px

from examples.linda.measured import Measured

_TOP = Path(__file__).resolve().parents[2]
MEMBER = "examples.linda.member"
#: Seconds that members have to end when they were told to.
_PATIENCE = 10.0


class Program(Protocol):
    """A dataclass of its parameters, all of them numbers, words or truths."""

    def given(self) -> Any:
        """What the owner begins with."""

    def portion(self, me: int, crew: int) -> Any:
        """What member ``me`` of the crew begins with."""

    def owner(self, space: px.Space, crew: int, given: Any) -> Any:
        """Give out the work and return the result."""

    def crew(self, owner: px.Space, spaces: Sequence[px.Space], me: int, portion: Any) -> None:
        """Do the work; ``spaces[me]`` is one's own."""

    def check(self, given: Any, result: Any) -> None:
        """AssertionError unless the result is right."""


class Member(Protocol):
    """One of a crew as a process, as `subprocess.Popen` has it."""

    def poll(self) -> int | None:
        """The exit code, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; `subprocess.TimeoutExpired` when it runs on."""

    def kill(self) -> None:
        """End it at once."""


class CrewError(Exception):
    """One of the crew failed; the message says how."""


@dataclass(frozen=True)
class Place:
    """How a program is run.

    ``kind`` is "threads" or "processes". ``redis``: all spaces are at that Redis server (``redis://HOST:PORT/DB``) and
    not in the processes that made them. ``listen``: where a process serves its space to the others; ``start`` starts a
    member somewhere else than here, where ``python -m examples.linda.member ORDER`` can be called, the order as JSON.
    ``figures``: all operations are timed, and the profiler's files put into that folder.
    """

    kind: str = "threads"
    redis: str | None = None
    listen: str = "127.0.0.1:0"
    start: Callable[[int, dict[str, Any]], Member] | None = None
    figures: Path | None = None


def run(program: Program, crew: int, place: Place) -> float:
    """Run it, check its result, and return its total time in seconds; the spaces are made before that.

    CrewError when one of the crew fails.
    """
    given = program.given()
    px.profile.reset()
    with ExitStack() as stack, _failing_together() as failed:
        name = uuid.uuid4().hex[:8]
        space, address = opened(stack, place.redis, f"{name}-owner", place.kind == "processes", place.listen)
        begin = _threads if place.kind == "threads" else _processes
        begin(stack, program, crew, place, (space, address, name), failed)
        for _ in range(crew):
            space.in_("place", "ready", int)
        begun = time.perf_counter()
        space.out("place", "go")
        result = program.owner(_measured(space, "local", place.figures), crew, given)
        total = time.perf_counter() - begun
        for _ in range(crew):
            space.in_("place", "finished", int)
        space.out("place", "end")  # not before: others may still need what is in one's own space
        stack.close()
    program.check(given, result)
    if place.figures:
        px.profile.record("total time", total)
        px.profile.save(place.figures)
        px.profile.reset()
    return total


def be_of_the_crew(program: Program, owner: px.Space, spaces: Sequence[px.Space], me: int, figures: bool) -> None:
    """What every member does, wherever it is."""
    portion = program.portion(me, len(spaces))
    measured = [_measured(space, "local" if at == me else "remote", figures) for at, space in enumerate(spaces)]
    owner.out("place", "ready", me)
    owner.rd("place", "go")
    program.crew(_measured(owner, "remote", figures), measured, me, portion)
    owner.out("place", "finished", me)


def meet(owner: px.Space, what: str, me: int, crew: int) -> None:
    """Wait until all of the crew are here."""
    owner.out(what, me)
    for other in range(crew):
        owner.rd(what, other)


def opened(stack: ExitStack, redis: str | None, name: str, served: bool, listen: str = "") -> tuple[px.Space, str]:
    """A new space of this process, or at a Redis server, and its address if others can reach it."""
    if redis:
        address = f"{redis}/{name}"
        return stack.enter_context(px.Space(address)), address
    space = stack.enter_context(px.Space())
    return space, space.serve(listen) if served else ""


def _measured(space: px.Space, where: str, figures: object) -> px.Space:
    return cast("px.Space", Measured(space, where)) if figures else space


Owner = tuple[px.Space, str, str]
Failed = Callable[[str], None]


def _threads(stack: ExitStack, program: Program, crew: int, place: Place, at: Owner, failed: Failed) -> None:
    owner, _, name = at
    spaces = [opened(stack, place.redis, f"{name}-{number}", False)[0] for number in range(crew)]

    def member(me: int) -> None:
        try:
            be_of_the_crew(program, owner, spaces, me, place.figures is not None)
        except BaseException as error:
            failed(f"member {me} failed: {type(error).__name__}: {error}")

    for me in range(crew):
        # A daemon, since one that waits for a tuple that never comes must not keep a failed program from ending.
        thread = threading.Thread(target=member, args=(me,), name=f"crew-{me}", daemon=True)
        thread.start()


def _processes(stack: ExitStack, program: Program, crew: int, place: Place, at: Owner, failed: Failed) -> None:
    _, address, name = at
    order = {
        "program": f"{_module_of(program)}:{type(program).__qualname__}",
        "parameters": asdict(cast(Any, program)),
        "owner": address,
        "crew": crew,
        "redis": place.redis,
        "name": name,
        "listen": place.listen,
        "figures": str(place.figures.resolve()) if place.figures else None,
    }
    start = place.start or _local
    members: list[Member] = []
    ended = threading.Event()
    stack.callback(_end, members, ended)
    for me in range(crew):
        members.append(start(me, {**order, "me": me}))
    threading.Thread(target=_watch, args=(members, ended, failed), daemon=True).start()


def _module_of(program: Program) -> str:
    module = type(program).__module__
    started = sys.modules["__main__"].__spec__
    return started.name if module == "__main__" and started else module


def _local(me: int, order: dict[str, Any]) -> Member:
    return subprocess.Popen([sys.executable, "-m", MEMBER, json.dumps(order)], cwd=_TOP, stdin=subprocess.DEVNULL)


def _watch(members: Sequence[Member], ended: threading.Event, failed: Failed) -> None:
    while not ended.wait(0.1):
        # All of them, since one that is told of a loss may have ended before the one that was lost is looked at.
        codes = {me: code for me, process in enumerate(members) if (code := process.poll())}
        if codes:
            how = ", ".join(f"member {me} ended with code {code}" for me, code in codes.items())
            failed(f"{how}; what they said is above")
            return


def _end(members: Sequence[Member], ended: threading.Event) -> None:
    """Wait for those who were told to end, and end those who were not."""
    ended.set()
    patient = time.monotonic() + (0.0 if sys.exc_info()[0] else _PATIENCE)
    for process in members:
        try:
            process.wait(max(0.0, patient - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _failing_together() -> Iterator[Failed]:
    """A function to be told of a member's failure: the owner, who may wait for it forever, is then interrupted."""
    failures: list[str] = []

    def failed(how: str) -> None:
        failures.append(how)
        _thread.interrupt_main()

    try:
        yield failed
    except KeyboardInterrupt:
        if not failures:
            raise
        raise CrewError(failures[0]) from None


def main(kind: Callable[..., Program]) -> None:
    """The command line of a program: its parameters, and where its crew is."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--crew", type=int, default=2, help="how many do the work")
    parser.add_argument("--place", choices=("threads", "processes"), default="threads")
    parser.add_argument("--redis", metavar="redis://HOST:PORT/DB", help="keep all spaces at a Redis server")
    for field in fields(cast(Any, kind)):
        if isinstance(field.default, bool):
            parser.add_argument(f"--{field.name}", action=argparse.BooleanOptionalAction, default=field.default)
        else:
            parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    options = vars(parser.parse_args())
    crew, place = options.pop("crew"), Place(options.pop("place"), options.pop("redis"))
    try:
        seconds = run(kind(**options), crew, place)
    except (CrewError, px.PhalanxError) as error:
        sys.exit(f"error: {error}")
    print(f"{kind.__name__}: right, in {seconds:.3f} s, with a crew of {crew} in {place.kind}")
