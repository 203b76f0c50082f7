"""Which frames are looked at how: the stream of tasks, before anything is decoded."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from phalanx.demo.finding import Scan
from phalanx.demo.slices import View

#: How many tasks a few single pictures are spread over; more frames make more tasks.
USUAL_TASKS = 80
#: From one light to the next, in degrees: no two are ever close.
GOLDEN_ANGLE = 137.5

LOOKS: dict[str, list[View]] = {
    "CT": [
        View("scan window"),
        View("bone window", "bone", "bone", relief=0.7),
        View("soft tissue", "soft tissue", relief=0.55),
        View("bone surface", "bone", "copper", relief=0.85, oblique=True),
    ],
    "MR": [
        View("scan window"),
        View("high contrast", "narrow", relief=0.6),
        View("relief", "wide", "bone", relief=0.8),
        View("surface", "wide", "copper", relief=0.85, oblique=True),
    ],
    "NM": [
        View("inverse", "wide", "inverse", relief=0.2),
        View("hot iron", "wide", "hot iron"),
        View("relief", "wide", "bone", relief=0.8),
        View("surface", "wide", "hot iron", relief=0.7, oblique=True),
    ],
    "US": [
        View("scan window", "wide"),
        View("persistence", "wide", "sepia", projection=True),
        View("relief", "wide", "bone", relief=0.8),
        View("surface", "wide", "copper", relief=0.85, oblique=True),
    ],
}
LOOKS["PT"] = LOOKS["NM"]
OTHER_LOOKS = LOOKS["MR"]


@dataclass(frozen=True)
class Shot:
    """One task to be: frame (from 0) of a scan, and a view of it."""

    scan: Scan
    frame: int
    view: View


def plan(scans: Sequence[Scan], tasks: int | None = None) -> list[Shot]:
    """Exactly `tasks` shots, shared evenly by the scans; or every frame twice, single pictures oftener."""
    shares = [_usual(scan, len(scans)) for scan in scans] if tasks is None else _split(tasks, len(scans))
    return [shot for scan, share in zip(scans, shares, strict=True) for shot in _shots_of(scan, share)]


def _usual(scan: Scan, scans: int) -> int:
    return max(2 * scan.frames, -(-USUAL_TASKS // scans))


def _split(tasks: int, shares: int) -> list[int]:
    ends = [tasks * end // max(shares, 1) for end in range(shares + 1)]
    return [end - start for start, end in itertools.pairwise(ends)]


def _shots_of(scan: Scan, count: int) -> list[Shot]:
    """From the first frame to the last, each shot with the next view."""
    return [Shot(scan, number * scan.frames // count, view_of(scan, number)) for number in range(count)]


def view_of(scan: Scan, number: int) -> View:
    """The looks of the scan's modality in turn; each round lights them from another side."""
    looks = LOOKS.get(scan.modality, OTHER_LOOKS)
    turn, index = divmod(number, len(looks))
    look = looks[index]
    light, seat = look.light + turn * GOLDEN_ANGLE, look.turn + turn * GOLDEN_ANGLE
    return replace(look, light=light % 360, turn=seat % 360)
