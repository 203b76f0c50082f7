"""From a folder to the tasks that its scans make."""

from __future__ import annotations

from pathlib import Path

from phalanx.demo.decoding import decodable, slices
from phalanx.demo.finding import Skipped, find_scans, shipped_scans
from phalanx.demo.planning import Shot, plan
from phalanx.errors import PhalanxError

__all__ = ["shots_in", "slices"]


def shots_in(folder: Path | None = None, tasks: int | None = None, skipped: Skipped | None = None) -> list[Shot]:
    """What to render of the scans in `folder`, or of those that pydicom ships; `slices` makes it a stream.

    Raises PhalanxError when there is no scan. What is left out is noted in `skipped`.
    """
    skipped = skipped or Skipped()
    place = folder or shipped_scans()
    shots = plan(decodable(find_scans(place, skipped), skipped), tasks)
    if not shots:
        raise PhalanxError(_nothing_in(place, skipped))
    return shots


def _nothing_in(folder: Path, skipped: Skipped) -> str:
    advice = "name a folder of DICOM files of CT, MR or other scans, or none to use those that pydicom ships"
    return "\n  left out: ".join([f"no scan in {folder}: {advice}", *skipped.lines()])
