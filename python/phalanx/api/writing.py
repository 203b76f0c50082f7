"""Writes a file of the hub's machine as a whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from phalanx.api.refusals import Refused
from phalanx.tes.files import OPENED, Folder, beneath

#: Most bytes of a file that is written.
LONGEST_FILE = 1 << 40
#: Bytes that a file that is written leaves free on the disk.
RESERVE = 256 << 20
#: The beginning of the names of files that are being written. They are not listed.
UNFINISHED = ".phalanx-"


class Written:
    """A file that is being written, beside its place.

    Parameters
    ----------
    folder
        The folder that is served.
    path
        Where it belongs.

    Raises
    ------
    Refused
        A folder is there (409).
    """

    def __init__(self, folder: Folder, path: Path) -> None:
        self._path, self._unfinished, self.length = path, f"{UNFINISHED}{secrets.token_hex(8)}", 0
        self._beneath = beneath(folder, path.parent, makes=True)
        self._parent = self._beneath.__enter__()
        try:
            if is_folder(path.name, self._parent):
                raise Refused(409, "path: this is a folder")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPENED
            self._descriptor = os.open(self._unfinished, flags, 0o666, dir_fd=self._parent)
        except BaseException:
            self._beneath.__exit__(None, None, None)
            raise

    def write(self, piece: bytes) -> None:
        """Writes the next bytes."""
        self.length += len(piece)
        if self.length > LONGEST_FILE:
            raise Refused(413, f"a file has at most {LONGEST_FILE} bytes")
        left = os.fstatvfs(self._descriptor)
        if left.f_bavail * left.f_frsize < RESERVE + len(piece):
            raise Refused(507, f"the disk of the hub has less than {RESERVE >> 20} MiB left")
        view = memoryview(piece)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def finish(self, only_new: bool) -> bool:
        """Puts the file in its place. Whether there was none before."""
        os.fsync(self._descriptor)
        parent = self._parent
        try:  # a link is made only where there is nothing
            os.link(self._unfinished, self._path.name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
            return True
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.EPERM, errno.EOPNOTSUPP):  # some file systems have no links
                raise
            is_new = error.errno != errno.EEXIST and not _is_there(self._path.name, parent)
        if only_new and not is_new:
            raise Refused(412, "path: there is a file already")
        os.replace(self._unfinished, self._path.name, src_dir_fd=parent, dst_dir_fd=parent)
        return is_new

    def close(self) -> None:
        """Removes what is unfinished."""
        os.close(self._descriptor)
        with suppress(FileNotFoundError):
            os.unlink(self._unfinished, dir_fd=self._parent)
        self._beneath.__exit__(None, None, None)


def is_folder(name: str, parent: int) -> bool:
    """Whether an entry of a folder is a folder, and no link to one.

    Parameters
    ----------
    name
        Its name.
    parent
        The descriptor of the folder.

    Returns
    -------
    bool
    """
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _is_there(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
