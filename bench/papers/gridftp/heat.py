"""Figure 1: threads by streams, one level on each page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.papers.gridftp.systems import SYSTEMS, Cell, Samples, Say, measure_here
from bench.transfer.settings import Settings
from bench.transfer.site import Site


@dataclass
class Heat:
    """``counts`` of threads and of streams."""

    level: str
    counts: list[int]
    samples: Samples

    @classmethod
    def measured(cls, level: str, site: Site, settings: Settings, counts: list[int], rounds: int, say: Say) -> Heat:
        """Ours and GridFTP's cells in turn."""
        cells = [
            Cell(system, level, streams, threads) for threads in counts for streams in counts for system in SYSTEMS
        ]
        return cls(level, counts, measure_here(cells, site, settings, rounds, say))

    @property
    def title(self) -> str:
        """With the level."""
        return f"Threads and parallel streams, {self.level}"

    @property
    def size(self) -> tuple[float, float]:
        """Two squares beside each other."""
        return 10.5, 5.4

    def tables(self) -> list[list[list[str]]]:
        """A row for each number of threads."""
        return [
            [
                [f"{title}, Mbit/s; threads", *(f"P{streams}" for streams in self.counts)],
                *(
                    self.samples.row(
                        str(threads), [Cell(system, self.level, streams, threads) for streams in self.counts]
                    )
                    for threads in self.counts
                ),
            ]
            for system, title in SYSTEMS.items()
        ]

    def words(self) -> list[str]:
        """How it was taken."""
        return [
            "Mbit/s, memory to memory on one machine. Each panel has its own scale: a shade is the share of the best "
            "in the panel. Threads are at each end.",
            *self.samples.words(),
        ]

    def to_json(self) -> dict[str, Any]:
        """Every sample."""
        return {"title": self.title, "level": self.level, "samples": self.samples.to_json()}

    def draw(self, canvas: Any) -> None:
        """Shades with the rates in them."""
        for axes, (system, title) in zip(canvas.subplots(1, 2), SYSTEMS.items(), strict=True):
            self._panel(axes, system, title)

    def _panel(self, axes: Any, system: str, title: str) -> None:
        rates = [
            [self.samples.median(Cell(system, self.level, streams, threads)) or 0.0 for streams in self.counts]
            for threads in self.counts
        ]
        most = max(max(row) for row in rates) or 1.0
        axes.imshow([[rate / most for rate in row] for row in rates], cmap="YlGnBu", vmin=0, vmax=1, origin="lower")
        axes.grid(visible=False)
        axes.set(title=f"{title}: best {most:,.0f} Mbit/s".replace(",", " "), xlabel="streams", ylabel="threads")
        axes.set_xticks(range(len(self.counts)), self.counts)
        axes.set_yticks(range(len(self.counts)), self.counts)
        for y, row in enumerate(rates):
            for x, rate in enumerate(row):
                colour = "white" if rate / most > 0.6 else "black"
                axes.text(
                    x, y, f"{rate / 1e3:.1f}" if rate else "-", ha="center", va="center", color=colour, fontsize=8
                )
