"""One program with a manager and ranks at the same executors, and what its tasks print there."""

from __future__ import annotations

import re
import sys

from cluster.grid import PATIENCE, Grid

BOTH = """
import socket
import sys
import time
import phalanx as px

def where(number):
    time.sleep(0.01)
    return socket.gethostname()

def speak(number):
    print("task", number)
    time.sleep(0.002)
    return number

with px.Manager(px.Hosts("hosts.txt"), contract=px.ParDegree(4)) as manager:
    while {*manager.compute(where, range(16))} != {"left", "right"}:
        pass  # one of them is still being recruited
    print(sum(manager.compute(speak, range(400))))
    result = px.mpirun("hostname", hosts=px.Hosts("hosts.txt"), capture_output=True)
    print(sorted(result.stdout.split()), [it.machine for it in result.ranks])
    print(sum(manager.compute(abs, [1, 2, 3])))
    try:
        px.mpirun("hostname", n=5, hosts=px.Hosts("hosts.txt"))
    except px.RecruitError as error:
        print(error)
"""


def test_ranks_and_interpreters_of_a_program_share_places_and_prints_name_their_machine(grid: Grid) -> None:
    executors = grid.executors("left", "right")
    home = grid.desk.home
    (home / "both.py").write_text(BOTH)
    (home / "hosts.txt").write_text("".join(f"{one.host.address} {one.port}\n" for one in executors))
    process = grid.desk.popen([sys.executable, "both.py"], env=grid.env)
    assert process.wait(timeout=PATIENCE) == 0, process.report()
    own = [line for line in process.lines() if not line.startswith("[l") and not line.startswith("[r")]
    assert own == [
        "79800",
        "['left', 'left', 'right', 'right'] ['left', 'left', 'right', 'right']",
        "6",
        "5 processes were asked for, but 4 places are free: left has 2, right has 2",
    ]
    printed = [line for line in process.lines() if re.match(r"\[(left|right)/\d+\] task \d+$", line)]
    assert {int(line.split()[-1]) for line in printed} == set(range(400))
    assert {line[1:].partition("/")[0] for line in printed} == {"left", "right"}
