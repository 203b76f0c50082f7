"""Executors without a hub: they announce themselves on the local network, and users find those of their grid."""

from __future__ import annotations

import re
import secrets
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from cluster.grid import Executor, Farm, Grid

from laboratory import namespaces
from laboratory.grid import PHALANX
from laboratory.lab import Host, Lab
from laboratory.processes import Process, freeze, until

PATIENCE = 60.0
GROUP, PORT = "224.0.0.251", 5353
SERVICE = ("_phalanx", "_tcp", "local")
A, PTR, TXT, SRV = 1, 12, 16, 33


def announced(grid: Grid, name: str, *options: str, identity: Path | None = None, interpreters: int = 1) -> Executor:
    """An executor that announces itself, on a new host."""
    host = grid.desk.lab.host(name)
    executor = grid.executor(host, identity=identity, interpreters=interpreters, options=["--lan", *options])
    until(lambda: "announced on the local network" in executor.process.stderr(), timeout=PATIENCE, what="--lan")
    return executor


def farm_of(grid: Grid, at_least: int, **options: object) -> Farm:
    """A farm program on the executors that it finds."""
    return Farm(grid, [], {"lan": at_least, "degree": None, **options})


def run(grid: Grid, program: str) -> str:
    """What a Python program of the user prints."""
    return grid.desk.run([sys.executable, "-c", program], env=grid.env, timeout=PATIENCE).stdout()


def name_of(*labels: str) -> bytes:
    """A name as DNS has it."""
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


def read_name(packet: bytes, at: int) -> tuple[list[str], int]:
    """A name without pointers, and where it ends."""
    labels = []
    while packet[at]:
        assert packet[at] < 64, "a pointer"
        labels.append(packet[at + 1 : at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    return labels, at + 1


def records(packet: bytes) -> list[tuple[tuple[str, ...], int, int, bytes]]:
    """The records of an answer: name, type, seconds that it is good for, and data. A second reader, of the standard."""
    _, _, questions, *counts = struct.unpack("!6H", packet[:12])
    at, found = 12, []
    for _ in range(questions):
        _, at = read_name(packet, at)
        at += 4
    for _ in range(sum(counts)):
        labels, at = read_name(packet, at)
        kind, _, lasts, length = struct.unpack("!HHIH", packet[at : at + 10])
        found.append(((*labels,), kind, lasts, packet[at + 10 : at + 10 + length]))
        at += 10 + length
    assert at == len(packet), "something follows"
    return found


def answer(number: int, *places: tuple[str, int, str]) -> bytes:
    """An answer to a question of this number that names instances, ports and addresses."""
    body = b""
    for instance, port, address in places:
        host = name_of("host", "local")
        place = struct.pack("!3H", 0, 0, port) + host
        for owner, kind, data in (
            (name_of(*SERVICE), PTR, name_of(instance, *SERVICE)),
            (name_of(instance, *SERVICE), SRV, place),
            (host, A, socket.inet_aton(address)),
        ):
            body += owner + struct.pack("!HHIH", kind, 1, 120, len(data)) + data
    return struct.pack("!6H", number, 0x8400, 0, 3 * len(places), 0, 0) + body


def udp(host: Host) -> socket.socket:
    """A socket of the host that hears multicast DNS."""
    with namespaces.inside(host.namespace):
        made = host.lab.keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("", PORT))
        membership = socket.inet_aton(GROUP) + socket.inet_aton(host.address)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host.address))
    made.settimeout(0.2)
    return made


@contextmanager
def answering(host: Host, *packets: list[tuple[str, int, str]]) -> Iterator[list[int]]:
    """A hostile machine that answers each question with these packets; yields the numbers of the questions."""
    ended, asked = Event(), list[int]()
    hearing = udp(host)

    def serve() -> None:
        while not ended.is_set():
            try:
                packet, sender = hearing.recvfrom(2000)
            except TimeoutError:
                continue
            number, flags = struct.unpack("!2H", packet[:4])
            if not flags & 0x8000:
                asked.append(number)
                for places in packets:
                    hearing.sendto(answer(number, *places), sender)

    thread = Thread(target=serve)
    thread.start()
    try:
        yield asked
    finally:
        ended.set()
        thread.join()


class Listener:
    """A port of a host that counts its connections, and says nothing to them."""

    def __init__(self, host: Host) -> None:
        self.server, self.taken = host.listen(), list[socket.socket]()
        self.port: int = self.server.getsockname()[1]
        self.server.settimeout(0.2)
        self._ended = Event()
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._ended.is_set():
            try:
                self.taken.append(self.server.accept()[0])
            except TimeoutError:
                continue

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for one in self.taken:
            one.close()


class TestModels:
    """What works on machines that nobody has named."""

    def test_a_farm(self, grid: Grid) -> None:
        announced(grid, "ws7")
        announced(grid, "ws8")
        farm = farm_of(grid, 2)
        assert farm.complete()["tasks"] == 100
        assert {result["machine"] for result in farm.facts("result")} == {"ws7", "ws8"}

    def test_a_space_a_copy_and_files(self, grid: Grid) -> None:
        folder = grid.desk.lab.path / "data"
        folder.mkdir()
        announced(grid, "ws7", "--export", f"{folder}:rw")
        program = [
            "import phalanx as px",
            "grid = px.Grid(px.Lan())",
            "with grid.space('ws7/notes') as space:",
            "    space.out('a', 7)",
            "    print(space.in_('a', int), list(grid.machines))",
        ]
        assert run(grid, "\n".join(program)) == "('a', 7) ['ws7']\n"
        here = grid.desk.home / "note"
        here.write_text("hello")
        grid.phalanx("cp", "--lan", here, f"ws7:{folder / 'note'}")
        assert (folder / "note").read_text() == "hello"
        assert grid.phalanx("cat", "--lan", f"ws7:{folder / 'note'}").stdout() == "hello"

    def test_a_space_without_a_machine_is_an_error(self, grid: Grid) -> None:
        announced(grid, "ws7")
        program = (
            "import phalanx as px\ntry: px.Grid(px.Lan()).space('notes')\nexcept px.errors.SpaceError as e: print(e)"
        )
        assert "as in ws7/notes" in run(grid, program)

    def test_ranks_of_several_machines(self, grid: Grid) -> None:
        announced(grid, "ws7")
        announced(grid, "ws8")
        program = "import phalanx as px; print(px.mpirun(['hostname'], 2, hosts=px.Lan(at_least=2), prefix=False, "
        said = run(grid, program + "capture_output=True).stdout)").split()
        assert sorted(said) == ["ws7", "ws8"]

    def test_a_task_reaches_a_space_at_another_executor(self, grid: Grid) -> None:
        announced(grid, "ws7")
        announced(grid, "ws8")
        program = [
            "import phalanx as px",
            "grid = px.Grid(px.Lan(at_least=2))",
            "space = grid.space('ws7/notes')",
            "with grid.only('ws8').manager() as manager:",
            "    manager.submit(space.out, 'from', 8).result()",
            "print(space.in_('from', int))",
        ]
        assert run(grid, "\n".join(program)) == "('from', 8)\n"


class TestComingAndGoing:
    """Executors that start and end while programs run."""

    def test_an_executor_that_starts_in_mid_run_is_recruited(self, grid: Grid) -> None:
        announced(grid, "ws7")
        farm = farm_of(grid, 1, seconds=0.1, count=300)
        farm.results(at_least=5)
        announced(grid, "ws8")
        until(lambda: farm.interpreters("ws8"), timeout=PATIENCE, what="a result from the newcomer")
        farm.complete()

    @pytest.mark.parametrize("fault", ["kill", "silence", "freeze"])
    def test_an_executor_that_is_lost_hangs_nobody(self, grid: Grid, fault: str) -> None:
        ws7, _ = announced(grid, "ws7"), announced(grid, "ws8")
        farm = farm_of(grid, 2, seconds=0.05)
        until(lambda: farm.interpreters("ws7"), timeout=PATIENCE, what="a result from ws7")
        if fault == "silence":
            ws7.host.cable.silence()
        for pid in ws7.host.pids() if fault == "freeze" else ():
            freeze(pid)
        if fault == "kill":
            ws7.process.signal(signal.SIGKILL)
        assert farm.complete()["tasks"] == 100
        later = farm_of(grid, 1)
        assert later.complete()["tasks"] == 100
        assert {result["machine"] for result in later.facts("result")} == {"ws8"}

    def test_an_executor_that_starts_again_elsewhere_is_the_same_machine(self, grid: Grid) -> None:
        """Its port is another one each time."""
        ws7 = announced(grid, "ws7")
        farm = farm_of(grid, 1, seconds=0.05, count=200)
        farm.results(at_least=5)
        ws7.process.kill()
        grid.executor(ws7.host, identity=grid.desk.home / "grid-ws7.pem", interpreters=1, options=["--lan"])
        assert farm.complete()["tasks"] == 200

    def test_a_goodbye_is_sent(self, grid: Grid) -> None:
        hearing = udp(grid.desk.lab.host("ear"))
        ws7 = announced(grid, "ws7")
        heard: list[bytes] = []

        def said(lasts: int) -> bool:
            try:
                heard.append(hearing.recv(2000))
            except TimeoutError:
                return False
            return any(kind == SRV and good == lasts for packet in heard for _, kind, good, _ in records(packet))

        until(lambda: said(120), timeout=PATIENCE, what="an announcement")
        ws7.process.signal(signal.SIGTERM)
        until(lambda: said(0), timeout=PATIENCE, what="a goodbye")
        self.says_nothing(b"".join(heard), "ws7", "ada", "grid", "executor", "labpc", socket.gethostname())

    @staticmethod
    def says_nothing(packets: bytes, *words: str) -> None:
        """Nothing but the service, random names, a port and an address is in clear."""
        assert not [word for word in words if word.encode() in packets.lower()]
        texts = set(re.findall(rb"[a-z0-9_]{4,}", packets.lower())) - {b"_phalanx", b"_tcp", b"local"}
        assert texts, "there are random names"
        assert all(re.search(rb"[0-9a-f]{16}", text) for text in texts), texts

    def test_nothing_is_announced_by_default(self, grid: Grid) -> None:
        grid.executor(grid.desk.lab.host("ws7"))
        program = (
            "import phalanx as px\ntry: px.Manager(px.Lan(patience=1))\nexcept px.errors.RecruitError as e: print(e)"
        )
        assert run(grid, program).startswith("no executor of your grid announces itself on the local network; start")


class TestStrangers:
    """Answers of others are hostile input."""

    def test_an_executor_of_another_grid_is_left_alone(self, lab: Lab) -> None:
        grid, other = Grid(lab.host("desk")), Grid(lab.host("strangers-desk"), "other")
        announced(grid, "ws7")
        stranger = announced(other, "stranger")
        farm = farm_of(grid, 1, seconds=0.05, count=200)
        assert farm.complete()["tasks"] == 200
        assert {result["machine"] for result in farm.facts("result")} == {"ws7"}
        refusals = [line for line in stranger.process.stderr().splitlines() if "certificate" in line.lower()]
        assert len(refusals) <= 2, "it is dialled in a loop"
        program = (
            "import phalanx as px\ntry: px.Manager(px.Lan(patience=2))\nexcept px.errors.RecruitError as e: print(e)"
        )
        said = run(Grid(grid.desk, "third"), program)
        assert "2 machines answer that are of other grids" in said

    def test_our_executors_address_under_another_name_is_still_our_executor(self, grid: Grid) -> None:
        """An answer can name only its sender, and the certificate names the executor."""
        ws7 = announced(grid, "ws7")
        liar = grid.desk.lab.host("liar")
        listener = Listener(liar)
        with answering(liar, [("ws9", ws7.port, ws7.host.address), ("ws7", listener.port, ws7.host.address)]):
            program = "import phalanx as px; print(px.Grid(px.Lan(at_least=1)).machines)"
            assert run(grid, program) == "{'ws7': 'ws7._lan.phalanx:7400'}\n"
        listener.close()

    def test_an_answer_points_at_nobody_else(self, grid: Grid) -> None:
        third, liar = grid.desk.lab.host("third"), grid.desk.lab.host("liar")
        announced(grid, "ws7")
        listener = Listener(third)
        with answering(liar, [("x", listener.port, third.address)], [("y", listener.port, "127.0.0.1")]) as asked:
            assert farm_of(grid, 1).complete()["tasks"] == 100
            assert asked, "the liar was asked"
        listener.close()
        assert not listener.taken

    def test_a_machine_that_accepts_and_says_nothing_delays_nobody_for_long(self, grid: Grid) -> None:
        liar = grid.desk.lab.host("liar")
        announced(grid, "ws7")
        listener = Listener(liar)
        with answering(liar, [("x", listener.port, liar.address)]):
            assert farm_of(grid, 1, seconds=0.05, count=200).complete()["tasks"] == 200
        listener.close()
        assert len(listener.taken) <= 2, "it is dialled in a loop"

    def test_a_flood_is_bounded(self, grid: Grid) -> None:
        """100 000 instances, in packets that fill the wire, and every one of them at a port that nobody listens at."""
        liar = grid.desk.lab.host("liar")
        announced(grid, "ws7")
        flood = [
            [(secrets.token_hex(4), 10_000 + (step * 10 + one) % 50_000, liar.address) for one in range(10)]
            for step in range(10_000)
        ]
        with answering(liar, *flood) as asked:
            program = [
                "import phalanx as px",
                "with px.Manager(px.Lan()) as manager:",
                "    print(sum(manager.map(abs, range(1000))))",
                # Not that of `getrusage`, which counts the process that has started this one.
                "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])",
            ]
            total, kilobytes = run(grid, "\n".join(program)).split()
            assert asked
        assert total == str(sum(range(1000)))
        assert int(kilobytes) < 200_000

    def test_damaged_packets_end_no_announcement(self, grid: Grid) -> None:
        ws7 = announced(grid, "ws7")
        liar = udp(grid.desk.lab.host("liar"))
        for length in range(0, 1400, 7):
            liar.sendto(secrets.token_bytes(length), (GROUP, PORT))
            question = struct.pack("!6H", 1, 0, 40_000, 0, 0, 0) + name_of(*SERVICE) + b"\xc0\x0c" * length
            liar.sendto(question[:1400], (GROUP, PORT))
        assert farm_of(grid, 1).complete()["tasks"] == 100
        assert ws7.process.code is None

    def test_an_address_that_others_do_not_reach_is_not_announced(self, grid: Grid) -> None:
        host = grid.desk.lab.host("ws7")
        identity = grid.issue("ws7")
        words: list[str | Path] = [PHALANX, "executor", "--listen", "127.0.0.1:0", "--lan", "--identity", identity]
        done: Process = host.run(words, check=False)
        assert done.code != 0
        assert "127.0.0.1 is no IPv4 address by which the local network reaches this machine" in done.stderr()
