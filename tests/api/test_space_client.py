"""What a client of a space may rely on when something comes between: Ctrl-C, a fork, a server that means no good."""

from __future__ import annotations

import _thread
import asyncio
import fcntl
import os
import re
import signal
import socket
import struct
import termios
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.conftest import Script
from conftest import Eventually
from phalanx import _native

from laboratory import identities
from laboratory.processes import until

# What a frame begins with: length of the header, nothing, length of the body.
PREFIX = struct.Struct("<IIQ")
OPENED, DONE, GOT, WATCHING, EVENT = 0, 2, 3, 5, 6
GET, CANCEL = 2, 3


@dataclass
class Odd:
    """Cannot be made without an argument."""

    a: int

    def __new__(cls, a: int) -> Odd:
        return super().__new__(cls)


def interrupt_and_put(space: px.Space, begins: threading.Event) -> None:
    # The flag is set in this very thread, before the tuple comes: the main thread, which waits, hears of it afterwards.
    if begins.wait(10):
        signal.raise_signal(signal.SIGINT)
        space.out("x", 1)


def test_ctrl_c_that_meets_the_tuple_takes_nothing(space: px.Space, eventually: Eventually) -> None:
    for _ in range(20):
        begins = threading.Event()
        thread = threading.Thread(target=interrupt_and_put, args=(space, begins))
        thread.start()
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012  nothing may be interrupted before
            begins.set()
            space.in_("x", int, timeout=10)
        thread.join()
        assert eventually(lambda: space.inp("x", int)) == ("x", 1)
        assert space.info().unacknowledged == 0


def test_ctrl_c_before_what_is_there_is_taken_takes_nothing(space: px.Space, eventually: Eventually) -> None:
    space.out_many([("x", number) for number in range(3)])
    engine: Any = space._engine
    for take in (
        partial(engine.get, ("x", int), True, (), None, None),
        partial(engine.get_many, ("x", int), True, (), None, None, 100, None),
        partial(engine.wait, ("x", int), True, (), None, None, None),
    ):
        # One behind the other without Python code between, which would hear of the signal before the core does.
        with pytest.raises(KeyboardInterrupt):
            list(map(partial.__call__, [partial(_thread.interrupt_main), take]))
        eventually(lambda: space.count("x", int) == 3)


def test_a_fork_that_ends_leaves_the_connection_to_its_parent(space: px.Space) -> None:
    space.out("before", 1)
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(px.SpaceError, match="fork"):
                space.out("never")
            space._engine = None  # type: ignore[assignment]
            del space
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert space.in_("before", int, timeout=30) == ("before", 1)


def test_what_a_killed_process_has_taken_is_gone(script: Script, eventually: Eventually) -> None:
    with px.Space() as space:
        space.out_many([("x", number) for number in range(20)])
        address = space.serve()
        for watches in (False, True):  # bytes that the process has not read when it ends
            process = script(
                """
                import os, signal, sys
                import phalanx as px
                space = px.Space(sys.argv[1])
                space.out("hello")
                if sys.argv[2] == "True":
                    events = space.notify("y", int)
                for number in range(5):
                    print("took", space.inp("x", int)[1], flush=True)
                space.inp("x", int)
                os.kill(os.getpid(), signal.SIGKILL)
                """,
                address,
                str(watches),
            )
            space.in_("hello", timeout=30)
            while process.code is None:
                space.out("y", 0)
                time.sleep(0.001)
        eventually(lambda: not space.info().unacknowledged, what="the end of the process at the space")
        assert space.count("x", int) == 20 - 2 * 6


def test_a_class_with_a_new_of_its_own_comes_back(space: px.Space) -> None:
    space.out("odd", Odd(7))
    assert space.in_("odd", Odd)[1].a == 7


def test_events_around_one_that_cannot_be_decoded_all_come(tmp_path: Path) -> None:
    with (
        px.Space(objects=True) as owner,
        px.Space(owner.serve(f"unix:{tmp_path / 's'}")) as reached,
        reached.notify("x", px.ANY) as events,
    ):
        for value in (1, 2, {3}, {"a": 4}, 4, {5}, {6}, 7):
            owner.out("x", value)
        seen: list[Any] = []
        for _ in range(8):
            try:
                event = events.next(timeout=30)
                assert event is not None
                seen.append(event.fields[1])
            except px.SpaceError:
                seen.append("bad")
        assert seen == [1, 2, "bad", "bad", 4, "bad", "bad", 7]


def test_a_space_that_is_not_secure_is_refused_to_who_wants_it_so(tmp_path: Path) -> None:
    with px.Space() as owner:
        address = owner.serve(f"unix:{tmp_path / 's'}")
        with pytest.raises(px.PolicyError, match="secure"):
            px.Space(address, secure=True)
    with px.Space(secure=True) as owner, px.Space(owner.serve(f"unix:{tmp_path / 's'}"), secure=True) as reached:
        reached.out("x")
        assert owner.inp("x") == ("x",)


def test_a_space_that_is_there_with_other_options_is_refused_to_who_names_them(tmp_path: Path) -> None:
    lines: dict[str, Any] = {"order": "lifo", "lease": 7.5, "most_tuples": 5, "indexes": [(0, 1)]}
    with px.Space() as owner, px.Space(**lines) as other:
        plain = owner.serve(f"unix:{tmp_path / 'plain'}")
        lined = other.serve(f"unix:{tmp_path / 'lined'}")
        for name, value in lines.items():
            with pytest.raises(px.SpaceError, match=f"not made with {name}=.*: it has {name}="):
                px.Space(plain, **{name: value})
        with pytest.raises(px.SpaceError, match="not made with order='any': it has order='lifo'"):
            px.Space(lined, order="any")
        with pytest.raises(px.SpaceError, match=r"/lined/space is there already, and was not made with lease=7"):
            px.Space([lined, plain], lease=7)
        # What is not named is taken as it is, and a server may have lower limits than were asked for.
        same: tuple[dict[str, Any], ...] = ({}, lines, {"lease": 15 / 2, "most_tuples": 6})
        for options in same:
            with px.Space(lined, **options) as reached:
                reached.out("x")
                assert owner.inp("x") is None
                assert other.inp("x") == ("x",)


def test_what_was_waited_for_in_vain_is_named_in_few_words(tmp_path: Path) -> None:
    with px.Space() as owner, px.Space(owner.serve(f"unix:{tmp_path / 's'}")) as reached:
        for space, name in ((owner, "Space()"), (reached, f"Space('{reached.name}')")):
            future = space.in_future("job", int, timeout=0.01)
            long = space.rd_future("job", "x" * 100_000, timeout=0.01)
            with pytest.raises(px.SpaceTimeoutError, match=re.escape(f"('job', int, px.ANY) came to {name} in time")):
                space.in_("job", int, px.ANY, timeout=0.01)
            with pytest.raises(px.SpaceTimeoutError, match=r"no tuple like \('job', int\) came"):
                future.result(timeout=30)
            with pytest.raises(px.SpaceTimeoutError, match=r"(?m)^.{1,500}$"):
                long.result(timeout=30)


def test_an_event_that_was_waited_for_in_vain_is_named() -> None:
    told = r"no tuple like \('job',\) came to Space\(\) in time"
    with px.Space() as space, space.notify("job") as events, pytest.raises(px.SpaceTimeoutError, match=told):
        events.next(timeout=0.01)


def test_a_formal_with_elements_is_refused_in_words_about_templates() -> None:
    with px.Space() as space:
        for formal in (list[int], dict[str, int], tuple[int, ...]):
            with pytest.raises(px.SpaceError, match=r"\[int.*is no formal.*px.ANY|\[str, int\] is no formal.*px.ANY"):
                space.rdp("a", formal)


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    file = tmp_path / "user.pem"
    identities.write(file, _native.issue_member(_native.create_grid(), "user", "ada"))
    return file


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (b"", "hung up: no {server}, or one that refused"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no {server}: it does not speak as one does"),
    ],
)
def test_what_listens_at_a_wrong_port_is_said_to_be_something_else(identity: Path, answer: bytes, what: str) -> None:
    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                if answer:
                    connection.recv(1 << 16)
                    connection.sendall(answer)
                    while connection.recv(1 << 16):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(
            px.SpaceError, match=f"{address}: what listens there {what.format(server='server of spaces')}"
        ):
            px.Space(f"{address}/jobs", identity=identity)
        with pytest.raises(px.RecruitError, match=f"{address}: what listens there {what.format(server='executor')}"):
            px.Manager(address, identity=identity)
        listener.shutdown(socket.SHUT_RDWR)


def test_others_run_while_a_query_is_asked_of_many_tuples() -> None:
    counted, ends = [0], threading.Event()

    def count() -> None:
        while not ends.is_set():
            counted[0] += 1

    with px.Space() as space:
        space.out_many([("x", number) for number in range(300_000)])
        thread = threading.Thread(target=count)
        thread.start()
        engine: Any = space._engine
        query = px.where(1) < 0
        before = counted[0]
        found = engine.get(("x", int), False, (), query, None)
        after = counted[0]
        ends.set()
        thread.join()
        assert found is None
        assert after > before


class Hostile:
    """A server that says what a test wants."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.connection: socket.socket | None = None

    def accept(self) -> None:
        self.connection, _ = self._listener.accept()
        self._exactly(23)
        header, _ = self.receive()
        assert header[0] == 0, "it opens the space"
        version = px.__version__.encode()
        self.send(bytes([OPENED, header[1], len(version)]) + version + bytes([0, 0, 0, 0xFF, 0xFF, 0x7F, 0, 7]))

    def _exactly(self, count: int) -> bytes:
        assert self.connection is not None
        return self.connection.recv(count, socket.MSG_WAITALL)

    def receive(self) -> tuple[bytes, bytes]:
        header, _, body = PREFIX.unpack(self._exactly(16))
        return self._exactly(header), self._exactly(body) if body else b""

    def send(self, header: bytes, body: bytes = b"") -> None:
        assert self.connection is not None
        self.connection.sendall(PREFIX.pack(len(header), 0, len(body)) + header + body)

    def close(self) -> None:
        self._listener.close()
        if self.connection is not None:
            self.connection.close()


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Hostile]:
    server = Hostile(tmp_path / "h")
    yield server
    server.close()


def test_a_tuple_nested_without_end_is_an_error(hostile: Hostile) -> None:
    nested = b"\x01" + b"\x09\x01" * 1_000_000 + b"\x00"

    def serve() -> None:
        hostile.accept()
        header, _ = hostile.receive()
        hostile.send(bytes([GOT, header[1], 1, 0]), nested)
        while header[0] != GET:
            header, _ = hostile.receive()
        header, _ = hostile.receive()
        hostile.send(bytes([GOT, header[1], 1, 0]), nested)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with px.Space(f"unix:{hostile.path}/todo") as space:
        with pytest.raises((px.SpaceError, ValueError)):
            space.rdp("x")
        with pytest.raises((px.SpaceError, ValueError)):
            list(space.rd_all("x"))
    thread.join(10)


def test_a_server_that_is_slow_to_cancel_does_not_end_the_connection(hostile: Hostile) -> None:
    heard: list[int] = []
    goes_on = threading.Event()

    def serve() -> None:
        hostile.accept()
        while len(heard) < 10:
            heard.append(hostile.receive()[0][0])
        goes_on.wait(20)
        header, _ = hostile.receive()
        hostile.send(bytes([GOT, header[1], 0, 0]))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    async def give_up() -> None:
        tasks = [asyncio.ensure_future(space.ain("x", int)) for _ in range(5)]
        while heard.count(GET) < 5:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    with px.Space(f"unix:{hostile.path}/todo") as space:
        asyncio.run(give_up())
        goes_on.set()
        assert space.inp("x", int) is None
    thread.join(10)
    assert heard.count(CANCEL) == 5


def in_a_future(space: px.Space) -> tuple[Any, ...]:
    return space.in_future("x").result(10)


def in_a_task(space: px.Space) -> tuple[Any, ...]:
    return asyncio.run(space.ain("x"))


def in_a_wait(space: px.Space) -> tuple[Any, ...]:
    return space.in_("x", timeout=10)


@pytest.mark.parametrize("take", [in_a_wait, in_a_future, in_a_task])
def test_a_tuple_is_returned_when_the_word_of_it_has_left(hostile: Hostile, take: Any) -> None:
    """Somebody who is killed then does not get it back into the space, although much is before the word of it."""
    returned, found = threading.Event(), []
    in_time: list[bool] = []

    def serve() -> None:
        hostile.accept()
        header, _ = hostile.receive()
        putting.start()
        assert hostile.connection is not None
        # The socket is full when so much waits in it, and far more is to come.
        until(lambda: unread(hostile.connection) > 100_000, timeout=30, what="a full socket")
        hostile.send(bytes([GOT, header[1], 1, 0]), b"\x01\x06\x01x")
        in_time.append(returned.wait(0.2))
        while hostile.connection.recv(1 << 20):
            pass

    def put() -> None:
        with suppress(px.SpaceError):
            space.out("y", bytes(1_900_000))

    def run() -> None:
        found.append(take(space))
        returned.set()

    serving, putting, taking = (threading.Thread(target=it, daemon=True) for it in (serve, put, run))
    serving.start()
    with px.Space(f"unix:{hostile.path}/todo") as space:
        taking.start()
        taking.join(20)
    serving.join(10)
    putting.join(10)
    assert found == [("x",)]
    assert in_time == [False]


def unread(connection: socket.socket | None) -> int:
    assert connection is not None
    count = array("i", [0])
    fcntl.ioctl(connection, termios.FIONREAD, count)
    return count[0]
