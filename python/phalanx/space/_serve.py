"""Serving spaces to other processes and machines."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from phalanx import _native
from phalanx._identities import EXECUTOR, home, identity_file, own_identity, read_identity, revoked_lists
from phalanx.errors import IdentityError, PolicyError
from phalanx.security import Rules, policy_words
from phalanx.words import Policy, StrPath

#: Default limits as parts of the machine's memory: for all spaces together, for one of them, and for all messages that
#: have begun to arrive. One user's spaces may take three quarters of what all may: as much as one space.
_SPACES, _SPACE, _UNFINISHED = 2 / 3, 1 / 2, 1 / 4


def serving(
    *,
    accept: Iterable[str] = (),
    access: StrPath | None = None,
    creates: bool = True,
    spaces: int = 1000,
    sessions: int = 4096,
    directory: StrPath | None = None,
    most_bytes: int | None = None,
    most_memory: int | None = None,
    user_share: int = 25,
    most_unfinished: int | None = None,
) -> dict[str, Any]:
    """The options of a server, as the native core reads them.

    Parameters
    ----------
    accept
        Names of the users that it serves; all users if there are none.
    access
        A file of rules: which users may do what in which space.
    creates
        Whether a space is made when a client first names it.
    spaces, sessions
        Maximum numbers of spaces and of sessions.
    directory
        The folder of durable spaces. Without it there are none.
    most_bytes
        Maximum memory of one space in bytes.
    most_memory
        Maximum memory of all spaces together in bytes. One user's spaces may take up to three times what they leave.
    user_share
        The percentage of the common limits that one user may have.
    most_unfinished
        Maximum bytes of messages that have begun to arrive, of all clients together.
    """
    available = memory()
    return {
        "accepted": list(accept),
        "access": None if access is None else _read(access),
        "creates": creates,
        "spaces": spaces,
        "sessions": sessions,
        "user_share": user_share,
        "memory": most_memory if most_memory is not None else int(available * _SPACES),
        "unfinished": most_unfinished if most_unfinished is not None else int(available * _UNFINISHED),
        "directory": None if directory is None else os.fspath(directory),
        "most": {"most_bytes": most_bytes if most_bytes is not None else int(available * _SPACE)},
    }


def start(
    address: str,
    *,
    identity: StrPath | None = None,
    policy: Policy | Rules = "links",
    trusted: str | Iterable[str] = (),
    says: bool = False,
    **options: Any,
) -> _native.SpaceServer:
    """Starts a server at ``address``, ``"host:port"`` (port 0: any free one) or ``"unix:path"``.

    ``identity``: the identity file of the machine, by default executor.pem in $PHALANX_HOME or ~/.phalanx if it is
    there. Without an identity it serves only processes of this user on this machine. Raises SpaceError if it cannot
    listen.
    """
    text = read_identity(identity, EXECUTOR) if identity else own_identity(EXECUTOR)
    words = policy_words(policy, trusted)
    revoked = [] if text is None else revoked_lists(identity)
    file = None if text is None else identity_file(identity, EXECUTOR).absolute()
    serves = serving(**options)
    return _native.SpaceServer(
        address, identity_file=text, file=file, revoked=revoked, policy=words, serving=serves, says=says
    )


def directory_of(address: str) -> Path | None:
    """The default folder of the durable spaces of a server at ``address``: spaces/PORT in $PHALANX_HOME or ~/.phalanx.

    None for port 0, because that is another port each time, and for a user without a home folder.
    """
    if address.startswith("unix:"):
        name = quote(str(Path(address.removeprefix("unix:")).resolve()), safe="")
    else:
        name = address.rpartition(":")[2]
        name = name if name.isdecimal() else "7400"
        if not int(name):
            return None
    try:
        return home() / "spaces" / name
    except IdentityError:
        return None


def memory() -> int:
    """The memory that this process may use, in bytes: the machine's, or the least limit of its control groups.

    A guess of 8 GiB if the system does not tell.
    """
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        machine = 8 << 30
    return min([machine, *group_limits()])


def group_limits(groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """The limits of this process' control groups and of those around them, of version 2 and version 1."""
    try:
        lines = groups.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        if not path or (controllers and "memory" not in controllers.split(",")):
            continue
        top, name = (mounted / "memory", "memory.limit_in_bytes") if controllers else (mounted, "memory.max")
        inner = top / path.lstrip("/")
        for folder in (inner, *inner.parents):
            with contextlib.suppress(OSError, ValueError):  # no limit is the word max
                yield int((folder / name).read_text(encoding="ascii"))
            if folder == top:
                break


def _read(path: StrPath) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"the access rules in {path} cannot be read: {error}") from None
