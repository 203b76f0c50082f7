"""How the machines of a grid are reached: where they are, who the user is to them, and what links to them may be.

A :class:`phalanx.Grid` has one :class:`Reach`. Functions that take ``hosts``, ``identity``, ``policy`` and ``trusted``
make one of these four.
"""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from phalanx import _native
from phalanx.errors import IdentityError
from phalanx.hosts import Hosts, Machines, read_hosts, with_port
from phalanx.security import Rules, Words, listed, policy_words
from phalanx.words import Policy, Service, StrPath

_log = logging.getLogger("phalanx")

#: The file, beside an identity, of the members that answered first at addresses without a name.
KNOWN = "known_members"
#: The list of revoked certificates, beside an identity or a hosts file.
REVOKED = "revoked.txt"
#: The renewed certificates, beside an identity or a hosts file.
RENEWED = "renewed.pem"
#: The identity files of a user and of an executor, in :func:`home`.
USER, EXECUTOR = "user.pem", "executor.pem"
#: Maximum seconds that the end of this process waits until other members have its news of the grid, and it theirs. A
#: talk takes a few round trips; a longer one is taken up by the next command.
LAST = 2.0


@atexit.register
def _end_process() -> None:
    with suppress(KeyboardInterrupt):
        for unwritten in _native.finish_news(LAST):
            _log.warning("%s; other members bring it again", unwritten)


class Dialler(NamedTuple):
    """Who the user is, and whom the user expects, as the native core reads it.

    ``text`` is that of the identity file, or None for what the user has delegated to this process. ``certificates`` has
    the names in certificates by address. ``known`` is the file of the members that answered first at other addresses,
    and ``revoked`` are the files with lists of revoked certificates. ``machines`` are the addresses by name that
    processes get with what is delegated to them. ``file`` is the identity file.
    """

    text: str | None
    certificates: dict[str, str]
    known: str | None
    revoked: list[str]
    machines: dict[str, str]
    file: str | None


class Reach(NamedTuple):
    """The machines, the user's identity file, the policy, and trusted networks beside those of the machines."""

    hosts: Hosts | None = None
    identity: StrPath | None = None
    policy: Policy | Rules = "links"
    trusted: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        hosts: Machines | None = None,
        identity: StrPath | None = None,
        policy: Policy | Rules = "links",
        trusted: str | Iterable[str] = (),
    ) -> Reach:
        """Reads what the user named.

        Raises
        ------
        RecruitError
            A machine, or the file of machines, is wrong.
        PolicyError
            The policy is none.
        """
        known = read_hosts(hosts)
        policy_words(policy, ())
        return cls(known, identity, policy, (*listed(trusted),))

    @property
    def addresses(self) -> list[str]:
        """The addresses of all machines; none if it is this machine only."""
        return self.hosts.addresses if self.hosts else []

    def address(self, machine: str) -> str:
        """The address of a machine, from its name, its host, or an address with or without a port. In a process that
        acts for a user, names are those of the user's program unless this names machines."""
        hosts = self.hosts or programs_machines()
        return hosts.address(machine) if hosts else with_port(machine)

    def words(self) -> Words:
        """The policy with all trusted networks, as the native core reads it."""
        known = self.hosts.trusted if self.hosts else ()
        return policy_words(self.policy, dict.fromkeys((*self.trusted, *known)))

    def dialler(self, service: Service | None = None) -> Dialler:
        """The user's identity, and whom it expects; or what the user has delegated to this process of the ``service``
        that it is for. Raises IdentityError if there is none."""
        certificates, file = (self.hosts.certificates, self.hosts.path) if self.hosts else ({}, None)
        if self.identity is None and service is not None and _native.acts_for(service):
            return _acting(certificates)
        found = dialler(read_identity(self.identity, USER, service), self.identity, certificates, file)
        return found._replace(machines=self.hosts.machines if self.hosts else {})

    def options(self) -> dict[str, Any]:
        """The same as keyword arguments of functions that take all four."""
        return self._asdict()


def home() -> Path:
    """The folder of identity files: $PHALANX_HOME, or ~/.phalanx.

    Raises
    ------
    IdentityError
        The user has no home folder: $HOME is not set, and the system has no account for the user ID. That happens in
        containers that are started with an arbitrary user ID.
    """
    if named := os.environ.get("PHALANX_HOME"):
        return Path(named)
    try:
        return Path.home() / ".phalanx"
    except RuntimeError:
        advice = "name a folder for identities: export PHALANX_HOME=FOLDER"
        raise IdentityError(f"user {os.getuid()} has no home folder on this machine; {advice}") from None


def known_members(identity: StrPath | None) -> Path:
    """The file of known members of a user with this identity file: beside it."""
    return _folder(identity) / KNOWN


def revoked_lists(identity: StrPath | None, hosts: Path | None = None) -> list[str]:
    """The files that may hold a list of revoked certificates: beside an identity file, and beside a hosts file."""
    folders = [_folder(identity), *([hosts.absolute().parent] if hosts else [])]
    return [os.fspath(folder / REVOKED) for folder in dict.fromkeys(folders)]


def identity_file(identity: StrPath | None, default: str) -> Path:
    """Where the identity is: the file that the user named, or ``default`` in :func:`home`."""
    return home() / default if identity is None else Path(identity)


def _folder(identity: StrPath | None) -> Path:
    return home() if identity is None else Path(identity).absolute().parent


def dialler(text: str, identity: StrPath | None, certificates: Mapping[str, str], hosts: Path | None = None) -> Dialler:
    """The user whose identity file has this text, and the members that are expected. ``hosts``: the hosts file that
    names them."""
    known, file = os.fspath(known_members(identity)), os.fspath(identity_file(identity, USER).absolute())
    return Dialler(text, dict(certificates), known, revoked_lists(identity, hosts), {}, file)


def _acting(certificates: Mapping[str, str]) -> Dialler:
    """What the user has delegated to this process, which expects the members that the user's program expects."""
    return Dialler(None, {**_native.machines_given()[1], **certificates}, None, [], {}, None)


def programs_machines() -> Hosts | None:
    """The machines that the user's program has named to this process, which acts for the user. None: there are none."""
    machines, certificates = _native.machines_given()
    return Hosts.known(machines, certificates) if machines else None


def dialler_if_any(
    identity: StrPath | None, certificates: Mapping[str, str], hosts: StrPath | None = None
) -> Dialler | None:
    """The same, for spaces; None if the user named no identity file and has none."""
    if identity is None and _native.acts_for("spaces"):
        return _acting(certificates)
    text = read_identity(identity, USER, "spaces") if identity else own_identity(USER)
    return None if text is None else dialler(text, identity, certificates, Path(hosts) if hosts else None)


def own_identity(default: str) -> str | None:
    """The text of the identity file ``default`` in :func:`home`; None if the user has none."""
    try:
        there = (home() / default).exists()
    except PermissionError:  # the home folder belongs to another user, or there is none
        return None
    return read_identity(None, default) if there else None


def read_private(file: Path, what: str, advice: str) -> str:
    """The text of a file with a private key.

    Raises IdentityError if there is none, and if other users of this machine may read or change it. The error says
    ``what`` is not there and gives the ``advice``.
    """
    try:
        with file.open(encoding="ascii") as opened:
            found, text = os.fstat(opened.fileno()), opened.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise IdentityError(f"no {what} in {file} ({why}); {advice}") from None
    if os.name == "posix" and found.st_uid == os.geteuid() and found.st_mode & 0o077:
        raise IdentityError(
            f"{file} holds a private key, and other users may use it (mode {found.st_mode & 0o777:03o}); mend that "
            f"with: chmod 600 {shlex.quote(os.fspath(file))}"
        )
    return text


def read_identity(path: StrPath | None, default: str, service: Service | None = None, *, warns: bool = True) -> str:
    """The text of an identity file. Without a path, it is the file ``default`` in :func:`home`.

    If there is a newer certificate in the file of renewed ones beside it, the identity file gets it first. Raises
    IdentityError if there is none. ``service``: what it is for, if that can be delegated. ``warns``: of a certificate
    that is near its end."""
    file = identity_file(path, default)
    advice = (
        "name yours with --identity or identity=, or put it there; whoever keeps the grid makes one with: phalanx "
        f"grid issue --role {default.removesuffix('.pem')} NAME, and a grid with: phalanx grid create"
    )
    if default == USER and (machine := _native.acts_at()) is not None:
        advice = _advice(machine, path, service)
    text = read_private(file, "identity", advice)
    if (renewed := file.with_name(RENEWED)).exists():
        text = _native.renew_identity(text, file, [renewed])
    _, name, end = _native.check_member(text, os.fspath(file))
    if end and warns:
        renew = f"on the machine of the grid's authority: phalanx grid renew {name}"
        warnings.warn(f"{file}: the certificate of {name} ends on {end}; {renew}", stacklevel=2)
    return text


def _advice(machine: str, path: StrPath | None, service: Service | None) -> str:
    """What to do about a missing identity in a process that runs for a user at an executor."""
    runs = f"this process runs at {machine} for a user, whose key stays where the user's program runs"
    if service is None:
        what = "managers and message passing programs need that key; spaces and copies can be delegated"
        return f"{runs}; {what}; {_native.how_to_delegate('all')}"
    if path is not None and _native.acts_for(service):
        return f"{runs}; {service} are delegated to this process: leave identity= out"
    return f"{runs}, and who delegated no {service} to it; {_native.how_to_delegate(service)}"
