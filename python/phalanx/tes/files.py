"""The files that inputs and outputs of TES tasks name by URLs."""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from phalanx.tes.document import MOST, DocumentError
from phalanx.tes.jobs import within

#: URLs that the job itself reads, on its machine.
FETCHED = ("http", "https")


class Folder(NamedTuple):
    """A folder of this machine that tasks may name.

    Attributes
    ----------
    path : Path
        The folder, without symbolic links.
    writable : bool
        Whether outputs may be written there.
    """

    path: Path
    writable: bool


class Folders:
    """The folders of this machine that tasks may read, and write. Nothing outside of them is touched.

    Parameters
    ----------
    folders
        Each one, as ``FOLDER:ro`` or ``FOLDER:rw``.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        self.all: list[Folder] = []
        for word in folders:
            path, _, rights = word.rpartition(":")
            if rights not in ("ro", "rw") or not path:
                raise ValueError(f"{word!r}: write FOLDER:ro or FOLDER:rw")
            self.all.append(Folder(Path(path).resolve(strict=True), rights == "rw"))

    def check(self, task: dict[str, Any]) -> None:
        """Checks that the URLs of a task can be used, and says which cannot, and why.

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
            if "url" in entry and urlsplit(entry["url"]).scheme not in FETCHED:
                self._path(entry["url"], f"inputs[{number}].url", writes=False)
        for number, entry in enumerate(task["outputs"]):
            self._path(entry["url"], f"outputs[{number}].url", writes=True)

    def inputs(self, task: dict[str, Any]) -> Iterator[tuple[str, bytes | Path]]:
        """The inputs of a task that are contents or files of this machine.

        Parameters
        ----------
        task
            As it was read.

        Yields
        ------
        tuple
            The name in the folder of the job, and the bytes or the path.

        Raises
        ------
        DocumentError
            A file is not there.
        """
        for number, entry in enumerate(task["inputs"]):
            name, where = within(entry["path"]), f"inputs[{number}].url"
            if "content" in entry:
                yield name, entry["content"].encode()
            elif urlsplit(entry["url"]).scheme not in FETCHED:
                path = self._path(entry["url"], where, writes=False)
                yield from _whole(path, name, where) if entry["type"] == "DIRECTORY" else [(name, _file(path, where))]

    def write(self, output: dict[str, Any], name: str, pieces: Iterable[bytes]) -> str:
        """Writes a file that a task has made, as a whole or not at all.

        Parameters
        ----------
        output
            The output to which it belongs.
        name
            The path that the task has seen.
        pieces
            Its bytes.

        Returns
        -------
        str
            The URL of the file.
        """
        url = url_of(output, name)
        path = self._path(url, "outputs", writes=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path = self._path(url, "outputs", writes=True)  # the folders that were missing are there now
        descriptor, written = tempfile.mkstemp(prefix=".phalanx-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(pieces)
                os.fchmod(file.fileno(), 0o666 & ~_umask())
            Path(written).replace(path)
        except BaseException:
            Path(written).unlink(missing_ok=True)
            raise
        return url

    def _path(self, url: str, where: str, *, writes: bool) -> Path:
        parts = urlsplit(url)
        if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
            served = "file:///… and https://…" if not writes else "file:///…"
            raise DocumentError(f"{where}: {url} is not served here; write {served}")
        path = Path(os.path.realpath(unquote(parts.path) if parts.scheme else url))
        inside = [folder for folder in self.all if path.is_relative_to(folder.path) and path != folder.path]
        if not inside:
            names = ", ".join(str(folder.path) for folder in self.all) or "none"
            raise DocumentError(
                f"{where}: {path} is outside of the folders that are served here: {names} (--tes-folder)"
            )
        if writes and not any(folder.writable for folder in inside):
            raise DocumentError(
                f"{where}: {path} is in a folder that is served for reading only (--tes-folder FOLDER:rw)"
            )
        return path


def url_of(output: dict[str, Any], path: str) -> str:
    """The URL of a file of an output, which may be a pattern or a directory.

    Parameters
    ----------
    output
        The output.
    path
        The path that the task has seen.

    Returns
    -------
    str
    """
    prefix = output.get("path_prefix") or (output["path"] if output["type"] == "DIRECTORY" else None)
    if prefix is None or path == output["path"]:
        return str(output["url"])
    return posixpath.join(output["url"], path.removeprefix(prefix).lstrip("/"))


def _file(path: Path, where: str) -> Path:
    if not path.is_file():
        raise DocumentError(f"{where}: there is no file {path}")
    return path


def _whole(path: Path, name: str, where: str) -> Iterator[tuple[str, Path]]:
    """All files of a folder. Symbolic links are left out: they may lead anywhere."""
    if not path.is_dir():
        raise DocumentError(f"{where}: there is no folder {path}")
    count = 0
    for folder, folders, files in os.walk(path):
        folders.sort()
        for file in sorted(files):
            found = Path(folder, file)
            if found.is_symlink() or not found.is_file():
                continue
            count += 1
            if count > MOST:
                raise DocumentError(f"{where}: {path} has more than {MOST} files")
            yield f"{name}/{found.relative_to(path).as_posix()}", found


def _umask() -> int:
    before = os.umask(0)
    os.umask(before)
    return before
