"""Everything that crosses a cable, for tests that ask whether a secret was readable on the way."""

from __future__ import annotations

import socket
import struct
import threading
from collections import defaultdict

from laboratory.namespaces import inside
from laboratory.wire import ETH_P_ALL, LONGEST, SO_RCVBUFFORCE, SOL_PACKET

PACKET_STATISTICS = 6
ETHERNET = 14  # bytes of its header
Flow = tuple[str, int, str, int]


class Capture:
    """Records the frames that pass `interface` of `namespace`, both ways, while its block runs."""

    def __init__(self, namespace: str, interface: str) -> None:
        with inside(namespace):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 27)
            self._socket.bind((interface, ETH_P_ALL))
        self._socket.settimeout(0.05)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._record, daemon=True)
        self.frames: list[bytes] = []

    def __enter__(self) -> Capture:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._stopping.set()
        self._thread.join()
        _, dropped = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self._socket.close()
        # A capture with holes proves nothing.
        assert error is not None or dropped == 0, f"the capture lost {dropped} frames"

    def _record(self) -> None:
        while True:
            stopping = self._stopping.is_set()  # asked before reading: what came until then is still taken
            try:
                self.frames.append(self._socket.recv(LONGEST))
            except TimeoutError:
                if stopping:
                    return

    def flows(self) -> dict[Flow, bytes]:
        """What each side of each TCP connection sent: (from, port, to, port) -> payloads as they passed."""
        flows: dict[Flow, bytearray] = defaultdict(bytearray)
        for frame in self.frames:
            if segment := tcp_segment(frame):
                flows[segment[0]] += segment[1]
        return {flow: bytes(payload) for flow, payload in flows.items()}

    def saw(self, marker: bytes) -> bool:
        """Whether `marker` could be read: in a frame of any kind, or across the segments of a connection."""
        return any(marker in text for text in (*self.frames, *self.flows().values()))


def tcp_segment(frame: bytes) -> tuple[Flow, bytes] | None:
    """The flow and payload of a frame with TCP over IPv4, else None (RFC 791, RFC 9293)."""
    if frame[12:14] != b"\x08\x00" or frame[ETHERNET + 9] != socket.IPPROTO_TCP:
        return None
    tcp = ETHERNET + (frame[ETHERNET] & 15) * 4
    # Where the packet ends; a short frame is padded beyond it.
    end = ETHERNET + int.from_bytes(frame[ETHERNET + 2 : ETHERNET + 4], "big")
    source, target = (socket.inet_ntoa(frame[at : at + 4]) for at in (ETHERNET + 12, ETHERNET + 16))
    source_port, target_port = struct.unpack_from("!HH", frame, tcp)
    return (source, source_port, target, target_port), frame[tcp + (frame[tcp + 12] >> 4) * 4 : end]
