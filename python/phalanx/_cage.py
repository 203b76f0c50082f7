"""The cage of an executor: what the processes that it starts for its users read, and what they must not."""

from __future__ import annotations

import os
import site
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from phalanx._accounts import check_accounts
from phalanx._commands import named_variables
from phalanx._identities import EXECUTOR, USER, home
from phalanx.errors import IdentityError, PolicyError
from phalanx.words import Cage, StrPath

#: Names of files that have private keys. Those of a hub are four folders down: ``grids/lab/hub/issuer.pem``.
_KEYS = {EXECUTOR, USER, "authority.pem", "hub.pem", "issuer.pem", "renewed.pem"}
_DEEPEST = 4
#: Most entries that the search looks at, the outer ones first: about a second.
_MOST_LOOKED = 100_000


def settings(
    kind: Cage | None,
    *,
    identity: StrPath | None,
    directory: StrPath | None,
    grants: Iterable[str],
    variables: Iterable[str],
    accounts: tuple[int, int] | None = None,
    allow_root: bool = False,
    limits: dict[str, int | None] | None = None,
    network: str = "all",
) -> dict[str, Any]:
    """The cage as the native core reads it.

    Parameters
    ----------
    kind
        What is kept apart at least, or exactly for ``"none"`` and ``"limits"``; None: the most that the kernel can.
    identity
        The identity file of the executor; None: the one in :func:`home`.
    directory
        The folder of durable spaces, if there is one.
    grants
        Paths that users' processes may open beside those of the system: ``"/data:ro"``, ``"/results:rw"``.
    variables
        Environment variables for users' processes: ``"NAME=VALUE"``, or ``"NAME"`` for what it is here.
    accounts
        The first and the last of the accounts of which each user gets one; None: users' processes have this one's.
    allow_root
        Whether users' processes may be root.
    limits
        What they may use of the machine, as :func:`phalanx.cli._limits.settings` makes it; None: there are no limits.
    network
        Where they may connect to: ``"none"``, ``"grid"``, ``"all"``, or hosts.

    Raises
    ------
    PolicyError
        A variable has no name, or processes of the accounts cannot run this Python.
    """
    if accounts:
        check_accounts(accounts, _python_folders())
    grants = [*grants]
    check_without_keys(grants, "grant")
    return {
        "kind": kind,
        "python": list(dict.fromkeys(_python_folders())),
        "private": [os.path.abspath(path) for path in _private(identity, directory)],  # noqa: PTH100 links are read later
        "home": _home(),
        "grants": grants,
        "accounts": accounts,
        "register": home() / "accounts.txt" if accounts else "",
        "allow_root": allow_root,
        "limits": limits,
        "network": network,
        "variables": list((_user_packages() | named_variables(variables, PolicyError)).items()),
    }


def check_without_keys(given: Iterable[str], verb: str) -> None:
    """Raises PolicyError if one of the folders that users get has a private key of phalanx.

    Parameters
    ----------
    given
        Folders or files with what users may do there, as ``"/data:ro"``.
    verb
        What the owner does with them.
    """
    for word in given:
        path = Path(word.rpartition(":")[0] or word)
        if (key := _key_beneath(path)) is not None:
            raise PolicyError(f"cannot {verb} {path}: {key} is a private key of phalanx, which users would read")


def _key_beneath(path: Path) -> Path | None:
    """A private key of phalanx at a path, or a few folders beneath it. Large trees of data are not searched whole."""
    left, looked = deque([(path, 0)]), 0
    while left and looked < _MOST_LOOKED:
        found, depth = left.popleft()
        looked += 1
        if found.name in _KEYS and found.is_file():
            with suppress(OSError):
                if "PRIVATE KEY" in found.read_text(errors="replace"):
                    return found
        if depth < _DEEPEST and (depth == 0 or not found.is_symlink()):
            with suppress(OSError):
                left += [(entry, depth + 1) for entry in islice(found.iterdir(), _MOST_LOOKED)]
    return None


def _python_folders() -> Iterator[str]:
    """The folders from which interpreters of this Python import, and those of their libraries."""
    yield from (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    yield os.path.dirname(os.path.realpath(sys.executable))  # noqa: PTH120
    # The first entry is the folder of the command, or the current folder. Interpreters do not import from there.
    is_safe = getattr(sys.flags, "safe_path", False)
    yield from sys.path[0 if is_safe else 1 :]
    yield str(Path(__file__).parents[1])
    yield from os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)


def _user_packages() -> dict[str, str]:
    """The variable that says where the owner's packages are, because users' processes have another home folder."""
    there = site.ENABLE_USER_SITE and site.USER_BASE
    return {"PYTHONUSERBASE": there} if there else {}


def _private(identity: StrPath | None, directory: StrPath | None) -> Iterator[StrPath]:
    with suppress(IdentityError):  # an account without a home folder has named both
        yield home()
        yield home() / EXECUTOR
    if account := _home():
        yield Path(account) / ".phalanx"
    yield from filter(None, (identity, directory))


def _home() -> str | None:
    try:
        return str(Path.home())
    except RuntimeError:  # an account without a home folder
        return None
