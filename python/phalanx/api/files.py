"""Files of the hub's machine over HTTP, beneath the folders that it serves: read, write, list, remove."""

from __future__ import annotations

import errno
import heapq
import os
import stat
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from phalanx.api.ranges import send
from phalanx.api.refusals import Refused
from phalanx.api.users import Users
from phalanx.api.writing import LONGEST_FILE, UNFINISHED, Written, is_folder
from phalanx.tes.document import DocumentError
from phalanx.tes.files import Folder, Folders, Opened, ReadOnlyError, beneath

T = TypeVar("T")

#: Most entries of a page of a folder, and as many as a client gets that says nothing.
MOST_ENTRIES, USUAL_ENTRIES = 1000, 1000
#: Seconds within which the next bytes of a file must come.
PATIENCE = 30.0
#: How `os` says that a link is in the way, or that a part of a path is no folder.
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class Served:
    """The folders that are served, and their files by the paths that the hub's machine has.

    Parameters
    ----------
    folders
        The folders.
    """

    def __init__(self, folders: Folders) -> None:
        self.folders = folders

    def input(self, path: str, where: str) -> Opened:
        """A file that a job reads.

        Parameters
        ----------
        path
            Its path at the hub's machine.
        where
            The field that names it, for errors.

        Returns
        -------
        Opened

        Raises
        ------
        Refused
            There is none, or it is not served (404).
        """
        folder, found = self.place(path, where, writes=False)
        if not found.is_file():
            raise Refused(404, f"{where}: there is no file {path!r:.200}")
        return Opened(folder, found)

    def place(self, path: str, where: str, *, writes: bool, whole: bool = False) -> tuple[Folder, Path]:
        """The folder that has a path, and the path without symbolic links.

        Parameters
        ----------
        path
            A path at the hub's machine.
        where
            What names it, for errors.
        writes
            Whether it is written or removed.
        whole
            Whether it may be a folder that is served itself.

        Returns
        -------
        tuple

        Raises
        ------
        Refused
            It is outside of the folders (404), or in one that is served for reading only (403).
        """
        if not path.startswith("/") or ".." in path.split("/"):
            raise Refused(400, f"{where}: {path!r:.200} is no absolute path without '..'")
        try:
            return self.folders.place(path, where, writes=writes, whole=whole)
        except ReadOnlyError as error:
            raise Refused(403, str(error)) from None
        except DocumentError as error:
            raise Refused(404, str(error)) from None


class FileRoutes:
    """The files of the hub's machine, for users with tokens.

    Parameters
    ----------
    users
        Who asks.
    served
        The folders.
    """

    def __init__(self, users: Users, served: Served) -> None:
        self._users, self._served = users, served

    def routes(self) -> list[Route]:
        """What is served.

        Returns
        -------
        list of Route
        """
        of = self._users.of
        return [
            Route("/folders", of(self.folders), methods=["GET"]),
            Route("/files/{path:path}", of(self.read), methods=["GET", "HEAD"]),
            Route("/files/{path:path}", of(self.write), methods=["PUT"]),
            Route("/files/{path:path}", of(self.remove), methods=["DELETE"]),
            Route("/entries/{path:path}", of(self.entries), methods=["GET"]),
        ]

    async def folders(self, request: Request, user: str) -> Response:
        """The folders that are served."""
        told = [{"path": f"{it.path}", "writable": it.writable} for it in self._served.folders.all]
        return JSONResponse({"folders": told})

    async def entries(self, request: Request, user: str) -> Response:
        """A page of the entries of a folder, by their names."""
        after, limit = request.query_params.get("after", ""), request.query_params.get("limit", f"{USUAL_ENTRIES}")
        if not limit.isascii() or not limit.isdigit() or len(limit) > 9 or not 0 < int(limit) <= MOST_ENTRIES:
            raise Refused(400, f"limit: write a whole number from 1 to {MOST_ENTRIES}")
        found = await self._users.thread(user, self._entries, _path(request), after, int(limit))
        return JSONResponse(found)

    async def read(self, request: Request, user: str) -> Response:
        """A file, or a part of it."""
        descriptor, about = await self._users.thread(user, self._open, _path(request))
        read = lambda start, most: os.pread(descriptor, most, start)  # noqa: E731
        tag = f'"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}"'
        thread = partial(self._users.thread, user)
        return send(request, about.st_size, read, partial(os.close, descriptor), tag=tag, thread=thread)

    async def write(self, request: Request, user: str) -> Response:
        """Writes a file as a whole or not at all. A reader sees the old one or the new one."""
        folder, path = await self._users.thread(user, self._writable, request)
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared[:19]) > LONGEST_FILE:
            raise Refused(413, f"a file has at most {LONGEST_FILE} bytes")
        file = await self._thread(user, Written, folder, path)
        try:
            async for piece in _coming(request):
                await self._thread(user, file.write, piece)
            is_new = await self._thread(user, file.finish, request.headers.get("if-none-match") == "*")
        finally:
            with anyio.CancelScope(shield=True):
                await self._users.thread(user, file.close)
        return JSONResponse({"path": f"{path}", "bytes": file.length}, 201 if is_new else 200)

    async def remove(self, request: Request, user: str) -> Response:
        """Removes a file, or an empty folder."""
        folder, path = await self._users.thread(user, self._writable, request)
        await self._thread(user, _remove, folder, path)
        return JSONResponse({})

    async def _thread(self, user: str, work: Callable[..., T], *arguments: Any) -> T:
        """Does something with files in a thread of the user, and says what failed."""
        try:
            return await self._users.thread(user, work, *arguments)
        except OSError as error:
            raise _as_refused(error, None) from None

    def _writable(self, request: Request) -> tuple[Folder, Path]:
        return self._served.place(_path(request), "path", writes=True)

    def _open(self, name: str) -> tuple[int, os.stat_result]:
        folder, path = self._served.place(name, "path", writes=False)
        try:
            descriptor = Opened(folder, path).__enter__()
        except OSError as error:
            raise _as_refused(error, name) from None
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            os.close(descriptor)
            raise Refused(409, f"{name!r:.200} is no file; the entries of a folder are at /entries/…")
        return descriptor, about

    def _entries(self, name: str, after: str, limit: int) -> dict[str, Any]:
        folder, path = self._served.place(name, "path", writes=False, whole=True)
        try:
            with beneath(folder, path) as descriptor, os.scandir(descriptor) as found:
                seen = (it.name for it in found if it.name > after and not it.name.startswith(UNFINISHED))
                names = heapq.nsmallest(limit + 1, filter(_is_text, seen))
                told = [it for it in (_entry(name, descriptor) for name in names[:limit]) if it is not None]
        except OSError as error:
            raise _as_refused(error, name) from None
        return {"entries": told, "after": names[limit - 1] if len(names) > limit else None}


async def _coming(request: Request) -> AsyncIterator[bytes]:
    """The pieces of a body. Raises Refused if one does not come in time (408)."""
    pieces = aiter(request.stream())
    while True:
        piece = None
        with anyio.move_on_after(PATIENCE):
            try:
                piece = await anext(pieces)
            except StopAsyncIteration:
                return
        if piece is None:
            raise Refused(408, f"no bytes came for {PATIENCE:.0f} s")
        yield piece


def _as_refused(error: OSError, name: str | None) -> Refused:
    named = f"{name!r:.200}: " if name else ""
    if error.errno in _NOT_THERE:
        return Refused(404, f"{named}there is no such file or folder")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Refused(403, f"{named}the account of the hub may not do that: {error.strerror}")
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return Refused(507, f"{named}the disk of the hub is full: {error.strerror}")
    return Refused(409, f"{named}{error.strerror}")


def _remove(folder: Folder, path: Path) -> None:
    with beneath(folder, path.parent) as parent:
        if is_folder(path.name, parent):
            os.rmdir(path.name, dir_fd=parent)
        else:
            os.unlink(path.name, dir_fd=parent)


def _entry(name: str, parent: int) -> dict[str, Any] | None:
    """An entry of a folder; None: it is gone."""
    try:
        about = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    kinds = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "folder"), (stat.S_ISLNK, "link"))
    kind = next((word for is_kind, word in kinds if is_kind(about.st_mode)), "other")
    return {"name": name, "kind": kind, "bytes": about.st_size, "modified": about.st_mtime}


def _is_text(name: str) -> bool:
    """Whether a name is UTF-8. JSON has no word for others."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _path(request: Request) -> str:
    """The path of a request, with its first slash. A URL has it, or has it twice."""
    return "/" + str(request.path_params["path"]).lstrip("/")
