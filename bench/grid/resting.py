"""What a grid costs while nobody uses it: a hub with many members, and an executor."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path

from bench.grid.samples import Samples, Settings, program
from bench.grid.samples import hub as a_hub
from bench.peers.processes import cpu_seconds, memory
from laboratory.capture import tcp_segment
from laboratory.grid import PHALANX

_MEMBERS = Path(__file__).resolve().parents[2] / "target" / "release" / "examples" / "members"
#: Seconds of a window: each member sends two beats a minute.
_WINDOW = 30.0
#: Seconds after which a start has ended.
_SETTLED = 3.0


def hub(settings: Settings, samples: Samples) -> None:
    """A hub with many executors of one process, each with its key, its certificate and its link."""
    if not _MEMBERS.exists():
        samples.notes.append(f"no hub with many members: {_MEMBERS} is not built")
        return
    count, seconds = (100, 5.0) if settings.quick else (settings.members, _WINDOW)
    with a_hub() as grid:
        many = grid.host.lab.host("many").popen([_MEMBERS, grid.token(uses=count), str(count)])
        _, joined, taken = many.line("joined ", timeout=600).split()
        samples.put("hub_members", float(joined))
        samples.put("hub_join", float(joined) / float(taken))
        time.sleep(_SETTLED)
        pid = grid.process.pid
        for _ in range(settings.rounds):
            before = cpu_seconds([pid])
            time.sleep(seconds)
            samples.put("hub_cpu", (cpu_seconds([pid]) - before) / seconds * 100)
            samples.put("hub_rss", memory(pid)[0])
        here = sum(member["is_here"] for member in grid.members().values())
        samples.notes.append(f"the hub says that {here} of {int(float(joined))} members are here")


def watch(settings: Settings, samples: Samples) -> None:
    """The same hub, with a page that is open at a user's desk."""
    if not _MEMBERS.exists():
        samples.notes.append(f"no page of a hub with many members: {_MEMBERS} is not built")
        return
    count, seconds = (100, 5.0) if settings.quick else (settings.members, _WINDOW)
    with a_hub() as grid:
        lab = grid.host.lab
        many = lab.host("many").popen([_MEMBERS, grid.token(uses=count), str(count)])
        joined = int(many.line("joined ", timeout=600).split()[1])
        samples.put("hub_members", float(joined))
        user = grid.user(lab.host("desk"))
        served = user.desk.popen([PHALANX, "dashboard", "--json"])
        reader = program(user, "reading.py", json.loads(served.line("{", timeout=60))["link"])
        here = int(reader.line("figures ", timeout=60).split()[1])
        samples.notes.append(f"the page says that {here} of {joined} members are here")
        for _ in range(settings.rounds):
            before = [cpu_seconds([process.pid]) for process in (grid.process, served)]
            time.sleep(seconds)
            for name, process, earlier in zip(("watched", "page"), (grid.process, served), before, strict=True):
                samples.put(f"{name}_cpu", (cpu_seconds([process.pid]) - earlier) / seconds * 100)


def rest(settings: Settings, samples: Samples) -> None:
    """Executors that are joined, and have nothing to do."""
    seconds = 5.0 if settings.quick else 60.0
    with a_hub() as grid, ExitStack() as capturing:
        lab = grid.host.lab
        joined = [grid.join(lab.host(f"ws{number}")) for number in range(settings.rounds)]
        time.sleep(_SETTLED)
        captures = [capturing.enter_context(it.host.cable.capture()) for it in joined]
        before = [cpu_seconds([it.process.pid]) for it in joined]
        time.sleep(seconds)
        for it, cpu, capture in zip(joined, before, captures, strict=True):
            samples.put("rest_cpu", (cpu_seconds([it.process.pid]) - cpu) / seconds * 100)
            crossed = sum(len(frame) for frame in list(capture.frames) if tcp_segment(frame))
            samples.put("rest_wire", crossed / 1e3 / seconds * 60)
            samples.put("rest_rss", memory(it.process.pid)[0])
