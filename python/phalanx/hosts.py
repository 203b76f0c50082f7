"""The machines of a grid: what hosts files say, and how a machine's name becomes an address."""

from __future__ import annotations

import math
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from phalanx.errors import RecruitError
from phalanx.words import StrPath

#: The command line that starts an interpreter. Its first messages come over standard input. `python -c` puts the
#: current directory first on the import path, unless it keeps that path safe. It is removed, because others may be able
#: to write modules there.
_POP = "getattr(sys.flags, 'safe_path', sys.flags.isolated) or sys.path.pop(0)"
_START = f"import sys; {_POP}; sys.path.append({str(Path(__file__).parents[1])!r}); "
_MAIN = "from phalanx._interpreter import main; main()"
COMMAND = [sys.executable, "-c", _START + _MAIN]
if sys.platform == "win32" and sys.executable != getattr(sys, "_base_executable", sys.executable):
    # What a virtual environment calls Python starts Python as another process there. The interpreter must be that one.
    COMMAND = [sys._base_executable, "-c", f"import sys; sys.path[:] = {[*filter(None, sys.path)]!r}; {_MAIN}"]
#: The version of this Python. Code travels only between equal versions.
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

#: The port of an executor that is named without one.
PORT = 7400
_MOST_PORT = 65535
#: Most executors on the local network that a program waits for.
_MOST_LAN = 512
_LINE = re.compile(
    r"(?:(?P<name>(?!trusted\s*=)[\w.-]+)\s*=\s*)?"
    r"<?\s*(?P<host>\[[^\]]+\]|[^\s,<>:=/]+)(?:\s*[,:\s]\s*(?P<port>[0-9]+))?\s*>?"
    r"(?:\s+as\s+(?P<certificate>[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?))?",
)
_TRUSTED = re.compile(r"trusted\s+(?P<network>[0-9a-fA-F.:]+(?:/\d+)?)")
_WITH_PORT = re.compile(r":[0-9]+$")


class Machine(NamedTuple):
    """A machine of a grid, as a line of a hosts file names it. The name is empty if the line gives none.

    ``certificate`` is the name in the certificate of the machine's executor, if the line tells it.
    """

    name: str
    address: str
    certificate: str = ""

    @property
    def host(self) -> str:
        """The address without its port."""
        return self.address.rpartition(":")[0]


class Hosts:
    """The executors that a hosts file names, one ``machine port`` per line (paper 000, section 2, version 1.0).

    A line may also be ``machine:port`` or ``<machine, port>``, and may begin with a name: ``ws7 = 10.0.0.7:7300``. The
    default port is 7400. A machine without a name is called by its host. A line ``trusted 10.1.0.0/16`` declares a
    network trusted: links to machines there need no protection. Text after ``#`` is a comment.

    The machine must prove the name with its certificate. If the certificate has another name, that one stands at the
    end of the line: ``fast = 10.0.0.7:7300 as ws7``. Where a line gives no name, the first member that answers is
    remembered, and no other one is accepted there.

    Parameters
    ----------
    path : str or path
        The hosts file.

    Attributes
    ----------
    addresses : list of str
        The address of each machine, as ``host:port``.
    machines : dict of str to str
        The address of each machine by its name.
    certificates : dict of str to str
        The name in the certificate of each machine's executor, by address. Machines without a name are not there.
    trusted : list of str
        The networks that are trusted.

    Raises
    ------
    RecruitError
        The file cannot be read, has a line that is none of these, or names no machine. Or two lines give machines at
        different addresses one name, or expect two members at one address. Or every account of this
        machine may write it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import phalanx as px
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "hosts.txt"
    >>> _ = file.write_text("labpc1 7400\\nlabpc2  # the default port\\nws7 = 10.0.0.7:7300\\n")
    >>> px.Hosts(file).addresses
    ['labpc1:7400', 'labpc2:7400', '10.0.0.7:7300']
    >>> list(px.Hosts(file).machines)
    ['labpc1', 'labpc2', 'ws7']
    """

    path: Path | None

    #: The joined grid whose executors these are, and more as they come; None: there are only these.
    growing: str | None = None

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        try:
            text = self.path.read_text(encoding="utf-8-sig")  # editors on Windows begin files with a byte order mark
        except (OSError, UnicodeDecodeError) as error:
            raise RecruitError(f"the hosts file {self.path} cannot be read: {error}") from None
        _refuse_if_all_may_write(self.path)
        said = [(number, line) for number, line in enumerate(text.splitlines(), 1) if _said(line)]
        networks = [_TRUSTED.fullmatch(_said(line)) for _, line in said]
        self.trusted = [match["network"] for match in networks if match]
        lines = [one for one, match in zip(said, networks, strict=True) if not match]
        if not lines:
            raise RecruitError(f"the hosts file {self.path} names no machine; write a line for each: machine port")
        self._take([_machine(line, f"{self.path}, line {number}") for number, line in lines])

    @classmethod
    def of(cls, lines: Iterable[str]) -> Hosts:
        """The machines that a list names. Each entry is what a line of a hosts file says of a machine: ``"lab:7400"``.

        Raises
        ------
        RecruitError
            There is no entry, or one is no machine.
        """
        hosts = cls.__new__(cls)
        hosts.path, hosts.trusted = None, []
        machines = [_machine(line, "the list of machines") for line in lines]
        if not machines:
            raise RecruitError("the list of machines is empty; write one entry for each: machine:port")
        hosts._take(machines)
        return hosts

    @classmethod
    def known(cls, machines: Mapping[str, str], certificates: Mapping[str, str]) -> Hosts:
        """Machines by name that were read before: their addresses, and by these the names in their certificates."""
        hosts = cls.__new__(cls)
        hosts.path, hosts.trusted = None, []
        hosts.addresses, hosts.machines = [*machines.values()], dict(machines)
        hosts.certificates = dict(certificates)
        return hosts

    def only(self, names: Iterable[str]) -> Hosts:
        """The machines with these names, in this order. Raises RecruitError for a name that no machine has.

        Parameters
        ----------
        names : iterable of str
            Names of machines.

        Returns
        -------
        Hosts
        """
        hosts = Hosts.__new__(Hosts)
        hosts.path, hosts.trusted = None, self.trusted
        wanted = {name: self._known(name) for name in dict.fromkeys(names)}
        hosts.addresses, hosts.machines = [*wanted.values()], wanted
        hosts.certificates = {at: name for at, name in self.certificates.items() if at in hosts.addresses}
        return hosts

    def to_recruit(self) -> list[str]:
        """The addresses of all machines, for a program that needs at least one of them.

        Returns
        -------
        list of str
        """
        return self.addresses

    def elsewhere(self) -> dict[str, str]:
        """The address of each machine by its name, for processes that do not know the grid's hub.

        Returns
        -------
        dict of str to str
        """
        return self.machines

    def address(self, machine: str) -> str:
        """The address of a machine.

        Parameters
        ----------
        machine : str
            Its name, or its host. Any other machine is ``host:port``, or ``host`` for the default port.

        Returns
        -------
        str
            Like ``"10.0.0.7:7400"``.
        """
        found = self.machines.get(machine)
        if found is None:
            found = next((one for one in self.addresses if one.rpartition(":")[0] == machine), None)
        return with_port(machine) if found is None else found

    def _known(self, name: str) -> str:
        if name not in self.machines:
            raise RecruitError(f"no machine is called {name!r}; there are {', '.join(self.machines)}")
        return self.machines[name]

    def _take(self, machines: list[Machine]) -> None:
        self.addresses = [machine.address for machine in machines]
        self.machines = _by_name(machines)
        self.certificates = _certificates(machines)

    def __repr__(self) -> str:
        return f"Hosts({str(self.path)!r})" if self.path else f"Hosts.of({self.addresses!r})"


class Lan:
    """The executors of the user's grid on the local network: those that ``phalanx executor --lan`` announces.

    They are machines as a hosts file has them: managers, grids, spaces, copies and message passing programs take them
    in its place. Executors that start later are recruited by managers that run. What executors announce says only that
    something listens. Each one proves with its certificate that it belongs to the grid, and which name it has.

    Parameters
    ----------
    grid : str, optional
        A grid that this account has joined by a token: the executors of this grid, also while its hub is away. By
        default the grid of the identity that is given where these machines are used, which is user.pem in
        ``$PHALANX_HOME`` or ``~/.phalanx``.
    at_least : int, optional
        The number of executors that are waited for. Default: 1.
    patience : float, optional
        Seconds that they are waited for. Those that have answered by then are used, and a warning in the log
        ``phalanx`` tells how many are missing. Default: 5.

    Raises
    ------
    RecruitError
        ``at_least`` is no number from 1 to 512, or ``patience`` is none from 0 on.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(px.Lan()) as manager:  # doctest: +SKIP
    ...     print(list(manager.map(abs, [-1, 2])))
    [1, 2]
    >>> px.Lan("lab", at_least=3)
    Lan('lab', at_least=3)
    """

    def __init__(self, grid: str | None = None, *, at_least: int = 1, patience: float = 5.0) -> None:
        if not isinstance(at_least, int) or isinstance(at_least, bool) or not 1 <= at_least <= _MOST_LAN:
            raise RecruitError(f"at_least is a number of executors from 1 to {_MOST_LAN}, not {at_least!r:.40}")
        if not isinstance(patience, int | float) or not 0 <= patience < math.inf:
            raise RecruitError(f"patience is a number of seconds, 0 or more, not {patience!r:.40}")
        self.grid, self.at_least, self.patience = grid, at_least, float(patience)

    def __repr__(self) -> str:
        words = [] if self.grid is None else [repr(self.grid)]
        words += [f"at_least={self.at_least}"] if self.at_least != 1 else []
        words += [f"patience={self.patience:g}"] if self.patience != 5.0 else []
        return f"Lan({', '.join(words)})"


#: Where the machines of a grid are named: a hosts file, its path, addresses with commas between them, the name of a
#: grid that this account has joined, a list, or the local network.
Machines: TypeAlias = StrPath | Hosts | Lan | Iterable[str]


def _refuse_if_all_may_write(path: Path) -> None:
    """Raises RecruitError. Any account could say which machines get the tasks, and that links are not protected."""
    found = path.stat()
    if os.name == "posix" and stat.S_ISREG(found.st_mode) and found.st_mode & stat.S_IWOTH:
        raise RecruitError(
            f"the hosts file {path} decides which machines compute, and every account of this machine may write it; "
            f"mend that with: chmod o-w {shlex.quote(os.fspath(path))}"
        )


def read_hosts(machines: Machines | None) -> Hosts | None:
    """The machines that a user named; None if none were named.

    Parameters
    ----------
    machines
        A :class:`Hosts`, the path of a hosts file, ``"one:7400,other:7400"``, or a list of addresses. A text that names
        no file counts as addresses if it has a comma or a colon.

    Raises
    ------
    RecruitError
        The hosts file cannot be read, or an entry is no machine.
    """
    if machines is None or isinstance(machines, Hosts):
        return machines
    if isinstance(machines, str) and ("," in machines or ":" in machines) and not is_file(machines):
        return Hosts.of(filter(None, (part.strip() for part in machines.split(","))))
    if isinstance(machines, Lan):
        raise RecruitError(f"{machines!r} names no machines before somebody looks: write px.Grid({machines!r})")
    if isinstance(machines, str) or not isinstance(machines, Iterable):
        return Hosts(machines)
    return Hosts.of(machines)


def is_file(text: str) -> bool:
    """Whether a text is the path of a file. It may be too long for a path, as the addresses of many machines are."""
    return os.path.isfile(text)  # noqa: PTH113  # Path.is_file raises for a long text


def with_port(machine: str) -> str:
    """The address of a machine, with the default port if it has none."""
    return machine if _WITH_PORT.search(machine) else f"{machine}:{PORT}"


def _said(line: str) -> str:
    return line.partition("#")[0].strip()


def _machine(line: str, place: str) -> Machine:
    match = _LINE.fullmatch(_said(line))
    is_network = _said(line).startswith("trusted ")
    if match is None or is_network:
        wanted = "trusted NETWORK" if is_network else "machine port, or: name = machine:port as CERTIFICATE"
        raise RecruitError(f"{place}: {line.strip()!r} is not: {wanted}")
    port = (match["port"] or str(PORT)).lstrip("0")
    if len(port) > len(str(_MOST_PORT)) or int(port or 0) > _MOST_PORT:
        raise RecruitError(f"{place}: {line.strip()!r} has no port: it is at most {_MOST_PORT}")
    name, address = match["name"] or "", f"{match['host']}:{match['port'] or PORT}"
    return Machine(name, address, match["certificate"] or name)


def _certificates(machines: list[Machine]) -> dict[str, str]:
    """The name in the certificate of each machine by its address. Raises RecruitError if two lines tell different
    ones."""
    found: dict[str, str] = {}
    for _, address, certificate in machines:
        if certificate and found.setdefault(address, certificate).lower() != certificate.lower():
            both = f"{found[address]} and {certificate}"
            raise RecruitError(f"one certificate is at {address}, not those of {both}: end both lines with: as NAME")
    return found


def _by_name(machines: list[Machine]) -> dict[str, str]:
    """The address of each machine by its name.

    A machine without a name is called by its host. If two executors run on one host, the second is called by its
    address. So is a machine whose host is the name of another one. Raises RecruitError if two have the same name.
    """
    given = {machine.name for machine in machines}
    found: dict[str, str] = {}
    for machine in machines:
        name = machine.name or machine.host
        if machine.name and name in found:
            raise RecruitError(f"two machines are called {name}: {found[name]} and {machine.address}")
        if not machine.name and (name in given or name in found):
            name = machine.address
        found[name] = machine.address
    return found
