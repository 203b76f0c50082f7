"""The messages of spaces that appendix B of docs/security/link-protocol.md shows, at both ends of a link."""

from __future__ import annotations

from second.link import Link, Refused

OPEN, OUT, GET, ACK, COUNT, BEAT = 0, 1, 2, 4, 6, 16
OPENED, DONE, GOT, COUNTED = 0, 2, 3, 4
IS_BEAT = 9
#: What begins the header of a frame in which the server says that its news have changed.
NEWS = 0x7F
LONGEST_BODY = 1 << 20


def number(value: int) -> bytes:
    """A varint."""
    more = b""
    while value > 127:
        more, value = more + bytes([value & 127 | 128]), value >> 7
    return more + bytes([value])


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """A varint, and where it ends."""
    value, shift = 0, 0
    while data[at] > 127:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


def field(value: int | str) -> bytes:
    if isinstance(value, int):
        return b"\x03" + number(2 * value if value >= 0 else -2 * value - 1)
    return b"\x06" + number(len(value.encode())) + value.encode()


def tuple_of(*fields: int | str) -> bytes:
    return number(len(fields)) + b"".join(map(field, fields))


def template_of(*fields: int | str | None) -> bytes:
    """`None` stands for anything."""
    patterns = (b"\x01" if it is None else b"\x00" + field(it) for it in fields)
    return number(len(fields)) + b"".join(patterns) + b"\x00"


class Client:
    """A session with one space. `level`: of its tuples, which the server's answers must have as well."""

    def __init__(self, link: Link, name: str) -> None:
        self.link, self.requests = link, 0
        header = number(len(name)) + name.encode() + b"\0"
        answer, _ = self._ask(OPEN, header, b"", link.levels[1])
        length, at = read_number(answer, 0)
        self.version = answer[at : at + length].decode()
        self.secure = answer[at + length + 1] == 1
        self.level = link.levels[1] if self.secure else link.levels[0]

    def out(self, *fields: int | str) -> None:
        self._ask(OUT, b"\x01" + bytes(6), tuple_of(*fields), self.level)

    def take(self, *fields: int | str | None) -> bytes:
        """The encoded tuple that matches; empty if there is none."""
        header = b"\x01" + bytes(3) + number(1) + number(0) + bytes(4)
        _, body = self._ask(GET, header, template_of(*fields), self.level)
        self.link.send(number(ACK) + number(self.requests), b"", self.level)
        return body

    def _ask(self, kind: int, rest: bytes, body: bytes, level: int) -> tuple[bytes, bytes]:
        """The answer to a request, without its kind and number, and its body."""
        self.requests += 1
        self.link.send(number(kind) + number(self.requests) + rest, body, level)
        while True:
            got, header, answer = self.link.receive()
            if header[0] in (IS_BEAT, NEWS):
                continue
            request, at = read_number(header, 1)
            if request != self.requests or header[0] not in (OPENED, DONE, GOT, COUNTED):
                raise Refused(f"another answer: {header.hex()}")
            if kind != OPEN and got != self.level:
                raise Refused(f"an answer at level {got}")
            return header[at:], answer


def text(value: str) -> bytes:
    return number(len(value.encode())) + value.encode()


def serve(link: Link, secure: bool = False, *, version: str) -> list[tuple[int, int, bytes]]:
    """Serve one session until its client is gone. The level, kind and body of all that arrived, without beats.

    ``version``: of phalanx, which the client is told.
    """
    heard: list[tuple[int, int, bytes]] = []
    level = link.levels[1] if secure else link.levels[0]
    kept: list[bytes] = []
    while True:
        try:
            got, header, body = link.receive()
        except (Refused, OSError):
            return heard
        if header[0] == BEAT:
            continue
        heard.append((got, header[0], body))
        request = number(read_number(header, 1)[0])
        answer, with_it = b"", b""
        match header[0]:
            case 0:  # OPEN
                answer = number(OPENED) + request + text(version) + bytes([1, secure, 0])
                answer += number(LONGEST_BODY) + b"\0" + number(1)
            case 1:  # OUT
                kept.append(body)
                answer = number(DONE) + request + number(len(kept))
            case 2:  # GET
                with_it = kept.pop() if kept else b""
                answer = number(GOT) + request + number(int(with_it != b"")) + b"\0"
            case 6:  # COUNT
                answer = number(COUNTED) + request + number(len(kept))
        if answer:
            link.send(answer, with_it, level)
