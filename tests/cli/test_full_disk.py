"""A hub whose disk is full: it says so, goes on, and stores again when there is room."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from api.hubs import PATIENCE, PHALANX, Site, site
from skips import require

from laboratory.processes import Process, until

pytestmark = pytest.mark.timeout(300)

#: Runs a command with the folder $1 on a small disk of its own, which is full except for 1 MB. The file `other` in it
#: can be removed to make room.
FULL_DISK = """
cp -a "$1" "$1.copy" && mount -t tmpfs -o size=12m none "$1" && cp -a "$1.copy/." "$1" || exit 1
head -c 12m /dev/zero > "$1/other" 2>/dev/null; truncate -s -1M "$1/other" || exit 1
shift && exec "$@"
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Site]:
    """A hub, and a machine ws7."""
    require("user namespaces")
    with site(tmp_path) as found:
        found.join("ws7", found.up("--hub-only"))
        found.await_members(ws7=True)
        yield found


def start_full(lab: Site) -> tuple[Process, Path]:
    """Starts the hub again, on a disk that is full. Returns the file that takes the room."""
    lab.kill("hub")
    state = lab.home("hub") / "grids" / "lab" / "hub" / "state"
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", FULL_DISK, "sh", str(state)]
    command = [*inside, PHALANX, "up", "--grid", "lab", "--hub-only"]
    files = lab.folder / f"hub-{len(lab.started)}"
    process = Process(command, title="hub: phalanx up", files=files, cwd=lab.folder, env=lab.env("hub"))
    lab.started.append(process)
    lab.running["hub"] = process
    process.line("listening on ", timeout=PATIENCE)
    return process, Path(f"/proc/{process.pid}/root{state}/other")


def test_a_hub_with_a_full_disk_says_so_and_goes_on(lab: Site) -> None:
    hub, other = start_full(lab)
    lab.await_members(ws7=True)
    refused = lab.error("hub", "invite")
    state = lab.home("hub") / "grids" / "lab" / "hub" / "state"
    assert (
        f"the hub's disk is full, so that it stores nothing: on the hub's machine, make room for 2 MB in {state}"
        in (refused)
    )
    assert "KB are left" in refused
    # What needs nothing to be stored goes on, and its log says once what is wrong.
    assert lab.error("hub", "expel", "--yes", "ws7").startswith("phalanx: the hub's disk is full")
    assert {it["name"] for it in json.loads(lab.say("hub", "members", "--json"))} >= {"ws7"}
    assert lab.members()["ws7"]["is_here"]
    assert hub.stderr().count("WARNING the hub's disk is full") == 1
    other.unlink()
    assert lab.invite()
    assert "INFO the hub's disk has room again" in hub.stderr()
    assert hub.code is None
    lab.join("ws8", lab.invite())
    lab.await_members(ws7=True, ws8=True)


def test_a_hub_whose_write_fails_opens_its_store_again(lab: Site) -> None:
    """The disk fills between the look for room and the write. strace makes writes fail as they do then."""
    require("root", "strace")
    hub = lab.running["hub"]
    inject = "pwrite64,write,ftruncate,fallocate:error=ENOSPC"
    tracer = ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(hub.pid), "-P", str(state_file(lab))]
    tracing = Process(
        [*tracer, "-e", f"inject={inject}"],
        title="strace",
        files=lab.folder / "strace",
        cwd=lab.folder,
        env={"PATH": "/usr/bin:/bin"},
    )
    lab.started.append(tracing)
    until(lambda: "TracerPid:\t0" not in Path(f"/proc/{hub.pid}/status").read_text(), timeout=PATIENCE, what="strace")
    assert "the hub's disk is full" in lab.error("hub", "invite")
    assert "the hub's disk is full" in lab.error("hub", "members")
    tracing.kill()
    until(lambda: "has room again" in hub.stderr(), timeout=PATIENCE, what="the hub to go on")
    lab.await_members(ws7=True)
    lab.join("ws8", lab.invite())
    lab.await_members(ws7=True, ws8=True)


def state_file(lab: Site) -> Path:
    return lab.home("hub") / "grids" / "lab" / "hub" / "state" / "members.replica"
