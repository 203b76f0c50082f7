"""Locks of open files between processes of one machine. A lock ends with its file, at the latest with its process."""

from __future__ import annotations

import sys
from typing import Any

if sys.platform == "win32":
    import msvcrt

    #: The byte that is locked. No other process can read a locked byte, so it is one that none of these files has.
    _PLACE = 0x7FFF_FFF0

    def try_lock(opened: Any, *, shared: bool = False) -> bool:
        """Locks an open file, unless another process has it locked. Returns whether it is locked.

        ``shared`` changes nothing: another process that looks at the same moment finds the file locked.
        """
        return _at_place(opened, msvcrt.LK_NBLCK)

    def unlock(opened: Any) -> None:
        """Unlocks an open file."""
        _at_place(opened, msvcrt.LK_UNLCK)

    def _at_place(opened: Any, how: int) -> bool:
        """Locks or unlocks the byte, and leaves the file's position as it was."""
        position = opened.tell()
        opened.seek(_PLACE)
        try:
            msvcrt.locking(opened.fileno(), how, 1)
        except OSError:
            return False
        finally:
            opened.seek(position)
        return True
else:
    import fcntl

    def try_lock(opened: Any, *, shared: bool = False) -> bool:
        """Locks an open file, unless another process has it locked. Returns whether it is locked.

        ``shared``: whether others may have shared locks meanwhile.
        """
        try:
            fcntl.flock(opened, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def unlock(opened: Any) -> None:
        """Unlocks an open file."""
        fcntl.flock(opened, fcntl.LOCK_UN)
