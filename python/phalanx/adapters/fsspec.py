"""Files at executors for whatever reads and writes through fsspec: ``phalanx://lab:7400/scratch/x.csv``.

Needs fsspec (``pip install 'phalanx-grid[fsspec]'``), which finds this module by the name of the protocol. pandas,
Dask, zarr and others take such names where they take paths; ``storage_options`` are the parameters of
:class:`PhalanxFileSystem`.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from phalanx.errors import TransferError
from phalanx.transfer._copy import copy
from phalanx.transfer._files import Entry, Files, Unknown, has_magic

if TYPE_CHECKING:
    from phalanx._native import NewFile, OpenFile

_URL = re.compile(r"(?:phalanx://(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL)
_TYPES = {"file": "file", "folder": "directory", "link": "link", "other": "other"}
#: Ranges that are asked for at the same time.
_AT_ONCE = 8
#: Of a file that is sent over one link, in bytes.
_PIECE = 1 << 20
#: Numbers of errors that tell nothing of files: the executor refused, or is out of reach.
_NO_ANSWER = (None, errno.EHOSTUNREACH)


class PhalanxFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The folders that an executor exports.

    A file that is written gets its name when it is closed, and not if an exception ends the block. The folders above it
    are made. Appending writes the whole file anew. ``get`` and ``put`` copy over parallel streams, as
    :func:`phalanx.copy` does. ``cp`` copies within the executor, or directly to another one.

    Parameters
    ----------
    host : str
        ``"lab"`` or ``"lab:7400"``; fsspec takes it from the path of a file.
    **options
        ``hosts``, ``identity``, ``policy``, ``trusted`` and ``level`` as for :func:`phalanx.copy`, and those of fsspec.

    Examples
    --------
    >>> import fsspec
    >>> system = fsspec.filesystem("phalanx", host="labpc:7400")  # doctest: +SKIP
    >>> system.ls("/scratch", detail=False)  # doctest: +SKIP
    ['/scratch/table.csv']
    """

    protocol = "phalanx"
    root_marker = "/"

    def __init__(self, host: str, **options: Any) -> None:
        ours = ("level", "hosts", "identity", "policy", "trusted")
        self.host = host
        self._reach = {name: options[name] for name in ours if options.get(name) is not None}
        super().__init__(host=host, **options)
        self._link: tuple[int, Files] | None = None

    @property
    def files(self) -> Files:
        """The link to the executor; a new one, if the last one has ended, or is that of another process."""
        if self._link is None or self._link[0] != os.getpid() or self._link[1].closed:
            self._link = os.getpid(), Files(self.host, **self._reach)
        return self._link[1]

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        match = _URL.fullmatch(os.fspath(path))
        assert match is not None
        return "/" + match["path"].strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        match = _URL.fullmatch(path)
        return {"host": match["host"]} if match and match["host"] else {}

    def unstrip_protocol(self, name: str) -> str:
        """The whole name of a path."""
        return f"phalanx://{self.host}{self._strip_protocol(name)}"

    def ls(self, path: str, detail: bool = True, links: set[str] | None = None, **_: Any) -> list[Any]:
        """What is in a folder; a file is itself. The paths of links come into ``links``."""
        path = self._strip_protocol(path)
        with _as_usual(path):
            entry = self._look(path)
            found = [entry] if entry.kind != "folder" else self._entries(path, set() if links is None else links)
        if not detail:
            return sorted(one.path for one in found)
        return [_info(one) for one in found]

    def _entries(self, path: str, links: set[str]) -> list[Entry]:
        """What is in a folder, by whole paths; a link is what it leads to, where it leads somewhere."""
        found = []
        for one in self.files.entries(path):
            place = posixpath.join(path, one.path)
            if isinstance(one, Unknown):
                raise OSError(f"{place}: {one.reason}")
            target = self._leads_to(place) if one.kind == "link" else one
            found.append(Entry(place, *list(vars(target or one).values())[1:]))
            if one.kind == "link":
                links.add(place)
        return found

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: Any = None,
        links: set[str] | None = None,
        **options: Any,
    ) -> Iterator[Any]:
        """All folders in one; an error where one cannot be looked at: what is copied by this is to be all of it.

        Folders that links in it lead to are named and not entered: a link may lead round. ``links``: of this method's
        own, for the folders in a folder.
        """
        links = set() if links is None else links
        if self._strip_protocol(path) in links:
            return
        yield from super().walk(path, maxdepth, topdown, on_error or _unless_missing, links=links, **options)

    def _leads_to(self, path: str) -> Entry | None:
        try:
            return self.files.look(path)
        except TransferError:
            return None  # out of what is exported, for example

    def _look(self, path: str) -> Entry:
        entry = self.files.look(path)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return entry

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """What lies there."""
        path = self._strip_protocol(path)
        with _as_usual(path):
            return _info(self._look(path))

    def modified(self, path: str) -> datetime:
        """When it was changed last."""
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)

    def exists(self, path: str, **_: Any) -> bool:
        """Whether something is there that can be looked at; an error where nobody can be asked."""
        try:
            self.info(path)
        except OSError as error:
            if error.errno in _NO_ANSWER:
                raise
            return False
        return True

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Makes a folder, which must not be there."""
        path = self._strip_protocol(path)
        with _as_usual(path):
            if create_parents:
                self.files.make_folder(posixpath.dirname(path), parents=True)
            self.files.make_folder(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a folder, and those it is in."""
        path = self._strip_protocol(path)
        with _as_usual(path):
            if not exist_ok and self.files.look(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            self.files.make_folder(path, parents=True)

    def rmdir(self, path: str) -> None:
        """Removes an empty folder."""
        path = self._strip_protocol(path)
        if not self.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        self._remove(path, recursive=False)

    def _rm(self, path: str) -> None:
        self._remove(self._strip_protocol(path), recursive=False)

    def rm(self, path: str | list[str], recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, and folders with all in them if ``recursive``; links are not followed."""
        if maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        for one in self.expand_path(path):
            if not recursive and self.isdir(one):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), one)
            self._remove(one, recursive)

    def _remove(self, path: str, recursive: bool) -> None:
        folder, name = posixpath.split(path)
        with _as_usual(path):
            if self.files.look(path, follow=False) is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            failures = self.files.remove(folder, [name], recursive=recursive)[1]
        if failures:
            raise OSError(f"{posixpath.join(folder, failures[0].path)}: {failures[0].reason}")

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **_: Any) -> None:
        """Gives a file or folder another path, in place of a file that may be there."""
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        with _as_usual(old):
            self.files.rename(old, new)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copies a file there, or to another executor that ``path2`` names (``phalanx://other:7400/x``).

        Between executors the bytes go straight from one to the other, and the copy has the permissions and the time.

        A small file that stays at its executor is read to this machine and written back. That takes less time than to
        begin a copy.
        """
        (source, old), (target, new) = self._at(path1), self._at(path2)
        with _as_usual(old):
            entry = source._look(old)
        if entry.kind != "folder" and target.isdir(new):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), new)
        if entry.kind == "folder":
            with _as_usual(new):
                target.files.make_folder(new, parents=True)
        elif source.host != target.host or entry.size > _PIECE:
            with _as_usual(new):
                target.files.make_folder(posixpath.dirname(new), parents=True)
            self._copy(f"{source.host}:{_literally(old)}", f"{target.host}:{new}", old)
        else:
            with _as_usual(old):
                opened = source.files.open(old)
            with _as_usual(new):
                _write(opened, target.created(new)).commit()

    def isdir(self, path: str) -> bool:
        """Whether a folder is there, also at another executor that the name is of."""
        system, there = self._at(path)
        return bool(AbstractFileSystem.isdir(system, there))

    def _at(self, path: str) -> tuple[PhalanxFileSystem, str]:
        """A path, and the file system of it: another executor's, where the name is of one."""
        host = self._get_kwargs_from_urls(os.fspath(path)).get("host", self.host)
        system = self if host == self.host else type(self)(host, **self._reach)
        return system, self._strip_protocol(path)

    def there(self, path: str) -> OpenFile | None:
        """A file to be read, if there is one."""
        try:
            return self.files.open(path)
        except TransferError as error:
            if error.errno != errno.ENOENT:
                raise
            return None

    def created(self, path: str, *, new: bool = False) -> NewFile:
        """A file to be written, in folders that are made."""
        try:
            return self.files.create(path, new=new)
        except TransferError as error:
            if error.errno != errno.ENOENT:
                raise
            self.files.make_folder(posixpath.dirname(path), parents=True)
            return self.files.create(path, new=new)

    def get_file(self, rpath: str, lpath: Any, **_: Any) -> None:
        """Copies a file here, over parallel streams."""
        rpath = self._strip_protocol(rpath)
        if hasattr(lpath, "write"):
            lpath.write(self.cat_file(rpath))
        elif self.isdir(rpath):
            Path(lpath).mkdir(parents=True, exist_ok=True)
        else:
            local = Path(lpath).absolute()
            local.parent.mkdir(parents=True, exist_ok=True)
            self._copy(f"{self.host}:{_literally(rpath)}", os.fspath(local), rpath)

    def put_file(self, lpath: str, rpath: str, mode: str = "overwrite", **_: Any) -> None:
        """Copies a file there, over parallel streams."""
        rpath = self._strip_protocol(rpath)
        local = Path(lpath).absolute()
        if local.is_dir():
            self.makedirs(rpath, exist_ok=True)
            return
        self.makedirs(posixpath.dirname(rpath), exist_ok=True)
        if mode == "create":  # over one link: a copy takes the place of what is there
            with local.open("rb") as source, self.open(rpath, "xb") as target:
                shutil.copyfileobj(source, target, _PIECE)
        else:
            self._copy(os.fspath(local), f"{self.host}:{rpath}", rpath)

    def _copy(self, source: str, target: str, path: str) -> None:
        with _as_usual(path):
            report = copy(source, target, **self._reach)
        if report.failures:
            raise OSError(": ".join(report.failures[0]))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """The bytes of a file, or of a part; from its end where negative."""
        path = self._strip_protocol(path)
        with _as_usual(path):
            file = self.files.open(path)
            size = file.facts[1]
            first, last, _step = slice(start, end).indices(size)
            content = file.read(first, max(0, last - first))
            file.settle()
        return content

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[bytes | Exception]:
        """Parts of files, some at the same time."""
        firsts = starts if isinstance(starts, Sequence) else [starts] * len(paths)
        lasts = ends if isinstance(ends, Sequence) else [ends] * len(paths)

        def one(part: tuple[str, int | None, int | None]) -> bytes | Exception:
            try:
                return self.cat_file(*part)
            except Exception as error:
                if on_error == "return":
                    return error
                raise

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [*pool.map(one, zip(paths, firsts, lasts, strict=True))]

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, autocommit: bool = True, **options: Any
    ) -> PhalanxFile:
        if mode == "xb" and self.exists(path):  # and when it is whole, it is looked again
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if mode not in ("rb", "wb", "xb", "ab"):
            raise ValueError(
                f"files at executors are read (rb), written as a whole (wb, xb) or appended to, not {mode}"
            )
        return PhalanxFile(self, path, mode, block_size or "default", autocommit=autocommit, **options)


class PhalanxFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read by parts, or written and whole when it is closed."""

    def __init__(self, fs: PhalanxFileSystem, path: str, mode: str, block_size: Any, **options: Any) -> None:
        self._files: Files | None = None
        self._new: NewFile | None = None
        self._file: OpenFile | None = None
        self._before = sys.exc_info()[1]
        if mode == "rb":
            with _as_usual(path):
                self._files = fs.files
                self._file = self._files.open(path)
            options["size"] = self._file.facts[1]
            self._facts = self._file.facts
        super().__init__(fs, path, mode, block_size, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        with _as_usual(self.path):
            if self._files is None or self._files.closed or self._file is None:
                self._open_again()
            assert self._file is not None
            content = self._file.read(start, end - start)
            if len(content) < min(end, self.size) - start:
                self._file.settle()
        return content

    def _open_again(self) -> None:
        """Goes on after the link ended, if the file is the same."""
        self._files = self.fs.files
        assert self._files is not None
        self._file = self._files.open(self.path)
        if self._file.facts != self._facts:
            raise TransferError("it was changed while it was read")

    def _initiate_upload(self) -> None:
        with _as_usual(self.path):
            before = self.fs.there(self.path) if self.mode == "ab" else None
            new = self.fs.created(self.path, new=self.mode == "xb")
            if before is not None:
                _write(before, new)
            self._new = new

    def _upload_chunk(self, final: bool = False) -> bool:
        with _as_usual(self.path):
            assert self._new is not None
            self._new.write(self.buffer.getvalue())
            if final and self.autocommit:
                self.commit()
        return True

    def commit(self) -> None:
        """Gives the file its name."""
        if self._new is not None:
            with _as_usual(self.path):
                self._new.commit()
            self._new = None

    def discard(self) -> None:
        """Drops the file, which gets no name."""
        self._new = None

    def close(self) -> None:
        """Ends reading; or the file is whole, and has its name.

        A file is not whole if an exception came up since it was opened. Then a wrapper of this file closes it, and does
        not pass the exception on.
        """
        error = sys.exc_info()[1]
        if not getattr(self, "closed", True) and self.mode != "rb" and error is not None and error is not self._before:
            self.discard()
            self.closed = True  # nothing more is written
        try:
            super().close()
        finally:
            self._file = None

    def __del__(self) -> None:
        if not getattr(self, "closed", True) and self.mode != "rb":
            self.discard()  # nobody closed it: it may not be whole
            self.closed = True

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is not None and self.mode != "rb":
            self.discard()
            self.closed = True  # nothing more is written
        self.close()


def _write(source: OpenFile, target: NewFile) -> NewFile:
    """All of a file into another one; an error where it was changed meanwhile."""
    while (piece := source.next()) is not None:
        target.write(piece)
    source.settle()
    return target


@contextmanager
def _as_usual(path: str) -> Iterator[None]:
    """Errors as the system raises them for files: FileNotFoundError and its like."""
    try:
        yield
    except TransferError as error:
        if error.errno in _NO_ANSWER:
            raise
        raise OSError(error.errno, str(error), path) from error


def _unless_missing(error: OSError) -> None:
    """What is not there has nothing in it; anything else may have."""
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        raise error


def _literally(path: str) -> str:
    """A pattern that matches this path only."""
    return re.sub(r"[*?\[{}]", r"[\g<0>]", path) if has_magic(path) else path


def _info(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.path,
        "size": entry.size if entry.kind == "file" else None if entry.kind != "folder" else 0,
        "type": _TYPES[entry.kind],
        "mtime": entry.modified / 1e9,
        "mode": entry.mode,
    }
