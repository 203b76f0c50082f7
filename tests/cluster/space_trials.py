"""A replicated space under faults, for as long as you like: members killed, frozen, cut off, cut off one way, with
cables that flap; clients on all sides. Then everything heals, all that may come back has time to, the space is emptied,
and what all were told is searched for an order in which it could have happened.

    PYTHONPATH=tests python -m cluster.space_trials MINUTES [MEMBERS [SEED [FILE]]]      (as root)

It prints what it did, how long nobody on the desk was served after each fault, and the verdict; its exit code is the
verdict too. FILE gets the history, for other checkers: one JSON list a line, as history_program.py prints it.
"""

from __future__ import annotations

import json
import random
import signal
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path

from cluster.grid import Grid
from cluster.linear import Operation, is_linearizable
from cluster.replicas import PROGRAM, Cuts, freeze, silence, unplug
from cluster.spaces import Served

from laboratory.lab import Lab

#: Seconds after which a tuple that was on its way is there again if its taker has not come back.
GRACE = 60
#: Seconds between two faults, and that one lasts.
PAUSES, LASTING = (1.0, 4.0), (0.5, 9.0)
#: Seconds after a fault in which a silence began because of it.
NEAR = 3.0


def deaf(member: Served) -> Callable[[], None]:
    """Nothing reaches it; what it says arrives."""
    return _drop(member, "input")


def dumb(member: Served) -> Callable[[], None]:
    """Nothing that it says arrives."""
    return _drop(member, "output")


def _drop(member: Served, hook: str) -> Callable[[], None]:
    chain = f"add chain inet cut everything {{ type filter hook {hook} priority 0; policy drop; }}"
    member.host.run(["nft", f"add table inet cut; {chain}"])
    return lambda: member.host.run(["nft", "delete table inet cut"])  # type: ignore[return-value]


def flap(member: Served) -> Callable[[], None]:
    """Its cable comes and goes a few times."""
    for _ in range(4):
        heal = silence(member)
        time.sleep(0.4)
        heal()
        time.sleep(0.2)
    return lambda: None


class Trial:
    """Faults, one after the other or two at a time; as many members stay well as are needed, most of the time."""

    def __init__(self, cuts: Cuts, seed: int) -> None:
        self.cuts = cuts
        self.random = random.Random(seed)
        self.faults: Counter[str] = Counter()
        #: Faults that met a group of which all had been well for a while.
        self.began: list[tuple[float, str]] = []
        self.well = 0.0
        self.ill: dict[str, tuple[float, Callable[[], None]]] = {}

    def kill(self, name: str) -> Callable[[], None]:
        self.cuts.members[name].process.kill()
        return lambda: self.cuts.restart(name)

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.random.uniform(*PAUSES))
            self.heal(time.monotonic())
            well = [name for name in self.cuts.members if name not in self.ill]
            if len(well) * 2 <= len(self.cuts.members) + 1 and self.random.random() < 0.85:
                continue  # now and then most are gone
            self.harm(self.random.choice(well))
        self.heal(float("inf"))

    def harm(self, name: str) -> None:
        member, lasting = self.cuts.members[name], self.random.uniform(*LASTING)
        fault = self.random.choice([self.kill, freeze, silence, unplug, deaf, dumb, flap])
        is_leader = name in self.cuts.leaders()[-1:]
        title = f"{fault.__name__} {'leader' if is_leader else 'other'}"
        self.faults[title] += 1
        if not self.ill and time.monotonic() > self.well + NEAR:
            self.began.append((time.monotonic(), title))
        heal = fault(name) if fault == self.kill else fault(member)  # type: ignore[operator]
        self.ill[name] = (time.monotonic() + lasting, heal)

    def heal(self, now: float) -> None:
        for name, (until, heal) in list(self.ill.items()):
            if until <= now:
                del self.ill[name]
                heal()
                self.well = time.monotonic()


def drain(cuts: Cuts, kinds: list[int]) -> list[tuple[int, Operation]]:
    """What is there at last."""
    options = json.dumps({"identity": cuts.identity})
    words = [sys.executable, str(PROGRAM), json.dumps(cuts.addresses), options, json.dumps(kinds)]
    process = cuts.grid.desk.popen(words, env=cuts.grid.env)
    assert process.wait(timeout=600) == 0, process.report()
    return [(kind, Operation(*operation)) for kind, *operation in map(json.loads, process.lines())]


def main(minutes: float, members: int = 3, seed: int = 1, *, file: str = "") -> bool:
    with Lab(quiet=True) as lab:
        cuts = Cuts(Grid(lab.host("desk")), tuple(f"m{number}" for number in range(members)))
        trial = Trial(cuts, seed)
        trial.run(minutes * 60)
        cuts.progress("desk", 10)
        cuts.end()
        histories = cuts.histories()
        kinds = sorted({kind for side in cuts.clients for kind, _ in cuts.told(side)})
        answers = sorted(it.answered for _, it in cuts.told("desk") if it.found is not None)
        time.sleep(GRACE + 5)
        for kind, operation in drain(cuts, kinds):
            histories[kind].append(operation)
    if file:
        lines = (json.dumps([kind, *astuple(it)]) for kind, history in histories.items() for it in history)
        Path(file).write_text("\n".join(lines))
    wrong = {kind: history for kind, history in histories.items() if not is_linearizable(history)}
    print(f"{members} members, {minutes} minutes, seed {seed}: {sum(map(len, histories.values()))} operations")
    print(*(f"{count} x {title}" for title, count in sorted(trial.faults.items())), sep=", ")
    report(trial.began, answers)
    for kind, history in wrong.items():
        print(f"kind {kind} cannot have happened in one order:")
        for it in sorted(history, key=lambda it: it.called):
            print(f"  {it.what} {it.called:.3f} to {it.answered:.3f}: {it.found}")
    print(f"{len(wrong)} of {len(histories)} kinds of tuples cannot have happened in one order")
    return not wrong


def report(faults: list[tuple[float, str]], answers: list[float]) -> None:
    """How long the clients on the desk, who are never cut off, were not answered after each fault."""
    gaps: dict[str, list[float]] = defaultdict(list)
    for began, title in faults:
        around = [at for at in answers if began - 1 < at < began + 60]
        steps = [later - earlier for earlier, later in pairwise(around) if later > began and earlier < began + NEAR]
        gaps[title].append(max(steps, default=float("inf")))
    for title, longest in sorted(gaps.items()):
        middle, most = statistics.median(longest), max(longest)
        print(
            f"{title:>14}: {len(longest):3} times, longest silence {middle:.2f} s in the median, {most:.2f} s at most"
        )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    minutes, *more = sys.argv[1:]
    sys.exit(not main(float(minutes), *[int(word) for word in more[:2]], file="".join(more[2:])))
