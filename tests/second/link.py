"""The link protocol, written from docs/security/link-protocol.md alone. Section numbers are those of that page.

It is for tests: it reads and writes one connection, blocks while it waits, and keeps secrets in ordinary memory.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from second.aegis import mac

CLEAR, AUTHENTICATED, SAFE, PRIVATE = range(4)
MAGIC = b"phlnx\x01"
CONTROL, DATA, SPACE, REPLICA, RANKS, TRANSFER, STREAM, EXECUTOR, FILES, RANK, NEWS = range(11)
#: The longest payload at each level.
LONGEST = ((1 << 24) - 1, (1 << 24) - 1, 1 << 18, 1 << 14)
RECORDS_PER_SECRET = 1 << 22
#: Content types and a message of TLS.
APPLICATION_DATA, HANDSHAKE = 23, 22
KEY_UPDATE = bytes([24, 0, 0, 1, 0])
LONGEST_HEADER, LONGEST_BODY = 1 << 20, 1 << 36
HEAD, TAG = 5, 16
#: What a private block has behind its payload: the content type and the tag.
TAIL = 1 + TAG
#: Behind the levels of an offer: the number of the server's newest list, and the digest of its renewed certificates.
NO_NEWS = bytes(8 + 16)
CHECKSUM = b"phalanx: checksum, not a secret!"

Levels = tuple[int, int, int]
T = TypeVar("T")


class Refused(Exception):
    """The other end broke the protocol, or does not want this one."""


def preamble(kind: int, argument: bytes = bytes(16)) -> bytes:
    """Section 2."""
    return MAGIC + bytes([kind]) + argument.ljust(16, b"\0")


def effective(levels: Sequence[int]) -> Levels:
    """Section 1: of no mark, of data and of code."""
    base, data, code = levels
    return base, max(base, data), max(base, code)


def expand(secret: bytes, info: bytes, length: int) -> bytes:
    """HKDF-Expand (RFC 5869)."""
    return HKDFExpand(SHA256(), length, info).derive(secret)


def expand_label(secret: bytes, label: bytes, length: int, context: bytes = b"") -> bytes:
    """RFC 8446, section 7.1."""
    label = b"tls13 " + label
    return expand(secret, struct.pack("!HB", length, len(label)) + label + bytes([len(context)]) + context, length)


def tls_exporter(secret: bytes, label: bytes, context: bytes, length: int) -> bytes:
    """RFC 8446, section 7.5."""
    derived = expand_label(secret, label, 32, hashlib.sha256(b"").digest())
    return expand_label(derived, b"exporter", length, hashlib.sha256(context).digest())


class Direction:
    """Sections 5 to 7: seals or opens the blocks of one direction."""

    def __init__(self, traffic: bytes, exported: bytes, number: int) -> None:
        self.traffic, self.exported, self.number = traffic, exported, number
        self.private, self.private_iv = expand_label(traffic, b"key", 16), expand_label(traffic, b"iv", 12)
        self.safe, self.safe_iv = expand(exported, b"phalanx safe", 16), expand(exported, b"phalanx iv", 12)

    def _nonce(self, iv: bytes) -> bytes:
        """Of the next block, which is counted."""
        number, self.number = self.number, self.number + 1
        return (int.from_bytes(iv, "big") ^ number).to_bytes(12, "big")

    def go_on(self) -> Direction:
        """This direction, with the next secrets."""
        traffic = expand_label(self.traffic, b"traffic upd", 32)
        self.__init__(traffic, expand(self.exported, b"phalanx next", 32), 0)  # type: ignore[misc]
        return self

    def seal(self, level: int, payload: bytes) -> bytes:
        """A block."""
        if level == PRIVATE:
            return (self.update() if self.number >= RECORDS_PER_SECRET else b"") + self.record(
                APPLICATION_DATA, payload
            )
        head = struct.pack("<BI", 0x58 + level, len(payload))
        if level == SAFE:
            return head + payload + mac(self.safe, self._nonce(self.safe_iv) + bytes(4), head + payload)
        self.number += 1
        return head + payload

    def record(self, kind: int, content: bytes) -> bytes:
        """A record of TLS with content of this type."""
        head = struct.pack("!BHH", APPLICATION_DATA, 0x0303, len(content) + TAIL)
        return head + AESGCM(self.private).encrypt(self._nonce(self.private_iv), content + bytes([kind]), head)

    def update(self) -> bytes:
        """The message after which the next secrets count."""
        record = self.record(HANDSHAKE, KEY_UPDATE)
        self.go_on()
        return record

    def open(self, head: bytes, rest: bytes) -> bytes:
        """The payload of a block, of which `rest` is what follows the head. A message of TLS has none."""
        level, _ = length_of(head)
        if level == PRIVATE:
            content = AESGCM(self.private).decrypt(self._nonce(self.private_iv), rest, head)
            if content == KEY_UPDATE + bytes([HANDSHAKE]):
                self.go_on()
                return b""
            if content[-1] != APPLICATION_DATA:
                raise Refused("a message of TLS that has no place here")
            return content[:-1]
        if level == SAFE:
            rest, tag = rest[:-TAG], rest[-TAG:]
            if tag != mac(self.safe, self._nonce(self.safe_iv) + bytes(4), head + rest):
                raise Refused("a safe block was altered")
            return rest
        self.number += 1
        return rest


def length_of(head: bytes, least: int = CLEAR) -> tuple[int, int]:
    """Section 6: the level of a block and the bytes behind its head."""
    if head[:3] == bytes([APPLICATION_DATA, 3, 3]):
        level, behind = PRIVATE, int.from_bytes(head[3:], "big")
        payload = behind - TAIL
    else:
        level, payload = head[0] - 0x58, int.from_bytes(head[1:], "little")
        behind = payload + (TAG if level == SAFE else 0)
        if level not in (CLEAR, AUTHENTICATED, SAFE):
            raise Refused(f"no block: {head.hex()}")
    if level < least or not 0 <= payload <= LONGEST[level]:
        raise Refused(f"no block of this link: {head.hex()}")
    return level, behind


class Link:
    """An open link. `send` and `receive` move frames (section 8)."""

    def __init__(self, connection: socket.socket, levels: Levels, sends: Direction, receives: Direction) -> None:
        self.connection, self.levels, self.sends, self.receives = connection, levels, sends, receives
        #: What is left of the last block, its level, and whether a frame has begun.
        self._payload, self._level, self._within = b"", CLEAR, False

    def send_block(self, level: int, payload: bytes) -> None:
        self.connection.sendall(self.sends.seal(level, payload))

    def receive_block(self) -> tuple[int, bytes]:
        """The next block's level and payload."""
        head = exactly(self.connection, HEAD)
        level, length = length_of(head, self.levels[0])
        return level, self.receives.open(head, exactly(self.connection, length))

    def send(self, header: bytes, body: bytes = b"", level: int | None = None) -> None:
        """A frame, at the base level unless another is given. Without blocks where all levels are clear."""
        frame = struct.pack("<IIQ", len(header), 0, len(body)) + header + body
        if not any(self.levels):
            self.connection.sendall(frame)
            return
        level = self.levels[0] if level is None else level
        for at in range(0, len(frame), LONGEST[level]):
            self.send_block(level, frame[at : at + LONGEST[level]])

    def receive(self) -> tuple[int, bytes, bytes]:
        """The next frame: its level, header and body."""
        header, place, body = struct.unpack("<IIQ", self._take(16))
        if header > LONGEST_HEADER or place != 0 or body > LONGEST_BODY:
            raise Refused("no frame")
        self._within = True
        frame = self._level, self._take(header), self._take(body)
        self._within = False
        return frame

    def _take(self, count: int) -> bytes:
        while len(self._payload) < count:
            if any(self.levels):
                level, payload = self.receive_block()
                if (self._within or self._payload) and level != self._level:
                    raise Refused("a frame in blocks of two levels")
                self._level, self._payload = level, self._payload + payload
            else:
                self._payload += exactly(self.connection, count - len(self._payload))
        taken, self._payload = self._payload[:count], self._payload[count:]
        return taken

    def close(self) -> None:
        self.connection.close()


class TlsLink(Link):
    """A private link by a library of TLS alone."""

    def __init__(self, tls: Tls, levels: Levels) -> None:
        assert set(levels) == {PRIVATE}
        self.connection, self.levels, self.tls = tls.connection, levels, tls
        self._payload, self._level, self._within = b"", PRIVATE, False

    def send_block(self, level: int, payload: bytes) -> None:
        self.tls.say(payload)

    def receive_block(self) -> tuple[int, bytes]:
        return PRIVATE, self.tls.some()


def exactly(connection: socket.socket, count: int) -> bytes:
    """So many bytes; Refused where the connection ends before."""
    got = bytearray()
    while len(got) < count:
        more = connection.recv(count - len(got))
        if not more:
            raise Refused("the connection ended")
        got += more
    return bytes(got)


class Member:
    """Section 3. An identity file has the own certificate, the authority's certificate and the key."""

    def __init__(self, identity: Path) -> None:
        own, authority, _key = identity.read_text().split("-----BEGIN ")[1:]
        self.identity, self.authority = identity, f"-----BEGIN {authority}"
        assert own.startswith("CERTIFICATE")

    def context(self, protocol: ssl._SSLMethod, keys: Path) -> ssl.SSLContext:
        """For one handshake, whose exporter secret goes to the file `keys`."""
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.authority)
        context.load_cert_chain(self.identity)
        context.keylog_filename = str(keys)
        return context


class Tls:
    """A handshake and the two messages behind it, record by record (sections 3 and 4)."""

    def __init__(self, connection: socket.socket, member: Member, server: bool, role: str = "executor") -> None:
        self.connection, self._arrived, self._leaves = connection, ssl.MemoryBIO(), ssl.MemoryBIO()
        #: How many protected records went out and came in behind the handshake.
        self.sent, self.heard = 0, 0
        protocol = ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT
        name = None if server else f"{role}.role.phalanx"
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder, "keys")
            self._tls = member.context(protocol, keys).wrap_bio(self._arrived, self._leaves, server, name)
            last = self._drive(self._tls.do_handshake)[1]
            lines = [line.split() for line in keys.read_text().splitlines() if not line.startswith("#")]
        self._secrets = {line[0]: bytes.fromhex(line[2]) for line in lines}
        # A server's last words are its tickets, under the keys of what follows.
        self.sent, self.heard = protected(last) if server else 0, 0

    def say(self, message: bytes) -> None:
        self._drive(lambda: self._tls.write(message))

    def hear(self, count: int) -> bytes:
        message = bytearray()

        def read() -> bytes:
            return self._tls.read(count - len(message))

        while len(message) < count:
            message += self._drive(read)[0]
        if self._tls.pending():
            raise Refused("a record is longer than its message")
        return bytes(message)

    def some(self) -> bytes:
        """What comes next."""
        return self._drive(lambda: self._tls.read(1 << 14))[0]

    def names(self) -> set[str]:
        """The DNS names in the certificate of the other end."""
        names: Any = (self._tls.getpeercert() or {}).get("subjectAltName", ())
        return {str(name) for kind, name in names if kind == "DNS"}

    def directions(self, levels: Levels, bound: bytes) -> tuple[Direction, Direction]:
        """Section 5: of the own blocks and of the other end's, when offer and choice have gone."""
        context = bytes(levels) + bound
        both = tls_exporter(self._secrets["EXPORTER_SECRET"], b"EXPORTER-phalanx-link", context, 64)
        client = self._secrets["CLIENT_TRAFFIC_SECRET_0"], both[:32]
        server = self._secrets["SERVER_TRAFFIC_SECRET_0"], both[32:]
        own, other = (server, client) if self._tls.server_side else (client, server)
        return Direction(*own, self.sent), Direction(*other, self.heard)

    def _drive(self, act: Callable[[], T]) -> tuple[T, bytes]:
        """Act, with a further record as long as one is missing. What TLS has to say leaves, an alert too, and its last
        words are returned."""
        while True:
            try:
                acted = act()
            except ssl.SSLWantReadError:
                self._leave()
            except BaseException:
                self._leave()
                raise
            else:
                return acted, self._leave()
            head = exactly(self.connection, HEAD)
            record = head + exactly(self.connection, int.from_bytes(head[3:], "big"))
            self.heard += protected(record)
            self._arrived.write(record)

    def _leave(self) -> bytes:
        records = self._leaves.read()
        self.sent += protected(records)
        self.connection.sendall(records)
        return records


def protected(records: bytes) -> int:
    """How many of these records are protected."""
    count = at = 0
    while at < len(records):
        count += records[at] == APPLICATION_DATA
        at += HEAD + int.from_bytes(records[at + 3 : at + HEAD], "big")
    return count


def is_offered(levels: Levels, offer: bytes) -> bool:
    """Section 4: whether the server accepts each effective level."""
    return all(offered >> level & 1 for level, offered in zip(effective(levels), offer[:3], strict=True))


def connect(
    connection: socket.socket, member: Member, begins: bytes, levels: Levels, ahead: bool = False, by_tls: bool = False
) -> Link:
    """Section 4, the client, which wants these levels. `ahead`: it says so before it hears the offer. `by_tls`: all of
    a private link is left to the library of TLS."""
    connection.sendall(begins)
    bound = begins
    choice = bytes(levels) + hashlib.sha256(bound).digest()
    tls = Tls(connection, member, server=False)
    if ahead:
        tls.say(choice)
    if not is_offered(levels, tls.hear(3 + len(NO_NEWS))):
        raise Refused("these levels are not offered")
    if not ahead:
        tls.say(choice)
    if by_tls:
        return TlsLink(tls, effective(levels))
    return Link(connection, effective(levels), *tls.directions(effective(levels), bound))


def accept(
    connection: socket.socket,
    member: Member,
    serves: bytes,
    offer: bytes,
    role: str = "user",
    by_tls: bool = False,
) -> Link:
    """Section 4, the server, for one preamble and clients in one role."""
    if exactly(connection, 23) != serves:
        raise Refused("another preamble")
    tls = Tls(connection, member, server=True)
    if f"{role}.role.phalanx" not in tls.names():
        raise Refused(f"no {role}: {tls.names()}")
    tls.say(offer + NO_NEWS)
    choice = tls.hear(35)
    base, data, code = choice[:3]
    levels = base, data, code
    if max(levels) > PRIVATE or not is_offered(levels, offer):
        raise Refused("levels that are not offered")
    if choice[3:] != hashlib.sha256(serves).digest():
        raise Refused("the preamble was changed on the way")
    if by_tls:
        return TlsLink(tls, effective(levels))
    return Link(connection, effective(levels), *tls.directions(effective(levels), serves))
