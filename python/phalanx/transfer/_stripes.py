"""One copy between several machines at an end: each pair of them takes a share (stripes, paper 003, section IV).

The machines of one end see the same files. All shares are copied at the same time. Then one
copy of everything follows, between two of the machines. It finds the files that the shares brought, brings the others,
and puts divided files in their places. This last copy is an ordinary one, and keeps all that an ordinary copy promises.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from phalanx._native import Copy
from phalanx.errors import TransferError
from phalanx.transfer._files import THERE, Entry, Files, named
from phalanx.words import LEVELS

#: Half as many as an executor takes copies of one user: those of a round may end there while the next one begins.
MOST = 8
#: It is asked so often how far shares are, in seconds.
_OFTEN = 0.1
#: What counts together for all shares and the copy that follows them.
_SUMS = ("lost_streams", "altered_streams", "cuts", "reused", "crossed")

Machine = re.Match[str]
Reach = Callable[[Machine], Files]
Tell = Callable[[tuple[int, int, bool]], None]


@dataclass(frozen=True)
class Pair:
    """The two ends of a share; None: this machine."""

    source: Machine | None
    target: Machine | None

    def __str__(self) -> str:
        return " to ".join(name(one) for one in (self.source, self.target) if one)


#: Begins a copy between a pair: of the share that is so numbered of so many, or of all. The last: shares made its top.
Begin = Callable[[Pair, tuple[int, int] | None, bool], Copy]


@dataclass(frozen=True)
class Ends:
    """All machines of a copy with what is copied from and to; no machines: this one."""

    sources: list[Machine]
    targets: list[Machine]
    source_path: str
    target_path: str

    def pairs(self) -> list[Pair]:
        """The pairs of machines, as many as the end with more machines has."""
        sources: Sequence[Machine | None] = self.sources or [None]
        targets: Sequence[Machine | None] = self.targets or [None]
        count = max(len(sources), len(targets))
        return [Pair(sources[k % len(sources)], targets[k % len(targets)]) for k in range(count)]


def name(machine: Machine) -> str:
    """The name as its user wrote it."""
    return f"{machine['host']}:{machine['port']}" if machine["port"] else str(machine["host"])


def further(stripes: str, source: Machine | None, target: Machine | None) -> tuple[list[Machine], list[Machine]]:
    """All machines of both ends, each end's first one first; words like ``b,c:7401``, or ``b,c/y,z`` for both ends."""
    words = stripes.split("/")
    if source and target:
        if len(words) != 2:
            raise TransferError(f"stripes between executors are SOURCES/TARGETS, like b,c/y,z or b,c/; not {stripes!r}")
        ends = (_all(source, words[0]), _all(target, words[1]))
    elif len(words) == 1:
        ends = ([], _all(target, stripes)) if target else (_all(source, stripes), [])
    else:
        raise TransferError(f"{stripes!r}: only one end is at executors: write their names, like b,c:7401")
    if max(map(len, ends)) < 2:
        raise TransferError("stripes are further machines, beside the one in the path: none is named")
    if max(map(len, ends)) > MOST:
        raise TransferError(f"at most {MOST} machines take part at an end")
    return ends


def _all(first: Machine | None, words: str) -> list[Machine]:
    machines = [first] if first else []
    for word in filter(None, (word.strip() for word in words.split(","))):
        match = THERE.fullmatch(f"{word}:/")
        if match is None:
            raise TransferError(f"{word!r} names no machine: write host or host:port")
        if name(match) in map(name, machines):
            raise TransferError(f"{word} is named twice")
        machines.append(match)
    return machines


def look(ends: Ends, reach: Reach) -> tuple[Ends, bool, list[tuple[str, str]]]:
    """Checks that machines of one end see the same.

    Returns the ends without machines that are out of reach; whether what is copied will be new there; and who is out of
    reach, with the reasons. What a machine refuses is an error.
    """
    lost: list[tuple[str, str]] = []
    with ExitStack() as stack:

        def reached(machines: list[Machine]) -> list[tuple[Machine, Files]]:
            found = []
            for machine in machines:
                try:
                    found.append((machine, stack.enter_context(reach(machine))))
                except TransferError as error:
                    if error.errno != errno.EHOSTUNREACH:
                        raise
                    lost.append((name(machine), str(error)))
            if machines and not found:
                raise TransferError(lost[-1][1])
            return found

        sources = reached(ends.sources if len(ends.sources) > 1 else [])
        targets = reached(ends.targets)
        while True:
            try:
                is_new = _same(sources, targets, ends)
            except TransferError as error:
                gone = [machine for machine, files in (*sources, *targets) if files.closed]
                if not gone:
                    raise
                lost += [(name(machine), str(error)) for machine in gone]
                left = [[one for one in end if not one[1].closed] for end in (sources, targets)]
                if any(end and not others for end, others in zip((sources, targets), left, strict=True)):
                    raise
                sources, targets = left
            else:
                break
        known = (
            [machine for machine, _ in sources] or ends.sources,
            [machine for machine, _ in targets] or ends.targets,
        )
        return Ends(*known, ends.source_path, ends.target_path), is_new, lost


def _same(sources: Sequence[tuple[Machine, Files]], targets: Sequence[tuple[Machine, Files]], ends: Ends) -> bool:
    """An error where machines of one end do not see the same; whether what is copied will be new there."""
    if sources and not ends.source_path.startswith("memory"):
        _same_source(sources, ends.source_path)
    if len(targets) > 1 and not ends.target_path.startswith("memory"):
        _same_folder(targets, ends.target_path)
    return bool(targets) and _is_new(targets[0][1], ends)


def _is_new(files: Files, ends: Ends) -> bool:
    path = ends.target_path
    if path.startswith("memory"):
        return False
    place = posixpath.join(path, posixpath.basename(ends.source_path.rstrip("/"))) if path.endswith("/") else path
    return files.look(place, follow=False) is None


def _same_source(sources: Sequence[tuple[Machine, Files]], path: str) -> None:
    """An error where it is not there, or another one, at one of the machines."""
    (first, files), *others = sources
    found = _there(first, files, path)
    for machine, files in others:
        also = _there(machine, files, path)
        if also.kind != found.kind or (found.kind == "file" and _identity(also) != _identity(found)):
            what = "has another size, or was changed at another time (copies keep times)"
            raise TransferError(f"{name(machine)}: {path} is not what {name(first)} has there: it {what}")


def _there(machine: Machine, files: Files, path: str) -> Entry:
    with _about(machine, path):
        found = files.look(path)
    if found is None:
        raise TransferError(f"{name(machine)}: nothing is at {path}")
    return found


def _identity(entry: Entry) -> tuple[int, int]:
    return entry.size, entry.modified


def _same_folder(targets: Sequence[tuple[Machine, Files]], path: str) -> None:
    """An error where not all machines see what the first writes there."""
    (first, files), *others = targets
    with _about(first, path):
        there = files.look(path)
    path = path.rstrip("/") or "/"
    folder = path if there and there.kind == "folder" else posixpath.dirname(path)
    name_there = f".phalanx-{os.urandom(8).hex()}"
    probe = posixpath.join(folder, name_there)
    with _about(first, folder, probe):
        files.create(probe).commit()
    try:
        for machine, other in others:
            with _about(machine, folder, probe):
                seen = other.look(probe)
            if seen is None:
                what = "machines that take one copy together need a file system that all of them see"
                raise TransferError(f"{name(machine)} does not see what {name(first)} writes in {folder}: {what}")
    finally:
        _remove(targets, folder, name_there)
        if folder == path and there:  # which keeps its time, but where it is all that is exported, or a link
            with suppress(TransferError):
                itself = files.look(path, follow=False)
                if itself and itself.kind == "folder":
                    files.set_times(posixpath.dirname(path), [(posixpath.basename(path), there.modified)])


@contextmanager
def _about(machine: Machine, path: str, asked: str | None = None) -> Iterator[None]:
    """Errors say at which machine, and where there; ``asked``: the path that they may name instead."""
    try:
        yield
    except TransferError as error:
        raise named(f"{name(machine)}:{path}", error, asked or path) from error


def _remove(targets: Sequence[tuple[Machine, Files]], folder: str, probe: str) -> None:
    """By whichever machine is there still."""
    for _, files in targets:
        with suppress(TransferError):
            files.remove(folder, [probe])
            return


def carry(pairs: list[Pair], begin: Begin, fresh: bool, finishes: bool, tell: Tell) -> dict[str, Any]:
    """Copies in shares, and then all; what came of it. ``finishes``: it is put somewhere, and not thrown away.

    A pair that is out of reach is left out, and the others share again. Raises what no copy can go on after.
    """
    began = time.monotonic()
    lost: list[tuple[str, str]] = []
    shares: list[dict[str, Any]] = []
    while len(pairs) > 1:
        outcomes = _at_once(pairs, begin, tell)
        ended = [facts for facts in outcomes if isinstance(facts, dict)]
        shares += ended
        lost += [(str(pair), str(one)) for pair, one in zip(pairs, outcomes, strict=True) if not isinstance(one, dict)]
        pairs = [pair for pair, one in zip(pairs, outcomes, strict=True) if isinstance(one, dict)]
        if len(ended) == len(outcomes):
            break
    if not pairs:
        raise TransferError(f"no machine is left: {lost[0][1]}")
    whole = shares[-1] if len(pairs) > 1 and not finishes else _all_of_it(pairs, begin, fresh, lost, tell)
    return _together(whole, shares, len(pairs), lost, time.monotonic() - began)


def _at_once(pairs: list[Pair], begin: Begin, tell: Tell) -> list[dict[str, Any] | TransferError]:
    """The outcome of each pair's share, or why its machines were lost."""
    with ExitStack() as stack:
        jobs = list[Copy]()
        stack.callback(_end, jobs)
        for number, pair in enumerate(pairs):
            jobs.append(begin(pair, (number, len(pairs)), False))
        outcomes: dict[int, dict[str, Any] | TransferError] = {}
        while len(outcomes) < len(jobs):
            for number, job in enumerate(jobs):
                if number not in outcomes and (outcome := _wait(job, _OFTEN / len(jobs))) is not None:
                    outcomes[number] = outcome
            tell(_progress(jobs))
        return [outcomes[number] for number in range(len(jobs))]


def _all_of_it(pairs: list[Pair], begin: Begin, fresh: bool, lost: list[tuple[str, str]], tell: Tell) -> dict[str, Any]:
    """By the first pair, or another if that is lost."""
    for pair in pairs:
        job = begin(pair, None, fresh)
        with ExitStack() as stack:
            stack.callback(_end, [job])
            while (outcome := _wait(job, _OFTEN)) is None:
                tell(job.progress())
        if isinstance(outcome, dict):
            tell(job.progress())
            return outcome
        lost.append((str(pair), str(outcome)))
    raise TransferError(lost[-1][1])


def _wait(job: Copy, patience: float) -> dict[str, Any] | TransferError | None:
    try:
        return job.wait(patience)
    except TransferError as error:
        if job.is_cut():
            return error
        raise


def _end(jobs: Sequence[Copy]) -> None:
    """What is there is kept, and nothing goes on when this returns."""
    for job in jobs:
        job.cancel()
    for job in jobs:
        with suppress(Exception):
            while job.wait(_OFTEN) is None:
                pass


def _progress(jobs: Sequence[Copy]) -> tuple[int, int, bool]:
    """For every share, what is in the others' counts as there."""
    each = [job.progress() for job in jobs]
    total = max(total for _, total, _ in each)
    missing = sum(total - there for there, total, _ in each)
    return max(total - missing, 0), total, any(growing for *_, growing in each)


def _together(
    whole: dict[str, Any],
    shares: list[dict[str, Any]],
    count: int,
    lost: list[tuple[str, str]],
    seconds: float,
) -> dict[str, Any]:
    is_last = any(whole is one for one in shares)  # of what is thrown away, all that there is are shares
    parts = shares if is_last else [*shares, whole]
    weakest = min(parts, key=lambda facts: LEVELS.index(facts["level"]))
    copied = sum(facts["files"] - facts["kept"] for facts in shares)
    failures = list(
        {path: (path, why) for facts in (parts if is_last else [whole]) for path, why in facts["failures"]}.values()
    )
    failed = max(whole["failed"], len(failures))
    return {
        **whole,
        **{name: sum(facts[name] for facts in parts) for name in _SUMS},
        # What a lost pair brought is not told from what was there; of what is thrown away, a share's are the others'.
        "kept": 0 if lost or is_last else max(whole["kept"] - copied, 0),
        "files": whole["files"] - (failed - whole["failed"]),
        "failed": failed,
        "failures": failures,
        "level": weakest["level"],
        "why": weakest["why"],
        "peers": list(dict.fromkeys(peer for facts in parts for peer in facts["peers"])),
        "streams": sum(facts["streams"] for facts in shares[-count:]) or whole["streams"],
        "setup": max(facts["setup"] for facts in parts),
        "seconds": seconds,
        "stripes": count,
        "lost_stripes": lost,
    }
