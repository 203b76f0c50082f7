"""A desktop for tests: a real X server whose keys are pressed, and a private bus with a mock of systemd-logind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from laboratory.processes import until

_PATIENCE = 60.0
_LOGIND = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
#: Debian's Python, for which its package python3-dbusmock is.
_PYTHON = "/usr/bin/python3"


class Display(NamedTuple):
    """A display, and the process of its server."""

    name: str
    server: int

    @property
    def env(self) -> dict[str, str]:
        """What programs need that are to observe this display and no other desktop."""
        return {"DISPLAY": self.name, "WAYLAND_DISPLAY": "", "DBUS_SESSION_BUS_ADDRESS": ""}

    def press_key(self) -> None:
        """Press a key."""
        env = {**os.environ, "DISPLAY": self.name}
        subprocess.run(["xdotool", "key", "a"], env=env, check=True, timeout=_PATIENCE)


@contextmanager
def x_server() -> Iterator[Display]:
    """A display, whose keyboard is xdotool's. It ends with the ``with``."""
    reads, writes = os.pipe()
    command = ["Xvfb", "-displayfd", str(writes), "-screen", "0", "640x480x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, pass_fds=[writes], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(writes)
    try:
        with os.fdopen(reads) as opened:
            yield Display(f":{opened.readline().strip()}", server.pid)
    finally:
        server.kill()
        server.wait()


class Bus:
    """A private bus. Its services are mocks, whose properties a test sets."""

    def __init__(self, address: str) -> None:
        self.address = address

    def set(self, name: str, kind: str, value: str, *, of: tuple[str, str, str] = _LOGIND) -> None:
        """Set a property of a service, by the words of dbus-send."""
        service, path, interface = of
        method = "org.freedesktop.DBus.Properties.Set"
        words = [f"--dest={service}", path, method, f"string:{interface}", f"string:{name}", f"variant:{kind}:{value}"]
        command = ["dbus-send", f"--bus={self.address}", "--print-reply", *words]
        subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE)


@contextmanager
def logind(folder: Path) -> Iterator[Bus]:
    """A bus on which logind says that all sessions are in use."""
    with _bus(folder) as bus, _mock(bus, *_LOGIND):
        _add(bus, _LOGIND, "IdleHint", "boolean:false")
        _add(bus, _LOGIND, "IdleSinceHintMonotonic", "uint64:0")
        yield bus


@contextmanager
def network_manager(bus: Bus, metered: int) -> Iterator[None]:
    """A mock of NetworkManager on a bus."""
    name = "org.freedesktop.NetworkManager"
    of = name, "/org/freedesktop/NetworkManager", name
    with _mock(bus, *of):
        _add(bus, of, "Metered", f"uint32:{metered}")
        yield


@contextmanager
def _bus(folder: Path) -> Iterator[Bus]:
    address = f"unix:path={folder / 'bus'}"
    command = ["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={address}"]
    daemon = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until((folder / "bus").exists, timeout=_PATIENCE, what="the bus")
        yield Bus(address)
    finally:
        daemon.kill()
        daemon.wait()


@contextmanager
def _mock(bus: Bus, service: str, path: str, interface: str) -> Iterator[None]:
    env = {**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": bus.address}
    command = [_PYTHON, "-m", "dbusmock", "--system", service, path, interface]
    mock = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ask = ["dbus-send", f"--bus={bus.address}", "--print-reply", f"--dest={service}", path]
        ask.append("org.freedesktop.DBus.Peer.Ping")
        answers = lambda: subprocess.run(ask, capture_output=True, timeout=_PATIENCE).returncode == 0  # noqa: E731
        until(answers, timeout=_PATIENCE, what=f"the mock of {service}")
        yield
    finally:
        mock.kill()
        mock.wait()


def _add(bus: Bus, of: tuple[str, str, str], name: str, value: str) -> None:
    service, path, interface = of
    method = "org.freedesktop.DBus.Mock.AddProperty"
    words = [f"--dest={service}", path, method, f"string:{interface}", f"string:{name}", f"variant:{value}"]
    command = ["dbus-send", f"--bus={bus.address}", "--print-reply", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE)
