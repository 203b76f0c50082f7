"""Looks at an executor at an address: the name, the port, the handshake, versions, levels, and one task."""

from __future__ import annotations

import socket
import sys
import time
from typing import Any

from phalanx import _native
from phalanx.checking.findings import Finding, Findings, numpy_version
from phalanx.contracts import ParDegree
from phalanx.errors import PhalanxError
from phalanx.grid import Grid

#: Seconds for a connection, and for a place for the task.
_CONNECT, _PLACE = 5.0, 10.0


def check_executor(grid: Grid, machine: str, deployed: str = "") -> list[Finding]:
    """All findings about an executor.

    Parameters
    ----------
    grid
        Its machines, if the user named some, and who the user is.
    machine
        Its name in the grid, or an address.
    deployed
        The name under which it was deployed there, if that is known.
    """
    address = grid.address(machine)
    found = Findings(machine)
    if _resolves(found, address) and _listens(found, address):
        try:
            answer = _native.ask_executors([address], grid.reach.dialler())[0]
        except PhalanxError as error:  # of the user's own identity
            answer = str(error)
        if isinstance(answer, str):
            found.fail("handshake", answer, _mend(answer))
        elif deployed and answer[0] != deployed:
            mend = "end the other executor there, or deploy with another --port"
            found.fail("handshake", f"{answer[0]} answers there, and {deployed} was deployed", mend)
        else:
            _judge(found, grid, address, answer)
    return found.all


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _resolves(found: Findings, address: str) -> bool:
    host, port = _split(address)
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        mend = "write its address into the hosts file: NAME = ADDRESS:PORT"
        found.fail("name", f"{host} does not resolve ({getattr(error, 'strerror', None) or error})", mend)
        return False
    numbers = list(dict.fromkeys(str(place[4][0]) for place in places))
    found.ok("name", f"{host} is {', '.join(numbers)}")
    return True


def _listens(found: Findings, address: str) -> bool:
    host, port = _split(address)
    try:
        socket.create_connection((host, port), timeout=_CONNECT).close()
    except ConnectionRefusedError:
        mend = f"there: phalanx executor --listen 0.0.0.0:{port}; or here: phalanx deploy USER@{host}"
        found.fail("port", f"{port} is closed: no process listens there", mend)
        return False
    except OSError as error:
        mend = f"open it in the firewall there, for example: ufw allow {port}/tcp"
        found.fail(
            "port", f"{port} is not reached ({error.strerror or error}): a firewall, or the machine is off", mend
        )
        return False
    found.ok("port", f"{port} is open")
    return True


def _mend(why: str) -> str:
    """The command for what a handshake ended with."""
    if "no identity in" in why:
        return "phalanx grid create, or ask the holder of the grid's authority"
    if "upgrade phalanx at" in why:
        return "phalanx deploy USER@HOST, or there: pip install --upgrade phalanx-grid"
    if "upgrade phalanx here" in why:
        return "pip install --upgrade phalanx-grid"
    return "phalanx help IdentityError, phalanx help RecruitError; the executor's own output says why it refused"


def _judge(found: Findings, grid: Grid, address: str, answer: tuple[Any, ...]) -> None:
    name, capacity, python, cage, accounts, lacks, phalanx, levels = answer
    found.ok("handshake", f"{name} has proved its name, and accepts this user")
    found.ok("phalanx", f"{phalanx} there, {_native_version()} here: they work together")
    kept = f"{cage}{' with accounts' if accounts else ''}{', but ' if lacks else ''}{', '.join(lacks)}"
    found.ok("executor", f"{capacity} interpreters; cage: {kept}")
    _levels(found, grid, address, levels)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if python != here:
        text = f"{python} there, {here} here: functions travel as bytecode, between equal versions only"
        found.fail("Python", text, f"install Python {here} there, or run this program with Python {python}")
        return
    found.ok("Python", python)
    _task(found, grid, address, name)


def _native_version() -> str:
    from importlib.metadata import version

    return version("phalanx-grid")


def _levels(found: Findings, grid: Grid, address: str, levels: str) -> None:
    weakest = levels.split(", ")[0]
    rows = [row for row in _native.explain(grid.reach.words(), [address], weakest) if row[1] == address]
    for _, _, mark, level, why, is_weaker in rows[:1]:
        if level is None:
            found.fail("levels", f"no level is left for {mark}: {why}", "phalanx explain HOSTS shows the rules")
        elif is_weaker:
            found.warn("levels", f"links are {level}, weaker than by default: {why}")
        else:
            found.ok("levels", f"links are {level}: {why}; the executor takes {levels}")


def _look() -> tuple[float, str]:
    """What a task sees there: the clock, and the version of numpy."""
    import importlib.metadata
    import time

    try:
        numpy = importlib.metadata.version("numpy")
    except importlib.metadata.PackageNotFoundError:
        numpy = ""
    return time.time(), numpy


#: The function travels itself: an older version there does not have this module.
_look.__module__ = "__main__"


def _task(found: Findings, grid: Grid, address: str, name: str) -> None:
    names = [it for it, place in grid.machines.items() if place == address]
    one = grid.only(names[0]) if names else Grid([address], identity=grid.reach.identity, policy=grid.reach.policy)
    try:
        with one.manager(contract=ParDegree(1), patience=_PLACE, delegate=None) as manager:
            manager.submit(abs, -1).result()  # the first one waits for an interpreter
            earliest = time.time()
            theirs, numpy = manager.submit(_look).result()
            latest = time.time()
    except PhalanxError as error:
        found.fail("task", str(error), "the executor's own output says more")
        return
    found.ok("task", "an interpreter there has computed one")
    found.numpy(numpy, numpy_version(), f"in the environment of the executor of {name}: pip install")
    found.clock(earliest, theirs, latest)
