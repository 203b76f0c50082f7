"""The main job as a whole: in parallel, then sequentially to compare, then the contact sheet."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

import phalanx as px
from phalanx.demo import denoise, render
from phalanx.demo.finding import Skipped
from phalanx.demo.planning import Shot
from phalanx.demo.reading import shots_in, slices
from phalanx.demo.sheet import contact_sheet
from phalanx.demo.slices import Picture
from phalanx.words import Policy

T = TypeVar("T")


class Watch(Protocol):
    """Passes items through and shows how many of `total` have passed."""

    def __call__(self, items: Iterable[T], total: int, what: str) -> Iterator[T]:
        """`what` says in words what is being done."""
        ...


@dataclass(frozen=True)
class Job:
    """What the user asked for."""

    folder: Path | None = None
    out: Path = Path("demo-output")
    tasks: int | None = None
    executors: Path | None = None
    interpreters: int | None = None
    policy: Policy | px.Rules = "links"
    journal: Path | None = None
    sequential: bool = True


@dataclass(frozen=True)
class Report:
    """What came of it."""

    sheet: Path
    scans: int
    summary: px.summary.Summary
    #: Wall time of the same work in this process alone, in seconds.
    sequential: float | None
    #: Between the parallel and the sequential pictures: the largest, in grey levels.
    difference: int | None
    skipped: list[str]

    @property
    def speedup(self) -> float | None:
        """Sequential wall time / parallel wall time."""
        return self.sequential / self.summary.wall if self.sequential else None


def run(job: Job, watch: Watch) -> Report:
    """Do the job. Raises PhalanxError when there is no scan, or what the manager raises."""
    skipped = Skipped()
    shots = shots_in(job.folder, job.tasks, skipped)
    job.out.mkdir(parents=True, exist_ok=True)
    pictures, summary = in_parallel(job, shots, skipped, watch)
    sequential, difference = sequentially(shots, pictures, job.out, watch) if job.sequential else (None, None)
    scans = len({picture.scan for picture in pictures})
    subtitle = f"{len(pictures)} pictures of {scans} scans in {summary.wall:.1f} s"
    sheet = contact_sheet(pictures, job.out, subtitle)
    return Report(sheet, scans, summary, sequential, difference, _told(skipped, job.folder))


def in_parallel(
    job: Job, shots: Sequence[Shot], skipped: Skipped, watch: Watch
) -> tuple[list[Picture], px.summary.Summary]:
    """Compute and save all pictures; returned without their pixels, so memory stays small."""
    program = px.Pipeline(denoise, px.Farm(render))
    saved = []
    with _manager(job) as manager:
        results: Iterable[Picture] = manager.compute(program, slices(shots, skipped))
        for picture in watch(results, len(shots), "in parallel"):
            picture.save(job.out)
            saved.append(replace(picture, png=b""))
        return saved, manager.summary()


def _manager(job: Job) -> px.Manager:
    contract = px.ParDegree(job.interpreters) if job.interpreters else None
    return px.Grid(job.executors, policy=job.policy).manager(contract=contract, journal=job.journal)


def sequentially(shots: Sequence[Shot], pictures: Sequence[Picture], saved: Path, watch: Watch) -> tuple[float, int]:
    """The same work, saving included, in this process: wall time in s, difference to what is `saved`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        for slice_ in watch(slices(shots, Skipped()), len(shots), "sequentially"):
            render(denoise(slice_)).save(folder)
        wall = time.perf_counter() - start
        return wall, max(_difference(folder / picture.name, saved / picture.name) for picture in pictures)


def _difference(one: Path, other: Path) -> int:
    """The largest between two pictures' pixels; 255 if they are not even of one size."""
    if one.read_bytes() == other.read_bytes():
        return 0
    first, second = _levels(one), _levels(other)
    return int(np.abs(first - second).max()) if first.shape == second.shape else 255


def _levels(path: Path) -> npt.NDArray[np.int16]:
    with Image.open(path) as image:
        return np.asarray(image, np.int16)


def _told(skipped: Skipped, folder: Path | None) -> list[str]:
    """The user's own files by reason; pydicom's, most of which are broken on purpose, in one line."""
    if folder or not skipped.count:
        return skipped.lines()
    return [f"{skipped.count} other files that pydicom ships: copies, thumbnails, plans and test patterns"]
