"""Makes a folder like another one, here or at executors: what differs is copied, what is not in the source goes."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from phalanx._reach import Reach
from phalanx.errors import TransferError
from phalanx.hosts import Machines
from phalanx.security import Rules, listed
from phalanx.transfer._copy import (
    CarryOptions,
    CopyReport,
    Progress,
    as_facts,
    check_keep,
    check_links,
    check_patience,
    copy,
    to_rate,
)
from phalanx.transfer._files import Access, Entry, Files, Path, Unknown, compare, has_magic, hint, place_of, there
from phalanx.transfer._stripes import further
from phalanx.words import Kept, Level, Links, Policy

#: A time for a file that must be copied although it has the source's size and time. Every file system can store it, and
#: tell it from the other time.
_OTHER_TIMES, _APART = (10**18, 11 * 10**17), 10**17 // 2


@dataclass(frozen=True)
class Change:
    """What is, or would be, done: ``"new"``, ``"changed"`` or ``"delete"``, and the path within the folder.

    Examples
    --------
    >>> report = px.sync("results", "labpc:/scratch/results", dry_run=True)  # doctest: +SKIP
    >>> [(change.what, change.path) for change in report.changes]  # doctest: +SKIP
    [('new', 'table.csv')]
    """

    what: str
    path: str


@dataclass(frozen=True)
class SyncReport:
    """What came of making a folder like another.

    ``copied``: the report of the copy; None if nothing was copied, only looked at. ``changes``: what was different,
    where it was looked for: with ``delete``, ``checksum`` or ``dry_run``. ``deleted``: how many files, links and
    folders are gone. ``compared``: files whose content was compared. ``failures``: paths within the folder, and why
    something could not be done with them. ``listed``: whether the source could be listed as a whole; nothing is
    deleted otherwise.

    Examples
    --------
    >>> report = px.sync("results", "labpc:/scratch/results", delete=True)  # doctest: +SKIP
    >>> report.deleted, report.failures  # doctest: +SKIP
    (1, [])
    """

    copied: CopyReport | None
    changes: list[Change]
    deleted: int
    compared: int
    failures: list[tuple[str, str]]
    listed: bool


class SyncOptions(CarryOptions, total=False):
    """The options of :func:`sync` that are not about how machines are reached."""

    level: Level | None
    progress: Callable[[Progress], object] | None
    checksum: bool
    delete: bool
    dry_run: bool


def sync(
    src: Path,
    dst: Path,
    *,
    checksum: bool = False,
    delete: bool = False,
    dry_run: bool = False,
    include: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    links: Links | None = None,
    keep: Kept | Iterable[Kept] = (),
    level: Level | None = None,
    streams: int | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    hosts: Machines | None = None,
    identity: Path | None = None,
    policy: Policy | Rules = "links",
    trusted: str | Iterable[str] = (),
    check: bool = True,
    whole_file: bool | None = None,
    compress: bool | None = None,
    patience: float = 60.0,
    limit: int | str | None = None,
    stripes: str | None = None,
) -> SyncReport:
    """Makes a folder like another; one of them, or each, is at an executor.

    Files are copied that differ in size or time. If only permissions differ, only these are set. What cannot be done
    is in the report's ``failures``, and the rest is done. If one folder is the other, or lies in it, nothing is done.

    Parameters
    ----------
    src, dst
        Folders, as for :func:`phalanx.copy`. Between two executors, the bytes go directly from the first to the second.
    checksum : bool
        Whether contents are compared (by BLAKE3, which each end computes) in place of times. A file with the same
        content only gets the time.
    delete : bool
        Whether files go that the source does not have: links as links, before anything is copied. First it is tried
        whether a copy can be made. If the source cannot be listed as a whole, nothing is deleted.
    dry_run : bool
        Whether nothing is changed. The report then has the changes, and what is certain to fail.
    include, exclude
        As for :func:`phalanx.copy`. What they leave out is neither copied nor deleted.
    links : {"keep", "follow", "skip"}, optional
        As for :func:`phalanx.copy`. Links that are skipped are neither copied nor deleted. ``"follow"`` does not go
        with ``delete``, ``checksum`` or ``dry_run``, which look at links as they are.
    keep
        As for :func:`phalanx.copy`. It is also set where contents are the same; a difference is a change.
    level, streams, threads, progress, hosts, identity, policy, trusted, check, whole_file, compress, patience, limit,
    stripes
        As for :func:`phalanx.copy`.

    Returns
    -------
    SyncReport
        What was different, copied and deleted.

    Raises
    ------
    TransferError, PolicyError, IdentityError, ValueError
        As for :func:`phalanx.copy`. If a copy is cut, what was deleted before is gone.

    Examples
    --------
    >>> import phalanx as px
    >>> px.sync("results", "labpc:7400:/scratch/results", delete=True).failures  # doctest: +SKIP
    []
    """
    check_patience(patience)
    if "-" in (os.fspath(src), os.fspath(dst)):
        raise TransferError("standard streams have no files: a folder is made like another one")
    to_rate(limit)
    kept = check_keep(keep)
    if check_links(links) == "follow" and (delete or checksum or dry_run):
        raise TransferError("links are followed by a copy only: leave out --delete, --checksum and --dry-run")
    if stripes is not None:
        further(stripes, there(os.fspath(src)), there(os.fspath(dst)))
    access = Access.of(level, Reach.of(hosts, identity, policy, trusted))
    with ExitStack() as stack:
        source = _end(os.fspath(src), access, stack)
        target = _named(source, _end(os.fspath(dst), access, stack))
        if source.place is None and target.place is None:
            one = "one of the two is at an executor: write HOST:/path or HOST:PORT:/path for one"
            raise TransferError(one + hint(os.fspath(src), os.fspath(dst)))
        _check_apart(source, target)
        plan = _Plan({"include": listed(include), "exclude": listed(exclude)}, links, kept)
        if delete or checksum or dry_run:
            plan.compare(source, target, checksum, delete, dry_run)
        if dry_run:
            return plan.report(None)
        to = target.path if target.place is None else f"{target.place}:{target.path}"
        how: dict[str, Any] = {"level": level, **access.reach.options(), "links": links, "keep": kept}
        how |= {"check": check, "patience": patience, "limit": limit, "stripes": stripes}
        is_done = checksum and not delete and plan.is_done()  # what was abandoned is looked for with delete
        if plan.doomed or plan.times or is_done:
            # A copy of nothing: nothing goes if none of what is there can come, for whatever reason.
            nothing = copy(src, to, **how, exclude=["*"], streams=1)
            if is_done:
                return plan.report(plan.kept(nothing))
            plan.apply(target)
    how |= {"streams": streams, "threads": threads, "whole_file": whole_file, "compress": compress}
    carried = {**how, **plan.patterns, "progress": progress}
    return plan.report(copy(src, to, **carried))


@dataclass(frozen=True)
class _End:
    """One of the two sides of a sync."""

    files: Files
    path: str
    #: The executor's; None: this machine.
    place: str | None


def _end(text: str, access: Access, stack: ExitStack) -> _End:
    match = there(text)
    if match is None and not text.startswith("memory:"):
        return _End(stack.enter_context(closing(Files.here())), text, None)
    if match is None or match["path"].startswith("memory") or has_magic(match["path"]):
        raise TransferError(f"{text}: a folder is made like another one, not memory, and not what matches a pattern")
    return _End(stack.enter_context(access.files(match)), match["path"], place_of(match))


def _named(source: _End, target: _End) -> _End:
    """The target as a copy goes there: into a folder whose path ends with a slash, under the source's own name."""
    if not target.path.endswith("/") and not (target.place is None and target.path.endswith(os.sep)):
        return target
    own = source.path if source.place else os.path.abspath(source.path)  # noqa: PTH100
    name = posixpath.basename(posixpath.normpath(own.replace(os.sep, "/")))
    if name in ("", ".", ".."):
        raise TransferError(f"{source.path} has no name: say what the copy is to be called")
    return _End(target.files, posixpath.join(target.path, name), target.place)


def _check_apart(source: _End, target: _End) -> None:
    """One folder in the other would be copied into itself, and deleted with what it lies in."""
    one, two = source.files.locate(source.path), target.files.locate(target.path)
    for (exists, folders), (_, others) in ((one, two), (two, one)):
        if exists and folders and folders[0] in others:
            raise TransferError(f"{source.path} and {target.path} are the same folder, or one lies in the other")


@dataclass
class _Plan:
    """What differs, and what is to be done about it beside copying."""

    patterns: dict[str, list[str]]
    #: What becomes of links, as words for a copy.
    links: str | None = None
    #: What is kept beside contents, permissions and times.
    keep: tuple[Kept, ...] = ()
    changes: list[Change] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    #: What goes, what is in a folder before the folder.
    doomed: list[Entry] = field(default_factory=list)
    times: dict[str, int] = field(default_factory=dict)
    #: What files of the target were when they were looked at.
    seen: dict[str, Entry] = field(default_factory=dict)
    compared: int = 0
    deleted: int = 0
    listed: bool = True
    #: Files, folders, other things and bytes at the source; whether all of it is at the target too.
    there: list[int] = field(default_factory=list)
    alike: bool = False

    def compare(self, source: _End, target: _End, checksum: bool, delete: bool, dry_run: bool) -> None:
        """Looks at both sides; ``dry_run``: also for what could not be done."""
        root = source.files.look(source.path)
        if root is None or root.kind != "folder":
            if root is None:
                raise TransferError(f"{source.path}: no such file or folder")
            raise TransferError(f"{source.path}: only a folder has what --delete, --checksum and --dry-run are about")
        wanted, present = self._differing(source, target, checksum, dry_run)
        if delete and self.listed:
            gone = (one for path, one in present.items() if path not in wanted or _is_in_the_way(wanted[path], one))
            self.doomed = sorted(gone, key=lambda one: one.path, reverse=True)
            self.changes += [Change("delete", one.path) for one in self.doomed]
        self.changes.sort(key=lambda change: change.path)
        if dry_run:
            self._foresee(wanted, present)
            if target.place is not None and (reason := _refusal(target)):
                self.failures.setdefault(".", reason)

    def _foresee(self, wanted: dict[str, Entry], present: dict[str, Entry]) -> None:
        """Leaves out entries whose copy certainly fails, with all their contents."""
        gone, failing = {one.path for one in self.doomed}, set[str]()
        for path, entry in sorted(wanted.items()):  # folders before what is in them
            reason = _obstacle(entry, None if path in gone else present.get(path), self.links)
            is_in_one = posixpath.dirname(path) in failing
            if reason and not is_in_one:
                self.failures.setdefault(path, reason)
            if reason or is_in_one:
                failing.add(path)
        self.changes = [one for one in self.changes if one.what == "delete" or one.path not in failing]

    def _differing(
        self, source: _End, target: _End, checksum: bool, dry_run: bool
    ) -> tuple[dict[str, Entry], dict[str, Entry]]:
        """What is at the source and at the target, of what only one has, or has otherwise."""
        there = (target.files, target.path) if target.files.look(target.path) else None
        wanted, present = dict[str, Entry](), dict[str, Entry]()
        unseen = dict[str, str]()
        comparison = compare(
            (source.files, source.path),
            there,
            **self.patterns,
            keep=self.keep,
            skips_links=self.links == "skip",
            contents=checksum,
            special=dry_run,
        )
        while (page := comparison.page()) is not None:
            for path, mine, theirs, verdict, reason, other_kept in page:
                entry, other = mine and Entry(path, *mine), theirs and Entry(path, *theirs)
                if verdict == "no source":
                    self.failures[path or "."] = reason
                    self.listed = False
                elif verdict == "no target":
                    unseen[path or "."] = reason
                elif entry and other and verdict != "listed":
                    self._note_content(entry, other, verdict, reason, other_kept)
                else:
                    wanted.update({path: entry} if entry else {})
                    present.update({path: other} if other else {})
                    if entry and (other is None or other_kept or _differs(entry, other)):
                        self.changes.append(Change("changed" if other else "new", path))
        self.compared, *self.there, dated = comparison.counts()
        self.alike = bool(there) and not (dated or wanted or self.changes or unseen)
        self.failures = {**unseen, **self.failures}
        return wanted, present

    def _note_content(self, entry: Entry, other: Entry, verdict: str, reason: str, other_kept: bool) -> None:
        """Of two files of the same size: equal ones get the source's time, others one at which they are copied."""
        path = entry.path
        if verdict == "unread":
            self.failures[path] = reason
        elif verdict == "other":
            self.changes.append(Change("changed", path))
            if entry.modified == other.modified:
                self.times[path] = _another_time(entry.modified)
        else:
            if entry.modified != other.modified:
                self.times[path] = entry.modified
            if other_kept or _has_other_mode(entry, other):
                self.changes.append(Change("changed", path))
        if path in self.times:
            self.seen[path] = other

    def is_done(self) -> bool:
        """Whether all that a copy would bring is known to be there: files and folders, of which none would fail."""
        return self.alike and not (self.doomed or self.times or self.failures or self.there[2])

    def kept(self, nothing: CopyReport) -> CopyReport:
        """The report of a copy that had nothing to do, where all that it looked at is there."""
        files, folders, _, size = self.there
        return replace(nothing, files=files, kept=files, folders=folders + nothing.folders, bytes=size)

    def apply(self, target: _End) -> None:
        """Removes what is to go, and sets times."""
        if self.doomed:
            names = [one.path for one in self.doomed]
            self.deleted, failed = target.files.remove(target.path, names)
            # What they leave out keeps the folders it is in.
            filters = self.links == "skip" or any(self.patterns.values())
            self._note(one for one in failed if not (filters and one.error == "ENOTEMPTY"))
        if self.times:
            self._note(target.files.set_times(target.path, self.times.items(), seen=self.seen))

    def _note(self, failed: Iterable[Unknown]) -> None:
        self.failures |= {one.path: one.reason for one in failed}

    def report(self, copied: CopyReport | None) -> SyncReport:
        """What came of it."""
        within = {path.partition("/")[2] or path: reason for path, reason in (copied.failures if copied else [])}
        failures = {**self.failures, **within}
        return SyncReport(copied, self.changes, self.deleted, self.compared, sorted(failures.items()), self.listed)


def _another_time(time: int) -> int:
    return next(other for other in _OTHER_TIMES if abs(other - time) > _APART)


def _differs(entry: Entry, other: Entry) -> bool:
    if entry.kind != other.kind:
        return True
    if entry.kind == "file" and (entry.size, entry.modified) != (other.size, other.modified):
        return True
    return entry.target != other.target or _has_other_mode(entry, other)


def _has_other_mode(entry: Entry, other: Entry) -> bool:
    """Whether permission bits differ; those of links mean nothing."""
    return entry.kind != "link" and None not in (entry.mode, other.mode) and entry.mode != other.mode


def _is_in_the_way(entry: Entry, other: Entry) -> bool:
    """Whether one cannot be put in the place of the other: a folder is there, or is to be there."""
    return (entry.kind == "folder") != (other.kind == "folder")


def _obstacle(entry: Entry, other: Entry | None, links: str | None) -> str:
    """Why an entry cannot be put where another is, or at all; nothing where it is not known that it cannot."""
    if entry.kind == "other":
        return "neither a file, nor a folder, nor a link"
    if entry.kind == "link" and links != "keep" and not _stays_within(entry.target or "", entry.path.count("/")):
        return "the link leads out of what is copied"
    if other is not None and _is_in_the_way(entry, other):
        return f"a {'file' if other.kind == 'other' else other.kind} is there, not a {entry.kind}"
    return ""


def _stays_within(target: str, depth: int) -> bool:
    """Whether a link in a folder so deep leads to somewhere in the copy, as the end that would make it decides."""
    names = [name for at, name in enumerate(target.split("/")) if name and (name != "." or at == 0)]
    up = len([*takewhile("..".__eq__, names)])
    return not target.startswith("/") and up <= depth and ".." not in names[up:]


def _refusal(target: _End) -> str:
    """Why nothing may be written at an executor; nothing where something may, or that is not known."""
    try:
        target.files.check_writable(target.path)
    except TransferError as error:
        return str(error) if error.errno == errno.EACCES else ""
    return ""


def as_json(report: SyncReport) -> dict[str, Any]:
    """A report for JSON."""
    return {
        "copied": None if report.copied is None else as_facts(report.copied),
        "changes": [[change.what, change.path] for change in report.changes],
        "deleted": report.deleted,
        "compared": report.compared,
        "failures": [{"path": path, "reason": reason} for path, reason in report.failures],
        "listed": report.listed,
    }
