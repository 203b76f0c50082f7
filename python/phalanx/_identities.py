"""Who the user or the machine is: identity files, and what lies beside them."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from phalanx import _native
from phalanx.errors import IdentityError
from phalanx.members import is_name
from phalanx.words import Service, StrPath

#: The file, beside an identity, of the members that answered first at addresses without a name.
KNOWN = "known_members"
#: The list of revoked certificates, beside an identity or a hosts file.
REVOKED = "revoked.txt"
#: The renewed certificates, beside an identity or a hosts file.
RENEWED = "renewed.pem"
#: The identity files of a user and of an executor, in :func:`home`.
USER, EXECUTOR = "user.pem", "executor.pem"
#: The folder of joined grids in :func:`home`, and the file in each grid's folder that tells the grid.
GRIDS, GRID = "grids", "grid.json"


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
        raise IdentityError(f"{_user()} has no home folder on this machine; {advice}") from None


def _user() -> str:
    return "this user" if sys.platform == "win32" else f"user {os.getuid()}"


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


def own_identity(default: str) -> str | None:
    """The text of the identity file ``default`` in :func:`home`; None if the user has none."""
    return read_identity(None, default) if has_identity(default) else None


def has_identity(default: str) -> bool:
    """Whether the user has the identity file ``default`` in :func:`home`."""
    try:
        return (home() / default).exists()
    except PermissionError:  # the home folder belongs to another user, or there is none
        return False


def joined_names() -> list[str]:
    """The names of all grids that this account has joined."""
    try:
        found = [folder.name for folder in (home() / GRIDS).iterdir() if is_name(folder.name)]
    except (OSError, IdentityError):  # there is no such folder, or another account's, or no home folder
        return []
    return sorted(name for name in found if is_joined(name))


def is_joined(name: str) -> bool:
    """Whether this account has joined a grid that it calls so."""
    try:
        return is_name(name) and (home() / GRIDS / name / GRID).exists()
    except (OSError, IdentityError):
        return False


def several_joined(names: Iterable[str]) -> str:
    """What to do if the user has joined several grids and names none."""
    return f"this account has joined several grids: say which, with --grid {' or --grid '.join(names)}"


def read_private(file: Path, what: str, advice: str, *, own: bool = False) -> str:
    """The text of a file with a private key.

    Raises IdentityError if there is none, and if other users of this machine may read or change it. The error says
    ``what`` is not there and gives the ``advice``. ``own``: the file must be this account's, or root's, as secrets of
    Kubernetes are, because its author decides what this process does.
    """
    try:
        with file.open(encoding="ascii") as opened:
            found, text = os.fstat(opened.fileno()), opened.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise IdentityError(f"no {what} in {file} ({why}); {advice}") from None
    if os.name == "posix" and own and found.st_uid not in (0, os.geteuid()):
        raise IdentityError(f"{file} is the {what} of another account (number {found.st_uid}); {advice}")
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
    elif default == USER and path is None and (names := joined_names()):
        advice = several_joined(names)
        if len(names) == 1:
            advice = f"this account has joined the grid {names[0]}: name it, with --grid {names[0]}"
        advice += f", or in a program as px.Grid({names[0]!r})"
    text = read_private(file, "identity", advice)
    if (renewed := file.with_name(RENEWED)).exists():
        text = _native.renew_identity(text, file, [renewed])
    _, name, end = _native.check_member(text, os.fspath(file))
    if end and warns:
        renew = f"on the machine of the grid's authority: phalanx grid renew {name}"
        if _has_hub(file):
            renew = "a hub of the grid renews it as soon as one answers"
        warnings.warn(f"{file}: the certificate of {name} ends on {end}; {renew}", stacklevel=2)
    return text


def _has_hub(identity: Path) -> bool:
    """Whether an identity file lies in the folder of a grid that was joined by a token."""
    return identity.with_name(GRID).exists()


def _advice(machine: str, path: StrPath | None, service: Service | None) -> str:
    """What to do about a missing identity in a process that runs for a user at an executor."""
    runs = f"this process runs at {machine} for a user, whose key stays where the user's program runs"
    if service is None:
        what = "managers and message passing programs need that key; spaces and copies can be delegated"
        return f"{runs}; {what}; {_native.how_to_delegate('all')}"
    if path is not None and _native.acts_for(service):
        return f"{runs}; {service} are delegated to this process: leave identity= out"
    return f"{runs}, and who delegated no {service} to it; {_native.how_to_delegate(service)}"
