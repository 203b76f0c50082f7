"""The second implementation talks to the real one: it dials a server of spaces, and a real client dials it."""

from __future__ import annotations

import hashlib
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import phalanx as px
import pytest
from api.executors import Executors
from phalanx import _native
from second.link import (
    AUTHENTICATED,
    CLEAR,
    FILES,
    NEWS,
    PRIVATE,
    SAFE,
    SPACE,
    Levels,
    Link,
    Member,
    Refused,
    Tls,
    accept,
    connect,
    effective,
    preamble,
)
from second.space import COUNT, GET, OPEN, OUT, Client, number, serve, template_of, tuple_of

from laboratory.processes import until

#: Base, data and code level. The mixed ones need a secure space, whose tuples are data.
EACH = [(level, level, level) for level in (CLEAR, AUTHENTICATED, SAFE, PRIVATE)]
MIXED = [(AUTHENTICATED, PRIVATE, PRIVATE), (SAFE, PRIVATE, PRIVATE), (CLEAR, PRIVATE, SAFE), (SAFE, CLEAR, CLEAR)]
ALL_PRIVATE = EACH[PRIVATE]
NAMES = ("clear", "authenticated", "safe", "private")
SPACES = preamble(SPACE, b"\1" * 16)
PATIENCE = 30.0
MAJOR, MINOR, PATCH = map(int, re.findall(r"\d+", px.__version__)[:3])
#: What the second implementation says that it is: it works together with the real one.
NEXT_PATCH = f"{MAJOR}.{MINOR}.{PATCH + 1}"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executors]:
    with Executors(tmp_path_factory.mktemp("grid")) as executors:
        yield executors


@pytest.fixture(scope="module")
def server(grid: Executors) -> str:
    """An executor that takes every level."""
    return grid.start("real", "--trusted", "127.0.0.0/8", interpreters=1)


@pytest.fixture(scope="module")
def strict(grid: Executors) -> str:
    """An executor that takes what its owner said nothing about."""
    return grid.start("strict", interpreters=1)


def reach(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


@contextmanager
def dialled(grid: Executors, address: str, levels: Levels, ahead: bool = False, by_tls: bool = False) -> Iterator[Link]:
    with reach(address) as connection:
        yield connect(connection, Member(grid.identity), SPACES, levels, ahead, by_tls)


def says(grid: Executors, words: str) -> None:
    """Wait until the executor's output has these words."""
    [process] = grid.started[:1]
    until(lambda: words in process.stderr() + process.stdout(), timeout=PATIENCE, what=words)


def has_ended(connection: socket.socket) -> bool:
    """Whether the other end hangs up, whatever it still sends before."""
    with suppress(ConnectionError):
        while connection.recv(1 << 16):
            pass
    return True


@pytest.mark.parametrize("ahead", [False, True], ids=["waits", "ahead"])
@pytest.mark.parametrize("levels", EACH + MIXED, ids=str)
def test_it_dials_a_real_server(grid: Executors, server: str, levels: Levels, ahead: bool) -> None:
    is_mixed = len(set(effective(levels))) > 1
    name = f"{server}/dialled-{'-'.join(map(str, levels))}-{ahead}"
    with px.Space(name, secure=is_mixed) as real, dialled(grid, server, levels, ahead) as link:
        client = Client(link, name.rpartition("/")[2])
        assert client.secure == is_mixed
        client.out("from the second", 42)
        assert real.inp("from the second", int) == ("from the second", 42)
        real.out("from the first", -7)
        assert client.take("from the first", None) == tuple_of("from the first", -7)
        long = "x" * 600_000  # of several blocks
        real.out(long, 1)
        assert client.take(None, 1) == tuple_of(long, 1)


def test_a_private_link_is_one_of_tls(grid: Executors, server: str) -> None:
    """Python's library of TLS alone reads and writes it."""
    with px.Space(f"{server}/tls") as real, dialled(grid, server, ALL_PRIVATE, by_tls=True) as link:
        client = Client(link, "tls")
        client.out("from a library of TLS", 1)
        assert real.inp("from a library of TLS", int) == ("from a library of TLS", 1)
        real.out("x" * 600_000, 1)
        assert client.take(None, 1) == tuple_of("x" * 600_000, 1)


@contextmanager
def listening(
    grid: Executors, offer: bytes, secure: bool = False, by_tls: bool = False, version: str = NEXT_PATCH
) -> Iterator[tuple[str, Future[list[tuple[int, int, bytes]]]]]:
    """The second implementation as a server of one client: its address, and what it hears."""
    member = Member(grid.issue("executor", "second"))
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        listener.settimeout(PATIENCE)

        def work() -> list[tuple[int, int, bytes]]:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(PATIENCE)
                return serve(accept(connection, member, SPACES, offer, by_tls=by_tls), secure, version=version)

        host, port = listener.getsockname()
        yield f"{host}:{port}/jobs", threads.submit(work)


def policy(tmp_path: Path, levels: Levels) -> px.Rules:
    """Rules by which a client wants these levels everywhere."""
    marks = zip(("none", "data", "code"), levels, strict=True)
    rule = '[[rule]]\nnetwork = "any"\nmark = "{}"\npreferred = "{}"\n'
    path = tmp_path / "rules.toml"
    path.write_text("".join(rule.format(mark, NAMES[level]) for mark, level in marks))
    return px.Rules(path)


@pytest.mark.parametrize("levels", EACH + MIXED[:3], ids=str)
def test_a_real_client_dials_it(grid: Executors, tmp_path: Path, levels: Levels) -> None:
    secure = len(set(levels)) > 1
    with listening(grid, bytes([0b1111] * 3), secure) as (address, heard):
        with px.Space(address, identity=grid.identity, policy=policy(tmp_path, levels), secure=secure) as space:
            space.out("from the first", 42)
            assert space.count("from the first", int) == 1
            assert space.inp("from the first", int) == ("from the first", 42)
        arrived = heard.result(PATIENCE)
    base, data, _ = effective(levels)
    assert [kind for _, kind, _ in arrived[:4]] == [OPEN, OUT, COUNT, GET]
    assert arrived[1][2] == tuple_of("from the first", 42)
    assert {level for level, _, _ in arrived[1:]} == {data if secure else base}


def test_a_real_client_dials_a_library_of_tls(grid: Executors, tmp_path: Path) -> None:
    with listening(grid, bytes([0b1111] * 3), by_tls=True) as (address, heard):
        with px.Space(address, identity=grid.identity, policy=policy(tmp_path, ALL_PRIVATE)) as space:
            space.out("y" * 600_000, 42)
            assert space.inp(str, 42) == ("y" * 600_000, 42)
        assert {level for level, _, _ in heard.result(PATIENCE)} == {PRIVATE}


def test_a_real_client_takes_what_is_offered(grid: Executors, tmp_path: Path) -> None:
    with listening(grid, bytes([1 << PRIVATE] * 3)) as (address, heard):
        with px.Space(address, identity=grid.identity, policy=policy(tmp_path, (SAFE, SAFE, SAFE))) as space:
            space.out("raised", 1)
        assert {level for level, _, _ in heard.result(PATIENCE)} == {PRIVATE}


@pytest.mark.parametrize("levels", [ALL_PRIVATE, MIXED[0]], ids=str)
def test_an_end_goes_on_to_other_keys(grid: Executors, server: str, levels: Levels) -> None:
    name = f"updates-{levels[0]}"
    with px.Space(f"{server}/{name}", secure=levels != ALL_PRIVATE) as real, dialled(grid, server, levels) as link:
        client, traffic = Client(link, name), set[bytes]()
        for round_ in range(3):
            traffic.add(link.sends.traffic)
            client.out("under other keys", round_)
            assert real.inp("under other keys", int) == ("under other keys", round_)
            link.connection.sendall(link.sends.update())
        assert len(traffic) == 3


@pytest.mark.parametrize(
    ("version", "mend"),
    [
        (f"{MAJOR}.{MINOR + 1}.0", "upgrade phalanx here"),
        (f"{MAJOR + 1}.0.0", "upgrade phalanx here"),
        ("0.0.1", "upgrade phalanx at 127.0.0.1:"),
        (f"{NEXT_PATCH}-rc.1", "install the same version at both ends"),
    ],
)
def test_a_real_client_leaves_another_version_and_says_which_end_to_upgrade(
    grid: Executors, tmp_path: Path, version: str, mend: str
) -> None:
    with listening(grid, bytes([0b1111] * 3), version=version) as (address, heard):
        with pytest.raises(px.errors.SpaceError) as caught:
            px.Space(address, identity=grid.identity, policy=policy(tmp_path, ALL_PRIVATE)).count()
        assert f"runs phalanx {version}, this program phalanx {px.__version__}; {mend}" in str(caught.value)
        assert [kind for _, kind, _ in heard.result(PATIENCE)] == [OPEN]


def test_a_real_server_refuses_levels_that_it_does_not_offer(grid: Executors, strict: str) -> None:
    with pytest.raises(Refused, match="not offered"), dialled(grid, strict, (AUTHENTICATED, PRIVATE, PRIVATE)):
        pass
    with reach(strict) as connection:
        connection.sendall(SPACES)
        tls = Tls(connection, Member(grid.identity), server=False)
        tls.say(bytes([AUTHENTICATED] * 3) + hashlib.sha256(SPACES).digest())
        assert tls.hear(27)[:3] == bytes([1 << SAFE | 1 << PRIVATE] * 3)
        assert has_ended(connection)
    process = grid.started[-1]
    until(lambda: "wants authenticated" in process.stderr() + process.stdout(), timeout=PATIENCE, what="a refusal")


def test_a_real_server_refuses_a_preamble_that_was_changed(grid: Executors, server: str) -> None:
    """An attacker on the way turns a connection for spaces into one for files."""
    with reach(server) as connection:
        connection.sendall(preamble(FILES))
        tls = Tls(connection, Member(grid.identity), server=False)
        tls.say(bytes([PRIVATE] * 3) + hashlib.sha256(SPACES).digest())
        assert has_ended(connection)
    says(grid, "changed on the way")


def test_a_real_server_refuses_a_choice_with_bytes_behind_it(grid: Executors, server: str) -> None:
    with reach(server) as connection:
        connection.sendall(SPACES)
        tls = Tls(connection, Member(grid.identity), server=False)
        tls.say(bytes([PRIVATE] * 3) + hashlib.sha256(SPACES).digest() + b"\0")
        assert has_ended(connection)
    says(grid, "the peer's message is too long")


@pytest.mark.parametrize("levels", [ALL_PRIVATE, (SAFE, PRIVATE, PRIVATE)], ids=str)
def test_a_real_client_refuses_an_offer_with_bytes_before_its_end(
    grid: Executors, tmp_path: Path, levels: Levels
) -> None:
    with (
        listening(grid, bytes([0b1111] * 4)) as (address, _),
        pytest.raises(px.PhalanxError, match="the peer's message is too long"),
    ):
        px.Space(address, identity=grid.identity, policy=policy(tmp_path, levels)).count()


@pytest.mark.parametrize(
    "begins",
    [
        b"phlnx\x02" + SPACES[6:],
        preamble(NEWS + 1),
        preamble(0, b"\1"),
        preamble(SPACE, b"\1" * 15),
        preamble(9, bytes(15) + b"\1"),
        preamble(SPACE),
    ],
    ids=["version", "kind", "argument", "part of an argument", "rest of an argument", "no handshake over a network"],
)
def test_a_real_server_hangs_up_on_what_is_no_preamble(grid: Executors, server: str, begins: bytes) -> None:
    with reach(server) as connection:
        connection.sendall(begins)
        with pytest.raises((Refused, ConnectionError)):
            Tls(connection, Member(grid.identity), server=False)


def test_a_real_server_shows_nothing_to_who_is_no_member(grid: Executors, server: str, tmp_path: Path) -> None:
    with Executors(tmp_path) as strangers, reach(server) as connection:
        stranger = Member(strangers.identity)
        stranger.authority = Member(grid.identity).authority
        connection.sendall(SPACES)
        with pytest.raises((ssl.SSLError, Refused, ConnectionError)):
            Tls(connection, stranger, server=False).hear(3)


Attack = Callable[[Link, bytes], bytes]
ATTACKS: dict[str, Attack] = {
    "altered": lambda link, frame: flipped(link.sends.seal(SAFE, frame), -1),
    "length": lambda link, frame: flipped(link.sends.seal(SAFE, frame), 1) + bytes(8),
    "level": lambda link, frame: link.sends.seal(AUTHENTICATED, frame),
    "repeated": lambda link, frame: link.sends.seal(SAFE, frame) * 2,
    "dropped": lambda link, frame: [link.sends.seal(SAFE, b"x"), link.sends.seal(SAFE, frame)][1],
    "other direction": lambda link, frame: link.receives.seal(SAFE, frame),
    "too long": lambda link, frame: b"\x5a" + ((1 << 18) + 1).to_bytes(4, "little") + frame,
    "a record too long": lambda link, frame: b"\x17\3\3" + ((1 << 14) + 18).to_bytes(2, "big") + frame,
    "a record of nothing": lambda link, frame: b"\x17\3\3\0\x10" + frame,
    "an alert": lambda link, frame: link.sends.record(21, b"\1\0") + link.sends.seal(SAFE, frame),
    "asks for other keys": lambda link, frame: (
        link.sends.record(22, bytes([24, 0, 0, 1, 1])) + link.sends.go_on().seal(SAFE, frame)
    ),
    "other keys twice": lambda link, frame: link.sends.update() + link.sends.update() + link.sends.seal(SAFE, frame),
    "other keys within a frame": lambda link, frame: (
        link.sends.seal(SAFE, frame[:20]) + link.sends.update() + link.sends.seal(SAFE, frame[20:])
    ),
    "no level": lambda link, frame: b"\x5b\0\0\0\0" + frame,
    "two levels": lambda link, frame: link.sends.seal(SAFE, frame[:20]) + link.sends.seal(PRIVATE, frame[20:]),
}


def flipped(block: bytes, at: int) -> bytes:
    at %= len(block)
    return block[:at] + bytes([block[at] ^ 1]) + block[at + 1 :]


@pytest.mark.parametrize("name", ATTACKS)
def test_a_real_server_ends_a_link_that_is_attacked(grid: Executors, server: str, name: str) -> None:
    """Nothing of a frame is done whose blocks are not those that were sent."""
    called = f"attacked-{name.replace(' ', '-')}"
    with px.Space(f"{server}/{called}") as real, dialled(grid, server, (SAFE, PRIVATE, PRIVATE)) as link:
        Client(link, called).out("before", 1)
        body = tuple_of("attack", 1)
        header = number(OUT) + number(99) + b"\1" + bytes(6)
        frame = len(header).to_bytes(4, "little") + bytes(4) + len(body).to_bytes(8, "little") + header + body
        link.connection.sendall(ATTACKS[name](link, frame))
        assert has_ended(link.connection)
        assert real.count("before", int) == 1
        most = 1 if name == "repeated" else 0  # the first of two equal blocks is as it was sent
        assert real.count("attack", int) <= most


def test_a_client_that_makes_a_secure_space_is_not_talked_out_of_it(grid: Executors, tmp_path: Path) -> None:
    """An attacker who can write answers in the place of the server, for which an unprotected block needs no key."""
    levels = (AUTHENTICATED, PRIVATE, PRIVATE)
    with listening(grid, bytes([0b1111] * 3), secure=False) as (address, heard):
        with pytest.raises(px.errors.PolicyError, match="was not made with secure=True"):
            px.Space(address, identity=grid.identity, policy=policy(tmp_path, levels), secure=True)
        assert [(level, kind) for level, kind, _ in heard.result(PATIENCE)] == [(PRIVATE, OPEN)]


def test_templates_of_the_second_implementation_find(grid: Executors, server: str) -> None:
    assert template_of("a", None) == bytes.fromhex("02 00 060161 01 00".replace(" ", ""))
    with dialled(grid, server, ALL_PRIVATE) as link, px.Space(f"{server}/templates"):
        assert Client(link, "templates").take("nothing", None) == b""


HAS, REVOKED, RENEWED, DONE = range(4)


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def list_of(grid: Executors, earlier: str | None, count: int) -> str:
    rows = [("2026-01-02T03:04:05Z", "executor", f"labpc{number}", f"{number:064x}") for number in range(count)]
    return _native.revoke_members(grid._authority, "authority.pem", None, [earlier] if earlier else [], rows)


def test_it_tells_a_real_server_its_news_and_hears_those_of_it(tmp_path: Path) -> None:
    """Section 9: a list in pieces, in both directions."""
    nothing = hashlib.sha256(b"").digest()[:16]
    with Executors(tmp_path) as grid:
        address = grid.start("told", interpreters=1)
        first = list_of(grid, None, 1500)
        second = list_of(grid, first, 1600)

        def talk(number: int, text: str) -> str:
            """What the server tells an end with this list."""
            with reach(address) as connection:
                link = connect(connection, Member(grid.identity), preamble(NEWS), ALL_PRIVATE)
                link.send(bytes([HAS]) + varint(number) + nothing)
                heard, sent, said = "", 0, link.receive()[1]
                assert said[0] == HAS
                with suppress(ConnectionError):  # it refuses a forged list before it has heard that this was all
                    for at in range(0, len(text), 50_000):
                        piece = text[at : at + 50_000].encode()
                        sent += len(piece)
                        link.send(bytes([REVOKED]) + varint(number) + varint(len(text) - sent), piece)
                    link.send(bytes([DONE]))
                with suppress(Refused, ConnectionError):
                    while said[0] != DONE:
                        _, said, body = link.receive()
                        heard += body.decode()
                assert has_ended(connection)
                return heard

        assert talk(1, first) == ""
        assert talk(0, "") == first
        assert talk(2, second) == ""
        assert talk(1, "") == second
        assert talk(0, first) == second, "an older list replaces no newer one"
        assert talk(2, second.replace("labpc7", "labpc8")) == "", "a forged one is refused"
        assert talk(0, "") == second


def test_no_server_takes_news_from_a_stranger(grid: Executors, server: str, tmp_path: Path) -> None:
    with Executors(tmp_path) as others, reach(server) as connection, pytest.raises((Refused, ssl.SSLError, OSError)):
        connect(connection, Member(others.identity), preamble(NEWS), ALL_PRIVATE)
