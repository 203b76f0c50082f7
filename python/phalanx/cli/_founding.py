"""How ``phalanx up`` begins a grid: its root, the issuer of its hub, and the first members."""

from __future__ import annotations

import getpass
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from phalanx import _native
from phalanx._grids import (
    AUTHORITIES,
    HUB,
    HUB_IDENTITY,
    Joined,
    fingerprint_of_root,
    folder_of,
    last_members,
    make_folder,
    replace,
    write_joined,
)
from phalanx._identities import EXECUTOR, USER, home, read_private
from phalanx.cli._joined import host_name, name_in
from phalanx.errors import IdentityError
from phalanx.members import Member, to_name

#: The file of a root's key, as `phalanx grid create` makes it.
AUTHORITY = "authority.pem"
#: The file of a hub's key that signs certificates of members.
ISSUER = "issuer.pem"
#: The file that a further hub has: the addresses of the hubs that there were when it joined.
JOINED = "joined"
#: Hours that the first certificates of members are good. Then the hub renews them.
_HOURS = 24.0


def authority_of(name: str) -> Path:
    """The folder of the root of a grid that this account has founded."""
    return home() / AUTHORITIES / name


def found(name: str, hubs: list[str]) -> Joined:
    """Makes the root of a new grid, the issuer of its hub, the hub, and the founder as its first user.

    The folder of the grid gets its name when everything is in it.

    Raises
    ------
    IdentityError
        There is a root of this name, or a folder cannot be written.
    """
    folder, root = folder_of(name), authority_of(name)
    if (root / AUTHORITY).exists():
        raise IdentityError(
            f"{root} has the root of a grid {name} that was begun before: name another grid with --grid, or remove "
            "that folder, after which nobody can make a hub of the earlier grid"
        )
    new, new_root = folder.with_name(f".{name}.new"), root.with_name(f".{name}.new")
    for unfinished in (new, new_root):  # of a founding that was cut off
        if unfinished.exists():
            shutil.rmtree(unfinished)
        make_folder(unfinished)
    make_folder(new / HUB)
    authority = _native.create_grid()
    replace(new_root / AUTHORITY, authority)
    issuer, hub = _native.found_grid(authority, os.fspath(root / AUTHORITY), None, host_name())
    replace(new / HUB / ISSUER, issuer)
    replace(new / HUB / HUB_IDENTITY, hub)
    replace(new / USER, _native.found_member(issuer, "user", owner_name(), _HOURS))
    write_joined(Joined(name, new, name, (*hubs,), fingerprint_of_root(hub)))
    new_root.rename(root)
    new.rename(folder)
    return Joined(name, folder, name, (*hubs,), fingerprint_of_root(hub))


def remove(joined: Joined) -> None:
    """Removes what :func:`found` has made, and the folders of all grids if there is no other one."""
    shutil.rmtree(joined.folder, ignore_errors=True)
    shutil.rmtree(authority_of(joined.name), ignore_errors=True)
    for folder in (joined.folder.parent, home() / AUTHORITIES):
        with suppress(OSError):  # there are others in it
            folder.rmdir()


def write_further(joined: Joined, issuer: str, identity: str, others: list[str]) -> None:
    """Writes the folder of a further hub. It gets its name when everything is in it."""
    new = joined.folder / f".{HUB}.new"
    if new.exists():
        shutil.rmtree(new)
    make_folder(new)
    replace(new / ISSUER, issuer)
    replace(new / HUB_IDENTITY, identity)
    replace(new / JOINED, "\n".join(others) + "\n")
    new.rename(joined.hub)


def make_member(joined: Joined, role: str, name: str) -> None:
    """Makes an identity file of a member of the hub on this machine, unless there is one whose certificate is good."""
    file = joined.folder / {"user": USER, "executor": EXECUTOR}[role]
    if file.exists() and _is_good(file):
        return
    issuer = read_private(joined.hub / ISSUER, "issuer", "the hub of this grid is on another machine")
    replace(file, _native.found_member(issuer, role, name, _HOURS))


def owner_name() -> str:
    """The login name, as a member can have it."""
    try:
        return to_name(getpass.getuser(), "user")
    except (KeyError, OSError):  # an account without a name; KeyError before Python 3.13
        return "user"


def _is_good(file: Path) -> bool:
    text = read_private(file, "identity", "")
    try:
        _native.check_member(text, os.fspath(file))
    except IdentityError:
        return False
    return True


def other_hubs(joined: Joined) -> list[str]:
    """Where the other hubs of a grid are, of which this machine is one, as far as that is known here."""
    further = joined.hub / JOINED
    known = further.read_text(encoding="utf-8").split() if further.exists() else []
    return [*dict.fromkeys([*other_hubs_in(joined, last_members(joined)), *known])]


def other_hubs_in(joined: Joined, members: Iterable[Member]) -> list[str]:
    """Where those hubs are that these members have beside this machine's."""
    own = name_in(read_private(joined.hub / HUB_IDENTITY, "identity", ""))
    return [it.address for it in members if it.role == "hub" and it.name != own and it.address is not None]
