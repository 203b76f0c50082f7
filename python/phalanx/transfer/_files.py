"""Files at an executor, or on this machine, beside copying: what there is, and what becomes of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType

from phalanx import _native
from phalanx._reach import Reach
from phalanx.errors import PolicyError, TransferError
from phalanx.hosts import Machines
from phalanx.security import Rules, listed
from phalanx.words import LEVELS, Kept, Level, Policy, StrPath, check_word

Path = StrPath
#: Of an entry: kind, size, mode, time, what a link says.
Facts = tuple[str, int, int | None, int, str | None]

#: ``host:/path``, ``host:port:/path``; the path there is absolute, so that ``C:\\x`` and ``a:b`` are files here.
THERE = re.compile(r"(?P<host>\[[^\]/]+\]|[^\[\]:/\s]+)(?::(?P<port>\d+))?:(?P<path>/.*|memory(?::.*)?)", re.DOTALL)
#: What other programs call a place there, with a path from a home folder or a module.
_ELSEWHERE = re.compile(
    r"(?:[^@/\s]+@)?(?P<host>\[[^\]/]+\]|[^\[\]:/\s@]{2,})(?::(?P<port>\d+)(?=:))?::?(?P<path>[^/].*|)",
    re.DOTALL,
)
_SCHEMES = ("file", "ftp", "gsiftp", "http", "https", "phalanx", "rsync", "scp", "sftp", "ssh")
#: As deep as folders go.
ALL = 2**32 - 1
_MAGIC = re.compile(r"[*?\[]|\{[^{}]*,[^{}]*\}")
#: Entries of a listing that are held in memory, and letters of their names and of what links say.
_MOST, _MOST_SIGNS = 20_000_000, 4 * 10**9
#: Names in one question, and bytes of them.
_BATCH, _BATCH_BYTES = 512, 252 * 1024


@dataclass(frozen=True)
class Entry:
    """Something in a folder.

    ``path``: within the folder that was asked for. ``kind``: ``"file"``, ``"folder"``, ``"link"`` or ``"other"``.
    ``size``: of a file, in bytes. ``mode``: permission bits; None where the system has no such. ``modified``: time of
    the last change, in nanoseconds since 1970. ``target``: what a link says.

    Examples
    --------
    >>> files.look("/scratch/table.csv").size  # doctest: +SKIP
    8
    """

    path: str
    kind: str
    size: int
    mode: int | None
    modified: int
    target: str | None


@dataclass(frozen=True)
class Unknown:
    """What could not be looked at or done, and why; ``error``: the reason's name in the module ``errno``, if any.

    Examples
    --------
    >>> gone, failed = files.remove("/scratch", ["table.csv"])  # doctest: +SKIP
    >>> [unknown.reason for unknown in failed]  # doctest: +SKIP
    ['Permission denied']
    """

    path: str
    reason: str
    error: str | None = None


class Files:
    """A link to an executor for questions about the files in the folders that it exports.

    It is a context manager. Paths are absolute. Threads may share it. A task or a rank at an executor asks as its user
    if the manager or ``mpirun`` was given ``delegate="copies"`` or ``"all"``.

    Parameters
    ----------
    host : str
        ``"lab:7400"``, or the name of a machine among ``hosts``.
    level : {"clear", "authenticated", "safe", "private"}, optional
        The level of the link; by default the policy decides.
    hosts, identity, policy, trusted
        As for :class:`phalanx.Grid`.

    Raises
    ------
    TransferError
        The executor cannot be reached, or refuses something. ``errno`` of the error says why: ENOENT, EEXIST, EACCES.
    PolicyError, IdentityError
        As for :func:`phalanx.copy`.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Files("labpc:7400") as files:  # doctest: +SKIP
    ...     [entry.path for entry in files.entries("/scratch")]
    ['table.csv']
    """

    def __init__(
        self,
        host: str,
        *,
        level: Level | None = None,
        hosts: Machines | None = None,
        identity: Path | None = None,
        policy: Policy | Rules = "links",
        trusted: str | Iterable[str] = (),
    ) -> None:
        if THERE.fullmatch(f"{host}:/") is None:
            raise TransferError(f"{host!r} names no executor: write host or host:port")
        check_level(level)
        reach = Reach.of(hosts, identity, policy, trusted)
        self._name = reach.address(host)
        self._native = _native.Files(self._name, dialler=reach.dialler("copies"), policy=reach.words(), level=level)

    @classmethod
    def here(cls) -> Files:
        """Asks the same questions about this machine's own files."""
        files = cls.__new__(cls)
        files._name = "this machine"
        files._native = _native.Files(None, dialler=None, policy=("links", [], None), level=None)
        return files

    @property
    def level(self) -> str:
        """What protects the link."""
        return self._native.level[0]

    @property
    def why(self) -> str:
        """What decided the level."""
        return self._native.level[1]

    @property
    def peer(self) -> str | None:
        """The name in the certificate of the executor; None for this machine's own files."""
        return self._native.peer

    @property
    def closed(self) -> bool:
        """Whether the link has ended."""
        return self._native.closed

    def entries(
        self,
        path: Path,
        *,
        depth: int = 0,
        include: str | Iterable[str] = (),
        exclude: str | Iterable[str] = (),
        matching: str | Iterable[str] = (),
    ) -> Iterator[Entry | Unknown]:
        """What is in a folder, and up to ``depth`` folders deep in it, as it is found; links are not followed.

        It comes in pages, so that a folder of any size needs little memory at both ends.

        Parameters
        ----------
        path : str or path
            An absolute path at the executor.
        depth : int
            How many folders deep it looks.
        include, exclude
            Patterns, as for :func:`phalanx.copy`.
        matching
            Patterns for whole paths. Only what matches one of them comes.

        Yields
        ------
        Entry or Unknown
            What was found, or could not be looked at.
        """
        for page in self.pages(path, depth, listed(include), listed(exclude), listed(matching)):
            for name, facts, reason in page:
                yield Entry(name, *facts) if facts else Unknown(name, reason)

    def pages(
        self, path: Path, depth: int, include: list[str], exclude: list[str], matching: list[str]
    ) -> Iterator[list[tuple[str, Facts | None, str]]]:
        """The entries in pages, as they come. A row has the path, and the further fields of :class:`Entry`, or why they
        are not known.

        Parameters
        ----------
        path : str or path
            An absolute path at the executor.
        depth, include, exclude, matching
            As for :meth:`entries`.

        Yields
        ------
        list
            A page.
        """
        listing = self._native.entries(os.fspath(path), depth, include, exclude, matching)
        while (page := listing.page()) is not None:
            yield page

    def look(self, path: Path, *, follow: bool = True) -> Entry | None:
        """What lies there, or what a link there leads to; None where nothing does.

        Parameters
        ----------
        path : str or path
            An absolute path at the executor.
        follow : bool
            Whether a link stands for what it leads to.

        Returns
        -------
        Entry or None
        """
        facts = self._native.look(os.fspath(path), follow)
        return None if facts is None else Entry(os.fspath(path), *facts)

    def remove(
        self, folder: Path, names: Path | Iterable[Path], *, recursive: bool = False
    ) -> tuple[int, list[Unknown]]:
        """Removes paths within a folder; how many are gone, and what could not be removed. Links are not followed.

        Folders go if they are empty, or with all in them if ``recursive``.

        Parameters
        ----------
        folder : str or path
            An absolute path at the executor.
        names
            One path within it, or several.
        recursive : bool
            Whether folders go with their contents.

        Returns
        -------
        tuple
            How many are gone, and a list of :class:`Unknown`.
        """
        removed, failures = 0, []
        for some in batches(names):
            done, failed, told = self._native.remove(os.fspath(folder), some, recursive)
            removed += done
            failures += _failures(folder, failed, told)
        return removed, failures

    def check_writable(self, folder: Path) -> None:
        """Raises TransferError where nothing can be written in a folder: it is exported for reading only (EACCES), is
        not there, or is none.

        Parameters
        ----------
        folder : str or path
            An absolute path at the executor.

        Raises
        ------
        TransferError
            It is exported for reading only, is not there, or is no folder.
        """
        self._native.set_times(os.fspath(folder), [])

    def make_folder(self, path: Path, *, parents: bool = False) -> None:
        """Makes a folder; with ``parents`` also those it is in, and it may be there already.

        Parameters
        ----------
        path : str or path
            An absolute path at the executor.
        parents : bool
            Whether the folders above it are made too.
        """
        self._native.make_folder(os.fspath(path), parents)

    def rename(self, old: Path, new: Path) -> None:
        """Gives something another path, in place of what may be there.

        Parameters
        ----------
        old, new
            Absolute paths at the executor.
        """
        self._native.rename(os.fspath(old), os.fspath(new))

    def set_times(
        self, folder: Path, times: Iterable[tuple[str, int]], *, seen: Mapping[str, Entry] | None = None
    ) -> list[Unknown]:
        """Says when files within a folder were changed last, in nanoseconds since 1970; what failed.

        Parameters
        ----------
        folder : str or path
            An absolute path at the executor.
        times
            Paths within it, each with its time.
        seen
            What the files were when they were looked at, by path. A file of another size or time by now is left alone.

        Returns
        -------
        list of Unknown
            What failed.
        """
        failures, known = [], dict(times)
        for some in batches(known):
            named = [(os.fspath(name), (seen or {}).get(os.fspath(name))) for name in some]
            dated = [(name, known[name], (one.size, one.modified) if one else None) for name, one in named]
            _, failed, told = self._native.set_times(os.fspath(folder), [*dated])
            failures += _failures(folder, failed, told)
        return failures

    def locate(self, path: Path) -> tuple[bool, list[bytes]]:
        """Whether something is there; and by what it, if it is, and then each folder above it is known.

        The same bytes are the same folder, whatever it is called, also for two executors of one machine. Nothing, where
        the system does not tell.

        Parameters
        ----------
        path : str or path
            An absolute path at the executor.

        Returns
        -------
        tuple
            Whether something is there, and a list of bytes.
        """
        return self._native.locate(os.fspath(path))

    def digests(self, folder: Path, names: Path | Iterable[Path]) -> Iterator[tuple[str, bytes | None, str]]:
        """BLAKE3 of files within a folder, computed there by several threads: path, digest or None, and why none.

        Parameters
        ----------
        folder : str or path
            An absolute path at the executor.
        names
            One path within it, or several.

        Yields
        ------
        tuple
            A path, its digest or None, and why there is none.
        """
        for some in batches(names):
            for name, (digest, reason) in zip(some, self._native.digests(os.fspath(folder), some), strict=True):
                yield os.fspath(name), digest, reason

    def open(self, path: Path) -> _native.OpenFile:
        """A file to read: ``read(offset, length)``; ``next()`` for one piece after the other, None at the end.

        Parameters
        ----------
        path : str or path
            An absolute path at the executor.

        Returns
        -------
        OpenFile
            With ``read(offset, length)`` and ``next()``.
        """
        return self._native.open(os.fspath(path))

    def create(self, path: Path, *, new: bool = False) -> _native.NewFile:
        """A file to write: ``write(bytes)``, then ``commit()``, by which it has its name; without that it is gone.

        ``new``: where something is there already, or comes meanwhile, that stays, and an error says so (EEXIST).

        Parameters
        ----------
        path : str or path
            An absolute path at the executor.
        new : bool
            Whether the path must be free.

        Returns
        -------
        NewFile
            With ``write(bytes)`` and ``commit()``.
        """
        return self._native.create(os.fspath(path), new)

    def close(self) -> None:
        """Ends the link; what was not committed is gone."""
        self._native.close()

    def __enter__(self) -> Files:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Files({self._name!r})"


def compare(
    source: tuple[Files, str],
    target: tuple[Files, str] | None,
    *,
    include: list[str],
    exclude: list[str],
    keep: Iterable[Kept],
    skips_links: bool,
    contents: bool,
    special: bool,
) -> _native.Comparison:
    """What differs between two folders, which are listed side by side so that little is held.

    ``page()`` has rows: the path, the entries at the source and at the target, a verdict, and a reason. The last item
    says whether attributes that are to be kept differ. The verdict is ``"listed"`` if the entries are not the same.
    Entries of the same length whose ``contents`` were compared are ``"same"``, ``"other"`` or ``"unread"``. An entry
    that could not be looked at is ``"no source"`` or ``"no target"``. With ``special``, links and the like have a row
    also where they are alike.
    """
    sides = [(files._native, path) for files, path in filter(None, (source, target))]
    return _native.Comparison(
        sides[0],
        sides[1] if target else None,
        include=include,
        exclude=exclude,
        keeps=[*keep],
        skips_links=skips_links,
        contents=contents,
        special=special,
        most=_MOST,
    )


def expand(files: Files, path: str) -> tuple[list[str], list[Unknown]]:
    """The paths that match a pattern like ``/data/*.csv`` or ``/data/**/x``, sorted; a path without one is itself.

    And what could not be looked at, so that nobody knows what would match there.

    Raises TransferError where nothing matches.
    """
    if not has_magic(path):
        return [path], []
    base, pattern = split_pattern(path)
    depth = ALL if "**" in pattern else pattern.count("/")
    found, unknown = list[str](), list[Unknown]()
    for one in held(files.entries(base, depth=depth, matching=[pattern])):
        whole = f"{base.rstrip('/')}/{one.path}"
        if isinstance(one, Entry):
            found.append(whole)
        else:
            unknown.append(Unknown(whole, one.reason, one.error))
    if found or unknown:
        return sorted(found), unknown
    if files.look(path, follow=False):
        return [path], []
    raise TransferError(f"nothing there matches {path}")


def held(found: Iterator[Entry | Unknown]) -> Iterator[Entry | Unknown]:
    """The rows, for a caller that keeps all of them: no more than memory has room for, whatever a peer sends."""
    size = 0
    for number, one in enumerate(found):
        size += len(one.path) + len((one.target if isinstance(one, Entry) else one.reason) or "")
        check_held(number + 1, size)
        yield one


def check_held(count: int, size: int) -> None:
    """An error where memory has no room for so many entries, with names of so many letters."""
    if count > _MOST or size > _MOST_SIGNS:
        what = f"more than {_MOST} files and folders, or {_MOST_SIGNS // 10**9} GB of their names"
        raise TransferError(f"there are {what}: name some of them")


def outermost(paths: Iterable[str]) -> list[str]:
    """Without what lies in a folder that is named too: it goes with that."""
    kept: list[str] = []
    for path in sorted(paths, key=lambda path: path.split("/")):
        if not kept or not path.startswith(kept[-1].rstrip("/") + "/"):
            kept.append(path)
    return kept


def named(place: str, error: TransferError, path: str) -> TransferError:
    """The error with a place like ``host:/path`` at its beginning, instead of the path that may be there."""
    other = TransferError(f"{place}: {str(error).removeprefix(f'{path}: ')}")
    other.errno = error.errno
    return other


def there(text: str) -> re.Match[str] | None:
    """The parts of a place at an executor; None: it is a path here. Raises TransferError for a user's name before the
    host and for a URL, as other programs have them, and says what is meant."""
    match = THERE.fullmatch(text)
    if match is None:
        return None
    user, at, host = match["host"].rpartition("@")
    if at:
        meant = place_of(match)[len(user) + 1 :] + ":" + match["path"]
        raise TransferError(f"{text}: who you are says your identity (--identity), not {user}@: write {meant}")
    if match["host"] in _SCHEMES and match["path"].startswith("//"):
        place, _, path = match["path"][2:].partition("/")
        named = re.match(r"\[[^\]]*\]|[^:]*", place.rpartition("@")[2])
        host = named[0] if named else ""
        raise TransferError(f"{text}: write " + (f"{host}:/{path}" if host else f"/{path}"))
    return match


def hint(*texts: str) -> str:
    """What a place was meant to be that has no absolute path, as part of a message; empty where there is none."""
    for match in filter(None, map(_ELSEWHERE.fullmatch, texts)):
        if match["host"] == "memory":
            continue
        path = match["path"].removeprefix("~").lstrip("/")
        meant = f"{place_of(match)}:/{path}"
        return f"; paths at an executor are absolute, in a folder that it exports: {meant}, for example"
    return ""


def place_of(match: re.Match[str]) -> str:
    """The host, and its port if it was named, of a place like :data:`THERE`."""
    return match["host"] + (f":{match['port']}" if match["port"] else "")


def has_magic(path: str) -> bool:
    """Whether a path is a pattern."""
    return _MAGIC.search(path) is not None


def split_pattern(path: str) -> tuple[str, str]:
    """The folder in which what matches lies, and the pattern within it."""
    signs = re.search(r"[*?\[{]", path)
    base = path[: signs.start() if signs else None].rpartition("/")[0]
    return base or "/", path[len(base) + 1 :]


def check_level(level: Level | None) -> None:
    """Raises PolicyError if it is neither a level nor None."""
    if level is not None:
        check_word("level", level, LEVELS, PolicyError)


@dataclass(frozen=True)
class Access:
    """How executors are asked for files: the machines and how they are reached, and the level that the user wants."""

    reach: Reach
    level: Level | None

    @classmethod
    def of(cls, level: Level | None, reach: Reach) -> Access:
        """Raises PolicyError if ``level`` is none."""
        check_level(level)
        return cls(reach, level)

    def address(self, match: re.Match[str]) -> str:
        """The address of a machine that was named as in :data:`THERE`."""
        return self.reach.address(place_of(match))

    def files(self, match: re.Match[str]) -> Files:
        """A link for questions about the files there."""
        return Files(place_of(match), level=self.level, **self.reach.options())


def _failures(folder: Path, failed: int, told: list[tuple[str, str, str | None]]) -> list[Unknown]:
    """What is told of failures, and how many there are beside."""
    more = [Unknown(os.fspath(folder), f"{failed - len(told)} more failed")] if failed > len(told) else []
    return [Unknown(*failure) for failure in told] + more


def batches(names: Path | Iterable[Path], most: int = _BATCH) -> Iterator[list[Path]]:
    """The names in batches, each as large as one question has room for."""
    some: list[Path] = []
    size = 0
    for name in [names] if isinstance(names, (str, bytes, os.PathLike)) else names:
        some.append(name)
        size += len(os.fsencode(name))
        if len(some) >= most or size >= _BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
