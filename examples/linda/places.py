"""Where a program runs: its owner here, its crew in threads of this process or in processes, each with its own space.

The members of a crew find each other through the owner's space, as Linda's processes do, and begin when all are there.
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
#: Seconds in which members must end after they were told to.
_PATIENCE = 10.0


class Program(Protocol):
    """A dataclass of the program's parameters, which are numbers, strings or booleans."""

    def given(self) -> Any:
        """Returns the owner's data."""

    def portion(self, me: int, crew: int) -> Any:
        """Returns the data of member ``me`` of the crew."""

    def owner(self, space: px.Space, crew: int, given: Any) -> Any:
        """Puts the tasks and returns the result."""

    def crew(self, owner: px.Space, spaces: Sequence[px.Space], me: int, portion: Any) -> None:
        """Does the work; ``spaces[me]`` is the member's own space."""

    def check(self, given: Any, result: Any) -> None:
        """Raises AssertionError unless the result is right."""


class Member(Protocol):
    """A member of a crew as a process, with the interface of `subprocess.Popen`."""

    def poll(self) -> int | None:
        """Returns the exit code, or None while the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit code; raises `subprocess.TimeoutExpired` if the process is still running."""

    def kill(self) -> None:
        """Ends the process at once."""


class CrewError(Exception):
    """A member of the crew failed; the message says how."""


@dataclass(frozen=True)
class Place:
    """How a program is run.

    ``kind`` is "threads" or "processes". With ``redis``, all spaces are at that server (``redis://HOST:PORT/DB``),
    not in the processes that made them. ``listen`` is the address at which a process serves its space to the others.
    ``start`` starts a member on another machine, by ``python -m examples.linda.member ORDER`` with the order as JSON.
    With ``figures``, all operations are timed, and the profiler's files are put into that folder.
    """

    kind: str = "threads"
    redis: str | None = None
    listen: str = "127.0.0.1:0"
    start: Callable[[int, dict[str, Any]], Member] | None = None
    figures: Path | None = None


def run(program: Program, crew: int, place: Place) -> float:
    """Runs a program, checks its result, and returns its total time in seconds, without the time to make the spaces.

    Raises CrewError if a member of the crew fails.
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
        space.out("place", "end")  # not before: other members may still need tuples of this one's space
        stack.close()
    program.check(given, result)
    if place.figures:
        px.profile.record("total time", total)
        px.profile.save(place.figures)
        px.profile.reset()
    return total


def be_of_the_crew(program: Program, owner: px.Space, spaces: Sequence[px.Space], me: int, figures: bool) -> None:
    """Runs one member of the crew, in a thread or a process."""
    portion = program.portion(me, len(spaces))
    measured = [_measured(space, "local" if at == me else "remote", figures) for at, space in enumerate(spaces)]
    owner.out("place", "ready", me)
    owner.rd("place", "go")
    program.crew(_measured(owner, "remote", figures), measured, me, portion)
    owner.out("place", "finished", me)


def meet(owner: px.Space, what: str, me: int, crew: int) -> None:
    """Waits until all members of the crew have called this."""
    owner.out(what, me)
    for other in range(crew):
        owner.rd(what, other)


def opened(stack: ExitStack, redis: str | None, name: str, served: bool, listen: str = "") -> tuple[px.Space, str]:
    """Opens a new space, in this process or at a Redis server; returns it, and its address if others can reach it."""
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
        # A daemon, because a member that waits for a tuple that never comes must not keep a failed program from ending.
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
        # Looks at all of them: a member that was told of a loss may have ended before the lost one is looked at.
        codes = {me: code for me, process in enumerate(members) if (code := process.poll())}
        if codes:
            how = ", ".join(f"member {me} ended with code {code}" for me, code in codes.items())
            failed(f"{how}; what they said is above")
            return


def _end(members: Sequence[Member], ended: threading.Event) -> None:
    """Waits for members that were told to end, and kills members that were not."""
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
    """Yields a function that reports a member's failure by interrupting the owner, which might otherwise not end."""
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
    """The command line of a program: its parameters, and the place of its crew."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--crew", type=int, default=2, help="the number of members that do the work")
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
    except (CrewError, px.errors.PhalanxError) as error:
        sys.exit(f"error: {error}")
    print(f"{kind.__name__}: right, in {seconds:.3f} s, with a crew of {crew} in {place.kind}")
