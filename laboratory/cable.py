"""The cable between a host and its network: pull it, let it swallow everything, stretch it, listen to it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laboratory.capture import Capture
from laboratory.namespaces import ip

if TYPE_CHECKING:
    from laboratory.lab import Lab
    from laboratory.processes import Process

# States of a bridge port (linux/if_bridge.h). A disabled port drops every frame and tells neither end.
DISABLED, FORWARDING = "0", "3"


@dataclass
class Cable:
    """A veth pair from a host to `plug`, an interface of the lab's switch that belongs to `bridge`."""

    lab: Lab
    plug: str
    bridge: str
    _wire: Process | None = None
    _is_silent: bool = False

    def connect(self, host_namespace: str, interface: str) -> None:
        """Make the pair; the host's end is called `interface`."""
        peer = ("type", "veth", "peer", "name", interface, "netns", host_namespace)
        ip("link", "add", self.plug, *peer, namespace=self.lab.switch)
        self._into_bridge(self.plug)

    def cut(self) -> None:
        """Pull the plug: the host loses its carrier, as when a cable is torn out."""
        ip("link", "set", self.plug, "down", namespace=self.lab.switch)

    def silence(self) -> None:
        """Drop every frame both ways: no carrier event, no reset, no answer. What is sent is lost."""
        self._port_state(DISABLED)
        self._is_silent = True

    def mend(self) -> None:
        """Undo `cut` and `silence`. A shape stays."""
        ip("link", "set", self.plug, "up", namespace=self.lab.switch)
        # A port whose plug was pulled forwards by itself when it has its carrier again, and cannot be told before.
        if self._is_silent:
            self._port_state(FORWARDING)
            self._is_silent = False

    def plug_into(self, bridge: str) -> None:
        """Plug this end into another network. The host keeps its carrier. A shape stays."""
        self.bridge = bridge
        self._into_bridge(self._far if self._wire else self.plug)

    def shape(self, *, delay: float = 0.0, rate: float = 0.0, loss: float = 0.0) -> None:
        """Make the line long, narrow or bad, each way, instead of the shape before.

        `delay` in seconds, `rate` in bytes/s (0: unlimited), `loss` the share of packets that vanish (0..1).
        """
        self.unshape()
        ip("link", "set", self.plug, "nomaster", namespace=self.lab.switch)
        ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, namespace=self.lab.switch)
        ip("link", "set", self._near, "up", namespace=self.lab.switch)
        self._into_bridge(self._far)
        program = [sys.executable, str(Path(__file__).with_name("wire.py")), self.plug, self._near]
        self._wire = self.lab.popen(self.lab.switch, [*program, str(delay), str(rate), str(loss)])
        self._wire.line("ready")

    def unshape(self) -> None:
        """Back to a cable that is short, wide and good."""
        if self._wire:
            self._wire.kill()
            self._wire = None
            ip("link", "delete", self._near, namespace=self.lab.switch)
            self._into_bridge(self.plug)

    def capture(self) -> Capture:
        """A context manager that records what passes the host's end of the cable."""
        return Capture(self.lab.switch, self.plug)

    @property
    def _near(self) -> str:
        return f"{self.plug}-near"

    @property
    def _far(self) -> str:
        return f"{self.plug}-far"

    def _into_bridge(self, interface: str) -> None:
        ip("link", "set", interface, "up", "master", self.bridge, namespace=self.lab.switch)

    def _port_state(self, state: str) -> None:
        port = self._far if self._wire else self.plug
        ip("link", "set", "dev", port, "state", state, namespace=self.lab.switch, program="bridge")
