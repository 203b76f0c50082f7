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
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, HashAlgorithm
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from second.aegis import mac

CLEAR, AUTHENTICATED, SAFE, PRIVATE = range(4)
MAGIC = b"phlnx\x01"
CONTROL, DATA, SPACE, REPLICA, RANKS, TRANSFER, STREAM, EXECUTOR, FILES, RANK, NEWS = range(11)
LONGEST_PROTECTED, LONGEST_PLAIN = 1 << 18, (1 << 24) - 1
BLOCKS_PER_SECRET = 1 << 18
LONGEST_HEADER, LONGEST_BODY = 1 << 20, 1 << 36
TAG = 16
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


def expand(secret: bytes, info: bytes, length: int, algorithm: HashAlgorithm | None = None) -> bytes:
    """HKDF-Expand (RFC 5869)."""
    return HKDFExpand(algorithm or SHA256(), length, info).derive(secret)


def tls_exporter(secret: bytes, suite: str, label: bytes, context: bytes, length: int) -> bytes:
    """RFC 8446, section 7.5."""
    algorithm: HashAlgorithm = SHA384() if suite.endswith("SHA384") else SHA256()
    digest = hashlib.sha384 if suite.endswith("SHA384") else hashlib.sha256

    def expand_label(secret: bytes, label: bytes, context: bytes, length: int) -> bytes:
        label = b"tls13 " + label
        info = struct.pack("!HB", length, len(label)) + label + bytes([len(context)]) + context
        return expand(secret, info, length, algorithm)

    derived = expand_label(secret, label, digest(b"").digest(), algorithm.digest_size)
    return expand_label(derived, b"exporter", digest(context).digest(), length)


class Direction:
    """Sections 5 to 7: seals or opens the blocks of one direction."""

    def __init__(self, secret: bytes) -> None:
        self._begin(secret)

    def _begin(self, secret: bytes) -> None:
        self.secret, self.number = secret, 0
        self.private = expand(secret, b"phalanx private", 16)
        self.safe = expand(secret, b"phalanx safe", 16)
        self.iv = expand(secret, b"phalanx iv", 12)

    def nonce(self) -> bytes:
        """Of the next block, which is counted."""
        if self.number == BLOCKS_PER_SECRET:
            self._begin(expand(self.secret, b"phalanx next", 32))
        number, self.number = self.number, self.number + 1
        return (int.from_bytes(self.iv, "big") ^ number).to_bytes(12, "big")

    def seal(self, level: int, payload: bytes) -> bytes:
        """A block."""
        head, nonce = struct.pack("<I", len(payload) << 8 | 0x58 + level), self.nonce()
        if level == PRIVATE:
            return head + AESGCM(self.private).encrypt(nonce, payload, head)
        tag = mac(self.safe, nonce + bytes(4), head + payload) if level == SAFE else b""
        return head + payload + tag

    def open(self, head: bytes, rest: bytes) -> bytes:
        """The payload of a block, of which `rest` is what follows the head."""
        level, nonce = head[0] - 0x58, self.nonce()
        if level == PRIVATE:
            return AESGCM(self.private).decrypt(nonce, rest, head)
        if level == SAFE:
            rest, tag = rest[:-TAG], rest[-TAG:]
            if tag != mac(self.safe, nonce + bytes(4), head + rest):
                raise Refused("a safe block was altered")
        return rest


def length_of(head: bytes, least: int = CLEAR) -> tuple[int, int]:
    """Section 6: the level of a block and the bytes behind its head."""
    level, length = head[0] - 0x58, int.from_bytes(head[1:], "little")
    if level not in range(4) or level < least or (level >= SAFE and length > LONGEST_PROTECTED):
        raise Refused(f"no block of this link: {head.hex()}")
    return level, length + (TAG if level >= SAFE else 0)


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
        head = exactly(self.connection, 4)
        level, length = length_of(head, self.levels[0])
        return level, self.receives.open(head, exactly(self.connection, length))

    def send(self, header: bytes, body: bytes = b"", level: int | None = None) -> None:
        """A frame, at the base level unless another is given. Without blocks where all levels are clear."""
        frame = struct.pack("<IIQ", len(header), 0, len(body)) + header + body
        if not any(self.levels):
            self.connection.sendall(frame)
            return
        level = self.levels[0] if level is None else level
        for at in range(0, len(frame), LONGEST_PROTECTED):
            self.send_block(level, frame[at : at + LONGEST_PROTECTED])

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
        protocol = ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT
        name = None if server else f"{role}.role.phalanx"
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder, "keys")
            self._tls = member.context(protocol, keys).wrap_bio(self._arrived, self._leaves, server, name)
            self._drive(self._tls.do_handshake)
            secrets = [line.split()[2] for line in keys.read_text().splitlines() if "EXPORTER_SECRET" in line]
        self._secret = bytes.fromhex(secrets[0])

    def say(self, message: bytes) -> None:
        self._drive(lambda: self._tls.write(message))

    def hear(self, count: int) -> bytes:
        message = bytearray()

        def read() -> bytes:
            return self._tls.read(count - len(message))

        while len(message) < count:
            message += self._drive(read)
        if self._tls.pending():
            raise Refused("a record is longer than its message")
        return bytes(message)

    def names(self) -> set[str]:
        """The DNS names in the certificate of the other end."""
        names: Any = (self._tls.getpeercert() or {}).get("subjectAltName", ())
        return {str(name) for kind, name in names if kind == "DNS"}

    def directions(self, levels: Levels, bound: bytes) -> tuple[Direction, Direction]:
        """Section 5: of the client and of the server."""
        cipher = self._tls.cipher()
        assert cipher is not None
        context = bytes(levels) + bound
        both = tls_exporter(self._secret, cipher[0], b"EXPORTER-phalanx-link", context, 64)
        return Direction(both[:32]), Direction(both[32:])

    def _drive(self, act: Callable[[], T]) -> T:
        """Act, with a further record as long as one is missing. What TLS has to say leaves, an alert too."""
        while True:
            try:
                return act()
            except ssl.SSLWantReadError:
                pass
            finally:
                self.connection.sendall(self._leaves.read())
            head = exactly(self.connection, 5)
            self._arrived.write(head + exactly(self.connection, int.from_bytes(head[3:], "big")))


def is_offered(levels: Levels, offer: bytes) -> bool:
    """Section 4: whether the server accepts each effective level."""
    return all(offered >> level & 1 for level, offered in zip(effective(levels), offer[:3], strict=True))


def connect(connection: socket.socket, member: Member, begins: bytes, levels: Levels, ahead: bool = False) -> Link:
    """Section 4, the client, which wants these levels. `ahead`: it says so before it hears the offer."""
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
    of_client, of_server = tls.directions(effective(levels), bound)
    return Link(connection, effective(levels), of_client, of_server)


def accept(connection: socket.socket, member: Member, serves: bytes, offer: bytes, role: str = "user") -> Link:
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
    of_client, of_server = tls.directions(effective(levels), serves)
    return Link(connection, effective(levels), of_server, of_client)
