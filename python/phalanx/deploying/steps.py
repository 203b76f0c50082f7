"""The steps that bring an executor to one machine, in their order, and those that take it away again."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from phalanx import _native
from phalanx._identities import REVOKED, home
from phalanx.deploying import hosts_file, wheels
from phalanx.deploying.ssh import Call, Connection, Gate, host_of
from phalanx.errors import DeployError, IdentityError
from phalanx.grid import Grid
from phalanx.members import is_name

#: Seconds until the executor answers here after it listens there.
PATIENCE = 20.0
_PAUSE = 0.2
_PART = 1 << 20
_OLDEST = (3, 10)


class Authority(Protocol):
    """Who signs requests: the holder of the grid's authority."""

    def sign(self, request: str, role: str, name: str) -> str:
        """The certificate for a request, which must be for this role and name."""

    def is_good(self, certificate: str, name: str) -> bool:
        """Whether this grid has issued a certificate to this executor, it is not revoked, and not near its end."""

    def is_taken(self, certificate: str, name: str) -> bool:
        """Whether another executor than the one with this certificate has a good one of this name."""


class Settings(NamedTuple):
    """What the user asks for, for all machines.

    ``python``: the Python there; None: the version of this one. ``words``: further options of the executors. ``uv``: a
    static uv. ``name`` and ``address``: of the only machine.
    """

    authority: Authority
    hosts: Path
    wheel: Path | None = None
    uv: Path | None = None
    python: str | None = None
    port: int = 7400
    words: tuple[str, ...] = ()
    ssh: tuple[str, ...] = ("ssh",)
    name: str | None = None
    address: str | None = None
    identity: Path | None = None
    gate: Gate | None = None


class Done(NamedTuple):
    """A line about a step: seconds since the begin, the machine, and what was done."""

    seconds: float
    machine: str
    text: str


class Deployment:
    """Brings an executor to a machine.

    Parameters
    ----------
    machine
        As the user names it for ssh, ``user@host``.
    settings
        What the user asks for.
    shared
        A folder for wheels, which all deployments of a command share.
    say
        Is called with a line after each step.
    """

    _making = threading.Lock()
    _writing = threading.Lock()

    def __init__(self, machine: str, settings: Settings, shared: Path, say: Callable[[Done], None]) -> None:
        self.machine, self._settings, self._shared = machine, settings, shared
        self._say_done, self._began = say, time.monotonic()
        self._facts: dict[str, Any] = {}

    def run(self) -> None:
        """Does all steps, or none where nothing is to be done. Raises DeployError and others of the family."""
        settings = self._settings
        wanted = settings.python or f"python{sys.version_info.major}.{sys.version_info.minor}"
        with self._connect(wanted) as there:
            self._meet(there)
            name, address = settings.name or name_of(self.machine), self._address(settings.port)
            if settings.name is None and (other := hosts_file.address(settings.hosts, name)):
                self._check_same(name, address, other)
            if settings.name is None and settings.authority.is_taken(self._facts["certificate"], name):
                raise self._fail(
                    f"another executor has a good certificate as {name}: say --name with another name. If this machine "
                    f"had it before, say --name {name}, or take it back: phalanx grid revoke {name} --role executor"
                )
            bundle = self._bundle()
            state, digest = self._facts["state"], bundle.digest
            is_there = self._facts["has_environment"] and state.get("digest") == digest
            if not is_there:
                self._install(there, bundle, digest)
            joins = not settings.authority.is_good(self._facts["certificate"], name)
            if joins:
                self._join(there, digest, name)
            known = (state.get("name"), state.get("port"), state.get("words"))
            is_same = known == (name, settings.port, [*settings.words])
            starts = not (is_there and is_same and self._facts["runs"]) or joins
            if starts:
                self._start(there, bundle, digest, name)
            self._answers(there, name, address)
            if not starts:
                self._say(f"nothing to do: phalanx {bundle.version} is there, and its executor runs as {name}")

    def remove(self, *, with_spaces: bool) -> None:
        """Takes everything away."""
        settings = self._settings
        with self._connect(settings.python or "python3") as there:
            facts = there.call("facts")
            state = facts["state"]
            removed = there.call("remove", with_spaces=with_spaces)
        if not removed:
            self._say(f"nothing was deployed there, and nothing is removed: {facts['base']} has no deployed.json")
        for what in removed:
            self._say(f"removed {what}")
        if name := str(state.get("name") or ""):
            self._forget(name, self._address(state.get("port", 0)))
        if is_name(name):
            self._say(
                f"its key is gone; to take its certificate back as well: phalanx grid revoke {name} --role executor"
            )

    def _forget(self, name: str, own: str) -> None:
        """Removes the line of the machine, which says its name itself. The line of another machine stays."""
        hosts = self._settings.hosts
        with self._writing:
            known = hosts_file.address(hosts, name)
            if known and known == own:
                hosts_file.remove(hosts, name)
                self._say(f"removed {name} from {hosts}")
            elif known:
                self._say(f"left {name} in {hosts}, because it is at {known}, and this machine at {own}")

    def _check_same(self, name: str, address: str, known: str) -> None:
        """Raises DeployError if a name that the user did not give is that of another machine."""
        if known.rpartition(":")[0] != address.rpartition(":")[0]:
            hosts = self._settings.hosts
            raise self._fail(
                f"{hosts} has another machine of the name {name}, at {known}: say --name NAME, or remove the line"
            )

    def _address(self, port: int) -> str:
        """Where the executor is reached from here."""
        return f"{self._settings.address or host_of(Call(self.machine, self._settings.ssh))}:{port}"

    def _connect(self, python: str) -> Connection:
        return Connection(Call(self.machine, self._settings.ssh), python, self._settings.gate)

    def _say(self, text: str) -> None:
        self._say_done(Done(time.monotonic() - self._began, self.machine, text))

    def _fail(self, text: str) -> DeployError:
        return DeployError(f"{self.machine}: {text}")

    def _meet(self, there: Connection) -> None:
        """Asks what the machine is, and refuses one on which phalanx cannot run."""
        facts = self._facts = there.call("facts")
        about = f"{facts['system']} {facts['machine']}, {facts['implementation']} {facts['python']}"
        self._say(f"connected: {about}, glibc {facts['glibc'] or 'none'}")
        version = _minor(facts["python"])
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        if facts["system"] != "Linux":
            raise self._fail(f"this is {facts['system']}: phalanx is deployed to Linux only")
        if facts["implementation"] != "CPython" or facts["free_threaded"] or version < _OLDEST:
            raise self._fail(f"{there.python} is no CPython 3.10 or newer: install python{here}, or name one: --python")
        if version == sys.version_info[:2]:
            return
        differ = f"{there.python} is Python {facts['python']}, and this program's is {here}"
        if self._settings.python is None:
            install = f"install python{here} there (Debian: python{here}-venv; uv: uv python install {here})"
            raise self._fail(
                f"{differ}: functions travel as bytecode, between equal versions only; {install}. For spaces and files "
                f"alone, any version does: --python {there.python}"
            )
        self._say(f"warning: {differ}: managers will not recruit there; spaces and files work")

    def _bundle(self) -> wheels.Bundle:
        facts = self._facts
        machine = wheels.Machine(_minor(facts["python"]), facts["machine"], facts["glibc"])
        with self._making:
            bundle = wheels.bundle(self._settings.wheel, machine, self._shared)
        if why := _native.check_version(self.machine, bundle.version):
            raise DeployError(f"the wheel is of another version: {why}")
        return bundle

    def _install(self, there: Connection, bundle: wheels.Bundle, digest: str) -> None:
        uv, sent = self._uv()
        files = [
            *([("uv", sent.stat().st_size)] if sent else []),
            *((it.name, it.stat().st_size) for it in bundle.files),
        ]
        data = _parts([*([sent] if sent else []), *bundle.files])
        there.call("install", data, digest=digest, files=files, uv=uv, index=bundle.needs_index)
        size = sum(size for _, size in files) / 1e6
        how = "uv" if uv else "venv and pip"
        self._say(
            f"installed {bundle.files[0].name} and {len(bundle.files) - 1} libraries with {how} ({size:.1f} MB sent)"
        )

    def _uv(self) -> tuple[str, Path | None]:
        """The path of uv there, or ``"sent"`` with the one here that is to be sent; empty if Python has venv."""
        facts, given = self._facts, self._settings.uv
        if given is None and facts["has_venv"]:
            return "", None
        if given is None and facts["uv"]:
            return str(facts["uv"]), None
        if found := given or _own_uv(facts["machine"]):
            return "sent", found
        python = f"python{facts['python'].rpartition('.')[0]}"
        raise self._fail(
            f"its Python cannot make environments; install venv there (Debian: apt-get install {python}-venv), or uv, "
            "or name a static uv for that machine with --uv FILE"
        )

    def _join(self, there: Connection, digest: str, name: str) -> None:
        """Makes the machine a member of the grid. Its private key is made there, and stays there."""
        request = there.call("request", digest=digest, name=name)
        certificate = self._settings.authority.sign(str(request), "executor", name)
        there.call("accept", digest=digest, certificate=certificate)
        self._say(f"joined the grid as {name}; its private key was made there and stays there")

    def _start(self, there: Connection, bundle: wheels.Bundle, digest: str, name: str) -> None:
        settings, revoked = self._settings, home() / REVOKED
        text = revoked.read_text(encoding="ascii") if revoked.exists() else ""
        how = there.call(
            "start",
            digest=digest,
            version=bundle.version,
            name=name,
            port=settings.port,
            words=[*settings.words],
            revoked=text,
        )
        self._say(f"started the executor at port {settings.port}, {how}")

    def _answers(self, there: Connection, name: str, address: str) -> None:
        """Waits until the executor answers here, and writes it into the hosts file."""
        settings = self._settings
        dialler = Grid([f"{name} = {address}"], identity=settings.identity).reach.dialler()
        until = time.monotonic() + PATIENCE
        while isinstance(answer := _native.ask_executors([address], dialler)[0], str):
            if time.monotonic() > until or "runs phalanx" in answer:
                raise self._fail(
                    f"the executor runs there, and is not reached from here: {answer}. Look at: phalanx doctor "
                    f"{address}; or name another address with --address. It says:\n{there.call('log')}"
                )
            time.sleep(_PAUSE)
        self._say(f"answers at {address}: phalanx {answer[6]}, {answer[1]} interpreters, cage {answer[3]}")
        with self._writing:
            changed = hosts_file.add(settings.hosts, name, address)
        if changed:
            self._say(f"wrote {name} = {address} into {settings.hosts}")


def _minor(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def name_of(machine: str) -> str:
    """The name of a member, from what the user calls the machine. The machine itself has no say in it.

    Raises
    ------
    IdentityError
        Nothing is left of it.

    Example
    -------
    >>> name_of("ada@LabPC1.example.org"), name_of("10.0.0.7")
    ('labpc1', '10-0-0-7')
    """
    host = machine.rpartition("@")[2].lower()
    is_number = re.fullmatch(r"[\d.]+|.*:.*", host)
    name = re.sub("[^a-z0-9-]+", "-", host if is_number else host.partition(".")[0]).strip("-")[:63]
    if not name:
        raise IdentityError(f"{machine!r} makes no name of a member: say --name NAME")
    return name


def _parts(files: list[Path]) -> Iterator[bytes]:
    for file in files:
        with file.open("rb") as opened:
            while part := opened.read(_PART):
                yield part


#: Machines by their numbers in the heads of programs (ELF).
_PROGRAMS_FOR = {0x3E: "x86_64", 0xB7: "aarch64"}


def _own_uv(kind: str) -> Path | None:
    """The uv of this machine, if the programs of both machines are of one kind."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        return None
    with Path(found).open("rb") as program:
        head = program.read(20)
    is_program = head[:4] == b"\x7fELF" and len(head) == 20
    return Path(found) if is_program and _PROGRAMS_FOR.get(int.from_bytes(head[18:20], "little")) == kind else None
