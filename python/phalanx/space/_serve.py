"""Serving spaces to other processes and machines."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from phalanx import _native
from phalanx.errors import IdentityError, PolicyError
from phalanx.hosts import home, own_identity, read_identity
from phalanx.security import Rules, policy_words

#: Parts of the machine's memory that one space, and all messages that have begun to arrive, may have if nobody says.
_HALF, _QUARTER = 2, 4


def serving(
    *,
    accept: Iterable[str] = (),
    access: str | os.PathLike[str] | None = None,
    creates: bool = True,
    spaces: int = 1000,
    sessions: int = 4096,
    directory: str | os.PathLike[str] | None = None,
    most_bytes: int | None = None,
    user_share: int = 25,
    most_unfinished: int | None = None,
) -> dict[str, Any]:
    """Whom a server serves, as the native core reads it. ``accept``: names of users, all if there are none; ``access``:
    a file of rules, who may do what in which space; ``creates``: whether a space is made when it is first named;
    ``spaces``, ``sessions``: how many at most; ``directory``: where durable spaces are kept, without one there are
    none; ``most_bytes``: memory of one space at most; ``user_share``: how many percent of what there is for all one
    user may have; ``most_unfinished``: bytes of messages that have begun to arrive, of all clients together."""
    return {
        "accepted": list(accept),
        "access": None if access is None else _read(access),
        "creates": creates,
        "spaces": spaces,
        "sessions": sessions,
        "user_share": user_share,
        "unfinished": most_unfinished if most_unfinished is not None else memory() // _QUARTER,
        "directory": None if directory is None else os.fspath(directory),
        "most": {"most_bytes": most_bytes if most_bytes is not None else memory() // _HALF},
    }


def start(
    address: str,
    *,
    identity: str | os.PathLike[str] | None = None,
    policy: str | Rules = "links",
    trusted: str | Iterable[str] = (),
    says: bool = False,
    **options: Any,
) -> _native.SpaceServer:
    """A server at ``address``, ``"host:port"`` (port 0: any free one) or ``"unix:path"``.

    ``identity``: the machine's, by default executor.pem in $PHALANX_HOME or ~/.phalanx if it is there; without one only
    this user's processes on this machine are served. Raises SpaceError where it cannot listen.
    """
    text = read_identity(identity, "executor.pem") if identity else own_identity("executor.pem")
    words = policy_words(policy, trusted)
    return _native.SpaceServer(address, identity_file=text, policy=words, serving=serving(**options), says=says)


def directory_of(address: str) -> Path | None:
    """The default folder of the durable spaces of a server at ``address``: spaces/PORT in $PHALANX_HOME or ~/.phalanx.

    None for port 0, which is another one each time, and for a user who has no home folder.
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
    """Bytes of memory that this machine has; a guess where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 8 << 30


def _read(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"the access rules in {path} cannot be read: {error}") from None
