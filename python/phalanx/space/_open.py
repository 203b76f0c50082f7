"""Opens the engine for an address."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from phalanx import _native
from phalanx._grids import JoinedHosts, member_at, names_grid
from phalanx._native import LocalSpace
from phalanx._reach import Reach, dialler_if_any, programs_machines
from phalanx.errors import SpaceError
from phalanx.hosts import Hosts, is_file, read_hosts, with_port
from phalanx.security import Rules
from phalanx.space._card import Card
from phalanx.space._elsewhere import is_at_machine, open_elsewhere
from phalanx.space._engine import Engine, Over
from phalanx.space._members import Members
from phalanx.space._options import check_options
from phalanx.space._placement import placement
from phalanx.space._replicas import Replicas
from phalanx.space._spread import Spread
from phalanx.words import Policy, StrPath

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.space_was_forked)


#: The options of a space that say how its servers are reached.
_LINKS = ("identity", "policy", "trusted", "certificates", "hosts_file")
#: Maximum seconds that the end of this process waits until durable spaces know which tuples were taken here.
LAST = 5.0


@atexit.register
def _end_process() -> None:
    with suppress(KeyboardInterrupt):
        _native.end_spaces(LAST)


class ClosedEngine:
    """Replaces the engine of a closed space, so that its resources are freed."""

    def close(self) -> None:
        """Does nothing."""

    def __getattr__(self, name: str) -> Any:
        raise SpaceError("this space is closed")


def open_engine(address: str | None, objects: bool, options: dict[str, Any]) -> Engine:
    """The engine of the space at an address. Raises SpaceError if the address is invalid, or if the existing space was
    made with other options."""
    if address is None:
        return _here(objects, options)
    if (elsewhere := open_elsewhere(address, objects, options)) is not None:
        return elsewhere
    engine = _at_members(reach(address, objects, **options), address, objects, options)
    return _as_asked(engine, address, options)


def _at_members(engine: _native.RemoteSpace, address: str, objects: bool, options: dict[str, Any]) -> Engine:
    """The engine as it is, or for a replicated space an engine that follows the leader."""
    if not engine.members:
        return engine
    # The space exists now and its members know its options, so only the options of the links are needed.
    links = {word: options[word] for word in _LINKS if word in options}

    def again(seconds: float, lost: _native.RemoteSpace) -> _native.RemoteSpace:
        members = sorted(lost.members, key=lambda member: member == lost.place)  # the former leader is asked last
        return reach(address, objects, create=False, members=members, seconds=seconds, **links)

    return Replicas(engine, again)


def _here(objects: bool, options: dict[str, Any]) -> Engine:
    durable = options.get("durable")
    if durable is True:
        raise SpaceError('a durable space in this process needs a directory of its own: durable="PATH"')
    own = {name: value for name, value in options.items() if name != "durable"}
    if not durable:
        return _native.LocalSpace(own, objects)
    # With this identity the space asks other spaces how a common transaction has ended.
    kept = _native.LocalSpace(own, objects, os.fspath(durable), dialler=dialler_if_any(None, {}))
    return _as_asked(kept, f"in {os.fspath(durable)}", own)


def _as_asked(engine: Engine, name: str, options: dict[str, Any]) -> Engine:
    try:
        check_options(name, engine, options)
    except BaseException:
        engine.close()
        raise
    return engine


def reach(
    address: str,
    objects: bool,
    *,
    identity: StrPath | None = None,
    policy: Policy | Rules = "links",
    trusted: str | Iterable[str] = (),
    certificates: Mapping[str, str] | None = None,
    hosts_file: StrPath | None = None,
    create: bool = True,
    members: Sequence[str] = (),
    seconds: float = 30.0,
    **options: Any,
) -> _native.RemoteSpace:
    """Connects to a served space.

    ``identity``: the identity file of the user, by default user.pem in $PHALANX_HOME or ~/.phalanx, if it is there.
    ``policy``, ``trusted``: they decide the level of the link, as for a manager. ``certificates``: the name that the
    server at an address must prove. ``hosts_file``: beside it may lie a list of revoked certificates. ``create``:
    whether a missing space is made. ``members``: the servers of a replicated space; the leader is searched among them
    for ``seconds`` at most.
    Raises SpaceError if the server cannot be reached or refuses."""
    if not isinstance(options.get("durable", False), bool):
        raise SpaceError("a served space is kept in its server's directory: say durable=True")
    way = Reach.of(None, identity, policy, trusted)
    return _native.RemoteSpace(
        _as_the_program_names(address),
        options,
        objects,
        dialler=dialler_if_any(identity, certificates or {}, hosts_file),
        policy=way.words(),
        create=create,
        members=[_as_the_program_names(member) for member in members],
        seconds=seconds,
    )


def _as_the_program_names(address: str) -> str:
    """The address of a space, or of a server. In a process that acts for a user, a machine may have a name of the
    user's program."""
    known = programs_machines() if is_at_machine(address) else None
    if known is None:
        return address
    machine, slash, name = address.rpartition("/") if "/" in address else (address, "", "")
    return f"{known.machines.get(member_at(machine), machine)}{slash}{name}"


def replicas_of(address: str | None, replicas: int, members: Sequence[str]) -> tuple[str, list[str]]:
    """The address of a replicated space and its members: the first machines of a hosts file, or the machine of the
    address and ``members``. Raises SpaceError if their number is not ``replicas``."""
    if not isinstance(address, str) or not is_at_machine(address):
        raise SpaceError("replicas= is for spaces at HOST:PORT/NAME, or HOSTS_FILE/NAME: servers keep them together")
    place, _, name = address.rpartition("/")
    named = None if members else _named(address)
    machines = [place, *members] if named is None else named[:replicas]
    machines = list(dict.fromkeys(with_port(machine) for machine in machines))
    if len(machines) != replicas:
        raise SpaceError(f"{replicas} replicas need {replicas} members, but there are {len(machines)}: {machines}")
    return f"{machines[0]}/{name}", machines


def reach_any(address: str, **links: Any) -> _native.RemoteSpace:
    """Connects to an existing space. For ``HOSTS_FILE/NAME`` it may be at any of the machines."""
    address, links = in_joined_grid(address, links)
    first, *others = members_of(address) or [address]
    links = with_hosts(address, links)
    for other in others:
        try:
            return reach(first, False, create=False, **links)
        except SpaceError:
            first = other
    return reach(first, False, create=False, **links)


#: Beginnings of addresses on this machine.
_HERE = ("unix:", "127.", "localhost:", "[::1]:")


def members_of(address: str) -> list[str] | None:
    """The addresses that ``HOSTS_FILE/NAME`` stands for: a space with this name at each of the machines. None if there
    is no such file."""
    named, name = _named(address), address.rpartition("/")[2]
    return None if named is None else [f"{machine}/{name}" for machine in named]


def with_hosts(address: str, links: dict[str, Any]) -> dict[str, Any]:
    """The options of links, with what the file of ``HOSTS_FILE/NAME`` tells: the names in certificates, by address. As
    they are if there is no such file."""
    known = _hosts_of(address)
    if known is None:
        return links
    certificates = {**known.certificates, **links.get("certificates", {})}
    return {"hosts_file": known.path, **links, "certificates": certificates}


def in_joined_grid(address: str, links: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The address that ``GRID/NAME`` or ``GRID/MACHINE/NAME`` stands for in a grid that the user has joined, and the
    options of links, with what the grid tells. As they are if this account has joined no such grid."""
    grid, slash, name = address.partition("/")
    if not slash or not names_grid(grid) or _hosts_of(address) is not None:
        return address, links
    way = Reach.of(grid, links.get("identity"))
    assert isinstance(way.hosts, JoinedHosts)
    certificates = {**way.hosts.certificates, **links.get("certificates", {})}
    machine, slash, space = name.rpartition("/")
    place = f"{way.hosts.address(machine)}/{space}" if slash else way.hosts.space_address(name)
    return place, {**links, "identity": way.identity, "certificates": certificates}


def needs_grid(address: str) -> bool:
    """Whether only a grid that is named beside it tells where an address is: it is neither on this machine, nor at
    another kind of server, nor begins with a hosts file or the name of a joined grid."""
    is_said = names_grid(address.partition("/")[0]) or _hosts_of(address) is not None
    return is_at_machine(address) and not address.startswith(_HERE) and not is_said


def _named(address: str) -> list[str] | None:
    """The machines that HOSTS_FILE/NAME names, as HOST:PORT. None if there is no such file."""
    known = _hosts_of(address)
    return None if known is None else known.addresses


def _hosts_of(address: str) -> Hosts | None:
    file = address.rpartition("/")[0]
    return read_hosts(Path(file)) if file and is_file(file) else None


def open_former(address: str, options: dict[str, Any]) -> Engine:
    """Connects to an existing member of a spread space. It does not make a missing one."""
    links = {word: options[word] for word in _LINKS if word in options}
    return reach(address, False, create=False, **links)


def open_members(
    members: Sequence[str | Over], where: str, objects: bool, new_members: bool, options: dict[str, Any]
) -> Spread:
    """Opens one space over several members. Closing it does not close members that were open before."""

    def reach(address: str) -> Engine:
        return open_engine(address, objects, options)

    def reach_again(address: str) -> Engine:
        engine = reach(address)
        try:
            card.go_by(engine, address)
        except BaseException:
            engine.close()
            raise
        return engine

    names = [member if isinstance(member, str) else member.name for member in members]
    if len(set(names)) < len(names):
        raise SpaceError(f"a member is named twice among {', '.join(names)}")
    addresses = [member if isinstance(member, str) else None for member in members]
    engines: list[Engine] = []
    try:
        for member in members:
            engines.append(reach(member) if isinstance(member, str) else member.engine)
        own = next((at for at, engine in enumerate(engines) if isinstance(engine, LocalSpace)), None)
        here = next((at for at, name in enumerate(names) if name.startswith(_HERE)), None)
        placed = placement(where, names, own, here, objects)
        card = Card(names, where)
        card.agree(engines, names, anew=new_members, reach=partial(open_former, options=options))
        return Spread(Members(engines, addresses, reach_again), names, placed)
    except BaseException:
        Members(engines, addresses[: len(engines)], reach).close()
        raise
