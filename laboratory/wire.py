"""A slow, narrow or lossy cable: carries frames between two interfaces, as a long line would.

A process of its own (`python wire.py INTERFACE INTERFACE DELAY RATE LOSS`), for not every kernel has netem.
Frames pass with their virtio header, so the kernel's large segments cross whole: one may be 64 KiB of TCP.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

ETH_P_ALL = 3  # linux/if_ether.h
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23  # linux/if_packet.h
SO_RCVBUFFORCE, SO_SNDBUFFORCE = 33, 32
# Flags, kind of segments, length of the headers, size of a segment, where the checksum starts and stands.
VIRTIO_HEADER = struct.Struct("<BBHHHH")
LONGEST = 1 << 17
BUFFER = 0.2  # seconds of traffic that wait before a narrow line, as in a router; more is dropped


def open_interface(name: str) -> socket.socket:
    """A raw socket that reads and writes whole frames of `name` with their virtio header."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    for option in (SO_RCVBUFFORCE, SO_SNDBUFFORCE):
        opened.setsockopt(socket.SOL_SOCKET, option, 1 << 25)
    opened.bind((name, ETH_P_ALL))
    opened.setblocking(False)
    return opened


@dataclass
class Direction:
    """One way through the cable. `delay` in seconds, `rate` in bytes/s (0: unlimited), `loss` from 0 to 1."""

    source: socket.socket
    target: socket.socket
    delay: float
    rate: float
    loss: float
    idle_at: float = 0.0
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)

    def take(self) -> None:
        """Queue the frames that have come, each with the time when it arrives at the other end."""
        with suppress(OSError):  # nothing more to read, or the interface is down just now
            while True:
                frame = self.source.recv(LONGEST)
                now = time.monotonic()
                start = max(now, self.idle_at)
                if start - now > BUFFER or random.random() < self.chance_of_loss(frame):
                    continue
                self.idle_at = start + (len(frame) / self.rate if self.rate else 0.0)
                self.waiting.append((self.idle_at + self.delay, frame))

    def chance_of_loss(self, frame: bytes) -> float:
        """A frame that stands for n packets is lost when any of them is."""
        segment = VIRTIO_HEADER.unpack_from(frame)[3]
        packets = -(-len(frame) // segment) if segment else 1
        return 1.0 - (1.0 - self.loss) ** packets

    def deliver(self) -> None:
        """Hand over the frames whose time has come; what the other end cannot hold is dropped."""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            with suppress(OSError):
                self.target.send(self.waiting.popleft()[1])


def main(first: str, second: str, delay: str, rate: str, loss: str) -> None:
    """Carry frames both ways until killed."""
    one, other = open_interface(first), open_interface(second)
    shape = (float(delay), float(rate), float(loss))
    directions = [Direction(one, other, *shape), Direction(other, one, *shape)]
    print("ready", flush=True)
    while True:
        due = [direction.waiting[0][0] for direction in directions if direction.waiting]
        select.select([one, other], [], [], max(0.0, min(due) - time.monotonic()) if due else None)
        for direction in directions:
            direction.take()
            direction.deliver()


if __name__ == "__main__":
    main(*sys.argv[1:])
