"""Figure 4, right: programs of the same grain over plain and over secure links, and how much longer they must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.papers.muskel import drawing
from bench.papers.muskel.curves import Curve, Say, degrees, hollow, measure, new_curve, rows, shown_seconds, transfers
from bench.papers.muskel.places import Place
from bench.papers.muskel.settings import KIB, Settings

LEVELS = ("plain", "secure")
#: How much longer secure muskel's instructions had to be (paper 000, section 4.3).
PAPER = 8


@dataclass
class IsoGrain:
    """`transfers`: Tc by line and level, seconds; each curve's W is its grain times its own level's Tc."""

    title = "Programs of the same grain, plain and secure"
    size = (11.0, 5.4)
    curves: list[Curve]
    transfers: dict[str, dict[str, float]]
    kib: float

    @classmethod
    def measured(cls, place: Place, settings: Settings, say: Say) -> IsoGrain:
        """Measure Tc on every line, the speedups on the first."""
        taken = {}
        for line in reversed(place.lines):
            line.lay()
            taken[line.title] = transfers(place, settings, LEVELS)
        transfer = taken[place.lines[0].title]
        steps = degrees(place, settings)
        curves = [
            new_curve(settings, steps, level, grain, grain * transfer[level])
            for grain in settings.iso_grains
            for level in LEVELS
        ]
        measure(place, settings, curves, say)
        return cls(curves, taken, 2 * settings.data / KIB)

    def ratio(self, line: str) -> float:
        """How many times longer instructions must be over secure links, for the same grain."""
        return self.transfers[line]["secure"] / self.transfers[line]["plain"]

    def tables(self) -> list[list[list[str]]]:
        """Rows, the heads first."""
        head = ["line", f"Tc plain, C = {self.kib:g}K", "Tc secure", "instructions longer for the same G"]
        lines = [
            [line, *(shown_seconds(seconds[level]) for level in LEVELS), f"{self.ratio(line):.2f} ×"]
            for line, seconds in self.transfers.items()
        ]
        return [rows(self.curves), [head, *lines, ["the paper, Fast Ethernet", "", "", f"{PAPER} ×"]]]

    def words(self) -> list[str]:
        """What one must know to read it."""
        line = f"On {list(self.transfers)[-1]}. Tw is G times the Tc measured for each kind of link."
        return [line, *hollow(self.curves)]

    def to_json(self) -> dict[str, Any]:
        """Every sample."""
        ratios = {line: self.ratio(line) for line in self.transfers}
        curves = [curve.to_json() for curve in self.curves]
        return {"transfer_seconds": self.transfers, "longer": ratios, "paper_longer": PAPER, "curves": curves}

    def draw(self, canvas: Any) -> None:
        """A panel for each grain, the coarse one first."""
        grains = sorted({curve.grain for curve in self.curves}, reverse=True)
        panels = canvas.subplots(1, len(grains), squeeze=False, sharex=True, sharey=True)[0]
        for axes, grain in zip(panels, grains, strict=True):
            mine = [curve for curve in self.curves if curve.grain == grain]
            drawing.speedup_axes(axes, mine[0].points, title=f"G = {mine[0].g}")
            for curve in mine:
                colour, label = drawing.COLOURS[curve.level], f"{curve.level}:  {curve.legend}"
                drawing.curve(axes, curve, colour, label, broad=curve.level == "plain")
            drawing.legend(axes)
        ratio = self.ratio(list(self.transfers)[-1])
        text = f"secure instructions must be\n{ratio:.2f} × longer for the same G\n(paper: {PAPER} ×)"
        drawing.remark(panels[0], text)
        for axes in panels[1:]:
            axes.set_ylabel("")
