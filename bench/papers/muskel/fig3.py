"""Figure 3: actual speedup for several grains, with plain and with secure links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.papers.muskel import drawing
from bench.papers.muskel.curves import Curve, Say, degrees, hollow, measure, new_curve, rows, shown_seconds, transfers
from bench.papers.muskel.places import Place
from bench.papers.muskel.settings import Settings

LEVELS = ("plain", "secure")


@dataclass
class Figure3:
    """The same programs over both kinds of links; their grains are by the plain transfer, as W is the same."""

    title = "Speedup by number of interpreters"
    size = (11.0, 5.4)
    curves: list[Curve]
    transfer: dict[str, float]
    line: str

    @classmethod
    def measured(cls, place: Place, settings: Settings, say: Say) -> Figure3:
        """Measure Tc, choose Tw for each grain, then take the samples."""
        place.lines[0].lay()
        transfer = transfers(place, settings, LEVELS)
        programs = [grain * transfer["plain"] for grain in settings.grains]
        steps = degrees(place, settings)
        curves = [
            new_curve(settings, steps, level, seconds / transfer[level], seconds)
            for level in LEVELS
            for seconds in programs
        ]
        measure(place, settings, curves, say)
        return cls(curves, transfer, place.lines[0].title)

    def tables(self) -> list[list[list[str]]]:
        """Rows, the head first."""
        return [rows(self.curves)]

    def words(self) -> list[str]:
        """What one must know to read it."""
        taken = ", ".join(f"{level} {shown_seconds(seconds)}" for level, seconds in self.transfer.items())
        return [
            f"On {self.line}. Tc, the transfer of C to and fro: {taken}.",
            "Speedup against sequential execution without any communication.",
            *hollow(self.curves),
        ]

    def to_json(self) -> dict[str, Any]:
        """Every sample."""
        return {
            "line": self.line,
            "transfer_seconds": self.transfer,
            "curves": [curve.to_json() for curve in self.curves],
        }

    def draw(self, canvas: Any) -> None:
        """Two panels, plain and secure, as in the paper."""
        panels = canvas.subplots(1, 2, sharex=True, sharey=True)
        for axes, level in zip(panels, LEVELS, strict=True):
            mine = sorted((c for c in self.curves if c.level == level), key=lambda curve: -curve.grain)
            drawing.speedup_axes(axes, mine[0].points, title=f"{level.capitalize()} links")
            for curve, colour in zip(mine, drawing.shades(len(mine)), strict=True):
                drawing.curve(axes, curve, colour, f"G = {curve.g}:  {curve.legend}")
            drawing.legend(axes)
        panels[1].set_ylabel("")
