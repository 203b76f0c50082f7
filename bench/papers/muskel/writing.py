"""Tables as Markdown, all samples as JSON, plots as PNG and SVG, in one folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bench.papers.muskel import drawing
from bench.peers.processes import Strangers, disturbance


class Measured(Protocol):
    """A figure with its samples."""

    @property
    def title(self) -> str:
        """What it shows."""

    @property
    def size(self) -> tuple[float, float]:
        """Of the plot, in inches."""

    def tables(self) -> list[list[list[str]]]:
        """Tables as rows of cells, the head first."""

    def words(self) -> list[str]:
        """Sentences that one must know to read them."""

    def to_json(self) -> dict[str, Any]:
        """Every sample."""

    def draw(self, canvas: Any) -> None:
        """Put it on a matplotlib Figure."""


def publish(stem: Path, figure: Measured, strangers: Strangers, facts: Mapping[str, Any], note: str) -> None:
    """Write `figure` with `note` and what others used of the machine since `strangers`, and print the files' names."""
    seconds, others = strangers.seconds, sum(strangers.percents())
    notes = "; ".join(filter(None, [note, disturbance(others)]))
    facts = {**facts, "took_seconds": seconds, "others_percent": others, "note": f"{notes}."}
    for path in write(stem, figure, facts):
        print(path, flush=True)


def write(stem: Path, figure: Measured, facts: Mapping[str, Any]) -> list[Path]:
    """Write `stem`.md and its like; returns the files. `facts["note"]` stands below the table and the plot."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure_of_paper = (
        f"{stem.name.replace('fig', 'Figure ').replace('-', ', ')}: " if stem.name.startswith("fig") else ""
    )
    title = figure_of_paper + figure.title
    notes = [*figure.words(), facts["note"]]
    stem.with_suffix(".md").write_text(_page(title, figure.tables(), notes))
    stem.with_suffix(".json").write_text(json.dumps({**facts, **figure.to_json()}, indent=1) + "\n")
    written = [stem.with_suffix(".md"), stem.with_suffix(".json")]
    if not drawing.missing():
        drawing.write(stem, figure.size, figure.title, "\n".join(_folded(notes, figure.size[0])), figure.draw)
        written += [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    return written


def _page(title: str, tables: Sequence[Sequence[Sequence[str]]], notes: Sequence[str]) -> str:
    return "\n\n".join([f"# {title}", *map(table, tables), *notes]) + "\n"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table in Markdown, the first one its head; figures to the right."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


def _folded(notes: Sequence[str], inches: float) -> list[str]:
    import textwrap

    return textwrap.wrap(" ".join(notes), width=int(inches * 16))
