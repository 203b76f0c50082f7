"""Looks at a machine over ssh: what was deployed there, and then at its executor."""

from __future__ import annotations

import sys
import time

from phalanx import _native
from phalanx.checking.executors import check_executor
from phalanx.checking.findings import Finding, Findings, numpy_version
from phalanx.deploying.ssh import Call, Connection, Gate, host_of
from phalanx.errors import DeployError
from phalanx.grid import Grid


def check_machine(grid: Grid, call: Call, gate: Gate | None = None) -> list[Finding]:
    """All findings about a machine, and about the executor that was deployed there."""
    found = Findings(call.machine)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        with Connection(call, f"python{here}", gate) as there:
            earliest = time.time()
            facts = there.call("facts")
            latest = time.time()
            about = f"{facts['system']} {facts['machine']}, glibc {facts['glibc'] or 'none'}"
            found.ok("ssh", f"{about}, account {facts['account']}")
            found.clock(earliest, facts["time"], latest)
            state, base = facts["state"], facts["base"]
            again = f"phalanx deploy {call.machine}"
            if not facts["has_environment"] or not state.keys() >= {"digest", "name", "port"}:
                found.warn("deployed", f"nothing is in {base}", again)
                return found.all
            versions = there.call("installed", digest=state["digest"])
            log = "" if facts["runs"] else there.call("log")
    except DeployError as error:
        found.fail("ssh", str(error), f"try: ssh {call.machine} true")
        return found.all
    if why := _native.check_version(call.machine, versions["phalanx"]):
        found.fail("phalanx", why, again)
    else:
        found.ok("phalanx", f"{versions['phalanx']} in {base}")
    if versions["python"].rpartition(".")[0] == here:
        found.ok("Python", versions["python"])
    else:
        found.fail("Python", f"{versions['python']} there, {here} here: functions travel between equal versions", again)
    found.numpy(
        versions["numpy"],
        numpy_version(),
        f"there: {base}/environment-{state['digest'][:16]}/bin/python -m pip install",
    )
    if not facts["runs"]:
        found.fail("executor", f"does not run; its last words: {log or 'none'}", again)
        return found.all
    found.ok("executor", f"runs as {state['name']}, at port {state['port']}")
    address = f"{host_of(call)}:{state['port']}"
    # The name that the user's hosts file has for this address. The machine's own word is none.
    known = [name for name, place in grid.machines.items() if place == address]
    return [*found.all, *check_executor(grid if known else _at(grid, address), (known or [address])[0], state["name"])]


def _at(grid: Grid, address: str) -> Grid:
    """A grid of one address, with the identity and the policy of another."""
    reach = grid.reach
    return Grid([address], identity=reach.identity, policy=reach.policy)
