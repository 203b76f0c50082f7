"""A laboratory of hosts on one machine: network namespaces, joined by cables to a switch, some behind a NAT.

    with Lab() as lab:
        a, b = lab.host("a"), lab.host("b")
        server = b.popen(["python", "-m", "http.server", "8000"])
        a.run(["ping", "-c", "1", b.address])
        b.cable.silence()                       # from now on b is cut off, and nobody is told
        c = lab.host("c", lab.nat("office"))    # c can reach a and b, nobody can reach c
    d = lab.host("d", lab.site("faraway"))  # behind a router: all can reach it, by the router's cable

Every process that was started in a host, however deep, ends with the lab.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from laboratory import namespaces
from laboratory.cable import Cable
from laboratory.namespaces import ip
from laboratory.processes import Process, until

#: Seconds in which a process ends that is asked to.
GRACE = 2.0
GATEWAY = 254
# Out: anything, under the gateway's address. In: only answers. The rest vanishes, as behind most firewalls.
NAT_RULES = """
table ip lab {{
    chain out {{
        type nat hook postrouting priority srcnat
        oifname "eth0" masquerade {ports}
    }}
    chain through {{
        type filter hook forward priority filter; policy drop
        ct state established,related accept
        iifname "eth1" {allowed} accept
    }}
}}
"""
# Says its own name, as a machine of its own would, then becomes the command.
NAMED = ("unshare", "--uts", "sh", "-c", 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"')

_serials = itertools.count()


@dataclass
class Network:
    """A bridge in the lab's switch and the addresses on it: those of `subnet`, from the first on.

    Two networks may have the same subnet, as private networks have, if a NAT is between them.
    """

    number: int
    subnet: str = ""
    router: Host | None = None
    _next: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def bridge(self) -> str:
        """Its name in the switch."""
        return f"net{self.number}"

    def address(self, last: int | None = None) -> str:
        """The address on it that ends with `last`; without, the next free one."""
        subnet = self.subnet or f"10.77.{self.number}"
        return f"{subnet}.{next(self._next) if last is None else last}"


@dataclass
class Host:
    """A machine of the lab: a network namespace, a name, an address on `eth0` and an empty home folder."""

    name: str
    address: str
    namespace: str
    cable: Cable
    home: Path
    lab: Lab
    network: Network

    def popen(self, command: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> Process:
        """Start a command here, in the host's home folder."""
        return self.lab.popen(self.namespace, [*NAMED, self.name, *command], home=self.home, env=env or {})

    def run(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = 30,
        check: bool = True,
    ) -> Process:
        """Run a command to its end; AssertionError when it takes longer, or fails and `check` is set."""
        process = self.popen(command, env=env)
        assert process.wait(timeout=timeout) == 0 or not check, process.report()
        return process

    def new_socket(self) -> socket.socket:
        """A TCP socket of this host for the test itself, with a deadline on everything it does."""
        with namespaces.inside(self.namespace):
            made = self.lab.keep(socket.socket())
        made.settimeout(30)
        return made

    def connect(self, address: str, port: int) -> socket.socket:
        """A TCP connection from this host."""
        made = self.new_socket()
        made.connect((address, port))
        return made

    def listen(self, port: int = 0) -> socket.socket:
        """A listening TCP socket of this host, on all its addresses."""
        made = self.new_socket()
        made.bind(("", port))
        made.listen(1024)
        return made

    def pids(self) -> list[int]:
        """All processes that live on this host."""
        return namespaces.pids(self.namespace)

    def move(self, network: Network) -> None:
        """Plug the cable into another network, where the host has another address. As when a laptop is carried away:
        its processes run on, and those that had connections to it hear nothing."""
        address = network.address()
        ip("address", "flush", "dev", "eth0", namespace=self.namespace)
        self.cable.plug_into(network.bridge)
        self.address, self.network = address, network
        self.configure()

    def configure(self) -> None:
        """Give the host its address, and the way out of its network."""
        ip("address", "add", f"{self.address}/24", "dev", "eth0", namespace=self.namespace)
        if self.network.router:
            gateway = self.network.address(GATEWAY)
            ip("route", "replace", "default", "via", gateway, namespace=self.namespace)


class Lab:
    """Hosts and networks within a `with` block; RuntimeError when this machine cannot have them.

    At the end it prints what its processes printed, for pytest to show with a test that failed; if `quiet`, only when
    the block raised an Exception, which Ctrl-C is not.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        if obstacle := namespaces.obstacle():
            raise RuntimeError(obstacle)
        self._prefix = f"{namespaces.own_prefix()}{next(_serials)}."
        self._numbers = itertools.count()
        self._networks = itertools.count()
        self._quiet = quiet
        self.processes: list[Process] = []
        self.hosts: list[Host] = []
        self._sockets = ExitStack()
        # With a dash before it, for a host may be called "switch" as well.
        self.switch = f"{self._prefix}-switch"
        self.path = Path(tempfile.gettempdir(), f"{namespaces.FOLDER}{self._prefix}files")

    def __enter__(self) -> Lab:
        namespaces.collect_stale()
        try:
            self.path.mkdir(mode=0o700)
            namespaces.add(self.switch)
            self.lan = self.network()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close(report=isinstance(error, Exception) or not self._quiet)

    def close(self, *, report: bool = True) -> None:
        """End every process, remove hosts and files."""
        self._sockets.close()
        # Asked first: what they have made is theirs to remove.
        for process in self.processes:
            process.signal(signal.SIGTERM)
        with suppress(AssertionError):
            until(lambda: all(it.code is not None for it in self.processes), timeout=GRACE, what="the end of all")
        for process in self.processes:
            process.kill()
            if report:
                print(process.report())
        namespaces.remove(self._prefix)

    def keep(self, opened: socket.socket) -> socket.socket:
        """Close `opened` with the lab; those that hosts make are kept already, accepted ones are not."""
        return self._sockets.enter_context(opened)

    def network(self, subnet: str = "") -> Network:
        """One more network, joined to the others by nothing. Its addresses begin with `subnet`, like `10.0.0`."""
        network = Network(next(self._networks), subnet)
        bridge = ("add", network.bridge, "type", "bridge", "stp_state", "0", "forward_delay", "0")
        ip("link", *bridge, namespace=self.switch)
        ip("link", "set", network.bridge, "up", namespace=self.switch)
        return network

    def host(self, name: str, network: Network | None = None) -> Host:
        """A new machine on `network`, the LAN by default."""
        network = network or self.lan
        namespace, home = f"{self._prefix}{name}", self.path / name
        namespaces.add(namespace)
        home.mkdir()
        address = network.address()
        host = Host(name, address, namespace, self._cable(namespace, network, "eth0"), home, self, network)
        self.hosts.append(host)
        host.configure()
        return host

    def nat(
        self, name: str, *, subnet: str = "", ports: Sequence[int] | None = None, symmetric: bool = False
    ) -> Network:
        """A network behind the new host `name`: who is on it can connect to the LAN and cannot be reached.

        Parameters
        ----------
        subnet
            As for :meth:`network`.
        ports
            The only ports to which the router lets those on it connect; None: all.
        symmetric
            Whether the router chooses another port for each connection, so that no hole can be punched.
        """
        network, router = self.network(subnet), self.host(name)
        self._cable(router.namespace, network, "eth1")
        ip("address", "add", f"{network.address(GATEWAY)}/24", "dev", "eth1", namespace=router.namespace)
        allowed = "" if ports is None else f"tcp dport {{ {', '.join(map(str, ports))} }}"
        rules = NAT_RULES.format(ports="fully-random" if symmetric else "", allowed=allowed)
        router.run(["sh", "-c", f"echo 1 > /proc/sys/net/ipv4/ip_forward && echo '{rules}' | nft -f -"])
        network.router = router
        return network

    def site(self, name: str) -> Network:
        """A network behind the new host `name`, a router, which all on the LAN so far know the way to, and back.

        The line between the site and the LAN is the router's cable.
        """
        known, network, router = list(self.hosts), self.network(), self.host(name)
        self._cable(router.namespace, network, "eth1")
        ip("address", "add", f"{network.address(GATEWAY)}/24", "dev", "eth1", namespace=router.namespace)
        router.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        for host in known:
            if host.network is self.lan:
                ip("route", "add", f"{network.address(0)}/24", "via", router.address, namespace=host.namespace)
        network.router = router
        return network

    def popen(
        self,
        namespace: str,
        command: Sequence[str | Path],
        *,
        home: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a command in a namespace of this lab; of the caller's `PHALANX_*` settings it gets none."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PHALANX_")}
        inherited["PHALANX_ALLOW_ROOT"] = "1"  # a lab is root's, and so are its executors
        process = Process(
            ["ip", "netns", "exec", namespace, *map(str, command)],
            files=self.path / f"process-{len(self.processes)}",
            env={**inherited, "HOME": str(home or self.path), "XDG_RUNTIME_DIR": str(home or self.path), **(env or {})},
            cwd=home or self.path,
            title=f"{namespace.removeprefix(self._prefix)}$ {subprocess.list2cmdline(map(str, command))}",
        )
        self.processes.append(process)
        return process

    def _cable(self, namespace: str, network: Network, interface: str) -> Cable:
        """Join a namespace to a network: its end of the cable is called `interface`."""
        cable = Cable(self, f"plug{next(self._numbers)}", network.bridge)
        cable.connect(namespace, interface)
        ip("link", "set", interface, "up", namespace=namespace)
        return cable
