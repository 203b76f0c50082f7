"""The profiler of paper 002 (section 3.3): time what stands between ``begin(label)`` and ``end(label)``.

    with px.profile.timed("search"):
        ...
    px.profile.record("visited nodes", 3)
    px.profile.save("figures")            # this process's raw data: a file of its own
    px.profile.merge("figures")           # {label: Statistics} over the files of all processes

A sample costs about a microsecond: every thread has series of its own, without a lock. Sums are taken of many samples
at once. Memory is bounded: a series keeps its first ``KEPT`` samples, and counts all of them.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import socket
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from phalanx.errors import ProfileError

#: Samples of one label and thread that are kept one by one; of later ones only the statistics are.
KEPT = 100_000
_AT_ONCE = 4096
_SUFFIX = ".profile.json"
_files = itertools.count()


@dataclass(frozen=True)
class Statistics:
    """The statistics of all samples with one label. Times are in seconds; recorded values have the unit of the program.

    ``deviation`` is the standard deviation, that of a population.

    Examples
    --------
    >>> import phalanx as px
    >>> px.profile.reset()
    >>> px.profile.record("visited nodes", 2)
    >>> px.profile.record("visited nodes", 4)
    >>> found = px.profile.statistics()["visited nodes"]
    >>> found.count, found.mean, found.deviation
    (2, 3.0, 1.0)
    """

    count: int
    total: float
    mean: float
    min: float
    max: float
    deviation: float


class _Series:
    """The samples of one label and thread. ``pending`` are those that ``sums`` does not have yet."""

    def __init__(self) -> None:
        self.pending = array("d")
        self.kept = array("d")
        self.sums: Statistics | None = None

    def fold(self) -> None:
        """Take what is pending into the sums."""
        samples, self.pending = self.pending, array("d")
        if not samples:
            return
        self.kept.extend(samples[: max(0, KEPT - len(self.kept))])
        total = math.fsum(samples)
        mean = total / len(samples)
        deviation = math.sqrt(math.fsum((sample - mean) ** 2 for sample in samples) / len(samples))
        sums = Statistics(len(samples), total, mean, min(samples), max(samples), deviation)
        self.sums = _merged([self.sums, sums]) if self.sums else sums


class _Thread(threading.local):
    """What one thread has begun, and its series; known to the process from its first sample on."""

    def __init__(self) -> None:
        self.begun: dict[str, float] = {}
        self.series: dict[str, _Series] = {}
        _everybody.append((threading.current_thread().name, self.series))


_everybody: list[tuple[str, dict[str, _Series]]] = []
_mine = _Thread()


def begin(label: str) -> None:
    """Start the clock of ``label`` in this thread; several labels may run at once, each once.

    Parameters
    ----------
    label : str
        The name of the part.

    Raises
    ------
    ProfileError
        The label runs already in this thread.

    Examples
    --------
    >>> import phalanx as px
    >>> px.profile.begin("search")
    >>> seconds = px.profile.end("search")
    """
    if label in _mine.begun:
        raise ProfileError(f"begin({label!r}) twice in this thread without end({label!r}): nest two labels instead")
    _mine.begun[label] = perf_counter()


def end(label: str) -> float:
    """Stop the clock of ``label`` and keep the time as a sample; returns it, in seconds.

    Parameters
    ----------
    label : str
        The name of the part.

    Returns
    -------
    float
        The time since ``begin``, in seconds.

    Raises
    ------
    ProfileError
        The label does not run in this thread.

    Examples
    --------
    >>> import phalanx as px
    >>> px.profile.begin("search")
    >>> px.profile.end("search") < 60
    True
    """
    now = perf_counter()
    started = _mine.begun.pop(label, None)
    if started is None:
        raise ProfileError(f"end({label!r}) without begin({label!r}) in this thread")
    record(label, now - started)
    return now - started


class timed:  # noqa: N801  used as a function
    """``begin(label)`` and ``end(label)`` around a block, also around one that raises: ``with timed("search"): …``.

    Parameters
    ----------
    label : str
        The name of the part.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.profile.timed("search"):
    ...     total = sum(range(1000))
    """

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = label

    def __enter__(self) -> None:
        begin(self.label)

    def __exit__(self, *_: object) -> None:
        end(self.label)


def record(label: str, value: float) -> None:
    """Keep a sample that is no time, as a number of visited nodes.

    Parameters
    ----------
    label : str
        The name of the series.
    value : float
        The sample.

    Examples
    --------
    >>> import phalanx as px
    >>> px.profile.record("visited nodes", 3)
    """
    series = _mine.series.get(label)
    if series is None:
        series = _mine.series[label] = _Series()
    series.pending.append(value)
    if len(series.pending) >= _AT_ONCE:
        series.fold()


def statistics() -> dict[str, Statistics]:
    """The statistics of this process, by label, over its threads. Call it when they have ended, or record nothing.

    Returns
    -------
    dict of str to Statistics
        By label.

    Examples
    --------
    >>> import phalanx as px
    >>> px.profile.reset()
    >>> px.profile.record("visited nodes", 3)
    >>> px.profile.statistics()["visited nodes"].total
    3.0
    """
    return _by_label((label, sums) for _, label, sums, _ in _all())


def reset() -> None:
    """Forget all samples of this process, and what this thread has begun.

    Examples
    --------
    >>> import phalanx as px
    >>> px.profile.reset()
    >>> px.profile.statistics()
    {}
    """
    _mine.begun.clear()
    for _, some in list(_everybody):
        some.clear()


def save(folder: str | Path) -> Path:
    """Write this process's raw data as a file of its own into ``folder``, which is made; returns the file.

    One line of JSON for each thread and label: ``thread``, ``label``, ``statistics`` and ``samples``, the first
    ``KEPT`` of them in their order.

    Parameters
    ----------
    folder : str or Path
        It is made if it is not there.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import phalanx as px
    >>> px.profile.reset()
    >>> px.profile.record("visited nodes", 3)
    >>> px.profile.save("figures").name.endswith(".profile.json")
    True
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{socket.gethostname()}-{os.getpid()}-{next(_files)}{_SUFFIX}"
    with path.open("w", encoding="utf-8") as file:
        for thread, label, sums, samples in _all():
            line = {"thread": thread, "label": label, "statistics": asdict(sums), "samples": list(samples)}
            print(json.dumps(line), file=file)
    return path


def raw(folder: str | Path) -> Iterator[dict[str, Any]]:
    """The lines of all files that ``save`` wrote into ``folder``, each with its ``process`` (the file's name).

    Parameters
    ----------
    folder : str or Path
        Where all processes saved.

    Yields
    ------
    dict
        ``process``, ``thread``, ``label``, ``statistics`` and ``samples``.

    Examples
    --------
    >>> import phalanx as px
    >>> px.profile.reset()
    >>> px.profile.record("visited nodes", 3)
    >>> file = px.profile.save("figures")
    >>> {line["label"] for line in px.profile.raw("figures")}
    {'visited nodes'}
    """
    for path in sorted(Path(folder).glob(f"*{_SUFFIX}")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield {"process": path.name.removesuffix(_SUFFIX), **json.loads(line)}


def merge(folder: str | Path) -> dict[str, Statistics]:
    """Statistics by label over the files that all processes saved into ``folder``.

    Parameters
    ----------
    folder : str or Path
        Where all processes saved.

    Returns
    -------
    dict of str to Statistics
        By label.

    Examples
    --------
    >>> import phalanx as px
    >>> px.profile.reset()
    >>> px.profile.record("visited nodes", 3)
    >>> file = px.profile.save("figures")
    >>> px.profile.merge("figures")["visited nodes"].min
    3.0
    """
    return _by_label((line["label"], Statistics(**line["statistics"])) for line in raw(folder))


def _all() -> Iterator[tuple[str, str, Statistics, array[float]]]:
    for thread, some in list(_everybody):
        for label, series in list(some.items()):
            series.fold()
            if series.sums:
                yield thread, label, series.sums, series.kept


def _by_label(all_sums: Iterable[tuple[str, Statistics]]) -> dict[str, Statistics]:
    by_label: dict[str, list[Statistics]] = {}
    for label, sums in all_sums:
        by_label.setdefault(label, []).append(sums)
    return {label: _merged(some) for label, some in sorted(by_label.items())}


def _merged(parts: Sequence[Statistics]) -> Statistics:
    """The statistics of several parts together. A sum of squares would lose digits where the spread is small."""
    count, total = sum(part.count for part in parts), math.fsum(part.total for part in parts)
    mean = total / count
    variance = math.fsum(part.count * (part.deviation**2 + (part.mean - mean) ** 2) for part in parts) / count
    least, most = min(part.min for part in parts), max(part.max for part in parts)
    return Statistics(count, total, mean, least, most, math.sqrt(variance))


# A forked child forgets what is its parent's, which saves its samples itself.
os.register_at_fork(after_in_child=reset)
