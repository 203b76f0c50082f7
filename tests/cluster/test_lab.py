"""The lab itself: what the other tests take for granted about its hosts, cables and cleaning up."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from skips import require

from laboratory import namespaces
from laboratory.lab import Host, Lab
from laboratory.processes import Process, until


def pair(client: Host, server: Host) -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection from one host to another."""
    with closing(server.listen()) as listener:
        near = client.connect(server.address, listener.getsockname()[1])
        far = client.lab.keep(listener.accept()[0])
        far.settimeout(30)
        return near, far


def silent(receiver: socket.socket, seconds: float = 0.3) -> bool:
    """Whether nothing at all arrives for a while: no byte, no end, no reset."""
    receiver.settimeout(seconds)
    try:
        receiver.recv(1)
    except TimeoutError:
        return True
    finally:
        receiver.settimeout(30)
    return False


def carrier(host: Host) -> str:
    return host.run(["cat", "/sys/class/net/eth0/carrier"]).stdout().strip()


def test_hosts_reach_each_other_and_nothing_else(lab: Lab) -> None:
    a, b = lab.host("a"), lab.host("b")
    near, far = pair(a, b)
    near.sendall(b"hello")
    assert far.recv(5) == b"hello"
    assert far.getpeername()[0] == a.address
    with pytest.raises(OSError, match="unreachable"):
        a.connect("192.0.2.1", 80)  # TEST-NET-1: the lab has no way out


def test_a_host_has_a_name_a_home_and_none_of_our_settings(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_HOME", "/nowhere")
    a = lab.host("a")
    asked = "cat /proc/sys/kernel/hostname; pwd; echo $HOME $PHALANX_HOME $EXTRA"
    told = a.run(["sh", "-c", asked], env={"EXTRA": "yes"})
    assert told.lines() == ["a", str(a.home), f"{a.home} yes"]
    assert socket.gethostname() != "a"


def test_a_failed_command_shows_what_it_said(lab: Lab) -> None:
    a = lab.host("a")
    with pytest.raises(AssertionError, match="no such luck"):
        a.run(["sh", "-c", "echo no such luck >&2; exit 3"])
    assert a.run(["sh", "-c", "exit 3"], check=False).code == 3


def test_a_torn_cable_takes_the_carrier_and_a_mended_one_brings_all_back(lab: Lab) -> None:
    a, b = lab.host("a"), lab.host("b")
    near, far = pair(a, b)
    b.cable.cut()
    assert carrier(b) == "0"
    near.sendall(b"x")
    assert silent(far)
    b.cable.mend()
    assert far.recv(1) == b"x"


def test_a_silenced_cable_says_nothing_to_anyone(lab: Lab) -> None:
    a, b = lab.host("a"), lab.host("b")
    near, far = pair(a, b)
    b.cable.silence()
    assert carrier(b) == "1"
    near.sendall(b"x")
    far.sendall(b"y")
    assert silent(far)
    assert silent(near)
    b.cable.mend()
    assert far.recv(1) == b"x"
    assert near.recv(1) == b"y"


def test_a_process_that_dies_behind_a_silenced_cable_is_not_heard(lab: Lab) -> None:
    a, b = lab.host("a"), lab.host("b")
    near, far = pair(a, b)
    b.cable.silence()
    far.close()
    assert silent(near)


def test_a_long_line_delays_each_way(lab: Lab) -> None:
    a, b = lab.host("a"), lab.host("b")
    b.cable.shape(delay=0.05)
    near, far = pair(a, b)
    start = time.monotonic()
    near.sendall(b"x")
    far.sendall(far.recv(1))
    assert near.recv(1) == b"x"
    assert time.monotonic() - start >= 0.1  # a lower bound only: no machine is too slow for it


def pour(near: socket.socket, far: socket.socket, size: int) -> float:
    """Send `size` random bytes, expect them unharmed; returns the seconds it took."""
    payload, start = os.urandom(size), time.monotonic()
    sender = threading.Thread(target=near.sendall, args=(payload,))
    sender.start()
    received = bytearray()
    while len(received) < size:
        received += far.recv(1 << 18)
    sender.join()
    assert received == payload
    return time.monotonic() - start


def test_a_narrow_line_lets_no_more_through(lab: Lab) -> None:
    a, b = lab.host("a"), lab.host("b")
    b.cable.shape(rate=2_000_000)
    assert pour(*pair(a, b), size=1_000_000) >= 0.4  # half a second, less what TCP has left in the far buffer


def test_a_bad_line_loses_packets_and_no_bytes(lab: Lab) -> None:
    a, b = lab.host("a"), lab.host("b")
    b.cable.shape(loss=0.02)
    pour(*pair(a, b), size=1_000_000)
    assert retransmitted(a) > 0


def retransmitted(host: Host) -> int:
    """How many TCP segments the host sent again (proc/net/snmp)."""
    table = host.run(["grep", "^Tcp:", "/proc/net/snmp"])
    names, values = (line.split() for line in table.lines())
    return int(values[names.index("RetransSegs")])


def test_a_shaped_cable_can_be_silenced_mended_and_made_good_again(lab: Lab) -> None:
    a, b = lab.host("a"), lab.host("b")
    near, far = pair(a, b)
    b.cable.shape(delay=0.01)
    b.cable.silence()
    near.sendall(b"x")
    assert silent(far)
    b.cable.mend()
    assert far.recv(1) == b"x"
    b.cable.unshape()
    far.sendall(b"y")
    assert near.recv(1) == b"y"


def test_a_site_is_reached_through_its_router_both_ways(lab: Lab) -> None:
    desk, site = lab.host("desk"), lab.site("faraway")
    away = lab.host("away", site)
    assert away.address.rpartition(".")[0] != desk.address.rpartition(".")[0]
    for client, server in ((desk, away), (away, desk)):
        near, far = pair(client, server)
        near.sendall(b"x")
        assert far.recv(1) == b"x"
        assert far.getpeername()[0] == client.address
    assert site.router is not None
    site.router.cable.silence()
    near.sendall(b"x")
    assert silent(far)


def test_behind_a_nat_one_reaches_out_and_is_not_reached(lab: Lab) -> None:
    outside, office = lab.host("outside"), lab.nat("office")
    inside, colleague = lab.host("inside", office), lab.host("colleague", office)
    assert office.router is not None
    near, far = pair(inside, outside)
    near.sendall(b"x")
    assert far.recv(1) == b"x"
    assert far.getpeername()[0] == office.router.address
    inside.listen(7400)
    colleague.connect(inside.address, 7400)
    with pytest.raises(ConnectionRefusedError):
        outside.connect(office.router.address, 7400)
    # Not even who knows the way gets through.
    outside.run(["ip", "route", "add", inside.address, "via", office.router.address])
    knocking = outside.new_socket()
    knocking.settimeout(1.5)
    with pytest.raises(TimeoutError):
        knocking.connect((inside.address, 7400))


@pytest.mark.parametrize("shaped", [False, True])
def test_a_capture_sees_what_is_sent_in_clear(lab: Lab, shaped: bool) -> None:
    a, b = lab.host("a"), lab.host("b")
    if shaped:
        b.cable.shape(delay=0.001)
    near, far = pair(a, b)
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with b.cable.capture() as capture:
        for half in (b"open ses", b"ame"):  # the marker stands across two segments
            near.sendall(half)
            assert far.recv(len(half)) == half
        far.sendall(b"answer")
        assert near.recv(6) == b"answer"
    assert capture.saw(b"open sesame")
    assert capture.saw(b"answer")
    assert not capture.saw(b"never said")


def test_a_capture_of_much_traffic_is_whole(lab: Lab) -> None:
    a, b = lab.host("a"), lab.host("b")
    near, far = pair(a, b)
    with b.cable.capture() as capture:
        pour(near, far, 5_000_000)
    flow = (*near.getsockname(), *near.getpeername())
    assert len(capture.flows()[flow]) >= 5_000_000


def gone(pid: int) -> Callable[[], bool]:
    return lambda: not Path(f"/proc/{pid}").exists()


def test_every_process_ends_with_the_lab_even_frozen_or_in_another_session() -> None:
    require(*namespaces.LAB)
    with Lab() as lab:
        a = lab.host("a")
        process = a.popen(["sh", "-c", "setsid sleep 1000 & sleep 1000 & wait"])
        until(lambda: len(a.pids()) == 3, timeout=30, what="three processes")
        process.freeze()
        pids, prefix = a.pids(), lab.switch.rsplit(".", 1)[0]
    for pid in pids:
        until(gone(pid), timeout=30, what=f"the end of {pid}")
    assert not list(namespaces.NAMES.glob(f"{prefix}.*"))
    assert not lab.path.exists()


CRASHING = """
import sys, time
sys.path.insert(0, {folder!r})
from laboratory.lab import Lab
from laboratory.processes import until
with Lab() as lab:
    host = lab.host("a")
    sleeper = host.popen(["sleep", "1000"])
    until(host.pids, timeout=30, what="the sleeper's arrival in its namespace")
    print(lab.switch, sleeper.pid, flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_after_ctrl_c_or_a_crash(tmp_path: Path, number: signal.Signals) -> None:
    require(*namespaces.LAB)
    program = CRASHING.format(folder=str(Path(__file__).parents[2]))
    command = [sys.executable, "-c", program]
    crashing = Process(command, title="crashing", files=tmp_path / "crashing", cwd=tmp_path, env=os.environ)
    try:
        switch, pid = crashing.line("phalanx-").split()
        crashing.signal(number)
        crashing.wait()
    finally:
        crashing.kill()
    if number == signal.SIGKILL:
        with Lab():
            pass  # collects what the crash left
    until(gone(int(pid)), timeout=30, what="the end of the sleeper")
    assert not list(namespaces.NAMES.glob(f"{switch.rsplit('.', 1)[0]}.*"))


def test_two_labs_at_once_do_not_meet(lab: Lab) -> None:
    with Lab() as other:
        first, second = lab.host("a"), other.host("a")
        assert first.address == second.address
        with closing(first.listen(7400)), pytest.raises(ConnectionRefusedError):
            second.connect(second.address, 7400)
    assert first.run(["true"]).code == 0  # the other's end did not touch this one


def test_a_machine_that_cannot_have_labs_is_told_what_to_do(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("PATH", "/nowhere")
        with pytest.raises(RuntimeError, match="iproute2"):
            Lab()
    with monkeypatch.context() as changed:
        changed.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(RuntimeError, match="root"):
            Lab()
