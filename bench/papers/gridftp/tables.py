"""Tables 1 to 3: each level with one thread and with a pool of two, over one stream and over two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.papers.gridftp.systems import LEVELS, SYSTEMS, Cell, Samples, Say, measure_here
from bench.papers.muskel.drawing import COLOURS, legend
from bench.transfer.settings import Settings
from bench.transfer.site import Site

#: Threads and streams by the paper's name of the column.
COLUMNS = {"Single P1": (1, 1), "Single P2": (1, 2), "Pool P1": (2, 1), "Pool P2": (2, 2)}
#: Mbit/s by table and level, in the order of the columns (paper 003, section V.A).
PAPER = {
    "Table 1, Pentium 1.1 GHz dual core": (
        (814, 818, 816, 818),
        (812, 814, 813, 816),
        (169, 178, 164, 285),
        (76, 78, 75, 138),
    ),
    "Table 2, Opteron 2.4 GHz dual core": (
        (897, 897, 897, 897),
        (897, 897, 897, 897),
        (254, 268, 254, 471),
        (100, 101, 100, 196),
    ),
    "Table 3, Itanium 1.2 GHz dual processor": (
        (903, 905, 903, 906),
        (899, 899, 899, 899),
        (488, 517, 488, 770),
        (177, 183, 177, 340),
    ),
}
_LOOKS = {"clear": "plain", "authenticated": "authenticated", "safe": "safe", "private": "secure"}


@dataclass
class Tables:
    """Of both systems; the paper's beside them."""

    samples: Samples

    @classmethod
    def measured(cls, site: Site, settings: Settings, rounds: int, say: Say) -> Tables:
        """The levels next to each other, so that they are measured within seconds."""
        cells = [_cell(system, level, column) for column in COLUMNS for system in SYSTEMS for level in LEVELS]
        return cls(measure_here(cells, site, settings, rounds, say))

    title = "Levels, threads and streams"
    size = 10.0, 4.6

    def tables(self) -> list[list[list[str]]]:
        """Ours and GridFTP's in the paper's form, and then the paper's three."""
        own = [
            [
                [f"{title}, Mbit/s", *COLUMNS],
                *(self.samples.row(level, [_cell(system, level, column) for column in COLUMNS]) for level in LEVELS),
            ]
            for system, title in SYSTEMS.items()
        ]
        papers = [
            [
                [f"paper: {title}", *COLUMNS],
                *([level, *map(str, rates)] for level, rates in zip(LEVELS, table, strict=True)),
            ]
            for title, table in PAPER.items()
        ]
        return [*own, *papers]

    def words(self) -> list[str]:
        """What the columns are."""
        return [
            "Memory to memory on one machine, whose cores carry both ends; the paper's had 1 Gbit/s between them. "
            "Single is one thread at each end, Pool two; P1 and P2 are streams. GridFTP copies between two servers. "
            "GridFTP's safe encrypts.",
            *self.samples.words(),
        ]

    def to_json(self) -> dict[str, Any]:
        """Every sample."""
        return {"title": self.title, "samples": self.samples.to_json(), "paper": PAPER}

    def draw(self, canvas: Any) -> None:
        """Both systems and the paper's fastest machine, on one logarithmic scale."""
        panels = canvas.subplots(1, 3, sharey=True)
        for axes, (system, title) in zip(panels, SYSTEMS.items(), strict=False):
            rates = [[self.samples.median(_cell(system, level, column)) for column in COLUMNS] for level in LEVELS]
            _bars(axes, title, rates)
        last, table = list(PAPER.items())[-1]
        _bars(panels[2], f"paper, {last.split(',')[0].lower()}", [list(rates) for rates in table])
        panels[0].set_ylabel("Mbit/s")
        legend(panels[2], "upper right")


def _cell(system: str, level: str, column: str) -> Cell:
    threads, streams = COLUMNS[column]
    alone = system == "gridftp" and threads == 1
    return Cell(system, level, streams, 0 if alone else threads)


def _bars(axes: Any, title: str, rates: list[list[float | None]]) -> None:
    axes.set(title=title, yscale="log")
    axes.grid(visible=False, axis="x")
    for at, (level, some) in enumerate(zip(LEVELS, rates, strict=True)):
        xs = [x + (at - 1.5) * 0.2 for x in range(len(COLUMNS))]
        axes.bar(xs, [rate or 0 for rate in some], width=0.18, color=COLOURS[_LOOKS[level]], label=level)
    axes.set_xticks(range(len(COLUMNS)), [column.replace(" ", "\n") for column in COLUMNS])
