"""The user's own packages, staged with each program: folders, modules and wheels of pure Python.

They are read when the manager is made, before anything is started. One archive holds them. Its digest names the folder
at each machine into which the first interpreter there unpacks it. The folder goes with the program.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import zipfile
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from phalanx._native import Manager
from phalanx._outcomes import stage_code
from phalanx._prologue import Prologue
from phalanx._temporary import TemporaryFolder
from phalanx._unpacking import is_inside, unpack_at_interpreter, unpack_into, use
from phalanx.errors import StagingError
from phalanx.words import StrPath

#: Maximum bytes of all files together, before they are compressed. The archive travels with each program to each
#: interpreter, so data does not belong into it.
MOST_BYTES = 32 << 20
#: Maximum number of files.
MOST_FILES = 10_000
#: Ends of names of files for one kind of machine.
_COMPILED = (".so", ".pyd", ".dylib", ".dll")
_WHEEL = re.compile(r"[^-]+-[^-]+(-\d[^-]*)?-(?P<pythons>[^-]+)-(?P<abis>[^-]+)-(?P<platforms>[^-]+)\.whl")
#: Parts of a wheel's folder ``NAME.data`` that are importable, and those that only an installer uses.
_IMPORTABLE = {"purelib", "platlib"}
#: The oldest time that a zip file can tell: equal files make equal archives.
_TIME = (1980, 1, 1, 0, 0, 0)
_ADVICE = "send data by px.copy, or install the package on the machines"

#: The bytes of each file, by its path where packages are imported from.
Files = dict[str, bytes]


class Packages(NamedTuple):
    """Packages as one archive."""

    archive: bytes
    digest: str

    @classmethod
    def read(cls, named: Iterable[StrPath] | StrPath) -> Packages | None:
        """The archive of the packages that a user has named; None if there are none.

        Raises
        ------
        StagingError
            One of them is no package of pure Python, or they are too large together.
        """
        paths = [named] if isinstance(named, str | os.PathLike) else list(named)
        files: Files = {}
        size = 0
        for path in map(Path, paths):
            for name, content in _files_of(path):
                if name in files:
                    raise StagingError(f"{path} and another of the packages both have a file {name}: leave one out")
                files[name] = content
                size += len(content)
                # Looked at for each file: a folder of very many must not fill the memory before it is refused.
                _check_size(path, len(files), size)
        if not files:
            return None
        archive = _archive(files)
        return cls(archive, blake2b(archive, digest_size=16).hexdigest())

    def in_front_of(self, native: Manager, *, here: bool) -> Any:
        """The native manager whose interpreters have the packages. ``here``: they are on this machine."""
        try:
            if here:
                return PackagesHere(native, self)
            return Prologue(native, stage_code((unpack_at_interpreter, (self.archive, self.digest))), **self._words())
        except BaseException:
            native.close()
            raise

    def _words(self) -> dict[str, Any]:
        return {"identity": self.digest.encode(), "what": "unpacking the packages"}


class PackagesHere(Prologue):
    """A native manager of this machine. Its interpreters import from one folder, which ends with the manager."""

    def __init__(self, native: Manager, packages: Packages) -> None:
        self._folder = TemporaryFolder("packages")
        try:
            unpack_into(self._folder.path, packages.archive)
        except BaseException:
            self._folder.remove()
            raise
        super().__init__(native, stage_code((use, (str(self._folder.path),))), **packages._words())

    def close(self) -> None:
        """Ends the manager, then removes the folder."""
        self._native.close()
        self._folder.remove()


def _files_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """The files of one package, with their paths where it is imported from."""
    try:
        if path.is_dir():
            files = _of_folder(path)
        elif path.suffix == ".whl":
            files = _of_wheel(path)
        elif path.suffix == ".py" and path.is_file():
            files = iter([(path.name, path.read_bytes())])
        elif path.exists():
            raise StagingError(f"{path} is no folder of a package, no .py file and no wheel (.whl)")
        else:
            raise StagingError(f"there is no package at {path.absolute()}: name its folder, its .py file or its wheel")
        yield from _checked(path, files)
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise StagingError(f"the package {path} cannot be read: {error}") from error


def _checked(path: Path, files: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """The files, if they are of pure Python and may be imported beside phalanx."""
    is_empty = True
    for name, content in files:
        top = PurePosixPath(name).parts[0].removesuffix(".py")
        if top in sys.stdlib_module_names or top in ("phalanx", "cloudpickle"):
            raise StagingError(f"{path} would take the place of the module {top}, which interpreters need: rename it")
        if name.endswith(_COMPILED):
            raise StagingError(
                f"{path} has a compiled file, {name}, which runs on some machines only: install the package on them"
            )
        is_empty = is_empty and not name.endswith(".py")
        yield name, content
    if is_empty:
        raise StagingError(f"{path} has no .py file: name the folder of a package, not one above it")


def _of_folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a package's folder, without hidden ones and compiled bytecode."""
    name = folder.resolve().name
    is_project = any((folder / file).exists() for file in ("pyproject.toml", "setup.py"))
    if is_project and not (folder / "__init__.py").exists():
        raise StagingError(
            f"{folder} is a project and no package: name the folder of its package, as {folder / 'src' / 'NAME'}, or "
            f"the wheel that this makes: pip wheel --no-deps {folder}"
        )
    if not name.isidentifier():
        raise StagingError(f"{folder} is no package, because a module cannot be called {name!r}")
    root = folder.resolve()
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(it for it in folders if not it.startswith(".") and it != "__pycache__")
        files = sorted(it for it in names if not it.startswith(".") and not it.endswith(".pyc"))
        for found in (Path(place, it) for it in [*folders, *files]):
            if found.is_symlink() and (found.is_dir() or not found.resolve().is_relative_to(root)):
                raise StagingError(f"{found} is a link to {found.resolve()}, which the package does not hold: copy it")
        for file in (Path(place, it) for it in files):
            if file.is_file():  # no pipe, no socket
                yield f"{name}/{file.relative_to(folder).as_posix()}", _read(file)


def _of_wheel(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """The files that an installer of a wheel would make importable."""
    tags = _WHEEL.fullmatch(wheel.name)
    if tags is None:
        raise StagingError(f"{wheel.name} is no name of a wheel: NAME-VERSION-py3-none-any.whl")
    pythons = tags["pythons"].split(".")
    if (tags["abis"], tags["platforms"]) != ("none", "any") or not any(it.startswith(("py3", "cp3")) for it in pythons):
        raise StagingError(
            f"{wheel.name} is not of pure Python 3 (py3-none-any), so it runs on some machines only: install it on them"
        )
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            name = entry.filename
            if not is_inside(name):
                raise StagingError(f"{wheel} is damaged or hostile: its entry {name!r:.100} leads out of its folder")
            if entry.is_dir() or "__pycache__" in PurePosixPath(name).parts:
                continue
            if stat.S_ISLNK(entry.external_attr >> 16) or entry.flag_bits & 1:
                raise StagingError(f"{wheel} has an entry that is a link, or encrypted: {name!r:.100}")
            first, *rest = PurePosixPath(name).parts
            if first.endswith(".data") and rest:
                if rest[0] not in _IMPORTABLE or len(rest) < 2:
                    continue
                name = "/".join(rest[1:])
            with archive.open(entry) as file:  # its size in the archive's list may be a lie
                yield name, _limited(wheel, file.read(MOST_BYTES + 1))


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        return _limited(file, opened.read(MOST_BYTES + 1))


def _limited(path: Path, content: bytes) -> bytes:
    if len(content) > MOST_BYTES:
        raise StagingError(f"{path} has more than {MOST_BYTES >> 20} MiB, the most that packages may have: {_ADVICE}")
    return content


def _check_size(path: Path, files: int, size: int) -> None:
    if files > MOST_FILES:
        raise StagingError(f"with {path} the packages have more than {MOST_FILES} files: {_ADVICE}")
    if size > MOST_BYTES:
        raise StagingError(f"with {path} the packages have more than {MOST_BYTES >> 20} MiB: {_ADVICE}")


def _archive(files: Files) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _TIME), files[name], zipfile.ZIP_DEFLATED)
    return packed.getvalue()
