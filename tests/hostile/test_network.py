"""A task reaches no address beside those that the machine's owner leaves open, whatever it tries."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import cloudpickle
import phalanx as px
import pytest
from api.executors import PHALANX, Executors
from hostile.test_accounts import FIRST, opening
from skips import require

cloudpickle.register_pickle_by_value(sys.modules[__name__])
REFUSED = "PermissionError"


class Listener:
    """What answers connections with one word, and counts them."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.count = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                self.count += 1
                with connection, suppress(OSError):
                    connection.sendall(b"hello")


def outcome(attack: object) -> str:
    try:
        return str(attack())  # type: ignore[operator]
    except OSError as error:
        return type(error).__name__


def plainly(port: int, timeout: float | None = None) -> str:
    with socket.socket() as one:
        one.settimeout(timeout)
        one.connect(("127.0.0.1", port))
        return one.recv(10).decode()


def later(port: int) -> str:
    """As asyncio connects."""
    with socket.socket() as one:
        one.setblocking(False)
        with suppress(BlockingIOError):
            one.connect(("127.0.0.1", port))
        select.select([], [one], [], 30)
        if error := one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))
        select.select([one], [], [], 30)
        return one.recv(10).decode()


def with_data(port: int) -> str:
    with socket.socket() as one:
        one.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", port))
        return one.recv(10).decode()


def with_message(port: int) -> str:
    with socket.socket() as one:
        one.sendmsg([b"x"], [], socket.MSG_FASTOPEN, ("127.0.0.1", port))
        return one.recv(10).decode()


def mapped(port: int) -> str:
    with socket.socket(socket.AF_INET6) as one:
        one.connect(("::ffff:127.0.0.1", port))
        return one.recv(10).decode()


def in_child(port: int) -> str:
    """In another process, of another session."""
    program = f"import socket; print(socket.create_connection(('127.0.0.1', {port})).recv(10).decode(), end='')"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=False)
    return done.stdout or done.stderr.strip().splitlines()[-1].partition(":")[0]


def of(family: int, kind: int, protocol: int = 0) -> str:
    socket.socket(family, kind, protocol).close()
    return "made"


def reach(port: int) -> dict[str, str]:
    """What came of each way to a port of this machine."""
    ways = {"plainly": plainly, "later": later, "mapped": mapped, "in a child": in_child}
    ways |= {"with data": with_data, "with a message": with_message, "in time": lambda port: plainly(port, 30)}
    return {name: outcome(lambda way=way: way(port)) for name, way in ways.items()}


def other_sockets() -> dict[str, str]:
    """Sockets that send without being connected, or past the system's TCP."""
    raw, packet, smc, mptcp, sctp = socket.SOCK_RAW, getattr(socket, "AF_PACKET", 17), 43, 262, 132
    tries = {
        "datagrams": (socket.AF_INET, socket.SOCK_DGRAM),
        "datagrams of IPv6": (socket.AF_INET6, socket.SOCK_DGRAM),
        "raw": (socket.AF_INET, raw),
        "packets": (packet, raw),
        "netlink": (socket.AF_NETLINK, raw),
        "datagrams of unix": (socket.AF_UNIX, socket.SOCK_DGRAM),
        "virtual machines": (socket.AF_VSOCK, socket.SOCK_STREAM),
        "shared memory": (smc, socket.SOCK_STREAM),
        "several paths": (socket.AF_INET, socket.SOCK_STREAM, mptcp),
        "SCTP": (socket.AF_INET, socket.SOCK_STREAM, sctp),
        "SCTP in order": (socket.AF_INET, socket.SOCK_SEQPACKET, sctp),
    }
    return {name: outcome(lambda words=words: of(*words)) for name, words in tries.items()}


def exchange(allowed: int, forbidden: int, rounds: int) -> None:
    """Exchanges the address, and the socket, while the system looks at them."""
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.create_string_buffer(16)
    texts = [
        socket.AF_INET.to_bytes(2, sys.byteorder) + port.to_bytes(2, "big") + socket.inet_aton("127.0.0.1") + bytes(8)
        for port in (allowed, forbidden)
    ]
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            for text in texts:
                ctypes.memmove(address, text, 16)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(rounds):
            with socket.socket() as one:
                libc.connect(one.fileno(), address, 16)
            here = Path("here").absolute()
            with socket.socket(socket.AF_UNIX) as one, socket.socket() as other, suppress(OSError):
                number = os.dup(one.fileno())
                exchanging = threading.Thread(target=os.dup2, args=(other.fileno(), number))
                exchanging.start()
                unix = socket.AF_UNIX.to_bytes(2, sys.byteorder) + bytes(here)[:100] + b"\0"
                libc.connect(number, unix, len(unix))
                exchanging.join()
                os.close(number)
    finally:
        is_over.set()
        swapping.join()


def listen() -> str:
    with socket.create_server(("127.0.0.1", 0)):
        return "listens"


def within() -> list[str]:
    """Processes of one program reach each other: by a path, and by a name that is none, as multiprocessing does."""
    found = []
    for name in ("own", f"\0phalanx-within-{os.getpid()}"):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
            server.listen()
            child = os.fork()
            if child == 0:
                with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                    client.connect(name)
                    client.sendall(b"hello")
                os._exit(0)
            server.settimeout(30)
            with server.accept()[0] as connection:
                found.append(connection.recv(10).decode())
            os.waitpid(child, 0)
    return found


def connect_abstract(name: str) -> str:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(f"\0{name}")
        return "connected"


def connect_path(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
        return "connected"


@pytest.fixture(scope="module")
def open_to() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.socket.close()


@pytest.fixture
def closed_to() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.socket.close()


@pytest.fixture(params=["own account", "accounts"])
def grid(request: pytest.FixtureRequest, place: Path) -> Iterator[tuple[Executors, dict[str, str], list[str]]]:
    require("root")
    folder = Path(tempfile.mkdtemp(dir=place))
    folder.chmod(0o755)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    env, has_accounts = (
        {"TMPDIR": str(folder / "tmp"), "PHALANX_HOME": str(folder / "home")},
        "acc" in request.param[:3],
    )
    words = ["--accounts", f"{FIRST + 60}-{FIRST + 69}"] if has_accounts else ["--accept", "ada"]
    env["PHALANX_ALLOW_ROOT"] = "" if has_accounts else "1"
    with Executors(folder, opening(folder)) as grid:
        yield grid, env, words


def start(grid: tuple[Executors, dict[str, str], list[str]], name: str, network: str) -> str:
    executors, env, words = grid
    # Each executor has accounts of its own.
    number = len(executors.started)
    words = [words[0], f"{FIRST + 60 + 2 * number}-{FIRST + 61 + 2 * number}"] if words[0] == "--accounts" else words
    return executors.start(name, *words, "--network", network, env=env)


def manager(grid: tuple[Executors, dict[str, str], list[str]], address: str) -> px.Manager:
    return px.Manager(address, identity=grid[0].identity, contract=px.ParDegree(1))


Grid = tuple[Executors, dict[str, str], list[str]]


def test_without_a_network_a_task_reaches_nothing(grid: Grid, closed_to: Listener) -> None:
    with manager(grid, start(grid, "none", "none")) as programs:
        reached = programs.submit(reach, closed_to.port).result(60)
        assert {name for name, came in reached.items() if came not in (REFUSED, "OSError")} == set(), reached
        assert set(programs.submit(other_sockets).result(60).values()) == {REFUSED}
        assert programs.submit(within).result(60) == ["hello", "hello"]
        assert programs.submit(len, bytes(8 << 20)).result(60) == 8 << 20, "the links of the program stay"
        with tempfile.TemporaryDirectory() as own, socket.socket(socket.AF_UNIX) as service:
            service.bind(f"{own}/bus")
            service.listen()
            came = programs.submit(outcome, lambda: connect_path(f"{own}/bus")).result(60)
            assert came == REFUSED, "a service of the owner's"
    assert closed_to.count == 0


def test_named_hosts_are_all_that_a_task_reaches(grid: Grid, open_to: Listener, closed_to: Listener) -> None:
    with manager(grid, start(grid, "hosts", f"127.0.0.1:{open_to.port}")) as programs:
        reached = programs.submit(reach, open_to.port).result(60)
        assert {name for name, came in reached.items() if came != "hello"} == {"with data", "with a message"}, reached
        reached = programs.submit(reach, closed_to.port).result(60)
        assert {name for name, came in reached.items() if came not in (REFUSED, "OSError")} == set(), reached
        assert set(programs.submit(other_sockets).result(60).values()) == {REFUSED}
        assert programs.submit(outcome, listen).result(60) == REFUSED
        assert programs.submit(within).result(60) == ["hello", "hello"]
        programs.submit(exchange, open_to.port, closed_to.port, 300).result(60)
        assert programs.submit(outcome, lambda: plainly(1)).result(60) == REFUSED
    assert closed_to.count == 0


def test_a_name_that_is_no_path_leads_to_the_own_program_only(grid: Grid, open_to: Listener) -> None:
    name = f"phalanx-{os.getpid()}-test"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        with manager(grid, start(grid, "abstract", f"127.0.0.1:{open_to.port}")) as programs:
            came = programs.submit(outcome, lambda: connect_abstract(name)).result(60)
            assert came == REFUSED
            assert programs.submit(within).result(60) == ["hello", "hello"], "its own names stay"


def test_a_service_that_all_accounts_may_use_is_not_reached(grid: Grid, open_to: Listener) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, socket.socket(socket.AF_UNIX) as service:
        Path(folder).chmod(0o755)
        service.bind(f"{folder}/bus")
        service.listen()
        Path(folder, "bus").chmod(0o777)
        with manager(grid, start(grid, "service", f"127.0.0.1:{open_to.port}")) as programs:
            assert programs.submit(outcome, lambda: connect_path(f"{folder}/bus")).result(60) == REFUSED
            assert programs.submit(within).result(60) == ["hello", "hello"], "its own sockets stay"


def connect_while_the_flag_is_taken_back(attempts: int) -> list[str]:
    """Connects to a listener that takes nobody in, while another thread makes the sockets wait again and again."""
    import fcntl

    ended = threading.Event()
    with tempfile.TemporaryDirectory(dir=".") as folder, socket.socket(socket.AF_UNIX) as server:
        path = f"{folder}/full"
        server.bind(path)
        server.listen(0)
        waiting = []
        for _ in range(9):
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)
            outcome(lambda: waiting[-1].connect(path))
        found = []
        for _ in range(attempts):
            with socket.socket(socket.AF_UNIX) as one:
                ended.clear()
                number = one.fileno()

                def spin(number: int = number) -> None:
                    while not ended.is_set():
                        fcntl.fcntl(number, fcntl.F_SETFL, 0)

                spinning = threading.Thread(target=spin)
                spinning.start()
                found.append(str(outcome(lambda: one.connect(path))))
                ended.set()
                spinning.join()
        for one in waiting:
            one.close()
    return found


def test_a_socket_that_waits_again_does_not_keep_the_keeper(grid: Grid, open_to: Listener) -> None:
    with manager(grid, start(grid, "waiting", f"127.0.0.1:{open_to.port}")) as programs:
        assert len(programs.submit(connect_while_the_flag_is_taken_back, 5).result(100)) == 5


RANKS = """
    from phalanx import bsp

    with bsp.begin():
        bsp.send((bsp.pid() + 1) % bsp.nprocs(), bsp.pid())
        bsp.sync()
        (message,) = bsp.messages()
        print(f"{bsp.pid()} heard {message.payload}", flush=True)
"""


def test_ranks_of_several_machines_reach_each_other_without_a_network(grid: Grid, tmp_path: Path) -> None:
    program = tmp_path / "ring.py"
    program.write_text(dedent(RANKS))
    hosts = ",".join(start(grid, name, "none") for name in ("one", "two"))
    command = [PHALANX, "bsprun", "-n", "4", "--hosts", hosts, "--identity", str(grid[0].identity), "--no-prefix"]
    done = subprocess.run([*command, str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (
        0,
        ["0 heard 3", "1 heard 0", "2 heard 1", "3 heard 2"],
    ), done.stderr
