"""The tables: what phalanx must reach and whether it does, and every figure of everybody."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

from bench.peers.figures import shown
from bench.peers.table import grid, verdict
from bench.transfer.rows import ROWS, Claim
from bench.transfer.runs import Found


class Figure(NamedTuple):
    """A field of `Sample`."""

    title: str
    unit: str
    higher_is_better: bool


FIGURES = {
    "rate": Figure("GB/s", "GB/s", True),
    "cpu": Figure("CPU s/GB, both ends", "s/GB", False),
    "files": Figure("files/s", "/s", True),
    "setup": Figure("set-up ms", "ms", False),
    "crossed": Figure("MB crossed", "MB", False),
}


def report(results: Mapping[str, Found]) -> str:
    """Both tables, and what is not there."""
    claims = [_claim(claim, found) for name, found in results.items() for claim in ROWS[name].claims]
    everything = [line for name, found in results.items() for line in _entries(name, found)]
    lacking: dict[tuple[str, str], list[str]] = {}
    for found in results.values():
        for title, reason in found.reasons.items():
            taken = len(found.samples.get(title, []))
            what = f"failed, and has {taken} samples without that" if taken else "not measured"
            lacking.setdefault((what, reason), []).append(title)
    notes = [f"{what}: {', '.join(titles)}: {reason}" for (what, reason), titles in lacking.items()]
    return "\n\n".join(
        part
        for part in (
            grid(("what", "phalanx", "the other side", "ratio", "reach", "verdict"), claims),
            grid(("who", *(figure.title for figure in FIGURES.values())), everything),
            "\n".join(notes),
        )
        if part
    )


def value(found: Found, title: str, figure: str) -> float | None:
    """The median of its samples."""
    samples = [one for sample in found.samples.get(title, []) if (one := getattr(sample, figure)) is not None]
    return float(median(samples)) if samples else None


def _shown(value: float | None, unit: str) -> str:
    """To three digits, of long lines' rates too."""
    if value is not None and 0 < value < 0.1:
        return f"{value:.2g} {unit}".strip()
    return shown(value, unit)


def _claim(claim: Claim, found: Found) -> tuple[str, ...]:
    figure, ours = FIGURES[claim.figure], value(found, claim.ours, claim.figure)
    others = {title: one for title in claim.theirs if (one := value(found, title, claim.figure)) is not None}
    best = (max if figure.higher_is_better else min)(others, key=lambda title: others[title]) if others else None
    ratio = ours / others[best] if ours is not None and best else None
    sign, compared = "≥" if figure.higher_is_better else "≤", ratio if claim.relative else ours
    words = [verdict(compared, claim.reach, figure.higher_is_better)]
    if best and not best.startswith(_OURS) and ratio and (ratio < 1) == figure.higher_is_better:
        words.append(f"{best} wins")
    return (
        claim.what,
        _shown(ours, figure.unit),
        f"{best}: {_shown(others[best], figure.unit)}" if best else "not measured" if claim.theirs else "-",
        _shown(ratio, "×"),
        f"{sign} {claim.reach:g} {'×' if claim.relative else figure.unit}",
        ", ".join(words),
    )


#: Titles of our own entries that others of ours are compared with.
_OURS = ("clear, ",)


def _entries(row: str, found: Found) -> list[tuple[str, ...]]:
    """A line for each entry, below one with the row's name."""
    lines = [(f"  {title}", *(_shown(value(found, title, name), "") for name in FIGURES)) for title in found.samples]
    return [(row, *("" for _ in FIGURES)), *lines] if lines else []
