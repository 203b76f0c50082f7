"""One copy: files and folders between this machine and executors, over parallel secured streams (paper 003)."""

from __future__ import annotations

import os
import posixpath
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, BinaryIO, TypedDict

from phalanx._copying import CopyOrder
from phalanx._native import Copy
from phalanx._reach import Reach
from phalanx.errors import TransferError
from phalanx.hosts import Machines
from phalanx.security import Rules, listed
from phalanx.transfer import _stripes
from phalanx.transfer._files import Access, Files, batches, expand, has_magic, hint, named, outermost, place_of, there
from phalanx.words import KEPT, LINKS, Kept, Level, Links, Policy, StrPath

_MEMORY = re.compile(r"memory(?::(?:(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGT]?)B?)?)?")
_RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>[kKMGT]?)B?(?:/s)?")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
#: Bytes a second, below which nothing would move for longer than others wait.
_LEAST_RATE = 10_000
#: Of standard input, read at once, in bytes.
_PIECE = 1 << 20
#: Names in the top folder of one copy, where not all are copied.
_MOST_NAMES = 4096
_COUNTS = (
    "files",
    "folders",
    "links",
    "bytes",
    "reused",
    "crossed",
    "kept",
    "failed",
    "lost_streams",
    "altered_streams",
    "cuts",
)
_SUMS = (*_COUNTS, "setup", "seconds")
#: A place is asked so often how far a copy is, in seconds.
_OFTEN = 0.1
#: After so many seconds without anything new a pair of several is given up.
_SHARE_PATIENCE = 10.0

Path = StrPath


@dataclass(frozen=True)
class CopyReport:
    """What came of a copy.

    - ``files``, ``folders`` and ``links`` are the numbers of what is in its place now, ``bytes`` those in the files.
    - ``kept`` files were there already; 0 where a pair of stripes was lost, and for a copy to ``memory:``.
    - ``reused`` bytes were taken from older versions of the files. ``crossed`` bytes came over the line, compressed or
      not. They include digests, and no names. After a cut, both count from there on.
    - ``failed`` is how many could not be copied. ``failures`` has the path within the copy, and the reason, of up to
      10 000 of them. Files in a folder that could not be made are counted only.
    - ``level`` is that of the streams, and ``why`` its reason. ``peers`` are the names in the certificates of the
      executors at the other ends, the sending one first.
    - ``lost_streams`` ended before the copy did. ``altered_streams`` of them ended because somebody altered bytes.
    - ``cuts`` is how often the copy went on after its connection had ended.
    - ``seconds`` is the time of the copy, ``setup`` the part of it until the first stream was open.
    - ``stripes`` is the number of pairs of machines that took shares to the end. ``lost_stripes`` names the lost ones,
      with the reason; the others brought their files.

    Examples
    --------
    >>> report = px.copy("results", "labpc:/scratch/results")  # doctest: +SKIP
    >>> report.files, report.level, report.failures  # doctest: +SKIP
    (2, 'private', [])
    """

    files: int
    folders: int
    links: int
    bytes: int
    kept: int
    failed: int
    failures: list[tuple[str, str]]
    level: str
    why: str
    streams: int
    lost_streams: int
    altered_streams: int
    cuts: int
    setup: float
    seconds: float
    stripes: int = 1
    lost_stripes: list[tuple[str, str]] = field(default_factory=list)
    reused: int = 0
    crossed: int = 0
    peers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """How far a copy is: ``bytes`` of ``total`` are there, after ``seconds``; ``growing``: more is being found.

    Examples
    --------
    >>> px.copy("results", "labpc:/scratch/results", progress=lambda now: print(now.bytes, "of", now.total))
    ... # doctest: +SKIP
    """

    bytes: int
    total: int
    growing: bool
    seconds: float


class CarryOptions(TypedDict, total=False):
    """What :func:`copy` and :func:`phalanx.sync` are told of how bytes are carried."""

    streams: int | None
    threads: int | None
    check: bool
    whole_file: bool | None
    compress: bool | None
    include: str | Iterable[str]
    exclude: str | Iterable[str]
    links: Links | None
    keep: Kept | Iterable[Kept]
    patience: float
    limit: int | str | None
    stripes: str | None


class CopyOptions(CarryOptions, total=False):
    """The options of :func:`copy` that are not about how machines are reached."""

    level: Level | None
    progress: Callable[[Progress], object] | None
    anew: bool


def copy(
    src: Path,
    dst: Path,
    *,
    level: Level | None = None,
    streams: int | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    hosts: Machines | None = None,
    identity: Path | None = None,
    policy: Policy | Rules = "links",
    trusted: str | Iterable[str] = (),
    check: bool = True,
    anew: bool = False,
    whole_file: bool | None = None,
    compress: bool | None = None,
    include: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    links: Links | None = None,
    keep: Kept | Iterable[Kept] = (),
    patience: float = 60.0,
    limit: int | str | None = None,
    stripes: str | None = None,
) -> CopyReport:
    """Copies a file, or a folder with its contents, between this machine and an executor, or between two executors.

    A file gets its name when all of it has arrived. The same call resumes a copy that was cut. Files that are there
    with the same size and time are not copied again. What cannot be copied is in the report's ``failures``; the rest is
    copied. At an executor, a task or a rank copies as its user if the manager or ``mpirun`` was given
    ``delegate="copies"`` or ``"all"``.

    Parameters
    ----------
    src, dst
        At least one is ``host:/path`` or ``host:port:/path``, in a folder that the executor exports. If both are, the
        bytes go directly from the first executor to the second. The host may be the name of a machine among ``hosts``.
        A folder's copy *is* ``dst``, and goes into it if ``dst`` ends with a slash. A file goes into ``dst`` if that
        is a folder. ``src`` may be a pattern for files there (``* ? [ {a,b} **``): the matches go into ``dst``. On this
        machine ``memory:10G`` generates bytes, ``memory:`` discards them, and ``-`` is standard input or output.
    level : {"clear", "authenticated", "safe", "private"}, optional
        The level of the streams; by default the policy decides. At ``"authenticated"`` both ends prove who they are
        once, and afterwards an attacker on the wire can read and change everything.
    streams : int, optional
        Connections, each with its own keys. By default one for each core, from 2 to 8; on a line with a long round trip
        more, while more of them carry more.
    threads : int, optional
        Threads at each end; by default one more than cores.
    progress : callable, optional
        It is called about ten times a second with a :class:`Progress`.
    hosts, identity, policy, trusted
        As for :class:`phalanx.Grid`.
    check : bool
        Whether levels without tags check the data for damage.
    anew : bool
        Whether files are copied that are there with the same size and time.
    whole_file : bool, optional
        Whether all bytes of a file are sent, and not only what differs from an older version. By default only between
        two ends on one machine. Files from 1 MiB on are compared, if the older version is at least a quarter as long
        and at most four times as long.
    compress : bool, optional
        ``True`` compresses on every line, ``False`` on none. By default data is compressed between machines while the
        line carries less than 1 Gbit/s, as long as that is faster.
    include, exclude
        Patterns. ``include`` limits the files to those that match, or are in a folder that does. ``exclude`` leaves out
        what matches, and folders with their contents. A pattern is about the end of a path. If it begins with ``/``, it
        is about the path from the top of the copy; if it ends with ``/``, about folders only.
    links : {"keep", "follow", "skip"}, optional
        ``"keep"`` copies symbolic links as they are. ``"follow"`` copies what they lead to; at an executor only within
        the same exported folder. ``"skip"`` leaves them out. By default links that stay within the copy are kept, and
        others are failures.
    keep
        Of ``"owner"``, ``"group"``, ``"numeric-ids"``, ``"xattrs"``, ``"acls"`` and ``"hard-links"``: what is kept
        beside contents, permissions and times, on Linux. Only an end that runs as root can change owners.
    patience : float
        Seconds for which a copy retries after its connection was cut.
    limit : int or str, optional
        Bytes per second, or a text like ``"100MB/s"``.
    stripes : str, optional
        Further machines at the executor's end, like ``"b,c:7401"``, or at both ends, ``"b,c/y,z"``. The machines of a
        source have the same files with the same times; those of a target share a file system. ``streams`` and
        ``threads`` then apply to each pair of machines.

    Returns
    -------
    CopyReport
        What was copied, and what was not.

    Raises
    ------
    TransferError
        Nothing can be copied, or the copy was cut.
    PolicyError
        The ends have no level in common.
    IdentityError
        The identity is missing or refused, or another machine answers than the expected one.
    ValueError
        ``patience`` is negative.

    Examples
    --------
    >>> import phalanx as px
    >>> px.copy("results", "labpc:7400:/scratch/results", streams=4).failures  # doctest: +SKIP
    []
    """
    check_patience(patience)
    here, match, puts, source = _sides(os.fspath(src), os.fspath(dst))
    access = Access.of(level, Reach.of(hosts, identity, policy, trusted))
    if stripes is not None and (here == "-" or (not puts and has_magic(match["path"])) or (source and has_magic(here))):
        raise TransferError("stripes are for files and folders, not for patterns or standard streams")
    if here == "-":
        with access.files(match) as files:
            try:
                return streamed(files, match["path"], puts, progress)
            except TransferError as error:
                raise named(f"{place_of(match)}:{match['path']}", error, match["path"]) from error
    filters = (*listed(include),), (*listed(exclude),)
    how = _How(
        streams,
        threads,
        progress,
        check,
        anew,
        whole_file,
        compress,
        *filters,
        check_links(links),
        patience,
        limit,
        source,
        stripes,
        keep=check_keep(keep),
    )
    asked, pattern = (source, here) if source else (match, match["path"])
    if (puts and not source) or not has_magic(pattern):
        return _copy(here, match, match["path"], puts, access, how)
    with access.files(asked) as files:
        found, unknown = expand(files, pattern)
    if not found:
        raise TransferError(f"{unknown[0].path}: {unknown[0].reason}")
    if len(found) == 1 and not unknown:
        return _copy(*((found[0], match, match["path"]) if source else (here, match, found[0])), puts, access, how)
    report = _copy_all(here, match, outermost(found), access, how)
    failures = [*report.failures, *((one.path, one.reason) for one in unknown)]
    return replace(report, failed=report.failed + len(unknown), failures=failures)


@dataclass(frozen=True)
class _How:
    """How it is copied."""

    streams: int | None
    threads: int | None
    progress: Callable[[Progress], object] | None
    check: bool
    anew: bool
    whole_file: bool | None
    compress: bool | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    links: str | None
    patience: float
    limit: int | str | None
    #: The executor that it is copied from, where it is not this machine.
    source: re.Match[str] | None
    #: Further machines, as words.
    stripes: str | None = None
    #: Names in the top folder; empty: all.
    only: tuple[str, ...] = ()
    #: What is kept beside contents, permissions and times.
    keep: tuple[str, ...] = ()
    #: Drawn for a copy in shares, by which an executor knows that they are of one; None: each copy has its own.
    copy: bytes | None = None


def _copy(here: str, match: re.Match[str], path: str, puts: bool, access: Access, how: _How) -> CopyReport:
    if how.stripes is not None:
        return _striped(here, match, path, puts, access, how)
    return _outcome(_begin(here, match, path, puts, access, how), how.progress)


def _striped(here: str, match: re.Match[str], path: str, puts: bool, access: Access, how: _How) -> CopyReport:
    """Copies by several machines."""
    source, target = (how.source, match) if puts else (match, None)
    machines = _stripes.further(how.stripes or "", source, target)
    paths = (here, path) if puts else (path, here)
    ends, is_new, lost = _stripes.look(_stripes.Ends(*machines, *paths), access.files)
    if not puts:
        is_new = _memory(here) is None and _is_new(here, path)
    pairs, seconds = ends.pairs(), time.monotonic()
    rate = to_rate(how.limit)
    how = replace(how, copy=os.urandom(16))

    def begin(pair: _stripes.Pair, share: tuple[int, int] | None, fresh: bool) -> Copy:
        part = how
        if share:  # a machine that is gone is not waited for while others can bring its share
            limit = max(rate // share[1], _LEAST_RATE) if rate else None
            part = replace(how, patience=min(how.patience, _SHARE_PATIENCE), limit=limit)
        there = pair.target or pair.source
        assert there
        part = replace(part, source=pair.source if pair.target else None)
        return _begin(here, there, path, puts, access, part, share, fresh)

    def tell(far: tuple[int, int, bool]) -> None:
        if how.progress:
            how.progress(Progress(*far, time.monotonic() - seconds))

    finishes = _memory(path if puts else here) is None
    facts = _stripes.carry(pairs, begin, is_new, finishes, tell)
    return _report({**facts, "lost_stripes": [*lost, *facts["lost_stripes"]]})


def _is_new(here: str, path: str) -> bool:
    into = here.endswith(("/", os.sep))
    return not os.path.lexists(os.path.join(here, posixpath.basename(path)) if into else here)  # noqa: PTH118


def _begin(
    here: str,
    match: re.Match[str],
    path: str,
    puts: bool,
    access: Access,
    how: _How,
    share: tuple[int, int] | None = None,
    fresh: bool = False,
) -> Copy:
    made_here = _memory(here) if how.source or ":" in here else None  # a file here may be called memory
    made_there = _memory(path)
    order = CopyOrder(
        address=access.address(match),
        source=access.address(how.source) if how.source else None,
        dialler=access.reach.dialler("copies"),
        policy=access.reach.words(),
        puts=puts,
        here=None if made_here is not None else here,
        here_into=not puts and here.endswith(("/", os.sep)),
        there=None if made_there is not None else path,
        there_into=puts and path.endswith("/"),
        memory=max(made_here or 0, made_there or 0),
        level=access.level,
        streams=_bounded("streams", how.streams),
        threads=_bounded("threads", how.threads),
        checked=how.check,
        anew=how.anew,
        whole_file=how.whole_file,
        compress=how.compress,
        include=[*how.include],
        exclude=[*how.exclude],
        links=how.links,
        keeps=[*how.keep],
        only=[*how.only],
        patience=how.patience,
        limit=to_rate(how.limit),
        share=share,
        fresh=fresh,
        copy=how.copy,
    )
    return Copy(order)


def _copy_all(here: str, match: re.Match[str], found: list[str], access: Access, how: _How) -> CopyReport:
    """Copies what was found at an executor into the folder here, or at another: in one go all that is of one folder."""
    pattern, place = (here, match["path"]) if how.source else (match["path"], here)
    if not _is_folder(place, match if how.source else None, access):
        raise TransferError(f"{len(found)} files and folders match {pattern}, but {place} is no folder")
    names = Counter(posixpath.basename(path) for path in found)
    if twice := [name for name, count in names.items() if count > 1]:
        raise TransferError(f"several of what matches {pattern} are called {twice[0]}: copy their folders")
    target = place.rstrip("/") or "/."  # the copy is this folder, and does not go into it under another name
    reports = []
    for folder, paths in groupby(sorted(found, key=posixpath.split), posixpath.dirname):
        for some in batches((posixpath.basename(path) for path in paths), _MOST_NAMES):
            some_of = replace(how, only=tuple(os.fspath(name) for name in some))
            if how.source:
                reports.append(_copy(folder or "/", match, target, True, access, some_of))
            else:
                reports.append(_copy(target, match, folder or "/", False, access, some_of))
    return _together(reports)


def _is_folder(path: str, match: re.Match[str] | None, access: Access) -> bool:
    """Whether there is a folder at a path here, or at an executor."""
    if match is None:
        return os.path.isdir(path)  # noqa: PTH112
    if _memory(path) is not None:
        return False
    with access.files(match) as files:
        there = files.look(path.rstrip("/") or "/")
    return there is not None and there.kind == "folder"


def _together(reports: list[CopyReport]) -> CopyReport:
    """One report of several copies. Its level is that of the first, because all copies go the same way."""
    sums = {name: sum(getattr(report, name) for report in reports) for name in _SUMS}
    failures = [failure for report in reports for failure in report.failures]
    return replace(reports[0], failures=failures, **sums)


def _outcome(job: Copy, progress: Callable[[Progress], object] | None) -> CopyReport:
    seconds = 0.0
    try:
        while (facts := job.wait(_OFTEN)) is None:
            seconds += _OFTEN
            if progress:
                progress(Progress(*job.progress(), seconds))
    except BaseException:
        job.cancel()  # what is there is kept, and nothing goes on when this returns
        with suppress(TransferError):
            while job.wait(_OFTEN) is None:
                pass
        raise
    if progress:
        progress(Progress(*job.progress(), facts["seconds"]))
    return _report(facts)


def _report(facts: dict[str, Any]) -> CopyReport:
    facts["failures"] = [(os.fspath(path), reason) for path, reason in facts["failures"]]
    return CopyReport(**facts)


def streamed(files: Files, path: str, puts: bool, progress: Callable[[Progress], object] | None = None) -> CopyReport:
    """Copies standard input to a file there, or a file there to standard output.

    How much is coming is not known beforehand; a file has its name when all has come, and its BLAKE3 is as it was sent.
    """
    began, count, last = time.monotonic(), 0, 0.0

    def note(piece: bytes) -> None:
        nonlocal count, last
        count += len(piece)
        seconds = time.monotonic() - began
        if progress and seconds - last >= _OFTEN:
            last = seconds
            progress(Progress(count, count, True, seconds))

    if puts:
        if sys.stdin is None:
            raise TransferError("standard input is closed")
        new = files.create(path)
        setup = time.monotonic() - began
        while piece := sys.stdin.buffer.read(_PIECE):
            new.write(piece)
            note(piece)
        new.commit()
    else:
        out, file = standard_output(), files.open(path)
        setup = time.monotonic() - began
        while (part := file.next()) is not None:
            out.write(part)
            note(part)
        out.flush()
    seconds = time.monotonic() - began
    if progress:
        progress(Progress(count, count, False, seconds))
    return CopyReport(
        files=1, folders=0, links=0, bytes=count, kept=0, failed=0, failures=[], level=files.level, why=files.why,
        peers=[files.peer] if files.peer else [], streams=1, lost_streams=0, altered_streams=0, cuts=0, setup=setup,
        seconds=seconds, crossed=count,
    )  # fmt: skip


def standard_output() -> BinaryIO:
    """Where bytes are written as they are."""
    if sys.stdout is None:
        raise TransferError("standard output is closed")
    return sys.stdout.buffer


def _sides(src: str, dst: str) -> tuple[str, re.Match[str], bool, re.Match[str] | None]:
    """The path here, or at the executor of the last, the one at the executor, and whether that is the target."""
    from_there, to_there = there(src), there(dst)
    if from_there and to_there:
        return from_there["path"], to_there, True, from_there
    if to_there:
        return src, to_there, True, None
    if from_there:
        return dst, from_there, False, None
    neither = f"neither {src!r} nor {dst!r} is at an executor: write host:/path or host:port:/path for one"
    raise TransferError(neither + hint(src, dst))


def _memory(path: str) -> int | None:
    match = _MEMORY.fullmatch(path)
    return None if match is None else int(float(match["number"] or 0) * _UNITS[match["unit"] or ""])


def to_rate(limit: int | str | None) -> int:
    """Bytes a second; 0: as many as pass."""
    if limit is None:
        return 0
    match = _RATE.fullmatch(str(limit).strip())
    rate = int(float(match["number"]) * _UNITS[match["unit"].upper()]) if match else 0
    if not _LEAST_RATE <= rate < 1 << 63:
        raise TransferError(f"{limit!r} is no limit: write bytes a second, like 100MB/s, and {_LEAST_RATE} at least")
    return rate


def check_patience(patience: float) -> None:
    """An error where it is no number of seconds."""
    if not patience >= 0:  # NaN is not
        raise ValueError(f"patience is a number of seconds, 0 or more, not {patience}")


def check_links(links: Links | None) -> Links | None:
    """An error where it is no word for what becomes of links."""
    if links not in (None, *LINKS):
        raise TransferError(f'links are to "keep", "follow" or "skip", not to {links!r}')
    return links


def check_keep(keep: Kept | Iterable[Kept]) -> tuple[Kept, ...]:
    """What is kept, as words; an error names a word that is none."""
    words = (keep,) if isinstance(keep, str) else tuple(keep)
    for word in words:
        if word not in KEPT:
            raise TransferError(f"{', '.join(KEPT)} can be kept, not {word!r}")
    return words


def _bounded(what: str, number: int | None) -> int | None:
    if number is not None and not 1 <= number <= 64:
        raise TransferError(f"{what} are from 1 to 64, not {number}")
    return number


def as_facts(report: CopyReport) -> dict[str, Any]:
    """A report for JSON."""
    facts = dict(vars(report))
    facts["failures"] = [{"path": path, "reason": reason} for path, reason in report.failures]
    facts["lost_stripes"] = [{"machines": machines, "reason": reason} for machines, reason in report.lost_stripes]
    return facts
