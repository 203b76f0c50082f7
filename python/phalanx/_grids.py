"""The grids with a hub that this account has joined, and their machines as the hub names them.

Each grid has a folder, ``grids/GRID`` in :func:`home`, for this account alone:

- ``grid.json``: the name of the grid, the addresses of its hubs, and the fingerprint of its root's certificate
- ``user.pem``, ``executor.pem``: whichever this account has
- ``hubs.txt``: where the hubs are, as the executor keeps it
- ``members.json``: the hub's last answer, for when no hub answers
- ``revoked.txt``, ``renewed.pem``, ``known_members``: as beside every identity file
- ``listening.json``: where the hub or the executor listens that this account starts, and the labels of the machine
- ``rules.json``: when the executor that this account starts works for others
- ``limits.json``: what users may use of the machine, as its owner has said it
- ``root.pem``: the certificate of the grid's root, for clients that speak HTTPS, once it was asked for
- ``hub``: the hub's own files, where this account has one
"""

from __future__ import annotations

import base64
import copy
import json
import logging
import os
import re
import shlex
import stat
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from phalanx import _native
from phalanx._identities import (
    EXECUTOR,
    GRID,
    GRIDS,
    RENEWED,
    USER,
    Dialler,
    dialler,
    has_identity,
    home,
    is_joined,
    joined_names,
    read_identity,
    read_private,
    several_joined,
)
from phalanx.errors import ContractError, IdentityError, RecruitError, SpaceError
from phalanx.hosts import PORT, Hosts, Lan, Machines, is_file, read_hosts
from phalanx.lan import LanHosts, find
from phalanx.members import AT_HUB, LEADS, Member, from_json, is_address, is_name, members_of, to_json
from phalanx.requirements import Needs, read_labels
from phalanx.words import StrPath

if TYPE_CHECKING:
    from phalanx.status import GridStatus

#: The folder of the roots of grids that this account has founded, in :func:`home`.
AUTHORITIES = "authorities"
#: Further files of a grid's folder, and the folder of its hub.
MEMBERS, LISTENING, HUBS, HUB = "members.json", "listening.json", "hubs.txt", "hub"
#: The certificate of the root alone.
ROOT = "root.pem"
#: The identity of a hub, in its folder.
HUB_IDENTITY = "hub.pem"
#: The end of addresses by which members are called instead of where they are: no domain of the internet has it.
_DOMAIN = ".phalanx"
#: Seconds between two questions whether a machine has come that has what is needed.
_ASKED_AGAIN = 1.0
#: Longest file that is read, in bytes: 100 000 members need 40 MB.
_LONGEST = 64 << 20
#: The file that keeps room while a token is used, and its length in bytes. The files of a new member have some 10 KB.
_ROOM, _ROOM_LENGTH = ".room", 64 << 10
#: Most hubs of a grid.
_MOST_HUBS = 64
#: Most addresses of hubs that are kept when they change.
MOST_ADDRESSES = 8

_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)

_log = logging.getLogger("phalanx")


class Joined(NamedTuple):
    """A grid that this account has joined.

    ``name``: what this account calls it. ``grid``: what its hub calls it. ``root``: the SHA-256 fingerprint of the
    root's certificate, as hexadecimal digits.
    """

    name: str
    folder: Path
    grid: str
    hubs: tuple[str, ...]
    root: str

    @property
    def user(self) -> Path:
        """The identity file of this account's person in the grid."""
        return self.folder / USER

    @property
    def executor(self) -> Path:
        """The identity file of this account's executor in the grid."""
        return self.folder / EXECUTOR

    @property
    def hub(self) -> Path:
        """The folder of the hub that this account has, if it has one."""
        return self.folder / HUB


class Listening(NamedTuple):
    """Where a hub or an executor listens, by which hosts others reach it (none: those of the machine), and the labels
    that the owner has given to the machine."""

    address: str
    advertised: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


class DamagedGridError(IdentityError):
    """The file that tells a grid is damaged, so that its name is all that is known of it."""


class JoinedHosts(Hosts):
    """The executors of a grid with a hub that run now.

    ``away`` has the executors that do not run, by name. ``at_hub`` is the address of the executor that the hub's
    machine has, if it runs: spaces that are named without a machine are there. ``needs`` is what all of these machines
    have, and those that come later must have.
    """

    needs: Needs = Needs()

    def __init__(self, joined: Joined, members: Iterable[Member]) -> None:
        executors = [member for member in members if member.role == "executor"]
        self._direct = {it.name: it.address for it in executors if it.is_here and it.address is not None}
        self.path, self.trusted, self.joined, self.growing = None, [], joined, joined.name
        self.machines = {name: f"{name}.{joined.name}{_DOMAIN}:{PORT}" for name in self._direct}
        self.addresses = list(self.machines.values())
        self.certificates = {at: name for name, at in [*self.machines.items(), *self._direct.items()]}
        self.away = {it.name: it for it in executors if it.name not in self._direct}
        self.facts = {it.name: it.facts for it in executors}
        at_hub = (it.name for it in executors if it.name in self._direct and AT_HUB in it.facts)
        self.at_hub = self.machines.get(next(at_hub, ""))

    def to_recruit(self) -> list[str]:
        """The addresses of all executors that run. Raises RecruitError if there is none."""
        if not self.addresses:
            raise RecruitError(f"no executor of the grid {self.joined.name} runs now; {self._advice()}")
        return self.addresses

    def address(self, machine: str) -> str:
        """The address of a member that runs, or of any ``host:port``. Raises RecruitError for another name."""
        if ":" in machine or machine in self.machines:
            return super().address(machine)
        return self._known(machine)

    def only(self, names: Iterable[str]) -> JoinedHosts:
        """The machines with these names. Raises RecruitError for a name of none that runs."""
        chosen, hosts = super().only(names), copy.copy(self)
        hosts.addresses, hosts.machines, hosts.certificates = chosen.addresses, chosen.machines, chosen.certificates
        hosts.at_hub = self.at_hub if self.at_hub in chosen.addresses else None
        hosts.growing = None
        return hosts

    def meeting(self, needs: Needs, identity: StrPath | None = None) -> JoinedHosts:
        """The machines that have what is needed. Their executors say which programs they find.

        If none has it, and the needs say so, this waits for one that has, and logs what it waits for.

        Raises
        ------
        RecruitError
            None has it. The error says which need no machine meets.
        """
        hosts, until, said = self, time.monotonic() + needs.wait, ""
        while True:
            try:
                return hosts._meeting(needs, identity)
            except RecruitError as error:
                left = until - time.monotonic()
                if left <= 0:
                    raise
                if str(error) != said:
                    said = str(error)
                    _log.warning("waiting for a machine, for %.0f s at most: %s", left, said)
            time.sleep(min(left, _ASKED_AGAIN))
            hosts = self._now(identity) or hosts

    def now(self, identity: StrPath | None) -> JoinedHosts:
        """Those that run now, and have what is needed. Raises RecruitError if no hub answers, or no machine has it."""
        hosts = self._now(identity)
        if hosts is None:
            raise RecruitError(f"no hub of the grid {self.joined.name} answers")
        return hosts._meeting(self.needs, identity) if self.needs != Needs() else hosts

    def _now(self, identity: StrPath | None) -> JoinedHosts | None:
        """The same machines as the hub names them now. None: no hub answers."""
        try:
            hosts = JoinedHosts(self.joined, ask_members(self.joined, identity))
        except RecruitError:
            return None
        if self.growing is None:  # only some machines of the grid are meant
            hosts = hosts.only(name for name in self.machines if name in hosts.machines)
        return hosts

    def _meeting(self, needs: Needs, identity: StrPath | None) -> JoinedHosts:
        self.to_recruit()
        facts = self.facts
        if needs.software:
            found = find_members(self.joined, identity, needs.software)
            facts = {it.name: it.facts for it in found if it.role == "executor"}
        running = [(name, facts.get(name, {})) for name in self.machines]
        names, why = _native.meet_needs(self.joined.name, needs.native(), running)
        if why is not None:
            raise RecruitError(f"{why}; {self._advice()}")
        hosts = self.only(names)
        hosts.growing, hosts.needs = self.growing, needs
        return hosts

    def elsewhere(self) -> dict[str, str]:
        """Where the executors are, for processes that do not know the hub. Those behind a firewall are not reached
        there."""
        return {name: self._direct[name] for name in self.machines}

    def space_address(self, space: str) -> str:
        """Where a space is that is named without a machine. Raises SpaceError if the hub's machine has no executor that
        runs: in another place, the space would be another one."""
        if self.at_hub is None:
            grid = self.joined.name
            raise SpaceError(
                f"no executor runs at the hub of the grid {grid}, where {space} would be: name a member, as in "
                f"MEMBER/{space}; the members are shown by: phalanx members --grid {grid}"
            )
        return f"{self.at_hub}/{space}"

    def _known(self, name: str) -> str:
        grid = self.joined.name
        if (member := self.away.get(name)) is not None:
            since = f"{member.since.astimezone():%Y-%m-%d %H:%M:%S}"
            advice = f"start it there: phalanx join {self.joined.grid}"
            raise RecruitError(f"{name} is a member of the grid {grid}, and does not run since {since}; {advice}")
        if name not in self.machines:
            raise RecruitError(f"no executor of the grid {grid} is called {name!r}; {self._advice()}")
        return self.machines[name]

    def _advice(self) -> str:
        return f"the members are shown by: phalanx members --grid {self.joined.name}"

    def __repr__(self) -> str:
        return f"JoinedHosts({self.joined.name!r}, {list(self.machines)!r})"


def folder_of(name: str) -> Path:
    """The folder of a grid, which may not exist. Raises IdentityError for what is no name of a grid."""
    if not is_name(name):
        raise IdentityError(f"{name!r} is no name of a grid: it has small letters, digits and hyphens, 63 at most")
    return home() / GRIDS / name


def read_joined(name: str) -> Joined:
    """The grid of a name. Raises IdentityError if this account has not joined it, or its folder is damaged."""
    folder = folder_of(name)
    if not is_joined(name):
        known = ", ".join(joined_names())
        others = f"it has joined {known}" if known else "it has joined none"
        raise IdentityError(
            f"this account has joined no grid called {name} ({others}); join one with: phalanx join TOKEN, or begin "
            f"one with: phalanx up --grid {name}"
        )
    _check_folder(folder)
    file = folder / GRID
    told = _read_json(file)
    if not isinstance(told, dict):
        raise _damaged(file, "it has no object")
    grid, hubs, root = told.get("grid"), told.get("hubs"), told.get("root")
    if not (isinstance(grid, str) and is_name(grid)):
        raise _damaged(file, "it has no name of a grid")
    if not (isinstance(hubs, list) and 0 < len(hubs) <= _MOST_HUBS and all(map(_is_hub, hubs))):
        raise _damaged(file, "it has no addresses of hubs")
    if not (isinstance(root, str) and len(root) == 64 and set(root) <= set("0123456789abcdef")):
        raise _damaged(file, "it has no fingerprint of a root")
    for identity in (folder / USER, folder / EXECUTOR, folder / HUB / HUB_IDENTITY):
        _check_root(file, root, identity)
    further = [hub for hub in _kept_by_executor(folder) if hub not in hubs]
    return Joined(name, folder, grid, (*hubs, *further[: max(0, MOST_ADDRESSES - len(hubs))]), root)


def fingerprint_of_root(identity: str) -> str:
    """The SHA-256 fingerprint of the last certificate in an identity file, which is the root's. Raises ValueError if it
    has none."""
    import hashlib  # takes 2 ms, which a program of one machine does not need

    *_, last = _CERTIFICATE.findall(identity)
    return hashlib.sha256(base64.b64decode(last)).hexdigest()


def root_file(joined: Joined) -> Path:
    """The file with the certificate of a grid's root, as programs want it that know only certificates. It is made when
    it is first asked for."""
    file = joined.folder / ROOT
    if not file.exists():
        *_, last = _CERTIFICATE.findall(read_private(joined.user, "identity", ""))
        written = file.with_suffix(".new")
        written.write_text(f"-----BEGIN CERTIFICATE-----{last}-----END CERTIFICATE-----\n", encoding="ascii")
        written.replace(file)
    return file


def _check_root(file: Path, root: str, identity: Path) -> None:
    """Raises IdentityError if the file of a grid names another root than the certificates of an identity file. What
    cannot be read is said by the command that needs it."""
    try:
        found = fingerprint_of_root(identity.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return
    if found != root:
        raise DamagedGridError(
            f"{file} names the root {root[:16]}…, and the certificate in {identity} is of the root {found[:16]}…; if "
            f'the certificate is the right one, write there "root": "{found}"; if not, {_again(file)}'
        )


def _kept_by_executor(folder: Path) -> list[str]:
    """Where the hubs are, as the executor keeps it, which hears of them while it runs."""
    file = folder / HUBS
    if not file.exists() or file.stat().st_size > _LONGEST:
        return []
    return [hub for hub in file.read_text(encoding="utf-8", errors="replace").split() if _is_hub(hub)]


def one_joined(name: str | None) -> Joined:
    """The grid that the user names, or the only one that this account has joined. Raises IdentityError if there are
    none or several."""
    return read_joined(only_joined() if name is None else name)


def only_joined() -> str:
    """The name of the only grid that this account has joined. Raises IdentityError if there are none or several."""
    names = joined_names()
    if not names:
        raise IdentityError(
            "this account has joined no grid: join one with the line that its hub printed, phalanx join TOKEN, or "
            "begin one with: phalanx up"
        )
    if len(names) > 1:
        raise IdentityError(several_joined(names))
    return names[0]


def default_grid() -> str | None:
    """The only grid that this account has joined, which commands mean that name no machines and no identity. None: the
    account has an identity outside of joined grids, has joined no grid, or acts for a user. Raises IdentityError if it
    has joined several."""
    if _native.acts_at() is not None or has_identity(USER) or not joined_names():
        return None
    return one_joined(None).name


def write_joined(joined: Joined) -> None:
    """Writes what tells a grid, and makes its folder if it is missing."""
    make_folder(joined.folder)
    told = {"grid": joined.grid, "hubs": [*joined.hubs], "root": joined.root}
    replace(joined.folder / GRID, json.dumps(told, indent=2) + "\n")


def make_folder(folder: Path) -> None:
    """Makes a folder for this account alone, and those above it."""
    try:
        for it in (*reversed(folder.parents), folder):
            it.mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise IdentityError(f"{folder} cannot be made: {error}") from None


@contextmanager
def room_in(folder: Path) -> Iterator[None]:
    """Keeps room on the disk for a new member's files, which are written after this. Raises IdentityError if there is
    none: a token that was used before is lost, and the hub has a member without a key."""
    file = folder / _ROOM
    try:
        try:
            with file.open("wb") as opened:
                opened.write(os.urandom(_ROOM_LENGTH))  # zeros take no room on some file systems
                opened.flush()
                os.fsync(opened.fileno())
        except OSError as error:
            why = f"{folder} has no room for the files of a member: {error.strerror}"
            raise IdentityError(f"{why}; the token was not used") from None
        yield
    finally:
        file.unlink(missing_ok=True)


def replace(file: Path, text: str) -> None:
    """Writes a file for this account alone in one step. A reader never finds half of it."""
    with _native.LockedFolder(file.parent) as locked:
        locked.replace(file, text)


def read_settings(file: Path) -> Any:
    """What a file of settings tells; None: there is no such file. Raises DamagedGridError if it has no JSON."""
    return _read_json(file) if file.exists() else None


def read_listening(joined: Joined) -> Listening | None:
    """Where what this account starts for the grid listened last; None: it was not started yet."""
    file = joined.folder / LISTENING
    if not file.exists():
        return None
    told = _read_json(file)
    address, advertised = (told.get("address"), told.get("advertised")) if isinstance(told, dict) else (None, None)
    if not isinstance(address, str) or not isinstance(advertised, list):
        raise _damaged(file, "it has no address")
    try:
        return Listening(address, (*map(str, advertised),), read_labels(told.get("labels", ())))
    except ContractError as error:
        raise _damaged(file, str(error)) from None


def write_listening(joined: Joined, listening: Listening) -> None:
    """Keeps where something listens, for its next start."""
    told = {"address": listening.address, "advertised": [*listening.advertised], "labels": [*listening.labels]}
    replace(joined.folder / LISTENING, json.dumps(told) + "\n")


def good_identity(joined: Joined, file: Path) -> str:
    """The text of an identity file of a grid, after the hub has renewed what is in the last third of its life.

    Raises
    ------
    IdentityError
        There is no such file, it is damaged, or its certificate has ended and is not renewed.
    """
    role = file.stem if file.parent == joined.folder else "user"
    advice = f"an owner of the grid prints the line that makes one of its {role}s: phalanx invite --role {role}"
    text, ended = read_private(file, "identity", advice), None
    try:
        if (renewed := file.with_name(RENEWED)).exists():
            text = _native.renew_identity(text, file, [renewed])
        if _native.check_member(text, os.fspath(file))[2] is None:
            return text
    except IdentityError as error:
        ended = error
    try:
        new = _native.hub_renew(text, os.fspath(file), [*joined.hubs])
    except RecruitError as error:
        if ended is None:
            return text
        raise IdentityError(f"{ended}. A hub renews it by itself, but none answers: {error}") from None
    if new is None:
        if ended is not None:
            raise ended
        return text
    if read_private(file, "identity", advice) != new:
        replace(file, new)
    return new


def dialler_of(joined: Joined, identity: StrPath | None = None) -> tuple[Dialler, list[str]]:
    """Who asks the hub, as the native core reads it, and the addresses of the hubs."""
    file = joined.user if identity is None else Path(identity)
    return dialler(good_identity(joined, file), file, {}), [*joined.hubs]


def ask_members(joined: Joined, identity: StrPath | None = None, programs: Iterable[str] = ()) -> list[Member]:
    """The members, as a hub names them now. Facts of executors that run tell which of the programs they find. Raises
    RecruitError if no hub answers."""
    found = members_of(_native.hub_members(*dialler_of(joined, identity), [*programs]))
    try:
        _keep_members(joined, found)
    except (IdentityError, OSError) as error:  # the disk is full, for example; the answer is of use all the same
        warnings.warn(f"the hub's answer is not kept for times when no hub answers: {error}", stacklevel=2)
    return found


def _keep_members(joined: Joined, found: list[Member]) -> None:
    """Keeps the members, and where the hubs are."""
    _keep_hubs(joined, found)
    text = json.dumps([to_json(member) for member in found]) + "\n"
    file = joined.folder / MEMBERS
    if file.exists() and file.read_text(encoding="utf-8", errors="replace") == text:
        os.utime(file)  # its time is that of the last answer; to write it anew would wait for the disk
    else:
        replace(file, text)


def last_members(joined: Joined) -> list[Member]:
    """The members that a hub has named last; none if that is not known."""
    file = joined.folder / MEMBERS
    return _last_members(file) if file.exists() else []


def _keep_hubs(joined: Joined, found: Iterable[Member]) -> None:
    """Keeps where the hubs are, if there are several: the one that leads first."""
    hubs = [it for it in found if it.role == "hub" and it.address is not None and _is_hub(it.address)]
    if len(hubs) < 2:
        return
    hubs.sort(key=lambda it: it.facts.get(LEADS) != "yes")
    told = [it.address for it in hubs if it.address is not None]
    kept = (*told, *(hub for hub in joined.hubs if hub not in told))[:MOST_ADDRESSES]
    if {*kept} != {*joined.hubs}:
        write_joined(joined._replace(hubs=kept))


def find_members(joined: Joined, identity: StrPath | None = None, programs: Iterable[str] = ()) -> list[Member]:
    """The members, as a hub names them. If no hub answers, those that one named last, with a warning."""
    try:
        return ask_members(joined, identity, programs)
    except RecruitError as error:
        file = joined.folder / MEMBERS
        if not file.exists():
            raise
        when = datetime.fromtimestamp(file.stat().st_mtime, timezone.utc).astimezone()
        text = (
            f"no hub of the grid {joined.name} answers, so its members are those of {when:%Y-%m-%d %H:%M:%S}: {error}"
        )
        warnings.warn(text, stacklevel=2)
        return _last_members(file)


def read_status(joined: Joined, identity: StrPath | None = None) -> GridStatus:
    """What the executors of a grid run, and what its hub relays. Raises RecruitError if no hub answers."""
    from phalanx.status import status_of  # dataclasses are slow to import

    return status_of(joined.name, *_native.hub_status(*dialler_of(joined, identity)))


def machines_of(name: str, identity: StrPath | None = None) -> JoinedHosts:
    """The machines of a joined grid that run now. Raises IdentityError if there is no such grid."""
    joined = read_joined(name)
    hosts = JoinedHosts(joined, find_members(joined, identity))
    who, hubs = dialler_of(joined, identity)
    _native.guide_to(who, joined.name, hubs, hosts.elsewhere())
    return hosts


def with_needs(hosts: Hosts | None, needs: Needs | None, identity: StrPath | None) -> Hosts | None:
    """The machines that have what is needed.

    Raises
    ------
    ContractError
        These are no needs, or the machines are not those of a joined grid.
    RecruitError
        No machine has it.
    """
    if needs is None:
        return hosts
    if not isinstance(needs, Needs):
        raise ContractError(f"{needs!r:.80} are no needs: write needs=px.needs(cores=2, software='ffmpeg')")
    if not isinstance(hosts, JoinedHosts):
        raise ContractError(
            "needs are for a grid with a hub, which knows what its members have: name one that you have joined, as in "
            "px.Grid('lab')"
        )
    return hosts.meeting(needs, identity)


def member_at(address: str) -> str:
    """The name of the member that an address names, as ``ws7.lab.phalanx:7400`` does; another address as it is."""
    host = address.rpartition(":")[0]
    return host.partition(".")[0] if host.endswith(_DOMAIN) else address


def find_on_lan(lan: Lan, identity: StrPath | None = None) -> LanHosts:
    """The executors of the user's grid on the local network. The user is the one of ``identity``, or of the joined grid
    that is named."""
    if lan.grid is None:
        return find(lan, dialler(read_identity(identity, USER), identity, {}))
    joined = read_joined(lan.grid)
    file = joined.user if identity is None else Path(identity)
    return find(lan, dialler(good_identity(joined, file), file, {}))


def read_machines(machines: Machines | None, identity: StrPath | None = None) -> Hosts | None:
    """The machines that a user named, as :func:`read_hosts` reads them, by the name of a joined grid, or those of the
    local network.

    An existing file comes first, then a text with a comma or a colon, then a joined grid.
    """
    if isinstance(machines, Lan):
        return find_on_lan(machines, identity)
    if isinstance(machines, str) and names_grid(machines):
        return machines_of(machines, identity)
    try:
        return read_hosts(machines)
    except RecruitError as error:
        if not isinstance(machines, str) or not is_name(machines) or is_file(machines):
            raise
        known = ", ".join(joined_names()) or "none"
        raise RecruitError(f"{error}; and no joined grid is called so (joined: {known})") from None


def names_grid(text: str) -> bool:
    """Whether a text is the name of a joined grid, and of no file."""
    return is_joined(text) and not is_file(text)


def _last_members(file: Path) -> list[Member]:
    told = _read_json(file)
    if not isinstance(told, list):
        raise _damaged(file, "it has no list")
    try:
        return [from_json(one) for one in told]
    except IdentityError as error:
        raise _damaged(file, str(error)) from None


def _is_hub(text: object) -> bool:
    return isinstance(text, str) and is_address(text)


def _read_json(file: Path) -> Any:
    """What a file has as JSON. Its text is bounded."""
    try:
        if file.stat().st_size > _LONGEST:
            raise _damaged(file, f"it is longer than {_LONGEST >> 20} MB")
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise IdentityError(f"{file} cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(file, str(error)) from None


def _damaged(file: Path, why: str) -> IdentityError:
    """The error of a file that this account has not written, or that was cut."""
    if file.name == GRID:
        return DamagedGridError(f"{file} is damaged: {why}; {_again(file)}")
    return IdentityError(f"{file} is damaged: {why}; {_ANEW[file.name]}")


def _again(file: Path) -> str:
    """What to do about a damaged file of a grid."""
    if (file.parent / HUB).is_dir():
        return "put back a copy of it, because this machine is a hub of the grid"
    return f"leave the grid with phalanx leave {file.parent.name}, and join it again: phalanx join TOKEN"


#: What to do about damaged files.
_ANEW = {
    MEMBERS: "remove it, and the hub is asked again",
    LISTENING: "remove it, and say where to listen: --listen HOST:PORT",
}


def _check_folder(folder: Path) -> None:
    """Raises IdentityError if other accounts may replace what is in a grid's folder, or the folder itself."""
    if os.name != "posix":
        return
    found = folder.stat()
    if found.st_mode & 0o022:
        raise _open_to_others(folder, found, "700")
    for above in (folder.parent, folder.parent.parent):
        found = above.stat()
        # In a sticky folder, others replace nothing. Group 0 is root's: the home folder of a container is open to it.
        others = 0o002 if found.st_gid == 0 else 0o022
        if found.st_mode & others and not found.st_mode & stat.S_ISVTX:
            raise _open_to_others(above, found, "go-w")


def _open_to_others(folder: Path, found: os.stat_result, mode: str) -> IdentityError:
    return IdentityError(
        f"other accounts may replace the files in {folder} (mode {found.st_mode & 0o777:03o}); mend that with: "
        f"chmod {mode} {shlex.quote(os.fspath(folder))}"
    )
