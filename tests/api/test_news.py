"""News of a grid (lists of revoked certificates, renewed certificates) travel with every link, in both directions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import phalanx as px
import pytest
from api.executors import PHALANX
from api.members import PATIENCE, Lab
from phalanx import _native

from laboratory.processes import Process, until

#: Opens a space and ends at once.
OPENS = "import sys, phalanx as px; px.Space(sys.argv[1], identity=sys.argv[2], certificates={sys.argv[3]: 'labpc'})"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    there = Lab(tmp_path)
    yield there
    there.end()


class Reached:
    """A server, and the commands of a user at another machine that reach it."""

    def __init__(self, lab: Lab, way: str) -> None:
        self.lab, self.way = lab, way
        shared = lab.folder / "shared"
        shared.mkdir()
        (shared / "file").write_text("1")
        if way == "space":
            self.server, self.address = lab.start("labpc", "space", "serve", "--address")
        else:
            self.server, self.address = lab.executor("labpc", "--export", f"{shared}:rw")
        self.folder = lab.folder / "labpc"

    def words(self, identity: Path) -> list[str]:
        copied = f"labpc:{self.lab.folder / 'shared' / 'file'}"
        hosts = identity.parent / "hosts" / "hosts.txt"
        hosts.parent.mkdir(exist_ok=True)
        hosts.write_text(f"labpc = {self.address}\n")
        named = ["--hosts", str(hosts), "--identity", str(identity)]
        return {
            "mpirun": [PHALANX, "mpirun", *named, "-n", "1", "true"],
            "cp": [PHALANX, "cp", *named, copied, str(identity.parent / "copied")],
            "ls": [PHALANX, "ls", *named, copied],
            "space": [sys.executable, "-c", OPENS, f"{self.address}/jobs", str(identity), self.address],
        }[self.way]

    def use(self, identity: Path) -> str:
        """One command, to its end. What it says on standard error."""
        env = {**os.environ, "PHALANX_HOME": str(identity.parent), "XDG_RUNTIME_DIR": str(identity.parent)}
        done = subprocess.run(
            self.words(identity), env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr


WAYS = pytest.mark.parametrize("way", ["mpirun", "cp", "ls", "space"])


def content(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def becomes(file: Path, wanted: Callable[[bytes], bool], what: str) -> None:
    until(lambda: wanted(content(file)), timeout=PATIENCE, what=what)


@WAYS
def test_a_user_brings_the_list_with_one_command_and_another_takes_it_home(lab: Lab, way: str) -> None:
    reached = Reached(lab, way)
    bob = lab.issue("user", "bob")
    lab.issue("user", "gone")
    lab.revoke("gone")
    listed = content(lab.home / "revoked.txt")
    reached.use(lab.home / "user.pem")
    # A command waits until it has delivered what it brings.
    becomes(reached.folder / "revoked.txt", lambda found: found == listed, "the list at the server")
    until(lambda: "ada brought list 1 of revoked certificates" in reached.server.stderr(), timeout=PATIENCE, what="log")
    reached.use(bob)
    assert content(bob.parent / "revoked.txt") == listed


@WAYS
def test_a_command_says_once_that_a_list_cannot_be_written_where_it_runs(lab: Lab, way: str) -> None:
    reached = Reached(lab, way)
    bob = lab.issue("user", "bob")
    lab.issue("user", "gone")
    lab.revoke("gone", reached.folder)
    (bob.parent / ".phalanx.lock").mkdir()  # in the way of every write, also one of root
    warning = "a newer list of revoked certificates could not be written here: "
    # The server looks at its files once a second.
    said = until(lambda: reached.use(bob), timeout=PATIENCE, what="a warning")
    assert said.count(warning) == 1, said
    (bob.parent / ".phalanx.lock").rmdir()
    assert "could not be written" not in reached.use(bob)
    assert content(bob.parent / "revoked.txt") == content(lab.home / "revoked.txt")


@WAYS
def test_renewed_certificates_travel_with_one_command(lab: Lab, way: str) -> None:
    reached = Reached(lab, way)
    bob = lab.issue("user", "bob")
    before, bobs = content(reached.folder / "identity.pem"), content(bob)
    lab.grid("renew", "labpc", "bob", "--days", "400")
    reached.use(lab.home / "user.pem")
    becomes(reached.folder / "identity.pem", lambda found: found != before, "a new certificate at the server")
    reached.use(bob)
    assert content(bob) != bobs
    assert content(bob.parent / "renewed.pem").count(b"BEGIN CERTIFICATE") == 2


def test_who_is_revoked_is_refused_where_only_a_copy_brought_the_list(lab: Lab) -> None:
    reached = Reached(lab, "cp")
    eve = lab.issue("user", "eve")
    reached.use(eve)
    lab.revoke("eve")
    reached.use(lab.home / "user.pem")
    with pytest.raises(px.RecruitError):
        px.Grid([f"labpc = {reached.address}"], identity=eve).manager(contract=px.ParDegree(1))
    assert "the certificate of the user eve was revoked on 20" in reached.server.stderr()


def long_list(lab: Lab, count: int) -> bytes:
    """A list with so many certificates, beside the user's identity file."""
    authority = lab.home / "authority.pem"
    rows = [("2026-01-02T03:04:05Z", "executor", f"labpc{number}", f"{number:064x}") for number in range(count)]
    text = _native.revoke_members(authority.read_text(), str(authority), None, [], rows)
    (lab.home / "revoked.txt").write_text(text)
    return text.encode()


@pytest.mark.parametrize("way", ["cp", "space"])
def test_a_list_of_two_thousand_certificates_arrives(lab: Lab, way: str) -> None:
    reached = Reached(lab, way)
    listed = long_list(lab, 2000)
    assert len(listed) > 3 << 16
    reached.use(lab.home / "user.pem")
    becomes(reached.folder / "revoked.txt", lambda found: found == listed, "the list at the server")
    bob = lab.issue("user", "bob")
    reached.use(bob)
    assert content(bob.parent / "revoked.txt") == listed


@contextmanager
def staying(reached: Reached, identity: Path) -> Iterator[None]:
    """A user whose link to the server stays open."""
    lab, address = reached.lab, reached.address
    if reached.way == "space":
        with px.Space(f"{address}/jobs", identity=identity, certificates={address: "labpc"}) as space:
            space.out("a", 1)  # and from then on it is idle
            yield
        return
    if reached.way == "ls":
        with px.Grid([f"labpc = {address}"], identity=identity).files("labpc") as files:
            list(files.entries(str(lab.folder / "shared")))
            yield
        return
    words = reached.words(identity)
    if reached.way == "mpirun":
        words[-1:] = ["sh", "-c", "echo started; sleep 600"]
    else:
        (lab.folder / "shared" / "file").write_bytes(os.urandom(20 << 20))
        words += ["--limit", "100kB/s"]
    env = {**os.environ, "PHALANX_HOME": str(identity.parent), "XDG_RUNTIME_DIR": str(identity.parent)}
    process = Process(words, title="stays", files=lab.folder / "stays", cwd=lab.folder, env=env)
    try:
        begun = "started" if reached.way == "mpirun" else "serving bob, who copies"
        until(lambda: begun in process.stdout() + reached.server.stderr(), timeout=PATIENCE, what="the link")
        yield
        assert process.code is None, process.report()
    finally:
        process.kill()


@WAYS
def test_a_client_whose_link_stays_open_learns_what_others_bring(lab: Lab, way: str) -> None:
    reached = Reached(lab, way)
    bob = lab.issue("user", "bob")
    lab.issue("user", "gone")
    with staying(reached, bob):
        lab.revoke("gone")
        listed = content(lab.home / "revoked.txt")
        lab.grid("renew", "labpc", "--days", "400")
        reached.use(lab.home / "user.pem")
        becomes(bob.parent / "revoked.txt", lambda found: found == listed, "the list at the client")
        becomes(bob.parent / "renewed.pem", lambda found: b"BEGIN CERTIFICATE" in found, "the renewed certificate")


def test_a_manager_carries_a_long_list_that_appears_while_it_is_open(lab: Lab) -> None:
    _, address = lab.executor("labpc")
    with px.Grid([f"labpc = {address}"], identity=lab.home / "user.pem").manager(contract=px.ParDegree(1)) as manager:
        assert list(manager.map(abs, [-1])) == [1]
        listed = long_list(lab, 2000)
        becomes(lab.folder / "labpc" / "revoked.txt", lambda found: found == listed, "the list at the executor")
        assert list(manager.map(abs, [-2])) == [2]


def test_a_list_that_appears_while_a_space_is_open_is_brought_to_its_server(lab: Lab) -> None:
    _, address = lab.start("board", "space", "serve", "--address")
    eve = lab.issue("user", "eve")
    ada = lab.home / "user.pem"
    with px.Space(f"{address}/jobs", identity=ada, certificates={address: "board"}) as space:
        space.out("a", 1)
        lab.revoke("eve")
        listed = content(lab.home / "revoked.txt")
        becomes(lab.folder / "board" / "revoked.txt", lambda found: found == listed, "the list at the server")
        with pytest.raises(px.SpaceError):
            px.Space(f"{address}/jobs", identity=eve, certificates={address: "board"})
        assert space.in_("a", int) == ("a", 1)


def test_a_copy_between_executors_brings_the_list_from_one_to_the_other(lab: Lab) -> None:
    shared = lab.folder / "shared"
    shared.mkdir()
    (shared / "file").write_text("1")
    hosts = {name: lab.executor(name, "--export", f"{shared}:rw")[1] for name in ("one", "two")}
    bob = lab.issue("user", "bob")
    lab.revoke("bob", lab.folder / "one")  # the user of the copy, ada, has no list
    listed = content(lab.home / "revoked.txt")
    (lab.home / "revoked.txt").unlink()
    grid = px.Grid([f"{name} = {address}" for name, address in hosts.items()], identity=lab.home / "user.pem")
    grid.copy(f"one:{shared / 'file'}", f"two:{shared / 'copied'}")
    becomes(lab.folder / "two" / "revoked.txt", lambda found: found == listed, "the list at the other executor")
    assert bob.exists()


def test_the_leader_of_a_replicated_space_tells_the_other_servers(lab: Lab) -> None:
    names = ("one", "two", "three")
    hosts = lab.folder / "hosts.txt"
    addresses = {
        name: lab.start(name, "space", "serve", "--directory", str(lab.folder / f"{name}-keeps"), "--address")[1]
        for name in names
    }
    hosts.write_text("".join(f"{name} = {address}\n" for name, address in addresses.items()))
    with px.Space(f"{hosts}/jobs", replicas=3, identity=lab.home / "user.pem") as space:
        space.out("a", 1)
        assert space.in_("a", int) == ("a", 1)
        (leader,) = (it.address for it in space.info().replicas if it.leads)
    (first,) = (name for name in names if addresses[name] == leader)
    lab.issue("user", "gone")
    lab.revoke("gone", lab.folder / first)
    listed = content(lab.home / "revoked.txt")
    for name in names:
        becomes(lab.folder / name / "revoked.txt", lambda found: found == listed, f"the list at {name}")
