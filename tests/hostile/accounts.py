"""Processes of another account of this machine, and those of the victim."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from hostile import attacker
from skips import require

from laboratory.processes import Process

PROGRAM = Path(attacker.__file__)


def as_another(*command: str | Path) -> None:
    """Runs a command as another account."""
    account = str(attacker.ACCOUNT)
    subprocess.run(
        ["setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups", *command], check=True, timeout=30
    )


def attack(processes: list[int], files: list[Path], sockets: list[str]) -> dict[str, str]:
    """What came of each attack of another account: the name of an exception, or what was read."""
    require("root")
    targets = {"files": [str(path) for path in files], "sockets": sockets, "processes": processes}
    command = [sys.executable, str(PROGRAM), "attack"]
    done = subprocess.run(command, input=json.dumps(targets), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def listen(path: Path, folder: Path) -> Process:
    """Another account listens at a path, where every account may connect. What it hears comes on a line `heard`."""
    command = [sys.executable, str(PROGRAM), "listen", str(path)]
    process = Process(command, title="the attacker", files=folder / "attacker", cwd=folder, env=os.environ)
    process.line("ready")
    return process


def not_refused(outcomes: dict[str, str]) -> dict[str, str]:
    """The attacks that the system did not refuse."""
    return {name: came for name, came in outcomes.items() if came != attacker.REFUSED}


def family(of: int) -> list[int]:
    """A process and all its descendants that live."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(folder.name))
    found = [of]
    for process in found:
        found += children.get(process, [])
    return found


def named_sockets(processes: list[int]) -> list[str]:
    """The names at which processes listen on unix sockets, in the form of /proc/net/unix."""
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    names = {f"socket:[{fields[6]}]": fields[7] for fields in lines if len(fields) > 7}
    found = set()
    for process in processes:
        for entry in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                found.add(names.get(str(entry.readlink()), ""))
    return sorted(found - {""})
