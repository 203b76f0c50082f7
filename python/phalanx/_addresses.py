"""The addresses of this machine by which others may reach it, and its free ports."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

from phalanx.errors import IdentityError
from phalanx.hosts import PORT

#: Numbers of Linux's calls that tell an interface's IPv4 address, and its flags; the flag of one that is up.
_ADDRESS, _FLAGS, _UP = 0x8915, 0x8913, 1


def free_port(host: str, *ports: int) -> int:
    """The first of these ports at which no process of this machine listens; 0 stands for any free one. By default it is
    the default port, or any."""
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    for port in ports or (PORT, 0):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port is free after its last connections
            try:
                probe.bind((host.strip("[]"), port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise IdentityError(f"this machine has no address {host}, or no free port: name another one with --listen")


def machine_hosts() -> list[str]:
    """The IPv4 addresses of this machine by which others may reach it: that of the way out, then those of all
    interfaces. The loopback address if there is no other one."""
    found = [*_of_way_out(), *_of_interfaces()]
    return [host for host in dict.fromkeys(found) if not host.startswith(("127.", "169.254.", "0."))] or ["127.0.0.1"]


def _of_way_out() -> list[str]:
    """The address that packets to other networks have. Nothing is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # an address that no machine has (RFC 5737)
        return [str(probe.getsockname()[0])]
    return []


def _of_interfaces() -> list[str]:
    """The first address of each interface that is up; on Linux."""
    try:
        from fcntl import ioctl
    except ImportError:
        return []
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            with suppress(OSError):  # it has no such address
                (flags,) = struct.unpack_from("H", ioctl(probe, _FLAGS, request), 16)
                if flags & _UP:
                    found.append(socket.inet_ntoa(ioctl(probe, _ADDRESS, request)[20:24]))
    return found
