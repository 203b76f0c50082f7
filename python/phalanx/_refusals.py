"""Refusals of a cage, explained.

The error of a task names the grant by which the machine's owner would open the path, or the account that may not open
it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from phalanx.words import StrPath

#: Effective rights count, where the system can tell them.
_EFFECTIVE = os.access in os.supports_effective_ids


#: Folders of the kernel's, which no grant opens.
_KERNELS = ("/proc", "/sys")
#: Devices that the grant ``gpu`` opens.
_GPU = re.compile(r"/dev/(nvidia|kfd$|dri/renderD|dxg$)")


def explain_refusal(
    error: BaseException,
    machine: str,
    opened: tuple[Sequence[StrPath], Sequence[StrPath]] | None,
    account: int | None = None,
) -> None:
    """Add to the message of a ``PermissionError`` what is missing: a grant, or a right of the account that tasks have.

    Errors with another cause are left as they are. They are about paths that the cage opens, or about files that the
    executor's account could not open anyway.

    Parameters
    ----------
    error
        What a task raised. The errors that led to it are looked at too.
    machine
        The name of the machine, for the message.
    opened
        The paths that the cage opens for reading, and those for writing too, each with everything beneath it, without
        symbolic links; None: there is no cage.
    account
        The account that tasks of this user run under; None: they run under the executor's.
    """
    readable, writable = ([os.fspath(path) for path in paths] for paths in opened or ((), ()))
    for one in _chain(error):
        if not isinstance(one, PermissionError) or one.errno != errno.EACCES:
            continue
        with suppress(OSError, TypeError, ValueError):
            if opened is not None and _say(one, machine, [*readable, *writable], writable):
                continue
            if account is not None and any(map(_is_closed, _names(one))):
                _add(one, f"tasks run under account {account} on {machine}, which may not do that there")


def _names(error: PermissionError) -> list[str]:
    return [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, (str, bytes))]


def _add(error: PermissionError, text: str) -> None:
    error.strerror = f"{error.strerror}: {text}"
    error.args = (error.errno, error.strerror)  # what is pickled


def _say(error: PermissionError, machine: str, readable: list[str], writable: list[str]) -> bool:
    grants = {grant for name in _names(error) if (grant := _missing(name, readable, writable)) is not None}
    if not grants:
        return False
    if opening := sorted(filter(None, grants)):
        options = " ".join(f"--grant {grant}" for grant in opening)
        cure = f"whose owner can open it for this: phalanx executor {options}"
    else:
        cure = "and write in a folder of their own, which TMPDIR names"
    _add(error, f"tasks run in a cage on {machine}, {cure}")
    return True


def _is_closed(name: str) -> bool:
    """Whether the account may not read the path, or may not change it, whatever the cage opens."""
    try:
        path = Path(name).resolve()
        there = path if path.exists() else path.parent
    except PermissionError:  # not even a folder on the way
        return True
    return not _is_within(str(path), _KERNELS) and not (_may(str(there), os.R_OK) and _may(str(there), os.W_OK))


def _missing(name: str, readable: list[str], writable: list[str]) -> str | None:
    """The grant that the cage lacks for a path, or "" if none can open it.

    None: the cage opens it, or the account itself has no right there."""
    found = Path(name).resolve()
    path, is_there = str(found), found.exists()
    if _is_within(path, _KERNELS):
        return None
    if is_there and _GPU.match(path):
        return None if _is_within(path, writable) or not _may(path, os.R_OK) else "gpu"
    folder = str(found.parent) if found.is_file() or not is_there else path
    grant = path if folder == os.sep else folder
    if _is_within(os.environ.get("TMPDIR", os.sep), [folder]):  # it is never granted: users' programs have theirs there
        grant = path if found.is_file() else ""
    if is_there and not _is_within(path, readable):
        return grant and f"{grant}:ro" if _may(path, os.R_OK) else None
    if _is_within(path, writable) or not _may(path if is_there else folder, os.W_OK):
        return None
    return grant and f"{grant}:rw"


def _chain(error: BaseException) -> Iterable[BaseException]:
    """The error, and those that led to it."""
    found: dict[int, BaseException] = {}
    following: BaseException | None = error
    while following is not None and id(following) not in found:
        found[id(following)] = following
        following = following.__cause__ or following.__context__
    return found.values()


def _is_within(path: str, opened: Iterable[str]) -> bool:
    return any(path == one or path.startswith(one.rstrip(os.sep) + os.sep) for one in opened)


def _may(path: str, how: int) -> bool:
    """Whether the account may, regardless of the cage."""
    return os.access(path, how, effective_ids=_EFFECTIVE)
