"""Figure 5: how long a message takes from one process to another, by its size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.papers.alchemi.looks import LOOKS
from bench.papers.alchemi.runs import Library
from bench.papers.muskel.drawing import legend
from bench.papers.muskel.settings import shown_size


@dataclass
class Latency:
    """``samples[library][bytes]``: microseconds, one a round."""

    libraries: Mapping[str, Library]
    samples: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    def measure(self, seconds: float, rounds: int, say: Callable[[str], None]) -> None:
        """All in turn; `seconds` for each size."""
        for number in range(rounds):
            for name, library in self.libraries.items():
                say(f"round {number + 1} of {rounds}: {library.title}")
                for size, taken in library.latencies(seconds).items():
                    self.samples.setdefault(name, {}).setdefault(size, []).append(taken)

    @property
    def title(self) -> str:
        """What it shows."""
        return "Latency of messages between two processes"

    @property
    def size(self) -> tuple[float, float]:
        """Of the plot."""
        return 7.5, 5.0

    def tables(self) -> list[list[list[str]]]:
        """A row for each size."""
        head = ["µs, one way", *(self.libraries[name].title for name in self.samples)]
        sizes = next(iter(self.samples.values()))
        rows = [[_shown(size), *(f"{median(found[size]):.2f}" for found in self.samples.values())]
                for size in sizes]  # fmt: skip
        return [[head, *rows]]

    def words(self) -> list[str]:
        """What was measured."""
        return ["Half of a round trip of bytes in memory that is used again, with mpi4py; medians."]

    def to_json(self) -> dict[str, Any]:
        """Every sample."""
        return {"title": self.title, "microseconds": self.samples}

    def draw(self, canvas: Any) -> None:
        """Sizes and times on logarithmic scales."""
        axes = canvas.subplots()
        axes.set(xlabel="message size", ylabel="latency, µs")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for name, found in self.samples.items():
            values = [median(samples) for samples in found.values()]
            axes.plot(list(found), values, **LOOKS[name], label=self.libraries[name].title)
        sizes = list(next(iter(self.samples.values())))
        axes.set_xticks(sizes, [_shown(size) for size in sizes])
        axes.minorticks_off()
        legend(axes)


def _shown(size: int) -> str:
    return str(size) if size < 1024 else shown_size(size)
