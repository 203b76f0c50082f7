"""Files that inputs and outputs of TES tasks name by URLs."""

from __future__ import annotations

import os
import posixpath
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from phalanx.tes.document import MOST, DocumentError
from phalanx.tes.jobs import within

#: Schemes of URLs that the job itself fetches, on its machine.
FETCHED = ("http", "https")
#: Flags for opening: follow no symbolic link, and close on exec.
OPENED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
#: Longest file name, in bytes.
_LONGEST_NAME = 255


class ReadOnlyError(DocumentError):
    """A file is to be written in a folder that is served for reading only."""


class Folder(NamedTuple):
    """A served folder of this machine, which tasks may name.

    Attributes
    ----------
    path : Path
        The folder, without symbolic links.
    writable : bool
        Whether the service may write outputs into it.
    descriptor : int
        The descriptor of the folder. Paths beneath it are resolved from here.
    named : Path
        The folder as the option names it, with its symbolic links.
    """

    path: Path
    writable: bool
    descriptor: int
    named: Path


class Opened:
    """A context manager that opens a file beneath a served folder.

    Parameters
    ----------
    folder
        The folder.
    path
        The file, without symbolic links.
    """

    def __init__(self, folder: Folder, path: Path) -> None:
        self._folder, self._path = folder, path

    def __enter__(self) -> int:
        with beneath(self._folder, self._path.parent) as parent:
            # Without O_NONBLOCK, a named pipe without a writer would block all tasks.
            self._descriptor = os.open(self._path.name, os.O_RDONLY | os.O_NONBLOCK | OPENED, dir_fd=parent)
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


@contextmanager
def beneath(folder: Folder, path: Path, *, makes: bool = False) -> Iterator[int]:
    """A folder beneath one that is served, opened. A part that has become a symbolic link since its path was checked is
    refused.

    Parameters
    ----------
    folder
        The one that is served.
    path
        The one beneath it, or itself, without symbolic links.
    makes
        Whether missing folders are made.

    Yields
    ------
    int
        Its descriptor.

    Raises
    ------
    OSError
        There is none.
    """
    descriptor = os.dup(folder.descriptor)
    try:
        for part in path.relative_to(folder.path).parts:
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | OPENED, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


class Folders:
    """The folders of this machine that tasks may read and write (an allow list).

    Parameters
    ----------
    folders
        The folders, each as ``FOLDER:ro`` or ``FOLDER:rw``.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        self.all: list[Folder] = []
        for word in folders:
            path, _, rights = word.rpartition(":")
            if rights not in ("ro", "rw") or not path:
                raise ValueError(f"{word!r}: write FOLDER:ro or FOLDER:rw")
            folder = Path(path).resolve(strict=True)
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self.all.append(Folder(folder, rights == "rw", opened, _normal(path)))

    def check(self, task: dict[str, Any]) -> None:
        """Checks that the service can use the URLs of a task.

        Parameters
        ----------
        task
            As it was read.

        Raises
        ------
        DocumentError
            A URL has a scheme that is not served, or names a file outside of the folders.
        """
        for number, entry in enumerate(task["inputs"]):
            if "url" in entry and scheme_of(entry["url"]) not in FETCHED:
                self._path(entry["url"], f"inputs[{number}].url", writes=False)
        for number, entry in enumerate(task["outputs"]):
            self._path(entry["url"], f"outputs[{number}].url", writes=True)

    def inputs(self, task: dict[str, Any]) -> Iterator[tuple[str, bytes | Opened]]:
        """The inputs of a task that are inline contents or files of this machine.

        Parameters
        ----------
        task
            As it was read.

        Yields
        ------
        tuple
            The name in the folder of the job, and the bytes or the file.

        Raises
        ------
        DocumentError
            A file does not exist.
        """
        for number, entry in enumerate(task["inputs"]):
            name, where = within(entry["path"]), f"inputs[{number}].url"
            if "content" in entry:
                yield name, entry["content"].encode()
            elif scheme_of(entry["url"]) not in FETCHED:
                folder, path = self._path(entry["url"], where, writes=False)
                is_folder, url = entry["type"] == "DIRECTORY", entry["url"]
                files = _whole(path, name, url, where) if is_folder else [(name, _file(path, url, where))]
                yield from ((inside, Opened(folder, file)) for inside, file in files)

    def write(self, output: dict[str, Any], name: str, pieces: Iterable[bytes]) -> str:
        """Writes an output of a task atomically.

        Parameters
        ----------
        output
            The output to which the file belongs.
        name
            The path of the file in the task.
        pieces
            The bytes of the file.

        Returns
        -------
        str
            The URL of the file.
        """
        url = url_of(output, name)
        folder, path = self._path(url, "outputs", writes=True)
        if path.is_dir():
            raise DocumentError(f"outputs: {url} is a folder, and {name} a file")
        written = f".phalanx-{secrets.token_hex(8)}"
        with beneath(folder, path.parent, makes=True) as parent:
            try:
                descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPENED, 0o666, dir_fd=parent)
                with os.fdopen(descriptor, "wb") as file:
                    file.writelines(pieces)
                os.replace(written, path.name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(written, dir_fd=parent)
                raise
        return url

    def close(self) -> None:
        """Closes the folders."""
        for folder in self.all:
            os.close(folder.descriptor)

    def _path(self, url: str, where: str, *, writes: bool) -> tuple[Folder, Path]:
        """The file that a URL names, and the served folder that contains it."""
        parts = urlsplit(url)
        if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
            served = "file:///… and https://…" if not writes else "file:///…"
            raise DocumentError(f"{where}: {url} is not served here; write {served}")
        return self.place(unquote(parts.path) if parts.scheme else url, where, writes=writes)

    def place(self, name: str, where: str, *, writes: bool, whole: bool = False) -> tuple[Folder, Path]:
        """The folder that has a path of this machine, and the path without symbolic links.

        Parameters
        ----------
        name
            The path.
        where
            The field that names it, for errors.
        writes
            Whether it is written.
        whole
            Whether it may be a folder that is served itself.

        Returns
        -------
        tuple

        Raises
        ------
        DocumentError
            It is outside of the folders.
        ReadOnlyError
            It is written, and in a folder that is served for reading only.
        """
        if not _can_be(name):
            raise DocumentError(f"{where}: no file has the name {name!r:.200}")
        names = ", ".join(str(folder.path) for folder in self.all) or "none"
        outside = DocumentError(
            f"{where}: {name!r:.200} is outside of the folders that are served here: {names} (--tes-folder)"
        )
        # No symbolic link outside of the folders is resolved: its target, or the time that takes, would tell of files
        # that are not served.
        normal = _normal(name)
        if not any(normal.is_relative_to(it) for folder in self.all for it in (folder.path, folder.named)):
            raise outside
        path = Path(os.path.realpath(name))
        inside = [folder for folder in self.all if path.is_relative_to(folder.path)]
        inside = [folder for folder in inside if whole or path != folder.path]
        if not inside:
            raise outside
        if writes:
            inside = [folder for folder in inside if folder.writable]
        if not inside:
            raise ReadOnlyError(
                f"{where}: {name!r:.200} is in a folder that is served for reading only (--tes-folder FOLDER:rw)"
            )
        return inside[0], path


def url_of(output: dict[str, Any], path: str) -> str:
    """The URL of a file of an output, which may be a pattern or a directory.

    Parameters
    ----------
    output
        The output.
    path
        The path of the file in the task.

    Returns
    -------
    str
    """
    prefix = output.get("path_prefix") or (output["path"] if output["type"] == "DIRECTORY" else None)
    if prefix is None or path == output["path"]:
        return str(output["url"])
    inside = path.removeprefix(prefix).lstrip("/")
    return posixpath.join(output["url"], quote(inside) if scheme_of(output["url"]) else inside)


def scheme_of(url: str) -> str:
    """The scheme of a URL in lower case. Empty: it is a path.

    Parameters
    ----------
    url
        The URL.

    Returns
    -------
    str
    """
    return urlsplit(url).scheme


def _can_be(name: str) -> bool:
    """Whether a file can have a name."""
    try:
        parts = os.fsencode(name).split(b"/")
    except UnicodeEncodeError:
        return False
    return "\0" not in name and all(len(part) <= _LONGEST_NAME for part in parts)


def _normal(name: str) -> Path:
    """The absolute path without ``.`` and ``..``. Symbolic links stay."""
    return Path("/", os.path.abspath(name).lstrip("/"))  # noqa: PTH100  Path.absolute keeps ".."


def _file(path: Path, url: str, where: str) -> Path:
    if not path.is_file():
        raise DocumentError(f"{where}: there is no file {url}")
    return path


def _whole(path: Path, name: str, url: str, where: str) -> Iterator[tuple[str, Path]]:
    """All files of a folder. It leaves out symbolic links, because they may lead out of the folder."""
    if not path.is_dir():
        raise DocumentError(f"{where}: there is no folder {url}")
    count = 0
    for folder, folders, files in os.walk(path):
        folders.sort()
        for file in sorted(files):
            found = Path(folder, file)
            if found.is_symlink() or not found.is_file():
                continue
            count += 1
            if count > MOST:
                raise DocumentError(f"{where}: {url} has more than {MOST} files")
            yield f"{name}/{found.relative_to(path).as_posix()}", found
