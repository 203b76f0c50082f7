"""Figure 2: stripes by threads, each stripe's two machines in namespaces with a shaped link of their own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.papers.gridftp.machines import Machines
from bench.papers.gridftp.systems import SYSTEMS, Cell, Samples, Say
from bench.papers.muskel.drawing import COLOURS, FAINT, legend
from bench.transfer import lines
from bench.transfer.settings import Settings

#: The paper's, whose target is what needs no protection; and what shows that it runs.
STRIPES, CURVES = (1, 2, 4), (("clear", 1), ("safe", 1), ("safe", 2), ("private", 1), ("private", 2))
QUICK_STRIPES, QUICK_CURVES = (1, 2), (("clear", 1), ("private", 2))
_LOOKS = {"safe": COLOURS["safe"], "private": COLOURS["secure"]}


@dataclass
class Stripes:
    """``link``: Mbit/s of each stripe; ``counts`` of stripes; ``curves``: levels, each with threads at each end."""

    link: float
    counts: Sequence[int]
    curves: Sequence[tuple[str, int]]
    samples: Samples = field(default_factory=Samples)

    def measure(self, folder: Path, settings: Settings, rounds: int, say: Say) -> None:
        """Ours and GridFTP's in turn."""
        pairs = max(self.counts)
        with lines.machines(folder, pairs) as (lab, sites), ExitStack() as stack:
            for site in sites:
                lines.narrow(site, self.link / 8e3)
            machines = Machines(folder, lab.hosts[:pairs], lab.hosts[pairs:], stack)

            def sample(cell: Cell) -> float:
                asked = cell.level, cell.streams, cell.threads, cell.stripes
                if cell.system == "phalanx":
                    return machines.ours(*asked, settings)
                return machines.theirs(*asked, self.link / 8e3 * settings.seconds * cell.stripes)

            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                for cell in self._cells():
                    self.samples.take(cell, sample)

    title = "Stripes and threads"
    size = 10.0, 4.8

    def tables(self) -> list[list[list[str]]]:
        """A row for each level and number of threads."""
        return [
            [
                [f"{title}, Mbit/s", *(_counted(stripes, "stripe") for stripes in self.counts)],
                *(
                    self.samples.row(
                        f"{level}, {_counted(threads, 'thread')}",
                        [Cell(system, level, 2, threads, count) for count in self.counts],
                    )
                    for level, threads in self.curves
                ),
            ]
            for system, title in SYSTEMS.items()
        ]

    def words(self) -> list[str]:
        """What a stripe is here."""
        return [
            "A stripe is two machines (network namespaces) with a link of "
            f"{self.link:g} Mbit/s between them, headers included, and two streams over it. One copy goes over all "
            "stripes at once: `phalanx cp --stripes` between executors, and GridFTP's front ends with a data node at "
            "each machine, `globus-url-copy -stripe`. All machines share the cores of one.",
            *self.samples.words(),
        ]

    def _cells(self) -> list[Cell]:
        return [
            Cell(system, level, 2, threads, stripes)
            for stripes in self.counts
            for level, threads in self.curves
            for system in SYSTEMS
        ]

    def to_json(self) -> dict[str, Any]:
        """Every sample."""
        return {"title": self.title, "link_megabits": self.link, "samples": self.samples.to_json()}

    def draw(self, canvas: Any) -> None:
        """A panel for each system."""
        panels = canvas.subplots(1, 2, sharey=True)
        for axes, (system, title) in zip(panels, SYSTEMS.items(), strict=True):
            axes.set(title=title, xlabel="stripes")
            axes.plot(
                self.counts, [self.link * n for n in self.counts], color=FAINT, linestyle=":", label="the links' rate"
            )
            for level, threads in self.curves:
                self._curve(axes, system, level, threads)
            axes.set_xticks(self.counts)
            axes.set_ylim(bottom=0)
        panels[0].set_ylabel("Mbit/s")
        legend(panels[0])

    def _curve(self, axes: Any, system: str, level: str, threads: int) -> None:
        points = [(n, self.samples.median(Cell(system, level, 2, threads, n))) for n in self.counts]
        drawn = [(n, rate) for n, rate in points if rate is not None]
        axes.plot(
            [n for n, _ in drawn], [rate for _, rate in drawn], color=_LOOKS.get(level, COLOURS["plain"]),
            linestyle="--" if threads == 1 else "-", marker="o" if threads == 1 else "s",
            label=f"{level}, {_counted(threads, 'thread')}",
        )  # fmt: skip


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
