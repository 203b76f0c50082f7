"""Folders for temporary files of this process. What killed processes have left is removed by the next one."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

#: Attempts to enter the folder of all folders, while processes that end remove it.
_ATTEMPTS = 10


class TemporaryFolder:
    """A folder that only this user can enter. It is removed by :meth:`remove`, or at the end of the process.

    Parameters
    ----------
    kind
        What it is for; part of its name.
    """

    def __init__(self, kind: str) -> None:
        shared = Path(tempfile.gettempdir()) / f"phalanx-{kind}-of-user-{_user()}"
        with _alone_in(shared) as parent:
            if parent is not None:
                _remove_stale(parent)
            self.path = Path(tempfile.mkdtemp(prefix=f"phalanx-{kind}-", dir=parent))
            lock = _locked(self.path, wait=True)
        self._finalizer = weakref.finalize(self, _remove, self.path, shared, lock, os.getpid())

    def remove(self) -> None:
        """Removes it with all that is in it. May be repeated."""
        self._finalizer()


def _remove(folder: Path, shared: Path, lock: int | None, process: int) -> None:
    if os.getpid() != process:
        return  # forked off: the folder is the parent's
    with _alone_in(shared):
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)
        if folder.parent == shared:
            with suppress(OSError):  # another program has a folder there
                shared.rmdir()


@contextmanager
def _alone_in(shared: Path) -> Iterator[Path | None]:
    """The folder with all folders of this user and kind, while no other process makes or removes one there. None: there
    is no such folder, because another user has taken its name, or the system has no locks of folders."""
    held = _enter(shared)
    try:
        yield None if held is None else shared
    finally:
        if held is not None:
            os.close(held)


def _enter(shared: Path) -> int | None:
    for _ in range(_ATTEMPTS):
        with suppress(OSError):
            shared.mkdir(mode=0o700)
        if not _is_ours(shared):
            return None
        with suppress(OSError):
            held = _locked(shared, wait=True)
            if held is None:
                return None
            with suppress(OSError):
                if os.path.samestat(os.fstat(held), shared.lstat()):
                    return held
            os.close(held)  # it was removed before it was locked
    return None


def _is_ours(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == _user() and not found.st_mode & 0o077


def _user() -> int:
    return os.geteuid() if sys.platform != "win32" else 0


def _locked(folder: Path, *, wait: bool) -> int | None:
    """The descriptor of a locked folder; the lock ends with this process. None: there are no such locks. OSError
    without ``wait``: another process has it locked."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove_stale(parent: Path) -> None:
    """Removes folders whose processes were killed."""
    for folder in parent.iterdir():
        with suppress(OSError):
            lock = _locked(folder, wait=False)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
